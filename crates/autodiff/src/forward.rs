//! Forward mode: from *tangents* of sources (how they move) those of what is computed of them.
//!
//! No primitive has a second rule for it. The rules of reverse mode are linear in the cotangent, so
//! the tangent of a result is the gradient, by that cotangent, of the sum of what the rule gives
//! for each operand times the operand's tangent: a rule that is transposed twice. The cotangent
//! itself appears nowhere in that.
//!
//! Branches and loops are made once more, to carry tangents beside what they carried; what read
//! their results reads those of the new ones, so that what is behind them is copied, too.

use std::collections::{BTreeMap, BTreeSet};

use base::IntoTree;
use graph::{Built, FunctionBuilder, Node, NodeId, Op, RegionId, ValueId};

use crate::{
    Reverse, TransformRefusal, changes_extents, constant, inside, is_float, needed, nowhere, spread,
};

/// Appends the tangents of `values`, given those of `sources` (of their types), all of them of the
/// innermost open region. Returns for each value what now stands for it, and its tangent: zeros
/// where it does not depend on a source. Nodes of the region before the one of number `first` are
/// taken as constant.
///
/// # Errors
/// The first node on the way that has no derivative.
pub fn tangents(
    builder: &mut FunctionBuilder,
    first: usize,
    values: &[ValueId],
    sources: &[(ValueId, ValueId)],
) -> Result<Vec<(ValueId, ValueId)>, TransformRefusal> {
    let nodes = needed(builder, first, values);
    let known = sources.iter().copied().filter(|&(source, _)| is_float(builder, source));
    let tangents = known.collect();
    let mut forward = Forward { builder, copies: BTreeMap::new(), tangents };
    for node in nodes {
        forward.node(node, false)?;
    }
    let pair = |&value: &ValueId| {
        let tangent = forward.tangent(value).map_err(nowhere)?;
        Ok((forward.copy(value), tangent))
    };
    values.iter().map(pair).collect()
}

/// A walk over nodes in their order.
struct Forward<'b> {
    builder: &'b mut FunctionBuilder,
    /// What stands for values that have been made once more.
    copies: BTreeMap<ValueId, ValueId>,
    /// Of the values that move.
    tangents: BTreeMap<ValueId, ValueId>,
}

/// A region's results, and the tangents of those that move.
type Moved = (Vec<ValueId>, Vec<Option<ValueId>>);

impl Forward<'_> {
    fn copy(&self, value: ValueId) -> ValueId {
        self.copies.get(&value).copied().unwrap_or(value)
    }

    fn copy_all(&self, values: &[ValueId]) -> Vec<ValueId> {
        values.iter().map(|&value| self.copy(value)).collect()
    }

    /// A value's tangent, zeros where it does not move.
    fn tangent(&mut self, value: ValueId) -> Built {
        match self.tangents.get(&value) {
            Some(&tangent) => Ok(tangent),
            None => constant(self.builder, value, 0.0),
        }
    }

    fn bind(&mut self, value: ValueId, copy: ValueId, tangent: Option<ValueId>) {
        self.copies.insert(value, copy);
        match tangent {
            Some(tangent) => self.tangents.insert(value, tangent),
            None => self.tangents.remove(&value),
        };
    }

    /// Makes the tangents of a node's results, and the node once more where it must be: inside of a
    /// region that is copied, and behind one.
    fn node(&mut self, id: NodeId, must: bool) -> Result<(), TransformRefusal> {
        let function = self.builder.function();
        let node = function.nodes[id].clone();
        let reads = function.reads(id);
        let moves = reads.iter().any(|value| self.tangents.contains_key(value));
        let changes = reads.iter().any(|&value| self.copy(value) != value);
        if !must && !moves && !changes {
            return Ok(());
        }
        self.builder.set_location(node.location);
        let made = match node.regions.is_empty() {
            true => self.plain(&node, must || changes),
            false if changes_extents(self.builder.function(), id) => {
                let name = node.op.name();
                Err(format!("`{name}` cannot be differentiated: it computes extents"))
            }
            false => self.control(&node),
        };
        let (results, tangents) = made.map_err(|reason| TransformRefusal {
            place: self.builder.function().locations.describe(node.location),
            reason,
        })?;
        for ((&old, new), tangent) in node.results.iter().zip(results).zip(tangents) {
            self.bind(old, new, tangent);
        }
        Ok(())
    }

    fn plain(&mut self, node: &Node, must: bool) -> Built<Moved> {
        let mut made = node.clone();
        if must {
            let operands = self.copy_all(&node.operands);
            made.results = self.builder.add(node.op.clone(), &operands)?.into();
            made.operands = operands.into();
        }
        let moves: Vec<Option<ValueId>> =
            node.operands.iter().map(|operand| self.tangents.get(operand).copied()).collect();
        let mut tangents = vec![None; made.results.len()];
        if moves.iter().any(Option::is_some) && is_float(self.builder, made.results[0]) {
            tangents[0] = transposed_twice(self.builder, &made, &moves)?;
        }
        Ok((made.results.to_vec(), tangents))
    }

    fn control(&mut self, node: &Node) -> Built<Moved> {
        match &node.op {
            Op::If { .. } => self.branch(node),
            Op::Scan { .. } | Op::While { .. } => self.looped(node),
            op => Err(format!("`{}` cannot be differentiated", op.name())),
        }
    }

    /// The nodes of a region once more, in the innermost open one.
    fn region(
        &mut self,
        region: RegionId,
        parameters: &[ValueId],
        tangents: &[Option<ValueId>],
    ) -> Built<Moved> {
        let region = self.builder.function().regions[region].clone();
        for ((&old, &new), &tangent) in region.parameters.iter().zip(parameters).zip(tangents) {
            self.bind(old, new, tangent);
        }
        for &node in &region.nodes {
            self.node(node, true).map_err(inside)?;
        }
        let of = |result: &ValueId| self.tangents.get(result).copied();
        Ok((self.copy_all(&region.results), region.results.iter().map(of).collect()))
    }

    /// What a region's results are that move, with these parameters moving.
    fn moving(&self, region: RegionId, parameters: &[bool]) -> Vec<bool> {
        let function = self.builder.function();
        let mut moving: BTreeSet<ValueId> = self.tangents.keys().copied().into_set();
        let own = function.regions[region].parameters.iter().zip(parameters);
        moving.extend(own.filter(|(_, moves)| **moves).map(|(&value, _)| value));
        spread(self.builder, region, &mut moving, is_float)
    }

    fn branch(&mut self, node: &Node) -> Built<Moved> {
        let ends = [0, 1].map(|number| self.moving(node.regions[number], &[]));
        let moving: Vec<bool> = ends[0].iter().zip(&ends[1]).map(|(a, b)| *a || *b).collect();
        let mut make = |region: RegionId| {
            self.builder.begin_region(&[]);
            let (results, tangents) = self.region(region, &[], &[])?;
            let tangents = self.those_that_move(&results, &tangents, &moving)?;
            Ok::<RegionId, String>(self.builder.end_region(&[results, tangents].concat()))
        };
        let regions = [make(node.regions[0])?, make(node.regions[1])?];
        let condition = self.copy(node.operands[0]);
        let mut results = self.builder.branch(condition, &regions)?;
        let tangents = results.split_off(node.results.len());
        Ok((results, placed(&moving, tangents)))
    }

    /// The tangents of those values that are said to move.
    fn those_that_move(
        &mut self,
        values: &[ValueId],
        tangents: &[Option<ValueId>],
        moving: &[bool],
    ) -> Built<Vec<ValueId>> {
        let mut found = Vec::new();
        for ((&value, &tangent), _) in
            values.iter().zip(tangents).zip(moving).filter(|(_, moves)| **moves)
        {
            found.push(match tangent {
                Some(tangent) => tangent,
                None => constant(self.builder, value, 0.0)?,
            });
        }
        Ok(found)
    }

    /// A loop: what moves of the values that it carries has its tangent carried beside it, and what
    /// moves of those that it slices or stacks has it sliced and stacked.
    fn looped(&mut self, node: &Node) -> Built<Moved> {
        let (carried, counts) = match &node.op {
            Op::Scan { carried, .. } => (*carried, 1),
            _ => (node.operands.len(), 0),
        };
        let body = node.regions[node.regions.len() - 1];
        let mut moving: Vec<bool> =
            node.operands.iter().map(|value| self.tangents.contains_key(value)).collect();
        let ends = loop {
            let ends = self.moving(body, &[&vec![false; counts], &moving[..]].concat());
            let before = moving.clone();
            moving[..carried].iter_mut().zip(&ends).for_each(|(moves, end)| *moves |= end);
            if moving == before {
                break [&moving[..carried], &ends[carried..]].concat();
            }
        };
        let primals = self.copy_all(&node.operands);
        let tangents: Vec<Option<ValueId>> =
            node.operands.iter().map(|value| self.tangents.get(value).copied()).collect();
        let states =
            self.those_that_move(&primals[..carried], &tangents[..carried], &moving[..carried])?;
        let rows =
            self.those_that_move(&primals[carried..], &tangents[carried..], &moving[carried..])?;
        let operands = [&primals[..carried], &states, &primals[carried..], &rows].concat();
        // The types of the regions' parameters, in the order of the operands.
        let own = self.builder.function().region_type(body).parameters;
        let (mut types, own) = (own[..counts].to_vec(), &own[counts..]);
        for range in [0..carried, carried..own.len()] {
            types.extend_from_slice(&own[range.clone()]);
            types.extend(range.filter(|&n| moving[n]).map(|n| own[n].clone()));
        }
        let split = |parameters: &[ValueId]| -> Moved {
            let (number, parameters) = parameters.split_at(counts);
            let (states, slices) = parameters.split_at(carried + states.len());
            let (states, state_moves) = states.split_at(carried);
            let (slices, slice_moves) = slices.split_at(moving.len() - carried);
            let moves = placed(&moving, [state_moves, slice_moves].concat());
            ([number, states, slices].concat(), [vec![None; counts], moves].concat())
        };
        let mut regions = Vec::new();
        for &region in &node.regions {
            let parameters = self.builder.begin_region(&types);
            let (parameters, moves) = split(&parameters);
            let (mut results, tangents) = self.region(region, &parameters, &moves)?;
            if region == body {
                let (first, rest) = results.split_at(carried);
                let (first_moves, rest_moves) = tangents.split_at(carried);
                let (first_ends, rest_ends) = ends.split_at(carried);
                let states = self.those_that_move(first, first_moves, first_ends)?;
                let rows = self.those_that_move(rest, rest_moves, rest_ends)?;
                results = [first, &states, rest, &rows].concat();
            }
            regions.push(self.builder.end_region(&results));
        }
        let op = match node.op.clone() {
            Op::Scan { trip_count, reverse, .. } => {
                Op::Scan { trip_count, carried: carried + states.len(), reverse }
            }
            op => op,
        };
        let results = self.builder.add_with_regions(op, &operands, &regions)?;
        let (first, rest) = results.split_at(carried + states.len());
        let (first, first_moves) = first.split_at(carried);
        let (rest, rest_moves) = rest.split_at(ends.len() - carried);
        let moves = [first_moves, rest_moves].concat();
        Ok(([first, rest].concat(), placed(&ends, moves)))
    }
}

/// Values at the places for which something holds.
fn placed(holds: &[bool], values: Vec<ValueId>) -> Vec<Option<ValueId>> {
    let mut values = values.into_iter();
    holds.iter().map(|&holds| if holds { values.next() } else { None }).collect()
}

/// The tangent of a node's first result from those of its operands; see above.
fn transposed_twice(
    builder: &mut FunctionBuilder,
    node: &Node,
    tangents: &[Option<ValueId>],
) -> Built<Option<ValueId>> {
    let moving: Vec<ValueId> = node
        .operands
        .iter()
        .copied()
        .zip(tangents)
        .filter(|(_, tangent)| tangent.is_some())
        .map(|(operand, _)| operand)
        .collect();
    let cotangent = constant(builder, node.results[0], 0.0)?;
    let first = builder.open_region_nodes().len();
    let mut cotangents = vec![None; node.results.len()];
    cotangents[0] = Some(cotangent);
    let pulled = Reverse::new(builder, &moving).pull(node, &cotangents)?;
    let last = builder.open_region_nodes().len();
    let mut back = Reverse::new(builder, &[cotangent]);
    for (pulled, &tangent) in pulled.into_iter().zip(tangents) {
        if let (Some(pulled), Some(tangent)) = (pulled, tangent) {
            back.add(pulled, tangent)?;
        }
    }
    back.sweep(first..last).map_err(inside)?;
    Ok(back.cotangents.get(&cotangent).copied())
}
