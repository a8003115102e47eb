//! Elements from texts: what files of text hold, as the type that an input declares.

use base::{Diagnostic, Result, codes};
use tensor::tensor::byte_size;
use tensor::{Class, DType, Scalar, Tensor};
use tilewright::{Port, PortExtent};

use crate::sentences::{malformed, unfit};

/// The type of an input's elements.
pub(crate) fn dtype_of(port: &Port, place: &str) -> Result<DType> {
    port.dtype.ok_or_else(|| {
        unfit(codes::WRONG_DTYPE, format!("the type of input `{}` is not known", port.name), place)
            .because("the model does not declare it, and a text has none")
            .remedy("give the input as `.npy`, which says its type")
            .into()
    })
}

/// A tensor of texts, one an element. An empty one is no number but for floats, where it is NaN.
/// `place` tells where an element stands.
pub(crate) fn tensor_of<T: AsRef<str>>(
    texts: &[T],
    (dtype, shape): (DType, &[usize]),
    place: &dyn Fn(usize) -> String,
) -> Result<Tensor> {
    if dtype == DType::String {
        let texts = texts.iter().map(|text| text.as_ref().to_owned()).collect();
        return Ok(Tensor::from_strings(shape, texts));
    }
    let mut scalars = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        scalars.push(number(dtype, text.as_ref()).map_err(|reason| {
            malformed("a number", &place(index), reason).remedy(format!(
                "give values of type {dtype}; `tilewright info MODEL` shows the types"
            ))
        })?);
    }
    Ok(Tensor::from_scalars(dtype, shape, &scalars))
}

/// A number as people write it: also `3.0` for an integer, `NaN`, `True`.
///
/// # Errors
/// Why it is none of the type.
pub(crate) fn number(dtype: DType, text: &str) -> std::result::Result<Scalar, String> {
    let text = text.trim();
    let bad = || format!("`{text}` is not a value of type {dtype}");
    match dtype.class() {
        Class::String => Err(bad()),
        Class::Bool => match text.to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(Scalar::bool(true)),
            "false" | "0" => Ok(Scalar::bool(false)),
            _ => Err(bad()),
        },
        Class::Signed | Class::Unsigned => {
            let digits = text.strip_prefix('+').unwrap_or(text);
            let whole = match digits.split_once('.') {
                Some((whole, zeros)) if zeros.bytes().all(|byte| byte == b'0') => whole,
                _ => digits,
            };
            Scalar::parse(dtype, whole).map_err(|reason| match reason.contains("outside") {
                true => reason,
                false => bad(),
            })
        }
        Class::Float if text.is_empty() => Ok(Scalar::from_f64(dtype, f64::NAN)),
        Class::Float => {
            let value: f64 = text.parse().map_err(|_| bad())?;
            let scalar = match dtype {
                // Rounded once.
                DType::F32 => Scalar::f32(text.parse().map_err(|_| bad())?),
                _ => Scalar::from_f64(dtype, value),
            };
            match value.is_finite() && !scalar.as_f64().is_finite() {
                true => Err(format!("`{text}` is beyond the range of {dtype}")),
                false => Ok(scalar),
            }
        }
    }
}

/// The shape of an input that so many elements fill: the declared one, its one free extent found.
pub(crate) fn filled_shape(port: &Port, count: usize, place: &str) -> Result<Vec<usize>> {
    if port.shape.contains(&PortExtent::Any) {
        return Ok(vec![count]);
    }
    let fixed = port.shape.iter().filter_map(|extent| match extent {
        PortExtent::Fixed(extent) => Some(*extent),
        PortExtent::Symbolic(_) | PortExtent::Any => None,
    });
    let known = fixed.fold(1, usize::saturating_mul);
    let free: Vec<&str> = port.free_extents().collect();
    let refuse = |reason: String, remedy: String| -> Diagnostic {
        let message = format!("{count} elements do not fill input `{}`", port.name);
        unfit(codes::WRONG_SHAPE, message, place).because(reason).remedy(remedy)
    };
    let found = match free.as_slice() {
        [] if known == count => 1,
        [_] if known > 0 && count.is_multiple_of(known) => count / known,
        [] | [_] => {
            let reason = format!("the model declares {port}, which takes {known} of them");
            let reason = reason + if free.is_empty() { "" } else { ", or a multiple" };
            return Err(refuse(reason, "give as many as the model declares".to_owned()).into());
        }
        [_, rest @ ..] => {
            let options: Vec<String> = rest.iter().map(|name| format!("--dim {name}=1")).collect();
            let reason = format!("{} of its extents are free in {port}", free.len());
            let remedy = format!("fix all but one, such as with `{}`", options.join(" "));
            return Err(refuse(reason, remedy).into());
        }
    };
    let extent = |extent: &PortExtent| match extent {
        PortExtent::Fixed(extent) => *extent,
        PortExtent::Symbolic(_) | PortExtent::Any => found,
    };
    Ok(port.shape.iter().map(extent).collect())
}

/// Whether a tensor fits the address space.
pub(crate) fn check_size(dtype: DType, shape: &[usize], place: &str) -> Result<()> {
    if byte_size(dtype, shape).is_some() {
        return Ok(());
    }
    let message = format!("a tensor {dtype}{shape:?} is too large");
    let refused = unfit(codes::WRONG_SHAPE, message, place);
    Err(refused.because("it does not fit the memory of any machine").remedy("give less").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sentences::tests::port;

    #[test]
    fn numbers_as_people_write_them() {
        for (dtype, text, bits) in [
            (DType::F32, " 1.5 ", Scalar::f32(1.5)),
            (DType::F32, "-.5e1", Scalar::f32(-5.0)),
            (DType::F64, "0.1", Scalar::f64(0.1)),
            (DType::I64, "3.0", Scalar::i64(3)),
            (DType::U8, "+7", Scalar::u8(7)),
            (DType::Bool, "True", Scalar::bool(true)),
            (DType::Bool, "0", Scalar::bool(false)),
            (DType::F32, "-Infinity", Scalar::f32(f32::NEG_INFINITY)),
        ] {
            assert_eq!(number(dtype, text), Ok(bits), "{text}");
        }
        assert!(number(DType::F32, "").expect("NaN").is_nan());
        let refused = |dtype, text| number(dtype, text).expect_err("refused");
        assert_eq!(refused(DType::F32, "1e40"), "`1e40` is beyond the range of f32");
        assert_eq!(refused(DType::I64, "3.5"), "`3.5` is not a value of type i64");
        assert_eq!(refused(DType::I64, ""), "`` is not a value of type i64");
        assert_eq!(refused(DType::U8, "300"), "300 is outside 0..=255, the range of u8");
        assert_eq!(refused(DType::Bool, "2"), "`2` is not a value of type bool");
        assert_eq!(refused(DType::F32, "word"), "`word` is not a value of type f32");
    }

    #[test]
    fn free_extents_are_found() {
        let shape = |text: &str, count| filled_shape(&port(text), count, "here");
        assert_eq!(shape("x: f32[n, 2]", 6), Ok(vec![3, 2]));
        assert_eq!(shape("x: f32[2, 3]", 6), Ok(vec![2, 3]));
        assert_eq!(shape("x: string[n, 1]", 1), Ok(vec![1, 1]));
        assert_eq!(shape("x: f32[]", 1), Ok(vec![]));
        for (text, remedy) in [
            ("x: f32[2, 3]", "give as many as the model declares"),
            ("x: f32[n, 2]", "give as many as the model declares"),
            ("x: f32[n, m]", "fix all but one, such as with `--dim m=1`"),
        ] {
            let found = shape(text, 5).expect_err("refused");
            assert_eq!(found[0].remedy.as_deref(), Some(remedy), "{text}");
        }
    }
}
