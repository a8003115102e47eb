//! The block formats of tensors as rows of data: elements and bytes of a block, and the numbers
//! that its bytes stand for, as primitives over a weight of bytes.
//!
//! The graph is the definition: the evaluator computes it, passes choose how. Values are
//! `(integer - point) * scale` where the format has that form (`front::block_values`), the form in
//! which products read weights as they are stored.
//!
//! Source: `ggml-common.h` and `ggml-quants.c` of the ggml project. Shapes are written with `n` for
//! rows and `k` for the elements of a row; bytes of blocks are `[n, blocks, bytes]`.

use front::{Accepted, Graph, Operand, block_values, repeat_blocks, shape_error};
use graph::Op;
use sym::Expr;
use tensor::{DType, ScalarFunction as F, Tensor};

/// A format of blocks.
#[derive(Debug)]
pub(crate) struct BlockFormat {
    /// Its name in the ggml project.
    pub(crate) name: &'static str,
    /// Its number in files.
    pub(crate) code: u32,
    /// The elements of a block, which lie in a row.
    pub(crate) elements: usize,
    /// The bytes of a block.
    pub(crate) bytes: usize,
    value: Value,
}

/// How bytes become numbers.
#[derive(Debug)]
enum Value {
    /// They are numbers of an element type.
    Plain(DType),
    /// What blocks `[n, blocks, bytes]` stand for, `[n, blocks * elements]`.
    Blocks(fn(&mut Graph, &Blocks) -> Accepted<Operand>),
}

/// The formats that are read.
pub(crate) const FORMATS: &[BlockFormat] = &[
    plain("F32", 0, DType::F32, 4),
    plain("F16", 1, DType::F16, 2),
    blocks("Q4_0", 2, (32, 18), q4_0),
    blocks("Q4_1", 3, (32, 20), q4_1),
    blocks("Q5_0", 6, (32, 22), q5_0),
    blocks("Q5_1", 7, (32, 24), q5_1),
    blocks("Q8_0", 8, (32, 34), q8_0),
    blocks("Q4_K", 12, (256, 144), q4_k),
    blocks("Q5_K", 13, (256, 176), q5_k),
    blocks("Q6_K", 14, (256, 210), q6_k),
    blocks("IQ4_NL", 20, (32, 18), iq4_nl),
    plain("BF16", 30, DType::BF16, 2),
    blocks("MXFP4", 39, (32, 17), mxfp4),
];

const fn plain(name: &'static str, code: u32, dtype: DType, bytes: usize) -> BlockFormat {
    BlockFormat { name, code, elements: 1, bytes, value: Value::Plain(dtype) }
}

const fn blocks(
    name: &'static str,
    code: u32,
    (elements, bytes): (usize, usize),
    value: fn(&mut Graph, &Blocks) -> Accepted<Operand>,
) -> BlockFormat {
    BlockFormat { name, code, elements, bytes, value: Value::Blocks(value) }
}

/// The format of plain elements by its name.
pub(crate) fn find_plain(name: &str) -> Option<&'static BlockFormat> {
    FORMATS.iter().find(|format| format.name == name && format.elements == 1)
}

/// The format of a number in files.
pub(crate) fn find(code: u32) -> Option<&'static BlockFormat> {
    FORMATS.iter().find(|format| format.code == code)
}

impl BlockFormat {
    /// The element type and the extents of a weight that holds rows `[.., k]` as they are stored.
    pub(crate) fn stored(&self, shape: &[usize]) -> (DType, Vec<usize>) {
        let mut stored = shape.to_vec();
        match self.value {
            Value::Plain(dtype) => (dtype, stored),
            Value::Blocks(_) => {
                if let Some(row) = stored.last_mut() {
                    *row = *row / self.elements * self.bytes;
                }
                (DType::U8, stored)
            }
        }
    }

    /// The numbers that stored rows `[n, bytes]`, or `[n, k]` of a plain type, stand for, in f32.
    pub(crate) fn numbers(&self, graph: &mut Graph, rows: &Operand) -> Accepted<Operand> {
        let Value::Blocks(value) = self.value else { return graph.cast(rows, DType::F32) };
        let [count, row] = rows.shape() else {
            return Err(shape_error(format!("blocks in a tensor of rank {}", rows.rank())));
        };
        let each = Expr::from(self.bytes);
        let shape = [count.clone(), row.floor_div(&each), each];
        let bytes = graph.reshape(rows, &shape)?;
        value(graph, &Blocks { bytes, elements: self.elements })
    }
}

/// Blocks of a weight as bytes.
struct Blocks {
    /// `[n, blocks, bytes]`
    bytes: Operand,
    /// The elements of a block.
    elements: usize,
}

impl Blocks {
    /// How many rows there are, and how many blocks in each.
    fn counts(&self) -> [Expr; 2] {
        [0, 1].map(|axis| self.bytes.shape()[axis].clone())
    }

    /// Some bytes of each block: `[n, blocks, count]`.
    fn part(&self, graph: &mut Graph, from: usize, count: usize) -> Accepted<Operand> {
        graph.slice_axis(&self.bytes, 2, Expr::from(from), 1, Expr::from(count))
    }

    /// The float of 16 bits at a byte of each block, in f32: `[n, blocks]`.
    fn half(&self, graph: &mut Graph, at: usize) -> Accepted<Operand> {
        let pair = self.part(graph, at, 2)?;
        let wide = graph.cast(&pair, DType::U16)?;
        let bits = |number: usize, graph: &mut Graph| {
            let one = graph.slice_axis(&wide, 2, Expr::from(number), 1, Expr::ONE)?;
            graph.reshape(&one, &self.counts())
        };
        let (low, high) = (bits(0, graph)?, bits(1, graph)?);
        let eight = graph.number(DType::U16, 8.0);
        let high = graph.map(F::Shl, &[&high, &eight])?;
        let bits = graph.or(&low, &high)?;
        let half = graph.primitive(Op::Bitcast { dtype: DType::F16 }, &[&bits])?;
        graph.cast(&half, DType::F32)
    }

    /// Fields of `width` bits in bytes of each block: of each group of `group` bytes the fields at
    /// the first place, then those at the next: `[n, blocks, fields]`.
    fn fields(
        &self,
        graph: &mut Graph,
        (from, count): (usize, usize),
        group: usize,
        width: u8,
    ) -> Accepted<Operand> {
        let places: Vec<u8> = (0..8 / width).map(|place| place * width).collect();
        let part = self.part(graph, from, count)?;
        let [n, blocks] = self.counts();
        let groups = [n.clone(), blocks.clone(), (count / group).into(), 1.into(), group.into()];
        let bytes = graph.reshape(&part, &groups)?;
        let fields = Expr::from(count * places.len());
        let places = Operand::of_tensor(&Tensor::from_slice(&[places.len(), 1], &places));
        let shifted = graph.map(F::Shr, &[&bytes, &places])?;
        let mask = graph.number(DType::U8, f64::from((1_u32 << width) - 1));
        let low = graph.and(&shifted, &mask)?;
        graph.reshape(&low, &[n, blocks, fields])
    }

    /// The two halves of bytes, those of 16 bytes in the low halves first.
    fn nibbles(&self, graph: &mut Graph, from: usize) -> Accepted<Operand> {
        self.fields(graph, (from, 16), 16, 4)
    }

    /// Numbers `[n, blocks, elements]` in rows: `[n, k]`.
    fn in_rows(&self, graph: &mut Graph, numbers: &Operand) -> Accepted<Operand> {
        let [n, blocks] = self.counts();
        graph.reshape(numbers, &[n, blocks * self.elements as i64])
    }

    /// `(numbers - point) * scales`, where the scales are one a block of so many elements.
    fn scaled(
        &self,
        graph: &mut Graph,
        numbers: &Operand,
        (scales, block): (&Operand, i64),
        point: f64,
    ) -> Accepted<Operand> {
        let rows = self.in_rows(graph, numbers)?;
        let point = graph.number(rows.dtype(), point);
        block_values(graph, &rows, scales, &point, block)
    }

    /// Numbers `[n, blocks, count]` side by side: `[n, blocks * count]`.
    fn side_by_side(&self, graph: &mut Graph, numbers: &Operand, count: i64) -> Accepted<Operand> {
        let [n, blocks] = self.counts();
        graph.reshape(numbers, &[n, blocks * count])
    }
}

/// `low | high << places`
fn joined(graph: &mut Graph, low: &Operand, high: &Operand, places: f64) -> Accepted<Operand> {
    let places = graph.number(DType::U8, places);
    let high = graph.map(F::Shl, &[high, &places])?;
    graph.or(low, &high)
}

/// A row's numbers times scales plus shifts, which are one a block each.
fn shifted(
    graph: &mut Graph,
    blocks: &Blocks,
    numbers: &Operand,
    (scales, shifts): (&Operand, &Operand),
    block: i64,
) -> Accepted<Operand> {
    let product = blocks.scaled(graph, numbers, (scales, block), 0.0)?;
    let shifts = repeat_blocks(graph, shifts, 1, block, product.shape())?;
    graph.add(&product, &shifts)
}

fn q4_0(graph: &mut Graph, blocks: &Blocks) -> Accepted<Operand> {
    let scale = blocks.half(graph, 0)?;
    let numbers = blocks.nibbles(graph, 2)?;
    blocks.scaled(graph, &numbers, (&scale, 32), 8.0)
}

fn q4_1(graph: &mut Graph, blocks: &Blocks) -> Accepted<Operand> {
    let (scale, shift) = (blocks.half(graph, 0)?, blocks.half(graph, 2)?);
    let numbers = blocks.nibbles(graph, 4)?;
    shifted(graph, blocks, &numbers, (&scale, &shift), 32)
}

/// Integers of five bits: halves of bytes, and their fifth bits in four bytes.
fn five_bits(graph: &mut Graph, blocks: &Blocks, bits: usize) -> Accepted<Operand> {
    let low = blocks.nibbles(graph, bits + 4)?;
    let high = blocks.fields(graph, (bits, 4), 1, 1)?;
    joined(graph, &low, &high, 4.0)
}

fn q5_0(graph: &mut Graph, blocks: &Blocks) -> Accepted<Operand> {
    let scale = blocks.half(graph, 0)?;
    let numbers = five_bits(graph, blocks, 2)?;
    blocks.scaled(graph, &numbers, (&scale, 32), 16.0)
}

fn q5_1(graph: &mut Graph, blocks: &Blocks) -> Accepted<Operand> {
    let (scale, shift) = (blocks.half(graph, 0)?, blocks.half(graph, 2)?);
    let numbers = five_bits(graph, blocks, 4)?;
    shifted(graph, blocks, &numbers, (&scale, &shift), 32)
}

/// Bytes of blocks as integers with a sign.
fn signed(graph: &mut Graph, bytes: &Operand) -> Accepted<Operand> {
    graph.primitive(Op::Bitcast { dtype: DType::I8 }, &[bytes])
}

fn q8_0(graph: &mut Graph, blocks: &Blocks) -> Accepted<Operand> {
    let scale = blocks.half(graph, 0)?;
    let bytes = blocks.part(graph, 2, 32)?;
    let numbers = signed(graph, &bytes)?;
    blocks.scaled(graph, &numbers, (&scale, 32), 0.0)
}

/// Scales and shifts of the eight parts of a block, 6 bits each in 12 bytes: of the first four the
/// low bits of a byte, of the others half a byte and the two high bits that those leave.
fn six_bit_scales(graph: &mut Graph, blocks: &Blocks) -> Accepted<[Operand; 2]> {
    let mask = graph.number(DType::U8, 63.0);
    let (four, six) = (graph.number(DType::U8, 4.0), graph.number(DType::U8, 6.0));
    let low_half = graph.number(DType::U8, 15.0);
    let last = blocks.part(graph, 12, 4)?;
    let mut parts = Vec::new();
    for number in 0..2 {
        let bytes = blocks.part(graph, 4 + 4 * number, 4)?;
        let first = graph.and(&bytes, &mask)?;
        let high = graph.map(F::Shr, &[&bytes, &six])?;
        let half = match number {
            0 => graph.and(&last, &low_half)?,
            _ => graph.map(F::Shr, &[&last, &four])?,
        };
        let second = joined(graph, &half, &high, 4.0)?;
        let all = graph.concat(2, &[first, second])?;
        parts.push(graph.cast(&all, DType::F32)?);
    }
    let factor = |part: Operand, at: usize, graph: &mut Graph| {
        let whole = blocks.half(graph, at)?;
        let [n, count] = blocks.counts();
        let whole = graph.reshape(&whole, &[n, count, Expr::ONE])?;
        let product = graph.mul(&whole, &part)?;
        blocks.side_by_side(graph, &product, 8)
    };
    let (shifts, scales) = (parts.pop(), parts.pop());
    let (Some(scales), Some(shifts)) = (scales, shifts) else {
        return Err(shape_error("blocks without scales"));
    };
    let (scales, shifts) = (factor(scales, 0, graph)?, factor(shifts, 2, graph)?);
    Ok([scales, graph.neg(&shifts)?])
}

fn q4_k(graph: &mut Graph, blocks: &Blocks) -> Accepted<Operand> {
    let [scales, shifts] = six_bit_scales(graph, blocks)?;
    let numbers = blocks.fields(graph, (16, 128), 32, 4)?;
    shifted(graph, blocks, &numbers, (&scales, &shifts), 32)
}

fn q5_k(graph: &mut Graph, blocks: &Blocks) -> Accepted<Operand> {
    let [scales, shifts] = six_bit_scales(graph, blocks)?;
    let low = blocks.fields(graph, (48, 128), 32, 4)?;
    let high = blocks.fields(graph, (16, 32), 32, 1)?;
    let numbers = joined(graph, &low, &high, 4.0)?;
    shifted(graph, blocks, &numbers, (&scales, &shifts), 32)
}

fn q6_k(graph: &mut Graph, blocks: &Blocks) -> Accepted<Operand> {
    let low = blocks.fields(graph, (0, 128), 64, 4)?;
    let high = blocks.fields(graph, (128, 64), 32, 2)?;
    let numbers = joined(graph, &low, &high, 4.0)?;
    let bytes = blocks.part(graph, 192, 16)?;
    let parts = signed(graph, &bytes)?;
    let parts = graph.cast(&parts, DType::F32)?;
    let whole = blocks.half(graph, 208)?;
    let [n, count] = blocks.counts();
    let whole = graph.reshape(&whole, &[n, count, Expr::ONE])?;
    let scales = graph.mul(&whole, &parts)?;
    let scales = blocks.side_by_side(graph, &scales, 16)?;
    blocks.scaled(graph, &numbers, (&scales, 16), 32.0)
}

/// The numbers of IQ4_NL by their four bits.
const UNEVEN: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Twice the floats of two bits of exponent and one of fraction, by their four bits.
const DOUBLED_FLOATS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Numbers by their four bits out of a table, times scales, one a block of 32.
fn of_table(
    graph: &mut Graph,
    blocks: &Blocks,
    from: usize,
    table: &[i8; 16],
    scales: &Operand,
) -> Accepted<Operand> {
    let places = blocks.nibbles(graph, from)?;
    let places = blocks.in_rows(graph, &places)?;
    let word = |first: usize| {
        let word: [i8; 4] = std::array::from_fn(|at| table[first + at]);
        graph.number(DType::U32, u32::from_le_bytes(word.map(i8::cast_unsigned)).into())
    };
    let words = [0, 4, 8, 12].map(word);
    let bytes = graph.map(F::Lookup, &[&places, &words[0], &words[1], &words[2], &words[3]])?;
    let numbers = signed(graph, &bytes)?;
    blocks.scaled(graph, &numbers, (scales, 32), 0.0)
}

fn iq4_nl(graph: &mut Graph, blocks: &Blocks) -> Accepted<Operand> {
    let scales = blocks.half(graph, 0)?;
    of_table(graph, blocks, 2, &UNEVEN, &scales)
}

/// Half of two to the power of a byte less 127, as the bits of a float of 16 bits; the two least
/// are subnormal.
fn mxfp4(graph: &mut Graph, blocks: &Blocks) -> Accepted<Operand> {
    let byte = blocks.part(graph, 0, 1)?;
    let byte = graph.reshape(&byte, &blocks.counts())?;
    let exponent = graph.cast(&byte, DType::U16)?;
    let (one, two) = (graph.number(DType::U16, 1.0), graph.number(DType::U16, 2.0));
    let place = graph.number(DType::U16, 7.0);
    let least = graph.number(DType::U16, f64::from(1_u32 << 5));
    let small = graph.map(F::Shl, &[&least, &exponent])?;
    let lower = graph.sub(&exponent, &one)?;
    let normal = graph.map(F::Shl, &[&lower, &place])?;
    let is_small = graph.less(&exponent, &two)?;
    let bits = graph.select(&is_small, &small, &normal)?;
    let scales = graph.primitive(Op::Bitcast { dtype: DType::BF16 }, &[&bits])?;
    let scales = graph.cast(&scales, DType::F32)?;
    of_table(graph, blocks, 1, &DOUBLED_FLOATS, &scales)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base::Limits;
    use front::Graph;
    use front::Operand;
    use tensor::Tensor;

    use super::FORMATS;
    use crate::file::ModelFile;

    /// Random blocks and what they stand for; see `bench/gguf_formats.py`.
    const RECORDED: &[u8] = include_bytes!("../tests/formats.gguf");

    #[test]
    fn numbers_are_those_of_the_reference() {
        let file = ModelFile::read(RECORDED.into(), &Limits::default()).expect("a file");
        let mut compared = Vec::new();
        for format in FORMATS.iter().filter(|format| format.name != "F32") {
            let entry = &file.tensors[format.name];
            let recorded = &file.tensors[&format!("{}.values", format.name)];
            assert_eq!(entry.shape, recorded.shape);
            let mut graph = Graph::new("main", Limits::default());
            let (dtype, shape) = entry.format.stored(&entry.shape);
            let stored = Tensor::from_bytes(dtype, &shape, entry.bytes.clone()).expect("bytes");
            let stored = Operand::of_weight("weight".to_owned(), stored);
            let value = entry.format.numbers(&mut graph, &stored).expect(format.name);
            let value = graph.data(&value).expect("a node");
            let constants = graph.constants;
            let function = graph.builder.finish(vec![("value".to_owned(), value)]);
            let weight = |id| Tensor::clone(&constants[id].tensor);
            let precision = eval::EvaluationPrecision::Declared;
            let function = Arc::new(function);
            let found = eval::graph::evaluate(&function, &weight, &[], precision);
            let found = found.expect("numbers");
            assert_eq!(found[0].shape(), recorded.shape);
            for (at, bytes) in recorded.bytes.chunks_exact(4).enumerate() {
                let wanted = f64::from(f32::from_le_bytes(bytes.try_into().expect("4 bytes")));
                let found = found[0].get_f64(at);
                let near = (found - wanted).abs() <= 1e-6 * wanted.abs();
                let same = found == wanted || found.is_nan() && wanted.is_nan();
                assert!(near || same, "{} at {at}: {found}, not {wanted}", format.name);
            }
            compared.push(format.name);
        }
        assert_eq!(compared.len(), 12, "{compared:?}");
    }
}
