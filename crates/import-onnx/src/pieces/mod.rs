//! A graph divided where what is to be compiled depends on values that only a run knows.
//!
//! Some nodes are *driven*: a loop that computes sizes or changes what it carries from one turn to
//! the next, a branch of which one side gives other shapes than the other, a node that puts
//! sequences together. Whoever runs the pieces does what they say, with values in hand. All other
//! nodes stand in *parts*, each as large as the driven nodes allow: models like any other, whose
//! inputs are known when they are first run. So every shape is known when kernels are made, in the
//! bodies of loops too, which are parts of their own.
//!
//! Constants, and the nodes that compute them, are in each part that reads them.

mod division;
mod input_type;

use tensor::DType;

use self::division::Division;
pub use self::input_type::InputType;
use crate::inputs;
use crate::proto::ModelProto;

/// A graph as pieces that run one after another.
#[derive(Clone, Debug)]
pub struct Pieces {
    /// The pieces. Each reads inputs of the graph and what earlier ones give, by name.
    pub pieces: Vec<Piece>,
    /// The names of the graph's outputs.
    pub outputs: Vec<String>,
}

/// A piece of a graph.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Nodes that are compiled.
    Part(Part),
    /// A node that is driven.
    Driven(Driven),
}

/// A model whose inputs are declared when their types are known.
#[derive(Clone, Debug)]
pub struct Part {
    /// The names of its inputs.
    pub inputs: Vec<String>,
    /// The names of its outputs, each once.
    pub outputs: Vec<String>,
    model: ModelProto,
}

/// A node that is driven: operands and results by name, a name left out empty.
#[derive(Clone, Debug)]
pub struct Driven {
    /// How a diagnostic names the node.
    pub place: String,
    /// What it reads.
    pub operands: Vec<String>,
    /// What it gives.
    pub results: Vec<String>,
    /// What it does.
    pub work: Work,
    /// The graphs inside of it.
    pub bodies: Vec<Body>,
}

/// What a driven node does.
#[derive(Clone, Debug)]
pub enum Work {
    /// ONNX's Loop: operands are the number of iterations, the condition and what is carried.
    Loop {
        /// What is stacked.
        stacked: Vec<Stacked>,
    },
    /// ONNX's Scan: operands are what is carried, then what is scanned.
    Scan {
        /// How each operand that is scanned is.
        scanned: Vec<Along>,
        /// What is stacked.
        stacked: Vec<Stacked>,
    },
    /// ONNX's If: the operand is the condition, which chooses one of two graphs.
    If,
    /// A call of a function that the model defines.
    Call,
    /// An operator on sequences and optional values.
    List(ListWork),
}

/// An axis along which something is taken apart or put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Along {
    /// The axis, which may count from the end.
    pub axis: i64,
    /// Whether from the end to the front.
    pub is_reversed: bool,
}

/// What a loop stacks: how, and what is declared of a row.
#[derive(Clone, Debug, Default)]
pub struct Stacked {
    /// Where rows go.
    pub along: Along,
    /// The element type.
    pub dtype: Option<DType>,
    /// The extents that are fixed.
    pub shape: Vec<Option<usize>>,
}

/// A graph inside of a node. The part's inputs are those of the graph, then names around it.
#[derive(Clone, Debug)]
pub struct Body {
    /// The graph as a model.
    pub part: Part,
    /// The names of its outputs, of which some may be the same.
    pub outputs: Vec<String>,
}

/// Operators on sequences and optional values that compute nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListWork {
    /// An empty sequence, or one of the operands.
    Sequence,
    /// The sequence with a value inserted at a place.
    Insert,
    /// The sequence without the value at a place.
    Erase,
    /// The value at a place.
    At,
    /// How many values there are.
    Length,
    /// The tensors put together along an axis, which may be a new one.
    Concat {
        /// The axis, which may count from the end.
        axis: i64,
        /// Whether it is new.
        is_new: bool,
    },
    /// An optional value.
    Optional,
    /// What an optional value holds.
    Element,
    /// Whether an optional value holds something.
    HasElement,
    /// The operand.
    Same,
}

impl Part {
    /// The model with inputs of these types.
    #[must_use]
    pub fn model(&self, inputs: &[InputType]) -> ModelProto {
        let mut model = self.model.clone();
        if let Some(graph) = &mut model.graph {
            let declared = self.inputs.iter().zip(inputs);
            graph.input = declared.map(|(name, ty)| ty.declaration(name)).collect();
        }
        model
    }

    /// The part in pieces, where it works with sequences: none of it depends on how many values
    /// they have.
    #[must_use]
    pub fn lists_apart(&self) -> Option<Pieces> {
        let division = Division::of(&self.model, &self.inputs)?;
        (division.has_driven() && division.gives(&self.outputs))
            .then(|| division.pieces(&self.outputs))
    }
}

/// The pieces of a model that cannot be compiled as a whole for what one of its nodes needs to be
/// known. None where the node is not one to drive, and already has everything it reads in hand.
///
/// At most so many loops and branches are driven: that node and others behind it. If it is neither,
/// others of its operator wait with it.
#[must_use]
pub fn pieces_at(model: &ModelProto, node: usize, most: usize) -> Option<Pieces> {
    let graph = model.graph.as_ref()?;
    let inputs = inputs::without_default(graph);
    let inputs: Vec<String> = inputs.into_iter().map(|input| input.name.clone()).collect();
    let mut division = Division::of(model, &inputs)?;
    division.drive(node, most)?;
    let outputs: Vec<String> = graph.output.iter().map(|output| output.name.clone()).collect();
    division.gives(&outputs).then(|| division.pieces(&outputs))
}
