//! Graphs within operators: branches and loops as regions. All that a graph reads is given to it.

use front::{Accepted, Graph, Operand, region, shape_error, type_error};
use graph::{Op, Type};
use tensor::DType;

use crate::importer::Importer;
use crate::node::{Lowered, Node};
use crate::schema::SubGraph;

/// The graph of a number in the options.
fn graph_of<'m>(importer: &Importer<'m>, node: &Node<'_>, field: usize) -> Accepted<&'m SubGraph> {
    let number = node.options()?.int(field)?;
    let found = usize::try_from(number).ok().and_then(|it| importer.schema.graphs.get(it));
    found.ok_or_else(|| shape_error(format!("the file has no graph of number {number}")))
}

/// Makes nodes of all values, which regions read.
fn prepare(graph: &mut Graph, values: &[Operand]) -> Accepted<()> {
    values.iter().try_for_each(|value| graph.data(value).map(|_| ()))
}

/// `IF`: one of two graphs of the same inputs. A condition that is known picks it now.
pub(super) fn branch(node: &Node<'_>, importer: &mut Importer<'_>) -> Lowered {
    let condition = node.input(0)?;
    let inputs = node.inputs()?.split_off(1);
    let graphs = [graph_of(importer, node, 0)?, graph_of(importer, node, 1)?];
    if let Some(known) = condition.known().and_then(|known| known.first()?.constant()) {
        return importer.graph_of(graphs[usize::from(!known.as_bool())], &inputs);
    }
    if graphs[0].outputs.len() != graphs[1].outputs.len() {
        return Err(shape_error("its branches have different numbers of outputs"));
    }
    let condition = importer.graph.cast(&condition, DType::Bool)?;
    let condition = importer.graph.reshape(&condition, &[])?;
    importer.graph.data(&condition)?;
    prepare(&mut importer.graph, &inputs)?;
    let mut regions = Vec::new();
    for graph in graphs {
        regions.push(region(importer, &[], |importer, _| importer.graph_of(graph, &inputs))?);
    }
    let types = |region| importer.graph.builder.function().region_type(region).results;
    let (then, other) = (types(regions[0]), types(regions[1]));
    let alike = |(a, b): (&Type, &Type)| match (a.as_tensor(), b.as_tensor()) {
        (Some(a), Some(b)) => a.dtype == b.dtype && a.shape.len() == b.shape.len(),
        _ => false,
    };
    if !then.iter().zip(&other).all(alike) {
        return Err(type_error("its branches give values of different types or ranks"));
    }
    importer.graph.branch(&condition, &[regions[0], regions[1]])
}

/// `WHILE`: a graph of the values that it carries, as long as another says so of them.
pub(super) fn repeat(node: &Node<'_>, importer: &mut Importer<'_>) -> Lowered {
    let carried = node.inputs()?;
    let (condition, body) = (graph_of(importer, node, 0)?, graph_of(importer, node, 1)?);
    prepare(&mut importer.graph, &carried)?;
    let types = carried.iter().map(|value| value.graph_type().map_err(type_error));
    let types = types.collect::<Accepted<Vec<Type>>>()?;
    let condition = region(importer, &types, |importer, values| {
        let mut found = importer.graph_of(condition, values)?;
        let one = found.pop().filter(|_| found.is_empty());
        let one = one.ok_or_else(|| shape_error("its condition is not one value"))?;
        let one = importer.graph.cast(&one, DType::Bool)?;
        Ok(vec![importer.graph.reshape(&one, &[])?])
    })?;
    let body = region(importer, &types, |importer, values| {
        let results = importer.graph_of(body, values)?;
        if results.len() != values.len() {
            return Err(shape_error("its body gives other values than it takes"));
        }
        let mut alike = Vec::new();
        for (result, value) in results.iter().zip(values) {
            if result.dtype() != value.dtype() || result.rank() != value.rank() {
                return Err(type_error("its body changes the type of a value that it carries"));
            }
            if result.shape() != value.shape() {
                return Err(front::unsupported("a loop that changes the shape of what it carries"));
            }
            alike.push(result.clone());
        }
        Ok(alike)
    })?;
    importer.graph.control(Op::While { turns: None }, &carried, &[condition, body])
}
