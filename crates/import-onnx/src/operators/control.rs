//! Control flow: graphs inside nodes become regions.
//!
//! A region sees the values around it. Whatever it reads from there gets its node before the region
//! is opened, so that no node of a region is ever used outside of it.

use std::collections::BTreeSet;

use base::limits::exceeded;
use base::{Diagnostic, codes};
use front::{Accepted, FactKind, Graph, Operand, region, scan_types, shape_error, type_error};
use graph::{Op, RegionId, Type};
use sym::{Expr, Range};
use tensor::{DType, Scalar};

use super::Lowered;
use crate::importer::Importer;
use crate::node::Node;
use crate::order::{names_captured, names_captured_by_branch};
use crate::proto::GraphProto;

/// The most iterations of a loop that are written out.
const MOST_WRITTEN_OUT: i64 = 1 << 12;
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
        let needs = importer.graph.count_needs();
        let region = region(importer, &[], |importer, _| importer.inline(graph));
        regions.push(region.inspect_err(|found| {
            // What is inside of a region can be known where it is known which of them it is; and
            // extents that do not fit one of them are no fault where the other is taken.
            if importer.graph.count_needs() == needs {
                match found.code {
                    codes::INCONSISTENT_SHAPES => {
                        importer.graph.need(&condition, FactKind::Value, found);
                    }
                    _ => node.needed.set(Some((0, FactKind::Value))),
                }
            }
        })?);
    }
    let types = |region| {
        let results = importer.graph.builder.function().region_type(region).results;
        let tensor = |ty: &Type| ty.as_tensor().map(|ty| (ty.dtype, ty.shape.len()));
        results.iter().filter_map(tensor).collect::<Vec<(DType, usize)>>()
    };
    for ((dtype, rank), (other_dtype, other_rank)) in
        types(regions[0]).into_iter().zip(types(regions[1]))
    {
        if dtype != other_dtype {
            return Err(shape_error("its branches give different element types"));
        }
        if rank != other_rank {
            return Err(node.not_known(0, "condition"));
        }
    }
    importer.graph.branch(&condition, &[regions[0], regions[1]])
}

/// The region of a loop whose parameters have these types, of which those from `first` on are
/// carried: `turn` gives what they are next, then rows to stack. An extent that a turn changes
/// becomes a symbol in `types`.
pub(super) fn turns(
    importer: &mut Importer<'_>,
    types: &mut [Type],
    (first, carried): (usize, usize),
    turn: &mut dyn FnMut(&mut Importer<'_>, &[Operand]) -> Lowered,
) -> Accepted<RegionId> {
    let mut own = BTreeSet::new();
    loop {
        let before = importer.graph.builder.assumed();
        let region = region(importer, types, |importer, parameters| turn(importer, parameters))?;
        let results = importer.graph.builder.function().region_type(region).results;
        let mut is_new = false;
        for (now, next) in types[first..][..carried].iter_mut().zip(&results) {
            if let (Type::Sequence(now), Type::Sequence(next))
            | (Type::Optional(now), Type::Optional(next)) = (&mut *now, next)
            {
                let wide = now.join(next).ok_or_else(two_types)?;
                is_new |= **now != wide;
                **now = wide;
            }
            if std::mem::discriminant(now) != std::mem::discriminant(next) {
                return Err(two_types());
            }
            let (Type::Tensor(now), Type::Tensor(next)) = (now, next) else { continue };
            if now.shape.len() != next.shape.len() {
                return Err(rank_changes());
            }
            for (extent, next) in now.shape.iter_mut().zip(&next.shape) {
                let is_own = extent.as_symbol().is_some_and(|symbol| own.contains(&symbol));
                if extent != next && !is_own {
                    let range = Range::new(0, importer.graph.limits.dimension);
                    let symbol = importer.graph.builder.new_symbol("extent", range);
                    own.insert(symbol);
                    *extent = Expr::symbol(symbol);
                    is_new = true;
                }
            }
        }
        if !is_new {
            return Ok(region);
        }
        // The region is left out: it belongs to no node.
        importer.graph.builder.forget_since(before);
    }
}

/// The types of values as parameters of a region.
fn types_of(values: &[Operand]) -> Accepted<Vec<Type>> {
    values.iter().map(|value| value.graph_type().map_err(type_error)).collect()
}

/// The refusal of a loop that carries values of other types from turn to turn, unless its
/// iterations are written out.
fn two_types() -> Diagnostic {
    Diagnostic::error(codes::UNKNOWN_CONTENTS, "a loop changes the type of what it carries")
        .because("its turns are not alike, and the number of iterations is not known")
        .remedy("export the model with a fixed number of iterations")
}

/// The refusal of a loop that changes ranks, unless its iterations are written out.
fn rank_changes() -> Diagnostic {
    Diagnostic::error(codes::UNKNOWN_CONTENTS, "a loop changes the rank of what it carries")
        .because("kernels have loops for each axis, and the number of iterations is not known")
        .remedy("export the model with a fixed number of iterations")
}

/// The refusal of a loop that nothing ends.
fn endless() -> Diagnostic {
    Diagnostic::error(codes::ENDLESS_LOOP, "a loop never ends")
        .because("its condition always holds, and it has no largest number of iterations")
        .remedy(
            "export the model with a condition that ends the loop, or with a number of iterations",
        )
}

impl AsMut<Graph> for Importer<'_> {
    fn as_mut(&mut self) -> &mut Graph {
        &mut self.graph
    }
}

impl Importer<'_> {
    /// Makes the nodes of all values that a graph reads from around it, by these names.
    pub(super) fn prepare(&mut self, names: BTreeSet<&str>) -> Accepted<()> {
        for name in names {
            for value in self.lookup(name).map(Operand::tensors).into_iter().flatten() {
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
    let carried: Vec<Operand> =
        (2..node.inputs.len()).map(|index| node.input(index).cloned()).collect::<Accepted<_>>()?;
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
    let needs = importer.graph.count_needs();
    let refusal = match rolled(node, importer, body, &carried, count.as_ref(), starts) {
        Err(found)
            if found.code == codes::UNKNOWN_CONTENTS && importer.graph.count_needs() == needs =>
        {
            found
        }
        other => return other,
    };
    // What depends on the iteration is known where every iteration is written out.
    let most = match (count.as_ref().map(Expr::as_constant), starts.map(Scalar::as_bool)) {
        (_, Some(false)) => 0,
        (Some(None), _) | (None, _) if node.optional(0).is_some() => {
            node.needed.set(Some((0, FactKind::Value)));
            return Err(refusal);
        }
        (_, None) => {
            node.needed.set(Some((1, FactKind::Value)));
            return Err(refusal);
        }
        (count, Some(true)) => count.flatten().unwrap_or(i64::MAX),
    };
    unrolled(importer, body, most, &carried, &refusal)?.ok_or(refusal)
}

/// A loop as a region.
fn rolled(
    node: &Node<'_>,
    importer: &mut Importer<'_>,
    body: &GraphProto,
    carried: &[Operand],
    count: Option<&Expr>,
    starts: Option<Scalar>,
) -> Lowered {
    if let (Some(count), Some(true)) = (count, starts.map(Scalar::as_bool))
        && let Some(results) = counted(importer, body, count, carried)?
    {
        return Ok(results);
    }
    conditional(node, importer, body, carried, (count, starts))
}

/// The iterations of a loop behind each other. None if it has too many, if its condition is not
/// known at each, or if the shape of what it stacks is not known because it has none.
fn unrolled(
    importer: &mut Importer<'_>,
    body: &GraphProto,
    count: i64,
    carried: &[Operand],
    reason: &Diagnostic,
) -> Accepted<Option<Vec<Operand>>> {
    let mut carried = carried.to_vec();
    let mut stacks = vec![Vec::new(); body.output.len() - carried.len() - 1];
    for iteration in 0..count {
        if iteration == MOST_WRITTEN_OUT {
            return Ok(None);
        }
        let mut values = vec![
            Operand::of_scalar(Scalar::i64(iteration)),
            Operand::of_scalar(Scalar::bool(true)),
        ];
        values.extend(carried.iter().cloned());
        importer.graph.here.graphs = iteration as usize;
        let results = importer.inline_with(body, &values)?;
        let end = 1 + carried.len();
        for (stack, value) in stacks.iter_mut().zip(&results[end..]) {
            let row = [&[Expr::ONE], value.shape()].concat();
            stack.push(importer.graph.reshape(value, &row)?);
        }
        carried = results[1..end].to_vec();
        let known = results[0].known().and_then(|known| known.first()?.constant());
        match known.map(Scalar::as_bool) {
            _ if iteration + 1 == count => {}
            Some(true) => {}
            Some(false) => break,
            None => {
                importer.graph.need(&results[0], FactKind::Value, reason);
                return Ok(None);
            }
        }
    }
    for (number, stack) in stacks.iter().enumerate() {
        carried.push(match stack.is_empty() {
            true => no_rows(importer, body, &carried, number)?,
            false => importer.graph.concat(0, stack)?,
        });
    }
    Ok(Some(carried))
}

/// What a loop without a turn stacks: no rows, of the type that the body gives, in which an extent
/// that data decide is 0. Behind what is carried stand stacks that are there already.
fn no_rows(
    importer: &mut Importer<'_>,
    body: &GraphProto,
    carried: &[Operand],
    number: usize,
) -> Accepted<Operand> {
    let first = body.input.len() - 2;
    let assumed = importer.graph.builder.assumed();
    let region = region(importer, &[], |importer, _| {
        let number_and_condition =
            [Operand::of_scalar(Scalar::i64(0)), Operand::of_scalar(Scalar::bool(true))];
        let values = [&number_and_condition[..], &carried[..first]].concat();
        let results = importer.inline_with(body, &values)?;
        Ok(vec![results[1 + first + number].clone()])
    })?;
    importer.graph.builder.forget_since(assumed);
    let results = importer.graph.builder.function().region_type(region).results;
    let Some(row) = results.first().and_then(Type::as_tensor).cloned() else {
        return Err(type_error("only tensors are stacked"));
    };
    let extent = |extent: &Expr| extent.as_constant().unwrap_or(0);
    let shape: Vec<Expr> =
        std::iter::once(0).chain(row.shape.iter().map(extent)).map(Expr::from).collect();
    importer.graph.full(&shape, Scalar::zero(row.dtype))
}

/// A loop whose body always goes on: a scan. None if the body's condition is not known to hold.
fn counted(
    importer: &mut Importer<'_>,
    body: &GraphProto,
    count: &Expr,
    carried: &[Operand],
) -> Accepted<Option<Vec<Operand>>> {
    let trip_count =
        count.max(&Expr::ZERO).simplify(&|symbol| importer.graph.builder.range(symbol));
    importer.graph.all_data(carried)?;
    let mut types = scan_types(carried, &[])?;
    let mut goes_on = false;
    let region = turns(importer, &mut types, (1, carried.len()), &mut |importer, parameters| {
        let mut values = body_results(importer, body, parameters, Some(true))?;
        let condition = values.remove(0).known().and_then(|known| known.first()?.constant());
        goes_on = condition.is_some_and(Scalar::as_bool);
        Ok(values)
    })?;
    if !goes_on {
        return Ok(None);
    }
    if let Some(turns) = trip_count.as_constant() {
        let most = importer.graph.limits.turns;
        if turns.unsigned_abs() > most {
            return Err(exceeded(
                "turns",
                turns.unsigned_abs(),
                format!("a loop turns {turns} times"),
            )
            .because(format!("loops of one run turn {most} times at most")));
        }
    }
    let op = Op::Scan { trip_count, carried: carried.len(), reverse: false };
    importer.graph.control(op, carried, &[region]).map(Some)
}

/// The results of a loop's body, whose parameters are the iteration, perhaps the condition, and
/// what is carried.
pub(super) fn body_results(
    importer: &mut Importer<'_>,
    body: &GraphProto,
    parameters: &[Operand],
    known_condition: Option<bool>,
) -> Lowered {
    let mut values = parameters.to_vec();
    if let Some(condition) = known_condition {
        values.insert(1, Operand::of_scalar(Scalar::bool(condition)));
    }
    importer.inline_with(body, &values)
}

/// A loop that asks its condition before each iteration.
fn conditional(
    node: &Node<'_>,
    importer: &mut Importer<'_>,
    body: &GraphProto,
    carried: &[Operand],
    (count, starts): (Option<&Expr>, Option<Scalar>),
) -> Lowered {
    let graph = &mut importer.graph;
    let zero = Operand::of_scalar(Scalar::i64(0));
    let condition = match node.optional(1) {
        Some(condition) => graph.reshape(condition, &[])?,
        None => Operand::of_scalar(Scalar::bool(true)),
    };
    let limit = match node.optional(0) {
        Some(limit) => {
            let limit = graph.reshape(limit, &[])?;
            graph.cast(&limit, DType::I64)?
        }
        None => Operand::of_scalar(Scalar::i64(i64::MAX)),
    };
    graph.data(&limit)?;
    let own: Vec<Operand> = [&[zero, condition], carried].concat();
    graph.all_data(&own)?;
    let is_endless = node.optional(0).is_none() && starts.is_some_and(Scalar::as_bool);
    let initial = types_of(&own)?;
    let mut types = initial.clone();
    let step = turns(importer, &mut types, (0, own.len()), &mut |importer, parameters| {
        next(importer, body, parameters, is_endless)
    })?;
    let rows = importer.graph.builder.function().region_type(step).results.split_off(own.len());
    let is_interpreted = types != initial
        || carried.iter().any(|value| value.list().is_some())
        || importer.graph.builder.function().has_interpreted(step);
    let most = count.and_then(Expr::as_constant).filter(|most| *most <= MOST_STACKED);
    if let (Some(most), false, false) = (most, rows.is_empty(), is_interpreted) {
        return stacked_in_buffers(importer, body, &own, &limit, (most.max(0), &rows));
    }
    let graph = &mut importer.graph;
    let range = Range::new(0, most.unwrap_or(graph.limits.dimension));
    let turns = (!rows.is_empty()).then(|| graph.builder.new_symbol("turns", range));
    let goes_on = goes_on(graph, &types, &limit)?;
    let mut results = graph.control(Op::While { turns }, &own, &[goes_on, step])?;
    Ok(results.split_off(2))
}

/// The region of a loop's condition: another iteration runs where the limit is not reached and the
/// body said so.
fn goes_on(graph: &mut Graph, types: &[Type], limit: &Operand) -> Accepted<RegionId> {
    region(graph, types, |graph, parameters| {
        let within = graph.less(&parameters[0], limit)?;
        Ok(vec![graph.and(&within, &parameters[1])?])
    })
}

/// What a turn makes of its number, the condition and what is carried; behind it the rows.
fn next(
    importer: &mut Importer<'_>,
    body: &GraphProto,
    own: &[Operand],
    is_endless: bool,
) -> Lowered {
    let values = body_results(importer, body, own, None)?;
    let graph = &mut importer.graph;
    let condition = values[0].known().and_then(|known| known.first()?.constant());
    let is_kept = condition.is_some_and(Scalar::as_bool) || values[0].node() == own[1].node();
    if is_kept && is_endless {
        return Err(endless());
    }
    if values[0].dtype() != DType::Bool {
        return Err(type_error(format!("its condition is {}, not a boolean", values[0].dtype())));
    }
    let number = graph.add_number(&own[0], 1.0)?;
    let condition = graph.reshape(&values[0], &[])?;
    Ok([&[number, condition], &values[1..]].concat())
}

/// A loop that asks its condition, and writes what it stacks into buffers for the most iterations
/// there may be, of which as many rows are kept as there were: so it need not be interpreted.
fn stacked_in_buffers(
    importer: &mut Importer<'_>,
    body: &GraphProto,
    own: &[Operand],
    limit: &Operand,
    (most, rows): (i64, &[Type]),
) -> Lowered {
    let mut all = own.to_vec();
    for row in rows.iter().filter_map(Type::as_tensor) {
        let shape = [&[Expr::from(most)], &row.shape[..]].concat();
        all.push(importer.graph.full(&shape, Scalar::zero(row.dtype))?);
    }
    importer.graph.all_data(&all)?;
    let types = types_of(&all)?;
    let goes_on = goes_on(&mut importer.graph, &types, limit)?;
    let step = region(importer, &types, |importer, parameters| {
        let (own, buffers) = parameters.split_at(own.len());
        let mut values = next(importer, body, own, false)?;
        let rows = values.split_off(own.len());
        let graph = &mut importer.graph;
        for (buffer, row) in buffers.iter().zip(&rows) {
            let row = graph.refine(row, &buffer.shape()[1..])?;
            let op = Op::Scatter { axes: vec![0], batch: 0, position: 0, reduction: None };
            values.push(graph.scatter(buffer, &row, std::slice::from_ref(&own[0]), op)?);
        }
        Ok(values)
    })?;
    let graph = &mut importer.graph;
    let mut results = graph.control(Op::While { turns: None }, &all, &[goes_on, step])?;
    let rows = graph.bind(&results[0], &Expr::from(most))?;
    for stack in &mut results[own.len()..] {
        *stack = graph.slice_axis(stack, 0, Expr::ZERO, 1, rows.clone())?;
    }
    Ok(results.split_off(2))
}
