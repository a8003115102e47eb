//! Programs that `torch.export.save` wrote (`exported/make.py` beside them): each evaluates to what
//! PyTorch computed, or is refused as it should; damaged ones end in diagnostics.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base::{Limits, codes};
use front::{ImportOptions, Imported};
use import_aten::ExportedProgram;
use tensor::{DType, Tensor, npz};

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/exported"))
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(format!("{name}.pt2"))).expect("a file beside the test")
}

fn import(bytes: Vec<u8>, options: &ImportOptions) -> Result<Imported, String> {
    let program = ExportedProgram::read(bytes.into(), &options.limits);
    let imported = program.and_then(|program| program.import(options));
    imported.map_err(|found| found.to_string())
}

/// Evaluates an imported program, and gives its outputs by name.
fn evaluate(imported: &Imported, inputs: &BTreeMap<&str, &Tensor>) -> BTreeMap<String, Tensor> {
    let function = imported.function();
    graph::verify(function).expect("a graph that verifies");
    let names = &function.parameter_names;
    let inputs: Vec<Tensor> = names.iter().map(|name| inputs[&name[..]].clone()).collect();
    let constant = |id| imported.module.constants[id].tensor.clone();
    let precision = eval::EvaluationPrecision::Declared;
    let results = eval::graph::evaluate(function, &constant, &inputs, precision);
    let results = results.expect("it evaluates");
    function.result_names.iter().cloned().zip(results).collect()
}

/// Compares what a program evaluates to with what was recorded.
fn check(name: &str, options: &ImportOptions) {
    let imported = import(bytes(name), options).unwrap_or_else(|found| panic!("{name}: {found}"));
    let recorded = npz::read(folder().join(format!("{name}.npz"))).expect("recorded values");
    let with = |mark: &'static str| {
        let found =
            recorded.iter().filter_map(move |(key, it)| Some((key.strip_prefix(mark)?, it)));
        found.collect::<BTreeMap<&str, &Tensor>>()
    };
    let outputs = evaluate(&imported, &with("in."));
    let wanted = with("out.");
    let names = |them: Vec<&str>| them.join(" ");
    assert_eq!(
        names(outputs.keys().map(String::as_str).collect()),
        names(wanted.keys().copied().collect()),
        "outputs of {name}"
    );
    for (key, wanted) in wanted {
        let found = &outputs[key];
        assert_eq!(
            (found.dtype(), found.shape()),
            (wanted.dtype(), wanted.shape()),
            "{name} {key}"
        );
        let deviation = tensor::compare(found, wanted, 1e-5, 1e-6);
        assert!(deviation.first_mismatch.is_none(), "{name} {key}: {deviation:?}");
    }
}

#[test]
fn programs_compute_what_pytorch_does() {
    let plain = ["state", "state-decomposed", "types", "strides", "sizes", "wrapped", "parts"];
    for name in plain.into_iter().chain(["earlier", "slices"]) {
        check(name, &ImportOptions::default());
    }
}

#[test]
fn symbols_can_be_bound_within_their_ranges() {
    let name = ExportedProgram::read(bytes("state").into(), &Limits::default())
        .expect("a program")
        .dimensions()
        .remove(0);
    let bound = |extent| ImportOptions {
        dims: BTreeMap::from([(name.clone(), extent)]),
        ..ImportOptions::default()
    };
    check("state", &bound(5));
    let imported = import(bytes("state"), &bound(7)).expect("a program for 7 rows");
    let (inputs, outputs) = imported.ports();
    assert_eq!(inputs[0].to_string(), "x: f32[7, 4]");
    assert_eq!(outputs[0].to_string(), "y: f32[7, 3]");
    let found = import(bytes("state"), &bound(65)).expect_err("beyond the range");
    assert!(found.contains("cannot be 65") && found.contains("2..=64"), "{found}");
    let shapes = BTreeMap::from([("x".to_owned(), vec![9, 4])]);
    let options = ImportOptions { input_shapes: shapes, ..ImportOptions::default() };
    let (inputs, _) = import(bytes("state"), &options).expect("a program for 9 rows").ports();
    assert_eq!(inputs[1].to_string(), "more_b: f32[9, 3]");
}

#[test]
fn ports_are_those_of_the_imported_function() {
    for name in ["state", "sizes", "parts", "earlier"] {
        let program = ExportedProgram::read(bytes(name).into(), &Limits::default()).unwrap();
        let (options, free) = (ImportOptions::default(), program.import(&ImportOptions::default()));
        let ports = program.ports(&options).unwrap();
        assert_eq!(ports, free.unwrap().ports(), "{name}");
    }
}

#[test]
fn refusals_say_where_and_what_to_do() {
    for (name, words) in [
        ("views", ["node `add_` writes to memory that `mul` may share", "run_decompositions()"]),
        ("unknown", ["aten.linalg_det.default", "run_decompositions()"]),
        ("counted", ["depends on data", "value `nonzero`"]),
    ] {
        let found = import(bytes(name), &ImportOptions::default()).expect_err(name);
        assert!(words.iter().all(|word| found.contains(word)), "{name}: {found}");
    }
}

// --- hostile files ---

/// A zip archive of stored members.
fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let checksum = |bytes: &[u8]| {
        let step = |sum: u32, byte: &u8| {
            (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
                (sum >> 1) ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 }
            })
        };
        !bytes.iter().fold(!0, step)
    };
    let (mut file, mut rows) = (Vec::new(), Vec::new());
    for (name, content) in members {
        let offset = file.len() as u32;
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        common.extend(checksum(content).to_le_bytes());
        common.extend((content.len() as u32).to_le_bytes());
        common.extend((content.len() as u32).to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        file.extend(b"PK\x03\x04");
        file.extend(&common);
        file.extend(name.as_bytes());
        file.extend(*content);
        rows.extend(b"PK\x01\x02\x14\x00");
        rows.extend(&common);
        rows.extend([0; 10]);
        rows.extend(offset.to_le_bytes());
        rows.extend(name.as_bytes());
    }
    let start = file.len() as u32;
    file.extend(&rows);
    file.extend(b"PK\x05\x06\x00\x00\x00\x00");
    file.extend((members.len() as u16).to_le_bytes());
    file.extend((members.len() as u16).to_le_bytes());
    file.extend((rows.len() as u32).to_le_bytes());
    file.extend(start.to_le_bytes());
    file.extend([0, 0]);
    file
}

/// The members of a file.
fn members(name: &str) -> Vec<(String, Vec<u8>)> {
    let bytes = bytes::Bytes::from(bytes(name));
    let found = tensor::zip::members(&bytes).expect("an archive");
    found.into_iter().map(|it| (it.name.clone(), it.content(&bytes).unwrap().to_vec())).collect()
}

/// A file with one of its members changed, whose name ends so.
fn changed(name: &str, end: &str, change: impl Fn(&str) -> String) -> Vec<u8> {
    let mut members = members(name);
    let (_, content) = members.iter_mut().find(|(name, _)| name.ends_with(end)).expect("a member");
    let text = String::from_utf8(std::mem::take(content)).expect("text");
    let new = change(&text);
    assert_ne!(text, new, "nothing changed in {end}");
    *content = new.into_bytes();
    let members: Vec<(&str, &[u8])> = members.iter().map(|(a, b)| (&a[..], &b[..])).collect();
    archive(&members)
}

#[test]
fn what_is_no_program_is_refused() {
    let graph = "models/model.json";
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (what, file, said) in [
        ("no archive", b"PK\x03\x04".to_vec(), "not a zip archive"),
        ("no graph", archive(&[("a/archive_format", b"pt2")]), "no exported program"),
        ("no JSON", archive(&[(graph, b"{")]), "EOF"),
        ("no UTF-8", archive(&[(graph, b"{\"a\": \"\xff\xfe\"}")]), "unicode"),
        ("deep JSON", archive(&[(graph, deep.as_bytes())]), "recursion limit"),
        ("no version", archive(&[(graph, b"{}")]), "schema_version"),
        ("two graphs", archive(&[(graph, b"{}"), ("models/b.json", b"{}")]), "2 programs"),
        (
            "another version",
            changed("parts", graph, |text| text.replace("\"major\": 8", "\"major\": 9")),
            "version 9",
        ),
        (
            "a loop",
            changed("parts", graph, |text| {
                text.replacen(
                    "\"as_tensor\": {\"name\": \"x\"}",
                    "\"as_tensor\": {\"name\": \"add\"}",
                    2,
                )
            }),
            "add",
        ),
        (
            "an unknown name",
            changed("strides", graph, |text| {
                text.replace(
                    "\"as_tensor\": {\"name\": \"linear\"}",
                    "\"as_tensor\": {\"name\": \"q\"}",
                )
            }),
            "`q`",
        ),
        (
            "a name twice",
            changed("strides", graph, |text| text.replace("\"linear_1\"", "\"linear\"")),
            "two values are called",
        ),
        (
            "a huge extent",
            changed("strides", "model_weights_config.json", |text| {
                text.replace("{\"as_int\": 24}", "{\"as_int\": 4611686018427387904}")
            }),
            "too large",
        ),
        (
            "an extent too large for the file",
            changed("strides", "model_weights_config.json", |text| {
                text.replace("{\"as_int\": 24}", "{\"as_int\": 25}")
            }),
            "does not hold all",
        ),
        (
            "a negative stride",
            changed("strides", "model_weights_config.json", |text| {
                text.replace("\"strides\": [{\"as_int\": 1}", "\"strides\": [{\"as_int\": -1}")
            }),
            "no size",
        ),
        (
            "a number beyond 64 bits",
            changed("strides", "model_weights_config.json", |text| {
                text.replace("{\"as_int\": 24}", "{\"as_int\": 123456789012345678901234567890}")
            }),
            "no integer",
        ),
        (
            "no weight",
            changed("strides", "model_weights_config.json", |text| {
                text.replace("\"tied.weight\"", "\"t\"")
            }),
            "tied.weight",
        ),
        (
            "no member",
            changed("strides", "model_weights_config.json", |text| {
                text.replace("weight_0", "weight_9")
            }),
            "no such member",
        ),
        (
            "a type of another",
            changed("strides", "model_weights_config.json", |text| {
                text.replace("\"dtype\": 7", "\"dtype\": 4")
            }),
            "the tensor given is i32",
        ),
        (
            "a complex type",
            changed("strides", graph, |text| text.replace("\"dtype\": 7", "\"dtype\": 9")),
            "complex",
        ),
        (
            "another device",
            changed("strides", graph, |text| text.replace("\"cpu\"", "\"cuda\"")),
            "move_to_device_pass",
        ),
        (
            "a formula without end",
            changed("state", graph, |text| {
                let long = format!("Mul({})", "Add(s0, s1, s2, 1), ".repeat(500));
                text.replace("Symbol('s", &format!("{long}Symbol('s"))
            }),
            "size",
        ),
    ] {
        let found = import(file, &ImportOptions::default());
        let found = found.map(|_| ()).expect_err(what);
        assert!(found.contains(said), "{what}: {found}");
        assert!(found.contains("error[TW0") && !found.contains("TW09"), "{what}: {found}");
    }
}

#[test]
fn limits_hold() {
    let program = |limits: Limits| {
        ExportedProgram::read(bytes("strides").into(), &limits).map(|_| ()).unwrap_err().to_string()
    };
    let few = Limits { file_bytes: 100, ..Limits::default() };
    assert!(program(few).contains("--limit file-bytes="));
    let few = Limits { elements: 10, ..Limits::default() };
    assert!(program(few).contains("--limit elements="));
    let few = Limits { nodes: 2, ..Limits::default() };
    assert!(program(few).contains("--limit nodes="));
    let little = Limits { decoded_bytes: 1, ..Limits::default() };
    assert!(program(little).contains("--limit decoded-bytes="));
}

#[test]
fn cut_files_are_refused() {
    for name in ["state", "earlier"] {
        let whole = bytes(name);
        for length in (0..whole.len()).step_by(397).chain(whole.len() - 40..whole.len()) {
            let found = import(whole[..length].to_vec(), &ImportOptions::default());
            assert!(found.is_err(), "{length} bytes of {name} were accepted");
        }
    }
}

#[test]
fn damaged_members_never_make_it_panic() {
    // Checksums would find damage to the archive, so its members are damaged and packed again.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for name in ["state", "strides", "sizes", "wrapped"] {
        let whole = members(name);
        let texts: Vec<usize> =
            (0..whole.len()).filter(|&at| whole[at].0.ends_with(".json")).collect();
        for _ in 0..40 {
            let mut members = whole.clone();
            let content = &mut members[texts[draw(texts.len())]].1;
            for _ in 0..1 + draw(4) {
                let (from, to) = (draw(content.len()), draw(content.len()));
                match draw(3) {
                    0 => content[from] = b"0123456789{}[]\",:ex-"[draw(20)],
                    1 => content.swap(from, to),
                    _ => {
                        // A piece of the text stands where another did.
                        let length = draw(24).min(content.len() - from.max(to));
                        content.copy_within(from..from + length, to);
                    }
                }
            }
            let members: Vec<(&str, &[u8])> =
                members.iter().map(|(a, b)| (&a[..], &b[..])).collect();
            if let Ok(imported) = import(archive(&members), &ImportOptions::default()) {
                graph::verify(imported.function()).expect("a graph that verifies");
            }
        }
    }
}

#[test]
fn damaged_pickles_never_make_it_panic() {
    let whole = members("earlier");
    let at = whole.iter().position(|(name, _)| name == "serialized_state_dict.pt").unwrap();
    let inner = bytes::Bytes::from(whole[at].1.clone());
    let inner: Vec<(String, Vec<u8>)> = (tensor::zip::members(&inner).unwrap().into_iter())
        .map(|it| (it.name.clone(), it.content(&inner).unwrap().to_vec()))
        .collect();
    let pickle = inner.iter().position(|(name, _)| name.ends_with("data.pkl")).unwrap();
    let length = inner[pickle].1.len();
    for place in (0..length).step_by(3) {
        let mut damaged = inner.clone();
        damaged[pickle].1[place] ^= 1 << (place % 8);
        if place % 5 == 0 {
            damaged[pickle].1.truncate(place);
        }
        let refs: Vec<(&str, &[u8])> = damaged.iter().map(|(a, b)| (&a[..], &b[..])).collect();
        let packed = archive(&refs);
        let mut outer = whole.clone();
        outer[at].1 = packed;
        let refs: Vec<(&str, &[u8])> = outer.iter().map(|(a, b)| (&a[..], &b[..])).collect();
        if let Err(found) = import(archive(&refs), &ImportOptions::default()) {
            assert!(found.contains("error[TW0") && !found.contains("TW09"), "{found}");
        }
    }
}

#[test]
fn codes_are_those_of_the_kind_of_mistake() {
    let found = ExportedProgram::read(archive(&[]).into(), &Limits::default()).unwrap_err();
    assert_eq!(found[0].code, codes::NOT_EXPORTED);
    let program = ExportedProgram::read(bytes("unknown").into(), &Limits::default()).unwrap();
    assert_eq!(program.unsupported().len(), 1);
    let found = program.import(&ImportOptions::default()).unwrap_err();
    assert_eq!(found[0].code, codes::UNSUPPORTED_OPERATOR);
    assert_eq!(program.ports(&ImportOptions::default()).unwrap().0[0].dtype, Some(DType::F32));
}
