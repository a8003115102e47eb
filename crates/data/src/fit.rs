//! Tensors as an input declares them: what may be converted, and what is refused.
//!
//! Floats become floats of another width, integers and booleans any number that holds each of
//! their values. Nothing else is converted: a float for an integer may be a mistake.

use base::{Result, codes};
use tensor::{Class, DType, Kind, Tensor};
use tilewright::{Port, PortExtent};

use crate::sentences::unfit;

/// The tensor in the type that the port declares, with a note if that is another.
pub(crate) fn fit(
    tensor: Tensor,
    port: &Port,
    place: &str,
    notes: &mut Vec<String>,
) -> Result<Tensor> {
    if port.kind != Kind::Tensor {
        return Ok(tensor);
    }
    check_batch(&tensor, port, place)?;
    let given = tensor.dtype();
    let Some(wanted) = port.dtype.filter(|wanted| *wanted != given) else { return Ok(tensor) };
    let refuse = |reason: String, remedy: String| {
        let message = format!("input `{}` has elements of type {given}", port.name);
        unfit(codes::WRONG_DTYPE, message, place).because(reason).remedy(remedy)
    };
    let remedy = format!("convert it to {wanted}, as `numpy.save` after `astype` does");
    if !may_become(given, wanted) {
        let reason = format!("the model declares {wanted}, and {given} is no kind of it");
        return Err(refuse(reason, remedy).into());
    }
    let converted = tensor.cast(wanted);
    if let Some(index) = first_lost(&tensor, &converted) {
        let reason = format!("the model declares {wanted}, which does not hold {index}");
        return Err(refuse(reason, remedy).into());
    }
    notes.push(format!("{}: converted from {given} to {wanted}", port.name));
    Ok(converted)
}

/// Whether values of a type may stand for those of another, as far as they are held by it.
fn may_become(given: DType, wanted: DType) -> bool {
    matches!(
        (given.class(), wanted.class()),
        (Class::Float, Class::Float)
            | (
                Class::Signed | Class::Unsigned | Class::Bool,
                Class::Signed | Class::Unsigned | Class::Float
            )
    )
}

/// The first value that the other type does not hold: of integers any that changed, of floats one
/// that became infinite or no number.
fn first_lost(tensor: &Tensor, converted: &Tensor) -> Option<String> {
    let is_float = tensor.dtype().class() == Class::Float;
    if is_float && converted.dtype().bits() > tensor.dtype().bits() {
        return None;
    }
    let is_lost = |index: &usize| {
        let (old, new) = (tensor.get_scalar(*index), converted.get_scalar(*index));
        match (is_float, new.dtype().class()) {
            (true, _) => {
                let (old, new) = (old.as_f64(), new.as_f64());
                old.is_finite() != new.is_finite() || old.is_nan() != new.is_nan()
            }
            (false, Class::Float) => new.as_f64() as i128 != old.as_i128(),
            (false, _) => new.as_i128() != old.as_i128(),
        }
    };
    (0..tensor.len()).find(is_lost).map(|index| tensor.get_scalar(index).to_string())
}

/// Refuses a tensor that lacks nothing but the outermost axis: whether it is a batch of one, only
/// its owner knows.
fn check_batch(tensor: &Tensor, port: &Port, place: &str) -> Result<()> {
    let [outermost, inner @ ..] = port.shape.as_slice() else { return Ok(()) };
    let fits = |(extent, given): (&PortExtent, &usize)| match extent {
        PortExtent::Fixed(extent) => extent == given,
        PortExtent::Symbolic(_) => true,
        PortExtent::Any => false,
    };
    let takes_one = matches!(outermost, PortExtent::Fixed(1) | PortExtent::Symbolic(_));
    let shape = tensor.shape();
    let lacks_one = takes_one && shape.len() == inner.len() && inner.iter().zip(shape).all(fits);
    if !lacks_one || port.shape.contains(&PortExtent::Any) {
        return Ok(());
    }
    let whole: Vec<usize> = std::iter::once(1).chain(shape.iter().copied()).collect();
    let message = format!("input `{}` has shape {shape:?}", port.name);
    Err(unfit(codes::WRONG_SHAPE, message, place)
        .because(format!("the model declares {port}: the axis in front, of the batch, is missing"))
        .remedy(format!(
            "if it is a batch of one, give it in shape {whole:?}: as an array `a[numpy.newaxis]`, \
             in JSON within one more pair of brackets"
        ))
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sentences::tests::port;

    fn fitted(tensor: Tensor, text: &str) -> std::result::Result<Vec<f64>, String> {
        let mut notes = Vec::new();
        let fitted = fit(tensor.clone(), &port(text), "here", &mut notes)
            .map_err(|found| format!("{}; {}", found[0].message, found[0].reasons[0]))?;
        assert_eq!(notes.len(), usize::from(fitted.dtype() != tensor.dtype()), "said aloud");
        Ok(fitted.to_f64_vec())
    }

    #[test]
    fn types_that_hold_the_values() {
        let floats = Tensor::from_slice(&[2], &[0.1_f64, f64::INFINITY]);
        assert_eq!(fitted(floats, "x: f32[2]"), Ok(vec![f64::from(0.1_f32), f64::INFINITY]));
        let integers = Tensor::from_slice(&[2], &[-7_i64, 1 << 24]);
        for text in ["x: i32[2]", "x: f32[2]", "x: i64[2]", "x: f64[n]"] {
            assert_eq!(fitted(integers.clone(), text), Ok(vec![-7.0, 16_777_216.0]), "{text}");
        }
        let booleans = Tensor::splat(&[1], tensor::Scalar::bool(true));
        assert_eq!(fitted(booleans, "x: u8[1]"), Ok(vec![1.0]));
    }

    #[test]
    fn types_that_do_not() {
        let refused = |tensor: &Tensor, text: &str| fitted(tensor.clone(), text).expect_err(text);
        let large = Tensor::from_slice(&[1], &[(1_i64 << 53) + 1]);
        for (text, wanted) in [("x: i32[1]", "i32"), ("x: f64[1]", "f64"), ("x: f32[1]", "f32")] {
            let said = refused(&large, text);
            let all = format!("declares {wanted}, which does not hold 9007199254740993");
            assert!(said.contains("type i64") && said.contains(&all), "{said}");
        }
        let huge = Tensor::from_slice(&[1], &[1e300]);
        assert!(refused(&huge, "x: f32[1]").contains("does not hold 1e300"));
        let whole = Tensor::from_slice(&[1], &[1.0_f64]);
        assert!(refused(&whole, "x: i64[1]").contains("f64 is no kind of it"));
        let text = Tensor::from_strings(&[1], vec![String::new()]);
        assert!(refused(&text, "x: f32[1]").contains("string is no kind of it"));
    }

    #[test]
    fn a_missing_batch_axis_is_named() {
        let picture = Tensor::zeros(DType::F32, &[3, 8, 8]);
        for text in ["x: f32[n, 3, 8, 8]", "x: f32[1, 3, h, w]"] {
            let said = fitted(picture.clone(), text).expect_err("refused");
            assert!(said.contains("of the batch, is missing"), "{said}");
        }
        for text in ["x: f32[2, 3, 8, 8]", "x: f32[3, 8, 8]", "x: f32[n, 4, 8, 8]"] {
            assert!(fitted(picture.clone(), text).is_ok(), "{text} is for others to judge");
        }
    }
}
