//! Normalisations of batches: a feature at a time, over all other axes.
//!
//! Source: StableHLO's specification, sections `batch_norm_inference`, `batch_norm_training` and
//! `batch_norm_grad`, which define them by other operations.

use front::{Accepted, Graph, Operand, shape_error, statistics};
use sym::Expr;

use crate::importer::{Frame, Importer};
use crate::node::{Lowered, Node, Value, one};
use crate::syntax::Attribute;

/// What is normalised, and along which axes.
struct NormalisedAxes {
    x: Operand,
    feature: usize,
    /// All axes but that of the features.
    others: Vec<usize>,
    epsilon: f64,
}

impl NormalisedAxes {
    /// What an operation normalises; `parameters` are the numbers of its vectors of features.
    fn of(node: &Node<'_>, parameters: &[usize]) -> Accepted<NormalisedAxes> {
        let x = node.real(0)?.clone();
        let feature = node.axis("feature_index", x.rank())?;
        for &number in parameters {
            if node.real(number)?.shape() != &x.shape()[feature..=feature] {
                return Err(shape_error(format!("operand {number} has not one number a feature")));
            }
        }
        let epsilon = match node.attribute("epsilon") {
            Some(Attribute::Float(number)) => *number,
            Some(other) => other.integer().unwrap_or(0) as f64,
            None => 0.0,
        };
        let others = (0..x.rank()).filter(|axis| *axis != feature).collect();
        Ok(NormalisedAxes { x, feature, others, epsilon })
    }

    /// A number a feature as a value that is repeated along the other axes.
    fn spread(&self, graph: &mut Graph, value: &Operand) -> Accepted<Operand> {
        let mut shape = vec![Expr::ONE; self.x.rank()];
        shape[self.feature] = self.x.shape()[self.feature].clone();
        graph.reshape(value, &shape)
    }

    /// A value with extents of 1 but for the features, as a vector.
    fn vector(&self, graph: &mut Graph, value: &Operand) -> Accepted<Operand> {
        graph.reshape(value, &self.x.shape()[self.feature..=self.feature])
    }

    /// The root of a variance, the epsilon added; both are repeated along the other axes.
    fn deviation(&self, graph: &mut Graph, variance: &Operand) -> Accepted<Operand> {
        let variance = graph.add_number(variance, self.epsilon)?;
        graph.sqrt(&variance)
    }

    /// Scaled and shifted numbers of a mean of 0 and a variance of 1. What is given is repeated
    /// along the other axes.
    fn normalised(
        &self,
        graph: &mut Graph,
        (mean, variance): (&Operand, &Operand),
        (scale, offset): (&Operand, &Operand),
    ) -> Accepted<Operand> {
        let centred = graph.sub(&self.x, mean)?;
        let deviation = self.deviation(graph, variance)?;
        let normalised = graph.div(&centred, &deviation)?;
        let (scale, offset) = (self.spread(graph, scale)?, self.spread(graph, offset)?);
        let scaled = graph.mul(&scale, &normalised)?;
        graph.add(&scaled, &offset)
    }

    /// The sum over all axes but the features, which stay.
    fn sum(&self, graph: &mut Graph, value: &Operand) -> Accepted<Operand> {
        graph.reduce_axes(value, &self.others, tensor::Reduction::Sum, true)
    }
}

pub(crate) fn batch_norm_inference<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let graph = &mut importer.graph;
    let axes = NormalisedAxes::of(node, &[1, 2, 3, 4])?;
    let mean = axes.spread(graph, node.real(3)?)?;
    let variance = axes.spread(graph, node.real(4)?)?;
    let parameters = (node.real(1)?, node.real(2)?);
    one(axes.normalised(graph, (&mean, &variance), parameters)?)
}

pub(crate) fn batch_norm_training<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let graph = &mut importer.graph;
    let axes = NormalisedAxes::of(node, &[1, 2])?;
    let (mean, variance) = statistics(graph, &axes.x, &axes.others)?;
    let parameters = (node.real(1)?, node.real(2)?);
    let result = axes.normalised(graph, (&mean, &variance), parameters)?;
    let results = [result, axes.vector(graph, &mean)?, axes.vector(graph, &variance)?];
    Ok(results.into_iter().map(Value::from).collect())
}

pub(crate) fn batch_norm_grad<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let graph = &mut importer.graph;
    let axes = NormalisedAxes::of(node, &[1, 2, 3])?;
    let slope = node.real(4)?;
    if slope.shape() != axes.x.shape() {
        return Err(shape_error("the slope has another shape than what was normalised"));
    }
    let scale = axes.spread(graph, node.real(1)?)?;
    let mean = axes.spread(graph, node.real(2)?)?;
    let variance = axes.spread(graph, node.real(3)?)?;
    let centred = graph.sub(&axes.x, &mean)?;
    let deviation = axes.deviation(graph, &variance)?;
    let count = axes.others.iter().map(|&axis| &axes.x.shape()[axis]).product::<Expr>();
    let count = graph.dimension(count);
    let count = graph.cast(&count, axes.x.dtype())?;
    let whole = axes.sum(graph, slope)?;
    let along = graph.mul(slope, &centred)?;
    let along = axes.sum(graph, &along)?;
    // What the mean and the variance take of the slope goes from it.
    let shifted = graph.add_number(&variance, axes.epsilon)?;
    let turned = graph.mul(&along, &centred)?;
    let turned = graph.div(&turned, &shifted)?;
    let own = graph.mul(&count, slope)?;
    let own = graph.sub(&own, &whole)?;
    let own = graph.sub(&own, &turned)?;
    let factor = graph.div(&scale, &deviation)?;
    let factor = graph.div(&factor, &count)?;
    let of_scale = graph.div(&along, &deviation)?;
    let results =
        [graph.mul(&factor, &own)?, axes.vector(graph, &of_scale)?, axes.vector(graph, &whole)?];
    Ok(results.into_iter().map(Value::from).collect())
}
