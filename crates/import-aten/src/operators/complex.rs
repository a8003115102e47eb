//! Operators of complex numbers: a table with a row each, and how a row makes the two parts.
//!
//! What moves elements, and what is linear in them, does with each part what it does with real
//! numbers, so its row names the arguments that have parts and the operator's own function does the
//! rest. A product is four of the parts. The other rows have functions of their own.
//!
//! A conjugate is computed where PyTorch says that there is one: a value of a trace has no mark
//! that says so of it.

use front::{
    Accepted, Complex, Direction, Graph, Operand, fourier, fourier_of_real, fourier_to_real,
    unsupported,
};
use sym::Expr;
use tensor::{DType, ScalarFunction as F};

use crate::importer::{Values, value_of};
use crate::node::Node;
use crate::trace::{TraceArgument, TraceNode};
use crate::value::{Part, Value, of_pairs, side_by_side};

/// An argument by its place and its name in the operator's signature.
type Argument = (usize, &'static str);

/// What a function of complex numbers gives.
type Found = Accepted<Vec<Value>>;

/// How an operator of complex numbers is lowered.
enum Lower {
    /// Each part as of real numbers, from the same part of these arguments.
    EachPart(&'static [Argument]),
    /// Products of the parts of two arguments, as of real numbers.
    Product([Argument; 2]),
    /// The real part as of real numbers; there is no imaginary part.
    Real,
    /// By a function of its own.
    Own(fn(&Node<'_>, &mut Graph) -> Found),
}

/// A row of the table.
struct Row {
    name: &'static str,
    /// The overloads, separated by blanks; none for all that the operator has for real numbers.
    overloads: &'static str,
    lower: Lower,
}

const fn row(name: &'static str, overloads: &'static str, lower: Lower) -> Row {
    Row { name, overloads, lower }
}

const SELF: Argument = (0, "self");

/// What has the same parts elsewhere.
const MOVED: &[&str] = &[
    "aten._unsafe_index",
    "aten._unsafe_view",
    "aten.alias",
    "aten.as_strided",
    "aten.chunk",
    "aten.clone",
    "aten.contiguous",
    "aten.detach",
    "aten.diff",
    "aten.expand",
    "aten.flatten",
    "aten.flip",
    "aten.gather",
    "aten.index",
    "aten.index_select",
    "aten.lift",
    "aten.lift_fresh",
    "aten.lift_fresh_copy",
    "aten.permute",
    "aten.repeat",
    "aten.reshape",
    "aten.resolve_conj",
    "aten.resolve_neg",
    "aten.roll",
    "aten.select",
    "aten.slice",
    "aten.split",
    "aten.split_with_sizes",
    "aten.squeeze",
    "aten.swapaxes",
    "aten.swapdims",
    "aten.t",
    "aten.transpose",
    "aten.tril",
    "aten.triu",
    "aten.unbind",
    "aten.unflatten",
    "aten.unsqueeze",
    "aten.view",
    // What is linear in one value.
    "aten._neg_view",
    "aten._to_copy",
    "aten.cumsum",
    "aten.mean",
    "aten.neg",
    "aten.sum",
    "aten.to",
    "prims.convert_element_type",
]; // fmt: skip

const TABLE: &[Row] = &[
    // --- linear in several values ---
    row("aten.add", "", Lower::EachPart(&[SELF, (1, "other")])),
    row("aten.as_strided_scatter", "", Lower::EachPart(&[SELF, (1, "src")])),
    row("aten.cat", "", Lower::EachPart(&[(0, "tensors")])),
    row("aten.constant_pad_nd", "", Lower::EachPart(&[SELF, (2, "value")])),
    row("aten.copy", "", Lower::EachPart(&[SELF, (1, "src")])),
    row("aten.diagonal_scatter", "", Lower::EachPart(&[SELF, (1, "src")])),
    row("aten.fill", "", Lower::EachPart(&[SELF, (1, "value")])),
    row("aten.full", "", Lower::EachPart(&[(1, "fill_value")])),
    row("aten.full_like", "", Lower::EachPart(&[SELF, (1, "fill_value")])),
    row("aten.index_put", "", Lower::EachPart(&[SELF, (2, "values")])),
    row("aten.masked_fill", "", Lower::EachPart(&[SELF, (2, "value")])),
    row("aten.new_full", "", Lower::EachPart(&[SELF, (2, "fill_value")])),
    row("aten.rsub", "", Lower::EachPart(&[SELF, (1, "other")])),
    row("aten.scalar_tensor", "", Lower::EachPart(&[(0, "s")])),
    row("aten.scatter", "src", Lower::EachPart(&[SELF, (3, "src")])),
    row("aten.scatter", "value", Lower::EachPart(&[SELF, (3, "value")])),
    row("aten.scatter_add", "", Lower::EachPart(&[SELF, (3, "src")])),
    row("aten.select_scatter", "", Lower::EachPart(&[SELF, (1, "src")])),
    row("aten.slice_scatter", "", Lower::EachPart(&[SELF, (1, "src")])),
    row("aten.stack", "", Lower::EachPart(&[(0, "tensors")])),
    row("aten.sub", "", Lower::EachPart(&[SELF, (1, "other")])),
    row("aten.where", "", Lower::EachPart(&[(1, "self"), (2, "other")])),
    // --- products ---
    row("aten.bmm", "", Lower::Product([SELF, (1, "mat2")])),
    row("aten.dot", "", Lower::Product([SELF, (1, "tensor")])),
    row("aten.matmul", "", Lower::Product([SELF, (1, "other")])),
    row("aten.mm", "", Lower::Product([SELF, (1, "mat2")])),
    row("aten.mul", "", Lower::Product([SELF, (1, "other")])),
    row("aten.mv", "", Lower::Product([SELF, (1, "vec")])),
    row("aten.addmm", "default", Lower::Own(product_and_sum)),
    row("aten.baddbmm", "default", Lower::Own(product_and_sum)),
    // --- made of nothing ---
    row("aten.empty", "", Lower::Real),
    row("aten.empty_permuted", "", Lower::Real),
    row("aten.eye", "", Lower::Real),
    row("aten.new_ones", "", Lower::Real),
    row("aten.new_zeros", "", Lower::Real),
    row("aten.ones", "", Lower::Real),
    row("aten.ones_like", "", Lower::Real),
    row("aten.zeros", "", Lower::Real),
    row("aten.zeros_like", "", Lower::Real),
    row("prims.empty_strided", "", Lower::Real),
    // --- parts ---
    row("aten._conj", "default", Lower::Own(conjugate)),
    row("aten._conj_physical", "default", Lower::Own(conjugate)),
    row("aten.conj_physical", "default", Lower::Own(conjugate)),
    row("aten.complex", "default", Lower::Own(of_parts)),
    row("aten.polar", "default", Lower::Own(of_magnitude)),
    row("aten.view_as_complex", "default", Lower::Own(viewed_as_complex)),
    row("aten.view_as_real", "default", Lower::Own(viewed_as_real)),
    row("aten.abs", "default", Lower::Own(magnitude)),
    row("aten.angle", "default", Lower::Own(angle)),
    row("aten.sgn", "default", Lower::Own(|node, graph| unary(node, graph, F::Sign))),
    // --- elements ---
    row("aten.acos", "default", Lower::Own(|node, graph| unary(node, graph, F::Acos))),
    row("aten.acosh", "default", Lower::Own(|node, graph| unary(node, graph, F::Acosh))),
    row("aten.asin", "default", Lower::Own(|node, graph| unary(node, graph, F::Asin))),
    row("aten.asinh", "default", Lower::Own(|node, graph| unary(node, graph, F::Asinh))),
    row("aten.atan", "default", Lower::Own(|node, graph| unary(node, graph, F::Atan))),
    row("aten.atanh", "default", Lower::Own(|node, graph| unary(node, graph, F::Atanh))),
    row("aten.cos", "default", Lower::Own(|node, graph| unary(node, graph, F::Cos))),
    row("aten.cosh", "default", Lower::Own(|node, graph| unary(node, graph, F::Cosh))),
    row("aten.div", "Tensor Scalar", Lower::Own(quotient)),
    row("aten.eq", "Tensor Scalar", Lower::Own(|node, graph| compared(node, graph, F::And))),
    row("aten.exp", "default", Lower::Own(|node, graph| unary(node, graph, F::Exp))),
    row("aten.expm1", "default", Lower::Own(|node, graph| unary(node, graph, F::Expm1))),
    row("aten.log", "default", Lower::Own(|node, graph| unary(node, graph, F::Log))),
    row("aten.log1p", "default", Lower::Own(|node, graph| unary(node, graph, F::Log1p))),
    row("aten.ne", "Tensor Scalar", Lower::Own(|node, graph| compared(node, graph, F::Or))),
    row("aten.pow", "Tensor_Scalar", Lower::Own(power)),
    row("aten.reciprocal", "default", Lower::Own(|node, graph| unary(node, graph, F::Reciprocal))),
    row("aten.sin", "default", Lower::Own(|node, graph| unary(node, graph, F::Sin))),
    row("aten.sinh", "default", Lower::Own(|node, graph| unary(node, graph, F::Sinh))),
    row("aten.sqrt", "default", Lower::Own(|node, graph| unary(node, graph, F::Sqrt))),
    row("aten.square", "default", Lower::Own(square)),
    row("aten.tan", "default", Lower::Own(|node, graph| unary(node, graph, F::Tan))),
    row("aten.tanh", "default", Lower::Own(|node, graph| unary(node, graph, F::Tanh))),
    // --- Fourier transforms ---
    row("aten._fft_c2c", "default", Lower::Own(transform)),
    row("aten._fft_c2r", "default", Lower::Own(transform_to_real)),
    row("aten._fft_r2c", "default", Lower::Own(transform_of_real)),
];

/// The names of the operators that have a row here alone, with their overloads.
pub(super) fn operators() -> impl Iterator<Item = String> {
    let full = |row: &'static Row| {
        let names = row.overloads.split(' ').filter(|overload| !overload.is_empty());
        names.map(move |overload| format!("{}.{overload}", row.name))
    };
    TABLE.iter().flat_map(full).filter(|name| super::find(name).is_none())
}

/// Whether an operator has a row here.
#[cfg(test)]
pub(super) fn has(operator: &str) -> bool {
    find(operator).is_some()
}

/// How an operator of complex numbers is lowered.
fn find(operator: &str) -> Option<&'static Lower> {
    let (name, overload) = operator.rsplit_once('.')?;
    if MOVED.contains(&name) {
        return Some(&Lower::EachPart(&[SELF]));
    }
    let has = |row: &&Row| {
        row.overloads.is_empty() || row.overloads.split(' ').any(|own| own == overload)
    };
    TABLE.iter().filter(|row| row.name == name).find(has).map(|row| &row.lower)
}

/// Whether a node has to do with complex numbers.
pub(crate) fn is_complex(node: &Node<'_>) -> bool {
    let mut arguments =
        node.call.arguments.iter().chain(node.call.named.iter().map(|(_, argument)| argument));
    node.call.types.iter().flatten().any(|declared| declared.is_complex)
        || arguments.any(|argument| has_parts(argument, node.values))
}

fn has_parts(argument: &TraceArgument, values: &Values) -> bool {
    match argument {
        TraceArgument::Complex(..) => true,
        TraceArgument::Value(name) => {
            values.get(name).is_some_and(|found| found.iter().flatten().any(Value::is_complex))
        }
        TraceArgument::List(items) => items.iter().any(|item| has_parts(item, values)),
        _ => false,
    }
}

/// The results of a node that has to do with complex numbers.
pub(crate) fn lower(node: &Node<'_>, graph: &mut Graph) -> Found {
    let operator = &node.call.operator;
    let Some(lower) = find(operator) else {
        return Err(unsupported(format!("complex numbers by `{operator}`")));
    };
    let gives_complex = node.call.types.iter().flatten().any(|declared| declared.is_complex);
    match lower {
        Lower::Own(function) => function(node, graph),
        Lower::Real => {
            let own = real_result(node, graph, &[])?;
            own.iter().map(|part| Ok(graph.complex_of_real(part)?.into())).collect()
        }
        Lower::EachPart(arguments) => {
            let parts = |part: Part| -> Vec<(Argument, Part)> {
                arguments.iter().map(|&argument| (argument, part)).collect()
            };
            let re = real_result(node, graph, &parts(Part::Real))?;
            // A conversion to real numbers.
            if !gives_complex {
                return Ok(re.into_iter().map(Value::from).collect());
            }
            let im = real_result(node, graph, &parts(Part::Imaginary))?;
            Ok(re.into_iter().zip(im).map(|(re, im)| Complex { re, im }.into()).collect())
        }
        &Lower::Product([first, second]) => {
            let has = |(place, name): Argument| {
                node.argument(place, name).is_some_and(|it| has_parts(it, node.values))
            };
            let mut product = |one: Part, two: Part| -> Accepted<Option<Operand>> {
                // What has no imaginary part has no product with it.
                let is_none = |argument, part| part == Part::Imaginary && !has(argument);
                if is_none(first, one) || is_none(second, two) {
                    return Ok(None);
                }
                Ok(real_result(node, graph, &[(first, one), (second, two)])?.into_iter().next())
            };
            let (re, square) =
                (product(Part::Real, Part::Real)?, product(Part::Imaginary, Part::Imaginary)?);
            let (left, right) =
                (product(Part::Real, Part::Imaginary)?, product(Part::Imaginary, Part::Real)?);
            let re = match (re, square) {
                (Some(re), Some(square)) => graph.sub(&re, &square)?,
                (Some(re), None) => re,
                _ => return Err(unsupported("a product without a result")),
            };
            let im = match (left, right) {
                (Some(left), Some(right)) => graph.add(&left, &right)?,
                (Some(im), None) | (None, Some(im)) => im,
                (None, None) => return Ok(vec![graph.complex_of_real(&re)?.into()]),
            };
            Ok(vec![Complex { re, im }.into()])
        }
    }
}

/// What the operator's function for real numbers gives, with a part in the place of some arguments.
fn real_result(
    node: &Node<'_>,
    graph: &mut Graph,
    parts: &[(Argument, Part)],
) -> Accepted<Vec<Operand>> {
    let Some(function) = super::find(&node.call.operator) else {
        return Err(super::unsupported_operator(&node.call.operator));
    };
    let mut own = Parts { graph, values: Values::default(), given: node.values };
    let part_of = |place: Option<usize>, name: Option<&str>| {
        let is_own =
            |&&((own, called), _): &&(Argument, Part)| place == Some(own) || name == Some(called);
        parts.iter().find(is_own).map(|&(_, part)| part)
    };
    let mut call = TraceNode { arguments: Vec::new(), named: Vec::new(), ..node.call.clone() };
    for (place, argument) in node.call.arguments.iter().enumerate() {
        call.arguments.push(own.of(argument, part_of(Some(place), None))?);
    }
    for (name, argument) in &node.call.named {
        call.named.push((name.clone(), own.of(argument, part_of(None, Some(name)))?));
    }
    let values = own.values;
    function(&Node { call: &call, values: &values, defined: node.defined }, graph)
}

/// The arguments of a node of real numbers that is made of one of complex ones.
struct Parts<'a> {
    graph: &'a mut Graph,
    values: Values,
    given: &'a Values,
}

impl Parts<'_> {
    /// An argument, or a part of it, under a name of its own.
    fn of(&mut self, argument: &TraceArgument, part: Option<Part>) -> Accepted<TraceArgument> {
        Ok(match (argument, part) {
            (TraceArgument::List(items), _) => {
                let items: Accepted<_> = items.iter().map(|item| self.of(item, part)).collect();
                TraceArgument::List(items?)
            }
            (TraceArgument::Value(name), Some(part)) => {
                let named = match part {
                    Part::Real => format!("{name}.re"),
                    Part::Imaginary => format!("{name}.im"),
                };
                let value = self.part(value_of(self.given, name)?, part)?;
                self.values.insert(&named, vec![Some(value.into())], None);
                TraceArgument::Value(named)
            }
            (TraceArgument::Value(name), None) => {
                let found = self.given.get(name).cloned().unwrap_or_default();
                self.values.insert(name, found, None);
                argument.clone()
            }
            (TraceArgument::Complex(re, _), Some(Part::Real)) => TraceArgument::Float(*re),
            (TraceArgument::Complex(_, im), Some(Part::Imaginary)) => TraceArgument::Float(*im),
            (
                TraceArgument::Float(_) | TraceArgument::Integer(_) | TraceArgument::Bool(_),
                Some(Part::Imaginary),
            ) => TraceArgument::Float(0.0),
            (argument, _) => argument.clone(),
        })
    }

    fn part(&mut self, value: &Value, part: Part) -> Accepted<Operand> {
        Ok(match (value, part) {
            (Value::Real(value), Part::Real) => value.clone(),
            (Value::Real(value), Part::Imaginary) => self.graph.complex_of_real(value)?.im,
            (Value::Complex(value), Part::Real) => value.re.clone(),
            (Value::Complex(value), Part::Imaginary) => value.im.clone(),
        })
    }
}

// --- parts ---

fn conjugate(node: &Node<'_>, graph: &mut Graph) -> Found {
    Ok(vec![match node.value(0, "self")? {
        Value::Complex(value) => graph.conjugate(value)?.into(),
        real @ Value::Real(_) => real.clone(),
    }])
}

fn viewed_as_complex(node: &Node<'_>, graph: &mut Graph) -> Found {
    let pairs = node.tensor(0, "self")?;
    Ok(vec![of_pairs(graph, &pairs)?.into()])
}

fn viewed_as_real(node: &Node<'_>, graph: &mut Graph) -> Found {
    let value = node.value(0, "self")?.complex(graph)?;
    Ok(vec![side_by_side(graph, &value)?.into()])
}

/// Both of the shape that they have together.
fn of_parts(node: &Node<'_>, graph: &mut Graph) -> Found {
    let (re, im) = (node.tensor(0, "real")?, node.tensor(1, "imag")?);
    let shape = node.shape()?;
    Ok(vec![Complex { re, im }.each(|part| graph.broadcast_to(part, shape))?.into()])
}

fn of_magnitude(node: &Node<'_>, graph: &mut Graph) -> Found {
    let (size, angle) = (node.tensor(0, "abs")?, node.tensor(1, "angle")?);
    let (cos, sin) = (graph.map(F::Cos, &[&angle])?, graph.map(F::Sin, &[&angle])?);
    Ok(vec![Complex { re: graph.mul(&size, &cos)?, im: graph.mul(&size, &sin)? }.into()])
}

fn magnitude(node: &Node<'_>, graph: &mut Graph) -> Found {
    let value = node.value(0, "self")?.complex(graph)?;
    Ok(vec![graph.complex_abs(&value)?.into()])
}

fn angle(node: &Node<'_>, graph: &mut Graph) -> Found {
    let value = node.value(0, "self")?.complex(graph)?;
    Ok(vec![graph.map(F::Atan2, &[&value.im, &value.re])?.into()])
}

// --- elements ---

fn unary(node: &Node<'_>, graph: &mut Graph, function: F) -> Found {
    let value = node.complex_as(graph, SELF, node.dtype()?)?;
    let found = graph.complex_map(function, &value)?;
    found.map(|found| vec![found.into()]).ok_or_else(|| unsupported("complex numbers"))
}

fn quotient(node: &Node<'_>, graph: &mut Graph) -> Found {
    let dtype = node.dtype()?;
    let a = node.complex_as(graph, SELF, dtype)?;
    let is_real = match node.argument(1, "other") {
        Some(it) => !has_parts(it, node.values),
        None => false,
    };
    if is_real {
        let b = node.operand_as(graph, (1, "other"), dtype)?;
        return Ok(vec![a.each(|part| graph.div(part, &b))?.into()]);
    }
    let b = node.complex_as(graph, (1, "other"), dtype)?;
    Ok(vec![graph.complex_div(&a, &b)?.into()])
}

/// Whether both parts are equal, or one is not.
fn compared(node: &Node<'_>, graph: &mut Graph, joined: F) -> Found {
    let wide = DType::F64;
    let a = node.complex_as(graph, SELF, wide)?;
    let b = node.complex_as(graph, (1, "other"), wide)?;
    let function = if joined == F::And { F::Eq } else { F::Ne };
    let (re, im) = (graph.map(function, &[&a.re, &b.re])?, graph.map(function, &[&a.im, &b.im])?);
    Ok(vec![graph.map(joined, &[&re, &im])?.into()])
}

fn square(node: &Node<'_>, graph: &mut Graph) -> Found {
    let value = node.value(0, "self")?.complex(graph)?;
    Ok(vec![graph.complex_mul(&value, &value)?.into()])
}

/// Powers whose exponents are small whole numbers, by products.
fn power(node: &Node<'_>, graph: &mut Graph) -> Found {
    const MOST: f64 = 8.0;
    let value = node.complex_as(graph, SELF, node.dtype()?)?;
    let exponent = node.number(1, "exponent")?.filter(|it| it.fract() == 0.0 && it.abs() <= MOST);
    let Some(exponent) = exponent.filter(|exponent| *exponent != 0.0) else {
        return Err(unsupported("a power of complex numbers by no small whole number"));
    };
    let mut power = value.clone();
    for _ in 1..exponent.abs() as usize {
        power = graph.complex_mul(&power, &value)?;
    }
    if exponent < 0.0 {
        let inverse = graph.complex_map(F::Reciprocal, &power)?;
        power = inverse.ok_or_else(|| unsupported("complex numbers"))?;
    }
    Ok(vec![power.into()])
}

// --- products ---

/// `beta * self + alpha * mat1 @ mat2`, with real factors.
fn product_and_sum(node: &Node<'_>, graph: &mut Graph) -> Found {
    let dtype = node.dtype()?;
    let a = node.complex_as(graph, (1, "mat1"), dtype)?;
    let b = node.complex_as(graph, (2, "mat2"), dtype)?;
    let product = graph.complex_bilinear(&a, &b, |graph, a, b| graph.matmul(a, b))?;
    let (beta, alpha) = (node.number(3, "beta")?, node.number(4, "alpha")?);
    let product = product.each(|part| graph.mul_number(part, alpha.unwrap_or(1.0)))?;
    if beta == Some(0.0) {
        return Ok(vec![product.into()]);
    }
    let addend = node.complex_as(graph, SELF, dtype)?;
    let addend = addend.each(|part| graph.mul_number(part, beta.unwrap_or(1.0)))?;
    Ok(vec![graph.complex_add(&product, &addend)?.into()])
}

// --- Fourier transforms ---

/// The axes of a transform, and the number of elements along each: of the result's last axis where
/// it is given.
fn axes_of(node: &Node<'_>, shape: &[Expr], last: Option<i64>) -> Accepted<Vec<(usize, usize)>> {
    let mut axes: Vec<(usize, usize)> = Vec::new();
    for axis in node.axes(1, "dim", shape.len())? {
        let extent = shape[axis].as_constant().and_then(|extent| usize::try_from(extent).ok());
        let extent = extent.filter(|extent| *extent > 0);
        axes.push((axis, extent.ok_or_else(|| unsupported("a transform of a free extent"))?));
    }
    if let (Some(length), Some(own)) = (last, axes.last_mut()) {
        let length = usize::try_from(length).ok().filter(|length| length / 2 + 1 == own.1);
        own.1 = length.ok_or_else(|| unsupported("a transform of another length"))?;
    }
    Ok(axes)
}

/// What results are multiplied with: 1, or by the number of elements or its root.
fn normalisation(node: &Node<'_>, axes: &[(usize, usize)]) -> Accepted<f64> {
    let count: f64 = axes.iter().map(|(_, length)| *length as f64).product();
    Ok(match node.int(2, "normalization", 0)? {
        0 => 1.0,
        1 => 1.0 / count.sqrt(),
        2 => 1.0 / count,
        other => return Err(unsupported(format!("the normalisation {other}"))),
    })
}

/// Each element times a number.
fn scaled(graph: &mut Graph, value: Value, factor: f64) -> Found {
    let scaled = |part: &Operand| match factor {
        1.0 => Ok(part.clone()),
        _ => graph.mul_number(part, factor),
    };
    Ok(vec![value.each(scaled)?])
}

fn transformed(
    graph: &mut Graph,
    mut value: Complex,
    axes: &[(usize, usize)],
    direction: Direction,
) -> Accepted<Complex> {
    for &(axis, length) in axes {
        value = fourier(graph, &value, axis, length, direction)?;
    }
    Ok(value)
}

fn transform(node: &Node<'_>, graph: &mut Graph) -> Found {
    let value = node.value(0, "self")?.complex(graph)?;
    let axes = axes_of(node, value.re.shape(), None)?;
    let is_forward = node.flag(3, "forward", true)?;
    let direction = if is_forward { Direction::Forward } else { Direction::Backward };
    let factor = normalisation(node, &axes)?;
    let value = transformed(graph, value, &axes, direction)?;
    scaled(graph, value.into(), factor)
}

/// The order of axes with one of them last, which is its own inverse.
fn with_last(axis: usize, rank: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(axis, rank - 1);
    order
}

/// Of real numbers: along the last axis given, and then along the others.
fn transform_of_real(node: &Node<'_>, graph: &mut Graph) -> Found {
    let x = node.tensor(0, "self")?;
    let axes = axes_of(node, x.shape(), None)?;
    let factor = normalisation(node, &axes)?;
    let Some((&(axis, length), others)) = axes.split_last() else {
        return Ok(vec![graph.complex_of_real(&x)?.into()]);
    };
    if !node.flag(3, "onesided", true)? {
        let value = graph.complex_of_real(&x)?;
        let value = transformed(graph, value, &axes, Direction::Forward)?;
        return scaled(graph, value.into(), factor);
    }
    let order = with_last(axis, x.rank());
    let turned = graph.transpose(&x, &order)?;
    let value = fourier_of_real(graph, &turned, length)?;
    let value = value.each(|part| graph.transpose(part, &order))?;
    let value = transformed(graph, value, others, Direction::Forward)?;
    scaled(graph, value.into(), factor)
}

/// To real numbers: along the other axes, and then along the last one given, of which half is
/// there.
fn transform_to_real(node: &Node<'_>, graph: &mut Graph) -> Found {
    let value = node.value(0, "self")?.complex(graph)?;
    let length = node.int(3, "last_dim_size", 0)?;
    let axes = axes_of(node, value.re.shape(), Some(length))?;
    let factor = normalisation(node, &axes)?;
    let Some((&(axis, length), others)) = axes.split_last() else {
        return Ok(vec![value.re.into()]);
    };
    let value = transformed(graph, value, others, Direction::Backward)?;
    let order = with_last(axis, value.re.rank());
    let turned = value.each(|part| graph.transpose(part, &order))?;
    let real = fourier_to_real(graph, &turned, length)?;
    let real = graph.transpose(&real, &order)?;
    scaled(graph, real.into(), factor)
}
