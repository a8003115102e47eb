//! How the targets' inputs change: mostly as models, so that they stay well-formed messages, now
//! and then as bytes.

use std::sync::LazyLock;

use import_onnx::proto::ModelProto;
use libfuzzer_sys::fuzzer_mutate;
use prost::Message;

static OPERATORS: LazyLock<Vec<&str>> =
    LazyLock::new(|| import_onnx::supported_operators().into_iter().map(|row| row.name).collect());

/// What two models together may have of bytes to become one: executions take the longer the larger
/// models grow.
const LARGEST_PAIR: usize = 1 << 13;

/// Changes the first `size` bytes of `data`: one time in `bytes_every` as bytes, otherwise as a
/// model, if they are one. Returns the new size, at most `max_size`.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32, bytes_every: u32) -> usize {
    let model = ModelProto::decode(&data[..size]);
    let (Ok(mut model), true) = (model, !seed.is_multiple_of(bytes_every)) else {
        return fuzzer_mutate(data, size, max_size);
    };
    testkit::mutation::mutate(&mut model, &OPERATORS, seed.into());
    write(&model, &mut data[..max_size]).unwrap_or_else(|| fuzzer_mutate(data, size, max_size))
}

/// Writes the first model with the second one behind it, or the first alone where they are no
/// models or are large. Returns the size.
pub fn cross_over(first: &[u8], second: &[u8], out: &mut [u8], seed: u32) -> usize {
    if first.len() + second.len() <= LARGEST_PAIR
        && let (Ok(mut model), Ok(other)) = (ModelProto::decode(first), ModelProto::decode(second))
    {
        testkit::mutation::splice(&mut model, &other, seed.into());
        if let Some(size) = write(&model, out) {
            return size;
        }
    }
    let size = first.len().min(out.len());
    out[..size].copy_from_slice(&first[..size]);
    size
}

fn write(model: &ModelProto, out: &mut [u8]) -> Option<usize> {
    let size = model.encoded_len();
    let mut place = out.get_mut(..size)?;
    model.encode(&mut place).ok()?;
    Some(size)
}
