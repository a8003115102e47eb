//! The whole compile, and a run, of models that are changed as models: half of the mutants are made
//! by `testkit::mutation`, the others by libFuzzer from their bytes.
#![no_main]

use import_onnx::proto::ModelProto;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use prost::Message;

fuzz_target!(|bytes: &[u8]| tilewright_fuzz::attempt::compile_and_run(bytes));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let model = ModelProto::decode(&data[..size]);
    let (Ok(mut model), true) = (model, seed % 8 != 0) else {
        return fuzzer_mutate(data, size, max_size);
    };
    let operators = import_onnx::supported_operators();
    let names: Vec<&str> = operators.iter().map(|row| row.name).collect();
    testkit::mutation::mutate(&mut model, &names, seed.into());
    let bytes = model.encode_to_vec();
    if bytes.len() > max_size {
        return fuzzer_mutate(data, size, max_size);
    }
    data[..bytes.len()].copy_from_slice(&bytes);
    bytes.len()
});
