//! Operations that are no tensor arithmetic, on plain strings and bytes.
//!
//! Meaning is that of the operators of ONNX, and of ONNX Runtime's own, that they are for. This
//! crate knows neither tensors nor IRs; callers apply these functions to elements.

#[cfg(feature = "images")]
mod decoders;
mod hash;
mod pattern;
mod pixels;
mod tokens;

#[cfg(feature = "images")]
pub use decoders::is_image;
pub use hash::murmur3;
pub use pattern::Pattern;
pub use pixels::{PixelFormat, Pixels, decode_image, decode_upright};
pub use tokens::Tokenizer;

/// Which case a text is brought to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// As it is.
    Keep,
    /// Lower case.
    Lower,
    /// Upper case.
    Upper,
}

/// A text cut at a delimiter, at most `most` times; without a delimiter at runs of blanks, those
/// at the ends left out.
#[must_use]
pub fn split(text: &str, delimiter: Option<&str>, most: Option<usize>) -> Vec<String> {
    match (delimiter, most) {
        (Some(delimiter), Some(most)) => {
            text.splitn(most.saturating_add(1), delimiter).map(str::to_owned).collect()
        }
        (Some(delimiter), None) => text.split(delimiter).map(str::to_owned).collect(),
        (None, most) => {
            let mut pieces = Vec::new();
            let mut rest = text.trim();
            while !rest.is_empty() {
                if most == Some(pieces.len()) {
                    pieces.push(rest.to_owned());
                    break;
                }
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                pieces.push(rest[..end].to_owned());
                rest = rest[end..].trim_start();
            }
            pieces
        }
    }
}

/// A number with so many digits, without those at the end that say nothing; with an exponent where
/// it is large or small.
///
/// # Panics
/// Without digits.
#[must_use]
pub fn number_text(number: f64, digits: usize) -> String {
    if !number.is_finite() {
        let text = if number.is_nan() { "NaN" } else { "INF" };
        return format!("{}{text}", if number < 0.0 { "-" } else { "" });
    }
    let places = digits - 1;
    let scientific = format!("{number:.places$e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let short = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match usize::try_from(places as i32 - exponent) {
        Ok(places) if exponent >= -4 => short(&format!("{number:.places$}")),
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", short(mantissa), exponent.abs())
        }
    }
}

/// Words without those that stop, in a case. Words are compared as they are, or regardless of case.
#[must_use]
pub fn normalize(
    words: &[String],
    stops: &[String],
    is_case_sensitive: bool,
    case: Case,
) -> Vec<String> {
    let key = |word: &str| match is_case_sensitive {
        true => word.to_owned(),
        false => word.to_lowercase(),
    };
    let stops: Vec<String> = stops.iter().map(|stop| key(stop)).collect();
    let stays = words.iter().filter(|word| !stops.contains(&key(word)));
    stays
        .map(|word| match case {
            Case::Keep => word.clone(),
            Case::Lower => word.to_lowercase(),
            Case::Upper => word.to_uppercase(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
        let texts = [
            (0.0, "0"),
            (1.0, "1"),
            (-0.5, "-0.5"),
            (0.1_f32.into(), "0.1"),
            (123_456_789.0, "1.2345679e+08"),
            (99_999_999.0, "99999999"),
            (-1e10, "-1e+10"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (2.5e-300, "2.5e-300"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-INF"),
        ];
        for (number, text) in texts {
            assert_eq!(number_text(number, 8), text);
        }
    }

    #[test]
    fn texts_are_cut() {
        assert_eq!(split("a,b,,c", Some(","), None), words(&["a", "b", "", "c"]));
        assert_eq!(split("a,b,c", Some(","), Some(1)), words(&["a", "b,c"]));
        assert_eq!(split("  a  b c ", None, None), words(&["a", "b", "c"]));
        assert_eq!(split(" a  b c", None, Some(1)), words(&["a", "b c"]));
        assert_eq!(split("", None, None), words(&[]));
        assert_eq!(split("", Some(","), None), words(&[""]));
    }

    #[test]
    fn words_are_normalised() {
        let days = words(&["Monday", "tuesday", "monday"]);
        let stops = words(&["monday"]);
        assert_eq!(normalize(&days, &stops, true, Case::Upper), words(&["MONDAY", "TUESDAY"]));
        assert_eq!(normalize(&days, &stops, false, Case::Keep), words(&["tuesday"]));
        assert_eq!(normalize(&days, &[], true, Case::Lower)[0], "monday");
    }
}
