//! A model run piece by piece, where what is to be compiled depends on values that only a run
//! knows: loops whose turns compute sizes or change the shapes of what they carry, branches whose
//! sides give other shapes, sizes computed by more than a count.
//!
//! Each part is an executable of its own, made for the types of the values that it is first given,
//! with extents free: what it specialises is kept as that of any model is. Parts that in turn
//! cannot be compiled as a whole are run in pieces, too.

mod drive;
mod values;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::limits::exceeded;
use base::{Diagnostic, Diagnostics, Result, codes};
use import_onnx::pieces::{Body, Driven, InputType, Part, Piece, Pieces, pieces_at};
use tensor::Value;

use self::drive::drive;
use self::values::bytes_of;
use crate::compile::compile_source;
use crate::executable::Executable;
use crate::source::{Source, Whole};
use crate::{Options, budget};

/// Executables of one part that are kept for types of values seen before.
const MOST_TYPES: usize = 16;

/// A model in pieces.
pub(crate) struct Piecewise {
    inputs: Vec<String>,
    outputs: Vec<String>,
    steps: Vec<Step>,
    common: Arc<Common>,
    /// Whether these are pieces of a model, not of a part of one.
    is_whole: bool,
}

enum Step {
    Part(Unit),
    Driven { node: Driven, bodies: Vec<Turn> },
}

/// A graph inside of a driven node.
struct Turn {
    unit: Unit,
    outputs: Vec<String>,
}

/// A part, compiled for each types of inputs that it meets.
struct Unit {
    part: Part,
    common: Arc<Common>,
    made: Mutex<Vec<Entry>>,
}

/// Types of inputs.
type Types = Vec<InputType>;

/// Types of inputs, and what is made for them.
type Entry = (Types, Arc<Made>);

/// What the parts of a model have in common.
struct Common {
    folder: Option<PathBuf>,
    options: Options,
    whole: Arc<Whole>,
}

impl Common {
    /// Refuses values that take more memory than a run may.
    fn check_bytes(&self, total: u64, what_takes: &str) -> Result<()> {
        let limits = &self.options.limits;
        Ok(budget::check_bytes(total, self.whole.given_bytes(), limits, what_takes)?)
    }
}

enum Made {
    Whole(Box<Executable>),
    Pieces(Piecewise),
}

/// Hears of each run of an executable of a part before it begins.
pub(crate) type Watch<'a> = dyn FnMut(&Executable, &[Value]) -> Result<()> + 'a;

/// Turns of a loop that take as long as to compile a part for new shapes.
const TURNS_OF_A_COMPILE: u64 = 64;

/// A run of a model and all its pieces.
pub(crate) struct Session<'a> {
    watch: &'a mut Watch<'a>,
    /// Turns of all loops so far.
    turns: u64,
    /// How often parts had been compiled before.
    compiled_before: Option<u64>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(watch: &'a mut Watch<'a>) -> Session<'a> {
        Session { watch, turns: 0, compiled_before: None }
    }

    /// Counts a turn of a loop; refuses more of them than the limit.
    fn count_turn(&mut self, common: &Common) -> Result<()> {
        self.turns += 1;
        let compiled = common.whole.compiled();
        let before = *self.compiled_before.get_or_insert(compiled);
        let spent = self.turns + (compiled - before) * TURNS_OF_A_COMPILE;
        let most = common.options.limits.iterations;
        if spent <= most {
            return Ok(());
        }
        let message = format!("the loops of a run took {} turns", self.turns);
        Err(exceeded("iterations", message)
            .because(format!(
                "at most {most} are accepted, of which a compile for new shapes takes \
                 {TURNS_OF_A_COMPILE}"
            ))
            .because("their end depends on data")
            .into())
    }
}

/// Values by name.
type Values<'a> = BTreeMap<&'a str, Value>;

impl Piecewise {
    /// The pieces of a model which a node of its graph keeps from being compiled; none where they
    /// are no smaller than the whole.
    pub(crate) fn at(source: &Source, options: &Options, node: usize) -> Option<Piecewise> {
        let (model, folder) = source.model(&options.limits)?;
        let pieces = pieces_at(&model, node)?;
        let info = import_onnx::inspect_model(&model);
        let (whole, is_whole) = match source {
            Source::Part(_, _, whole) => (whole.clone(), false),
            _ => (Arc::new(Whole::new(info.parameter_bytes)), true),
        };
        let mut options = options.clone();
        // What is said of the inputs, whose values are checked when they are given.
        options.dims.clear();
        options.input_shapes.clear();
        options.literals.clear();
        let common = Arc::new(Common { folder, options, whole });
        let inputs = info.inputs.into_iter().map(|input| input.name).collect();
        Some(Piecewise { is_whole, ..Piecewise::new(pieces, inputs, &common) })
    }

    fn new(pieces: Pieces, inputs: Vec<String>, common: &Arc<Common>) -> Piecewise {
        let turn = |body: &Body| Turn {
            unit: Unit::new(body.part.clone(), common),
            outputs: body.outputs.clone(),
        };
        let step = |piece: Piece| match piece {
            Piece::Part(part) => Step::Part(Unit::new(part, common)),
            Piece::Driven(node) => {
                let bodies = node.bodies.iter().map(turn).collect();
                Step::Driven { node, bodies }
            }
        };
        let steps = pieces.pieces.into_iter().map(step).collect();
        let common = common.clone();
        Piecewise { inputs, outputs: pieces.outputs, steps, common, is_whole: false }
    }

    /// Runs all pieces.
    ///
    /// # Errors
    /// Those of the parts; values that do not fit together.
    pub(crate) fn run(&self, inputs: &[Value], session: &mut Session<'_>) -> Result<Vec<Value>> {
        if self.is_whole {
            self.common.whole.count_inputs(inputs.iter().map(bytes_of).sum());
        }
        let names = self.inputs.iter().map(String::as_str);
        let mut values: Values<'_> = names.zip(inputs.iter().cloned()).collect();
        for step in &self.steps {
            match step {
                Step::Part(unit) => {
                    let results = unit.run(&unit.inputs(&values)?, session)?;
                    values.extend(unit.part.outputs.iter().map(String::as_str).zip(results));
                }
                Step::Driven { node, bodies } => {
                    let results =
                        drive(node, bodies, &values, &self.common, session).map_err(|found| {
                            let place = |found: Diagnostic| match found.place {
                                Some(_) => found,
                                None => found.at(node.place.clone()),
                            };
                            found.into_iter().map(place).collect::<Diagnostics>()
                        })?;
                    let names = node.results.iter().map(String::as_str);
                    values.extend(names.zip(results).filter(|(name, _)| !name.is_empty()));
                }
            }
        }
        self.outputs.iter().map(|name| value(&values, name).cloned()).collect()
    }

    /// The executables of the parts that have been compiled so far.
    pub(crate) fn each_executable(&self, visit: &mut dyn FnMut(&Executable)) {
        for step in &self.steps {
            match step {
                Step::Part(unit) => unit.each_executable(visit),
                Step::Driven { bodies, .. } => {
                    bodies.iter().for_each(|turn| turn.unit.each_executable(visit));
                }
            }
        }
    }
}

impl Unit {
    fn new(part: Part, common: &Arc<Common>) -> Unit {
        Unit { part, common: common.clone(), made: Mutex::default() }
    }

    fn made(&self) -> MutexGuard<'_, Vec<Entry>> {
        // Of a caller that panicked, the list is as it was before.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The values that the part reads.
    fn inputs(&self, values: &Values<'_>) -> Result<Vec<Value>> {
        self.part.inputs.iter().map(|name| value(values, name).cloned()).collect()
    }

    /// What is made for such values: with their extents where they are the first of their types,
    /// and with extents free in which they differ from those before.
    fn made_for(&self, inputs: &[Value]) -> Result<Arc<Made>> {
        let mut made = self.made();
        let holds = |(types, _): &&Entry| types.iter().zip(inputs).all(|(ty, it)| ty.holds_for(it));
        if let Some((_, found)) = made.iter().find(holds) {
            return Ok(found.clone());
        }
        let widened = |(number, (types, _)): (usize, &Entry)| {
            let types = types.iter().zip(inputs).map(|(ty, input)| ty.widened(input));
            Some((number, types.collect::<Option<Types>>()?))
        };
        if let Some((number, types)) = made.iter().enumerate().rev().find_map(widened)
            && let Ok(new) = self.make(&types)
        {
            // What it was made from is of no more use.
            made.remove(number);
            return Ok(keep(&mut made, types, new));
        }
        // What wants to know more extents than these has one for each shape.
        let types: Types = inputs.iter().map(InputType::of).collect();
        let new = self.make(&types)?;
        Ok(keep(&mut made, types, new))
    }

    fn make(&self, types: &[InputType]) -> Result<Made> {
        if let Some(pieces) = self.part.lists_apart() {
            let pieces = Piecewise::new(pieces, self.part.inputs.clone(), &self.common);
            return Ok(Made::Pieces(pieces));
        }
        let model = Arc::new(self.part.model(types));
        let Common { folder, whole, .. } = &*self.common;
        let source = Source::Part(model, folder.clone(), whole.clone());
        Ok(Made::Whole(Box::new(compile_source(source, &self.common.options)?)))
    }

    fn run(&self, inputs: &[Value], session: &mut Session<'_>) -> Result<Vec<Value>> {
        self.made_for(inputs)?.run(inputs, session).or_else(|found| {
            // Found out late that extents must be known.
            let types: Types = inputs.iter().map(InputType::of).collect();
            if self.made().iter().any(|(other, _)| *other == types) {
                return Err(found);
            }
            let Ok(new) = self.make(&types) else { return Err(found) };
            let results = new.run(inputs, session).map_err(|_| found)?;
            keep(&mut self.made(), types, new);
            Ok(results)
        })
    }

    fn each_executable(&self, visit: &mut dyn FnMut(&Executable)) {
        for (_, made) in self.made().iter() {
            match &**made {
                Made::Whole(executable) => visit(executable),
                Made::Pieces(pieces) => pieces.each_executable(visit),
            }
        }
    }
}

/// Adds to what is kept.
fn keep(made: &mut Vec<Entry>, types: Types, new: Made) -> Arc<Made> {
    if made.len() == MOST_TYPES {
        made.remove(0);
    }
    let new = Arc::new(new);
    made.push((types, new.clone()));
    new
}

impl Made {
    fn run(&self, inputs: &[Value], session: &mut Session<'_>) -> Result<Vec<Value>> {
        match self {
            Made::Whole(executable) => {
                (session.watch)(executable, inputs)?;
                executable.run_in(inputs, session)
            }
            Made::Pieces(pieces) => pieces.run(inputs, session),
        }
    }
}

impl Turn {
    /// The outputs, of the graph's own inputs and what it reads around it.
    fn run(
        &self,
        own: &[Value],
        around: &Values<'_>,
        session: &mut Session<'_>,
    ) -> Result<Vec<Value>> {
        let mut inputs = own.to_vec();
        for name in &self.unit.part.inputs[own.len()..] {
            inputs.push(value(around, name)?.clone());
        }
        let results = self.unit.run(&inputs, session)?;
        let names = self.unit.part.outputs.iter().map(String::as_str);
        let given: Values<'_> = names.zip(results).collect();
        self.outputs.iter().map(|name| value(&given, name).cloned()).collect()
    }
}

fn value<'v>(values: &'v Values<'_>, name: &str) -> Result<&'v Value> {
    values.get(name).ok_or_else(|| unnamed(name))
}

fn unnamed(name: &str) -> Diagnostics {
    Diagnostic::error(codes::INTERNAL_ERROR, format!("no piece gives `{name}`")).into()
}
