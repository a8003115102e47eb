//! Host functions: what a graph calls by name because it is no tensor arithmetic. Strings are
//! elements of tensors here; what is done with one of them, or with an encoded image, is for the
//! crate `host-ops`. To add one, add a row to the table and a function below.

use std::collections::HashMap;

use base::codes;
use graph::HostAttributes;
use host_ops::{Case, Pattern, PixelFormat, Tokenizer};
use tensor::tensor::element_count;
use tensor::{DType, Scalar, Tensor};

use crate::EvaluationFault;

/// Digits of a float that becomes a string, as ONNX Runtime has it.
const DIGITS: usize = 8;

/// Bytes that a string takes besides its letters.
const STRING_BYTES: usize = 24;

/// A host function about to run.
pub struct HostCall<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it is told.
    pub attributes: &'a HostAttributes,
    /// The element types of its results.
    pub dtypes: &'a [DType],
    /// Its operands.
    pub operands: &'a [Tensor],
    /// Hears how many bytes are about to be made.
    pub room: &'a mut dyn FnMut(u64) -> Result<(), EvaluationFault>,
}

type Computed = Result<Vec<Tensor>, EvaluationFault>;

/// A row of the table: a name, how many operands it takes, and what it does.
type HostFunction = (&'static str, usize, fn(HostCall<'_>) -> Computed);

/// The table.
const FUNCTIONS: [HostFunction; 14] = [
    ("take", 2, take),
    ("find", 2, find),
    ("join", 2, join),
    ("equal", 2, equal),
    ("concat", 2, concat),
    ("parse", 1, parse),
    ("print", 1, print),
    ("split", 1, split),
    ("normalize", 2, normalize),
    ("matches", 1, matches),
    ("tokens", 2, tokens),
    ("hash", 1, hash),
    ("values_at", 3, values_at),
    ("decode_image", 1, decode_image),
];

/// The results of a host function.
///
/// # Errors
/// What the function refuses; an unknown name.
pub fn call_host(call: HostCall<'_>) -> Computed {
    match FUNCTIONS
        .iter()
        .find(|(name, count, _)| *name == call.name && *count == call.operands.len())
    {
        Some((.., function)) => function(call),
        None => {
            let (name, count) = (call.name, call.operands.len());
            let message = format!("there is no host function `{name}` of {count} operands");
            Err(EvaluationFault::new(codes::UNSUPPORTED_OPERATOR, message))
        }
    }
}

#[cold]
#[inline(never)]
fn misfit(reason: impl Into<String>) -> EvaluationFault {
    EvaluationFault::new(codes::INCONSISTENT_SHAPES, reason)
}

fn texts(tensor: &Tensor) -> &[String] {
    tensor.strings().unwrap_or_default()
}

/// Hears of so many strings with so many letters at most.
fn room(call: &mut HostCall<'_>, strings: usize, letters: usize) -> Result<(), EvaluationFault> {
    (call.room)(strings.saturating_mul(STRING_BYTES + letters) as u64)
}

fn longest(strings: &[String]) -> usize {
    strings.iter().map(String::len).max().unwrap_or(0)
}

/// Places (i64), strings: the strings at the places.
fn take(mut call: HostCall<'_>) -> Computed {
    let (places, list) = (&call.operands[0], texts(&call.operands[1]));
    let (count, letters) = (places.len(), longest(list));
    room(&mut call, count, letters)?;
    let string = |place: Scalar| {
        let found = usize::try_from(place.as_i64()).ok().and_then(|place| list.get(place));
        found.cloned().ok_or_else(|| {
            let message = format!("there is no place {place} in {} strings", list.len());
            EvaluationFault::new(codes::INDEX_OUT_OF_RANGE, message)
        })
    };
    let strings = places.scalars().map(string).collect::<Result<Vec<String>, _>>()?;
    Ok(vec![Tensor::from_strings(places.shape(), strings)])
}

/// Two of strings: a vector of the strings of both.
fn join(call: HostCall<'_>) -> Computed {
    let all = call.operands.iter().flat_map(|list| texts(list).iter().cloned());
    let all: Vec<String> = all.collect();
    Ok(vec![Tensor::from_strings(&[all.len()], all)])
}

/// Strings, a vector of keys: the first place (i64) of each among the keys, or their number.
fn find(call: HostCall<'_>) -> Computed {
    let (strings, keys) = (&call.operands[0], texts(&call.operands[1]));
    let mut places: HashMap<&str, i64> = HashMap::new();
    for (place, key) in (0..).zip(keys) {
        places.entry(key).or_insert(place);
    }
    let place = |text: &String| places.get(text.as_str()).copied().unwrap_or(keys.len() as i64);
    let found: Vec<i64> = texts(strings).iter().map(place).collect();
    Ok(vec![Tensor::from_slice(strings.shape(), &found)])
}

/// Two tensors of strings broadcast to one shape, a function applied to each pair.
fn pairs<T>(
    call: &mut HostCall<'_>,
    function: impl Fn(&str, &str) -> T,
) -> Result<(Vec<usize>, Vec<T>), EvaluationFault> {
    let operands = call.operands;
    let (a, b) = (&operands[0], &operands[1]);
    let rank = a.shape().len().max(b.shape().len());
    let padded = |shape: &[usize]| [&vec![1; rank - shape.len()][..], shape].concat();
    let (left, right) = (padded(a.shape()), padded(b.shape()));
    let mut shape = Vec::new();
    for (&x, &y) in left.iter().zip(&right) {
        shape.push(match (x, y) {
            (1, other) | (other, 1) => other,
            _ if x == y => x,
            _ => return Err(misfit(format!("{:?} and {:?}", a.shape(), b.shape()))),
        });
    }
    let place = |own: &[usize], mut index: usize| {
        let (mut place, mut stride) = (0, 1);
        for (&extent, &own) in shape.iter().zip(own).rev() {
            place += if own == 1 { 0 } else { index % extent * stride };
            stride *= own;
            index /= extent;
        }
        place
    };
    let count = element_count(&shape).unwrap_or(usize::MAX);
    let (a, b) = (texts(a), texts(b));
    room(call, count, longest(a) + longest(b))?;
    let pair = |index| function(&a[place(&left, index)], &b[place(&right, index)]);
    let results = (0..count).map(pair).collect();
    Ok((shape, results))
}

/// Two of strings, broadcast to each other: whether they are the same.
fn equal(mut call: HostCall<'_>) -> Computed {
    let (shape, equal) = pairs(&mut call, |a, b| Scalar::bool(a == b))?;
    Ok(vec![Tensor::from_scalars(DType::Bool, &shape, &equal)])
}

/// Two of strings, broadcast to each other: one behind the other.
fn concat(mut call: HostCall<'_>) -> Computed {
    let (shape, strings) = pairs(&mut call, |a, b| format!("{a}{b}"))?;
    Ok(vec![Tensor::from_strings(&shape, strings)])
}

/// Strings: the numbers of the result's type that they stand for.
fn parse(call: HostCall<'_>) -> Computed {
    let to = call.dtypes.first().copied().unwrap_or(DType::F32);
    let number = |text: &String| {
        let (text, (low, high)) = (text.trim(), to.integer_range().unwrap_or_default());
        let found = match to {
            DType::F32 => text.parse().ok().map(Scalar::f32),
            _ if to.is_float() => text.parse().ok().map(|number| Scalar::from_f64(to, number)),
            _ => text
                .parse()
                .ok()
                .filter(|number| (low..=high).contains(number))
                .map(|number| Scalar::from_i128(to, number)),
        };
        let message = || format!("`{text}` is no number of type {to}");
        found.ok_or_else(|| EvaluationFault::new(codes::UNSUPPORTED_TYPE, message()))
    };
    let strings = &call.operands[0];
    let numbers = texts(strings).iter().map(number).collect::<Result<Vec<Scalar>, _>>()?;
    Ok(vec![Tensor::from_scalars(to, strings.shape(), &numbers)])
}

/// Numbers: strings.
fn print(mut call: HostCall<'_>) -> Computed {
    let numbers = &call.operands[0];
    room(&mut call, numbers.len(), 0)?;
    let text = |number: Scalar| match number.dtype().is_float() {
        true => host_ops::number_text(number.as_f64(), DIGITS),
        false => number.as_i128().to_string(),
    };
    Ok(vec![Tensor::from_strings(numbers.shape(), numbers.scalars().map(text).collect())])
}

/// Strings, cut at `delimiter` or at blanks, at most `most` times: the pieces along a new last axis
/// with empty ones behind them, and how many there are (i64).
fn split(mut call: HostCall<'_>) -> Computed {
    let strings = &call.operands[0];
    let delimiter = Some(call.attributes.text("delimiter")).filter(|text| !text.is_empty());
    let most = call.attributes.text("most").parse().ok();
    let pieces: Vec<Vec<String>> =
        texts(strings).iter().map(|text| host_ops::split(text, delimiter, most)).collect();
    let counts: Vec<i64> = pieces.iter().map(|pieces| pieces.len() as i64).collect();
    let counts = Tensor::from_slice(strings.shape(), &counts);
    Ok(vec![padded(&mut call, pieces, "")?, counts])
}

/// Strings for each string of the first operand along a new last axis, `pad` behind those of which
/// there are fewer.
fn padded(
    call: &mut HostCall<'_>,
    pieces: Vec<Vec<String>>,
    pad: &str,
) -> Result<Tensor, EvaluationFault> {
    let width = pieces.iter().map(Vec::len).max().unwrap_or(0);
    room(call, pieces.len().saturating_mul(width), pad.len())?;
    let row = |mut pieces: Vec<String>| {
        pieces.resize(width, pad.to_owned());
        pieces
    };
    let all: Vec<String> = pieces.into_iter().flat_map(row).collect();
    Ok(Tensor::from_strings(&[call.operands[0].shape(), &[width]].concat(), all))
}

/// What stands in front of and behind the tokens of a text that is marked.
const MARKS: [&str; 2] = ["\u{2}", "\u{3}"];

/// Strings, patterns: the tokens of each string with `least` letters or more along a new last axis,
/// `pad` behind them; what the patterns stand for says `by` (`letters`, `matches` or `between`).
/// With `mark` they stand between marks, unless there are no tokens at all.
fn tokens(mut call: HostCall<'_>) -> Computed {
    let told = call.attributes;
    let refused = |reason| EvaluationFault::new(codes::BAD_ATTRIBUTE, reason);
    let patterns = texts(&call.operands[1]).iter().map(|text| Pattern::new(text));
    let mut patterns = patterns.collect::<Result<Vec<Pattern>, _>>().map_err(refused)?;
    let tokenizer = match (told.text("by"), patterns.pop()) {
        ("matches", Some(pattern)) => Tokenizer::Matches(pattern),
        ("between", last) => Tokenizer::Between(patterns.into_iter().chain(last).collect()),
        _ => Tokenizer::Letters,
    };
    let least = told.text("least").parse().unwrap_or(1);
    let strings = texts(&call.operands[0]);
    room(&mut call, strings.iter().map(String::len).sum(), 1)?;
    let mut tokens: Vec<_> = strings.iter().map(|text| tokenizer.tokens(text, least)).collect();
    if !told.text("mark").is_empty() && tokens.iter().any(|tokens| !tokens.is_empty()) {
        for tokens in &mut tokens {
            tokens.insert(0, MARKS[0].to_owned());
            tokens.push(MARKS[1].to_owned());
        }
    }
    Ok(vec![padded(&mut call, tokens, told.text("pad"))?])
}

/// Strings or numbers: the hash (u32 or i32) of the bytes of each with `seed`.
fn hash(call: HostCall<'_>) -> Computed {
    let (x, seed) = (&call.operands[0], call.attributes.text("seed").parse().unwrap_or(0));
    let hashes: Vec<u32> = match x.strings() {
        Some(texts) => texts.iter().map(|it| host_ops::murmur3(it.as_bytes(), seed)).collect(),
        None => {
            let elements = x.bytes().chunks_exact((x.bytes().len() / x.len().max(1)).max(1));
            elements.map(|element| host_ops::murmur3(element, seed)).collect()
        }
    };
    Ok(vec![match call.dtypes.first() {
        Some(DType::I32) => {
            let signed: Vec<i32> = hashes.into_iter().map(u32::cast_signed).collect();
            Tensor::from_slice(x.shape(), &signed)
        }
        _ => Tensor::from_slice(x.shape(), &hashes),
    }])
}

/// A vector of words, and those that stop: the others in a `case`, or one empty string;
/// `is_case_sensitive` or not.
fn normalize(call: HostCall<'_>) -> Computed {
    let case = match call.attributes.text("case") {
        "LOWER" => Case::Lower,
        "UPPER" => Case::Upper,
        _ => Case::Keep,
    };
    let is_case_sensitive = !call.attributes.text("is_case_sensitive").is_empty();
    let (words, stops) = (texts(&call.operands[0]), texts(&call.operands[1]));
    let mut words = host_ops::normalize(words, stops, is_case_sensitive, case);
    if words.is_empty() {
        words.push(String::new());
    }
    Ok(vec![Tensor::from_strings(&[words.len()], words)])
}

/// Strings: whether all of each matches the `pattern`.
fn matches(call: HostCall<'_>) -> Computed {
    let pattern = Pattern::new(call.attributes.text("pattern"))
        .map_err(|reason| EvaluationFault::new(codes::BAD_ATTRIBUTE, reason))?;
    let strings = &call.operands[0];
    let matches = |text: &String| Scalar::bool(pattern.matches(text));
    let found: Vec<Scalar> = texts(strings).iter().map(matches).collect();
    Ok(vec![Tensor::from_scalars(DType::Bool, strings.shape(), &found)])
}

/// Words, the keys of a map (strings or integers) and a value for each key: the value of each word,
/// 0 if it is no key. With `all` each key must be a word.
fn values_at(call: HostCall<'_>) -> Computed {
    let [words, keys, values] = call.operands else { return Err(misfit("a map and words")) };
    let found = match (words.strings(), keys.strings()) {
        (Some(words), Some(keys)) => places_of(words.iter(), keys.iter()),
        _ => places_of(words.scalars().map(Scalar::as_i64), keys.scalars().map(Scalar::as_i64)),
    };
    let is_all = !call.attributes.text("all").is_empty();
    if is_all && found.iter().flatten().count() < keys.len() {
        return Err(EvaluationFault::new(
            codes::INDEX_OUT_OF_RANGE,
            "a key of the map is beyond it",
        ));
    }
    let none = Scalar::zero(values.dtype());
    let value = |place: &Option<usize>| place.map_or(none, |place| values.get_scalar(place));
    let row: Vec<Scalar> = found.iter().map(value).collect();
    Ok(vec![Tensor::from_scalars(values.dtype(), words.shape(), &row)])
}

/// The place of each word among keys.
fn places_of<T: Eq + std::hash::Hash>(
    words: impl Iterator<Item = T>,
    keys: impl Iterator<Item = T>,
) -> Vec<Option<usize>> {
    let places: HashMap<T, usize> = keys.zip(0..).collect();
    words.map(|word| places.get(&word).copied()).collect()
}

/// The bytes of an encoded image: `u8[height, width, channels]`, `pixels` being `RGB`, `BGR` or
/// `Grayscale`.
fn decode_image(call: HostCall<'_>) -> Computed {
    let format = match call.attributes.text("pixels") {
        "RGB" => PixelFormat::Rgb,
        "BGR" => PixelFormat::Bgr,
        _ => PixelFormat::Grayscale,
    };
    let pixels = host_ops::decode_image(call.operands[0].bytes(), format).map_err(|reason| {
        let message = format!("the image cannot be decoded: {reason}");
        EvaluationFault::new(codes::BAD_IMAGE, message)
    })?;
    let shape = [pixels.height, pixels.width, pixels.channels];
    Ok(vec![Tensor::from_slice(&shape, &pixels.bytes)])
}
