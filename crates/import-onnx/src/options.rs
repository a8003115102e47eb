//! What the user can say about an import.

use std::collections::{BTreeMap, BTreeSet};

use base::{Diagnostics, Limits};
use module::Module;
use tensor::{Scalar, Structure, Tensor};

/// How to import a model.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Values of named dimensions (`--dim NAME=N`).
    pub dims: BTreeMap<String, i64>,
    /// Concrete shapes of inputs by name; they bind the symbols of those inputs' dimensions.
    pub input_shapes: BTreeMap<String, Vec<i64>>,
    /// How inputs that are sequences or optional values are made of tensors, by name. Those tensors
    /// have the names that [`Structure::names`] gives, here and in the function.
    pub input_structures: BTreeMap<String, Structure>,
    /// Values of inputs by name on which shapes may depend. The inputs stay parameters, which must
    /// be given these values; other inputs' values are never needed to import.
    pub input_values: BTreeMap<String, Tensor>,
    /// Names of constants of the model that become literals: passes may read their values, and they
    /// cannot be replaced by other weights.
    pub literals: BTreeSet<String>,
    /// Whether the model is a part of another, whose inputs have other values each time: sizes are
    /// computed while running where asking for a value would do, too, and random numbers without a
    /// seed are not those of other parts.
    pub is_part: bool,
    /// What is refused as too large.
    pub limits: Limits,
}

/// What became of an import.
#[derive(Clone, Debug)]
pub enum Imported {
    /// The model.
    Module {
        /// It holds one function, whose parameters and results are tensors.
        module: Module,
        /// How the model's outputs are made of tensors: its results, and strings.
        outputs: Vec<Structure>,
        /// Where strings stand among those.
        strings: Strings,
    },
    /// Shapes depend on more than extents of the inputs; import again with these told.
    Asks {
        /// The inputs by name, and what must be told of each; none where that is no help.
        inputs: BTreeMap<String, Wanted>,
        /// The node of the model's graph at which something must be known.
        node: Option<usize>,
        /// What is to be said where it cannot be told.
        reason: Diagnostics,
    },
}

/// Tensors of strings among what a model's outputs are made of, by number.
#[derive(Clone, Debug, Default)]
pub struct Strings {
    /// Those that are known: the function does not give them.
    pub known: BTreeMap<usize, Tensor>,
    /// Those that data choose: the function gives i64 numbers of strings in these lists.
    pub coded: BTreeMap<usize, Vec<String>>,
}

impl Strings {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty() && self.coded.is_empty()
    }

    /// Puts them among what the function gives.
    pub fn put_into(&self, results: &mut Vec<Tensor>) {
        for (&number, strings) in &self.known {
            results.insert(number, strings.clone());
        }
        for (&number, list) in &self.coded {
            let codes = &results[number];
            let text = |code: Scalar| {
                usize::try_from(code.as_i64()).ok().and_then(|code| list.get(code).cloned())
            };
            let texts = codes.scalars().map(|code| text(code).unwrap_or_default()).collect();
            results[number] = Tensor::from_strings(codes.shape(), texts);
        }
    }
}

/// What an import must be told of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wanted {
    /// How it is made of tensors, in `ImportOptions::input_structures`.
    Structure,
    /// The shape: even the number of axes is not declared.
    Shape,
    /// The elements, in `ImportOptions::input_values`.
    Value,
    /// As `Value`, of encoded contents, which may be of any length.
    Contents,
}

impl ImportOptions {
    /// Whether the options tell this of an input.
    pub(crate) fn tells(&self, name: &str, wanted: Wanted) -> bool {
        match wanted {
            Wanted::Structure => self.input_structures.contains_key(name),
            Wanted::Shape => self.input_shapes.contains_key(name),
            Wanted::Value | Wanted::Contents => self.input_values.contains_key(name),
        }
    }
}
