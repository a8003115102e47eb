//! Branches and loops that stand in the function.
//!
//! Their closures run once, while the function is traced; they may read values from around them.

use std::panic::Location;

use base::{Diagnostic, codes};
use graph::{Op, RegionId, TensorType, Type};
use sym::Expr;
use tensor::{DType, ScalarFunction as F};

use crate::recording::Recording;
use crate::tree::ValueTree;
use crate::value::TracedValue;

fn types(values: &[TracedValue]) -> Vec<Type> {
    values.iter().filter_map(TracedValue::ty).collect()
}

fn count() -> Type {
    Type::Tensor(TensorType { dtype: DType::I64, shape: Vec::new().into() })
}

/// The same form with other values.
fn rebuilt<T: ValueTree>(like: &T, leaves: Vec<TracedValue>) -> T {
    like.rebuilt(&mut leaves.into_iter())
}

/// Notes that a region's results are not of these types.
#[track_caller]
fn expect_types(
    recording: &Recording,
    what: &str,
    expected: &[TracedValue],
    found: &[TracedValue],
) {
    if types(expected) == types(found) {
        return;
    }
    let list = |values: &[TracedValue]| {
        let texts: Vec<String> = values.iter().map(|value| recording.type_text(value)).collect();
        format!("({})", texts.join(", "))
    };
    let (expected, found) = (list(expected), list(found));
    let message = format!("{what} gives {found}, where {expected} is wanted");
    let diagnostic = Diagnostic::error(codes::INCONSISTENT_SHAPES, message)
        .at(Location::caller().to_string())
        .because("what is carried keeps its shapes and element types, and branches agree on them")
        .remedy("`reshape`, `broadcast_to` and `cast` change shapes and element types");
    recording.refuse(diagnostic);
}

/// Closes a region with these results; with nothing where they cannot be had.
#[track_caller]
fn close(recording: &Recording, reader: &str, results: &[TracedValue]) -> Option<RegionId> {
    let ids = recording.ids(reader, results);
    let region = recording.end_region(ids.as_deref().unwrap_or_default());
    ids.map(|_| region)
}

#[track_caller]
fn add(
    recording: &Recording,
    name: &str,
    op: Op,
    operands: &[TracedValue],
    regions: &[Option<RegionId>],
) -> Option<Vec<TracedValue>> {
    let regions: Vec<RegionId> = regions.iter().copied().collect::<Option<_>>()?;
    recording.add_all(name, operands, |builder, ids| builder.add_with_regions(op, ids, &regions))
}

/// What the first closure computes in runs where the condition, a boolean without axes, holds, and
/// what the second does in others. Both give the same shapes and element types.
#[track_caller]
pub fn if_else<R: ValueTree>(
    condition: &TracedValue,
    then: impl FnOnce() -> R,
    other: impl FnOnce() -> R,
) -> R {
    let recording = &condition.recording;
    recording.begin_region(&[]);
    let then = then();
    let leaves = then.leaves();
    let first = close(recording, "a branch", &leaves);
    recording.begin_region(&[]);
    let others = other().leaves();
    expect_types(recording, "the other branch", &leaves, &others);
    let second = close(recording, "a branch", &others);
    let op = Op::If { results: types(&leaves) };
    let condition = std::slice::from_ref(condition);
    match add(recording, "if_else", op, condition, &[first, second]) {
        Some(results) => rebuilt(&then, results),
        None => then,
    }
}

/// Runs the body on what it gave the turn before, `start` at first, as long as the condition, a
/// boolean without axes, holds, but for `most_turns` turns at most. Only such a loop as has a most
/// is differentiated backwards: what its turns start from is kept, room for the most turns.
#[track_caller]
pub fn while_loop<S: ValueTree>(
    start: &S,
    most_turns: Option<usize>,
    condition: impl FnOnce(&S) -> TracedValue,
    body: impl FnOnce(&S) -> S,
) -> S {
    let leaves = start.leaves();
    let Some(recording) = leaves.first().map(|leaf| leaf.recording.clone()) else {
        return rebuilt(start, Vec::new());
    };
    let states = leaves.len();
    let mut operands = leaves.clone();
    let mut all = types(&leaves);
    if most_turns.is_some() {
        operands.push(leaves[0].constant(&tensor::Tensor::scalar(tensor::Scalar::i64(0))));
        all.push(count());
    }
    let parameters = recording.begin_region(&all);
    let mut goes_on = condition(&rebuilt(start, parameters[..states].to_vec()));
    if let (Some(most), Some(turn)) = (most_turns, parameters.get(states)) {
        let below = turn.map_with("less", F::Lt, &turn.number(most as f64));
        goes_on = below.map_with("and", F::And, &goes_on);
    }
    let first = close(&recording, "the condition of a loop", &[goes_on]);
    let parameters = recording.begin_region(&all);
    let mut next = body(&rebuilt(start, parameters[..states].to_vec())).leaves();
    expect_types(&recording, "the body of a loop", &leaves, &next);
    if let Some(turn) = parameters.get(states) {
        next.push(turn.map_with("add", F::Add, &turn.number(1.0)));
    }
    let second = close(&recording, "the body of a loop", &next);
    let op = Op::While { turns: None };
    match add(&recording, "while_loop", op, &operands, &[first, second]) {
        Some(results) => rebuilt(start, results),
        None => rebuilt(start, leaves),
    }
}

/// Runs the body so many times on the number of the turn (an i64, from 0 on) and on what it gave
/// the turn before, `start` at first.
#[track_caller]
pub fn repeat<S: ValueTree>(
    turns: usize,
    start: &S,
    body: impl FnOnce(&TracedValue, &S) -> S,
) -> S {
    match start.leaves().first() {
        Some(first) => {
            looped(&first.recording, turns, start, &(), |turn, state, ()| (body(turn, state), ())).0
        }
        None => rebuilt(start, Vec::new()),
    }
}

/// Runs the body on what it gave the turn before, `start` at first, and on each row along the first
/// axis of `rows`. Gives what the last turn gave, and the second of what the body gives in all
/// turns, stacked along first axes.
#[track_caller]
pub fn scan<S: ValueTree, Y: ValueTree>(
    start: &S,
    rows: &TracedValue,
    body: impl FnOnce(&S, &TracedValue) -> (S, Y),
) -> (S, Y) {
    let turns = rows.shape().first().copied().unwrap_or(0);
    looped(&rows.recording, turns, start, rows, |_, state, row| body(state, row))
}

#[track_caller]
fn looped<S: ValueTree, X: ValueTree, Y: ValueTree>(
    recording: &Recording,
    turns: usize,
    start: &S,
    rows: &X,
    body: impl FnOnce(&TracedValue, &S, &X) -> (S, Y),
) -> (S, Y) {
    let (leaves, slices) = (start.leaves(), rows.leaves());
    let operands = [&leaves[..], &slices].concat();
    let mut all = vec![count()];
    all.extend(types(&leaves));
    for slice in types(&slices) {
        let Type::Tensor(mut ty) = slice else { continue };
        ty.shape = ty.shape.iter().skip(1).cloned().collect();
        all.push(Type::Tensor(ty));
    }
    let parameters = recording.begin_region(&all);
    let (states, rest) = parameters[1..].split_at(leaves.len());
    let (state, row) = (rebuilt(start, states.to_vec()), rebuilt(rows, rest.to_vec()));
    let (next, given) = body(&parameters[0], &state, &row);
    let next = next.leaves();
    expect_types(recording, "the body of a loop", &leaves, &next);
    let stacks = given.leaves();
    let region = close(recording, "the body of a loop", &[&next[..], &stacks].concat());
    let op = Op::Scan { trip_count: Expr::from(turns), carried: leaves.len(), reverse: false };
    match add(recording, "loop", op, &operands, &[region]) {
        Some(mut results) => {
            let stacks = results.split_off(leaves.len());
            (rebuilt(start, results), rebuilt(&given, stacks))
        }
        None => (rebuilt(start, leaves), given),
    }
}
