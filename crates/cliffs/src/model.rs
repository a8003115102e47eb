//! The bytes of a model, made of an outline part by part.
//!
//! Weights are random from a seed that is their place among the weights, so an outline gives the
//! same bytes each time. What a part cannot be made of is refused with a reason, and so is what
//! would be too large.

use import_onnx::data_type::number_of;
use import_onnx::proto::{
    AttributeProto, DimensionProto, DimensionValue, GraphProto, ModelProto, NodeProto,
    OperatorSetIdProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, TypeValue,
    ValueInfoProto, attribute_type,
};
use prost::Message;
use tensor::random::Generator;
use tensor::{DType, Scalar, Tensor};

use crate::outline::{Outline, Part};
use crate::parts;

/// The operator set, and the version of the format: as new as all engines read.
const OPERATOR_SET: i64 = 20;
const FORMAT: i64 = 9;
/// The most elements of a value, of all weights, and the most operations of a model.
const MOST_ELEMENTS: i64 = 1 << 21;
const MOST_WEIGHTS: i64 = 1 << 21;
const MOST_OPERATIONS: f64 = 6e7;
const MOST_AXES: usize = 6;

/// What a part is written by: nothing, or why it does not fit.
pub(crate) type Written = Result<(), String>;

/// A model up to some part.
#[derive(Clone, Debug)]
pub(crate) struct ModelBuilder {
    graph: GraphProto,
    weights: i64,
    /// The name of the value that the next part takes.
    pub(crate) value: String,
    /// Its element type.
    pub(crate) dtype: DType,
    /// Its extents.
    pub(crate) shape: Vec<i64>,
    /// Operations so far, about; one at least for each element that a part gives.
    pub(crate) operations: f64,
}

/// The bytes of an outline's model.
///
/// # Errors
/// Why it cannot be made.
pub fn bytes(outline: &Outline) -> Result<Vec<u8>, String> {
    let mut model = ModelBuilder::new(outline.dtype, &outline.shape)?;
    outline.parts.iter().try_for_each(|part| model.add(part))?;
    Ok(model.finish())
}

impl ModelBuilder {
    /// A model that gives its input.
    ///
    /// # Errors
    /// An input that is too large, or empty.
    pub(crate) fn new(dtype: DType, shape: &[i64]) -> Result<ModelBuilder, String> {
        let graph = GraphProto {
            name: "cliff".to_owned(),
            input: vec![value_info("x", dtype, shape)],
            ..GraphProto::default()
        };
        let (value, shape) = ("x".to_owned(), shape.to_vec());
        let model = ModelBuilder { graph, weights: 0, value, dtype, shape, operations: 0.0 };
        model.check()?;
        Ok(model)
    }

    /// Adds a part.
    ///
    /// # Errors
    /// Why it does not fit.
    pub(crate) fn add(&mut self, part: &Part) -> Written {
        let row = parts::row(&part.name).ok_or_else(|| format!("no part `{}`", part.name))?;
        (row.write)(self, part).map_err(|reason| format!("`{part}`: {reason}"))?;
        self.operations += self.count();
        self.check().map_err(|reason| format!("`{part}`: {reason}"))
    }

    fn check(&self) -> Written {
        let mut count = 1_i64;
        for &extent in &self.shape {
            demand(extent >= 1, "an axis is empty")?;
            count = count.saturating_mul(extent);
        }
        demand(self.shape.len() <= MOST_AXES, "it has too many axes")?;
        demand(count <= MOST_ELEMENTS, "it has too many elements")?;
        demand(self.weights <= MOST_WEIGHTS, "the weights have too many elements")?;
        demand(self.operations <= MOST_OPERATIONS, "it takes too many operations")
    }

    /// The file. Its output is `y`.
    #[must_use]
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let given = [self.value.clone()];
        self.node("Identity", &given, Vec::new());
        if let Some(last) = self.graph.node.last_mut() {
            last.output = vec!["y".to_owned()];
        }
        self.graph.output = vec![value_info("y", self.dtype, &self.shape)];
        let set = OperatorSetIdProto { domain: String::new(), version: OPERATOR_SET };
        let model = ModelProto {
            ir_version: FORMAT,
            opset_import: vec![set],
            graph: Some(self.graph),
            ..ModelProto::default()
        };
        model.encode_to_vec()
    }

    /// Elements of the value.
    pub(crate) fn count(&self) -> f64 {
        product(&self.shape)
    }

    /// The place of an axis that the value has.
    pub(crate) fn axis(&self, axis: i64) -> Result<usize, String> {
        let place = usize::try_from(axis).ok().filter(|&axis| axis < self.shape.len());
        place.ok_or_else(|| format!("there is no axis {axis}"))
    }

    /// Adds a node of one result, and gives its name.
    pub(crate) fn node(
        &mut self,
        operator: &str,
        inputs: &[String],
        attribute: Vec<AttributeProto>,
    ) -> String {
        let name = format!("v{}", self.graph.node.len());
        self.graph.node.push(NodeProto {
            input: inputs.to_vec(),
            output: vec![name.clone()],
            name: format!("{operator}_{}", self.graph.node.len()),
            op_type: operator.to_owned(),
            attribute,
            ..NodeProto::default()
        });
        name
    }

    /// Lets a node take the value, and be the next one; the shape stays.
    pub(crate) fn then(
        &mut self,
        operator: &str,
        more: &[String],
        attributes: Vec<AttributeProto>,
    ) {
        let inputs: Vec<String> = [std::slice::from_ref(&self.value), more].concat();
        self.value = self.node(operator, &inputs, attributes);
    }

    /// Gives the last node a second result, which nobody reads.
    pub(crate) fn second_result(&mut self) {
        if let Some(last) = self.graph.node.last_mut() {
            last.output.push(format!("{}_more", self.value));
        }
    }

    /// A weight of normal numbers with this standard deviation, or of small integers.
    pub(crate) fn weight(&mut self, dtype: DType, shape: &[i64], scale: f64) -> String {
        let count: i64 = shape.iter().fold(1, |count, &extent| count.saturating_mul(extent.max(0)));
        self.weights = self.weights.saturating_add(count);
        // What is too large is refused behind the part, what is negative by it; neither is made.
        let can_be = self.weights <= MOST_WEIGHTS && shape.iter().all(|&extent| extent >= 0);
        let shape: &[i64] = if can_be { shape } else { &[0] };
        let seed = 1000 + self.graph.initializer.len() as u64;
        self.constant(&values(dtype, shape, seed, scale))
    }

    /// A vector of integers, as shapes and axes are given.
    pub(crate) fn integers(&mut self, values: &[i64]) -> String {
        self.constant(&Tensor::from_slice(&[values.len()], values))
    }

    /// A number of the value's element type.
    pub(crate) fn scalar(&mut self, dtype: DType, value: f64) -> String {
        self.constant(&Tensor::scalar(Scalar::from_f64(dtype, value)))
    }

    /// A constant.
    pub(crate) fn constant(&mut self, tensor: &Tensor) -> String {
        let name = format!("c{}", self.graph.initializer.len());
        let proto = TensorProto { name: name.clone(), ..import_onnx::tensor_proto("", tensor) };
        self.graph.initializer.push(proto);
        name
    }
}

/// The product of numbers that may be large.
pub(crate) fn product(numbers: &[i64]) -> f64 {
    numbers.iter().map(|&number| number as f64).product()
}

/// Refuses with a reason what does not hold.
pub(crate) fn demand(holds: bool, otherwise: &str) -> Written {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

/// Random values: normal numbers with this standard deviation, integers from -8 to 7, or from 0 to
/// 15 where there is no sign, booleans.
#[must_use]
pub fn values(dtype: DType, shape: &[i64], seed: u64, scale: f64) -> Tensor {
    let shape: Vec<usize> = shape.iter().map(|&extent| extent as usize).collect();
    let mut random = Generator::new(seed);
    let mut tensor = Tensor::zeros(dtype, &shape);
    if let Some(values) = tensor.as_mut_slice::<f32>() {
        values.fill_with(|| (random.normal() * scale) as f32);
        return tensor;
    }
    let signed = matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64);
    for index in 0..tensor.len() {
        let value = match dtype {
            DType::F64 | DType::F16 | DType::BF16 => {
                Scalar::from_f64(dtype, random.normal() * scale)
            }
            DType::Bool => Scalar::from_i64(dtype, random.below(2) as i64),
            _ => Scalar::from_i64(dtype, random.below(16) as i64 - if signed { 8 } else { 0 }),
        };
        tensor.set_scalar(index, value);
    }
    tensor
}

fn value_info(name: &str, dtype: DType, shape: &[i64]) -> ValueInfoProto {
    let extent = |&extent: &i64| DimensionProto { value: Some(DimensionValue::DimValue(extent)) };
    let shape = Some(TensorShapeProto { dim: shape.iter().map(extent).collect() });
    let value = TypeValue::Tensor(TensorTypeProto { elem_type: number_of(dtype), shape });
    ValueInfoProto {
        r#type: Some(TypeProto { value: Some(value) }),
        ..ValueInfoProto::untyped(name)
    }
}

/// An attribute that is a number.
pub(crate) fn int(name: &str, i: i64) -> AttributeProto {
    let r#type = attribute_type::INT;
    AttributeProto { name: name.to_owned(), r#type, i, ..AttributeProto::default() }
}

/// An attribute that is a list of numbers.
pub(crate) fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    let r#type = attribute_type::INTS;
    AttributeProto { name: name.to_owned(), r#type, ints: ints.to_vec(), ..Default::default() }
}

/// An attribute that is a word.
pub(crate) fn word(name: &str, word: &str) -> AttributeProto {
    let (r#type, s) = (attribute_type::STRING, word.to_owned().into());
    AttributeProto { name: name.to_owned(), r#type, s, ..AttributeProto::default() }
}
