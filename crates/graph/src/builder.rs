//! Making functions: what importers and passes use to add nodes.
//!
//! Every method infers the types of what it adds and refuses what is ill-typed with a sentence. A
//! movement that would move nothing (a transpose by the identity, a cast to the same type) returns
//! its operand; nothing else is simplified here.
//!
//! Nodes go to the end of the innermost open region and carry the current location.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{ConstantId, LocationId, Locations};
use smallvec::SmallVec;
use sym::{Expr, Range, Symbol, SymbolId};
use tensor::{DType, Reduction, Scalar, ScalarFunction, Tensor};

use crate::function::{
    Assumption, Definition, Function, Node, NodeId, RegionId, Type, ValueData, ValueId, Values,
};
use crate::infer::{RegionType, infer_with_regions};
use crate::op::{IterationSpace, Op, TensorType};
use crate::shape::Shape;
use crate::text::Names;

/// A value, or a sentence that says why there is none.
pub type Built<T = ValueId> = Result<T, String>;

/// What was assumed at some point.
#[derive(Clone, Debug, Default)]
pub struct Assumed {
    pub(crate) count: usize,
    /// Symbols that assumptions leave one value.
    pub(crate) settled: BTreeMap<SymbolId, i64>,
}

/// A function under construction.
#[derive(Clone, Debug)]
pub struct FunctionBuilder {
    function: Function,
    /// The body and the regions opened in it, innermost last.
    open: Vec<RegionId>,
    location: LocationId,
    /// The locations around each open region but the body.
    around: Vec<LocationId>,
    /// What assumptions say of extents.
    pub(crate) assumed: Assumed,
}

impl FunctionBuilder {
    /// Starts an empty function.
    pub fn new(name: impl Into<String>) -> FunctionBuilder {
        FunctionBuilder::extend(Function::new(name))
    }

    /// Adds to the end of a function's body.
    pub fn extend(function: Function) -> FunctionBuilder {
        let open = vec![function.body];
        let (location, around, assumed) = (Locations::UNKNOWN, Vec::new(), Assumed::default());
        FunctionBuilder { function, open, location, around, assumed }
    }

    /// What has been built so far.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// The nodes of the innermost open region so far, in order.
    pub fn open_region_nodes(&self) -> &[NodeId] {
        &self.function.regions[self.open[self.open.len() - 1]].nodes
    }

    /// The table of locations, to add one.
    pub fn locations(&mut self) -> &mut Locations {
        &mut self.function.locations
    }

    /// The nodes that follow come from this place.
    pub fn set_location(&mut self, location: LocationId) {
        self.location = location;
    }

    /// A parameter of the function, called `name` by its caller.
    pub fn parameter(&mut self, name: impl Into<String>, ty: Type) -> ValueId {
        let body = self.function.body;
        let value = self.function.add_parameter(body, ty);
        self.function.parameter_names.push(name.into());
        value
    }

    /// The symbol of this name, a new one if there is none; the range of an old one is narrowed.
    pub fn symbol(&mut self, name: &str, range: Range) -> SymbolId {
        let known = self.function.symbols.iter().find(|(_, symbol)| symbol.name == name);
        match known.map(|(id, _)| id) {
            Some(id) => {
                let symbol = &mut self.function.symbols[id];
                symbol.range = symbol.range.intersect(range);
                id
            }
            None => self.function.symbols.push(Symbol::new(name, range)),
        }
    }

    /// A fact that the caller of the function must honour, and data where it names a bound symbol.
    pub fn assume(&mut self, assumption: Assumption) {
        if !self.function.assumptions.contains(&assumption) {
            self.function.assumptions.push(assumption);
        }
    }

    /// Leaves out all assumptions but so many.
    pub(crate) fn truncate_assumptions(&mut self, count: usize) {
        self.function.assumptions.truncate(count);
    }

    /// Gives a value the user's name for it.
    pub fn set_name(&mut self, value: ValueId, name: impl Into<Arc<str>>) {
        self.function.values[value].name = Some(name.into());
    }

    /// The function, with these results, each called by its name.
    pub fn finish(mut self, results: Vec<(String, ValueId)>) -> Function {
        let (names, values) = results.into_iter().unzip();
        self.function.result_names = names;
        let body = self.function.body;
        self.function.regions[body].results = values;
        self.function
    }

    // --- what is known of values ---

    /// A value's type, which must be a tensor.
    pub fn tensor_type(&self, value: ValueId) -> Built<&TensorType> {
        let ty = &self.function.values[value].ty;
        ty.as_tensor().ok_or_else(|| format!("{value} is not a tensor"))
    }

    /// A tensor's shape.
    pub fn shape(&self, value: ValueId) -> Built<Shape> {
        Ok(self.tensor_type(value)?.shape.clone())
    }

    /// A tensor's element type.
    pub fn dtype(&self, value: ValueId) -> Built<DType> {
        Ok(self.tensor_type(value)?.dtype)
    }

    // --- any node ---

    /// Adds a node without regions and returns its results.
    pub fn add(&mut self, op: Op, operands: &[ValueId]) -> Built<Vec<ValueId>> {
        self.add_with_regions(op, operands, &[])
    }

    /// Adds any node and returns its results. The regions have been made by `end_region`.
    pub fn add_with_regions(
        &mut self,
        op: Op,
        operands: &[ValueId],
        regions: &[RegionId],
    ) -> Built<Vec<ValueId>> {
        let results = {
            let function = &self.function;
            let types: SmallVec<[&Type; 4]> = operands.iter().map(|&id| function.ty(id)).collect();
            let regions: Vec<RegionType> =
                regions.iter().map(|&region| function.region_type(region)).collect();
            let names = |symbol| function.symbol_name(symbol);
            infer_with_regions(&op, &types, &regions, &names)
                .map_err(|reason| format!("{}: {reason}", op.name()))?
        };
        Ok(self.push(op, Values::from_slice(operands), regions.to_vec(), results).to_vec())
    }

    /// Adds a node without regions whose results are known to be of these types.
    pub(crate) fn add_typed(
        &mut self,
        op: Op,
        operands: Values,
        results: impl IntoIterator<Item = Type>,
    ) -> Values {
        self.push(op, operands, Vec::new(), results)
    }

    /// Appends a node to the innermost open region, making a result of each type.
    fn push(
        &mut self,
        op: Op,
        operands: Values,
        regions: Vec<RegionId>,
        types: impl IntoIterator<Item = Type>,
    ) -> Values {
        let region = self.open[self.open.len() - 1];
        let node = Node { op, operands, results: Values::new(), regions, location: self.location };
        let id = self.function.add_node(region, node, types);
        self.function.nodes[id].results.clone()
    }

    fn one(&mut self, op: Op, operands: &[ValueId]) -> Built {
        Ok(self.add(op, operands)?[0])
    }

    /// Opens a region; the nodes that follow go there. Returns its parameters.
    pub fn begin_region(&mut self, parameters: &[Type]) -> Vec<ValueId> {
        let region = self.function.regions.push(Default::default());
        self.open.push(region);
        self.around.push(self.location);
        parameters.iter().map(|ty| self.function.add_parameter(region, ty.clone())).collect()
    }

    /// Closes the region opened last; the location is what it was when that was opened.
    ///
    /// # Panics
    /// When there is none.
    pub fn end_region(&mut self, results: &[ValueId]) -> RegionId {
        assert!(self.open.len() > 1, "there is no open region besides the body");
        let region = self.open.pop().unwrap_or(self.function.body);
        self.location = self.around.pop().unwrap_or(self.location);
        self.function.regions[region].results = results.to_vec();
        region
    }

    /// As [`Self::add_alike`], of a node of another function with the same symbols.
    pub fn add_again(
        &mut self,
        (source, node): (&Function, NodeId),
        operands: &[ValueId],
        regions: &[RegionId],
    ) -> Built<Vec<ValueId>> {
        let own = source.symbols_defined_by(node).into_iter().map(Expr::symbol);
        let own: Vec<Expr> = own.collect();
        self.add_alike(source.nodes[node].op.clone(), &own, operands, regions)
    }

    /// Adds a node as there was one of other operands and regions. What an `If` gives is as its
    /// regions have it now, but for the extents `own` that it defines.
    pub fn add_alike(
        &mut self,
        mut op: Op,
        own: &[Expr],
        operands: &[ValueId],
        regions: &[RegionId],
    ) -> Built<Vec<ValueId>> {
        if let (Op::If { results }, Some(&region)) = (&mut op, regions.first()) {
            for (ty, mut now) in results.iter_mut().zip(self.function.region_type(region).results) {
                for (declared, extent) in ty.exprs().iter().zip(now.exprs_mut()) {
                    if own.contains(declared) {
                        extent.clone_from(declared);
                    }
                }
                // A list may hold what either region gives.
                if ty.as_tensor().is_some() {
                    *ty = now;
                }
            }
        }
        self.add_with_regions(op, operands, regions)
    }

    /// One of two regions without parameters. An extent of a result that differs between them is a
    /// new symbol.
    pub fn branch(&mut self, condition: ValueId, regions: &[RegionId; 2]) -> Built<Vec<ValueId>> {
        let [mut results, other] = regions.map(|region| self.function.region_type(region).results);
        for (ty, other) in results.iter_mut().zip(&other) {
            if let (Type::Sequence(ty), Type::Sequence(other))
            | (Type::Optional(ty), Type::Optional(other)) = (&mut *ty, other)
            {
                **ty = ty.join(other).ok_or("the branches give lists of other types")?;
            }
            let (Type::Tensor(ty), Type::Tensor(other)) = (ty, other) else { continue };
            for (extent, other) in ty.shape.iter_mut().zip(&other.shape) {
                if extent != other {
                    let ranges = |symbol: SymbolId| self.function.symbols[symbol].range;
                    let (a, b) = (extent.bounds(&ranges), other.bounds(&ranges));
                    let range = Range::new(a.min.min(b.min).max(0), a.max.max(b.max));
                    *extent = Expr::symbol(self.new_symbol("extent", range));
                }
            }
        }
        self.add_with_regions(Op::If { results }, &[condition], regions)
    }

    /// A symbol with a name that none has, which begins as given.
    pub fn new_symbol(&mut self, name: &str, range: Range) -> SymbolId {
        let symbols = &self.function.symbols;
        let is_free = |name: &String| symbols.values().all(|symbol| symbol.name != *name);
        let mut names = (symbols.len()..).map(|number| format!("{name}{number}"));
        let name = names.find(is_free).unwrap_or_default();
        self.function.symbols.push(Symbol::new(name, range))
    }

    // --- sources ---

    /// A constant that passes may read.
    pub fn literal(&mut self, tensor: Tensor) -> ValueId {
        let shape = tensor.shape().iter().map(|&extent| Expr::from(extent)).collect();
        let ty = Type::Tensor(TensorType { dtype: tensor.dtype(), shape });
        self.push(Op::Literal(tensor), Values::new(), Vec::new(), [ty])[0]
    }

    /// A literal of rank 1.
    pub fn literal_i64(&mut self, values: &[i64]) -> ValueId {
        self.literal(Tensor::from_slice(&[values.len()], values))
    }

    /// A literal of rank 0: the number as an element of the type.
    pub fn scalar(&mut self, dtype: DType, value: f64) -> ValueId {
        self.literal(Tensor::scalar(Scalar::from_f64(dtype, value)))
    }

    /// A tensor of one value throughout.
    pub fn full(&mut self, shape: &[Expr], value: Scalar) -> Built {
        let value = self.literal(Tensor::scalar(value));
        self.broadcast_to(value, shape)
    }

    /// A constant whose value passes do not see.
    pub fn weight(&mut self, constant: ConstantId, result: TensorType) -> Built {
        self.one(Op::Weight { constant, result }, &[])
    }

    /// Counts along an axis.
    pub fn iota(&mut self, dtype: DType, shape: &[Expr], axis: usize) -> Built {
        self.one(Op::Iota { result: TensorType { dtype, shape: shape.into() }, axis }, &[])
    }

    /// The value of an expression, as an i64 of rank 0.
    pub fn dimension(&mut self, expr: Expr) -> Built {
        match expr.as_constant() {
            Some(value) => Ok(self.literal(Tensor::scalar(Scalar::i64(value)))),
            None => self.one(Op::Dimension(expr), &[]),
        }
    }

    /// Defines a new symbol as the value of an i64 of rank 0.
    pub fn bind(&mut self, value: ValueId, name: &str, range: Range) -> Built<SymbolId> {
        if self.function.symbols.values().any(|symbol| symbol.name == name) {
            return Err(format!("there is a symbol `{name}` already"));
        }
        let symbol = self.function.symbols.push(Symbol::new(name, range));
        self.one(Op::Bind { symbol, range }, &[value])?;
        Ok(symbol)
    }

    // --- elementwise ---

    /// A scalar function of operands of one shape.
    pub fn map(&mut self, function: ScalarFunction, operands: &[ValueId]) -> Built {
        let types =
            operands.iter().map(|&value| self.dtype(value)).collect::<Built<Vec<DType>>>()?;
        let dtype = function.result_dtype(&types, None)?;
        self.one(Op::Map { function, dtype }, operands)
    }

    /// As [`Self::map`], after the operands have been broadcast to one shape as NumPy does.
    pub fn map_broadcast(&mut self, function: ScalarFunction, operands: &[ValueId]) -> Built {
        let operands = self.broadcast_together(operands)?;
        self.map(function, &operands)
    }

    /// The elements in another type.
    pub fn cast(&mut self, value: ValueId, dtype: DType) -> Built {
        if self.dtype(value)? == dtype {
            return Ok(value);
        }
        self.one(Op::Map { function: ScalarFunction::Cast, dtype }, &[value])
    }

    /// The bits as another type of the same width.
    pub fn bitcast(&mut self, value: ValueId, dtype: DType) -> Built {
        if self.dtype(value)? == dtype {
            return Ok(value);
        }
        self.one(Op::Bitcast { dtype }, &[value])
    }

    // --- movement ---

    /// Operand axis `k` becomes axis `axes[k]` of the result.
    pub fn broadcast(&mut self, value: ValueId, shape: impl Into<Shape>, axes: &[usize]) -> Built {
        let shape = shape.into();
        if self.tensor_type(value)?.shape == shape && axes.iter().copied().eq(0..shape.len()) {
            return Ok(value);
        }
        self.one(Op::Broadcast { shape, axes: axes.to_vec() }, &[value])
    }

    /// Broadcasts to a shape as NumPy does: the last axes correspond, an extent of 1 is repeated.
    pub fn broadcast_to(&mut self, value: ValueId, shape: impl Into<Shape>) -> Built {
        let shape = shape.into();
        let rank = self.tensor_type(value)?.shape.len();
        if rank > shape.len() {
            return Err(format!("rank {rank} does not broadcast to rank {}", shape.len()));
        }
        let axes: Vec<usize> = (shape.len() - rank..shape.len()).collect();
        self.broadcast(value, shape, &axes)
    }

    /// Broadcasts all values to their common shape as NumPy does.
    pub fn broadcast_together(&mut self, values: &[ValueId]) -> Built<Vec<ValueId>> {
        let shapes = values
            .iter()
            .map(|&value| Ok(&self.tensor_type(value)?.shape[..]))
            .collect::<Built<Vec<&[Expr]>>>()?;
        let shape = broadcast_shapes(&shapes, &|symbol| self.function.symbol_name(symbol))?;
        let shape = Shape::from(shape);
        values.iter().map(|&value| self.broadcast_to(value, &shape)).collect()
    }

    /// The same elements under another shape.
    pub fn reshape(&mut self, value: ValueId, shape: impl Into<Shape>) -> Built {
        let shape = shape.into();
        if self.tensor_type(value)?.shape == shape {
            return Ok(value);
        }
        self.one(Op::Reshape { shape }, &[value])
    }

    /// Result axis `k` is operand axis `permutation[k]`.
    pub fn transpose(&mut self, value: ValueId, permutation: &[usize]) -> Built {
        let rank = self.tensor_type(value)?.shape.len();
        if permutation.iter().copied().eq(0..rank) {
            return Ok(value);
        }
        self.one(Op::Transpose { permutation: permutation.to_vec() }, &[value])
    }

    /// `result[i] = value[starts + i * steps]`
    pub fn slice(
        &mut self,
        value: ValueId,
        starts: &[Expr],
        steps: &[i64],
        shape: &[Expr],
    ) -> Built {
        let whole = self.tensor_type(value)?.shape == shape
            && starts.iter().all(|start| start.as_constant() == Some(0))
            && steps.iter().all(|&step| step == 1);
        if whole {
            return Ok(value);
        }
        let (starts, steps, shape) = (starts.to_vec(), steps.to_vec(), shape.into());
        self.one(Op::Slice { starts, steps, shape }, &[value])
    }

    /// As [`Self::slice`], along one axis only.
    pub fn slice_axis(
        &mut self,
        value: ValueId,
        axis: usize,
        start: Expr,
        step: i64,
        extent: Expr,
    ) -> Built {
        let mut shape = self.shape(value)?;
        if axis >= shape.len() {
            return Err(format!("there is no axis {axis} in a tensor of rank {}", shape.len()));
        }
        let mut starts = vec![Expr::from(0); shape.len()];
        let mut steps = vec![1; shape.len()];
        (starts[axis], steps[axis], shape[axis]) = (start, step, extent);
        self.slice(value, &starts, &steps, &shape)
    }

    /// Surrounds, and intersperses, a value with elements of rank 0 `fill`.
    pub fn pad(
        &mut self,
        value: ValueId,
        fill: ValueId,
        low: &[Expr],
        high: &[Expr],
        interior: &[i64],
    ) -> Built {
        let none = |pads: &[Expr]| pads.iter().all(|pad| pad.as_constant() == Some(0));
        if none(low) && none(high) && interior.iter().all(|&between| between == 0) {
            return Ok(value);
        }
        let (low, high, interior) = (low.to_vec(), high.to_vec(), interior.to_vec());
        self.one(Op::Pad { low, high, interior }, &[value, fill])
    }

    /// Puts values behind each other along an axis.
    pub fn concat(&mut self, axis: usize, values: &[ValueId]) -> Built {
        match values {
            &[value] => Ok(value),
            _ => self.one(Op::Concat { axis }, values),
        }
    }

    /// Indexes `data` along `axes`; see [`Op::Gather`].
    pub fn gather(
        &mut self,
        data: ValueId,
        axes: &[usize],
        indices: &[ValueId],
        batch: usize,
        position: usize,
    ) -> Built {
        let operands = [&[data], indices].concat();
        self.one(Op::Gather { axes: axes.to_vec(), batch, position }, &operands)
    }

    /// Combines `updates` into `data` at `indices`; see [`Op::Scatter`].
    #[expect(clippy::too_many_arguments, reason = "the operands and attributes of the primitive")]
    pub fn scatter(
        &mut self,
        data: ValueId,
        updates: ValueId,
        axes: &[usize],
        indices: &[ValueId],
        batch: usize,
        position: usize,
        reduction: Option<Reduction>,
    ) -> Built {
        let operands = [&[data, updates], indices].concat();
        self.one(Op::Scatter { axes: axes.to_vec(), batch, position, reduction }, &operands)
    }

    // --- arithmetic along axes ---

    /// A sum of products over a space.
    pub fn contract(
        &mut self,
        space: IterationSpace,
        lhs: ValueId,
        rhs: ValueId,
        accumulator: DType,
        dtype: DType,
    ) -> Built {
        self.one(Op::Contract { space, accumulator, dtype }, &[lhs, rhs])
    }

    /// A reduction over a space.
    pub fn reduce(
        &mut self,
        space: IterationSpace,
        value: ValueId,
        reduction: Reduction,
        accumulator: DType,
    ) -> Built {
        self.one(Op::Reduce { space, reduction, accumulator }, &[value])
    }

    /// Reduces whole axes (increasing); with `keep_dims` they stay with extent 1. The result's
    /// element type is the accumulator's.
    pub fn reduce_axes(
        &mut self,
        value: ValueId,
        axes: &[usize],
        reduction: Reduction,
        accumulator: DType,
        keep_dims: bool,
    ) -> Built {
        let shape = self.shape(value)?;
        if let Some(axis) = axes.iter().find(|&&axis| axis >= shape.len()) {
            return Err(format!("there is no axis {axis} in a tensor of rank {}", shape.len()));
        }
        let kept: Vec<usize> = (0..shape.len()).filter(|axis| !axes.contains(axis)).collect();
        let order = [&kept[..], axes].concat();
        let mut index = vec![Expr::from(0); shape.len()];
        for (position, &axis) in order.iter().enumerate() {
            index[axis] = IterationSpace::axis(position);
        }
        let extents = order.iter().map(|&axis| shape[axis].clone()).collect();
        let space = IterationSpace { extents, parallel: kept.len(), operands: vec![index] };
        let reduced = self.reduce(space, value, reduction, accumulator)?;
        if !keep_dims {
            return Ok(reduced);
        }
        let one = |axis| if axes.contains(&axis) { Expr::from(1) } else { shape[axis].clone() };
        let shape: Vec<Expr> = (0..shape.len()).map(one).collect();
        self.reshape(reduced, &shape)
    }

    /// The matrix product as NumPy's `matmul`: batch axes broadcast, rank 1 is a row or a column.
    /// Sums are formed in [`accumulator_of`] the element type, which is the result's.
    pub fn matmul(&mut self, lhs: ValueId, rhs: ValueId) -> Built {
        let dtype = self.dtype(lhs)?;
        self.matmul_as(lhs, rhs, dtype)
    }

    /// As [`Self::matmul`], with a result of this element type.
    pub fn matmul_as(&mut self, lhs: ValueId, rhs: ValueId, dtype: DType) -> Built {
        let (left, right) = (self.shape(lhs)?, self.shape(rhs)?);
        let accumulator = accumulator_of(self.dtype(lhs)?);
        let space = matmul_space(&left, &right, &|symbol| self.function.symbol_name(symbol))?;
        self.contract(space, lhs, rhs, accumulator, dtype)
    }

    /// Index of the greatest or least element along an axis, which disappears.
    pub fn arg_reduce(&mut self, value: ValueId, axis: usize, greatest: bool, last: bool) -> Built {
        self.one(Op::ArgReduce { axis, greatest, last }, &[value])
    }

    /// A running reduction along an axis.
    pub fn cumulate(
        &mut self,
        value: ValueId,
        axis: usize,
        reduction: Reduction,
        exclusive: bool,
        reverse: bool,
    ) -> Built {
        self.one(Op::Cumulate { axis, reduction, exclusive, reverse }, &[value])
    }

    /// Sorted values along an axis, all or the first so many, and their indices.
    pub fn sort(
        &mut self,
        value: ValueId,
        axis: usize,
        descending: bool,
        kept: Option<usize>,
    ) -> Built<(ValueId, ValueId)> {
        let results = self.add(Op::Sort { axis, descending, kept }, &[value])?;
        Ok((results[0], results[1]))
    }

    /// Indices of the true elements, and how many there are; see [`Op::NonZero`].
    pub fn non_zero(&mut self, value: ValueId) -> Built<(ValueId, ValueId)> {
        let results = self.add(Op::NonZero, &[value])?;
        Ok((results[0], results[1]))
    }
}

impl Function {
    /// A symbol's name; its id if it is from elsewhere.
    pub fn symbol_name(&self, symbol: SymbolId) -> String {
        self.symbols.get(symbol).map_or_else(|| symbol.to_string(), |symbol| symbol.name.clone())
    }

    pub(crate) fn add_parameter(&mut self, region: RegionId, ty: Type) -> ValueId {
        let number = self.regions[region].parameters.len() as u32;
        let definition = Definition::Parameter(region, number);
        let value = self.values.push(ValueData { ty, name: None, definition });
        self.regions[region].parameters.push(value);
        value
    }

    /// Appends a node to a region, making a result value of each type.
    pub(crate) fn add_node(
        &mut self,
        region: RegionId,
        mut node: Node,
        results: impl IntoIterator<Item = Type>,
    ) -> NodeId {
        let id = self.nodes.next_id();
        for (number, ty) in results.into_iter().enumerate() {
            let definition = Definition::Result(id, number as u32);
            node.results.push(self.values.push(ValueData { ty, name: None, definition }));
        }
        self.nodes.push(node);
        self.regions[region].nodes.push(id);
        id
    }
}

/// The type in which products of elements of a type are summed unless a model says otherwise: short
/// floats in f32, anything else in itself.
pub fn accumulator_of(dtype: DType) -> DType {
    if dtype.is_float() && dtype.bits() < 32 { DType::F32 } else { dtype }
}

/// The common shape to which shapes broadcast, as NumPy has it.
///
/// # Errors
/// A sentence when two extents of an axis differ and neither is 1.
pub fn broadcast_shapes(shapes: &[&[Expr]], names: Names<'_>) -> Result<Vec<Expr>, String> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut result = vec![Expr::from(1); rank];
    for (number, shape) in shapes.iter().enumerate() {
        for (axis, extent) in shape.iter().enumerate() {
            let common = &mut result[rank - shape.len() + axis];
            if common.as_constant() == Some(1) {
                *common = extent.clone();
            } else if extent.as_constant() != Some(1) && extent != common {
                let (extent, common) = (extent.display(names), common.display(names));
                return Err(format!(
                    "axis {axis} of operand {number} has extent {extent}, which does not \
                     broadcast with {common}"
                ));
            }
        }
    }
    Ok(result)
}

/// Batch axes, then the row of the left operand, the column of the right one, then the sum's axis.
fn matmul_space(left: &[Expr], right: &[Expr], names: Names<'_>) -> Built<IterationSpace> {
    if left.is_empty() || right.is_empty() {
        return Err("a matrix product needs operands of rank 1 or more".to_owned());
    }
    let (has_row, has_column) = (left.len() > 1, right.len() > 1);
    let left_batch = &left[..left.len().saturating_sub(2)];
    let right_batch = &right[..right.len().saturating_sub(2)];
    let batch = broadcast_shapes(&[left_batch, right_batch], names)?;
    let depth = &left[left.len() - 1];
    let other = &right[right.len() - if has_column { 2 } else { 1 }];
    if depth != other {
        let (depth, other) = (depth.display(names), other.display(names));
        return Err(format!(
            "the left operand has {depth} columns, but the right one has {other} rows"
        ));
    }
    let mut extents = batch.clone();
    extents.extend(has_row.then(|| left[left.len() - 2].clone()));
    extents.extend(has_column.then(|| right[right.len() - 1].clone()));
    let parallel = extents.len();
    extents.push(depth.clone());
    let index = |shape: &[Expr], matrix: &[usize]| -> Vec<Expr> {
        let own = shape.len() - matrix.len();
        let read = |axis: usize| {
            let position = batch.len() - own + axis;
            let repeated = shape[axis] != batch[position];
            if repeated { Expr::from(0) } else { IterationSpace::axis(position) }
        };
        (0..own).map(read).chain(matrix.iter().map(|&axis| IterationSpace::axis(axis))).collect()
    };
    let row = batch.len();
    let column = row + usize::from(has_row);
    let left_matrix = if has_row { vec![row, parallel] } else { vec![parallel] };
    let right_matrix = if has_column { vec![parallel, column] } else { vec![parallel] };
    let operands = vec![index(left, &left_matrix), index(right, &right_matrix)];
    Ok(IterationSpace { extents, parallel, operands })
}
