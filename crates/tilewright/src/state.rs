//! Values that a caller owns and runs change where they lie: caches of keys and values, weights
//! that are trained and what their optimiser keeps.
//!
//! [`Options::updates`](crate::Options::updates) says which output is what becomes of which input.
//! Such an input is not given to a run but lies in a [`ModelState`], and so does the output behind
//! the run. Where the compiler can, code writes what changes into the memory of the state and
//! nothing is copied (`lower`, file `updates`), or may write all of the output there (`sharing`);
//! elsewhere the output is copied there behind the run. All give the same values.
//!
//! A named extent that is the first of all axes that have it may be less in a run than what memory
//! was reserved for ([`ModelState::set_extent`]): what a run sees then is the front of each value,
//! which lies in one piece. Memory that no run has touched takes no room.
//!
//! A run may change several states at once ([`Executable::run_with_states`]), of executables with
//! other numbers of them, too: what is known of code is found by the names of values.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Diagnostic, Diagnostics, IntoTree, Result, codes};
use front::{Port, PortExtent, unknown_input};
use runtime::Block;
use tensor::{DType, Tensor, Value};

use crate::executable::{Executable, Update};
use crate::outputs::Outputs;
use crate::specialisation::Specialisation;
use crate::variant::Variant;

/// How many shapes a state knows the code of by itself.
const MOST_KNOWN: usize = 16;

/// What runs of an executable change, of one caller.
pub struct ModelState {
    values: Vec<Held>,
    extents: Extents,
    /// Code by the shapes of the inputs, the last used last.
    known: Vec<Known>,
}

/// Named extents of values.
type Extents = BTreeMap<String, Reserved>;

/// What an extent may be in runs.
struct Reserved {
    least: usize,
    now: usize,
    most: usize,
}

/// Code for shapes of inputs.
#[derive(Clone)]
struct Known {
    shapes: Arc<[Vec<usize>]>,
    variant: Arc<Variant>,
    code: Arc<Specialisation>,
    /// Where each value of each state goes, in their order.
    bindings: Arc<[Binding]>,
}

/// The numbers of the input that a value is given as, and of the output that becomes of it.
#[derive(Clone, Copy)]
struct Binding {
    input: usize,
    output: usize,
}

/// States of a run, each with what stands before the names of its values.
type States<'s, 'a> = [(&'s str, &'a mut ModelState)];

/// A value of a state.
struct Held {
    port: Port,
    dtype: DType,
    memory: Block,
}

impl Held {
    /// The shape in a run.
    fn shape(&self, extents: &Extents) -> Vec<usize> {
        let extent = |extent: &PortExtent| match extent {
            PortExtent::Fixed(extent) => *extent,
            PortExtent::Symbolic(name) => extents.get(name).map_or(0, |extent| extent.now),
            PortExtent::Any => 0,
        };
        self.port.shape.iter().map(extent).collect()
    }

    /// Whether it can be given as an input.
    fn fits(&self, port: &Port) -> bool {
        let alike = |pair: (&PortExtent, &PortExtent)| match pair {
            (PortExtent::Fixed(own), PortExtent::Fixed(other)) => own == other,
            _ => true,
        };
        let (own, other) = (&self.port.shape, &port.shape);
        port.dtype == Some(self.dtype)
            && own.len() == other.len()
            && own.iter().zip(other).all(alike)
    }

    fn bytes(&self, shape: &[usize]) -> usize {
        shape.iter().product::<usize>() * self.dtype.bits() as usize / 8
    }
}

impl ModelState {
    /// The extent of this name in the runs that come, at most what memory was reserved for.
    ///
    /// # Errors
    /// More than that; a name that no value has in front.
    pub fn set_extent(&mut self, name: &str, extent: usize) -> Result<()> {
        let refuse = |message: String, reason: &str| {
            Err(Diagnostic::error(codes::WRONG_SHAPE, message)
                .at("the state")
                .because(reason)
                .remedy("make a state for these extents")
                .into())
        };
        let Some(own) = self.extents.get_mut(name) else {
            let message = format!("no value of the state has an extent `{name}`");
            return refuse(message, "it has none of that name");
        };
        if extent > own.most {
            let message = format!("the state has room for {} {name}, not {extent}", own.most);
            return refuse(message, "its memory was reserved when it was made");
        }
        if extent < own.least {
            let message = format!("`{name}` cannot be less than {}", own.least);
            return refuse(message, "only the front of a value can be seen in part");
        }
        own.now = extent;
        Ok(())
    }

    /// The elements of the value that becomes of an input, in the shape of the last run.
    ///
    /// # Errors
    /// `TW0202` if the state has none of that name.
    pub fn value(&self, input: &str) -> Result<Tensor> {
        let held = &self.values[self.place(input)?];
        let shape = held.shape(&self.extents);
        let bytes = held.memory.bytes()[..held.bytes(&shape)].to_vec();
        Tensor::from_bytes(held.dtype, &shape, bytes.into()).map_err(Diagnostics::internal)
    }

    /// Gives the value of an input other elements, in the shape of the runs that come.
    ///
    /// # Errors
    /// `TW0202` if the state has none of that name; elements of another type or shape.
    pub fn set_value(&mut self, input: &str, value: &Tensor) -> Result<()> {
        let place = self.place(input)?;
        let held = &mut self.values[place];
        let shape = held.shape(&self.extents);
        if value.dtype() != held.dtype || value.shape() != shape {
            let (dtype, own) = (value.dtype(), value.shape());
            let message = format!("`{input}` is {}{shape:?}, not {dtype}{own:?}", held.dtype);
            return Err(Diagnostic::error(codes::WRONG_SHAPE, message)
                .at("the state")
                .because("a value of a state keeps its type and its shape")
                .remedy("set the extents of the state first, then values that fit them")
                .into());
        }
        held.memory.bytes_mut()[..value.bytes().len()].copy_from_slice(value.bytes());
        Ok(())
    }

    fn place(&self, input: &str) -> Result<usize> {
        let place = self.values.iter().position(|held| held.port.name == input);
        place.ok_or_else(|| {
            Diagnostic::error(codes::UNKNOWN_INPUT, format!("the state has no value `{input}`"))
                .because("the options name other inputs that are updated")
                .remedy("name one of those")
                .into()
        })
    }
}

impl Executable {
    /// A state, all zeros, for the inputs that the options name as updated. `extents` are those of
    /// named dimensions of these inputs, the most that runs will have.
    ///
    /// # Errors
    /// `TW0202` for names in the options that the model does not have; `TW0205` for dimensions
    /// without an extent; too little memory; more than the limits.
    pub fn new_state(&self, extents: &BTreeMap<String, usize>) -> Result<ModelState> {
        let mut values: Vec<Held> = Vec::new();
        let mut reserved = 0_u64;
        for (output, input) in &self.options().updates {
            let place = |ports: &[Port], name: &str| {
                ports.iter().position(|port| port.name == name).ok_or_else(|| {
                    let message = format!("the model has no input or output `{name}`");
                    Diagnostic::error(codes::UNKNOWN_INPUT, message)
                        .because(format!("the options say that `{output}` updates `{input}`"))
                        .remedy("use the names of `Executable::inputs` and `Executable::outputs`")
                })
            };
            let (input, _) = (place(self.inputs(), input)?, place(self.outputs(), output)?);
            let port = self.inputs()[input].clone();
            let known = |extent: &PortExtent| match extent {
                PortExtent::Fixed(extent) => Ok(*extent),
                PortExtent::Symbolic(name) if extents.contains_key(name) => Ok(extents[name]),
                PortExtent::Symbolic(_) | PortExtent::Any => {
                    let message = format!("input `{}` has extents that are not given", port.name);
                    Err(Diagnostic::error(codes::UNBOUND_DIMENSION, message)
                        .because("memory is reserved for it")
                        .remedy("give the most that runs will have"))
                }
            };
            let shape = port.shape.iter().map(known).collect::<std::result::Result<Vec<_>, _>>()?;
            let dtype = port.dtype.filter(|dtype| *dtype != DType::String);
            let Some(dtype) = dtype else {
                let message = format!("input `{}` cannot be updated", port.name);
                return Err(Diagnostic::error(codes::WRONG_DTYPE, message)
                    .because("it has no elements of a known number of bits")
                    .remedy("give it to each run")
                    .into());
            };
            let elements = shape.iter().try_fold(1_usize, |all, &extent| all.checked_mul(extent));
            let bytes = elements.and_then(|elements| elements.checked_mul(dtype.bits() as usize));
            let bytes = bytes.map_or(usize::MAX, |bits| bits.div_ceil(8));
            reserved = reserved.saturating_add(bytes as u64);
            let weights = self.statistics().constant_bytes as u64;
            let limits = &self.options().limits;
            limits.check_memory(reserved, weights.max(reserved / 2), "the state would take")?;
            let memory = Block::zeroed(bytes)?;
            values.push(Held { port, dtype, memory });
        }
        let extents = extents.iter().map(|(name, &most)| {
            // What is not in front of all values that have it stays as it is.
            let behind = values.iter().flat_map(|held| held.port.shape.iter().skip(1));
            let is_behind = behind.clone().any(|it| *it == PortExtent::Symbolic(name.clone()));
            let least = if is_behind { most } else { 0 };
            (name.clone(), Reserved { least, now: most, most })
        });
        let extents = extents.collect();
        Ok(ModelState { values, extents, known: Vec::new() })
    }

    /// Runs the model on tensors by the names of those inputs that are not updated, and the state;
    /// the outputs that are not updated, in the order of the model. The updated ones are in the
    /// state then. When a run fails, the state holds anything where the run would have written.
    ///
    /// # Errors
    /// As [`Executable::run_named`]; a state of another executable.
    pub fn run_with_state(
        &self,
        inputs: &[(&str, &Tensor)],
        state: &mut ModelState,
    ) -> Result<Outputs> {
        self.run_with_states(inputs, &mut [("", state)])
    }

    /// As [`Self::run_with_state`], with several states, each with what stands before its names:
    /// the value `past` of a state with `one.` is the input `one.past`. Together they have the
    /// inputs that the options name as updated. A state may be of another executable that updates
    /// inputs of the same types.
    ///
    /// # Errors
    /// As [`Self::run_with_state`].
    pub fn run_with_states(
        &self,
        inputs: &[(&str, &Tensor)],
        states: &mut [(&str, &mut ModelState)],
    ) -> Result<Outputs> {
        let mut given: Vec<Option<&Tensor>> = vec![None; self.inputs().len()];
        for &(name, tensor) in inputs {
            let place = self.inputs().iter().position(|port| port.name == name);
            let Some(place) = place else { return Err(unknown_input(name, self.inputs()).into()) };
            self.inputs()[place].check(tensor)?;
            given[place] = Some(tensor);
        }
        let is_for = |known: &&Known| known.is_for(self, &given, states);
        let known = states.first().and_then(|(_, first)| first.known.iter().find(is_for));
        let known = match known {
            Some(known) => known.clone(),
            None => {
                let made = self.known(&given, states)?;
                if let Some((_, first)) = states.first_mut() {
                    if first.known.len() == MOST_KNOWN {
                        _ = first.known.remove(0);
                    }
                    first.known.push(made.clone());
                }
                made
            }
        };
        let mut updates = Vec::new();
        let mut bindings = known.bindings.iter();
        for (_, state) in states {
            let ModelState { values, extents, .. } = &mut **state;
            for (held, &Binding { input, output }) in values.iter_mut().zip(&mut bindings) {
                let bytes = held.bytes(&held.shape(extents));
                let memory = &mut held.memory.bytes_mut()[..bytes];
                updates.push(Update { input, output: Some(output), memory });
            }
        }
        let Known { variant, code, .. } = &known;
        let results = variant.run_updating(&self.model, code, &given, &mut updates)?;
        let names = self.outputs().iter().enumerate();
        let named = names
            .zip(results)
            .filter_map(|((_, port), result)| Some((port.name.clone(), Value::from(result?))));
        Ok(Outputs::new(named.collect()))
    }

    /// Where the values of states go.
    ///
    /// # Errors
    /// They are not those that the options name as updated.
    fn bindings(&self, states: &States<'_, '_>) -> Result<Vec<Binding>> {
        let updates = &self.options().updates;
        let place = |ports: &[Port], name: &str| ports.iter().position(|port| port.name == name);
        let outputs: BTreeMap<&str, &str> =
            updates.iter().map(|(output, input)| (&input[..], &output[..])).into_map();
        let of = |(prefix, held): (&str, &Held)| {
            let name = format!("{prefix}{}", held.port.name);
            let output = place(self.outputs(), outputs.get(&name[..])?)?;
            let input = place(self.inputs(), &name)?;
            held.fits(&self.inputs()[input]).then_some(Binding { input, output })
        };
        let held = states.iter().flat_map(|(prefix, state)| {
            let own = state.values.iter();
            own.map(move |held| (*prefix, held))
        });
        let bindings: Option<Vec<Binding>> = held.map(of).collect();
        let bindings = bindings.filter(|bindings| bindings.len() == updates.len());
        bindings.ok_or_else(|| {
            Diagnostic::error(codes::WRONG_SHAPE, "the state is of another model")
                .at("the state")
                .because("its values are not those that this executable updates")
                .remedy("make a state with this executable")
                .into()
        })
    }

    /// The code for what is given and these states.
    fn known(&self, given: &[Option<&Tensor>], states: &States<'_, '_>) -> Result<Known> {
        let bindings = self.bindings(states)?;
        let mut tensors: Vec<Option<Tensor>> =
            given.iter().map(|given| given.map(Tensor::clone)).collect();
        let held = states.iter().flat_map(|(_, state)| {
            state.values.iter().map(|held| (held.dtype, held.shape(&state.extents)))
        });
        for (binding, (dtype, shape)) in bindings.iter().zip(held) {
            // Only the shape of what stands for a value of the state is looked at.
            let stand_in = Tensor::try_zeros(dtype, &shape);
            let too_large = || Diagnostics::internal("too little memory for a shape");
            tensors[binding.input] = Some(stand_in.ok_or_else(too_large)?);
        }
        let missing = |(port, tensor): (&Port, Option<Tensor>)| match tensor {
            Some(tensor) => Ok(tensor),
            None => Err(Diagnostics::from(port.missing())),
        };
        let tensors = self.inputs().iter().zip(tensors).map(missing);
        let tensors = tensors.collect::<Result<Vec<Tensor>>>()?;
        let (variant, code) = self.only_segment(&tensors)?;
        let Some(code) = code else {
            let message = "values of this model cannot be updated where they lie";
            return Err(Diagnostic::error(codes::UNBOUND_DIMENSION, message)
                .because("it computes sizes from data, or has loops whose ends data decide")
                .remedy("run it without updates")
                .into());
        };
        let shapes = tensors.iter().map(|tensor| tensor.shape().to_vec()).collect();
        Ok(Known { shapes, variant, code, bindings: bindings.into() })
    }
}

impl Known {
    /// Whether it is for what is given and these states, with this executable.
    fn is_for(
        &self,
        executable: &Executable,
        given: &[Option<&Tensor>],
        states: &States<'_, '_>,
    ) -> bool {
        let inputs = executable.inputs();
        let values = states.iter().map(|(_, state)| state.values.len()).sum::<usize>();
        if self.shapes.len() != inputs.len() || self.bindings.len() != values {
            return false;
        }
        let mut bindings = self.bindings.iter();
        let is_held = states.iter().all(|(prefix, state)| {
            state.values.iter().zip(&mut bindings).all(|(held, binding)| {
                let name = inputs[binding.input].name.strip_prefix(prefix);
                name == Some(&held.port.name[..])
                    && held.fits(&inputs[binding.input])
                    && held.shape(&state.extents) == self.shapes[binding.input]
            })
        });
        let is_given = |(given, shape): (&Option<&Tensor>, &Vec<usize>)| {
            given.is_none_or(|given| given.shape() == shape)
        };
        let count = given.iter().filter(|given| given.is_some()).count();
        let id = self.variant.id;
        is_held
            && count + values == inputs.len()
            && given.iter().zip(self.shapes.iter()).all(is_given)
            && executable.model.cache.variant(|variant| variant.id == id).is_some()
    }
}
