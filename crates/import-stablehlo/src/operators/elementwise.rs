//! Functions of elements.

use base::{Diagnostic, codes};
use front::{Accepted, Complex, Graph, Operand, type_error, unsupported};
use graph::Op;
use sym::Expr;
use tensor::{DType, Scalar, ScalarFunction as F};

use crate::importer::{Frame, Importer};
use crate::node::{Lowered, Node, Value, one, part_type};
use crate::syntax::{Attribute, ElementType};

/// One function of the graph's, of real and complex numbers and booleans.
pub(crate) fn map<'p>(importer: &mut Importer<'p>, node: &Node<'p>, function: F) -> Lowered {
    let graph = &mut importer.graph;
    if node.has_complex() {
        return one(complex_map(graph, node, function)?);
    }
    let operands: Vec<&Operand> =
        node.operands.iter().map(Value::real).collect::<Accepted<Vec<_>>>()?;
    let is_bool = operands.first().is_some_and(|it| it.dtype() == DType::Bool);
    // Of booleans sums are disjunctions and products conjunctions.
    let function = match function {
        F::Add | F::Max if is_bool => F::Or,
        F::Mul | F::Min if is_bool => F::And,
        F::Sub | F::Ne if is_bool => F::Xor,
        other => other,
    };
    let is_unsigned = operands.first().is_some_and(|it| it.dtype().is_unsigned_integer());
    if is_unsigned && function == F::Neg {
        let zero = graph.number(operands[0].dtype(), 0.0);
        return one(graph.sub(&zero, operands[0])?);
    }
    one(graph.map(function, &operands)?)
}

fn complex_map(graph: &mut Graph, node: &Node<'_>, function: F) -> Accepted<Complex> {
    let a = node.value(0)?.complex(graph)?;
    if node.operands.len() == 1 {
        let found = graph.complex_map(function, &a)?;
        return found
            .ok_or_else(|| type_error(format!("`{}` of complex numbers", function.name())));
    }
    let b = node.value(1)?.complex(graph)?;
    match function {
        F::Add => graph.complex_add(&a, &b),
        F::Sub => graph.complex_sub(&a, &b),
        F::Mul => graph.complex_mul(&a, &b),
        F::Div => graph.complex_div(&a, &b),
        F::Pow => graph.complex_power(&a, &b),
        F::Atan2 => graph.complex_atan2(&a, &b),
        F::Max | F::Min => {
            // The order is that of the real parts, then that of the imaginary ones.
            let first = match function {
                F::Max => lexicographic(graph, F::Gt, &a, &b)?,
                _ => lexicographic(graph, F::Lt, &a, &b)?,
            };
            select_complex(graph, &first, &a, &b)
        }
        other => Err(type_error(format!("`{}` of complex numbers", other.name()))),
    }
}

fn lexicographic(graph: &mut Graph, order: F, a: &Complex, b: &Complex) -> Accepted<Operand> {
    let (first, same) = (graph.map(order, &[&a.re, &b.re])?, graph.equal(&a.re, &b.re)?);
    let second = graph.map(order, &[&a.im, &b.im])?;
    let second = graph.and(&same, &second)?;
    graph.or(&first, &second)
}

pub(crate) fn select_complex(
    graph: &mut Graph,
    condition: &Operand,
    a: &Complex,
    b: &Complex,
) -> Accepted<Complex> {
    Ok(Complex {
        re: graph.select(condition, &a.re, &b.re)?,
        im: graph.select(condition, &a.im, &b.im)?,
    })
}

pub(crate) fn constant<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let Some(Attribute::Elements(elements)) = node.attribute("value") else {
        return Err(Diagnostic::error(codes::BAD_ATTRIBUTE, "a constant has no elements")
            .because("its attribute `value` is not as it must be")
            .remedy("write the program anew"));
    };
    let name = format!("constant{}", importer.graph.constants.len());
    Ok(vec![importer.constant(elements, &name)?])
}

pub(crate) fn abs<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let graph = &mut importer.graph;
    match node.value(0)? {
        Value::Complex(value) => one(graph.complex_abs(value)?),
        value => one(graph.abs(value.real()?)?),
    }
}

pub(crate) fn real<'p>(_: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    match node.value(0)? {
        Value::Complex(value) => one(value.re.clone()),
        value => one(value.real()?.clone()),
    }
}

pub(crate) fn imag<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let value = node.value(0)?.complex(&mut importer.graph)?;
    one(value.im)
}

pub(crate) fn complex<'p>(_: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    one(Complex { re: node.real(0)?.clone(), im: node.real(1)?.clone() })
}

pub(crate) fn conjugate<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    match node.value(0)? {
        Value::Complex(value) => {
            let im = importer.graph.neg(&value.im)?;
            one(Complex { re: value.re.clone(), im })
        }
        value => Ok(vec![value.clone()]),
    }
}

pub(crate) fn select<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let graph = &mut importer.graph;
    let condition = node.real(0)?;
    match (node.value(1)?, node.value(2)?) {
        (Value::Complex(a), Value::Complex(b)) => one(select_complex(graph, condition, a, b)?),
        (a, b) => one(graph.select(condition, a.real()?, b.real()?)?),
    }
}

pub(crate) fn clamp<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let graph = &mut importer.graph;
    let (low, value, high) = (node.real(0)?, node.real(1)?, node.real(2)?);
    if value.dtype() == DType::Bool {
        let value = graph.or(value, low)?;
        return one(graph.and(&value, high)?);
    }
    let value = graph.max(value, low)?;
    one(graph.min(&value, high)?)
}

/// Floats as integers of which the order is the total order of the floats.
pub(crate) fn total_order(graph: &mut Graph, value: &Operand) -> Accepted<Operand> {
    let signed = signed_type(value.dtype())?;
    let bits = graph.primitive(Op::Bitcast { dtype: signed }, &[value])?;
    let zero = graph.number(signed, 0.0);
    let is_negative = graph.less(&bits, &zero)?;
    let most = Operand::of_scalar(Scalar::highest(signed));
    let turned = graph.map(F::Xor, &[&bits, &most])?;
    graph.select(&is_negative, &turned, &bits)
}

fn signed_type(dtype: DType) -> Accepted<DType> {
    Ok(match dtype.bits() {
        64 => DType::I64,
        32 => DType::I32,
        16 => DType::I16,
        8 => DType::I8,
        _ => return Err(type_error(format!("the bits of {dtype} as an integer"))),
    })
}

fn unsigned_type(dtype: DType) -> Accepted<DType> {
    Ok(match dtype.bits() {
        64 => DType::U64,
        32 => DType::U32,
        16 => DType::U16,
        8 => DType::U8,
        4 => DType::U4,
        2 => DType::U2,
        _ => return Err(type_error(format!("the bits of {dtype} as an integer"))),
    })
}

/// The function of a comparison's direction.
pub(crate) fn direction(node: &Node<'_>) -> Accepted<F> {
    Ok(match node.word("comparison_direction")? {
        "EQ" => F::Eq,
        "NE" => F::Ne,
        "LT" => F::Lt,
        "LE" => F::Le,
        "GT" => F::Gt,
        "GE" => F::Ge,
        other => return Err(unsupported(format!("the comparison {other}"))),
    })
}

pub(crate) fn compare<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let graph = &mut importer.graph;
    let function = direction(node)?;
    if node.has_complex() {
        let (a, b) = (node.value(0)?.complex(graph)?, node.value(1)?.complex(graph)?);
        let (re, im) = (graph.equal(&a.re, &b.re)?, graph.equal(&a.im, &b.im)?);
        let equal = graph.and(&re, &im)?;
        return match function {
            F::Eq => one(equal),
            F::Ne => one(graph.map(F::Not, &[&equal])?),
            _ => Err(type_error("complex numbers have no order")),
        };
    }
    let (mut a, mut b) = (node.real(0)?.clone(), node.real(1)?.clone());
    let is_total = node.word("compare_type").is_ok_and(|it| it == "TOTALORDER");
    if is_total && a.dtype().is_float() {
        (a, b) = (total_order(graph, &a)?, total_order(graph, &b)?);
    }
    if a.dtype() == DType::Bool {
        (a, b) = (graph.cast(&a, DType::U8)?, graph.cast(&b, DType::U8)?);
    }
    one(graph.map(function, &[&a, &b])?)
}

pub(crate) fn convert<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let graph = &mut importer.graph;
    let element = &node.result_type(0)?.element;
    let dtype = part_type(element)?;
    match element {
        ElementType::Complex(_) => {
            let value = node.value(0)?.complex(graph)?;
            one(value.each(|part| graph.cast(part, dtype))?)
        }
        _ => {
            let value = match node.value(0)? {
                Value::Complex(value) => &value.re,
                value => value.real()?,
            };
            one(graph.cast(value, dtype)?)
        }
    }
}

/// The bits in another type: of wider elements the parts along a new last axis, the least first.
pub(crate) fn bitcast<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let graph = &mut importer.graph;
    // Of quantised values the integers.
    let to = part_type(&node.result_type(0)?.element)?;
    let is_complex = matches!(node.result_type(0)?.element, ElementType::Complex(_));
    match (node.value(0)?, is_complex) {
        (Value::Complex(value), true) if value.dtype() == to => return one(value.clone()),
        (Value::Complex(value), true) => {
            // Both parts along a last axis, as they lie in memory.
            let both = value.each(|part| {
                let shape = [part.shape(), &[Expr::ONE]].concat();
                graph.reshape(part, &shape)
            })?;
            let axis = both.re.rank() - 1;
            let reals = graph.concat(axis, &[both.re, both.im])?;
            let bits = other_width(graph, &reals, to)?;
            let last = bits.rank() - 1;
            let kept = bits.shape()[..last].to_vec();
            let mut part = |number: usize| {
                let part = graph.slice_axis(&bits, last, Expr::from(number), 1, Expr::ONE)?;
                graph.reshape(&part, &kept)
            };
            return one(Complex { re: part(0)?, im: part(1)? });
        }
        (Value::Complex(_), _) | (_, true) => {
            return Err(type_error("the bits of complex numbers as another type"));
        }
        _ => {}
    }
    let value = node.real(0)?;
    let from = value.dtype();
    if from != to && [from, to].contains(&DType::Bool) {
        return one(bits_as_booleans(graph, value, to)?);
    }
    one(other_width(graph, value, to)?)
}

/// The bits in another type: parts of wider elements along a new last axis, the least first, which
/// become one element, and back.
fn other_width(graph: &mut Graph, value: &Operand, to: DType) -> Accepted<Operand> {
    let from = value.dtype();
    if from == to {
        return Ok(value.clone());
    }
    if from.bits() == to.bits() {
        return same_width(graph, value, to);
    }
    let (wide, narrow) = if from.bits() > to.bits() { (from, to) } else { (to, from) };
    let count = wide.bits() / narrow.bits();
    let (wide_bits, narrow_bits) = (unsigned_type(wide)?, unsigned_type(narrow)?);
    let steps: Vec<Scalar> = (0..count)
        .map(|number| Scalar::from_i64(wide_bits, (number * narrow.bits()).into()))
        .collect();
    let steps = tensor::Tensor::from_scalars(wide_bits, &[count as usize], &steps);
    let steps = Operand::of_tensor(&steps);
    if from == wide {
        let bits = same_width(graph, value, wide_bits)?;
        let shape = [bits.shape(), &[Expr::ONE]].concat();
        let bits = graph.reshape(&bits, &shape)?;
        let parts = graph.map(F::Shr, &[&bits, &steps])?;
        let parts = graph.cast(&parts, narrow_bits)?;
        return same_width(graph, &parts, to);
    }
    let bits = same_width(graph, value, narrow_bits)?;
    let bits = graph.cast(&bits, wide_bits)?;
    let parts = graph.map(F::Shl, &[&bits, &steps])?;
    let axis = parts.rank() - 1;
    let joined = graph.reduce_axes(&parts, &[axis], tensor::Reduction::Or, false)?;
    same_width(graph, &joined, to)
}

/// The bits of each element as booleans along a new last axis, the least first, or back.
fn bits_as_booleans(graph: &mut Graph, value: &Operand, to: DType) -> Accepted<Operand> {
    let number = if to == DType::Bool { value.dtype() } else { to };
    let unsigned = unsigned_type(number)?;
    let steps: Vec<Scalar> =
        (0..number.bits()).map(|step| Scalar::from_i64(unsigned, step.into())).collect();
    let steps = tensor::Tensor::from_scalars(unsigned, &[steps.len()], &steps);
    let steps = front::constant_value("steps", steps, false);
    if to == DType::Bool {
        let bits = same_width(graph, value, unsigned)?;
        let shape = [bits.shape(), &[Expr::ONE]].concat();
        let bits = graph.reshape(&bits, &shape)?;
        let parts = graph.map(F::Shr, &[&bits, &steps])?;
        let one_ = graph.number(unsigned, 1.0);
        let parts = graph.map(F::And, &[&parts, &one_])?;
        return graph.cast(&parts, DType::Bool);
    }
    let bits = graph.cast(value, unsigned)?;
    let parts = graph.map(F::Shl, &[&bits, &steps])?;
    let Some(axis) = parts.rank().checked_sub(1) else {
        return Err(type_error("a boolean has too few bits"));
    };
    let joined = graph.reduce_axes(&parts, &[axis], tensor::Reduction::Or, false)?;
    same_width(graph, &joined, to)
}

/// The bits in another type of the same width; integers of one width are converted.
pub(crate) fn same_width(graph: &mut Graph, value: &Operand, dtype: DType) -> Accepted<Operand> {
    if value.dtype() == dtype {
        return Ok(value.clone());
    }
    if value.dtype().is_integer() && dtype.is_integer() {
        return graph.cast(value, dtype);
    }
    graph.primitive(Op::Bitcast { dtype }, &[value])
}

fn shift(graph: &mut Graph, node: &Node<'_>, dtype: DType) -> Lowered {
    let (value, by) = (node.real(0)?, node.real(1)?);
    let own = value.dtype();
    let (value, by) = (graph.cast(value, dtype)?, graph.cast(by, dtype)?);
    let shifted = graph.map(F::Shr, &[&value, &by])?;
    one(graph.cast(&shifted, own)?)
}

pub(crate) fn shift_right_logical<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let dtype = unsigned_type(node.real(0)?.dtype())?;
    shift(&mut importer.graph, node, dtype)
}

pub(crate) fn shift_right_arithmetic<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let dtype = match node.real(0)?.dtype() {
        DType::U4 => DType::I4,
        DType::U2 => DType::I2,
        dtype if dtype.is_integer() && dtype.bits() >= 8 => signed_type(dtype)?,
        dtype => dtype,
    };
    shift(&mut importer.graph, node, dtype)
}

pub(crate) fn is_finite<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let graph = &mut importer.graph;
    let value = graph.abs(node.real(0)?)?;
    let infinity = graph.number(value.dtype(), f64::INFINITY);
    one(graph.less(&value, &infinity)?)
}

pub(crate) fn logistic<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let graph = &mut importer.graph;
    match node.value(0)? {
        Value::Complex(value) => one(graph.complex_rounded_once(value, |graph, value| {
            let negated = value.each(|part| graph.neg(part))?;
            let exp = graph.complex_map(F::Exp, &negated)?.unwrap_or(negated);
            let re = graph.add_number(&exp.re, 1.0)?;
            let sum = Complex { re, im: exp.im };
            Ok(graph.complex_map(F::Reciprocal, &sum)?.unwrap_or(sum))
        })?),
        value => one(graph.rounded_once(value.real()?, Graph::sigmoid)?),
    }
}

pub(crate) fn reciprocal_root<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let graph = &mut importer.graph;
    match node.value(0)? {
        Value::Complex(value) => one(graph.complex_rounded_once(value, |graph, value| {
            let root = graph.complex_map(F::Sqrt, value)?.unwrap_or_else(|| value.clone());
            Ok(graph.complex_map(F::Reciprocal, &root)?.unwrap_or(root))
        })?),
        value => one(graph.rounded_once(value.real()?, |graph, value| {
            let root = graph.sqrt(value)?;
            graph.map(F::Reciprocal, &[&root])
        })?),
    }
}

/// The power of the magnitude, one step of Newton's, and the sign.
pub(crate) fn cube_root<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let graph = &mut importer.graph;
    if let Value::Complex(value) = node.value(0)? {
        let third = Complex {
            re: graph.number(value.dtype(), 1.0 / 3.0),
            im: graph.number(value.dtype(), 0.0),
        };
        return one(graph.complex_power(value, &third)?);
    }
    let value = node.real(0)?;
    one(graph.rounded_once(value, |graph, value| {
        let size = graph.abs(value)?;
        let third = graph.number(value.dtype(), 1.0 / 3.0);
        let root = graph.map(F::Pow, &[&size, &third])?;
        let square = graph.square(&root)?;
        let quotient = graph.div(&size, &square)?;
        let error = graph.sub(&root, &quotient)?;
        let error = graph.mul_number(&error, 1.0 / 3.0)?;
        let better = graph.sub(&root, &error)?;
        // Of zero, infinity and NaN the root is the number itself.
        let is_better = graph.map(F::IsNan, &[&better])?;
        let root = graph.select(&is_better, &size, &better)?;
        graph.copy_sign(&root, value)
    })?)
}

/// To the nearest integer, halves away from zero.
pub(crate) fn round_away<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let graph = &mut importer.graph;
    let value = node.real(0)?;
    let whole = graph.map(F::Trunc, &[value])?;
    let rest = graph.sub(value, &whole)?;
    let rest = graph.abs(&rest)?;
    let half = graph.number(value.dtype(), 0.5);
    let goes_on = graph.greater_equal(&rest, &half)?;
    let sign = graph.map(F::Sign, &[value])?;
    let next = graph.add(&whole, &sign)?;
    one(graph.select(&goes_on, &next, &whole)?)
}

/// Rounds to a float of fewer bits, the type staying: to nearest even by integer arithmetic on the
/// bits, then exponents beyond the range become infinite or zero.
pub(crate) fn reduce_precision<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let graph = &mut importer.graph;
    let value = node.real(0)?;
    let dtype = value.dtype();
    let (exponent, mantissa) = (node.integer("exponent_bits")?, node.integer("mantissa_bits")?);
    if exponent < 1 || mantissa < 0 {
        return Err(unsupported(format!("the format e{exponent}m{mantissa}")));
    }
    let (own_exponent, own_mantissa) = match dtype {
        DType::F64 => (11, 52),
        DType::F32 => (8, 23),
        DType::F16 => (5, 10),
        DType::BF16 => (8, 7),
        other => return Err(type_error(format!("the precision of {other}"))),
    };
    let unsigned = unsigned_type(dtype)?;
    let number = |bits: u64| Operand::of_scalar(Scalar::from_bits(unsigned, bits));
    let mut bits = graph.primitive(Op::Bitcast { dtype: unsigned }, &[value])?;
    if mantissa < own_mantissa {
        let dropped = (own_mantissa - mantissa) as u64;
        let last = 1_u64 << dropped;
        let by = number(dropped);
        let odd = graph.map(F::Shr, &[&bits, &by])?;
        let unit = number(1);
        let odd = graph.map(F::And, &[&odd, &unit])?;
        let half = number((last >> 1) - 1);
        let rounding = graph.add(&half, &odd)?;
        let rounded = graph.add(&bits, &rounding)?;
        let width = u64::MAX >> (64 - dtype.bits());
        let mask = number(!(last - 1) & width);
        bits = graph.map(F::And, &[&rounded, &mask])?;
    }
    let mut rounded = graph.primitive(Op::Bitcast { dtype }, &[&bits])?;
    if exponent < own_exponent {
        let bias = (1_i64 << (exponent - 1)) - 1;
        let largest =
            (2.0 - 2.0_f64.powi(-(mantissa.min(own_mantissa) as i32))) * 2.0_f64.powi(bias as i32);
        let smallest = 2.0_f64.powi(1 - bias as i32);
        let size = graph.abs(&rounded)?;
        let (most, least) = (graph.number(dtype, largest), graph.number(dtype, smallest));
        let infinity = graph.number(dtype, f64::INFINITY);
        let zero = graph.number(dtype, 0.0);
        let is_large = graph.greater(&size, &most)?;
        let size = graph.select(&is_large, &infinity, &size)?;
        let is_small = graph.less(&size, &least)?;
        let size = graph.select(&is_small, &zero, &size)?;
        rounded = graph.copy_sign(&size, value)?;
    }
    let size = graph.abs(value)?;
    let infinity = graph.number(dtype, f64::INFINITY);
    let is_finite = graph.less(&size, &infinity)?;
    // Without mantissa bits there is no NaN: it becomes infinite.
    let special = match mantissa {
        0 => graph.copy_sign(&infinity, value)?,
        _ => value.clone(),
    };
    one(graph.select(&is_finite, &rounded, &special)?)
}
