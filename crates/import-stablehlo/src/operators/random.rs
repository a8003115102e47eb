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
    let is_philox = match node.word("rng_algorithm")? {
        "THREE_FRY" => false,
        // What no algorithm is named for is left to who implements it.
        "PHILOX" | "DEFAULT" => true,
        other => return Err(unsupported(format!("the algorithm {other} of random numbers"))),
    };
    let state = node.real(0)?;
    let most = if is_philox { 3 } else { 2 };
    let parts = state.shape().first().and_then(Expr::as_constant);
    let parts = parts.filter(|parts| state.rank() == 1 && (2..=most).contains(parts));
    let (Some(parts), DType::U64) = (parts, state.dtype()) else {
        let reason = format!("the state of the generator is 2 to {most} integers of type u64");
        return Err(type_error(reason));
    };
    let mut split = Vec::new();
    for number in 0..parts {
        let part = graph.slice_axis(state, 0, Expr::from(number), 1, Expr::ONE)?;
        split.push(graph.reshape(&part, &[])?);
    }
    let shape = node.fixed_shape(1)?;
    let dtype = part_type(&node.result_type(1)?.element)?;
    let count: Expr = shape.iter().product();
    let Some(count) = count.as_constant() else {
        return Err(shape_error("a shape of free extents"));
    };
    let bits = if is_philox {
        philox_bits(graph, &mut split, &shape, count, dtype.bits() == 64)?
    } else {
        let (key, counter) = (split[0].clone(), split[1].clone());
        let (bits, used) = if dtype.bits() == 64 {
            let [low, high] = blocks(graph, &key, &counter, count)?;
            let bits = joined(graph, &low, &high)?;
            (graph.reshape(&bits, &shape)?, count)
        } else {
            halves(graph, &key, &counter, &shape)?
        };
        let used = Operand::of_scalar(Scalar::from_i64(DType::U64, used));
        split[1] = graph.add(&counter, &used)?;
        bits
    };
    let bits = match dtype.bits() {
        64 | 32 => same_width(graph, &bits, dtype)?,
        _ => graph.cast(&bits, dtype)?,
    };
    for part in &mut split {
        *part = graph.reshape(part, &[Expr::ONE])?;
    }
    Ok(vec![graph.concat(0, &split)?.into(), bits.into()])
}

/// Bits by Philox-4x32 of a key and a counter of 128 bits, whose high half is the key where the
/// state has no third part; the state moves on by the blocks that are used.
fn philox_bits(
    graph: &mut Graph,
    state: &mut [Operand],
    shape: &[Expr],
    count: i64,
    is_wide: bool,
) -> Accepted<Operand> {
    let needed = if is_wide { 2 * count } else { count };
    let used = needed.div_euclid(4) + i64::from(needed % 4 > 0);
    let (key, counter) = (state[0].clone(), state[1].clone());
    let high = state.get(2).unwrap_or(&key).clone();
    let numbers = graph.iota(DType::U64, &[Expr::from(used)], 0)?;
    let low = graph.add(&numbers, &counter)?;
    let sum = |graph: &mut Graph, low: &Operand| -> Accepted<Operand> {
        let carry = graph.less(low, &counter)?;
        let carry = graph.cast(&carry, DType::U64)?;
        graph.add(&high, &carry)
    };
    let carried = sum(graph, &low)?;
    let block = philox_blocks(graph, &key, (&low, &carried))?;
    let moved = Operand::of_scalar(Scalar::from_i64(DType::U64, used));
    let moved = graph.add(&counter, &moved)?;
    if let [_, _, last] = state {
        *last = sum(graph, &moved)?;
    }
    state[1] = moved;
    // Word by word, block by block.
    let column = [Expr::from(used), Expr::ONE];
    let mut columns = match is_wide {
        false => block.to_vec(),
        true => vec![joined(graph, &block[0], &block[1])?, joined(graph, &block[2], &block[3])?],
    };
    for part in &mut columns {
        *part = graph.reshape(part, &column)?;
    }
    let all = used * columns.len() as i64;
    let bits = graph.concat(1, &columns)?;
    let bits = graph.reshape(&bits, &[Expr::from(all)])?;
    let bits = graph.slice_axis(&bits, 0, Expr::ZERO, 1, Expr::from(count))?;
    graph.reshape(&bits, shape)
}

/// The four words of blocks of Philox-4x32 in 10 rounds (the paper of Threefry has it, too).
fn philox_blocks(
    graph: &mut Graph,
    key: &Operand,
    (low, high): (&Operand, &Operand),
) -> Accepted<[Operand; 4]> {
    const FACTORS: [i64; 2] = [0xD251_1F53, 0xCD9E_8D57];
    const STEPS: [i64; 2] = [0x9E37_79B9, 0xBB67_AE85];
    let [a, b] = words(graph, low)?;
    let [c, d] = words(graph, high)?;
    let mut block = [a, b, c, d];
    let mut keys = words(graph, key)?;
    for _ in 0..10 {
        let product = |graph: &mut Graph, side: usize| -> Accepted<[Operand; 2]> {
            let wide = graph.cast(&block[2 * side], DType::U64)?;
            let factor = Operand::of_scalar(Scalar::from_i64(DType::U64, FACTORS[side]));
            let product = graph.mul(&wide, &factor)?;
            words(graph, &product)
        };
        let ([first_low, first_high], [second_low, second_high]) =
            (product(graph, 0)?, product(graph, 1)?);
        let mixed = |graph: &mut Graph, high: &Operand, word: &Operand, key: &Operand| {
            let mixed = graph.map(F::Xor, &[high, word])?;
            graph.map(F::Xor, &[&mixed, key])
        };
        block = [
            mixed(graph, &second_high, &block[1], &keys[0])?,
            second_low,
            mixed(graph, &first_high, &block[3], &keys[1])?,
            first_low,
        ];
        for (key, step) in keys.iter_mut().zip(STEPS) {
            let step = Operand::of_scalar(Scalar::from_i64(DType::U32, step));
            *key = graph.add(key, &step)?;
        }
    }
    Ok(block)
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

/// The low and the high word of integers of 64 bits.
fn words(graph: &mut Graph, value: &Operand) -> Accepted<[Operand; 2]> {
    let by = graph.number(DType::U64, 32.0);
    let high = graph.map(F::Shr, &[value, &by])?;
    Ok([graph.cast(value, DType::U32)?, graph.cast(&high, DType::U32)?])
}

/// Integers of 64 bits of their low and high words.
fn joined(graph: &mut Graph, low: &Operand, high: &Operand) -> Accepted<Operand> {
    let (low, high) = (graph.cast(low, DType::U64)?, graph.cast(high, DType::U64)?);
    let by = graph.number(DType::U64, 32.0);
    let high = graph.map(F::Shl, &[&high, &by])?;
    graph.map(F::Or, &[&low, &high])
}

/// Threefry-2x32 in 20 rounds of the numbers from the counter on: the two words of each block.
fn blocks(
    graph: &mut Graph,
    key: &Operand,
    counter: &Operand,
    count: i64,
) -> Accepted<[Operand; 2]> {
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
