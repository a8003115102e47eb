//! Random small models of quantised numbers, in the forms that quantisers write, each step of which
//! is exact in f32.
//!
//! Scales are powers of two, and sums have no more terms than fit the digits of a float. So the
//! evaluator, which follows the model through floats, and code that multiplies integers agree to
//! the bit, ties included. What is made of bytes is among the results, and so are sums of integers.

use std::fmt::Write as _;

use base::text::Parser;
use import_onnx::{ImportOptions, import_bytes};
use proptest::prelude::*;
use prost::Message;
use tensor::random::Generator;
use tensor::{DType, Scalar, Tensor};

use crate::{GraphSample, onnx_text};

/// The most terms of a sum: products are at most 2^16, and floats hold 2^24 exactly.
const MOST_TERMS: usize = 192;

/// The most elements of a value.
const MOST_ELEMENTS: usize = 4096;

/// Samples of up to a number of layers; they shrink to fewer.
pub fn quantised_samples(layers: usize) -> impl Strategy<Value = GraphSample> {
    (any::<u64>().no_shrink(), 1..=layers).prop_map(|(seed, layers)| quantised_graph(seed, layers))
}

/// The sample of a seed.
///
/// # Panics
/// If the importer refuses the model.
pub fn quantised_graph(seed: u64, layers: usize) -> GraphSample {
    let mut growth = Growth::new(seed);
    growth.sources();
    for _ in 0..layers {
        growth.layer();
    }
    growth.finish()
}

/// Bytes, and what they stand for: `(q - zero) * 2^exponent`.
#[derive(Clone)]
struct Bytes {
    name: String,
    shape: Vec<usize>,
    dtype: DType,
    exponent: i32,
    zero: i64,
    is_read: bool,
}

impl Bytes {
    /// Whether the product of two such numbers is still far from the ends of a float's range.
    fn is_tame(&self) -> bool {
        self.exponent.abs() <= 20
    }
}

/// Weights of a product: bytes with a scale for each result, or for all.
struct Weights {
    name: String,
    scale: String,
    zero: String,
    dtype: DType,
    /// Of each result.
    exponents: Vec<i32>,
}

impl Weights {
    fn has_one_scale(&self) -> bool {
        self.exponents.windows(2).all(|pair| pair[0] == pair[1])
    }
}

struct Growth {
    random: Generator,
    text: String,
    constants: Vec<(String, Tensor)>,
    inputs: Vec<Tensor>,
    values: Vec<Bytes>,
    /// Sums of integers, with their shapes.
    sums: Vec<(String, Vec<usize>)>,
    count: usize,
}

/// A list of extents as text has it.
fn list<T: ToString>(extents: &[T]) -> String {
    let words: Vec<String> = extents.iter().map(ToString::to_string).collect();
    format!("[{}]", words.join(", "))
}

impl Growth {
    fn new(seed: u64) -> Growth {
        Growth {
            random: Generator::new(seed),
            text: "ir 10 opset 21 opset \"com.microsoft\" 1\n".to_owned(),
            constants: Vec::new(),
            inputs: Vec::new(),
            values: Vec::new(),
            sums: Vec::new(),
            count: 0,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    fn fresh(&mut self) -> String {
        self.count += 1;
        format!("v{}", self.count)
    }

    /// Writes a node with one result, whose name it gives.
    fn node(&mut self, operator: &str, operands: &[&str], attributes: &str) -> String {
        let name = self.fresh();
        let braces =
            if attributes.is_empty() { String::new() } else { format!("{{{attributes}}}") };
        let _ = writeln!(self.text, "{name} = {operator}({}) {braces}", operands.join(", "));
        name
    }

    fn constant(&mut self, tensor: Tensor) -> String {
        let name = self.fresh();
        self.constants.push((name.clone(), tensor));
        name
    }

    fn number(&mut self, dtype: DType, number: f64) -> String {
        self.constant(Tensor::scalar(Scalar::from_f64(dtype, number)))
    }

    fn scale(&mut self, exponent: i32) -> String {
        self.number(DType::F32, f64::from(exponent).exp2())
    }

    fn scales(&mut self, exponents: &[i32]) -> String {
        let scales: Vec<f32> = exponents.iter().map(|exponent| (*exponent as f32).exp2()).collect();
        self.constant(Tensor::from_vec(&[scales.len()], scales))
    }

    fn byte(&mut self) -> DType {
        self.pick(&[DType::U8, DType::I8])
    }

    fn zero_point(&mut self, dtype: DType) -> i64 {
        let low = if dtype == DType::U8 { 0 } else { -128 };
        let usual = if dtype == DType::U8 { 128 } else { 0 };
        match self.below(3) {
            0 => usual,
            1 => 0,
            _ => low + self.below(256) as i64,
        }
    }

    /// Bytes of any size.
    fn bytes(&mut self, dtype: DType, shape: &[usize]) -> Tensor {
        let low = if dtype == DType::U8 { 0 } else { -128 };
        let count = shape.iter().product();
        let scalars: Vec<Scalar> = (0..count)
            .map(|_| Scalar::from_i64(dtype, low + self.random.below(256) as i64))
            .collect();
        Tensor::from_scalars(dtype, shape, &scalars)
    }

    // --- sources ---

    fn sources(&mut self) {
        for number in 0..2 {
            let channels = self.pick(&[1, 2, 3, 4, 5, 8, 16, 17, 24, 32]);
            let shape = match self.below(3) {
                0 => vec![self.pick(&[1, 2, 5, 9, 16]), channels * 3],
                _ => {
                    let [high, wide] = [1 + self.below(9), 1 + self.below(9)];
                    vec![1 + self.below(2), channels, high, wide]
                }
            };
            let name = format!("q{number}");
            if self.below(3) == 0 {
                let count = shape.iter().product();
                let floats: Vec<f32> = (0..count).map(|_| self.random.normal() as f32).collect();
                let _ = writeln!(self.text, "input {name}: f32{}", list(&shape));
                self.inputs.push(Tensor::from_vec(&shape, floats));
                self.quantised(&name, &shape, 1);
                continue;
            }
            let dtype = self.byte();
            let _ = writeln!(self.text, "input {name}: {dtype}{}", list(&shape));
            let input = self.bytes(dtype, &shape);
            self.inputs.push(input);
            let (exponent, zero) = (-(self.below(8) as i32), self.zero_point(dtype));
            self.values.push(Bytes { name, shape, dtype, exponent, zero, is_read: false });
        }
    }

    // --- bytes and floats ---

    /// Scale and zero point of new bytes that stand for numbers of some 2^`reach`.
    fn range(&mut self, reach: i32) -> (i32, DType, i64) {
        let dtype = self.byte();
        self.range_in(dtype, reach)
    }

    /// The same for bytes of a type.
    fn range_in(&mut self, dtype: DType, reach: i32) -> (i32, DType, i64) {
        (reach - 6 + self.below(2) as i32, dtype, self.zero_point(dtype))
    }

    /// Floats as bytes again, which stand for numbers of some 2^`reach`.
    fn quantised(&mut self, floats: &str, shape: &[usize], reach: i32) {
        let (exponent, dtype, zero) = self.range(reach);
        let (scale, point) = (self.scale(exponent), self.number(dtype, zero as f64));
        let mut operands = vec![floats, &scale, &point];
        if zero == 0 && dtype == DType::U8 && self.below(2) == 0 {
            operands.pop();
        }
        let name = self.node("QuantizeLinear", &operands, "");
        self.know(name, shape, (exponent, dtype, zero));
    }

    fn know(&mut self, name: String, shape: &[usize], (exponent, dtype, zero): (i32, DType, i64)) {
        let shape = shape.to_vec();
        self.values.push(Bytes { name, shape, dtype, exponent, zero, is_read: false });
    }

    /// The names of a value's bytes, scale and zero point.
    fn parts(&mut self, at: usize) -> [String; 3] {
        self.values[at].is_read = true;
        let Bytes { name, dtype, exponent, zero, .. } = self.values[at].clone();
        [name, self.scale(exponent), self.number(dtype, zero as f64)]
    }

    /// The numbers that a value stands for.
    fn floats(&mut self, at: usize) -> String {
        let [bytes, scale, zero] = self.parts(at);
        self.node("DequantizeLinear", &[&bytes, &scale, &zero], "")
    }

    /// The names of scale and zero point of a new result.
    fn result(&mut self, (exponent, dtype, zero): (i32, DType, i64)) -> [String; 2] {
        [self.scale(exponent), self.number(dtype, zero as f64)]
    }

    fn any_where(&mut self, wanted: impl Fn(&Bytes) -> bool) -> Option<usize> {
        let fitting: Vec<usize> =
            (0..self.values.len()).filter(|&at| wanted(&self.values[at])).collect();
        (!fitting.is_empty()).then(|| self.pick(&fitting))
    }

    /// How far a value's numbers reach, as a power of two.
    fn reach(&self, at: usize) -> i32 {
        self.values[at].exponent + 6
    }

    // --- layers ---

    fn layer(&mut self) {
        // What does not fit the values at hand is left out.
        let _ = match self.below(16) {
            0..=3 => self.convolution(),
            4..=6 => self.product(),
            7 => self.product_of_values(),
            8 | 9 => self.join(),
            10 => self.concatenation(),
            11 => self.pooled(),
            12 | 13 => self.mapped(),
            14 => self.moved(),
            _ => self.dynamic(),
        };
    }

    /// Weights with the axis of their results at a place.
    fn weights(&mut self, shape: &[usize], axis: usize) -> Weights {
        let dtype = self.pick(&[DType::I8, DType::I8, DType::U8]);
        let is_symmetric = dtype == DType::I8 && self.below(4) > 0;
        let per_result = is_symmetric && self.below(2) == 0;
        let base = -(self.below(8) as i32);
        let exponents: Vec<i32> = (0..shape[axis])
            .map(|_| base - if per_result { self.below(4) as i32 } else { 0 })
            .collect();
        let zero = if is_symmetric { 0 } else { self.zero_point(dtype) };
        let tensor = self.bytes(dtype, shape);
        let name = self.constant(tensor);
        let (scale, zero) = match per_result {
            true => {
                let zeros = vec![Scalar::from_i64(dtype, zero); shape[axis]];
                let zeros = Tensor::from_scalars(dtype, &[shape[axis]], &zeros);
                (self.scales(&exponents), self.constant(zeros))
            }
            false => (self.scale(base), self.number(dtype, zero as f64)),
        };
        Weights { name, scale, zero, dtype, exponents }
    }

    /// A bias for sums of products of a value and weights, at the product of their scales.
    fn bias(&mut self, exponent: i32, weights: &Weights) -> [String; 2] {
        let count = weights.exponents.len();
        let numbers: Vec<i32> =
            (0..count).map(|_| self.below(1 << 17) as i32 - (1 << 16)).collect();
        let name = self.constant(Tensor::from_vec(&[count], numbers));
        let exponents: Vec<i32> = weights.exponents.iter().map(|own| exponent + own).collect();
        let scale = match weights.has_one_scale() {
            true => self.scale(exponents[0]),
            false => self.scales(&exponents),
        };
        [name, scale]
    }

    /// How far sums of so many products reach.
    fn reach_of_sums(&self, at: usize, weights: &Weights, terms: usize) -> i32 {
        let own = weights.exponents.iter().copied().max().unwrap_or(0);
        self.reach(at) + own + 6 + (terms.ilog2() as i32) / 2
    }

    fn convolution(&mut self) -> Option<()> {
        let at = self.any_where(|value| value.shape.len() == 4)?;
        let [batch, channels, high, wide] = self.values[at].shape[..] else { return None };
        let groups = match self.below(4) {
            0 => channels,
            1 if channels % 2 == 0 => 2,
            _ => 1,
        };
        let window = [self.pick(&[1, 1, 2, 3, 3]), self.pick(&[1, 1, 2, 3, 3])];
        let [step, apart] = [1 + self.below(2), 1 + usize::from(self.below(4) == 0)];
        let frame: Vec<usize> = (0..4).map(|_| self.below(2)).collect();
        let results = groups * self.pick(&[1, 1, 2, 3, 5, 8, 16, 17, 32]);
        let terms = channels / groups * window[0] * window[1];
        let along = |extent: usize, side: usize| {
            let padded = extent + frame[side] + frame[side + 2];
            let span = apart * (window[side] - 1) + 1;
            (padded >= span).then(|| (padded - span) / step + 1)
        };
        let shape = [batch, results, along(high, 0)?, along(wide, 1)?];
        if terms > MOST_TERMS || results > 64 || shape.iter().product::<usize>() > MOST_ELEMENTS {
            return None;
        }
        let weights = self.weights(&[results, channels / groups, window[0], window[1]], 0);
        let attributes = format!(
            "strides = {}, dilations = {}, pads = {}, group = {groups}, kernel_shape = {}",
            list(&[step; 2]),
            list(&[apart; 2]),
            list(&frame),
            list(&window)
        );
        let reach = self.reach_of_sums(at, &weights, terms);
        self.multiplied(
            at,
            &weights,
            ["Conv", "ConvInteger", "QLinearConv"],
            &attributes,
            (&shape, reach),
        );
        Some(())
    }

    fn product(&mut self) -> Option<()> {
        let at = self.any_where(|value| value.shape.len() >= 2)?;
        let shape = self.values[at].shape.clone();
        let depth = shape[1..].iter().product::<usize>();
        if depth > MOST_TERMS {
            return None;
        }
        let at = self.as_matrix(at);
        let rows = shape[0];
        let columns = self.pick(&[1, 2, 3, 8, 10, 16, 17, 33, 48]);
        let weights = self.weights(&[depth, columns], 1);
        let reach = self.reach_of_sums(at, &weights, depth);
        let names = ["MatMul", "MatMulInteger", "QLinearMatMul"];
        self.multiplied(at, &weights, names, "", (&[rows, columns], reach));
        Some(())
    }

    /// A value as a matrix of its first axis by all others.
    fn as_matrix(&mut self, at: usize) -> usize {
        let Bytes { name, shape, dtype, exponent, zero, .. } = self.values[at].clone();
        if shape.len() == 2 {
            return at;
        }
        self.values[at].is_read = true;
        let flat = self.node("Flatten", &[&name], "axis = 1");
        let shape = [shape[0], shape[1..].iter().product()];
        self.know(flat, &shape, (exponent, dtype, zero));
        self.values.len() - 1
    }

    /// A sum of products of a value and weights in one of three forms: floats between nodes that
    /// dequantise and quantise, sums of integers, bytes to bytes.
    fn multiplied(
        &mut self,
        at: usize,
        weights: &Weights,
        names: [&str; 3],
        attributes: &str,
        (shape, reach): (&[usize], i32),
    ) {
        let [floats, integers, whole] = names;
        let (exponent, axis) = (self.values[at].exponent, usize::from(shape.len() == 2));
        match self.below(6) {
            0 if weights.has_one_scale() => {
                let [bytes, _, zero] = self.parts(at);
                let operands = [&bytes[..], &weights.name, &zero, &weights.zero];
                let sum = self.node(integers, &operands, attributes);
                self.sums.push((sum.clone(), shape.to_vec()));
                let sum = self.node("Cast", &[&sum], "to = 1");
                let scale = self.scale(exponent + weights.exponents[0]);
                let sum = self.node("Mul", &[&sum, &scale], "");
                self.quantised(&sum, shape, reach);
            }
            1 | 2 if whole == "QLinearConv" || weights.has_one_scale() => {
                let parts = self.parts(at);
                let range = self.range(reach);
                let result = self.result(range);
                let own = [&weights.name, &weights.scale, &weights.zero];
                let mut operands: Vec<String> =
                    parts.iter().chain(own).chain(&result).cloned().collect();
                if whole == "QLinearConv" && self.below(2) == 0 {
                    let [bias, _] = self.bias(exponent, weights);
                    operands.push(bias);
                }
                let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
                let name = self.node(whole, &operands, attributes);
                self.know(name, shape, range);
            }
            _ => {
                let data = self.floats(at);
                let along = format!("axis = {axis}");
                let own = [&weights.name[..], &weights.scale, &weights.zero];
                let made = self.node("DequantizeLinear", &own, &along);
                let bias = (self.below(3) > 0).then(|| {
                    let [bias, scale] = self.bias(exponent, weights);
                    self.node("DequantizeLinear", &[&bias, &scale], "axis = 0")
                });
                let sum = match &bias {
                    Some(bias) if floats == "Conv" => {
                        self.node(floats, &[&data, &made, bias], attributes)
                    }
                    Some(bias) => {
                        let sum = self.node(floats, &[&data, &made], attributes);
                        self.node("Add", &[&sum, bias], "")
                    }
                    None => self.node(floats, &[&data, &made], attributes),
                };
                let sum = self.function_of(&sum, reach, 3);
                self.quantised(&sum, shape, reach);
            }
        }
    }

    /// A function of floats that is exact, or in one of `others` cases besides nothing.
    fn function_of(&mut self, floats: &str, reach: i32, others: usize) -> String {
        match self.below(7 + others) {
            0 => self.node("Relu", &[floats], ""),
            1 => {
                let below = self.below(3) as i32;
                let high = self.scale(reach - below);
                let low = self.number(DType::F32, 0.0);
                self.node("Clip", &[floats, &low, &high], "")
            }
            2 => self.node("Abs", &[floats], ""),
            3 => self.node("Neg", &[floats], ""),
            4 => self.node("LeakyRelu", &[floats], "alpha = 0.25"),
            5 => self.node("HardSigmoid", &[floats], "alpha = 0.25, beta = 0.5"),
            6 => {
                let part = self.node("HardSigmoid", &[floats], "alpha = 0.125, beta = 0.5");
                self.node("Mul", &[floats, &part], "")
            }
            _ => floats.to_owned(),
        }
    }

    /// A matrix times its transpose.
    fn product_of_values(&mut self) -> Option<()> {
        let fits = |value: &Bytes| {
            value.shape.len() == 2 && value.shape[1] <= MOST_TERMS && value.is_tame()
        };
        let at = self.any_where(fits)?;
        let [rows, depth] = self.values[at].shape[..] else { return None };
        let turned = match self.below(2) {
            0 => {
                let floats = self.floats(at);
                self.node("Transpose", &[&floats], "perm = [1, 0]")
            }
            _ => {
                let [bytes, scale, zero] = self.parts(at);
                let turned = self.node("Transpose", &[&bytes], "perm = [1, 0]");
                self.node("DequantizeLinear", &[&turned, &scale, &zero], "")
            }
        };
        let floats = self.floats(at);
        let sum = self.node("MatMul", &[&floats, &turned], "");
        let reach = 2 * self.reach(at) + (depth.ilog2() as i32) / 2;
        self.quantised(&sum, &[rows, rows], reach);
        Some(())
    }

    /// Two values, element by element.
    fn join(&mut self) -> Option<()> {
        let at = self.any_where(|_| true)?;
        let (shape, exponent) = (self.values[at].shape.clone(), self.values[at].exponent);
        let near = |value: &Bytes| value.shape == shape && (value.exponent - exponent).abs() <= 6;
        let other = self.any_where(near).unwrap_or(at);
        let is_tame = self.values[at].is_tame() && self.values[other].is_tame();
        let operator = self.pick(if is_tame { &["Add", "Mul", "Sub"] } else { &["Add", "Sub"] });
        let reach = match operator {
            "Mul" => self.reach(at) + self.reach(other),
            _ => self.reach(at).max(self.reach(other)) + 1,
        };
        let dtype = self.values[at].dtype;
        let is_alike = self.values[other].dtype == dtype;
        if operator != "Sub" && is_alike && self.below(2) == 0 {
            let range = self.range_in(dtype, reach);
            let result = self.result(range);
            let parts = [self.parts(at), self.parts(other)].concat();
            let operands: Vec<&str> = parts.iter().chain(&result).map(String::as_str).collect();
            let name = self.node(&format!("\"com.microsoft\" QLinear{operator}"), &operands, "");
            self.know(name, &shape, range);
            return Some(());
        }
        let [one, two] = [self.floats(at), self.floats(other)];
        let value = self.node(operator, &[&one, &two], "");
        let value = if operator == "Mul" { value } else { self.function_of(&value, reach, 6) };
        self.quantised(&value, &shape, reach);
        Some(())
    }

    fn concatenation(&mut self) -> Option<()> {
        let at = self.any_where(|value| value.shape.len() >= 2)?;
        let mut shape = self.values[at].shape.clone();
        let fits = |value: &Bytes| {
            value.shape.len() == shape.len()
                && (0..shape.len()).all(|axis| axis == 1 || value.shape[axis] == shape[axis])
        };
        let other = self.any_where(fits).unwrap_or(at);
        let reach = self.reach(at).max(self.reach(other));
        shape[1] += self.values[other].shape[1];
        if shape.iter().product::<usize>() > MOST_ELEMENTS {
            return None;
        }
        let dtype = self.values[at].dtype;
        if self.values[other].dtype == dtype && self.below(2) == 0 {
            let range = self.range_in(dtype, reach);
            let result = self.result(range);
            let parts = [self.parts(at), self.parts(other)].concat();
            let operands: Vec<&str> = result.iter().chain(&parts).map(String::as_str).collect();
            let name = self.node("\"com.microsoft\" QLinearConcat", &operands, "axis = 1");
            self.know(name, &shape, range);
            return Some(());
        }
        let [one, two] = [self.floats(at), self.floats(other)];
        let value = self.node("Concat", &[&one, &two], "axis = 1");
        self.quantised(&value, &shape, reach);
        Some(())
    }

    fn pooled(&mut self) -> Option<()> {
        let at = self.any_where(|value| value.shape.len() == 4 && value.shape[2..] != [1, 1])?;
        let Bytes { shape, dtype, exponent, zero, .. } = self.values[at].clone();
        let [batch, channels, high, wide] = shape[..] else { return None };
        let window = [2.min(high), 2.min(wide)];
        let halves = [batch, channels, (high - window[0]) / 2 + 1, (wide - window[1]) / 2 + 1];
        let attributes = format!("kernel_shape = {}, strides = [2, 2]", list(&window));
        let reach = self.reach(at);
        match self.below(5) {
            0 => {
                let [bytes, ..] = self.parts(at);
                let name = self.node("MaxPool", &[&bytes], &attributes);
                self.know(name, &halves, (exponent, dtype, zero));
            }
            1 => {
                let floats = self.floats(at);
                let value = self.node("MaxPool", &[&floats], &attributes);
                self.quantised(&value, &halves, reach);
            }
            2 => {
                let floats = self.floats(at);
                let value = self.node("AveragePool", &[&floats], &attributes);
                self.quantised(&value, &halves, reach);
            }
            3 => {
                let range = self.range_in(dtype, reach);
                let result = self.result(range);
                let parts = self.parts(at);
                let operands: Vec<&str> = parts.iter().chain(&result).map(String::as_str).collect();
                let name =
                    self.node("\"com.microsoft\" QLinearAveragePool", &operands, &attributes);
                self.know(name, &halves, range);
            }
            // Quotients by a power of two are exact.
            _ if (high * wide).is_power_of_two() => {
                let floats = self.floats(at);
                let value = self.node("GlobalAveragePool", &[&floats], "");
                self.quantised(&value, &[batch, channels, 1, 1], reach);
            }
            _ => return None,
        }
        Some(())
    }

    fn mapped(&mut self) -> Option<()> {
        let at = self.any_where(|_| true)?;
        let (shape, reach) = (self.values[at].shape.clone(), self.reach(at));
        let floats = self.floats(at);
        let value = self.function_of(&floats, reach, 1);
        self.quantised(&value, &shape, reach);
        Some(())
    }

    /// Bytes in another order or number, as they are or as floats.
    fn moved(&mut self) -> Option<()> {
        let at = self.any_where(|value| value.shape.len() == 4)?;
        let Bytes { shape, dtype, exponent, zero, .. } = self.values[at].clone();
        let [batch, channels, high, wide] = shape[..] else { return None };
        let as_bytes = self.below(2) == 0;
        let [bytes, ..] = self.parts(at);
        let value = if as_bytes { bytes } else { self.floats(at) };
        let (value, shape) = match self.below(4) {
            0 => {
                let turned = self.node("Transpose", &[&value], "perm = [0, 1, 3, 2]");
                (turned, [batch, channels, wide, high])
            }
            1 => {
                let sizes = [0, 0, 1, 0, 0, 0, 0, 1];
                let sizes = self.constant(Tensor::from_vec(&[8], sizes.to_vec()));
                let fill = match as_bytes {
                    true => self.number(dtype, zero as f64),
                    false => self.number(DType::F32, 0.0),
                };
                let padded = self.node("Pad", &[&value, &sizes, &fill], "");
                (padded, [batch, channels, high + 1, wide + 1])
            }
            2 => {
                let times = self.constant(Tensor::from_vec(&[4], vec![1.0_f32, 1.0, 2.0, 2.0]));
                let attributes = "mode = \"nearest\", nearest_mode = \"floor\", \
                                  coordinate_transformation_mode = \"asymmetric\"";
                let larger = self.node("Resize", &[&value, "_", &times], attributes);
                (larger, [batch, channels, 2 * high, 2 * wide])
            }
            _ if channels % 2 == 0 => {
                let halves = self.constant(Tensor::from_vec(&[1], vec![channels as i64 / 2]));
                let rest = self.constant(Tensor::from_vec(&[1], vec![channels as i64]));
                let axes = self.constant(Tensor::from_vec(&[1], vec![1_i64]));
                let part = self.node("Slice", &[&value, &halves, &rest, &axes], "");
                (part, [batch, channels / 2, high, wide])
            }
            _ => return None,
        };
        if shape.iter().product::<usize>() > MOST_ELEMENTS {
            return None;
        }
        match as_bytes {
            true => self.know(value, &shape, (exponent, dtype, zero)),
            false => self.quantised(&value, &shape, exponent + 6),
        }
        Some(())
    }

    /// Floats of any scale as bytes at a scale that is found of them, times weights.
    fn dynamic(&mut self) -> Option<()> {
        let at = self.any_where(|value| value.shape.len() == 2 && value.shape[1] <= MOST_TERMS)?;
        let [rows, depth] = self.values[at].shape[..] else { return None };
        let floats = self.floats(at);
        let factor = self.number(DType::F32, 0.3);
        let floats = self.node("Mul", &[&floats, &factor], "");
        let [bytes, scale, zero] = [self.fresh(), self.fresh(), self.fresh()];
        let _ = writeln!(self.text, "{bytes}, {scale}, {zero} = DynamicQuantizeLinear({floats})");
        let columns = self.pick(&[1, 8, 17, 32]);
        let weights = self.weights(&[depth, columns], 1);
        let mut operands = vec![&bytes[..], &weights.name, &zero];
        if weights.dtype == DType::U8 || weights.has_one_scale() {
            operands.push(&weights.zero);
        }
        let sum = self.node("MatMulInteger", &operands, "");
        self.sums.push((sum, vec![rows, columns]));
        Some(())
    }

    // --- the sample ---

    fn finish(mut self) -> GraphSample {
        // At least one value is read by nothing: the last one.
        for value in self.values.iter().filter(|value| !value.is_read) {
            let _ =
                writeln!(self.text, "output {}: {}{}", value.name, value.dtype, list(&value.shape));
        }
        for (name, shape) in &self.sums {
            let _ = writeln!(self.text, "output {name}: i32{}", list(shape));
        }
        sample_of_text(&self.text, &self.constants, self.inputs)
    }
}

/// The sample of a model as text, with its constants and inputs.
///
/// # Panics
/// If it is no such text, or the importer refuses the model.
pub(crate) fn sample_of_text(
    text: &str,
    constants: &[(String, Tensor)],
    inputs: Vec<Tensor>,
) -> GraphSample {
    let mut model = match onnx_text::parse_model(&mut Parser::new(text)) {
        Ok(model) => model,
        Err(error) => panic!("{error}\n{text}"),
    };
    if let Some(graph) = &mut model.graph {
        let constants = constants.iter();
        graph.initializer =
            constants.map(|(name, it)| import_onnx::tensor_proto(name, it)).collect();
    }
    let module = import_bytes(model.encode_to_vec().into(), &ImportOptions::default());
    let module = match module {
        Ok(module) => module,
        Err(found) => panic!("{found}\n{text}"),
    };
    let function = module.functions.values().next().map(|it| it.as_ref().clone());
    let constants = module.constants.values().map(|constant| constant.tensor.clone()).collect();
    let function = function.unwrap_or_else(|| graph::Function::new("nothing"));
    GraphSample { function, constants, inputs }
}
