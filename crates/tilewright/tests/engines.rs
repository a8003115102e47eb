//! Engine files: what is saved runs as it did, and what is not as it was saved is refused.

mod common;

use std::path::{Path, PathBuf};

use common::{BRANCHES, DECODER, SEQUENCES, compiled, floats, integers, model, number, runs_code};
use prost::Message as _;
use tensor::TemporaryFolder;
use tilewright::{DType, Executable, Options, Tensor, Value};

const CONVOLUTIONS: &str = "
    input x: f32[n, 3, 12, 12]
    constant w: f32[8, 3, 3, 3] {W216}
    constant scale: f32[8] {1.0, 2.0, 0.5, 1.0, 1.5, 0.25, 1.0, 3.0}
    constant shift: f32[8] {1.0, 2.0, 0.5, 1.0, 1.5, 0.25, 1.0, 3.0}
    constant mean: f32[8] {0.1, 0.2, 0.5, 0.1, 0.5, 0.25, 0.1, 0.3}
    constant variance: f32[8] {1.0, 2.0, 0.5, 1.0, 1.5, 0.25, 1.0, 3.0}
    y = Conv(x, w)
    z = BatchNormalization(y, scale, shift, mean, variance)
    r = Relu(z)
    p = GlobalAveragePool(r)
    f = Flatten(p)
    constant m: f32[8, 160] {W1280}
    s = MatMul(f, m)
    constant b: f32[160, 16] {W2560}
    t = MatMul(s, b)
    output t: f32[n, 16]
";

/// The text of a model, in which `Wn` stands for so many numbers, all times a factor.
fn with_numbers(text: &str, factor: f64) -> String {
    let numbers = |count: usize| {
        let number = |at: usize| format!("{:.3}", factor * (((at * 37) % 64) as f64 - 32.0) / 64.0);
        (0..count).map(number).collect::<Vec<String>>().join(", ")
    };
    [216, 1280, 2560].into_iter().fold(text.to_owned(), |text, count| {
        text.replace(&format!("W{count}}}"), &format!("{}}}", numbers(count)))
    })
}

fn picture(batch: usize, seed: u64) -> Tensor {
    tilewright::random(DType::F32, &[batch, 3, 12, 12], seed)
}

fn run(executable: &Executable, inputs: &[Tensor]) -> Vec<Tensor> {
    executable.run(inputs).unwrap_or_else(|found| panic!("{found}"))
}

fn saved(executable: &Executable, folder: &TemporaryFolder) -> PathBuf {
    let path = folder.path().join("model.tw");
    executable.save(&path).unwrap_or_else(|found| panic!("{found}"));
    path
}

fn loaded(path: &Path) -> Executable {
    let options = Options::default().with_threads(1);
    Executable::load(path, &options).unwrap_or_else(|found| panic!("{found}"))
}

fn folder() -> TemporaryFolder {
    TemporaryFolder::new().expect("a writable temporary folder")
}

/// Saves what has run these inputs, and runs them and others with what is loaded.
fn check(executable: &Executable, runs: &[Vec<Tensor>], others: &[Vec<Tensor>]) {
    for inputs in runs {
        run(executable, inputs);
    }
    let folder = folder();
    let path = saved(executable, &folder);
    let again = loaded(&path);
    assert_eq!(again.inputs(), executable.inputs());
    assert_eq!(again.outputs(), executable.outputs());
    let before = again.statistics();
    for inputs in runs {
        assert_eq!(run(&again, inputs), run(executable, inputs));
    }
    if before.kernels > 0 {
        assert_eq!(again.statistics(), before, "what was saved is not compiled");
    }
    for inputs in others {
        assert_eq!(run(&again, inputs), run(executable, inputs));
    }
    // What has been loaded can be saved, and looked at.
    let twice = saved(&again, &folder);
    let twice = loaded(&twice);
    for inputs in runs.iter().chain(others) {
        assert_eq!(run(&twice, inputs), run(executable, inputs));
        let values: Vec<Value> = inputs.iter().cloned().map(Value::from).collect();
        let (variant, met) = twice.met(&values).unwrap_or_else(|found| panic!("{found}"));
        assert!(!variant.front().module.functions.is_empty());
        assert!(!variant.setup().lowered().kernels.iter().any(|info| info.name.is_empty()));
        for segment in met {
            let names = segment.specialisation.lowered().kernels.iter().map(|info| &info.name);
            let code = segment.specialisation.executable().code().clone();
            let known: Vec<&str> = code.kernels().map(|(_, kernel)| kernel.name).collect();
            names.for_each(|name| assert!(known.contains(&name.as_str()), "{name}"));
        }
    }
}

#[test]
fn fixed_and_free_shapes_run_as_before() {
    if !runs_code() {
        return;
    }
    let own = model(&with_numbers(CONVOLUTIONS, 1.0));
    let inputs = |batches: &[usize]| -> Vec<Vec<Tensor>> {
        batches.iter().map(|&batch| vec![picture(batch, batch as u64)]).collect()
    };
    let fixed = compiled(&own, Options::default().with_dim("n", 2));
    check(&fixed, &inputs(&[2]), &[]);
    let free = compiled(&own, Options::default());
    check(&free, &inputs(&[1, 3]), &inputs(&[2, 5]));
    let nothing_met = compiled(&own, Options::default());
    check(&nothing_met, &[], &inputs(&[2]));
    let symbolic = compiled(&own, Options::default().with_symbolic_extents());
    check(&symbolic, &inputs(&[2, 3]), &inputs(&[4, 7]));
    let plain = Options { disabled: ["fusion".to_owned()].into(), ..Options::default() };
    check(&compiled(&own, plain), &inputs(&[2]), &[]);
}

#[test]
fn plans_run_as_before() {
    if !runs_code() {
        return;
    }
    let decoder = compiled(&model(DECODER), Options::default());
    check(&decoder, &[vec![integers(&[1, 2]), number(3)]], &[vec![integers(&[2]), number(0)]]);
    let branches = compiled(&model(BRANCHES), Options::default());
    let x = floats(&[1.0, 2.0, -0.5, 3.0]);
    check(&branches, &[vec![x.clone(), number(2)]], &[vec![floats(&[-1.0; 4]), number(1)]]);
    let sequences = compiled(&model(SEQUENCES), Options::default());
    check(&sequences, &[vec![x]], &[vec![floats(&[0.5, 4.0])]]);
}

#[test]
fn a_shape_that_an_input_holds_needs_the_model_which_the_engine_has() {
    if !runs_code() {
        return;
    }
    let text = "
        input x: f32[6]
        input axes: i64[k]
        constant shape: i64[2] {2, 3}
        y = Reshape(x, shape)
        z = ReduceSum(y, axes)
        output z: f32[a, b]
    ";
    let executable = compiled(&model(text), Options::default());
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    check(&executable, &[vec![x.clone(), integers(&[0])]], &[vec![x, integers(&[1])]]);
}

#[test]
fn new_weights_give_the_bits_of_a_rebuild() {
    if !runs_code() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("other.onnx");
    let other = model(&with_numbers(CONVOLUTIONS, 0.75));
    std::fs::write(&file, other.encode_to_vec()).expect("written");
    let inputs = [picture(2, 9)];
    for options in [Options::default(), Options::default().with_symbolic_extents()] {
        let mut executable = compiled(&model(&with_numbers(CONVOLUTIONS, 1.0)), options.clone());
        let before = run(&executable, &inputs);
        let path = saved(&executable, &folder);
        let mut again = loaded(&path);
        let refused = again.refit().expect_err("the engine has not the weights").to_string();
        assert!(refused.contains("TW0305"), "{refused}");
        let expected = run(&compiled(&other, options), &inputs);
        assert_ne!(expected, before);
        for refitted in [&mut again, &mut executable] {
            refitted.refit_from(&file).unwrap_or_else(|found| panic!("{found}"));
            assert_eq!(run(refitted, &inputs), expected);
            refitted.refit().unwrap_or_else(|found| panic!("{found}"));
            assert_eq!(run(refitted, &inputs), expected);
            let saved = loaded(&saved(refitted, &folder));
            assert_eq!(run(&saved, &inputs), expected);
        }
        let stranger = model(&with_numbers(CONVOLUTIONS, 1.0).replace("Relu", "Sigmoid"));
        std::fs::write(folder.path().join("stranger.onnx"), stranger.encode_to_vec())
            .expect("written");
        let refused = again.refit_from(folder.path().join("stranger.onnx"));
        let refused = refused.expect_err("another model").to_string();
        assert!(refused.contains("TW0306"), "{refused}");
        assert_eq!(run(&again, &inputs), expected);
    }
}

#[test]
fn memory_in_huge_pages_holds_what_it_held() {
    if !runs_code() {
        return;
    }
    // 16 MB of constants that `setup` computes, and 8 MB between the products.
    let text = "
        input x: f32[1024, 1024]
        constant first: f32[] {0}
        constant end: f32[] {2097152}
        constant step: f32[] {1}
        constant shape: i64[2] {1024, 2048}
        constant turned: i64[2] {2048, 1024}
        range = Range(first, end, step)
        weights = Reshape(range, shape)
        others = Reshape(range, turned)
        hidden = MatMul(x, weights)
        y = MatMul(hidden, others)
        output y: f32[1024, 1024]
    ";
    let executable = compiled(&model(text), Options::default());
    let inputs = [tilewright::random(DType::F32, &[1024, 1024], 3)];
    let before = run(&executable, &inputs);
    let statistics = executable.statistics();
    assert!(statistics.constant_bytes >= 8 << 20 && statistics.arena_bytes >= 8 << 20);
    // Beside runs, then at once.
    for _ in 0..12 {
        assert_eq!(run(&executable, &inputs), before);
    }
    executable.settle();
    assert_eq!(run(&executable, &inputs), before);
}

/// How many changes are tried: more of them where `TILEWRIGHT_MUTATIONS` says so.
fn mutations() -> u64 {
    let told = std::env::var("TILEWRIGHT_MUTATIONS").ok().and_then(|text| text.parse().ok());
    told.unwrap_or(4000)
}

/// A changed copy of the first `head` bytes of a file, by number.
fn mutated(good: &[u8], head: usize, number: u64) -> Vec<u8> {
    let mut seed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D;
    let mut draw = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below.max(1) as u64) as usize
    };
    let mut bytes = good.to_vec();
    let at = draw(head);
    match draw(5) {
        0 => bytes[at] ^= 1 << draw(8),
        1 => bytes[at] = bytes[at].wrapping_add(1 + draw(255) as u8),
        2 => {
            let (from, count) = (draw(head), 1 + draw(64));
            let end = (at + count).min(head);
            let piece: Vec<u8> = (at..end).map(|it| good[(from + it - at) % head]).collect();
            bytes[at..end].copy_from_slice(&piece);
        }
        3 => bytes.truncate(at),
        _ => {
            let end = (at + 1 + draw(64)).min(head);
            bytes[at..end].fill(0);
        }
    }
    bytes
}

fn head_of(good: &[u8]) -> usize {
    u64::from_le_bytes(good[16..24].try_into().expect("8 bytes")) as usize
}

#[test]
fn every_change_of_what_runs_is_refused() {
    if !runs_code() {
        return;
    }
    let options = Options::default().with_dim("n", 2);
    let executable = compiled(&model(&with_numbers(CONVOLUTIONS, 1.0)), options);
    let folder = folder();
    let path = saved(&executable, &folder);
    let good = std::fs::read(&path).expect("written");
    let head = head_of(&good);
    let options = Options::default().with_threads(1);
    let mut tried = 0;
    for number in 0..mutations() {
        let bytes = mutated(&good, head, number);
        if bytes == good {
            continue;
        }
        tried += 1;
        let refused = tilewright::compile_bytes(bytes, &options);
        let found = refused.err().unwrap_or_else(|| panic!("change {number} is not seen"));
        let code = found.iter().next().map(|found| found.code);
        assert!(
            matches!(code, Some("TW0101" | "TW0102" | "TW0303" | "TW0304")),
            "change {number}: {found}"
        );
    }
    assert!(tried > mutations() / 2);
}

#[test]
fn what_does_not_decode_is_refused_where_the_digest_fits() {
    if !runs_code() {
        return;
    }
    let executable = compiled(&model(&with_numbers(CONVOLUTIONS, 1.0)), Options::default());
    run(&executable, &[picture(2, 1)]);
    let folder = folder();
    let path = saved(&executable, &folder);
    let good = std::fs::read(&path).expect("written");
    let head = head_of(&good);
    let options = Options::default().with_threads(1);
    let (mut refused, mut refused_late) = (0, 0);
    for number in 0..mutations() / 2 {
        let mut bytes = mutated(&good, head, number);
        if bytes.len() < head {
            continue;
        }
        engine::seal(&mut bytes);
        // Loaded or not, nothing breaks down; code that may be another is not run.
        let Ok(loaded) = tilewright::compile_bytes(bytes, &options) else {
            refused += 1;
            continue;
        };
        if number % 16 == 0 {
            refused_late += u32::from(is_refused_late(&loaded, number));
        }
    }
    assert!(refused > 0 && refused_late > 0, "{refused}, {refused_late}");
}

/// Looks at all that an engine holds beside what runs: whether something is not as it was written.
fn is_refused_late(loaded: &Executable, number: u64) -> bool {
    let looked = tilewright::catch_internal_errors(|| {
        let Some((variant, code, _)) = loaded.fixed_code() else { return Ok(0) };
        let functions = variant.front().module.functions.len();
        let setup = variant.setup().lowered().kernels.len();
        Ok(functions + setup + code.iter().map(|it| it.lowered().kernels.len()).sum::<usize>())
    });
    let Err(found) = looked else { return false };
    assert!(found.to_string().contains("TW0303"), "change {number}: {found}");
    true
}

#[test]
fn other_targets_and_changed_constants_are_told() {
    if !runs_code() {
        return;
    }
    let options = Options::default().with_dim("n", 2).with_target("x86-64-v3");
    let executable = compiled(&model(&with_numbers(CONVOLUTIONS, 1.0)), options);
    let folder = folder();
    let path = saved(&executable, &folder);
    let wrong = Options::default().with_target("x86-64-v4");
    let found = Executable::load(&path, &wrong).expect_err("code for another target").to_string();
    assert!(found.contains("TW0304"), "{found}");
    let short = Options::default().with_precision(tilewright::Precision::Bf16);
    for other in
        [short, Options::default().with_dim("n", 3), Options::default().without_pass("fusion")]
    {
        let found = Executable::load(&path, &other).expect_err("other code").to_string();
        assert!(found.contains("TW0305"), "{found}");
    }
    let mut bytes = std::fs::read(&path).expect("written");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&path, bytes).expect("written");
    // A weight may be another.
    run(&loaded(&path), &[picture(2, 1)]);
    let source = tilewright::compiled::EngineSource::open(&path).expect("its head is sound");
    let found = source.check_constants().expect_err("a weight is another").to_string();
    assert!(found.contains("TW0303"), "{found}");
}
