//! Routines of LAPACK, as JAX calls them on CPUs: `lapack_`, the letter of an element type, the
//! routine's name, `_ffi`. What is not told (a matrix whose memory a routine takes for other
//! things) is what was given.

use base::{Diagnostic, codes};
use front::{Accepted, Graph, shape_error};
use tensor::Scalar;

use super::algebra::{known_extents, matrices, shaped};
use super::elimination::eliminated;
use super::linear::{TriangularForm, factored, failed_minor, solved};
use super::reflections::{applied, reflected};
use super::rotations::{Factors, eigenvectors, singular_values};
use super::{LowerFunction, algebra};
use crate::importer::{Frame, Importer};
use crate::node::{Lowered, Node, Value, part_type};
use crate::syntax::Attribute;

/// The routines, by their names without the letter: those of real and of complex numbers may have
/// names of their own.
const ROUTINES: &[(&str, LowerFunction)] = &[
    ("geqrf", triangle_and_reflections),
    ("gesdd", singular),
    ("gesvd", singular),
    ("getrf", elimination),
    ("heevd", hermitian),
    ("orgqr", product_of_reflections),
    ("ormqr", times_reflections),
    ("potrf", cholesky),
    ("syevd", hermitian),
    ("trsm", triangular_system),
    ("ungqr", product_of_reflections),
    ("unmqr", times_reflections),
];

/// What lowers a call of this name, if it is one of a routine that is there.
pub(crate) fn routine(name: &str) -> Option<LowerFunction> {
    let name = name.strip_prefix("lapack_")?.strip_suffix("_ffi")?;
    let name = name.strip_prefix(['s', 'd', 'c', 'z'])?;
    ROUTINES.iter().find(|row| row.0 == name).map(|row| row.1)
}

/// What a call is told by a name.
pub(crate) fn told<'n>(node: &'n Node<'_>, name: &str) -> Option<&'n Attribute> {
    let config = node.attribute("mhlo.backend_config").or(node.attribute("backend_config"));
    let Some(Attribute::Record(entries)) = config else { return None };
    Attribute::of(entries, name)
}

/// A letter that a routine is told, as JAX writes it: a number of 8 bits; one of several.
fn letter(node: &Node<'_>, name: &str, letters: &[u8]) -> Accepted<u8> {
    let found = told(node, name).and_then(Attribute::integer);
    let found = found.and_then(|letter| u8::try_from(letter).ok());
    found.filter(|letter| letters.contains(letter)).ok_or_else(|| {
        let letters = String::from_utf8_lossy(letters);
        Diagnostic::error(codes::BAD_ATTRIBUTE, format!("`{name}` is not as it must be"))
            .because(format!("the routine is told a letter by it, one of `{letters}`"))
            .remedy("write the program anew")
    })
}

/// What says of each matrix that nothing went wrong.
fn no_failures(graph: &mut Graph, node: &Node<'_>, number: usize) -> Accepted<Value> {
    let dtype = part_type(&node.result_type(number)?.element)?;
    let shape = node.value(0)?.shape();
    let lead = shape.len().saturating_sub(2);
    Ok(graph.full(&shape[..lead], Scalar::zero(dtype))?.into())
}

fn cholesky<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let is_lower = letter(node, "uplo", b"LU")? == b'L';
    let graph = &mut importer.graph;
    let factor = factored(graph, node.value(0)?, is_lower)?;
    let info = failed_minor(graph, &factor, part_type(&node.result_type(1)?.element)?)?;
    Ok(vec![factor, info.into()])
}

fn triangular_system<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let transposition = letter(node, "trans_x", b"NTC")?;
    let form = TriangularForm {
        is_left: letter(node, "side", b"LR")? == b'L',
        is_lower: letter(node, "uplo", b"LU")? == b'L',
        is_transposed: transposition != b'N',
        is_conjugated: transposition == b'C',
        is_unit: letter(node, "diag", b"NU")? == b'U',
    };
    let (a, b) = (node.value(0)?, node.value(1)?);
    Ok(vec![solved(&mut importer.graph, a, b, form)?])
}

fn elimination<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let (factors, pivots, failed) = eliminated(&mut importer.graph, node.value(0)?)?;
    Ok(vec![factors, pivots.into(), failed.into()])
}

fn hermitian<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let is_lower = letter(node, "uplo", b"LU")? == b'L';
    letter(node, "mode", b"NV")?;
    let graph = &mut importer.graph;
    let (vectors, values) = eigenvectors(graph, node.value(0)?, is_lower)?;
    Ok(vec![vectors, values.into(), no_failures(graph, node, 2)?])
}

fn singular<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let factors = match letter(node, "mode", b"ASN")? {
        b'A' => Factors::Whole,
        b'S' => Factors::Thin,
        _ => Factors::None,
    };
    let graph = &mut importer.graph;
    let value = node.value(0)?;
    let (values, found) = singular_values(graph, value, factors)?;
    let (left, right) = match found {
        Some(found) => found,
        None => {
            let (left, right) = (node.fixed_shape(2)?, node.fixed_shape(3)?);
            let mut zeros = |shape: &[sym::Expr]| {
                value.each(|part| graph.full(shape, Scalar::zero(part.dtype())))
            };
            (zeros(&left)?, zeros(&right)?)
        }
    };
    Ok(vec![value.clone(), values.into(), left, right, no_failures(graph, node, 4)?])
}

fn triangle_and_reflections<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let (vectors, taus) = reflected(&mut importer.graph, node.value(0)?)?;
    Ok(vec![vectors, taus])
}

/// Stacks of vectors and taus of reflections.
fn reflections(graph: &mut Graph, node: &Node<'_>) -> Accepted<(Value, Value)> {
    let vectors = node.value(0)?.each(|part| matrices(graph, part))?;
    let (batch, rows, columns) = known_extents(&vectors)?;
    let taus = node.value(1)?;
    let count = taus.shape().last().cloned();
    let most = rows.min(columns) as i64;
    let fits = |count: &sym::Expr| count.as_constant().is_some_and(|count| count <= most);
    let count = count.filter(fits).ok_or_else(|| {
        shape_error(format!("matrices of {rows} rows and {columns} columns hold fewer reflections"))
    })?;
    let taus = shaped(graph, taus, &[batch, count])?;
    Ok((vectors, taus))
}

fn product_of_reflections<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let graph = &mut importer.graph;
    let shape = node.value(0)?.shape().to_vec();
    let (vectors, taus) = reflections(graph, node)?;
    let (batch, rows, columns) = known_extents(&vectors)?;
    let units = algebra::units(graph, &vectors, (&batch, rows, columns))?;
    let product = applied(graph, (&vectors, &taus), &units, false)?;
    Ok(vec![shaped(graph, &product, &shape)?])
}

/// A matrix times the product of reflections, on one side of it.
fn times_reflections<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let graph = &mut importer.graph;
    let flag = |name: &str| told(node, name).and_then(Attribute::flag).unwrap_or(false);
    let (is_left, is_adjoint) = (flag("left"), flag("transpose"));
    let (vectors, taus) = reflections(graph, node)?;
    let shape = node.value(2)?.shape().to_vec();
    let mut a = node.value(2)?.each(|part| matrices(graph, part))?;
    // a Q = (Q^H a^H)^H
    if !is_left {
        a = algebra::adjoint(graph, &a)?;
    }
    if a.shape()[..2] != vectors.shape()[..2] {
        return Err(shape_error("the matrices do not fit each other"));
    }
    let mut found = applied(graph, (&vectors, &taus), &a, is_adjoint == is_left)?;
    if !is_left {
        found = algebra::adjoint(graph, &found)?;
    }
    Ok(vec![shaped(graph, &found, &shape)?])
}
