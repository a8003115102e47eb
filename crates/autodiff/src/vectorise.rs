//! Vectorisation: a function of one row becomes one of many, which lie along a new first axis.
//!
//! Each primitive does its work for all rows at once, with that axis beside its own; values that
//! are the same for all rows stay as they are. What cannot work on all rows at once takes them in
//! turn, in a counted loop: what draws random bits or counts, and control flow on which rows do not
//! agree and which could fault, or never end, for rows that would not take it.
//!
//! A branch on which rows do not agree is both of its regions, and a selection. A loop turns as
//! long as one row goes on, and rows that do not stay what they are.

use std::collections::{BTreeMap, BTreeSet};

use base::IntoTree;
use graph::{
    Built, Function, FunctionBuilder, IterationSpace, Node, NodeId, Op, RegionId, TensorType, Type,
    ValueId,
};
use sym::Expr;
use tensor::{DType, Reduction, Scalar, ScalarFunction as F};

use crate::regions::{MostTurns, counter};
use crate::{TransformRefusal, changes_extents, inside, needed, nowhere, spread};

/// Appends what `values` are for many rows, given those of `sources`: their types with a new first
/// axis of this extent, which the results have, too. All are of the innermost open region; nodes
/// before the one of number `first` are taken as the same for all rows.
///
/// # Errors
/// The first node on the way that cannot be vectorised: one that computes extents, or lists.
pub fn vectorised(
    builder: &mut FunctionBuilder,
    first: usize,
    extent: &Expr,
    values: &[ValueId],
    sources: &[(ValueId, ValueId)],
) -> Result<Vec<ValueId>, TransformRefusal> {
    let nodes = needed(builder, first, values);
    let rows = sources.iter().map(|&(source, many)| (source, Rows { value: many, differ: true }));
    let mut vectorise = Vectorise { builder, extent: extent.clone(), rows: rows.collect() };
    for node in nodes {
        vectorise.node(node, false)?;
    }
    values.iter().map(|&value| vectorise.many(value).map_err(nowhere)).collect()
}

/// The type of so many values of a type.
pub(crate) fn stacked(ty: &Type, extent: &Expr) -> Built<Type> {
    let Type::Tensor(ty) = ty else { return Err("lists cannot be vectorised".to_owned()) };
    let shape = std::iter::once(extent).chain(&ty.shape).cloned().collect();
    Ok(Type::Tensor(TensorType { dtype: ty.dtype, shape }))
}

/// What stands for a value.
#[derive(Clone, Copy)]
struct Rows {
    value: ValueId,
    /// Whether it has the new axis.
    differ: bool,
}

/// A walk over nodes in their order.
struct Vectorise<'b> {
    builder: &'b mut FunctionBuilder,
    extent: Expr,
    /// What stands for the values of one row; for any other it is the value itself.
    rows: BTreeMap<ValueId, Rows>,
}

impl Vectorise<'_> {
    fn get(&self, value: ValueId) -> Rows {
        self.rows.get(&value).copied().unwrap_or(Rows { value, differ: false })
    }

    fn differ(&self, value: ValueId) -> bool {
        self.get(value).differ
    }

    /// The value for all rows, with the new axis.
    fn many(&mut self, value: ValueId) -> Built {
        let rows = self.get(value);
        self.repeated(rows)
    }

    fn repeated(&mut self, rows: Rows) -> Built {
        if rows.differ {
            return Ok(rows.value);
        }
        let Type::Tensor(ty) =
            stacked(&self.builder.function().ty(rows.value).clone(), &self.extent)?
        else {
            return Err("lists cannot be vectorised".to_owned());
        };
        let axes: Vec<usize> = (1..ty.shape.len()).collect();
        self.builder.broadcast(rows.value, ty.shape, &axes)
    }

    fn node(&mut self, id: NodeId, must: bool) -> Result<(), TransformRefusal> {
        let function = self.builder.function();
        let node = function.nodes[id].clone();
        let reads = function.reads(id);
        let differ = reads.iter().any(|&value| self.differ(value));
        let changes = reads.iter().any(|&value| self.get(value).value != value);
        if !must && !changes {
            return Ok(());
        }
        self.builder.set_location(node.location);
        let made = match &node.op {
            _ if !node.regions.is_empty() && changes_extents(self.builder.function(), id) => {
                Err(format!("`{}` cannot be vectorised: it computes extents", node.op.name()))
            }
            Op::If { .. } => self.branch(&node),
            Op::Scan { .. } => self.scan(&node),
            Op::While { .. } => self.repeat(&node),
            _ if !differ => self.alike(&node),
            op => self.plain(&node, op),
        };
        let results = made.map_err(|reason| TransformRefusal {
            place: self.builder.function().locations.describe(node.location),
            reason,
        })?;
        self.rows.extend(node.results.iter().copied().zip(results));
        Ok(())
    }

    /// A node that is the same for all rows.
    fn alike(&mut self, node: &Node) -> Built<Vec<Rows>> {
        let operands: Vec<ValueId> =
            node.operands.iter().map(|&operand| self.get(operand).value).collect();
        let results = self.builder.add(node.op.clone(), &operands)?;
        Ok(results.into_iter().map(|value| Rows { value, differ: false }).collect())
    }

    /// A node without regions, some operands of which differ.
    fn plain(&mut self, node: &Node, op: &Op) -> Built<Vec<Rows>> {
        let own = &node.operands;
        let inner = |axes: &[usize]| -> Vec<usize> { axes.iter().map(|axis| axis + 1).collect() };
        let outer = |first: &Expr, rest: &[Expr]| -> Vec<Expr> {
            std::iter::once(first).chain(rest).cloned().collect()
        };
        let (op, operands) = match op.clone() {
            Op::NonZero | Op::RandomBits { .. } => return self.in_turn(node),
            op @ (Op::Bind { .. } | Op::List { .. } | Op::Call { .. } | Op::Host { .. }) => {
                return Err(format!("`{}` cannot be vectorised", op.name()));
            }
            Op::Gather { .. } => return self.gather(node),
            Op::Scatter { .. } => return self.scatter(node),
            Op::Pad { .. } => return self.pad(node),
            Op::Map { .. } | Op::Bitcast { .. } => (op.clone(), self.all(own)?),
            Op::Broadcast { shape, axes } => {
                let shape = outer(&self.extent, &shape).into();
                let axes = std::iter::once(0).chain(inner(&axes)).collect();
                (Op::Broadcast { shape, axes }, self.all(own)?)
            }
            Op::Reshape { shape } => {
                (Op::Reshape { shape: outer(&self.extent, &shape).into() }, self.all(own)?)
            }
            Op::Transpose { permutation } => {
                let permutation = std::iter::once(0).chain(inner(&permutation)).collect();
                (Op::Transpose { permutation }, self.all(own)?)
            }
            Op::Slice { starts, steps, shape } => {
                let steps = std::iter::once(1).chain(steps).collect();
                let (starts, shape) =
                    (outer(&Expr::ZERO, &starts), outer(&self.extent, &shape).into());
                (Op::Slice { starts, steps, shape }, self.all(own)?)
            }
            Op::Concat { axis } => (Op::Concat { axis: axis + 1 }, self.all(own)?),
            Op::Contract { space, accumulator, dtype } => {
                let (space, operands) = self.space(&space, own);
                (Op::Contract { space, accumulator, dtype }, operands)
            }
            Op::Reduce { space, reduction, accumulator } => {
                let (space, operands) = self.space(&space, own);
                (Op::Reduce { space, reduction, accumulator }, operands)
            }
            Op::ArgReduce { axis, greatest, last } => {
                (Op::ArgReduce { axis: axis + 1, greatest, last }, self.all(own)?)
            }
            Op::Cumulate { axis, reduction, exclusive, reverse } => {
                (Op::Cumulate { axis: axis + 1, reduction, exclusive, reverse }, self.all(own)?)
            }
            Op::Sort { axis, descending, kept } => {
                (Op::Sort { axis: axis + 1, descending, kept }, self.all(own)?)
            }
            // Without operands, so the same for all rows; or with regions.
            op @ (Op::Literal(_)
            | Op::Weight { .. }
            | Op::Iota { .. }
            | Op::Dimension(_)
            | Op::If { .. }
            | Op::While { .. }
            | Op::Scan { .. }) => unreachable!("`{}` has operands that differ", op.name()),
        };
        let results = self.builder.add(op, &operands)?;
        Ok(results.into_iter().map(|value| Rows { value, differ: true }).collect())
    }

    fn all(&mut self, values: &[ValueId]) -> Built<Vec<ValueId>> {
        values.iter().map(|&value| self.many(value)).collect()
    }

    /// A space with a first axis more, along which the operands that differ are read.
    fn space(
        &self,
        space: &IterationSpace,
        operands: &[ValueId],
    ) -> (IterationSpace, Vec<ValueId>) {
        let inner = |expr: &Expr| {
            expr.substitute(&mut |axis| Some(IterationSpace::axis(base::Id::index(axis) + 1)))
        };
        let rows: Vec<Rows> = operands.iter().map(|&operand| self.get(operand)).collect();
        let read = |(index, rows): (&Vec<Expr>, &Rows)| {
            let first = rows.differ.then(|| IterationSpace::axis(0));
            first.into_iter().chain(index.iter().map(inner)).collect()
        };
        let space = IterationSpace {
            extents: std::iter::once(&self.extent).chain(&space.extents).cloned().collect(),
            parallel: space.parallel + 1,
            operands: space.operands.iter().zip(&rows).map(read).collect(),
        };
        (space, rows.into_iter().map(|rows| rows.value).collect())
    }

    fn pad(&mut self, node: &Node) -> Built<Vec<Rows>> {
        let Op::Pad { low, high, interior } = &node.op else { return Err(String::new()) };
        let with = |pads: &[Expr]| [&[Expr::ZERO], pads].concat();
        let (low, high) = (with(low), with(high));
        let interior = [&[0], &interior[..]].concat();
        let operand = self.many(node.operands[0])?;
        let fill = self.get(node.operands[1]);
        let mut value = match fill.differ {
            false => self.builder.pad(operand, fill.value, &low, &high, &interior)?,
            true => {
                let dtype = self.builder.dtype(operand)?;
                let zero = self.builder.literal(tensor::Tensor::scalar(Scalar::zero(dtype)));
                self.builder.pad(operand, zero, &low, &high, &interior)?
            }
        };
        if fill.differ {
            let shape = self.builder.shape(operand)?;
            let inside = self.builder.full(&shape, Scalar::bool(true))?;
            let outside = self.builder.literal(tensor::Tensor::scalar(Scalar::bool(false)));
            let inside = self.builder.pad(inside, outside, &low, &high, &interior)?;
            let shape = self.builder.shape(value)?;
            let fill = self.builder.broadcast(fill.value, shape, &[0])?;
            value = self.builder.map(F::Select, &[inside, value, fill])?;
        }
        Ok(vec![Rows { value, differ: true }])
    }

    fn gather(&mut self, node: &Node) -> Built<Vec<Rows>> {
        let Op::Gather { axes, batch, position } = &node.op else { return Err(String::new()) };
        let (data, indices) = (node.operands[0], &node.operands[1..]);
        let inner: Vec<usize> = axes.iter().map(|axis| axis + 1).collect();
        let same = |vectorise: &Self| -> Vec<ValueId> {
            indices.iter().map(|&index| vectorise.get(index).value).collect()
        };
        let value = if *batch == 0 && !indices.iter().any(|&index| self.differ(index)) {
            // The new axis is one that stays.
            let (data, indices) = (self.many(data)?, same(self));
            self.builder.gather(data, &inner, &indices, 0, position + 1)?
        } else if *batch == 0 && !self.differ(data) {
            // The new axis is the indices' first.
            let (data, indices) = (self.get(data).value, self.all(indices)?);
            let value = self.builder.gather(data, axes, &indices, 0, *position)?;
            let rank = self.builder.shape(value)?.len();
            let rest = (0..rank).filter(|axis| axis != position);
            let order: Vec<usize> = std::iter::once(*position).chain(rest).collect();
            self.builder.transpose(value, &order)?
        } else {
            let (data, indices) = (self.many(data)?, self.all(indices)?);
            self.builder.gather(data, &inner, &indices, batch + 1, *position)?
        };
        Ok(vec![Rows { value, differ: true }])
    }

    fn scatter(&mut self, node: &Node) -> Built<Vec<Rows>> {
        let Op::Scatter { axes, batch, position, reduction } = &node.op else {
            return Err(String::new());
        };
        let (data, updates) = (self.many(node.operands[0])?, self.many(node.operands[1])?);
        let indices = &node.operands[2..];
        let inner: Vec<usize> = axes.iter().map(|axis| axis + 1).collect();
        let (indices, batch, position) =
            if *batch == 0 && !indices.iter().any(|&index| self.differ(index)) {
                let indices = indices.iter().map(|&index| self.get(index).value).collect();
                (indices, 0, position + 1)
            } else {
                (self.all(indices)?, batch + 1, *position)
            };
        let value =
            self.builder.scatter(data, updates, &inner, &indices, batch, position, *reduction)?;
        Ok(vec![Rows { value, differ: true }])
    }

    /// A node for one row after the other.
    fn in_turn(&mut self, node: &Node) -> Built<Vec<Rows>> {
        let mut reads = node.operands.to_vec();
        reads.extend(self.builder.function().captures(&node.regions));
        reads.sort_unstable();
        reads.dedup();
        reads.retain(|&value| self.differ(value));
        let many: Vec<ValueId> = reads.iter().map(|&value| self.get(value).value).collect();
        let mut types = vec![counter()];
        for &value in &many {
            let ty = self.builder.tensor_type(value)?;
            let shape = ty.shape[1..].into();
            types.push(Type::Tensor(TensorType { dtype: ty.dtype, shape }));
        }
        let around = self.rows.clone();
        let slices = self.builder.begin_region(&types).split_off(1);
        for (&value, slice) in reads.iter().zip(slices) {
            self.rows.insert(value, Rows { value: slice, differ: false });
        }
        let made = match &node.op {
            Op::If { .. } => self.branch(node),
            Op::Scan { .. } => self.scan(node),
            Op::While { .. } => self.repeat(node),
            _ => self.alike(node),
        }?;
        self.rows = around;
        let results: Vec<ValueId> = made.iter().map(|rows| rows.value).collect();
        let body = self.builder.end_region(&results);
        let op = Op::Scan { trip_count: self.extent.clone(), carried: 0, reverse: false };
        let results = self.builder.add_with_regions(op, &many, &[body])?;
        Ok(results.into_iter().map(|value| Rows { value, differ: true }).collect())
    }

    // --- regions ---

    /// The nodes of a region once more, in the innermost open one.
    fn region(&mut self, region: RegionId, parameters: &[Rows]) -> Built<Vec<Rows>> {
        let region = self.builder.function().regions[region].clone();
        self.rows.extend(region.parameters.iter().copied().zip(parameters.iter().copied()));
        for &node in &region.nodes {
            self.node(node, true).map_err(inside)?;
        }
        Ok(region.results.iter().map(|&result| self.get(result)).collect())
    }

    /// Which results of a region differ, where these parameters do.
    fn differing(&self, region: RegionId, parameters: &[bool]) -> Vec<bool> {
        let function = self.builder.function();
        let mut differing: BTreeSet<ValueId> =
            self.rows.iter().filter(|(_, rows)| rows.differ).map(|(&value, _)| value).into_set();
        let own = function.regions[region].parameters.iter().zip(parameters);
        differing.extend(own.filter(|(_, differ)| **differ).map(|(&value, _)| value));
        spread(self.builder, region, &mut differing, |_, _| true)
    }

    /// Values with the new axis where they are to have it.
    fn where_said(&mut self, values: &[Rows], differ: &[bool]) -> Built<Vec<ValueId>> {
        let each = |(&rows, &differ): (&Rows, &bool)| match differ {
            true => self.repeated(rows),
            false => Ok(rows.value),
        };
        values.iter().zip(differ).map(each).collect()
    }

    fn branch(&mut self, node: &Node) -> Built<Vec<Rows>> {
        let condition = self.get(node.operands[0]);
        let regions = [node.regions[0], node.regions[1]];
        if condition.differ {
            if regions.iter().any(|&region| may_fault(self.builder.function(), region)) {
                return self.in_turn(node);
            }
            let [then, other] = [self.region(regions[0], &[])?, self.region(regions[1], &[])?];
            let mut results = Vec::new();
            for (then, other) in then.into_iter().zip(other) {
                let value = self.chosen(condition.value, then, other)?;
                results.push(Rows { value, differ: true });
            }
            return Ok(results);
        }
        let ends = regions.map(|region| self.differing(region, &[]));
        let differ: Vec<bool> = ends[0].iter().zip(&ends[1]).map(|(a, b)| *a || *b).collect();
        let mut make = |region: RegionId| {
            self.builder.begin_region(&[]);
            let results = self.region(region, &[])?;
            let results = self.where_said(&results, &differ)?;
            Ok::<RegionId, String>(self.builder.end_region(&results))
        };
        let regions = [make(regions[0])?, make(regions[1])?];
        let results = self.builder.branch(condition.value, &regions)?;
        Ok(rows(results, &differ))
    }

    /// For each row one value or the other.
    fn chosen(&mut self, condition: ValueId, then: Rows, other: Rows) -> Built {
        let (then, other) = (self.repeated(then)?, self.repeated(other)?);
        let shape = self.builder.shape(then)?;
        let condition = self.builder.broadcast(condition, shape, &[0])?;
        self.builder.map(F::Select, &[condition, then, other])
    }

    /// Which of a loop's values differ in the end, carried ones from the first turn on.
    fn carried(
        &self,
        body: RegionId,
        counts: usize,
        carried: usize,
        differ: &mut [bool],
    ) -> Vec<bool> {
        loop {
            let ends = self.differing(body, &[&vec![false; counts], &differ[..]].concat());
            let before = differ.to_vec();
            differ[..carried].iter_mut().zip(&ends).for_each(|(differ, end)| *differ |= end);
            if before == differ {
                return [&differ[..carried], &ends[carried..]].concat();
            }
        }
    }

    fn scan(&mut self, node: &Node) -> Built<Vec<Rows>> {
        let Op::Scan { trip_count, carried, reverse } = node.op.clone() else {
            return Err(String::new());
        };
        let body = node.regions[0];
        let own: Vec<Rows> = node.operands.iter().map(|&value| self.get(value)).collect();
        let mut differ: Vec<bool> = own.iter().map(|rows| rows.differ).collect();
        let ends = self.carried(body, 1, carried, &mut differ);
        let mut operands = self.where_said(&own, &differ)?;
        for (operand, _) in
            operands[carried..].iter_mut().zip(&differ[carried..]).filter(|(_, differ)| **differ)
        {
            *operand = self.exchanged(*operand)?;
        }
        let mut types = self.builder.function().region_type(body).parameters;
        for (ty, _) in types[1..].iter_mut().zip(&differ).filter(|(_, differ)| **differ) {
            *ty = stacked(ty, &self.extent)?;
        }
        let parameters = self.builder.begin_region(&types);
        let parameters = rows(parameters, &[&[false], &differ[..]].concat());
        let results = self.region(body, &parameters)?;
        let results = self.where_said(&results, &ends)?;
        let region = self.builder.end_region(&results);
        let op = Op::Scan { trip_count, carried, reverse };
        let mut results = self.builder.add_with_regions(op, &operands, &[region])?;
        for (result, _) in
            results[carried..].iter_mut().zip(&ends[carried..]).filter(|(_, differ)| **differ)
        {
            *result = self.exchanged(*result)?;
        }
        Ok(rows(results, &ends))
    }

    /// A value with its first two axes the other way round.
    fn exchanged(&mut self, value: ValueId) -> Built {
        let rank = self.builder.shape(value)?.len();
        let order: Vec<usize> = [1, 0].into_iter().chain(2..rank).collect();
        self.builder.transpose(value, &order)
    }

    fn repeat(&mut self, node: &Node) -> Built<Vec<Rows>> {
        let [condition, body] = node.regions[..] else { return Err(String::new()) };
        let own: Vec<Rows> = node.operands.iter().map(|&value| self.get(value)).collect();
        let mut differ: Vec<bool> = own.iter().map(|rows| rows.differ).collect();
        self.carried(body, 0, differ.len(), &mut differ);
        let disagree = self.differing(condition, &differ)[0];
        if disagree && [condition, body].iter().any(|&it| may_fault(self.builder.function(), it)) {
            return self.in_turn(node);
        }
        if disagree {
            return self.together(node, &own);
        }
        let operands = self.where_said(&own, &differ)?;
        let mut types = self.builder.function().region_type(body).parameters;
        for (ty, _) in types.iter_mut().zip(&differ).filter(|(_, differ)| **differ) {
            *ty = stacked(ty, &self.extent)?;
        }
        let mut regions = Vec::new();
        for region in [condition, body] {
            let parameters = rows(self.builder.begin_region(&types), &differ);
            let results = self.region(region, &parameters)?;
            let ends: &[bool] = if region == body { &differ } else { &[false] };
            let results = self.where_said(&results, ends)?;
            regions.push(self.builder.end_region(&results));
        }
        let results = self.builder.add_with_regions(node.op.clone(), &operands, &regions)?;
        Ok(rows(results, &differ))
    }

    /// A loop on whose end rows do not agree. If turns are bounded they are counted beside it, so
    /// that they are bounded still.
    fn together(&mut self, node: &Node, own: &[Rows]) -> Built<Vec<Rows>> {
        let [condition, body] = node.regions[..] else { return Err(String::new()) };
        let most = MostTurns::of(self.builder.function(), node);
        let mut operands = Vec::new();
        for &rows in own {
            operands.push(self.repeated(rows)?);
        }
        let mut types: Vec<Type> =
            operands.iter().map(|&value| self.builder.function().ty(value).clone()).collect();
        let all = vec![true; own.len()];
        if most.is_some() {
            operands.push(self.builder.dimension(Expr::ZERO)?);
            types.push(counter());
        }
        let parameters = self.builder.begin_region(&types);
        let goes_on = self.region(condition, &rows(parameters[..own.len()].to_vec(), &all))?;
        let goes_on = self.repeated(goes_on[0])?;
        let mut any = self.builder.reduce_axes(goes_on, &[0], Reduction::Or, DType::Bool, false)?;
        if let Some(most) = most {
            let most = self.builder.dimension(most.turns)?;
            let is_below = self.builder.map(F::Lt, &[parameters[own.len()], most])?;
            any = self.builder.map(F::And, &[is_below, any])?;
        }
        let first = self.builder.end_region(&[any]);
        let parameters = self.builder.begin_region(&types);
        let before = rows(parameters[..own.len()].to_vec(), &all);
        let goes_on = self.region(condition, &before)?;
        let goes_on = self.repeated(goes_on[0])?;
        let after = self.region(body, &before)?;
        let mut results = Vec::new();
        for (after, before) in after.into_iter().zip(before) {
            results.push(self.chosen(goes_on, after, before)?);
        }
        if let Some(&turn) = parameters.get(own.len()) {
            let one = self.builder.dimension(Expr::ONE)?;
            results.push(self.builder.map(F::Add, &[turn, one])?);
        }
        let second = self.builder.end_region(&results);
        let mut results =
            self.builder.add_with_regions(node.op.clone(), &operands, &[first, second])?;
        results.truncate(own.len());
        Ok(rows(results, &all))
    }
}

fn rows(values: Vec<ValueId>, differ: &[bool]) -> Vec<Rows> {
    let each = |(value, &differ): (ValueId, &bool)| Rows { value, differ };
    values.into_iter().zip(differ).map(each).collect()
}

/// Whether a region could stop a run, or never end, for values that it was not made for.
fn may_fault(function: &Function, region: RegionId) -> bool {
    function.regions[region].nodes.iter().any(|&id| {
        let node = &function.nodes[id];
        let own = matches!(
            node.op,
            Op::Gather { .. }
                | Op::Scatter { .. }
                | Op::Bind { .. }
                | Op::While { .. }
                | Op::Call { .. }
                | Op::List { .. }
                | Op::Host { .. }
        );
        own || node.regions.iter().any(|&region| may_fault(function, region))
    })
}
