//! What the dialect demands of operations beyond what lowering them needs: attributes within their
//! bounds, operands that go together, bodies of the types of what they are given.
//!
//! Source: the constraints of each operation in StableHLO's specification, by the names that they
//! have there (C1, C2, ..). What lowering refuses by itself is not looked at twice.
//!
//! Invariants: an extent that is free fits any other.

use front::{Accepted, shape_error, type_error, unsupported};
use tensor::DType;

use crate::node::{Node, axes_within};
use crate::operators::{Lower, Row};
use crate::syntax::{Attribute, Block, ElementType, TensorType, ValueType};

/// Refuses an operation that is not as the dialect demands.
pub(crate) fn verify(row: &Row, node: &Node<'_>) -> Accepted<()> {
    extents(node)?;
    accuracy(node)?;
    granularity(row, node)?;
    match row.name.strip_prefix("stablehlo.").unwrap_or_default() {
        "broadcast" => broadcast(node),
        "select" => select(node),
        "dynamic_broadcast_in_dim" => hints(node).and_then(|()| told_shape(node, 1)),
        "dynamic_reshape" => told_shape(node, 1),
        "dynamic_iota" => told_shape(node, 0),
        "dynamic_slice" => indices(node, 1),
        "dynamic_update_slice" => indices(node, 2),
        "case" | "if" => selector(node),
        "composite" => composite(node),
        "collective_permute" => sources_and_targets(node),
        "dot_general" => precision(node).and_then(|()| algorithm(node)),
        "dot" => precision(node),
        "convolution" | "dynamic_conv" => precision(node).and_then(|()| convolution(node)),
        "triangular_solve" => match node.word("transpose_a") {
            Ok("TRANSPOSE_INVALID") => Err(unsupported("a transposition that is none")),
            _ => Ok(()),
        },
        "map" => map(node),
        "sort" => sort(node),
        "reduce" => reduction(node, node.operands.len() / 2),
        "reduce_window" => {
            window(node, node.operand_type(0)?.shape.len())?;
            reduction(node, node.operands.len() / 2)
        }
        "select_and_scatter" => select_and_scatter(node),
        "gather" | "dynamic_gather" => gather(node),
        "scatter" => scatter(node),
        _ => Ok(()),
    }
}

// --- types ---

/// Whether shapes may be the same.
fn same_shape(a: &TensorType, b: &TensorType) -> bool {
    let fits = |(a, b): (&Option<usize>, &Option<usize>)| a.is_none() || b.is_none() || a == b;
    a.shape.len() == b.shape.len() && a.shape.iter().zip(&b.shape).all(fits)
}

/// The type of numbers of an element; quantised ones stand for theirs.
fn numbers(element: &ElementType) -> Option<(DType, bool)> {
    match element {
        ElementType::Plain(dtype) => Some((*dtype, false)),
        ElementType::Complex(dtype) => Some((*dtype, true)),
        ElementType::Quantised(_) | ElementType::Other(_) => None,
    }
}

/// Whether elements of one type may be summed in another: the same kind, with as many bits.
fn is_promotable(from: &ElementType, to: &ElementType) -> bool {
    match (numbers(from), numbers(to)) {
        (Some((from, from_pair)), Some((to, to_pair))) => {
            from_pair == to_pair && from.class() == to.class() && from.bits() <= to.bits()
        }
        _ => true,
    }
}

fn is_same(from: &ElementType, to: &ElementType) -> bool {
    match (numbers(from), numbers(to)) {
        (Some(from), Some(to)) => from == to,
        _ => true,
    }
}

/// The types of some operands.
fn operand_types<'p>(
    node: &'p Node<'_>,
    from: usize,
    count: usize,
) -> Accepted<Vec<&'p TensorType>> {
    (from..from + count).map(|number| node.operand_type(number)).collect()
}

/// The scalar that a value of a body is.
fn scalar<'p>(node: &Node<'p>, value: usize) -> Accepted<&'p ElementType> {
    match &node.function.values[value] {
        ValueType::Tensor(ty) if ty.shape.is_empty() => Ok(&ty.element),
        _ => Err(type_error("a body is of scalars, and has a parameter or result of a shape")),
    }
}

/// The element types of the scalars that a body takes and gives.
fn body<'p>(
    node: &Node<'p>,
    region: usize,
    (parameters, results): (usize, usize),
) -> Accepted<(Vec<&'p ElementType>, Vec<&'p ElementType>)> {
    let block: &'p Block = match node.operation.regions.get(region) {
        Some(block) => block,
        None => return Err(shape_error("a body is not there")),
    };
    let given = block.operations.last().map_or(&[][..], |last| &last.operands[..]);
    if (block.parameters.len(), given.len()) != (parameters, results) {
        let (takes, gives) = (block.parameters.len(), given.len());
        return Err(shape_error(format!(
            "a body takes {takes} values and gives {gives}, where {parameters} and {results} are \
             demanded"
        )));
    }
    let scalars = |values: &[usize]| -> Accepted<Vec<&'p ElementType>> {
        values.iter().map(|&it| scalar(node, it)).collect()
    };
    Ok((scalars(&block.parameters)?, scalars(given)?))
}

fn is_predicate(elements: &[&ElementType]) -> Accepted<()> {
    match elements {
        [ElementType::Plain(DType::Bool)] => Ok(()),
        _ => Err(type_error("a body gives one truth value, and does not here")),
    }
}

// --- attributes ---

/// What is multiplied with extents: so large as extents may be together, and no larger.
fn extents(node: &Node<'_>) -> Accepted<()> {
    const NAMES: &[&str] = &[
        "base_dilations",
        "edge_padding_high",
        "edge_padding_low",
        "interior_padding",
        "lhs_dilation",
        "padding",
        "rhs_dilation",
        "window_dilations",
        "window_dimensions",
        "window_strides",
    ];
    const MOST: i64 = 1 << 30;
    for name in NAMES {
        let numbers = node.attribute(name).and_then(Attribute::integers).unwrap_or_default();
        let large = numbers.iter().find(|number| number.unsigned_abs() > MOST as u64);
        if let Some(large) = large {
            return Err(shape_error(format!("`{name}` has {large}, which is too large")));
        }
    }
    let sizes = node.attribute("window_dimensions").and_then(Attribute::integers);
    let sizes = sizes.unwrap_or_default();
    let all = sizes.iter().try_fold(1_i64, |all, size| all.checked_mul(*size));
    match all.is_some_and(|all| all <= MOST) {
        true => Ok(()),
        false => Err(shape_error("a window has too many elements")),
    }
}

/// How far a function may be off: a distance is told with a mode that has one alone.
fn accuracy(node: &Node<'_>) -> Accepted<()> {
    let Some(Attribute::Record(entries)) = node.attribute("result_accuracy") else {
        return Ok(());
    };
    let mode = Attribute::of(entries, "mode").and_then(Attribute::word).unwrap_or("TOLERANCE");
    let is_zero = |name: &str| match Attribute::of(entries, name) {
        Some(Attribute::Float(number)) => *number == 0.0,
        Some(other) => other.integer() == Some(0),
        None => true,
    };
    match mode == "TOLERANCE" || ["atol", "rtol", "ulps"].into_iter().all(is_zero) {
        true => Ok(()),
        false => Err(unsupported(format!("tolerances of a result of accuracy {mode}"))),
    }
}

/// Functions of elements know one scale for all axes.
fn granularity(row: &Row, node: &Node<'_>) -> Accepted<()> {
    const SEVERAL: &[&str] = &[
        "stablehlo.bitcast_convert",
        "stablehlo.constant",
        "stablehlo.optimization_barrier",
        "stablehlo.uniform_dequantize",
        "stablehlo.uniform_quantize",
    ];
    let is_elementwise = matches!(row.lower, Lower::Map(_) | Lower::Elementwise(_));
    if !is_elementwise || !row.name.starts_with("stablehlo.") || SEVERAL.contains(&row.name) {
        return Ok(());
    }
    let values = node.operation.operands.iter().chain(&node.operation.results);
    for &value in values {
        if let ValueType::Tensor(ty) = &node.function.values[value]
            && matches!(&ty.element, ElementType::Quantised(it) if it.axis.is_some())
        {
            return Err(type_error("quantised numbers with a scale for each index of an axis"));
        }
    }
    Ok(())
}

fn precision(node: &Node<'_>) -> Accepted<()> {
    let Some(Attribute::List(list)) = node.attribute("precision_config") else { return Ok(()) };
    let is_known = |it: &Attribute| {
        it.word().is_some_and(|word| ["DEFAULT", "HIGH", "HIGHEST"].contains(&word))
    };
    match list.len() <= 2 && list.iter().all(is_known) {
        true => Ok(()),
        false => Err(unsupported("a precision that is not known, or for more than two operands")),
    }
}

/// An algorithm counts parts of numbers, and leaves nothing to a precision.
fn algorithm(node: &Node<'_>) -> Accepted<()> {
    let Some(Attribute::Record(entries)) = node.attribute("algorithm") else { return Ok(()) };
    for name in ["lhs_component_count", "rhs_component_count", "num_primitive_operations"] {
        let count = Attribute::of(entries, name).and_then(Attribute::integer);
        if count.is_some_and(|count| count < 1) {
            return Err(unsupported(format!("an algorithm whose `{name}` is not positive")));
        }
    }
    match node.attribute("precision_config") {
        Some(Attribute::List(list)) if list.iter().any(|it| it.word() != Some("DEFAULT")) => {
            Err(unsupported("an algorithm together with a precision"))
        }
        _ => Ok(()),
    }
}

/// A name has the dialect before a dot.
fn composite(node: &Node<'_>) -> Accepted<()> {
    let name = node.word("name")?;
    let is_first = |it: char| it.is_ascii_alphabetic();
    let is_word =
        |part: &str| part.chars().all(|it| it.is_ascii_alphanumeric() || matches!(it, '_' | '$'));
    let is_name = match name.split_once('.') {
        Some((dialect, own)) => {
            dialect.starts_with(is_first)
                && is_word(dialect)
                && !own.is_empty()
                && own.split('.').all(|part| !part.is_empty() && is_word(part))
        }
        None => false,
    };
    match is_name {
        true => Ok(()),
        false => Err(unsupported(format!("a composite of the name `{name}`, without a dialect"))),
    }
}

// --- shapes ---

fn broadcast(node: &Node<'_>) -> Accepted<()> {
    let mut shape: Vec<Option<usize>> = Vec::new();
    for size in node.required("broadcast_sizes")? {
        let size = usize::try_from(size).map_err(|_| shape_error("an extent is negative"))?;
        shape.push(Some(size));
    }
    let operand = node.operand_type(0)?;
    shape.extend(&operand.shape);
    let made = TensorType { shape, element: operand.element.clone() };
    match same_shape(&made, node.result_type(0)?) {
        true => Ok(()),
        false => Err(shape_error("the result has not the sizes and then the operand's extents")),
    }
}

/// Extents that an operand tells, where they are known, are those of the result.
fn told_shape(node: &Node<'_>, number: usize) -> Accepted<()> {
    let Some(numbers) = node.real(number)?.numbers() else { return Ok(()) };
    let sizes: Vec<i64> = numbers.iter().map(|number| number.as_i64()).collect();
    let declared = &node.result_type(0)?.shape;
    let differs = |(size, extent): (&i64, &Option<usize>)| {
        *size < 0 || extent.is_some_and(|extent| extent as i64 != *size)
    };
    match sizes.len() != declared.len() || sizes.iter().zip(declared).any(differs) {
        true => Err(shape_error(format!("the result is declared otherwise than {sizes:?}"))),
        false => Ok(()),
    }
}

/// Which axes are known to be spread, and which not: each at most once.
fn hints(node: &Node<'_>) -> Accepted<()> {
    let rank = node.operand_type(0)?.shape.len();
    let mut axes = Vec::new();
    for name in ["known_expanding_dimensions", "known_nonexpanding_dimensions"] {
        axes.extend(node.integers(name)?.unwrap_or_default());
    }
    axes_within(&axes, rank).map(|_| ())
}

fn select(node: &Node<'_>) -> Accepted<()> {
    let (predicate, value) = (node.operand_type(0)?, node.operand_type(1)?);
    match predicate.shape.is_empty() || same_shape(predicate, value) {
        true => Ok(()),
        false => Err(shape_error("the predicate has another shape than what it selects of")),
    }
}

/// Indices that are operands are of one type.
fn indices(node: &Node<'_>, from: usize) -> Accepted<()> {
    let count = node.operands.len().saturating_sub(from);
    let types = operand_types(node, from, count)?;
    match types.windows(2).all(|pair| pair[0].element == pair[1].element) {
        true => Ok(()),
        false => Err(type_error("the indices differ in type")),
    }
}

/// What chooses a region is a scalar.
fn selector(node: &Node<'_>) -> Accepted<()> {
    match node.operand_type(0)?.shape.is_empty() {
        true => Ok(()),
        false => Err(shape_error("what chooses a region is no scalar")),
    }
}

/// Pairs of devices, of which none sends twice or is sent to twice.
fn sources_and_targets(node: &Node<'_>) -> Accepted<()> {
    let Some(Attribute::Elements(elements)) = node.attribute("source_target_pairs") else {
        return Ok(());
    };
    if !matches!(elements.shape[..], [_, 2]) {
        let shape = &elements.shape;
        return Err(shape_error(format!("sources and targets of shape {shape:?}, not [n, 2]")));
    }
    let pairs = node.required("source_target_pairs")?;
    for side in 0..2 {
        let mut devices: Vec<i64> = pairs.iter().skip(side).step_by(2).copied().collect();
        devices.sort_unstable();
        if devices.iter().any(|device| *device < 0) || devices.windows(2).any(|it| it[0] == it[1]) {
            return Err(shape_error(format!(
                "devices {pairs:?} that are none, or are named twice"
            )));
        }
    }
    Ok(())
}

/// Windows have an extent, and padding of both sides.
fn window(node: &Node<'_>, rank: usize) -> Accepted<()> {
    if let Some(extents) = node.integers("window_dimensions")?
        && (extents.len() != rank || extents.iter().any(|extent| *extent < 1))
    {
        return Err(shape_error(format!("windows of extents {extents:?} for {rank} axes")));
    }
    padding(node, rank)
}

fn padding(node: &Node<'_>, rank: usize) -> Accepted<()> {
    match node.attribute("padding") {
        Some(Attribute::Elements(elements)) if elements.shape != [rank, 2] => {
            Err(shape_error(format!("a padding of shape {:?} for {rank} axes", elements.shape)))
        }
        _ => Ok(()),
    }
}

fn convolution(node: &Node<'_>) -> Accepted<()> {
    let (input, kernel) = (node.operand_type(0)?, node.operand_type(1)?);
    if !is_same(&input.element, &kernel.element) {
        return Err(type_error("the operands of a convolution differ in type"));
    }
    let spatial =
        node.axes_of("dimension_numbers", "kernel_spatial_dimensions", kernel.shape.len());
    let spatial = spatial?;
    if spatial.iter().any(|&axis| kernel.shape[axis] == Some(0)) {
        return Err(shape_error("a window without extent"));
    }
    let rank = spatial.len();
    for name in ["window_strides", "lhs_dilation", "rhs_dilation", "window_reversal"] {
        node.each_axis(name, rank, 1)?;
    }
    padding(node, rank)
}

// --- bodies ---

fn map(node: &Node<'_>) -> Accepted<()> {
    let operands = operand_types(node, 0, node.operands.len())?;
    let (parameters, _) = body(node, 0, (operands.len(), 1))?;
    if !parameters.iter().zip(&operands).all(|(own, operand)| is_same(&operand.element, own)) {
        return Err(type_error("a body takes another type than the operand's"));
    }
    let axes = node.required("dimensions")?;
    let rank = operands.first().map_or(0, |ty| ty.shape.len());
    match axes.iter().copied().eq(0..rank as i64) {
        true => Ok(()),
        false => Err(shape_error(format!("a map along axes {axes:?}, not along all in order"))),
    }
}

fn sort(node: &Node<'_>) -> Accepted<()> {
    let operands = operand_types(node, 0, node.operands.len())?;
    let (parameters, results) = body(node, 0, (2 * operands.len(), 1))?;
    let fits = |(number, own): (usize, &&ElementType)| is_same(&operands[number / 2].element, own);
    if !parameters.iter().enumerate().all(fits) {
        return Err(type_error("a comparison takes another type than the operand's"));
    }
    is_predicate(&results)
}

/// Operands of one shape and initial values; a body of pairs of scalars.
fn reduction(node: &Node<'_>, count: usize) -> Accepted<()> {
    if count == 0 || node.operands.len() != 2 * count {
        return Err(shape_error("a reduction has as many initial values as operands"));
    }
    let (operands, initial) = (operand_types(node, 0, count)?, operand_types(node, count, count)?);
    if !initial.iter().all(|ty| ty.shape.is_empty()) {
        return Err(shape_error("an initial value is no scalar"));
    }
    if !operands.iter().all(|ty| same_shape(ty, operands[0])) {
        return Err(shape_error("what is reduced together differs in shape"));
    }
    let (parameters, results) = body(node, 0, (2 * count, count))?;
    if node.operation.results.len() != count {
        return Err(shape_error("a reduction has as many results as operands"));
    }
    for number in 0..count {
        let (result, own) = (node.result_type(number)?, results[number]);
        let sides = [parameters[number], parameters[number + count]];
        let fits = sides.iter().all(|side| is_same(side, own))
            && is_promotable(&operands[number].element, own)
            && is_promotable(&initial[number].element, own)
            && is_same(&result.element, own);
        if !fits {
            return Err(type_error("a body is of another type than what is reduced"));
        }
    }
    Ok(())
}

fn select_and_scatter(node: &Node<'_>) -> Accepted<()> {
    let (operand, initial) = (node.operand_type(0)?, node.operand_type(2)?);
    window(node, operand.shape.len())?;
    let (chosen, results) = body(node, 0, (2, 1))?;
    is_predicate(&results)?;
    let (summed, results) = body(node, 1, (2, 1))?;
    let fits = chosen.iter().all(|own| is_same(&operand.element, own))
        && summed.iter().all(|own| is_same(own, results[0]))
        && is_promotable(&operand.element, results[0])
        && is_promotable(&initial.element, results[0]);
    if fits { Ok(()) } else { Err(type_error("a body is of another type than the operand")) }
}

// --- gather and scatter ---

fn is_increasing(axes: &[usize], name: &str) -> Accepted<()> {
    match axes.windows(2).all(|pair| pair[0] < pair[1]) {
        true => Ok(()),
        false => Err(shape_error(format!("`{name}` is not in order: {axes:?}"))),
    }
}

/// The axes of batches of the operand and of the indices, which go together, and those that indices
/// are for.
fn indexed_axes(
    node: &Node<'_>,
    record: &str,
    (of_operand, of_indices, mapped): (&str, &str, &str),
    (operand, indices): (&TensorType, &TensorType),
) -> Accepted<Vec<usize>> {
    let (rank, index_rank) = (operand.shape.len(), indices.shape.len());
    let batching = node.axes_of(record, of_operand, rank)?;
    let index_batching = node.axes_of(record, of_indices, index_rank)?;
    is_increasing(&batching, of_operand)?;
    let extents = |(axis, other): (&usize, &usize)| (operand.shape[*axis], indices.shape[*other]);
    let differ = |(a, b): (Option<usize>, Option<usize>)| a.is_some() && b.is_some() && a != b;
    if batching.len() != index_batching.len()
        || batching.iter().zip(&index_batching).map(extents).any(differ)
    {
        return Err(shape_error(format!("`{of_operand}` and `{of_indices}` do not go together")));
    }
    let mapped_axes = node.axes_of(record, mapped, rank)?;
    if mapped_axes.iter().any(|axis| batching.contains(axis)) {
        return Err(shape_error(format!("an axis is of `{mapped}` and of `{of_operand}`")));
    }
    let axis = node.axis_of(record, "index_vector_dim")?.unwrap_or(0);
    let count = indices.shape.get(axis).copied().unwrap_or(Some(1));
    if count.is_some_and(|count| count != mapped_axes.len()) {
        return Err(shape_error(format!("indices are of another length than `{mapped}`")));
    }
    Ok(batching)
}

fn gather(node: &Node<'_>) -> Accepted<()> {
    const RECORD: &str = "dimension_numbers";
    let (operand, indices) = (node.operand_type(0)?, node.operand_type(1)?);
    let rank = operand.shape.len();
    let names = ("operand_batching_dims", "start_indices_batching_dims", "start_index_map");
    let batching = indexed_axes(node, RECORD, names, (operand, indices))?;
    let collapsed = node.axes_of(RECORD, "collapsed_slice_dims", rank)?;
    is_increasing(&collapsed, "collapsed_slice_dims")?;
    let sizes = match (node.integers("slice_sizes")?, node.operands.get(2)) {
        (Some(sizes), _) => Some(sizes),
        (None, Some(value)) => value
            .real()?
            .numbers()
            .map(|numbers| numbers.iter().map(|number| number.as_i64()).collect()),
        (None, None) => None,
    };
    let Some(sizes) = sizes.filter(|sizes| sizes.len() == rank) else { return Ok(()) };
    for (axis, (&size, extent)) in sizes.iter().zip(&operand.shape).enumerate() {
        let is_single = batching.contains(&axis) || collapsed.contains(&axis);
        let is_long = extent.is_some_and(|extent| size > extent as i64) || is_single && size > 1;
        if is_long || size < 0 {
            return Err(shape_error(format!("a slice of extent {size} along axis {axis}")));
        }
    }
    Ok(())
}

fn scatter(node: &Node<'_>) -> Accepted<()> {
    const RECORD: &str = "scatter_dimension_numbers";
    let count = node.operands.len() / 2;
    if node.operands.len() != 2 * count + 1 || count == 0 {
        return Err(shape_error("a scatter has as many updates as operands"));
    }
    let (operand, indices) = (node.operand_type(0)?, node.operand_type(count)?);
    let rank = operand.shape.len();
    let names =
        ("input_batching_dims", "scatter_indices_batching_dims", "scatter_dims_to_operand_dims");
    let batching = indexed_axes(node, RECORD, names, (operand, indices))?;
    let inserted = node.axes_of(RECORD, "inserted_window_dims", rank)?;
    is_increasing(&inserted, "inserted_window_dims")?;
    let updates = node.operand_type(count + 1)?;
    let windows = node.axes_of(RECORD, "update_window_dims", updates.shape.len())?;
    let kept = (0..rank).filter(|axis| !inserted.contains(axis) && !batching.contains(axis));
    for (axis, window) in kept.zip(&windows) {
        if let (Some(extent), Some(size)) = (operand.shape[axis], updates.shape[*window])
            && size > extent
        {
            return Err(shape_error(format!("an update of extent {size} along axis {axis}")));
        }
    }
    let (parameters, results) = body(node, 0, (2 * count, count))?;
    for number in 0..count {
        let sides = [parameters[number], parameters[number + count]];
        if !sides.iter().all(|side| is_same(side, results[number])) {
            return Err(type_error("a body takes another type than it gives"));
        }
    }
    Ok(())
}
