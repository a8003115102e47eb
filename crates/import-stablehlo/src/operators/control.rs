//! Control flow, calls, tuples, and what a program says of its own values.

use base::{Diagnostic, codes};
use front::{Accepted, Operand, region as graph_region, shape_error, unsupported};
use graph::{Op, RegionId};
use sym::Expr;
use tensor::{DType, Scalar, ScalarFunction as F};

use super::indexing::region_types;
use super::{lapack, reductions};
use crate::check::CheckKind;
use crate::importer::{Frame, Importer};
use crate::node::{Lowered, Node, Value, one};
use crate::syntax::{Attribute, Block};

pub(crate) fn unchanged<'p>(_: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    Ok(node.operands.clone())
}

pub(crate) fn token<'p>(_: &mut Importer<'p>, _: &Node<'p>, _: &mut Frame) -> Lowered {
    Ok(vec![Value::Token])
}

pub(crate) fn tuple<'p>(_: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    Ok(vec![Value::Tuple(node.operands.clone())])
}

pub(crate) fn get_tuple_element<'p>(
    _: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let Value::Tuple(values) = node.value(0)? else {
        return Err(shape_error("its operand is no tuple"));
    };
    let number = usize::try_from(node.integer("index")?).unwrap_or(usize::MAX);
    let value = values.get(number).cloned();
    Ok(vec![value.ok_or_else(|| shape_error("a tuple has too few parts"))?])
}

/// The number of the device: of the one for which the operation is lowered, else 0.
pub(crate) fn number_of_device<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let number = importer.device.unwrap_or(0);
    one(importer.graph.number(node.dtype()?, number as f64))
}

/// There is one replica, of number 0.
pub(crate) fn number_of_replica<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    one(importer.graph.number(node.dtype()?, 0.0))
}

fn call_of<'p>(importer: &mut Importer<'p>, node: &Node<'p>, name: &str) -> Lowered {
    let Some(function) = importer.program.function(name) else {
        return Err(Diagnostic::error(
            codes::UNDEFINED_NAME,
            format!("there is no function `{name}`"),
        )
        .because("it is called, and the program does not hold it")
        .remedy("write the program anew, with all of its functions"));
    };
    importer.call(function, node.operands.clone())
}

pub(crate) fn call<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let name = node.word("callee")?.to_owned();
    call_of(importer, node, &name)
}

/// What it is composed of.
pub(crate) fn composite<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let name = node.word("decomposition")?.to_owned();
    call_of(importer, node, &name)
}

// --- regions ---

pub(crate) fn repeat<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    frame: &mut Frame,
) -> Lowered {
    let [condition, body] = &node.operation.regions[..] else {
        return Err(shape_error("a loop has a condition and a body"));
    };
    importer.settle(&node.operation.regions, frame)?;
    let carried: Vec<Operand> = node.operands.iter().flat_map(Value::parts).cloned().collect();
    importer.graph.all_data(&carried)?;
    let types = region_types(&node.operands);
    let mut region = |block: &'p Block, is_condition: bool| {
        graph_region(importer, &types, |importer, parameters| {
            let mut parts = parameters.iter().cloned();
            let arguments = node.operands.iter().map(|value| value.with_parts(&mut parts));
            let arguments = arguments.collect::<Accepted<Vec<Value>>>()?;
            let results = importer.block(node.function, block, frame, arguments)?;
            if is_condition {
                let [condition] = &results[..] else {
                    return Err(shape_error("a condition is one value"));
                };
                // Devices that loop together go on alike.
                return Ok(condition.on(0).parts().into_iter().cloned().collect());
            }
            let alike = node.operands.iter().zip(results).map(|(value, result)| match value {
                Value::Each(values) => result.on_each(values.len()),
                _ => result,
            });
            let results: Vec<Value> = alike.collect();
            Ok(results.iter().flat_map(Value::parts).cloned().collect())
        })
    };
    let condition = region(condition, true)?;
    let body = region(body, false)?;
    let results =
        importer.graph.control(Op::While { turns: None }, &carried, &[condition, body])?;
    let mut results = results.into_iter();
    node.operands.iter().map(|value| value.with_parts(&mut results)).collect()
}

pub(crate) fn branch<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    frame: &mut Frame,
) -> Lowered {
    let [first, second] = &node.operation.regions[..] else {
        return Err(shape_error("a branch has two regions"));
    };
    importer.settle(&node.operation.regions, frame)?;
    let condition = importer.graph.reshape(node.real(0)?, &[])?;
    choose(importer, node, frame, &condition, (&[first], &[second]), None)
}

pub(crate) fn case<'p>(importer: &mut Importer<'p>, node: &Node<'p>, frame: &mut Frame) -> Lowered {
    let regions: Vec<&'p Block> = node.operation.regions.iter().collect();
    importer.settle(&node.operation.regions, frame)?;
    let graph = &mut importer.graph;
    let index = graph.reshape(node.real(0)?, &[])?;
    // An index that is out of range chooses the last.
    let (zero, last) = (graph.number(index.dtype(), 0.0), (regions.len() as i64 - 1));
    let last = Operand::of_scalar(Scalar::from_i64(index.dtype(), last));
    let (below, above) = (graph.less(&index, &zero)?, graph.greater(&index, &last)?);
    let outside = graph.or(&below, &above)?;
    let index = graph.select(&outside, &last, &index)?;
    graph.data(&index)?;
    chosen(importer, node, frame, &regions, &index, 0)
}

/// One of several regions, of which the first has this number.
fn chosen<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    frame: &mut Frame,
    regions: &[&'p Block],
    index: &Operand,
    number: i64,
) -> Lowered {
    match regions {
        [] => Err(shape_error("there is no region to choose")),
        [only] => importer.block(node.function, only, frame, Vec::new()),
        [first, rest @ ..] => {
            let here = Operand::of_scalar(Scalar::from_i64(index.dtype(), number));
            let is_here = importer.graph.map(F::Eq, &[index, &here])?;
            choose(importer, node, frame, &is_here, (&[first], rest), Some((index, number + 1)))
        }
    }
}

/// The first region where the condition holds, else what is chosen of others.
fn choose<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    frame: &mut Frame,
    condition: &Operand,
    (first, rest): (&[&'p Block], &[&'p Block]),
    index: Option<(&Operand, i64)>,
) -> Lowered {
    importer.graph.data(condition)?;
    let mut like: Vec<Value> = Vec::new();
    let mut region =
        |regions: &[&'p Block], number: Option<(&Operand, i64)>| -> Accepted<RegionId> {
            graph_region(importer, &[], |importer, _| {
                let results = match number {
                    Some((index, number)) => chosen(importer, node, frame, regions, index, number)?,
                    None => importer.block(node.function, regions[0], frame, Vec::new())?,
                };
                // Branches give values of the same form, whichever devices tell apart.
                let results = match importer.devices_together() {
                    Some(count) => results.iter().map(|value| value.on_each(count)).collect(),
                    None => results,
                };
                let parts = results.iter().flat_map(Value::parts).cloned().collect();
                like = results;
                Ok(parts)
            })
        };
    let regions = [region(first, None)?, region(rest, index)?];
    let results = importer.graph.branch(condition, &regions)?;
    let mut results = results.into_iter();
    like.iter().map(|value| value.with_parts(&mut results)).collect()
}

/// A loop over the slices of its first operands along an axis, which carries the others. The body
/// gives the slices of the results, then what is carried.
pub(crate) fn scan<'p>(importer: &mut Importer<'p>, node: &Node<'p>, frame: &mut Frame) -> Lowered {
    let counts = node.required("operandSegmentSizes")?;
    let count = counts.first().and_then(|&count| usize::try_from(count).ok());
    let count = count.filter(|count| (1..=node.operands.len()).contains(count));
    let Some(count) = count else {
        return Err(shape_error("a scan has inputs and what is carried"));
    };
    let (inputs, initial) = node.operands.split_at(count);
    let axis = node.axis("dimension", inputs[0].rank())?;
    let body = super::reductions::region(node, 0)?;
    importer.settle(&node.operation.regions, frame)?;
    let graph = &mut importer.graph;
    let mut first: Vec<Value> = Vec::new();
    for value in inputs {
        let mut order: Vec<usize> = (0..value.rank()).filter(|it| *it != axis).collect();
        order.insert(0, axis);
        first.push(value.each(|part| graph.transpose(part, &order))?);
    }
    let own = |values: &[Value]| -> Vec<Operand> {
        values.iter().flat_map(Value::parts).cloned().collect()
    };
    let (carried, scanned) = (own(initial), own(&first));
    graph.all_data(carried.iter().chain(&scanned))?;
    let trip_count = first[0].shape()[0].clone();
    let types = front::scan_types(&carried, &scanned)?;
    let mut stacked: Vec<Value> = Vec::new();
    let region = graph_region(importer, &types, |importer, parameters| {
        let (states, slices) = parameters[1..].split_at(carried.len());
        let mut parts = slices.iter().chain(states).cloned();
        let arguments = first.iter().chain(initial).map(|value| value.with_parts(&mut parts));
        let arguments = arguments.collect::<Accepted<Vec<Value>>>()?;
        let results = importer.block(node.function, body, frame, arguments)?;
        let Some(outputs) = results.len().checked_sub(initial.len()) else {
            return Err(shape_error("a body gives less than what is carried"));
        };
        let (outputs, states) = results.split_at(outputs);
        stacked = outputs.to_vec();
        Ok([own(states), own(outputs)].concat())
    })?;
    let op = Op::Scan { trip_count, carried: carried.len(), reverse: node.flag("is_reverse") };
    let results = importer.graph.control(op, &[carried, scanned].concat(), &[region])?;
    let mut results = results.into_iter();
    let carried = initial.iter().map(|value| value.with_parts(&mut results));
    let carried = carried.collect::<Accepted<Vec<Value>>>()?;
    let mut found = Vec::new();
    for value in &stacked {
        found.push(value.with_parts(&mut results)?.each(|part| {
            let mut order: Vec<usize> = (1..part.rank()).collect();
            order.insert(axis.min(part.rank() - 1), 0);
            importer.graph.transpose(part, &order)
        })?);
    }
    found.extend(carried);
    Ok(found)
}

// --- checks ---

/// Keeps what a program expects; where nobody asks for it, a program that expects is refused.
fn expect(importer: &mut Importer<'_>, node: &Node<'_>, kind: CheckKind) -> Lowered {
    let computed = node.value(0)?.clone();
    let expected = match (node.operands.get(1), node.attribute("value")) {
        (Some(value), _) => value.clone(),
        (None, Some(Attribute::Elements(elements))) => {
            let elements = elements.clone();
            importer.constant(&elements, "expected")?
        }
        _ => return Err(shape_error("nothing is expected")),
    };
    let place = importer.program.place(node.operation.place);
    if importer.graph.is_in_region() {
        return Err(unsupported("a check within a loop or branch"));
    }
    match &mut importer.checks {
        Some(checks) => checks.push((kind, place, computed, expected)),
        None => {
            return Err(unsupported("the program checks its own values")
                .remedy("run its folder with `tilewright conformance`, or leave the checks out"));
        }
    }
    Ok(Vec::new())
}

pub(crate) fn check_equal<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    expect(importer, node, CheckKind::Equal)
}

pub(crate) fn check_almost<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let tolerance = match node.attribute("tolerance") {
        Some(Attribute::Float(tolerance)) => *tolerance,
        _ => 1e-4,
    };
    expect(importer, node, CheckKind::Almost(tolerance))
}

pub(crate) fn check_close<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let bound = |name: &str, default| -> Accepted<u64> {
        Ok(node.integer_or(name, default)?.max(0) as u64)
    };
    let (least, most) = (bound("min_ulp_difference", 0)?, bound("max_ulp_difference", 3)?);
    expect(importer, node, CheckKind::Close { least, most })
}

pub(crate) fn custom_call<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    frame: &mut Frame,
) -> Lowered {
    match node.word("call_target_name")? {
        "check.expect_eq" => check_equal(importer, node, frame),
        "check.expect_almost_eq" => check_almost(importer, node, frame),
        "check.expect_close" => check_close(importer, node, frame),
        "check.eq" => {
            // Its result says whether the operands are equal.
            if importer.checks.is_some() {
                expect(importer, node, CheckKind::Equal)?;
            }
            one(all_equal(importer, node)?)
        }
        // What only says how values lie in memories of devices.
        "Sharding"
        | "annotate_device_placement"
        | "SPMDFullToShardShape"
        | "SPMDShardToFullShape" => Ok(node.operands.clone()),
        "shape_assertion" => Ok(Vec::new()),
        "ApproxTopK" => {
            let told = |name: &str| lapack::told(node, name).and_then(Attribute::integer);
            reductions::approximate_top_k(importer, node, told)
        }
        other => match lapack::routine(other) {
            Some(lower) => lower(importer, node, frame),
            None => Err(Diagnostic::error(
                codes::UNSUPPORTED_OPERATOR,
                format!("custom call `{other}` is not supported"),
            )
            .because("what it computes is in a library of the framework's, not in the program")
            .remedy("write the function without it, or for a platform that has no such call")),
        },
    }
}

fn all_equal(importer: &mut Importer<'_>, node: &Node<'_>) -> Accepted<Operand> {
    let (a, b) = (node.value(0)?, node.value(1)?);
    let graph = &mut importer.graph;
    let mut all = Operand::of_scalar(Scalar::bool(true));
    for (a, b) in a.parts().into_iter().zip(b.parts()) {
        let equal = graph.map(F::Eq, &[a, b])?;
        let axes: Vec<usize> = (0..equal.rank()).collect();
        let equal = graph.reduce_axes(&equal, &axes, tensor::Reduction::And, false)?;
        let equal = graph.reshape(&equal, &[] as &[Expr])?;
        let equal = graph.cast(&equal, DType::Bool)?;
        all = graph.and(&all, &equal)?;
    }
    Ok(all)
}
