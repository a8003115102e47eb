//! Control flow: graphs inside nodes become regions.
//!
//! A region sees the values around it. Whatever it reads from there gets its node before the region
//! is opened, so that no node of a region is ever used outside of it.

use std::collections::BTreeSet;

use base::limits::exceeded;
use base::{Diagnostic, codes};
use front::{Graph, Result, Value, region, scan_types, shape_error};
use graph::{Op, RegionId, TensorType, Type};
use sym::Expr;
use tensor::{DType, Scalar};

use super::Lowered;
use crate::importer::Importer;
use crate::node::Node;
use crate::order::{names_captured, names_captured_by_branch};
use crate::proto::GraphProto;

/// The most iterations of a loop that are written out.
pub(super) const MOST_WRITTEN_OUT: i64 = 1 << 12;
/// The most iterations for which buffers are made where data say how many there are.
const MOST_STACKED: i64 = 1 << 20;

/// One of two graphs. A condition known to compile picks the graph now.
pub(super) fn branch(node: &Node<'_>, importer: &mut Importer<'_>) -> Lowered {
    let condition = node.input(0)?.clone();
    let (then, other) = (node.graph("then_branch")?, node.graph("else_branch")?);
    if then.output.len() != other.output.len() {
        return Err(shape_error("its branches have different numbers of outputs"));
    }
    if let Some(known) = condition.known().and_then(|known| known.first()?.constant()) {
        return importer.inline(if known.as_bool() { then } else { other });
    }
    let condition = importer.graph.cast(&condition, DType::Bool)?;
    let condition = importer.graph.reshape(&condition, &[])?;
    importer.graph.data(&condition)?;
    let mut regions = Vec::new();
    for graph in [then, other] {
        importer.prepare(names_captured_by_branch(graph))?;
        regions.push(region(importer, &[], |importer, _| {
            let values = importer.inline(graph)?;
            // What a list is made of must not depend on data.
            match values.iter().any(|value| value.list().is_some()) {
                true => Err(node.not_known(0, "condition")),
                false => Ok(values),
            }
        })?);
    }
    if regions.iter().any(|&region| binds(&importer.graph, region)) {
        return both_branches(node, importer, &condition);
    }
    let types = |&region| importer.graph.builder.function().region_type(region).results;
    if let [first, second] = &regions[..]
        && types(first) != types(second)
    {
        let dtypes = |region| -> Vec<Option<DType>> {
            types(region).iter().map(|ty| ty.as_tensor().map(|ty| ty.dtype)).collect()
        };
        if dtypes(first) != dtypes(second) {
            return Err(shape_error("its branches give different element types"));
        }
        // Results whose shapes are those of one branch or of the other.
        return Err(node.not_known(0, "condition"));
    }
    importer.graph.branch(&condition, &[regions[0], regions[1]])
}

/// Whether sizes are computed from data in a region.
pub(super) fn binds(graph: &Graph, region: RegionId) -> bool {
    let function = graph.builder.function();
    function.regions[region].nodes.iter().any(|&node| {
        let node = &function.nodes[node];
        matches!(node.op, Op::Bind { .. }) || node.regions.iter().any(|&inner| binds(graph, inner))
    })
}

/// The refusal of a loop whose body computes sizes, unless its iterations are written out.
pub(super) fn sizes_inside() -> Diagnostic {
    Diagnostic::error(codes::UNKNOWN_CONTENTS, "a loop computes sizes from data in each iteration")
        .because("kernels are made for constant shapes, and the number of iterations is not known")
        .remedy("export the model with a fixed number of iterations")
}

/// The refusal of a loop that changes shapes, unless its iterations are written out.
fn shapes_change() -> Diagnostic {
    Diagnostic::error(codes::UNKNOWN_CONTENTS, "a loop changes the shape of what it carries")
        .because("kernels are made for constant shapes, and the number of iterations is not known")
        .remedy("export the model with a fixed number of iterations")
}

/// The refusal of a loop that carries sequences, unless its iterations are written out.
fn sequences_inside() -> Diagnostic {
    Diagnostic::error(codes::UNKNOWN_CONTENTS, "a loop whose end depends on data carries sequences")
        .because("what sequences are made of must be known to compile")
        .remedy("export the model with a fixed number of iterations")
}

/// The refusal of a loop that stacks any number of rows.
fn rows_unknown() -> Diagnostic {
    Diagnostic::error(codes::UNKNOWN_CONTENTS, "how many results a loop stacks depends on data")
        .because("nothing says how many iterations there may be at most")
        .remedy("export the model with a largest number of iterations")
}

/// The refusal of a loop that nothing ends.
fn endless() -> Diagnostic {
    Diagnostic::error(codes::ENDLESS_LOOP, "a loop never ends")
        .because("its condition always holds, and it has no largest number of iterations")
        .remedy(
            "export the model with a condition that ends the loop, or with a number of iterations",
        )
}

/// Refuses a loop's region whose first results have other shapes than what is carried.
fn check_carried(graph: &Graph, region: RegionId, carried: &[Type]) -> Result<()> {
    let results = graph.builder.function().region_type(region).results;
    let changes = |(next, now): (&Type, &Type)| match (next.as_tensor(), now.as_tensor()) {
        (Some(next), Some(now)) => next.dtype == now.dtype && next.shape != now.shape,
        _ => false,
    };
    match results.iter().zip(carried).any(changes) {
        true => Err(shapes_change()),
        false => Ok(()),
    }
}

/// Both branches, of which one result each is taken: what a branch does with sizes that it computes
/// runs between kernels, where no region is.
fn both_branches(node: &Node<'_>, importer: &mut Importer<'_>, condition: &Value) -> Lowered {
    let then = importer.inline(node.graph("then_branch")?)?;
    let other = importer.inline(node.graph("else_branch")?)?;
    let mut results = Vec::new();
    for (then, other) in then.iter().zip(&other) {
        if then.ty() != other.ty() {
            return Err(node.not_known(0, "condition"));
        }
        results.push(importer.graph.select(condition, then, other)?);
    }
    Ok(results)
}

impl AsMut<Graph> for Importer<'_> {
    fn as_mut(&mut self) -> &mut Graph {
        &mut self.graph
    }
}

impl Importer<'_> {
    /// Makes the nodes of all values that a graph reads from around it, by these names.
    pub(super) fn prepare(&mut self, names: BTreeSet<&str>) -> Result<()> {
        for name in names {
            for value in self.lookup(name).map(Value::tensors).into_iter().flatten() {
                self.graph.data(&value)?;
            }
        }
        Ok(())
    }
}

/// A loop: counted if the number of iterations is known and the condition never changes, else one
/// that asks before each iteration.
pub(super) fn repeat(node: &Node<'_>, importer: &mut Importer<'_>) -> Lowered {
    let body = node.graph("body")?;
    let carried: Vec<Value> =
        (2..node.inputs.len()).map(|index| node.input(index).cloned()).collect::<Result<_>>()?;
    if body.input.len() != carried.len() + 2 || body.output.len() < carried.len() + 1 {
        return Err(shape_error("the body does not take or give what the loop carries"));
    }
    importer.prepare(names_captured(body))?;
    let count = match node.optional(0) {
        Some(_) => node.exprs(0, "number of iterations").ok().and_then(|mut list| list.pop()),
        None => None,
    };
    let starts = match node.optional(1) {
        Some(condition) => condition.known().and_then(|known| known.first()?.constant()),
        None => Some(Scalar::bool(true)),
    };
    let before = importer.asked.clone();
    let attempt = match carried.iter().any(|value| value.list().is_some()) {
        // What a list is made of must be known at each iteration.
        true if count.as_ref().and_then(Expr::as_constant).is_none()
            && node.optional(0).is_some() =>
        {
            return Err(node.not_known(0, "number of iterations"));
        }
        true if starts.is_none() => return Err(node.not_known(1, "condition")),
        true => Err(sequences_inside()),
        false => rolled(node, importer, body, &carried, count.as_ref(), starts),
    };
    let lists = carried.iter().any(|value| value.list().is_some());
    let is_unknown = |found: &Diagnostic| lists || found.code == codes::UNKNOWN_CONTENTS;
    if !attempt.as_ref().is_err_and(is_unknown) {
        return attempt;
    }
    // Shapes that depend on the iteration are known if every iteration is written out.
    let asked = std::mem::replace(&mut importer.asked, before);
    if let (Some(count), Some(true)) =
        (count.as_ref().and_then(Expr::as_constant), starts.map(Scalar::as_bool))
        && let Some(results) = unrolled(importer, body, count, &carried)?
    {
        return Ok(results);
    }
    importer.asked.extend(asked);
    attempt
}

/// A loop as a region.
fn rolled(
    node: &Node<'_>,
    importer: &mut Importer<'_>,
    body: &GraphProto,
    carried: &[Value],
    count: Option<&Expr>,
    starts: Option<Scalar>,
) -> Lowered {
    if let (Some(count), Some(true)) = (count, starts.map(Scalar::as_bool))
        && let Some(results) = counted(importer, body, count, carried)?
    {
        return Ok(results);
    }
    asked(node, importer, body, carried, (count, starts))
}

/// The iterations of a loop behind each other. None if it has too many, if its condition is not
/// known at each, or if the shape of what it stacks is not known because it has none.
fn unrolled(
    importer: &mut Importer<'_>,
    body: &GraphProto,
    count: i64,
    carried: &[Value],
) -> Result<Option<Vec<Value>>> {
    if count > MOST_WRITTEN_OUT {
        return Ok(None);
    }
    let mut carried = carried.to_vec();
    let mut stacks = vec![Vec::new(); body.output.len() - carried.len() - 1];
    let mut goes_on = true;
    for iteration in 0..count.max(0) {
        if !goes_on {
            break;
        }
        let mut values =
            vec![Value::of_scalar(Scalar::i64(iteration)), Value::of_scalar(Scalar::bool(true))];
        values.extend(carried.iter().cloned());
        let results = importer.inline_with(body, &values)?;
        let known = results[0].known().and_then(|known| known.first()?.constant());
        let Some(condition) = known else { return Ok(None) };
        goes_on = condition.as_bool();
        let end = 1 + carried.len();
        for (stack, value) in stacks.iter_mut().zip(&results[end..]) {
            let row = [&[Expr::ONE], value.shape()].concat();
            stack.push(importer.graph.reshape(value, &row)?);
        }
        carried = results[1..end].to_vec();
    }
    for stack in &stacks {
        if stack.is_empty() {
            return Ok(None);
        }
        carried.push(importer.graph.concat(0, stack)?);
    }
    Ok(Some(carried))
}

/// A loop whose body always goes on: a scan. None if the body's condition is not known to hold.
fn counted(
    importer: &mut Importer<'_>,
    body: &GraphProto,
    count: &Expr,
    carried: &[Value],
) -> Result<Option<Vec<Value>>> {
    let trip_count = count.max(&Expr::ZERO).simplify(&|symbol| importer.graph.range(symbol));
    importer.graph.all_data(carried)?;
    let types = scan_types(carried, &[]);
    let mut goes_on = false;
    let region = region(importer, &types, |importer, parameters| {
        let mut values = body_results(importer, body, parameters, Some(true))?;
        let condition = values.remove(0).known().and_then(|known| known.first()?.constant());
        goes_on = condition.is_some_and(Scalar::as_bool);
        Ok(values)
    })?;
    if !goes_on {
        return Ok(None);
    }
    if binds(&importer.graph, region) {
        return Err(sizes_inside());
    }
    check_carried(&importer.graph, region, &types[1..])?;
    let most = importer.graph.limits.turns;
    if let Some(turns) = trip_count.as_constant().filter(|&turns| turns.unsigned_abs() > most) {
        return Err(exceeded("turns", format!("a loop turns {turns} times"))
            .because(format!("loops of one run turn {most} times at most")));
    }
    let op = Op::Scan { trip_count, carried: carried.len(), reverse: false };
    importer.graph.control(op, carried, &[region]).map(Some)
}

/// The results of a loop's body, whose parameters are the iteration, perhaps the condition, and
/// what is carried.
pub(super) fn body_results(
    importer: &mut Importer<'_>,
    body: &GraphProto,
    parameters: &[Value],
    known_condition: Option<bool>,
) -> Lowered {
    let mut values = parameters.to_vec();
    if let Some(condition) = known_condition {
        values.insert(1, Value::of_scalar(Scalar::bool(condition)));
    }
    importer.inline_with(body, &values)
}

/// The types of what a loop's body stacks.
fn stacked_types(
    importer: &mut Importer<'_>,
    body: &GraphProto,
    carried: &[Value],
) -> Result<Vec<TensorType>> {
    importer.graph.all_data(carried)?;
    let mut types = scan_types(carried, &[]);
    types.insert(1, Type::Tensor(TensorType { dtype: DType::Bool, shape: [].into() }));
    let mut stacked = Vec::new();
    // The region is left out: it belongs to no node.
    region(importer, &types, |importer, parameters| {
        let results = body_results(importer, body, parameters, None)?;
        stacked.extend(results[1 + carried.len()..].iter().map(|value| value.ty().clone()));
        Ok(Vec::new())
    })?;
    Ok(stacked)
}

/// A loop that asks its condition before each iteration. What it stacks is written into buffers for
/// the most iterations there may be, of which as many rows are kept as there were.
fn asked(
    node: &Node<'_>,
    importer: &mut Importer<'_>,
    body: &GraphProto,
    carried: &[Value],
    (count, starts): (Option<&Expr>, Option<Scalar>),
) -> Lowered {
    let most = count.and_then(Expr::as_constant).filter(|most| *most <= MOST_STACKED);
    let types = match most.filter(|_| body.output.len() > carried.len() + 1) {
        Some(_) => stacked_types(importer, body, carried).map(Some),
        None => Ok(None),
    };
    let is_unknown = |found: &Diagnostic| found.code == codes::UNKNOWN_CONTENTS;
    let unknown = types.as_ref().is_err_and(is_unknown);
    let types = if unknown { None } else { types? };
    if types.is_none() && body.output.len() > carried.len() + 1 {
        return Err(match (node.optional(0), node.optional(1)) {
            (Some(count), _) if count.known().is_none() => {
                node.not_known(0, "number of iterations")
            }
            (_, Some(condition)) if condition.known().is_none() => node.not_known(1, "condition"),
            _ => rows_unknown(),
        });
    }
    let mut stacks = Vec::new();
    for TensorType { dtype, shape } in types.unwrap_or_default() {
        let shape = [&[Expr::from(most.unwrap_or(0).max(0))], &shape[..]].concat();
        stacks.push(importer.graph.full(&shape, Scalar::zero(dtype))?);
    }
    let graph = &mut importer.graph;
    let zero = Value::of_scalar(Scalar::i64(0));
    let condition = match node.optional(1) {
        Some(condition) => graph.reshape(condition, &[])?,
        None => Value::of_scalar(Scalar::bool(true)),
    };
    let limit = match node.optional(0) {
        Some(limit) => {
            let limit = graph.reshape(limit, &[])?;
            graph.cast(&limit, DType::I64)?
        }
        None => Value::of_scalar(Scalar::i64(i64::MAX)),
    };
    graph.data(&limit)?;
    let states = [carried, &stacks[..]].concat();
    let all: Vec<Value> = [zero, condition].into_iter().chain(states).collect();
    graph.all_data(&all)?;
    let types: Vec<Type> = all.iter().map(|value| Type::Tensor(value.ty().clone())).collect();
    // Another iteration runs where the limit is not reached and the body said so.
    let goes_on = region(graph, &types, |graph, parameters| {
        let within = graph.less(&parameters[0], &limit)?;
        Ok(vec![graph.and(&within, &parameters[1])?])
    })?;
    let step = region(importer, &types, |importer, parameters| {
        let (own, buffers) = parameters.split_at(2 + carried.len());
        let values = body_results(importer, body, own, None)?;
        let graph = &mut importer.graph;
        let condition = values[0].known().and_then(|known| known.first()?.constant());
        let is_kept = condition.is_some_and(Scalar::as_bool) || values[0].node() == own[1].node();
        if is_kept && node.optional(0).is_none() && starts.is_some_and(Scalar::as_bool) {
            return Err(endless());
        }
        let next = graph.add_number(&own[0], 1.0)?;
        let mut all = vec![next, graph.reshape(&values[0], &[])?];
        let (states, rows) = values[1..].split_at(carried.len());
        all.extend_from_slice(states);
        for (buffer, row) in buffers.iter().zip(rows) {
            let row = graph.refine(row, &buffer.shape()[1..])?;
            let op = Op::Scatter { axes: vec![0], batch: 0, position: 0, reduction: None };
            all.push(graph.scatter(buffer, &row, std::slice::from_ref(&own[0]), op)?);
        }
        Ok(all)
    })?;
    if binds(&importer.graph, step) {
        return Err(match node.optional(0) {
            Some(count) if count.known().is_none() => node.not_known(0, "number of iterations"),
            _ => sizes_inside(),
        });
    }
    check_carried(&importer.graph, step, &types)?;
    let mut results = importer.graph.control(Op::While { turns: None }, &all, &[goes_on, step])?;
    if let Some(most) = most.filter(|_| !stacks.is_empty()) {
        let graph = &mut importer.graph;
        let rows = graph.bind(&results[0], &Expr::from(most))?;
        for stack in &mut results[2 + carried.len()..] {
            *stack = graph.slice_axis(stack, 0, Expr::ZERO, 1, rows.clone())?;
        }
    }
    Ok(results.split_off(2))
}
