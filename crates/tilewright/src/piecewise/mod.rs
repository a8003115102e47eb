//! A model run piece by piece, where what is to be compiled depends on values that only a run
//! knows: loops whose turns compute sizes or change the shapes of what they carry, branches whose
//! sides give other shapes, sizes computed by more than a count.
//!
//! Each part is an executable of its own, made for the types of the values that it is first given,
//! with extents free: what it specialises is kept as that of any model is. Parts that in turn
//! cannot be compiled as a whole are run in pieces, too.

mod drive;
mod session;
mod values;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{Diagnostic, Diagnostics, Result, codes};
use import_onnx::pieces::{Body, Driven, InputType, Part, Piece, Pieces, pieces_at};
use tensor::Value;

use self::drive::drive;
pub(crate) use self::session::Session;
use self::values::bytes_of;
use crate::compile::compile_source;
use crate::executable::Executable;
use crate::source::{PartOf, Source, Whole};
use crate::{Options, budget};

/// Executables of one part that are kept for types of values seen before.
const MOST_TYPES: usize = 16;

/// A model in pieces.
pub(crate) struct Piecewise {
    inputs: Vec<String>,
    outputs: Vec<String>,
    steps: Vec<Planned>,
    common: Arc<Common>,
    /// Whether these are pieces of a model, not of a part of one.
    is_whole: bool,
}

/// A step, and which values nothing reads behind it.
struct Planned {
    step: Step,
    /// Those that it reads once, as its own operands: it may have them.
    moved: BTreeSet<String>,
    /// The others.
    dropped: BTreeSet<String>,
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
    /// How often what these are pieces of has been divided.
    divisions: u32,
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

/// Values by name.
type Values<'a> = BTreeMap<&'a str, Value>;

impl Piecewise {
    /// The pieces of a model which a node of its graph keeps from being compiled; none where they
    /// are no smaller than the whole.
    pub(crate) fn at(source: &Source, options: &Options, node: usize) -> Option<Piecewise> {
        let (model, folder) = source.model(&options.limits)?;
        let info = import_onnx::inspect_model(&model);
        let (PartOf { whole, divisions }, is_whole) = match source {
            Source::Part(_, _, of) => (of.clone(), false),
            _ => (PartOf { whole: Arc::new(Whole::new(info.parameter_bytes)), divisions: 0 }, true),
        };
        // What has been divided often has many such nodes; twice as many at a time need not be
        // found one inside of the other.
        let most = 1 << divisions.min(usize::BITS - 1);
        let pieces = pieces_at(&model, node, most)?;
        let mut options = options.clone();
        // What is said of the inputs, whose values are checked when they are given.
        options.dims.clear();
        options.input_shapes.clear();
        options.literals.clear();
        let divisions = divisions + 1;
        let common = Arc::new(Common { folder, options, whole, divisions });
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
        let steps = planned(steps, &pieces.outputs);
        let common = common.clone();
        Piecewise { inputs, outputs: pieces.outputs, steps, common, is_whole: false }
    }

    /// Runs all pieces.
    ///
    /// # Errors
    /// Those of the parts; values that do not fit together.
    pub(crate) fn run(&self, inputs: Vec<Value>, session: &mut Session<'_>) -> Result<Vec<Value>> {
        let common = &*self.common;
        if self.is_whole {
            self.common.whole.count_inputs(inputs.iter().map(bytes_of).sum());
        }
        let names = self.inputs.iter().map(String::as_str);
        let mut values: Values<'_> = names.zip(inputs).collect();
        for Planned { step, moved, dropped } in &self.steps {
            let moved = moved.iter().filter_map(|name| values.remove_entry(name.as_str()));
            let mut moved: Values<'_> = moved.collect();
            let mut operand = |name: &str| match moved.remove(name) {
                Some(moved) => Ok(Cow::Owned(moved)),
                None => value(&values, name).map(Cow::Borrowed),
            };
            let (names, results) = match step {
                Step::Part(unit) => {
                    let inputs = unit.part.inputs.iter();
                    let inputs = inputs.map(|name| session.own(operand(name)?, common));
                    let inputs = inputs.collect::<Result<Vec<Value>>>()?;
                    session.check(common)?;
                    (&unit.part.outputs, unit.run(inputs, session)?)
                }
                Step::Driven { node, bodies } => {
                    let operands = node.operands.iter();
                    let operands =
                        operands.map(|name| (!name.is_empty()).then(|| operand(name)).transpose());
                    let operands = operands.collect::<Result<_>>()?;
                    let results = drive(node, bodies, operands, &values, common, session);
                    let place = |found: Diagnostic| found.or_at(|| node.place.clone());
                    let results = results.map_err(|found| found.map(place))?;
                    (&node.results, results)
                }
            };
            let results = names.iter().map(String::as_str).zip(results);
            values.extend(results.filter(|(name, _)| !name.is_empty()));
            dropped.iter().for_each(|name| _ = values.remove(name.as_str()));
        }
        take_all(&self.outputs, values, common, session)
    }

    /// The executables of the parts that have been compiled so far.
    pub(crate) fn each_executable(&self, visit: &mut dyn FnMut(&Executable)) {
        for planned in &self.steps {
            match &planned.step {
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
        let Common { folder, whole, divisions, .. } = &*self.common;
        let of = PartOf { whole: whole.clone(), divisions: *divisions };
        let source = Source::Part(model, folder.clone(), of);
        Ok(Made::Whole(Box::new(compile_source(source, &self.common.options)?)))
    }

    fn run(&self, inputs: Vec<Value>, session: &mut Session<'_>) -> Result<Vec<Value>> {
        let made = self.made_for(&inputs)?;
        let Made::Whole(executable) = &*made else { return made.run(inputs, session) };
        run_whole(executable, &inputs, session).or_else(|found| {
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
    fn run(&self, inputs: Vec<Value>, session: &mut Session<'_>) -> Result<Vec<Value>> {
        match self {
            Made::Whole(executable) => run_whole(executable, &inputs, session),
            Made::Pieces(pieces) => pieces.run(inputs, session),
        }
    }
}

fn run_whole(
    executable: &Executable,
    inputs: &[Value],
    session: &mut Session<'_>,
) -> Result<Vec<Value>> {
    (session.watch)(executable, inputs)?;
    executable.run_in(inputs, session)
}

impl Turn {
    /// The outputs, of the graph's own inputs and what it reads around it.
    fn run(
        &self,
        own: Vec<Value>,
        around: &Values<'_>,
        session: &mut Session<'_>,
    ) -> Result<Vec<Value>> {
        let common = &*self.unit.common;
        let mut inputs = own;
        for name in &self.unit.part.inputs[inputs.len()..] {
            inputs.push(session.copy(value(around, name)?, common)?);
        }
        let results = self.unit.run(inputs, session)?;
        let names = self.unit.part.outputs.iter().map(String::as_str);
        take_all(&self.outputs, names.zip(results).collect(), common, session)
    }
}

/// The values of these names.
fn take_all(
    names: &[String],
    mut values: Values<'_>,
    common: &Common,
    session: &mut Session<'_>,
) -> Result<Vec<Value>> {
    let last: BTreeMap<&str, usize> = names.iter().map(String::as_str).zip(0..).collect();
    let take = |(number, name): (usize, &String)| match last[name.as_str()] == number {
        true => values.remove(name.as_str()).ok_or_else(|| unnamed(name)),
        false => session.copy(value(&values, name)?, common),
    };
    names.iter().enumerate().map(take).collect()
}

/// The steps with the values that nothing reads behind each.
fn planned(steps: Vec<Step>, outputs: &[String]) -> Vec<Planned> {
    let mut wanted: BTreeSet<String> = outputs.iter().cloned().collect();
    let mut result = Vec::with_capacity(steps.len());
    for step in steps.into_iter().rev() {
        let (mut once, mut again) = (BTreeSet::new(), BTreeSet::new());
        let (operands, around, results): (_, Vec<&String>, _) = match &step {
            Step::Part(unit) => (&unit.part.inputs, Vec::new(), &unit.part.outputs),
            Step::Driven { node, bodies } => {
                let around = bodies.iter().flat_map(|turn| &turn.unit.part.inputs).collect();
                (&node.operands, around, &node.results)
            }
        };
        for name in operands {
            if !once.insert(name.clone()) {
                again.insert(name.clone());
            }
        }
        again.extend(around.into_iter().cloned());
        let moved: BTreeSet<String> = once
            .iter()
            .filter(|name| !again.contains(*name) && !wanted.contains(*name))
            .cloned()
            .collect();
        let read = once.into_iter().chain(again);
        let ends = read.chain(results.iter().cloned());
        let dropped: BTreeSet<String> =
            ends.filter(|name| !moved.contains(name) && !wanted.contains(name)).collect();
        wanted.extend(moved.iter().chain(&dropped).cloned());
        result.push(Planned { step, moved, dropped });
    }
    result.reverse();
    result
}

fn value<'v>(values: &'v Values<'_>, name: &str) -> Result<&'v Value> {
    values.get(name).ok_or_else(|| unnamed(name))
}

fn unnamed(name: &str) -> Diagnostics {
    Diagnostic::error(codes::INTERNAL_ERROR, format!("no piece gives `{name}`")).into()
}
