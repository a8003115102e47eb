//! Files that are cut off, damaged, or say what cannot be: refused, and nothing else.

use base::Limits;
use front::ImportOptions;
use import_gguf::{DecoderModel, ModelFile};

const RECORDED: &[u8] = include_bytes!("formats.gguf");

/// A model of one layer; see `bench/gguf_formats.py`.
const TINY: &[u8] = include_bytes!("tiny.gguf");

fn read(bytes: &[u8]) -> Result<ModelFile, String> {
    let file = ModelFile::read(bytes.to_vec().into(), &Limits::default());
    file.map_err(|found| found.to_string())
}

/// A file with one key, whose type and value are these bytes.
fn with_key(value: &[u8]) -> Vec<u8> {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend(1_u64.to_le_bytes());
    bytes.push(b'k');
    bytes.extend(value);
    bytes
}

/// A file of one f32 tensor with these extents, this offset, and so much data.
fn with_tensor(extents: &[u64], code: u32, offset: u64, data: usize) -> Vec<u8> {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend(1_u64.to_le_bytes());
    bytes.push(b't');
    bytes.extend((extents.len() as u32).to_le_bytes());
    extents.iter().for_each(|extent| bytes.extend(extent.to_le_bytes()));
    bytes.extend(code.to_le_bytes());
    bytes.extend(offset.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(32) + data, 0);
    bytes
}

fn check(bytes: &[u8], reason: &str) {
    let refused = read(bytes).expect_err(reason);
    assert!(refused.contains(reason), "{refused}");
}

#[test]
fn what_is_cut_off_is_refused() {
    assert!(read(RECORDED).is_ok());
    for length in (0..RECORDED.len()).step_by(7) {
        assert!(read(&RECORDED[..length]).is_err(), "the first {length} bytes");
    }
}

#[test]
fn what_is_damaged_is_read_or_refused() {
    let mut state = 1_u64;
    let mut draw = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % most
    };
    let options = front::ImportOptions::default();
    let import = |bytes: Vec<u8>| {
        let model = DecoderModel::read(bytes.into(), &options.limits);
        model.and_then(|model| model.import(&options)).is_ok()
    };
    assert!(import(TINY.to_vec()), "the model as it is");
    let mut read = 0;
    let given = std::env::var("TILEWRIGHT_EXECUTIONS").ok();
    let executions = given.and_then(|given| given.parse().ok()).unwrap_or(20_000);
    for _ in 0..executions {
        // Keys and entries of tensors; what numbers weights are makes no difference.
        let mut bytes = TINY.to_vec();
        for _ in 0..=draw(3) {
            let at = draw(1280);
            bytes[at] = if draw(2) == 0 { draw(256) as u8 } else { bytes[at] ^ 1 << draw(8) };
        }
        read += usize::from(import(bytes));
    }
    let least_and_most = executions / 200..executions * 19 / 20;
    assert!(least_and_most.contains(&read), "{read} of {executions} are models");
}

#[test]
fn counts_and_types_that_lie_are_refused() {
    let array = |kind: u32, count: u64| {
        let mut value = 9_u32.to_le_bytes().to_vec();
        value.extend(kind.to_le_bytes());
        value.extend(count.to_le_bytes());
        value
    };
    check(&with_key(&array(4, u64::MAX)), "numbers");
    check(&with_key(&array(8, 1 << 40)), "texts");
    check(&with_key(&array(77, 1)), "an array of the unknown type 77");
    check(&with_key(&99_u32.to_le_bytes()), "a value of the unknown type 99");
    check(&with_key(&[7, 0, 0, 0, 2]), "a truth value of 2");
    let mut nested = 9_u32.to_le_bytes().to_vec();
    for _ in 0..100_000 {
        nested.extend(9_u32.to_le_bytes());
        nested.extend(1_u64.to_le_bytes());
    }
    check(&with_key(&nested), "arrays are nested too deep");
}

#[test]
fn tensors_that_lie_elsewhere_are_refused() {
    assert!(read(&with_tensor(&[8], 0, 0, 32)).is_ok());
    check(&with_tensor(&[8], 0, 8, 64), "no multiple of 32");
    check(&with_tensor(&[9], 0, 0, 32), "lie beyond the file");
    check(&with_tensor(&[8], 0, 1 << 63, 32), "lie beyond the file");
    check(&with_tensor(&[8], 99, 0, 32), "a tensor of the format 99");
    check(&with_tensor(&[33], 2, 0, 64), "no blocks of 32");
    check(&with_tensor(&[1; 5], 0, 0, 32), "5 axes");
    check(&with_tensor(&[1 << 40, 1 << 40], 0, 0, 32), "its shape is");
    check(&with_tensor(&[1 << 40], 0, 0, 32), "elements");
}

#[test]
fn what_a_model_says_of_itself_is_kept_without_its_data() {
    let limits = Limits::default();
    let model = DecoderModel::read(TINY.to_vec().into(), &limits).expect("a model");
    let head = model.head();
    let again = DecoderModel::read_head(&head.clone().into(), &limits).expect("its head");
    assert!(head.len() + 1000 < TINY.len(), "{} bytes of {}", head.len(), TINY.len());
    assert_eq!(again.file().metadata, model.file().metadata);
    assert_eq!(again.file().origin, model.file().origin);
    assert_eq!((again.vocabulary(), again.context()), (model.vocabulary(), model.context()));
    assert_eq!(again.parameters().0, model.parameters().0);
    assert_eq!(again.head(), head);
    assert!(again.import(&ImportOptions::default()).is_err(), "it has no data");
    for length in (0..head.len()).step_by(7) {
        let cut = head[..length].to_vec().into();
        assert!(DecoderModel::read_head(&cut, &limits).is_err(), "the first {length} bytes");
    }
}
