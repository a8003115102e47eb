//! Regions, and loops with a known number of turns.

use graph::{Op, RegionId, TensorType, Type, ValueId};
use sym::Expr;
use tensor::DType;

use crate::value::Operand;
use crate::writer::{Accepted, Graph, type_error};

/// What one turn of a loop gives.
pub struct Turn {
    /// Carried to the next turn; types as before.
    pub carried: Vec<Operand>,
    /// Stacked along a new first axis.
    pub stacked: Vec<Operand>,
}

/// A region with parameters of these types, and the results that `body` computes of them. The body
/// may read values from around the region that have their nodes already ([`Graph::data`]).
///
/// # Errors
/// What the body refuses; the region is closed all the same.
pub fn region<W: AsMut<Graph>>(
    writer: &mut W,
    parameters: &[Type],
    body: impl FnOnce(&mut W, &[Operand]) -> Accepted<Vec<Operand>>,
) -> Accepted<RegionId> {
    let graph = writer.as_mut();
    let around = graph.outer_values;
    graph.outer_values = around.or(Some(graph.builder.function().values.len()));
    let parameters = graph.builder.begin_region(parameters);
    let parameters = graph.built_all(Ok(parameters));
    let results = parameters.and_then(|parameters| body(writer, &parameters));
    let graph = writer.as_mut();
    let results = results.and_then(|results| graph.all_data(&results));
    let ids: &[ValueId] = results.as_deref().unwrap_or_default();
    let region = graph.builder.end_region(ids);
    graph.outer_values = around;
    results.map(|_| region)
}

impl AsMut<Graph> for Graph {
    fn as_mut(&mut self) -> &mut Graph {
        self
    }
}

impl Graph {
    /// The results of a node with regions.
    pub fn control(
        &mut self,
        op: Op,
        operands: &[Operand],
        regions: &[RegionId],
    ) -> Accepted<Vec<Operand>> {
        let operands = self.all_data(operands)?;
        let results = self.builder.add_with_regions(op, &operands, regions);
        self.built_all(results)
    }

    /// One of two regions without parameters; extents that differ between them become symbols.
    pub fn branch(
        &mut self,
        condition: &Operand,
        regions: &[RegionId; 2],
    ) -> Accepted<Vec<Operand>> {
        let condition = self.data(condition)?;
        let results = self.builder.branch(condition, regions);
        self.built_all(results)
    }

    /// Runs `turn` on the number of the iteration, what is carried, and slices of `scanned` along
    /// their first axes, from the last to the first if `reverse`. Gives what is carried at the end,
    /// then the stacks. `outer` are the values that a turn reads from around it.
    pub fn scan(
        &mut self,
        (trip_count, reverse): (&Expr, bool),
        carried: &[Operand],
        scanned: &[Operand],
        outer: &[&Operand],
        turn: impl FnOnce(&mut Graph, &Operand, &[Operand], &[Operand]) -> Accepted<Turn>,
    ) -> Accepted<Vec<Operand>> {
        // A node made inside of the region must not be used outside of it.
        self.all_data(outer.iter().copied())?;
        let operands = [carried, scanned].concat();
        self.all_data(&operands)?;
        let types = scan_types(carried, scanned)?;
        let region = region(self, &types, |graph, parameters| {
            let (states, slices) = parameters[1..].split_at(carried.len());
            let Turn { mut carried, stacked } = turn(graph, &parameters[0], states, slices)?;
            carried.extend(stacked);
            Ok(carried)
        })?;
        let (trip_count, carried) = (trip_count.clone(), carried.len());
        self.control(Op::Scan { trip_count, carried, reverse }, &operands, &[region])
    }

    /// Runs `turn` on what is carried as long as `goes_on` says of it; gives what is carried at the
    /// end. `outer` are the values that both read from around the loop.
    pub fn repeat_while(
        &mut self,
        carried: &[Operand],
        outer: &[&Operand],
        goes_on: impl FnOnce(&mut Graph, &[Operand]) -> Accepted<Operand>,
        turn: impl FnOnce(&mut Graph, &[Operand]) -> Accepted<Vec<Operand>>,
    ) -> Accepted<Vec<Operand>> {
        self.all_data(outer.iter().copied())?;
        self.all_data(carried)?;
        let types = carried.iter().map(|value| value.graph_type().map_err(type_error));
        let types = types.collect::<Accepted<Vec<Type>>>()?;
        let condition = region(self, &types, |graph, carried| Ok(vec![goes_on(graph, carried)?]))?;
        let body = region(self, &types, turn)?;
        self.control(Op::While { turns: None }, carried, &[condition, body])
    }
}

/// The types of the parameters of a counted loop's region.
///
/// # Errors
/// For lists whose values are not alike.
pub fn scan_types(carried: &[Operand], scanned: &[Operand]) -> Accepted<Vec<Type>> {
    let slice = |value: &Operand| {
        let shape = value.shape()[1..].into();
        Type::Tensor(TensorType { dtype: value.dtype(), shape })
    };
    let number = Type::Tensor(TensorType { dtype: DType::I64, shape: [].into() });
    let carried = carried.iter().map(|value| value.graph_type().map_err(type_error));
    let slices = scanned.iter().map(|value| Ok(slice(value)));
    std::iter::once(Ok(number)).chain(carried).chain(slices).collect()
}
