//! Packed panels: the operand that carries the vector axis is stored in panels of `P` elements of
//! that axis, so that a tile of the product walks one contiguous stream.
//!
//! before: `rhs[k, n]`
//! after:  `packed[n div P, k, n mod P]`, padded with zeros to a multiple of `P`
//!
//! The vector axis is the last of the result that is longer than 1. Where both operands read it (a
//! depthwise filter) it becomes the last axis of constant operands. Weights are packed, but for
//! large ones that a single row meets and that lie along the sum, behind a transpose or not. What
//! is computed at run time is packed where its vector axis is not contiguous, or where the product
//! reads it often enough to repay the copy, or where the copy puts short elements in tuples.

use backend::tile::{Area, best_tile, copies_panels};
use backend::{InstructionCost, Target};
use base::{Id, InOrder};
use graph::{Built, FunctionBuilder, IterationSpace, Node, Op};
use sym::{Expr, SymbolId};
use tensor::DType;

use crate::contraction::Contraction;
use crate::tuples;

/// A run-time operand that is contiguous already is packed if it is read at least so often.
const REPAYING_READS: i64 = 256;

/// The same where its rows fall on the same cache sets, so that no part of it stays in a cache.
const REPAYING_READS_OF_COLLIDING: i64 = 32;

/// Terms of a sum from which on vectors may run along it.
const LONG_SUM: i64 = 256;

/// The same where another order would take a copy of what is computed at run time, and terms for
/// each time that the copy would be read: to add up the lanes of so many sums then takes less.
const SUM_INSTEAD_OF_COPY: (i64, i64) = (64, 8);

/// Chooses the format of the operand that carries the vector axis.
pub(super) fn apply(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
    target: &Target,
    messages: &mut Vec<String>,
) -> Built<()> {
    let longer = |axis: &usize| !contraction.space.extents[*axis].is_one();
    let Some(vector) = contraction.parallel().rev().find(longer) else { return Ok(()) };
    match [0, 1].map(|operand| contraction.reads(operand, vector)) {
        [true, true] => {
            for operand in [0, 1] {
                if contraction.operands[operand].constant {
                    vector_last(contraction, builder, operand, vector, messages)?;
                }
            }
            Ok(())
        }
        [true, false] => carrier(contraction, builder, 0, vector, target, messages),
        [false, true] => carrier(contraction, builder, 1, vector, target, messages),
        [false, false] => Ok(()),
    }
}

/// Packs the operand that alone carries the vector axis, if it is to be packed.
fn carrier(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
    operand: usize,
    vector: usize,
    target: &Target,
    messages: &mut Vec<String>,
) -> Built<()> {
    if !is_plain(contraction, operand) {
        messages.push(format!("operand {operand} is not packed: its axes move together"));
        return Ok(());
    }
    let extents = &contraction.space.extents;
    let reads = reads(contraction, operand).as_constant();
    let extent = extents[vector].as_constant();
    let tuple = tuples::wanted(contraction, builder, target)?;
    let tuple_bytes = match tuple {
        Some(count) => {
            let bits = builder.dtype(contraction.operands[operand].value)?.bits();
            bits / 8 * u32::try_from(count).unwrap_or(1)
        }
        None => 0,
    };
    let lane_bytes = contraction.accumulator_bytes().max(tuple_bytes);
    // Beside whole numbers of blocks there are the floats that they are added to.
    let rows =
        reads.map(|reads| if contraction.accumulator.is_integer() { reads + 1 } else { reads });
    let panel = panel_width(target, lane_bytes, extent, rows);
    let runtime = !contraction.operands[operand].constant;
    // What is computed at run time may be read as it lies behind a transpose, not behind panels,
    // and is then summed in another order: all targets pack the same.
    let deciding = match runtime {
        true => panel_width(&target.deciding(), lane_bytes, extent, rows),
        false => panel,
    };
    let one_panel = extent.is_some_and(|extent| extent <= deciding);
    let contiguous = contraction.is_contiguous(builder, operand, vector)?;
    // A constant whose transpose is multiplied by is stored in another order anyway, where that is
    // faster; what is computed at run time has been stored as it is wanted.
    let turned = if runtime { None } else { as_it_lies(contraction, builder, operand) };
    let lying = turned.as_ref().unwrap_or(contraction);
    let met_once =
        reads == Some(1) && !lying.repeats && contiguous_terms(lying, builder)? >= LONG_SUM;
    let stays = |bytes: f64| match &turned {
        Some(_) => target.machine.l3.keeps(bytes),
        None => bytes <= target.machine.l2.bytes as f64,
    };
    if met_once && (runtime || bytes_of(lying, builder, operand)?.is_some_and(|it| !stays(it))) {
        messages.push(format!("operand {operand} stays as it lies: it is read once, sum by sum"));
        *contraction = lying.clone();
        return Ok(());
    }
    let terms = contiguous_terms(contraction, builder)?;
    let (least, each) = SUM_INSTEAD_OF_COPY;
    let met_seldom = reads.is_some_and(|reads| terms >= least.max(each * reads));
    if runtime && !contiguous && met_seldom && !contraction.repeats {
        messages.push(format!("operand {operand} stays as it lies: it is read seldom, sum by sum"));
        return Ok(());
    }
    let tuples = tuple.is_some();
    let colliding = target.machine.l1.collide(terms_apart(contraction, builder, operand)?);
    if let Some(given) = as_given(contraction, builder, operand)
        && !tuples
        && runtime
        && is_copied_in_panels(&given, builder, operand, vector, target)?
    {
        *contraction = given;
        messages
            .push(format!("operand {operand} stays as it lies: its panels are copied in tiles"));
        return Ok(());
    }
    if runtime && !tuples && contiguous && !repays(reads, one_panel, colliding) {
        messages.push(format!("operand {operand} is not packed: it would not repay the copy"));
        return Ok(());
    }
    if one_panel && !(runtime && tuples) {
        return vector_last(contraction, builder, operand, vector, messages);
    }
    messages.push(format!("operand {operand} packed in panels of {panel}"));
    pack(contraction, builder, operand, vector, panel)
}

/// How often each element of an operand is read.
fn reads(contraction: &Contraction, operand: usize) -> Expr {
    let extents = &contraction.space.extents;
    let still = contraction.parallel().filter(|&axis| !contraction.reads(operand, axis));
    still.map(|axis| &extents[axis]).product()
}

/// A contraction that reads an operand of the caller's, which no kernel can store in another order,
/// as it lies: without a transpose in front.
fn as_given(
    contraction: &Contraction,
    builder: &FunctionBuilder,
    operand: usize,
) -> Option<Contraction> {
    let value = contraction.operands[operand].value;
    let read = match builder.function().producer(value) {
        Some(_) => as_it_lies(contraction, builder, operand)?,
        None => contraction.clone(),
    };
    builder.function().producer(read.operands[operand].value).is_none().then_some(read)
}

/// A contraction without the transpose in front of an operand, if there is one.
fn as_it_lies(
    contraction: &Contraction,
    builder: &FunctionBuilder,
    operand: usize,
) -> Option<Contraction> {
    let function = builder.function();
    let (node, _) = function.producer(contraction.operands[operand].value)?;
    let Node { op: Op::Transpose { permutation }, operands, .. } = &function.nodes[node] else {
        return None;
    };
    let mut read = contraction.clone();
    let before = contraction.space.operands[operand].as_slice();
    let index = &mut read.space.operands[operand];
    for (moved, axis) in before.iter().zip(permutation) {
        index[*axis] = moved.clone();
    }
    read.operands[operand].value = operands[0];
    Some(read)
}

/// Whether an operand as it is given lies along the innermost axis of the sum, or along the vector
/// axis with rows that lie far apart, and is so large and read so often that the product copies its
/// panels. Where the product copies rows of the other operand, too, since these collide, it would
/// do so for each panel.
fn is_copied_in_panels(
    contraction: &Contraction,
    builder: &FunctionBuilder,
    operand: usize,
    vector: usize,
    target: &Target,
) -> Built<bool> {
    let value = contraction.operands[operand].value;
    let dtype = builder.dtype(value)?;
    let elements = builder.shape(value)?.iter().product::<Expr>().as_constant();
    let reads = reads(contraction, operand).as_constant();
    let (Some(reads), Some(elements)) = (reads, elements) else { return Ok(false) };
    let reduced = contraction.space.extents[contraction.space.parallel..].iter();
    let lies = match contraction.space.innermost_reduced() {
        Some(axis) => {
            reads < REPAYING_READS
                && terms_apart(contraction, builder, operand)? >= target.machine.near_bytes
                && contraction.is_contiguous(builder, operand, vector)?
                || contraction.is_contiguous(builder, operand, axis)?
        }
        None => false,
    };
    let rows_apart = rows_apart(contraction, builder, 1 - operand)?;
    Ok(lies
        && !target.machine.l1.collide(rows_apart)
        && dtype == contraction.accumulator
        && !contraction.repeats
        && reduced.filter(|extent| !extent.is_one()).count() == 1
        && contraction.space.extents.iter().all(|extent| extent.as_constant().is_some())
        && copies_panels(reads, elements * i64::from(dtype.bits()) / 8))
}

/// The bytes of an operand, if they are known. What does not stay in a cache from run to run comes
/// as fast as memory gives it, however it lies; from the cache that cores share rows take a quarter
/// longer than panels do, which repays a transpose, but not a copy of what lies in rows.
fn bytes_of(
    contraction: &Contraction,
    builder: &FunctionBuilder,
    operand: usize,
) -> Built<Option<f64>> {
    let value = contraction.operands[operand].value;
    let elements = builder.shape(value)?.iter().product::<Expr>().as_constant();
    let bits = i64::from(builder.dtype(value)?.bits());
    Ok(elements.map(|elements| (elements * bits / 8) as f64))
}

/// How many terms of a sum both operands hold side by side, floats of one type, so that vectors may
/// run along the sum; 0 if they do not. Where these are many, to add up what the lanes of a vector
/// have summed costs little, and there is nothing to gain from another order.
fn contiguous_terms(contraction: &Contraction, builder: &FunctionBuilder) -> Built<i64> {
    let Some(axis) = contraction.space.innermost_reduced() else { return Ok(0) };
    let terms = contraction.space.extents[axis].as_constant();
    let [lhs, rhs] = contraction.operands.map(|operand| builder.dtype(operand.value));
    let (lhs, rhs) = (lhs?, rhs?);
    let contiguous = lhs == rhs
        && lhs == contraction.accumulator
        && contraction.is_contiguous(builder, 0, axis)?
        && contraction.is_contiguous(builder, 1, axis)?;
    Ok(terms.filter(|_| contiguous).unwrap_or(0))
}

/// The bytes between what an operand holds for neighbouring terms of the sum.
fn terms_apart(contraction: &Contraction, builder: &FunctionBuilder, operand: usize) -> Built<i64> {
    let summed =
        |index: &Expr| contraction.parallel().all(|axis| *index != IterationSpace::axis(axis));
    bytes_apart(contraction, builder, operand, summed)
}

/// The bytes between what an operand holds for neighbouring rows of the result.
fn rows_apart(contraction: &Contraction, builder: &FunctionBuilder, operand: usize) -> Built<i64> {
    let of_result =
        |index: &Expr| contraction.parallel().any(|axis| *index == IterationSpace::axis(axis));
    bytes_apart(contraction, builder, operand, of_result)
}

/// The bytes between neighbours along the last of an operand's axes whose index is wanted; 1 where
/// that is not known, 0 where there is none.
fn bytes_apart(
    contraction: &Contraction,
    builder: &FunctionBuilder,
    operand: usize,
    is_wanted: impl Fn(&Expr) -> bool,
) -> Built<i64> {
    let value = contraction.operands[operand].value;
    let (shape, bits) = (builder.shape(value)?, builder.dtype(value)?.bits());
    let index = &contraction.space.operands[operand];
    let varies = |at: &usize| index[*at].as_constant().is_none() && is_wanted(&index[*at]);
    let Some(last) = (0..index.len()).rev().find(varies) else { return Ok(0) };
    let elements: Expr = shape[last + 1..].iter().product();
    Ok(elements.as_constant().map_or(1, |elements| elements * i64::from(bits) / 8))
}

/// Whether each index of an operand is an axis of its own, or a constant; a reduced one may begin
/// further on.
fn is_plain(contraction: &Contraction, operand: usize) -> bool {
    let index = &contraction.space.operands[operand];
    let mut seen = Vec::new();
    index.iter().all(|index| match along(index) {
        Some(symbol) if seen.contains(&symbol) => false,
        Some(symbol) => {
            seen.push(symbol);
            index.constant_part() == 0 || symbol.index() >= contraction.space.parallel
        }
        None => index.as_constant().is_some(),
    })
}

/// The axis along which an index goes from some place on.
fn along(index: &Expr) -> Option<SymbolId> {
    (index - &Expr::constant(index.constant_part())).as_symbol()
}

/// The order of an operand's axes that suits a tile: constants and axes of the result first, then
/// the reduced axes in the order of the sum, the vector axis last.
fn suited_order(contraction: &Contraction, operand: usize, vector: usize) -> Vec<usize> {
    let space = &contraction.space;
    let index = &space.operands[operand];
    let class = |axis: usize| {
        let symbols = index[axis].symbols();
        let first = symbols.first().map_or(0, |symbol| symbol.index());
        match symbols.as_slice() {
            [] => (0, 0),
            symbols if symbols.contains(&SymbolId::new(vector)) => (3, 0),
            _ if first >= space.parallel => (2, first),
            _ => (1, first),
        }
    };
    let mut order: Vec<usize> = (0..index.len()).collect();
    order.put_in_order_by_key(|&axis| class(axis));
    order
}

/// Makes the vector axis the operand's last.
fn vector_last(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
    operand: usize,
    vector: usize,
    messages: &mut Vec<String>,
) -> Built<()> {
    let order = suited_order(contraction, operand, vector);
    if !order.is_sorted() {
        messages.push(format!("operand {operand} stored with the vector axis last"));
    }
    contraction.permute_operand(builder, operand, &order)
}

/// Stores an operand in panels along the vector axis.
fn pack(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
    operand: usize,
    vector: usize,
    panel: i64,
) -> Built<()> {
    let order = suited_order(contraction, operand, vector);
    contraction.permute_operand(builder, operand, &order)?;
    let axis_symbol = IterationSpace::axis(vector);
    let width = Expr::constant(panel);
    let value = contraction.operands[operand].value;
    let mut shape = builder.shape(value)?.to_vec();
    let last = shape.len() - 1;
    let panels = (&shape[last] + (panel - 1)).floor_div(&width);
    let mut high = vec![Expr::ZERO; shape.len()];
    high[last] = &panels * panel - &shape[last];
    let dtype: DType = builder.dtype(value)?;
    let zero = builder.scalar(dtype, 0.0);
    let padded =
        builder.pad(value, zero, &vec![Expr::ZERO; shape.len()], &high, &vec![0; last + 1])?;
    shape.splice(last.., [panels, width.clone()]);
    let split = builder.reshape(padded, &shape)?;
    // The axes of the result stay in front of the panels, the reduced ones go between panel and
    // lane.
    let index = &mut contraction.space.operands[operand];
    let parallel = contraction.space.parallel;
    let is_reduced = |index: &Expr| along(index).is_some_and(|s| s.index() >= parallel);
    let front = index[..last].iter().take_while(|index| !is_reduced(index)).count();
    let order: Vec<usize> = (0..front).chain([last]).chain(front..last).chain([last + 1]).collect();
    contraction.operands[operand].value = builder.transpose(split, &order)?;
    index.insert(front, axis_symbol.floor_div(&width));
    let is_wrong = base::fault::is_seeded("formats.panels");
    let lane = if is_wrong { (axis_symbol + 1).modulo(&width) } else { axis_symbol.modulo(&width) };
    index[last + 1] = lane;
    Ok(())
}

/// So many products `[rows, depth] x [depth, columns]`, of elements of so many bytes.
#[derive(Clone, Copy)]
pub(super) struct Products {
    pub(super) rows: i64,
    pub(super) columns: i64,
    pub(super) depth: i64,
    pub(super) count: i64,
    pub(super) bytes: u32,
    /// What takes a step of the sums, if it is not a multiply-add.
    pub(super) instruction: Option<InstructionCost>,
}

impl Products {
    fn lanes(&self, target: &Target) -> i64 {
        i64::from((target.vector_bytes / self.bytes).max(1))
    }

    fn panel(&self, target: &Target) -> i64 {
        panel_width(target, self.bytes, Some(self.columns), Some(self.rows))
    }

    /// Cycles with the columns in panels.
    pub(super) fn cycles(&self, target: &Target) -> f64 {
        let Products { rows, columns, depth, count: shared, instruction, .. } = *self;
        let lanes = self.lanes(target);
        let area = Area { rows, columns, lanes, depth, shared, instruction, ..Area::default() };
        let vectors = self.panel(target) / lanes;
        best_tile(target, &area, Some(vectors)).cycles(target, &area) * shared as f64
    }
}

/// Whether what is computed at run time and is contiguous along the vector axis is packed
/// nevertheless: it is read often enough, and takes more than a panel.
fn repays(reads: Option<i64>, one_panel: bool, colliding: bool) -> bool {
    let repaying = match colliding {
        true => REPAYING_READS_OF_COLLIDING,
        false => REPAYING_READS,
    };
    !one_panel && reads.is_none_or(|reads| reads >= repaying)
}

/// Elements of a panel: a number of vectors that a register tile covers, chosen so that the last
/// panel wastes little. `reads` is the number of rows that meet each panel.
pub(super) fn panel_width(
    target: &Target,
    bytes: u32,
    extent: Option<i64>,
    reads: Option<i64>,
) -> i64 {
    let lanes = i64::from((target.vector_bytes / bytes).max(1));
    // In order of preference: how well the widest tile of so many vectors hides loads and latency.
    let mut widths: Vec<i64> = match target.vector_registers {
        // Sums that follow each other fill a vector behind them.
        _ if target.is_microcontroller() && bytes == 16 => vec![4, 2, 1],
        32.. => vec![2, 3, 4, 5, 1],
        _ => vec![2, 1, 3],
    };
    if reads.is_some_and(|reads| reads <= 4) {
        // A single row needs several vectors at once to hide the latency of its sums.
        widths = vec![4, 2, 1];
    }
    let Some(extent) = extent else { return lanes * widths[0] };
    // In eighths of a vector; with a single vector a row's broadcast serves one multiply-add only,
    // which costs about a quarter more.
    let cost = |width: &i64| {
        let padded = (extent + width * lanes - 1) / (width * lanes) * width;
        padded * if *width == 1 { 10 } else { 8 }
    };
    let least = widths.iter().map(cost).min().unwrap_or(0);
    // A few percent of padding are cheaper than a narrower tile.
    let good = widths.iter().find(|width| cost(width) * 16 <= least * 17);
    lanes * good.copied().unwrap_or(widths[0])
}
