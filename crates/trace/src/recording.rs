//! What a trace has recorded so far.
//!
//! All values of a trace share one [`Recording`]. It knows which regions are open: a value of a
//! region that has been closed, or of another trace, must not be read.

use std::cell::{RefCell, RefMut};
use std::panic::Location;
use std::rc::Rc;

use base::{ConstantId, Diagnostic, Id, codes};
use graph::{Built, FunctionBuilder, RegionId, TensorType, Type, ValueId, type_text};
use tensor::Tensor;

use crate::value::TracedValue;

/// A trace under way.
#[derive(Clone, Debug)]
pub(crate) struct Recording(Rc<RefCell<Recorded>>);

#[derive(Debug)]
struct Recorded {
    builder: FunctionBuilder,
    constants: Vec<Tensor>,
    /// The first mistake.
    refused: Option<Diagnostic>,
    /// The numbers of the open regions, that of the body first.
    open: Vec<u32>,
    /// How many regions there have been.
    regions: u32,
}

impl Recording {
    pub(crate) fn new(builder: FunctionBuilder) -> Recording {
        let recorded =
            Recorded { builder, constants: Vec::new(), refused: None, open: vec![0], regions: 1 };
        Recording(Rc::new(RefCell::new(recorded)))
    }

    /// Ends the trace: what it made, its constants, and what was wrong.
    pub(crate) fn finish(&self) -> (FunctionBuilder, Vec<Tensor>, Option<Diagnostic>) {
        let mut recorded = self.0.borrow_mut();
        let after = FunctionBuilder::new("after the trace");
        let builder = std::mem::replace(&mut recorded.builder, after);
        // Values that outlive the trace are of no region that is open.
        recorded.open = vec![u32::MAX];
        (builder, std::mem::take(&mut recorded.constants), recorded.refused.take())
    }

    /// A value of the innermost open region.
    pub(crate) fn value(&self, id: ValueId) -> TracedValue {
        let region = self.0.borrow().open.last().copied().unwrap_or_default();
        TracedValue { recording: self.clone(), id, region }
    }

    /// Whether the value may be read now.
    fn is_open(&self, value: &TracedValue) -> bool {
        Rc::ptr_eq(&self.0, &value.recording.0) && self.0.borrow().open.contains(&value.region)
    }

    pub(crate) fn builder(&self) -> RefMut<'_, FunctionBuilder> {
        RefMut::map(self.0.borrow_mut(), |recorded| &mut recorded.builder)
    }

    /// Notes what is wrong, unless something was before.
    pub(crate) fn refuse(&self, diagnostic: Diagnostic) {
        self.0.borrow_mut().refused.get_or_insert(diagnostic);
    }

    /// The type of a value, as text.
    pub(crate) fn type_text(&self, value: &TracedValue) -> String {
        let recorded = value.recording.0.borrow();
        let function = recorded.builder.function();
        match function.values.get(value.id) {
            Some(data) => type_text(&data.ty, &|symbol| function.symbol_name(symbol)).to_string(),
            None => "a value of a trace that has ended".to_owned(),
        }
    }

    /// What values are in the graph; none, and a mistake noted, where one must not be read here.
    #[track_caller]
    pub(crate) fn ids(&self, reader: &str, values: &[TracedValue]) -> Option<Vec<ValueId>> {
        if values.iter().all(|value| self.is_open(value)) {
            return Some(values.iter().map(|value| value.id).collect());
        }
        let message = format!("{reader} reads a value that is not to be had here");
        let diagnostic = Diagnostic::error(codes::UNDEFINED_NAME, message)
            .at(Location::caller().to_string())
            .because("the value is of a loop's body, a branch or a trace that has ended")
            .remedy("return it from there, and use what the loop or the branch returns");
        self.refuse(diagnostic);
        None
    }

    /// The constant of a tensor: a literal if it is small, else one of the function's weights.
    pub(crate) fn constant(&self, tensor: &Tensor) -> Built {
        const MOST_ELEMENTS: usize = 64;
        let mut recorded = self.0.borrow_mut();
        let is_small = !tensor.dtype().is_float() && tensor.len() <= MOST_ELEMENTS;
        if tensor.shape().is_empty() || is_small {
            return Ok(recorded.builder.literal(tensor.clone()));
        }
        let constant = ConstantId::new(recorded.constants.len());
        recorded.constants.push(tensor.clone());
        let shape = tensor.shape().iter().map(|&extent| extent.into()).collect();
        recorded.builder.weight(constant, TensorType { dtype: tensor.dtype(), shape })
    }

    /// Opens a region with parameters of these types.
    pub(crate) fn begin_region(&self, types: &[Type]) -> Vec<TracedValue> {
        let parameters = {
            let mut recorded = self.0.borrow_mut();
            let number = recorded.regions;
            recorded.regions += 1;
            recorded.open.push(number);
            recorded.builder.begin_region(types)
        };
        parameters.into_iter().map(|id| self.value(id)).collect()
    }

    /// Closes the innermost region. Its results may be of one around it.
    pub(crate) fn end_region(&self, results: &[ValueId]) -> RegionId {
        let mut recorded = self.0.borrow_mut();
        recorded.open.pop();
        recorded.builder.end_region(results)
    }

    /// Adds nodes for an operation; what they give, or the mistake noted and nothing.
    #[track_caller]
    pub(crate) fn add_all(
        &self,
        operation: &str,
        operands: &[TracedValue],
        make: impl FnOnce(&mut FunctionBuilder, &[ValueId]) -> Built<Vec<ValueId>>,
    ) -> Option<Vec<TracedValue>> {
        let place = Location::caller().to_string();
        let ids = self.ids(&format!("`{operation}`"), operands)?;
        let made = {
            let mut builder = self.builder();
            let location = builder.locations().node(&place, operation);
            builder.set_location(location);
            make(&mut builder, &ids)
        };
        match made {
            Ok(made) => Some(made.into_iter().map(|id| self.value(id)).collect()),
            Err(reason) => {
                let types: Vec<String> =
                    operands.iter().map(|operand| self.type_text(operand)).collect();
                let message = format!("`{operation}` does not take {}", types.join(" and "));
                let remedy = "`reshape`, `broadcast_to`, `transpose` and `cast` change shapes and \
                              element types";
                let diagnostic = Diagnostic::error(codes::INCONSISTENT_SHAPES, message);
                self.refuse(diagnostic.at(place).because(reason).remedy(remedy));
                None
            }
        }
    }
}
