//! What the explorer page is given of a build: that it is whole, the same each time, and that its
//! parts fit together. How the page shows it, `cargo xtask explorer` tests in a browser.

#[path = "../../tilewright/tests/common/mod.rs"]
mod common;

use std::collections::BTreeSet;

use inspect::{Build, Stage, explore, page};
use serde_json::Value as Json;
use tilewright::{Executable, Options, Tensor, Value, compile, compile_bytes};

use common::{BRANCHES, DECODER, executable, floats, integers, number};

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/digits/digits.onnx");

/// Options by which only one thread runs.
fn options() -> Options {
    Options::default().with_threads(1)
}

fn digits() -> Option<(Executable, Vec<Value>)> {
    if !tilewright::runs_here() {
        eprintln!("skipped: this machine does not run compiled code");
        return None;
    }
    let executable = compile(DIGITS, &options()).expect("it compiles");
    let pictures = Tensor::from_vec(&[4, 1, 8, 8], vec![0.25_f32; 256]);
    Some((executable, vec![pictures.into()]))
}

fn explored(executable: &Executable, inputs: &[Value]) -> Build {
    explore(executable, inputs, "a build").unwrap_or_else(|found| panic!("{found}"))
}

fn section<'a>(build: &'a Build, name: &str) -> &'a Json {
    let found = build.sections.iter().find(|(own, _)| *own == name);
    &found.unwrap_or_else(|| panic!("no section {name}")).1
}

fn list(json: &Json) -> &Vec<Json> {
    json.as_array().unwrap_or_else(|| panic!("no list: {json}"))
}

fn whole(json: &Json) -> usize {
    json.as_u64().unwrap_or_else(|| panic!("no whole number: {json}")) as usize
}

/// All numbers that tie parts together are places in the lists that they are of, each kernel
/// computes nodes of the model, and each instruction is made for a statement of its kernel.
fn check_ties(build: &Build) {
    let summary = section(build, "summary");
    let nodes = list(&summary["nodes"]).len();
    for (number, node) in list(&summary["nodes"]).iter().enumerate() {
        let from: Vec<usize> = list(&node["from"]).iter().map(whole).collect();
        assert!(from.iter().all(|&from| from < nodes && from != number), "{node}");
    }
    let kernels = list(&section(build, "loops")["kernels"]);
    let code = list(section(build, "code"));
    assert_eq!(kernels.len(), code.len());
    let rows = list(&summary["rows"]);
    let explained = list(&summary["explanation"]["rows"]);
    assert_eq!(rows.len(), explained.len());
    for (row, explained) in rows.iter().zip(explained) {
        let plan = &summary["memory"][whole(&explained["segment"])];
        assert!(whole(&explained["step"]) < whole(&plan["steps"]));
        if row["kernel"].is_null() {
            continue;
        }
        assert_eq!(kernels[whole(&row["kernel"])]["name"], explained["kernel"]);
        let of_model: Vec<usize> = list(&row["nodes_of_model"]).iter().map(whole).collect();
        assert!(!of_model.is_empty() && of_model.iter().all(|&it| it < nodes), "{explained}");
        let names: BTreeSet<Option<&str>> =
            of_model.iter().map(|&it| summary["nodes"][it]["name"].as_str()).collect();
        let told: BTreeSet<Option<&str>> =
            list(&explained["nodes"]).iter().map(Json::as_str).collect();
        assert_eq!(names, told, "{explained}");
    }
    let lines = list(&section(build, "loops")["lines"]);
    for (kernel, code) in kernels.iter().zip(code) {
        let statements = list(&kernel["statements"]);
        let stages = list(&kernel["stages"]);
        assert_eq!(list(&stages[stages.len() - 1]["lines"]).len(), statements.len());
        let of_stages = stages.iter().flat_map(|stage| list(&stage["lines"]));
        assert!(of_stages.map(whole).all(|line| line < lines.len()));
        let own: BTreeSet<Option<u64>> = statements.iter().map(Json::as_u64).collect();
        let made_for = list(&code["statements"]);
        assert!(made_for.iter().all(|it| own.contains(&it.as_u64())), "{}", kernel["name"]);
        assert!(made_for.iter().any(|it| !it.is_null()), "{}", kernel["name"]);
        assert_eq!(made_for.len(), list(&code["text"]).len());
    }
    let passes = section(build, "passes");
    assert_eq!(list(&passes["lines"]).len(), list(&passes["nodes"]).len());
    let names = list(&passes["stages"]).iter().filter_map(|stage| stage["pass"].as_str());
    assert!(names.filter(|name| name.starts_with("cut: ")).count() >= 2);
}

/// Values that are in the arena at the same step lie apart, but for one that takes the place of
/// another, which has its offset.
fn check_memory(build: &Build) {
    for plan in list(&section(build, "summary")["memory"]) {
        let arena = whole(&plan["arena_bytes"]);
        let slots: Vec<[usize; 4]> = list(&plan["slots"])
            .iter()
            .map(|slot| ["offset", "bytes", "first", "last"].map(|key| whole(&slot[key])))
            .collect();
        for (number, &[offset, bytes, first, last]) in slots.iter().enumerate() {
            assert!(offset + bytes <= arena && first <= last && last < whole(&plan["steps"]));
            for &[other, other_bytes, other_first, other_last] in &slots[..number] {
                let is_later = last < other_first || other_last < first;
                let is_apart = offset + bytes <= other || other + other_bytes <= offset;
                let succeeds = offset == other && (last == other_first || other_last == first);
                assert!(is_later || is_apart || succeeds, "slot {number} of {plan}");
            }
        }
    }
}

#[test]
fn parts_of_a_build_fit_together() {
    let Some((executable, inputs)) = digits() else { return };
    let build = explored(&executable, &inputs);
    check_ties(&build);
    check_memory(&build);
    let nodes = list(&section(&build, "summary")["nodes"]);
    let operators: Vec<&str> = nodes.iter().filter_map(|node| node["operator"].as_str()).collect();
    assert_eq!(operators.first().zip(operators.last()), Some((&"input", &"output")));
    assert!(operators.contains(&"Conv") && operators.contains(&"Gemm"));
}

#[test]
fn plans_of_several_segments_are_shown() {
    for (text, inputs) in [
        (DECODER, vec![integers(&[0]), number(3)]),
        (BRANCHES, vec![floats(&[1.0, 2.0, 3.0, 4.0]), number(2)]),
    ] {
        let Some(executable) = executable(text) else { return };
        let inputs: Vec<Value> = inputs.into_iter().map(Value::from).collect();
        let build = explored(&executable, &inputs);
        check_ties(&build);
        check_memory(&build);
        assert!(list(&section(&build, "summary")["memory"]).len() > 1);
    }
}

/// Code for many extents is shown as it runs for those at hand.
#[test]
fn code_for_many_extents_is_shown() {
    if !tilewright::runs_here() {
        return;
    }
    let options = Options { symbolic: true, ..options() };
    let executable = compile(DIGITS, &options).expect("it compiles");
    let pictures = Tensor::from_vec(&[3, 1, 8, 8], vec![0.25_f32; 192]);
    let build = explored(&executable, &[pictures.into()]);
    check_ties(&build);
    check_memory(&build);
    let lines = section(&build, "loops")["lines"].to_string();
    assert!(lines.contains("shape 0 in"), "no kernel has a free extent");
}

/// What is told of kernels is what `dump` prints of them.
#[test]
fn loops_and_code_are_those_of_dump() {
    let Some((executable, inputs)) = digits() else { return };
    let build = explored(&executable, &inputs);
    let (loops, code) = (section(&build, "loops"), section(&build, "code"));
    let path = std::path::Path::new(DIGITS);
    for (kernel, code) in list(&loops["kernels"]).iter().zip(list(code)) {
        let name = kernel["name"].as_str().expect("a name");
        let dumped = |stage| {
            inspect::dump(path, &options(), stage, Some(&inputs), Some(name))
                .unwrap_or_else(|found| panic!("{found}"))
        };
        let texts = list(&code["offsets"]).iter().zip(list(&code["text"])).map(|(offset, text)| {
            format!("{:>6x}  {}\n", whole(offset), text.as_str().expect("a text"))
        });
        let listing: String = texts.collect();
        assert!(
            dumped(Stage::Asm).trim_end()
                == format!(
                    "{name}:
{listing}"
                )
                .trim_end(),
            "{name}"
        );
        let stage = list(&kernel["stages"]).last().expect("a stage");
        let lines = list(&stage["lines"]).iter();
        let lines = lines.map(|line| loops["lines"][whole(line)].as_str().expect("a line"));
        let shown: Vec<&str> = lines.collect();
        let scheduled = dumped(Stage::Scheduled);
        // The page has nodes of the model in place of numbers of places, so heads break otherwise.
        let body = |line: &&str| line.starts_with(' ') && !line.ends_with(',');
        let expected = scheduled.lines().filter(body);
        assert!(shown.into_iter().filter(body).eq(expected), "{name}");
    }
}

/// All but what a clock tells.
fn without_times(mut build: Build) -> String {
    for (name, section) in &mut build.sections {
        if *name == "summary" {
            let explanation = &mut section["explanation"];
            for key in ["total_us", "explained_us", "gflops", "gigabytes_per_second", "to_try"] {
                explanation[key] = Json::Null;
            }
            for row in explanation["rows"].as_array_mut().expect("rows") {
                for key in ["time_us", "roofline", "slow"] {
                    row[key] = Json::Null;
                }
            }
        }
    }
    format!("{:?}", build.sections)
}

#[test]
fn a_build_is_the_same_each_time() {
    let Some((executable, inputs)) = digits() else { return };
    let Some((other, _)) = digits() else { return };
    let [one, two] = [executable, other].map(|it| without_times(explored(&it, &inputs)));
    assert!(one == two, "the data differs from build to build");
}

/// What a model calls its nodes is text, wherever it comes.
#[test]
fn names_are_no_markup() {
    if !tilewright::runs_here() {
        return;
    }
    let hostile = "</script><img src=x onerror=\"alert(1)\"><!--";
    let text = "input x: f32[4]\ny = Neg(x)\nz = Exp(y)\noutput z: f32[4]\n";
    let mut model = common::model(text);
    let graph = model.graph.as_mut().expect("a graph");
    for node in &mut graph.node {
        node.name = hostile.to_owned();
    }
    let bytes = prost::Message::encode_to_vec(&model);
    let executable = compile_bytes(bytes, &options()).expect("it compiles");
    let mut build = explored(&executable, &[floats(&[1.0, 2.0, 3.0, 4.0]).into()]);
    assert!(section(&build, "summary")["nodes"].to_string().contains("onerror"));
    build.label = hostile.to_owned();
    let text = page(hostile, &[build]);
    assert!(!text.contains("<img") && !text.contains("onerror=\""), "a name is in the page");
    // The page itself has no comments, and only its own scripts: four of data, one that runs.
    assert!(!text.contains("<!--"));
    assert_eq!(text.matches("</script").count(), 5);
}

/// A page needs nothing besides.
#[test]
fn a_page_names_no_place_to_fetch_from() {
    let Some((executable, inputs)) = digits() else { return };
    let text = page("digits", &[explored(&executable, &inputs)]);
    for word in ["https:", "src=", "@import", "url(", "fetch(", "XMLHttpRequest", "innerHTML"] {
        assert!(!text.contains(word), "the page has {word}");
    }
    let other = text.replace("http://www.w3.org/2000/svg", "");
    assert!(!other.contains("http:"), "the page has an address");
}
