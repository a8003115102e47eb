//! What must be known of a run before all of a model can be imported.
//!
//! Most of what only a run knows has a place in the graph: sizes are symbols, choices are regions.
//! What decides how many axes a value has or along which axes a reduction goes has none: it is a
//! *need*. A front end reports all needs that it meets, with a function that computes those that no
//! input answers; imported again with these *facts*, the model may have others, or none.

use std::collections::BTreeMap;

use base::Diagnostic;
use graph::{ElementType, ValueId};
use sym::SymbolId;
use tensor::Tensor;

/// What is known of the values of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Types of inputs that are lists, by name, where the model does not declare how many axes the
    /// tensors have that they hold.
    pub types: BTreeMap<String, ElementType>,
    /// Shapes of inputs, by name.
    pub shapes: BTreeMap<String, Vec<i64>>,
    /// Elements of inputs, by name.
    pub values: BTreeMap<String, Tensor>,
    /// Elements of values that are computed, as needs name them: by their place in the model.
    pub computed: BTreeMap<String, Tensor>,
    /// Whether sizes are facts, too, instead of symbols: where a model is right for some sizes
    /// only, or cannot be imported for all.
    pub sizes: bool,
}

/// A kind of fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactKind {
    /// Sizes that are symbols otherwise.
    Sizes,
    /// The type of a list.
    Type,
    /// A shape.
    Shape,
    /// The elements, of which there are few.
    Value,
}

/// The most elements of a value that is needed as a fact: all that is compiled with it is compiled
/// for it alone.
pub const FACT_ELEMENTS: usize = 1024;

/// A fact that is missing.
#[derive(Clone, Debug)]
pub struct Need {
    /// The input, or the value that is computed, as the facts name it.
    pub name: String,
    /// What must be known of it.
    pub kind: FactKind,
    /// Which result of the imported function is the value; none of an input.
    pub result: Option<usize>,
    /// Why, and what is to be said where it cannot be told.
    pub reason: Diagnostic,
}

/// What is being lowered, for the names of values.
#[derive(Clone, Debug, Default)]
pub struct Here {
    /// The graphs around: each as the node that holds it and its number there.
    pub prefix: String,
    /// The number of the node in its graph.
    pub node: usize,
    /// How many graphs of the node have been lowered.
    pub graphs: usize,
    /// How many symbols the node has bound.
    pub(crate) binds: usize,
}

impl Here {
    /// A node in the same graph.
    #[must_use]
    pub fn at(&self, node: usize) -> Here {
        Here { prefix: self.prefix.clone(), node, graphs: 0, binds: 0 }
    }

    /// What a value of this name in the graph is called in all of the model. No other is called so:
    /// a path has no colon.
    pub(crate) fn value_name(&self, name: &str) -> String {
        format!("{}:{name}", self.prefix)
    }

    /// What the next size that the node binds is called in all of the model.
    pub(crate) fn size_name(&mut self) -> String {
        self.binds += 1;
        format!("{}{}#{}", self.prefix, self.node, self.binds)
    }

    /// The next graph of the node.
    #[must_use]
    pub fn inside(&self) -> Here {
        let Here { prefix, node, graphs, .. } = self;
        Here { prefix: format!("{prefix}{node}.{graphs}/"), ..Here::default() }
    }
}

/// Needs under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    pub(crate) all: Vec<(Need, Option<ValueId>)>,
    /// Names of values.
    pub(crate) names: BTreeMap<ValueId, String>,
    /// Symbols that nodes bind, and the values that they are bound to.
    pub(crate) bound: BTreeMap<SymbolId, ValueId>,
    /// Names of extents of what is taken out of lists or given by host functions.
    pub(crate) extents: BTreeMap<SymbolId, String>,
}
