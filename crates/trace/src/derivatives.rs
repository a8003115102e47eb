//! Derivatives of functions over values, and functions of many at once.
//!
//! Each of them runs the function once on stand-ins for its arguments, and then transforms the
//! nodes that this added. The stand-ins are values of their own, so that a function may read its
//! argument from around it, too, where it counts as constant.

use std::panic::Location;

use autodiff::TransformRefusal;
use base::{Diagnostic, codes};
use graph::{FunctionBuilder, Op, TensorType, Type, ValueId};
use sym::Expr;
use tensor::{DType, Scalar, ScalarFunction as F};

use crate::recording::Recording;
use crate::tree::ValueTree;
use crate::value::TracedValue;

/// A function run on stand-ins.
struct Ran<R> {
    /// How many nodes the open region had before.
    first: usize,
    /// The stand-ins.
    arguments: Vec<ValueId>,
    /// What the function gave, and its values in the graph.
    result: R,
    results: Vec<ValueId>,
}

/// Runs a function on values that stand for its arguments: `stand_in` makes one.
#[track_caller]
fn run<T: ValueTree, R: ValueTree>(
    recording: &Recording,
    function: impl Fn(&T) -> R,
    arguments: &T,
    stand_in: impl Fn(&mut FunctionBuilder, ValueId) -> graph::Built,
) -> Result<Ran<R>, R> {
    let leaves = arguments.leaves();
    let mut own = Vec::new();
    for leaf in &leaves {
        own.push(leaf.make("argument", &[leaf], |builder, ids| stand_in(builder, ids[0])));
    }
    let first = recording.builder().open_region_nodes().len();
    let result = function(&arguments.rebuilt(&mut own.clone().into_iter()));
    let results = recording.ids("a derivative", &result.leaves());
    let own = recording.ids("a derivative", &own);
    match (own, results) {
        (Some(arguments), Some(results)) => Ok(Ran { first, arguments, result, results }),
        _ => Err(result),
    }
}

/// A value of its own with the same elements.
fn same(builder: &mut FunctionBuilder, value: ValueId) -> graph::Built {
    let shape = builder.shape(value)?;
    Ok(builder.add(Op::Reshape { shape }, &[value])?[0])
}

/// The first row of a value: what any of its rows is like.
fn row(builder: &mut FunctionBuilder, value: ValueId) -> graph::Built {
    let shape = builder.shape(value)?;
    let Some((_, rest)) = shape.split_first() else {
        return Err("there is no axis to go along".to_owned());
    };
    let row = builder.slice_axis(value, 0, Expr::ZERO, 1, Expr::ONE)?;
    builder.reshape(row, rest.to_vec())
}

/// Notes why there is no derivative.
#[track_caller]
fn refuse(recording: &Recording, what: &str, refused: &TransformRefusal) {
    let diagnostic = Diagnostic::error(codes::NO_DERIVATIVE, format!("there is no `{what}`"))
        .at(Location::caller().to_string())
        .because(refused.to_string())
        .remedy("compute it of other operations; `explain-error TW0116` tells more");
    recording.refuse(diagnostic);
}

#[track_caller]
fn refuse_argument(recording: &Recording, what: &str, reason: String, remedy: &str) {
    let message = format!("`{what}` does not take this function");
    let diagnostic = Diagnostic::error(codes::INCONSISTENT_SHAPES, message)
        .at(Location::caller().to_string())
        .because(reason)
        .remedy(remedy);
    recording.refuse(diagnostic);
}

fn recording_of<T: ValueTree>(tree: &T) -> Option<Recording> {
    tree.leaves().first().map(|leaf| leaf.recording.clone())
}

fn trees<T: ValueTree>(recording: &Recording, like: &T, ids: &[ValueId]) -> T {
    like.rebuilt(&mut ids.iter().map(|&id| recording.value(id)))
}

/// The function that gives the gradient of another, of one float: how it changes with each of its
/// arguments. Arguments that are no floats get zeros.
pub fn grad<T: ValueTree>(function: impl Fn(&T) -> TracedValue) -> impl Fn(&T) -> T {
    let both = value_and_grad(function);
    move |arguments: &T| both(arguments).1
}

/// As [`grad`], with what the function itself gives.
pub fn value_and_grad<T: ValueTree>(
    function: impl Fn(&T) -> TracedValue,
) -> impl Fn(&T) -> (TracedValue, T) {
    move |arguments: &T| {
        let Some(recording) = recording_of(arguments) else {
            let value = function(arguments);
            return (value, arguments.rebuilt(&mut std::iter::empty()));
        };
        let recording = &recording;
        let copy = |arguments: &T| arguments.rebuilt(&mut arguments.leaves().into_iter());
        let ran = match run(recording, &function, arguments, same) {
            Ok(ran) => ran,
            Err(value) => return (value, copy(arguments)),
        };
        let (dtype, shape) = (ran.result.dtype(), ran.result.shape());
        if !dtype.is_float() || !shape.is_empty() {
            let reason = format!("it gives {:?}, where one float is wanted", ran.result);
            let remedy = "take the sum or the mean of what it gives, or its `jacobian`";
            refuse_argument(recording, "grad", reason, remedy);
            return (ran.result, copy(arguments));
        }
        let found = {
            let mut builder = recording.builder();
            let one = builder.scalar(dtype, 1.0);
            autodiff::gradients(&mut builder, ran.first, ran.results[0], one, &ran.arguments)
        };
        match found {
            Ok(gradients) => (ran.result, trees(recording, arguments, &gradients)),
            Err(refused) => {
                refuse(recording, "grad", &refused);
                (ran.result, copy(arguments))
            }
        }
    }
}

/// The function that, of arguments and their tangents, gives what another gives of the arguments,
/// and the tangents of that: how it moves as the arguments do.
pub fn jvp<T: ValueTree, R: ValueTree>(function: impl Fn(&T) -> R) -> impl Fn(&T, &T) -> (R, R) {
    move |arguments: &T, tangents: &T| {
        let both = |result: &R| result.rebuilt(&mut result.leaves().into_iter());
        let Some(recording) = recording_of(arguments) else {
            let value = function(arguments);
            let other = both(&value);
            return (value, other);
        };
        let recording = &recording;
        let ran = match run(recording, &function, arguments, same) {
            Ok(ran) => ran,
            Err(value) => {
                let other = both(&value);
                return (value, other);
            }
        };
        let moves = tangents.leaves();
        let types = |leaves: &[TracedValue]| -> Vec<Option<Type>> {
            leaves.iter().map(TracedValue::ty).collect()
        };
        let Some(ids) =
            recording.ids("`jvp`", &moves).filter(|_| types(&moves) == types(&arguments.leaves()))
        else {
            let reason = "the tangents are not of the arguments' types".to_owned();
            let remedy = "give each argument a tangent of its shape and element type";
            refuse_argument(recording, "jvp", reason, remedy);
            let other = both(&ran.result);
            return (ran.result, other);
        };
        let sources: Vec<(ValueId, ValueId)> = ran.arguments.iter().copied().zip(ids).collect();
        let found = autodiff::tangents(&mut recording.builder(), ran.first, &ran.results, &sources);
        match found {
            Ok(pairs) => {
                let (values, tangents): (Vec<ValueId>, Vec<ValueId>) = pairs.into_iter().unzip();
                (trees(recording, &ran.result, &values), trees(recording, &ran.result, &tangents))
            }
            Err(refused) => {
                refuse(recording, "jvp", &refused);
                let other = both(&ran.result);
                (ran.result, other)
            }
        }
    }
}

/// The function of many rows at once: its arguments have a first axis more than those of the
/// function given, and so has what it gives. What the function reads from around it is the same for
/// all rows.
pub fn vmap<T: ValueTree, R: ValueTree>(function: impl Fn(&T) -> R) -> impl Fn(&T) -> R {
    move |arguments: &T| {
        let leaves = arguments.leaves();
        let Some(recording) = recording_of(arguments) else { return function(arguments) };
        let recording = &recording;
        let extents: Vec<Option<usize>> =
            leaves.iter().map(|leaf| leaf.shape().first().copied()).collect();
        let Some(extent) = extents[0].filter(|_| extents.iter().all(|it| *it == extents[0])) else {
            let reason = format!("its arguments are {leaves:?}");
            let remedy = "give arguments with first axes of one extent; what is the same for all \
                          rows is read from around the function";
            refuse_argument(recording, "vmap", reason, remedy);
            return function(arguments);
        };
        let ran = match run(recording, &function, arguments, row) {
            Ok(ran) => ran,
            Err(value) => return value,
        };
        let Some(many) = recording.ids("`vmap`", &leaves) else { return ran.result };
        let sources: Vec<(ValueId, ValueId)> = ran.arguments.iter().copied().zip(many).collect();
        let extent = Expr::from(extent);
        let found = autodiff::vectorised(
            &mut recording.builder(),
            ran.first,
            &extent,
            &ran.results,
            &sources,
        );
        match found {
            Ok(values) => trees(recording, &ran.result, &values),
            Err(refused) => {
                refuse(recording, "vmap", &refused);
                ran.result
            }
        }
    }
}

/// The function that gives the derivatives of all elements of what another gives by all elements of
/// its argument: the axes of what it gives, then those of the argument. Backwards where it gives
/// fewer elements than it takes, else forwards.
pub fn jacobian(
    function: impl Fn(&TracedValue) -> TracedValue,
) -> impl Fn(&TracedValue) -> TracedValue {
    move |argument: &TracedValue| {
        let recording = &argument.recording;
        let ran = match run(recording, &function, argument, same) {
            Ok(ran) => ran,
            Err(value) => return value,
        };
        let (own, given) = (argument.shape(), ran.result.shape());
        let count = |shape: &[usize]| shape.iter().product::<usize>();
        let backwards = count(&given) < count(&own);
        if !argument.dtype().is_float() || !ran.result.dtype().is_float() {
            let reason = format!("it makes {:?} of {argument:?}", ran.result);
            refuse_argument(recording, "jacobian", reason, "give it floats, to make floats of");
            return ran.result;
        }
        let found = match backwards {
            true => jacobian_backwards(&mut recording.builder(), &ran),
            false => jacobian_forwards(&mut recording.builder(), &ran),
        };
        let found = found.and_then(|rows| {
            // The rows are those of the basis.
            let mut builder = recording.builder();
            let shape = [&given[..], &own].concat();
            let exprs: Vec<Expr> = shape.iter().map(|&extent| Expr::from(extent)).collect();
            let mut rows = rows;
            if !backwards {
                let rank = given.len();
                let order: Vec<usize> = (1..=rank).chain([0]).collect();
                rows = builder.transpose(rows, &order).map_err(nowhere)?;
            }
            builder.reshape(rows, exprs).map_err(nowhere)
        });
        match found {
            Ok(id) => recording.value(id),
            Err(refused) => {
                refuse(recording, "jacobian", &refused);
                ran.result
            }
        }
    }
}

fn nowhere(reason: String) -> TransformRefusal {
    TransformRefusal { place: "the function".to_owned(), reason }
}

/// A stand-in for one direction of a value, and the basis of all: `[elements, shape..]`.
fn directions(
    builder: &mut FunctionBuilder,
    like: ValueId,
) -> graph::Built<(ValueId, ValueId, Expr)> {
    let TensorType { dtype, shape } = builder.tensor_type(like)?.clone();
    let one = builder.full(&shape, Scalar::zero(dtype))?;
    let count: Expr = shape.iter().product();
    let square = [count.clone(), count.clone()];
    let rows = builder.iota(DType::I64, &square, 0)?;
    let columns = builder.iota(DType::I64, &square, 1)?;
    let unit = builder.map(F::Eq, &[rows, columns])?;
    let unit = builder.cast(unit, dtype)?;
    let all: Vec<Expr> = std::iter::once(&count).chain(&shape).cloned().collect();
    let all = builder.reshape(unit, all)?;
    Ok((one, all, count))
}

fn jacobian_backwards(
    builder: &mut FunctionBuilder,
    ran: &Ran<TracedValue>,
) -> Result<ValueId, TransformRefusal> {
    let (cotangent, all, count) = directions(builder, ran.results[0]).map_err(nowhere)?;
    let before = builder.open_region_nodes().len();
    let gradient =
        autodiff::gradients(builder, ran.first, ran.results[0], cotangent, &ran.arguments)?;
    let rows = autodiff::vectorised(builder, before, &count, &gradient, &[(cotangent, all)])?;
    Ok(rows[0])
}

fn jacobian_forwards(
    builder: &mut FunctionBuilder,
    ran: &Ran<TracedValue>,
) -> Result<ValueId, TransformRefusal> {
    let (direction, all, count) = directions(builder, ran.arguments[0]).map_err(nowhere)?;
    let before = builder.open_region_nodes().len();
    let sources = [(ran.arguments[0], direction)];
    let found = autodiff::tangents(builder, ran.first, &ran.results, &sources)?;
    let rows = autodiff::vectorised(builder, before, &count, &[found[0].1], &[(direction, all)])?;
    Ok(rows[0])
}

/// The function that gives the second derivatives of another, of one float, by all pairs of
/// elements of its argument: the argument's axes twice. The gradient, differentiated forwards.
pub fn hessian(
    function: impl Fn(&TracedValue) -> TracedValue,
) -> impl Fn(&TracedValue) -> TracedValue {
    jacobian(grad(function))
}
