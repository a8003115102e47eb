//! Operators that make tensors from attributes, shapes or a few numbers.

use front::{
    Accepted, Graph, KNOWN_ELEMENTS, Known, Operand, constant_value, normalize_axis, shape_error,
};
use sym::Expr;
use tensor::{DType, Scalar, Tensor};

use super::Lowered;
use super::movement::diagonal_distance;
use crate::node::{Node, attribute_error, unsupported};

/// A constant in one of its many forms.
pub(super) fn constant(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let tensor = if let Some(tensor) = node.tensor("value", graph)? {
        tensor
    } else if let Some(tensor) = node.sparse_tensor("sparse_value", graph)? {
        tensor
    } else if node.has("value_int") {
        Tensor::scalar(Scalar::i64(node.int("value_int", 0)?))
    } else if node.has("value_float") {
        Tensor::scalar(Scalar::f32(node.float("value_float", 0.0)? as f32))
    } else if let Some(ints) = node.ints("value_ints")? {
        Tensor::from_slice(&[ints.len()], &ints)
    } else if let Some(floats) = node.floats("value_floats")? {
        Tensor::from_slice(&[floats.len()], &floats)
    } else if node.has("value_string") {
        Tensor::from_strings(&[], vec![node.string("value_string", "")?.to_owned()])
    } else if let Some(strings) = node.strings("value_strings")? {
        Tensor::from_strings(&[strings.len()], strings)
    } else {
        return Err(attribute_error("value", "it is missing"));
    };
    let name = node.proto.output.first().map_or("", String::as_str);
    Ok(vec![constant_value(name, tensor, true)])
}

/// One number throughout, of a shape that an input gives.
pub(super) fn constant_of_shape(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let value = match node.tensor("value", graph)? {
        Some(tensor) if tensor.len() != 1 || tensor.dtype() == DType::String => {
            return Err(attribute_error("value", "it is not one number"));
        }
        Some(tensor) => tensor.get_scalar(0),
        None => Scalar::f32(0.0),
    };
    let shape = node.sizes(0, "shape", graph)?;
    Ok(vec![graph.full(&shape, value)?])
}

/// Numbers from a start to a limit.
pub(super) fn range(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let dtype = node.input(0)?.dtype();
    let what = "bounds of the range";
    let (start, delta) = (node.input(0)?.clone(), node.input(2)?.clone());
    let bounds = [&start, node.input(1)?, &delta];
    let count = if (0..3).any(|index| node.is_data(index)) {
        count_by_data(graph, bounds)?
    } else if dtype.is_float() {
        let number = |index| node.single_number(index, what).map(Scalar::as_f64);
        let (start, limit, delta) = (number(0)?, number(1)?, number(2)?);
        let count = ((limit - start) / delta).ceil().max(0.0);
        if !count.is_finite() || count > graph.limits.elements as f64 {
            return Err(shape_error(format!("{count} numbers from {start} to {limit}")));
        }
        Expr::from(count as i64)
    } else {
        let single = |index: usize| match &node.exprs(index, what)?[..] {
            [only] => Ok(only.clone()),
            others => Err(shape_error(format!("a bound of {} numbers", others.len()))),
        };
        let (start, limit, delta) = (single(0)?, single(1)?, single(2)?);
        let delta = delta.as_constant().filter(|delta| *delta != 0 && *delta != i64::MIN);
        let delta = delta.ok_or_else(|| unsupported("the step of the range is not a constant"))?;
        let distance = if delta > 0 { &limit - &start } else { &start - &limit };
        let count = distance.ceil_div(&Expr::from(delta.abs())).max(&Expr::ZERO);
        count.simplify(&|symbol| graph.builder.range(symbol))
    };
    let (start, delta) = (graph.reshape(&start, &[])?, graph.reshape(&delta, &[])?);
    graph.check_size(std::slice::from_ref(&count))?;
    let steps = counting(graph, dtype, &count)?;
    let scaled = graph.mul(&steps, &delta)?;
    Ok(vec![graph.add(&scaled, &start)?])
}

/// How many numbers a range has whose bounds are data.
fn count_by_data(graph: &mut Graph, bounds: [&Operand; 3]) -> Accepted<Expr> {
    let mut scalars = Vec::new();
    for bound in bounds {
        scalars.push(graph.reshape(bound, &[])?);
    }
    let [start, limit, delta] = &scalars[..] else { unreachable!("as many as there were") };
    let distance = graph.sub(limit, start)?;
    let count = match distance.dtype().is_float() {
        true => {
            let quotient = graph.div(&distance, delta)?;
            graph.ceil(&quotient)?
        }
        false => {
            // Rounded up: the distance is made longer by less than a step.
            let zero = graph.number(distance.dtype(), 0.0);
            let one = graph.number(distance.dtype(), 1.0);
            let forwards = graph.less(&zero, delta)?;
            let back = graph.neg(&one)?;
            let unit = graph.select(&forwards, &one, &back)?;
            let longer = graph.sub(delta, &unit)?;
            let longer = graph.add(&distance, &longer)?;
            graph.div(&longer, delta)?
        }
    };
    let most = graph.limits.elements as f64;
    let count = graph.clamp(&count, 0.0, most)?;
    let count = graph.cast(&count, DType::I64)?;
    let most = Expr::from(i64::try_from(graph.limits.elements).unwrap_or(i64::MAX));
    graph.bind(&count, &most)
}

/// 0, 1, 2 ...: known where they are few.
fn counting(graph: &mut Graph, dtype: DType, count: &Expr) -> Accepted<Operand> {
    match count.as_constant() {
        Some(few) if few <= KNOWN_ELEMENTS as i64 => {
            let number = |number| Known::Constant(Scalar::from_i64(dtype, number));
            Ok(Operand::of_known(dtype, &[few as usize], (0..few).map(number).collect()))
        }
        _ => graph.iota(dtype, std::slice::from_ref(count), 0),
    }
}

/// A window function: a sum of cosines of multiples of the angle with these coefficients.
pub(super) fn window(node: &Node<'_>, graph: &mut Graph, coefficients: [f64; 3]) -> Lowered {
    let size = match &node.sizes(0, "size of the window", graph)?[..] {
        [size] if graph.builder.bounds(size).0 >= 0 => size.clone(),
        _ => return Err(shape_error("the size must be one number that is not negative")),
    };
    graph.check_size(std::slice::from_ref(&size))?;
    let dtype = node.dtype("output_datatype", DType::F32)?;
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let period = if node.flag("periodic", true)? { size.clone() } else { &size - 1 };
    let place = graph.iota(wide, std::slice::from_ref(&size), 0)?;
    let period = graph.dimension(period);
    let period = graph.cast(&period, wide)?;
    let turns = graph.div(&place, &period)?;
    let mut sum = graph.number(wide, coefficients[0]);
    for (number, coefficient) in coefficients.into_iter().enumerate().skip(1) {
        if coefficient != 0.0 {
            let angle = graph.mul_number(&turns, std::f64::consts::TAU * number as f64)?;
            let cosine = graph.map(tensor::ScalarFunction::Cos, &[&angle])?;
            let term = graph.mul_number(&cosine, coefficient)?;
            sum = graph.add(&sum, &term)?;
        }
    }
    Ok(vec![graph.cast(&sum, dtype)?])
}

/// A matrix with ones on a diagonal.
pub(super) fn eye_like(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    if x.rank() != 2 {
        return Err(shape_error(format!("an input of rank {}, not 2", x.rank())));
    }
    let dtype = node.dtype("dtype", x.dtype())?;
    let distance = diagonal_distance(graph, x.shape())?;
    let offset = Operand::of_scalar(Scalar::i64(node.int("k", 0)?));
    let hit = graph.equal(&distance, &offset)?;
    Ok(vec![graph.cast(&hit, dtype)?])
}

/// One of two values at each place of a new axis: the second where the index says.
pub(super) fn one_hot(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (index, values) = (node.input(0)?, node.input(2)?);
    let depth = match &depth(node, graph)?[..] {
        [depth] if graph.builder.bounds(depth).0 >= 0 => depth.clone(),
        _ => return Err(shape_error("the depth must be one number that is not negative")),
    };
    let axis = normalize_axis(node.int("axis", -1)?, index.rank() + 1)?;
    let mut shape = index.shape().to_vec();
    shape.insert(axis, depth.clone());
    graph.check_size(&shape)?;
    let index = graph.cast(index, DType::I64)?;
    let zero = graph.number(DType::I64, 0.0);
    let extent = graph.dimension(depth);
    let wrapped = graph.add(&index, &extent)?;
    let negative = graph.less(&index, &zero)?;
    let index = graph.select(&negative, &wrapped, &index)?;
    let mut column = index.shape().to_vec();
    column.insert(axis, Expr::ONE);
    let index = graph.reshape(&index, &column)?;
    let position = graph.iota(DType::I64, &shape, axis)?;
    let hit = graph.equal(&position, &index)?;
    let mut one_of = |number: i64| {
        let value = graph.slice_axis(values, 0, Expr::from(number), 1, Expr::ONE)?;
        graph.reshape(&value, &[])
    };
    if values.rank() != 1 {
        return Err(shape_error("the values must be a pair"));
    }
    let (off, on) = (one_of(0)?, one_of(1)?);
    Ok(vec![graph.select(&hit, &on, &off)?])
}

/// The depth, which files may give as a float.
fn depth(node: &Node<'_>, graph: &mut Graph) -> Accepted<Vec<Expr>> {
    if !node.input(1)?.dtype().is_float() {
        return node.sizes(1, "depth", graph);
    }
    let numbers = node.numbers(1, "depth")?;
    Ok(numbers.iter().map(|number| Expr::from(number.as_i64())).collect())
}
