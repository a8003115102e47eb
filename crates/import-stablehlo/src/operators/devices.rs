//! Several devices: what each computes by itself, and what they tell each other.
//!
//! A program says what a whole of devices computes. Where it says what each of them does
//! (`sdy.manual_computation`), a value is one for each device ([`Value::Each`]), and an operation
//! is lowered for each; where they tell each other something, it is an operation on the values of
//! all. All is one graph, so that what devices tell each other costs what moving it in memory does.

use base::{Diagnostic, InOrder, codes};
use front::{Accepted, Operand, shape_error, unsupported};
use sym::Expr;
use tensor::Scalar;

use super::body::lifted;
use super::reductions::region;
use crate::importer::{Frame, Importer};
use crate::node::{Lowered, Node, Value};
use crate::sharding::{Mesh, Sharding, axis_names, per_value};
use crate::syntax::{Attribute, Block, Operation};

/// Devices whose values are told apart.
#[derive(Clone)]
pub(crate) struct Members {
    /// Their numbers.
    numbers: Vec<usize>,
    /// For every device which of them does the same.
    places: Vec<usize>,
}

/// Operations by which devices tell each other something.
const COLLECTIVES: &[&str] = &[
    "stablehlo.all_gather",
    "stablehlo.all_reduce",
    "stablehlo.all_to_all",
    "stablehlo.collective_broadcast",
    "stablehlo.collective_permute",
    "stablehlo.reduce_scatter",
];

/// Operations that pass values of all devices on as they are.
const PASSING: &[&str] = &["func.call", "stablehlo.composite"];

impl<'p> Importer<'p> {
    /// Lowers an operation for each device where it must be; none where it is lowered once.
    pub(crate) fn for_each_device(
        &mut self,
        node: &Node<'p>,
        frame: &mut Frame,
        lower: &mut dyn FnMut(&mut Self, &Node<'p>, &mut Frame) -> Lowered,
    ) -> Accepted<Option<Vec<Value>>> {
        let Some(members) = self.members.clone() else { return Ok(None) };
        let operation = node.operation;
        let name = operation.name.as_str();
        if COLLECTIVES.contains(&name) || PASSING.contains(&name) || self.device.is_some() {
            return Ok(None);
        }
        let count = members.numbers.len();
        if !operation.regions.is_empty() && self.tells(&operation.regions) {
            // Devices go through loops and branches together in which they tell each other things.
            let operands = node.operands.iter().map(|value| value.on_each(count)).collect();
            let mut node = Node { operands, ..*node };
            if ["stablehlo.case", "stablehlo.if"].contains(&name) {
                let chosen = node.operands.first_mut();
                chosen.into_iter().for_each(|value| *value = value.on(0));
            }
            return lower(self, &node, frame).map(Some);
        }
        let is_each = |value: &Value| matches!(value, Value::Each(_));
        let reads_each = || {
            let used = used_values(&operation.regions);
            used.into_iter().any(|number| frame[number].as_ref().is_some_and(is_each))
        };
        let is_apart =
            node.operands.iter().any(is_each) || name == "stablehlo.partition_id" || reads_each();
        if !is_apart {
            return Ok(None);
        }
        let mut results: Vec<Vec<Value>> = Vec::new();
        for device in 0..count {
            let operands = node.operands.iter().map(|value| value.on(device)).collect();
            let node = Node { operands, ..*node };
            let mut own: Frame = match operation.regions.is_empty() {
                true => Vec::new(),
                false => frame.iter().map(|it| it.as_ref().map(|it| it.on(device))).collect(),
            };
            self.device = Some(members.numbers[device]);
            let found = lower(self, &node, &mut own);
            self.device = None;
            results.push(found?);
        }
        let of = |number: usize| results.iter().map(|values| values[number].clone()).collect();
        Ok(Some((0..results[0].len()).map(|number| Value::Each(of(number))).collect()))
    }

    /// How many devices are told apart by what is being lowered; none where it is one's.
    pub(crate) fn devices_together(&self) -> Option<usize> {
        let members = self.members.as_ref().filter(|_| self.device.is_none());
        members.map(|members| members.numbers.len())
    }

    /// Whether devices tell each other something within regions, or in functions called there.
    fn tells(&self, regions: &[Block]) -> bool {
        let mut blocks: Vec<&Block> = regions.iter().collect();
        let mut called: Vec<&str> = Vec::new();
        while let Some(block) = blocks.pop() {
            for operation in &block.operations {
                if COLLECTIVES.contains(&operation.name.as_str()) {
                    return true;
                }
                blocks.extend(&operation.regions);
                let callee = Attribute::of(&operation.attributes, "callee");
                if let Some(callee) = callee.and_then(Attribute::word)
                    && !called.contains(&callee)
                    && let Some(function) = self.program.function(callee)
                {
                    called.push(callee);
                    blocks.push(&function.body);
                }
            }
        }
        false
    }
}

/// The numbers of all values that operations of blocks read.
fn used_values(regions: &[Block]) -> Vec<usize> {
    let mut used = Vec::new();
    let mut operations: Vec<&Operation> = regions.iter().flat_map(|it| &it.operations).collect();
    while let Some(operation) = operations.pop() {
        used.extend(&operation.operands);
        operations.extend(operation.regions.iter().flat_map(|it| &it.operations));
    }
    used
}

/// A computation of which each device does its part.
pub(crate) fn manual<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    frame: &mut Frame,
) -> Lowered {
    if importer.members.is_some() {
        return Err(unsupported("a computation of devices within another"));
    }
    let program = importer.program;
    let shardings = |name: &str| per_value(program, node.word(name)?);
    let (inputs, outputs) = (shardings("in_shardings")?, shardings("out_shardings")?);
    let axes = axis_names(program, node.word("manual_axes")?)?;
    let body = region(node, 0)?;
    if inputs.len() != node.operands.len() || body.parameters.len() != inputs.len() {
        return Err(shape_error("there are more shardings, or fewer, than operands"));
    }
    let mesh = inputs.iter().chain(&outputs).next();
    let mesh = mesh.map_or_else(|| Mesh::line(1), |sharding| sharding.mesh.clone());
    let (numbers, places) = mesh.along(&axes);
    let mut arguments = Vec::new();
    for (value, sharding) in node.operands.iter().zip(&inputs) {
        let mut each = Vec::new();
        for &device in &numbers {
            each.push(part_of(importer, value, sharding, (device, &axes))?);
        }
        arguments.push(Value::Each(each));
    }
    importer.members = Some(Members { numbers: numbers.clone(), places });
    let results = importer.block(node.function, body, frame, arguments);
    importer.members = None;
    let results = results?;
    if results.len() != outputs.len() {
        return Err(shape_error("there are more shardings, or fewer, than results"));
    }
    let mut joined = Vec::new();
    for (value, sharding) in results.iter().zip(&outputs) {
        joined.push(whole(importer, value, sharding, (&numbers, &axes))?);
    }
    Ok(joined)
}

/// What of a value a device holds, as far as these axes of the mesh cut it.
fn part_of(
    importer: &mut Importer<'_>,
    value: &Value,
    sharding: &Sharding,
    (device, axes): (usize, &[String]),
) -> Accepted<Value> {
    let places = sharding.places(device, Some(axes));
    value.each(|part| {
        let mut part = part.clone();
        for (axis, &(place, count)) in places.iter().enumerate().filter(|(_, it)| it.1 > 1) {
            part = piece(importer, &part, axis, (place, count))?;
        }
        Ok(part)
    })
}

/// One of so many equal pieces along an axis.
fn piece(
    importer: &mut Importer<'_>,
    value: &Operand,
    axis: usize,
    (place, count): (usize, usize),
) -> Accepted<Operand> {
    let extent = value.shape().get(axis).and_then(Expr::as_constant);
    let extent = extent.filter(|extent| extent % count as i64 == 0);
    let Some(extent) = extent else {
        return Err(shape_error(format!("axis {axis} is not cut into {count} equal pieces")));
    };
    let size = extent / count as i64;
    let start = Expr::from(place as i64 * size);
    importer.graph.slice_axis(value, axis, start, 1, Expr::from(size))
}

/// The value of which devices hold parts.
fn whole(
    importer: &mut Importer<'_>,
    value: &Value,
    sharding: &Sharding,
    (numbers, axes): (&[usize], &[String]),
) -> Accepted<Value> {
    let places: Vec<Vec<(usize, usize)>> =
        numbers.iter().map(|&device| sharding.places(device, Some(axes))).collect();
    // Parts by where they lie; axes are joined from the innermost on.
    let mut parts: Vec<(Vec<usize>, Value)> = Vec::new();
    for (member, places) in places.iter().enumerate() {
        let place: Vec<usize> = places.iter().map(|it| it.0).collect();
        if parts.iter().all(|(other, _)| *other != place) {
            parts.push((place, value.on(member)));
        }
    }
    parts.put_in_order_by(|(a, _), (b, _)| a.cmp(b));
    for axis in (0..sharding.rank()).rev() {
        let count = places.first().map_or(1, |places| places[axis].1);
        if count == 1 {
            continue;
        }
        let mut joined: Vec<(Vec<usize>, Value)> = Vec::new();
        for group in parts.chunk_by(|(a, _), (b, _)| a[..axis] == b[..axis]) {
            if group.len() != count {
                return Err(shape_error("devices hold fewer parts than a value has"));
            }
            let values: Vec<&Value> = group.iter().map(|(_, value)| value).collect();
            joined.push((group[0].0[..axis].to_vec(), concatenated(importer, &values, axis)?));
        }
        parts = joined;
    }
    let mut parts = parts.into_iter();
    parts.next().map(|(_, value)| value).ok_or_else(|| shape_error("no device holds a value"))
}

/// Values behind each other along an axis.
fn concatenated(importer: &mut Importer<'_>, values: &[&Value], axis: usize) -> Accepted<Value> {
    let parts: Vec<Vec<&Operand>> = values.iter().map(|value| value.parts()).collect();
    let mut number = 0;
    values[0].each(|_| {
        let parts: Vec<Operand> = parts.iter().map(|parts| parts[number].clone()).collect();
        number += 1;
        importer.graph.concat(axis, &parts)
    })
}

/// An operation by which devices tell each other something.
pub(crate) fn collective<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    frame: &mut Frame,
) -> Lowered {
    // Outside of a computation of each device's part there is one, which has itself to tell.
    let alone = || Members { numbers: vec![0], places: vec![0] };
    let members = importer.members.clone().unwrap_or_else(alone);
    let groups = groups(node, &members)?;
    let mut results = Vec::new();
    for value in &node.operands {
        let values: Vec<Value> = (0..members.numbers.len()).map(|it| value.on(it)).collect();
        let mut found: Vec<Option<Value>> = vec![None; values.len()];
        for group in &groups {
            let own: Vec<&Value> = group.iter().map(|&member| &values[member]).collect();
            let told = exchanged(importer, node, frame, &own)?;
            for (&member, value) in group.iter().zip(told) {
                found[member] = Some(value);
            }
        }
        // Who is in no group keeps what it has; of a permutation it gets zeros.
        let mut each = Vec::new();
        for (found, value) in found.into_iter().zip(&values) {
            each.push(match found {
                Some(found) => found,
                None => value.clone(),
            });
        }
        results.push(match importer.members {
            Some(_) => Value::Each(each),
            None => each.swap_remove(0),
        });
    }
    Ok(results)
}

/// Groups of members that tell each other something, as places among them.
fn groups(node: &Node<'_>, members: &Members) -> Accepted<Vec<Vec<usize>>> {
    let all = || vec![(0..members.numbers.len()).collect()];
    if node.operation.name == "stablehlo.collective_permute" {
        return Ok(all());
    }
    let Some(Attribute::Elements(elements)) = node.attribute("replica_groups") else {
        return Ok(all());
    };
    let [_, width] = elements.shape[..] else {
        return Err(shape_error("`replica_groups` is no table"));
    };
    let numbers = node.required("replica_groups")?;
    if numbers.is_empty() || width == 0 {
        return Ok(all());
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for row in numbers.chunks(width) {
        let mut group = Vec::new();
        // Rows are filled up by negative numbers.
        for &number in row.iter().filter(|number| **number >= 0) {
            let place = members.places.get(number as usize).copied();
            let place = place.ok_or_else(|| {
                Diagnostic::error(codes::BAD_ATTRIBUTE, format!("there is no device {number}"))
                    .because("`replica_groups` names it")
                    .remedy("write the program anew, for the devices that there are")
            })?;
            group.push(place);
        }
        if groups.iter().all(|other| *other != group) {
            groups.push(group);
        }
    }
    Ok(groups)
}

/// What each of a group gets where all have these values.
fn exchanged<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    frame: &mut Frame,
    values: &[&Value],
) -> Accepted<Vec<Value>> {
    let count = values.len();
    let alike = |value: Value| vec![value; count];
    let rank = values.first().map_or(0, |value| value.rank());
    let pieces = |importer: &mut Importer<'p>, value: &Value, axis: usize| {
        let one = |importer: &mut Importer<'p>, place| {
            value.each(|part| piece(importer, part, axis, (place, count)))
        };
        (0..count).map(|place| one(importer, place)).collect::<Accepted<Vec<Value>>>()
    };
    Ok(match node.operation.name.as_str() {
        "stablehlo.all_reduce" => alike(reduced(importer, node, frame, values)?),
        "stablehlo.reduce_scatter" => {
            let axis = node.axis("scatter_dimension", rank)?;
            let sum = reduced(importer, node, frame, values)?;
            pieces(importer, &sum, axis)?
        }
        "stablehlo.all_gather" => {
            let axis = node.axis("all_gather_dim", rank)?;
            alike(concatenated(importer, values, axis)?)
        }
        "stablehlo.all_to_all" => {
            let split = node.axis("split_dimension", rank)?;
            let joined = node.axis("concat_dimension", rank)?;
            let mut parts = Vec::new();
            for value in values {
                parts.push(pieces(importer, value, split)?);
            }
            let mut found = Vec::new();
            for place in 0..count {
                let own: Vec<&Value> = parts.iter().map(|parts| &parts[place]).collect();
                found.push(concatenated(importer, &own, joined)?);
            }
            found
        }
        "stablehlo.collective_broadcast" => alike(values[0].clone()),
        _ => {
            let members = importer.members.clone();
            let pairs = node.required("source_target_pairs")?;
            let mut found = Vec::new();
            for place in 0..count {
                let number = members.as_ref().map_or(place, |it| it.numbers[place]) as i64;
                let source = pairs.chunks(2).find(|pair| pair[1..] == [number]);
                let source = source.map(|pair| pair[0] as usize);
                let source = source.and_then(|source| match &members {
                    Some(members) => members.places.get(source).copied(),
                    None => Some(source),
                });
                found.push(match source.and_then(|source| values.get(source)) {
                    Some(value) => (*value).clone(),
                    None => values[place].each(|part| {
                        importer.graph.full(part.shape(), Scalar::zero(part.dtype()))
                    })?,
                });
            }
            found
        }
    })
}

/// What the operation's body makes of all values, in order.
fn reduced<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    frame: &mut Frame,
    values: &[&Value],
) -> Accepted<Value> {
    let body = region(node, 0)?;
    let members = importer.members.take();
    let mut sum = values[0].clone();
    let mut failed = None;
    for value in &values[1..] {
        let arguments = vec![sum.clone(), (*value).clone()];
        match lifted(importer, node.function, body, frame, arguments) {
            Ok(mut found) if found.len() == 1 => sum = found.swap_remove(0),
            Ok(_) => failed = Some(shape_error("a body gives one value")),
            Err(found) => failed = Some(found),
        }
    }
    importer.members = members;
    failed.map_or(Ok(sum), Err)
}
