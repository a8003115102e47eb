//! The table of parts: how each is drawn for a value, and how it is written.

mod arithmetic;
mod layers;
mod movements;
mod products;
mod windows;

use tensor::DType;

use crate::draw::Draw;
use crate::model::{ModelBuilder, Written};
use crate::outline::Part;

/// A row of the table.
pub(crate) struct Row {
    /// Its name in outlines.
    pub(crate) name: &'static str,
    /// How often models are drawn around it, beside the other rows, of inputs with one of these
    /// numbers of axes.
    pub(crate) as_core: u64,
    pub(crate) ranks: &'static [usize],
    /// How often it comes before and behind others.
    pub(crate) around: u64,
    /// Draws its settings for a value; none where the value is not of its kind.
    pub(crate) draw: fn(&mut Draw, &ModelBuilder) -> Option<Part>,
    /// Writes its nodes.
    pub(crate) write: fn(&mut ModelBuilder, &Part) -> Written,
}

type DrawPart = fn(&mut Draw, &ModelBuilder) -> Option<Part>;
type WritePart = fn(&mut ModelBuilder, &Part) -> Written;

/// A row: its name, how often it is a core, of which numbers of axes, how often it is around one.
const fn row_of(
    name: &'static str,
    as_core: u64,
    ranks: &'static [usize],
    around: u64,
    draw: DrawPart,
    write: WritePart,
) -> Row {
    Row { name, as_core, ranks, around, draw, write }
}

/// All parts.
#[rustfmt::skip]
pub(crate) static TABLE: [Row; 40] = [
    row_of("matmul", 8, &[2, 2, 3, 4], 0, products::draw_matmul, products::matmul),
    row_of("square", 4, &[2, 3, 4], 0, products::draw_square, products::square),
    row_of("integer_matmul", 6, &[2, 3], 0, products::draw_integer, products::integer),
    row_of("conv", 12, &[3, 4, 4, 4, 5], 0, windows::draw_conv, windows::conv),
    row_of("depthwise", 6, &[3, 4, 4, 5], 0, windows::draw_depthwise, windows::conv),
    row_of("grouped", 6, &[3, 4, 5], 0, windows::draw_grouped, windows::conv),
    row_of("transposed", 6, &[3, 4, 4, 5], 0, windows::draw_transposed, windows::transposed),
    row_of("recurrent", 6, &[3], 0, layers::draw_recurrent, layers::recurrent),
    row_of("attention", 6, &[3], 0, layers::draw_attention, layers::attention),
    row_of("squeeze", 4, &[4], 0, layers::draw_squeeze, layers::squeeze),
    row_of("logmel", 3, &[2], 0, layers::draw_logmel, layers::logmel),
    row_of("quantised_conv", 3, &[3, 4, 4], 0, layers::draw_8_bit_conv, layers::quantised_conv),
    row_of("quantised_matmul", 3, &[2, 3], 0, layers::draw_8_bit_matmul, layers::quantised_matmul),
    row_of("pool", 1, &[4, 3, 5], 1, windows::draw_pool, windows::pool),
    row_of("softmax", 1, &[1, 2, 3, 4], 4, arithmetic::draw_softmax, arithmetic::softmax),
    row_of("layernorm", 1, &[2, 3, 4], 3, arithmetic::draw_layernorm, arithmetic::layernorm),
    row_of("rmsnorm", 1, &[2, 3, 4], 1, arithmetic::draw_rmsnorm, arithmetic::rmsnorm),
    row_of("instancenorm", 1, &[3, 4, 5], 2, arithmetic::draw_instance, arithmetic::instancenorm),
    row_of("batchnorm", 0, &[], 2, arithmetic::draw_batch, arithmetic::batchnorm),
    row_of("reduce", 1, &[1, 2, 3, 4, 5], 5, arithmetic::draw_reduce, arithmetic::reduce),
    row_of("argmax", 1, &[1, 2, 3, 4], 1, arithmetic::draw_argmax, arithmetic::argmax),
    row_of("cumsum", 1, &[1, 2, 3], 1, arithmetic::draw_cumsum, arithmetic::cumsum),
    row_of("topk", 1, &[1, 2, 3], 1, arithmetic::draw_topk, arithmetic::topk),
    row_of("map", 1, &[1, 2, 3, 4], 6, arithmetic::draw_map, arithmetic::map),
    row_of("binary", 1, &[2, 3, 4], 5, arithmetic::draw_binary, arithmetic::binary),
    row_of("where", 0, &[], 1, arithmetic::draw_where, arithmetic::choose),
    row_of("cast", 0, &[], 1, arithmetic::draw_cast, arithmetic::cast),
    row_of("transpose", 1, &[2, 3, 4, 5], 5, movements::draw_transpose, movements::transpose),
    row_of("merge", 0, &[], 3, movements::draw_merge, movements::merge),
    row_of("split", 0, &[], 3, movements::draw_split, movements::split),
    row_of("slice", 0, &[], 4, movements::draw_slice, movements::slice),
    row_of("pad", 0, &[], 4, movements::draw_pad, movements::pad),
    row_of("concat", 1, &[2, 3, 4], 4, movements::draw_concat, movements::concat),
    row_of("gather", 1, &[2, 3], 4, movements::draw_gather, movements::gather),
    row_of("tile", 0, &[], 1, movements::draw_tile, movements::tile),
    row_of("resize", 1, &[4, 3], 4, movements::draw_resize, movements::resize),
    row_of("shuffle", 0, &[], 1, movements::draw_shuffle, movements::shuffle),
    row_of("depth_to_space", 0, &[], 1, movements::draw_depth_to_space, movements::depth_to_space),
    row_of("halves", 0, &[], 1, movements::draw_halves, movements::halves),
    row_of("expand", 0, &[], 1, movements::draw_expand, movements::expand),
];

/// The row of a name.
pub(crate) fn row(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}

/// Whether elements are floats.
fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::BF16)
}

/// Whether elements are numbers.
fn is_number(dtype: DType) -> bool {
    dtype != DType::Bool
}

/// An axis of a value that has one.
fn some_axis(draw: &mut Draw, model: &ModelBuilder) -> Option<usize> {
    let rank = model.shape.len() as u64;
    (rank > 0).then(|| draw.below(rank) as usize)
}
