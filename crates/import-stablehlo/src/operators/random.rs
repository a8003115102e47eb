//! Random bits of a generator whose state the program keeps.

use front::{Accepted, Graph, Operand, shape_error, type_error, unsupported};
use sym::Expr;
use tensor::{DType, Scalar, ScalarFunction as F};

use super::elementwise::same_width;
use crate::importer::{Frame, Importer};
use crate::node::{Lowered, Node, part_type};

/// Rotations of Threefry-2x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];

/// What the third word of the key is made of.
const PARITY: i64 = 0x1BD1_1BDA;

pub(crate) fn rng_bit_generator<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let graph = &mut importer.graph;
    match node.word("rng_algorithm")? {
        "THREE_FRY" => {}
        other => return Err(unsupported(format!("the algorithm {other} of random numbers"))),
    }
    let state = node.real(0)?;
    if state.dtype() != DType::U64 || state.shape() != [Expr::from(2)] {
        return Err(type_error("the state of the generator is two integers of type u64"));
    }
    let part = |graph: &mut Graph, number: i64| -> Accepted<Operand> {
        let part = graph.slice_axis(state, 0, Expr::from(number), 1, Expr::ONE)?;
        graph.reshape(&part, &[])
    };
    let (key, counter) = (part(graph, 0)?, part(graph, 1)?);
    let shape = node.fixed_shape(1)?;
    let dtype = part_type(&node.result_type(1)?.element)?;
    let count: Expr = shape.iter().product();
    let Some(count) = count.as_constant() else {
        return Err(shape_error("a shape of free extents"));
    };
    let (bits, used) = if dtype.bits() == 64 {
        let [low, high] = blocks(graph, &key, &counter, count)?;
        let low = graph.cast(&low, DType::U64)?;
        let high = graph.cast(&high, DType::U64)?;
        let by = graph.number(DType::U64, 32.0);
        let high = graph.map(F::Shl, &[&high, &by])?;
        let bits = graph.map(F::Or, &[&low, &high])?;
        (graph.reshape(&bits, &shape)?, count)
    } else {
        halves(graph, &key, &counter, &shape)?
    };
    let bits = match dtype.bits() {
        64 | 32 => same_width(graph, &bits, dtype)?,
        _ => graph.cast(&bits, dtype)?,
    };
    let used = Operand::of_scalar(Scalar::from_i64(DType::U64, used));
    let next = graph.add(&counter, &used)?;
    let key = graph.reshape(&key, &[Expr::ONE])?;
    let next = graph.reshape(&next, &[Expr::ONE])?;
    Ok(vec![graph.concat(0, &[key, next])?.into(), bits.into()])
}

/// Words of 32 bits: the first words of all blocks fill one half of an axis, the second words the
/// other. The axis is the first of an even extent, else the longest.
fn halves(
    graph: &mut Graph,
    key: &Operand,
    counter: &Operand,
    shape: &[Expr],
) -> Accepted<(Operand, i64)> {
    let extents = shape.iter().map(Expr::as_constant).collect::<Option<Vec<i64>>>();
    let mut extents = extents.ok_or_else(|| shape_error("a shape of free extents"))?;
    if extents.is_empty() {
        let [first, _] = blocks(graph, key, counter, 1)?;
        return Ok((graph.reshape(&first, &[])?, 1));
    }
    let even = extents.iter().position(|extent| extent % 2 == 0);
    let longest = (1..extents.len())
        .fold(0, |best, axis| if extents[axis] > extents[best] { axis } else { best });
    let axis = even.unwrap_or(longest);
    let whole = extents[axis];
    extents[axis] = (whole + 1) / 2;
    let count = extents.iter().product();
    let half: Vec<Expr> = extents.into_iter().map(Expr::from).collect();
    let [first, second] = blocks(graph, key, counter, count)?;
    let (first, second) = (graph.reshape(&first, &half)?, graph.reshape(&second, &half)?);
    let bits = graph.concat(axis, &[first, second])?;
    Ok((graph.slice_axis(&bits, axis, Expr::ZERO, 1, Expr::from(whole))?, count))
}

/// Threefry-2x32 in 20 rounds of the numbers from the counter on: the two words of each block.
fn blocks(
    graph: &mut Graph,
    key: &Operand,
    counter: &Operand,
    count: i64,
) -> Accepted<[Operand; 2]> {
    let words = |graph: &mut Graph, value: &Operand| -> Accepted<[Operand; 2]> {
        let by = graph.number(DType::U64, 32.0);
        let high = graph.map(F::Shr, &[value, &by])?;
        Ok([graph.cast(value, DType::U32)?, graph.cast(&high, DType::U32)?])
    };
    let numbers = graph.iota(DType::U64, &[Expr::from(count)], 0)?;
    let numbers = graph.add(&numbers, counter)?;
    let [mut x, mut y] = words(graph, &numbers)?;
    let [first, second] = words(graph, key)?;
    let parity = Operand::of_scalar(Scalar::from_i64(DType::U32, PARITY));
    let third = graph.map(F::Xor, &[&first, &second])?;
    let third = graph.map(F::Xor, &[&third, &parity])?;
    let keys = [first, second, third];
    x = graph.add(&x, &keys[0])?;
    y = graph.add(&y, &keys[1])?;
    for round in 0..5_usize {
        for rotation in ROTATIONS[round % 2] {
            x = graph.add(&x, &y)?;
            let left = graph.number(DType::U32, f64::from(rotation));
            let right = graph.number(DType::U32, f64::from(32 - rotation));
            let (high, low) = (graph.map(F::Shl, &[&y, &left])?, graph.map(F::Shr, &[&y, &right])?);
            y = graph.map(F::Or, &[&high, &low])?;
            y = graph.map(F::Xor, &[&x, &y])?;
        }
        x = graph.add(&x, &keys[(round + 1) % 3])?;
        y = graph.add(&y, &keys[(round + 2) % 3])?;
        let number = graph.number(DType::U32, (round + 1) as f64);
        y = graph.add(&y, &number)?;
    }
    Ok([x, y])
}
