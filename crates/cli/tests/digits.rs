//! The trained digit classifier through the binary: it reads what it should, on every target, with
//! the same bits for any number of threads, and `bench`, `explain` and `verify` say what they
//! promise.

mod support;

use std::path::Path;

use base::text::Parser;
use prost::Message;
use support::{DIGITS, Folder, runnable_targets, succeed};
use tensor::{Tensor, npy};
use testkit::onnx_text;

/// Every key of `bench --json`; scripts rely on them.
const BENCH_KEYS: [&str; 14] = [
    "model",
    "target",
    "threads",
    "compile_ms",
    "first_run_ms",
    "median_ms",
    "min_ms",
    "p95_ms",
    "runs",
    "kernels",
    "code_bytes",
    "constant_bytes",
    "arena_bytes",
    "peak_rss_bytes",
];

/// The held-out pictures, or what is known of them.
fn held_out(name: &str) -> String {
    let folder = Path::new(DIGITS).parent().expect("the model lies in a folder");
    folder.join(name).display().to_string()
}

/// The scores of all held-out pictures; the batch is bound by the input alone.
fn logits(target: &str, threads: &str, precision: &str) -> Tensor {
    let folder = Folder::new();
    let (images, out) = (format!("image={}", held_out("test_images.npy")), folder.file("out"));
    let machine = ["--target", target, "--threads", threads];
    let options = [&machine[..], &["--precision", precision, "--output-dir", &out]].concat();
    succeed(&[&["run", DIGITS, "--input", &images][..], &options].concat());
    npy::read(folder.path().join("out/logits.npy")).expect("an array")
}

fn accuracy(logits: &Tensor) -> f64 {
    let labels = npy::read(Path::new(&held_out("test_labels.npy"))).expect("an array");
    let (scores, truth) = (logits.to_f64_vec(), labels.to_f64_vec());
    let classes = scores.len() / truth.len();
    let right = scores.chunks(classes).zip(&truth).filter(|(row, label)| {
        let best = (0..classes).max_by(|&a, &b| row[a].total_cmp(&row[b]));
        best == Some(**label as usize)
    });
    right.count() as f64 / truth.len() as f64
}

#[test]
fn digits_are_read_with_the_same_bits_for_any_number_of_threads() {
    let mut seen = Vec::new();
    for precision in ["f32", "bf16"] {
        let mut of_first: Option<Tensor> = None;
        for target in runnable_targets() {
            let alone = logits(target, "1", precision);
            assert!(accuracy(&alone) >= 0.97, "{target}: {}", accuracy(&alone));
            for threads in ["2", "3"] {
                let shared = logits(target, threads, precision);
                assert_eq!(alone.bytes(), shared.bytes(), "{target}, {threads}, {precision}");
            }
            let first = of_first.get_or_insert(alone.clone());
            assert_eq!(first.bytes(), alone.bytes(), "{target} has bits of its own, {precision}");
        }
        seen.extend(of_first);
    }
    if let [full, short] = &seen[..] {
        let error = tensor::compare(short, full, 0.0, 0.0).relative_l2;
        assert!(error > 1e-5 && error < 2e-2, "bf16 differs by {error:e}");
    }
}

#[test]
fn minimal_filtering_can_be_left_out() {
    let explained = |more: &[&str]| {
        succeed(&[&["explain", DIGITS, "--dim", "batch=16", "--threads", "1", "-v"], more].concat())
    };
    let folder = Folder::new();
    let images = format!("image={}", held_out("test_images.npy"));
    let logits = |name: &str, more: &[&str]| {
        let out = folder.file(name);
        let options = ["run", DIGITS, "--input", &images, "--output-dir", &out];
        succeed(&[&options[..], more].concat());
        npy::read(folder.path().join(name).join("logits.npy")).expect("an array")
    };
    let off = ["--disable", "winograd"];
    assert!(explained(&[]).contains(": winograd F("), "the model has a convolution for it");
    assert!(!explained(&off).contains("winograd"));
    let (filtered, direct) = (logits("filtered", &[]), logits("direct", &off));
    let error = tensor::compare(&filtered, &direct, 0.0, 0.0).relative_l2;
    assert!(error > 0.0 && error < 1e-5, "minimal filtering differs by {error:e}");
}

#[test]
fn every_kernel_agrees_with_the_evaluator() {
    for target in runnable_targets() {
        let report = succeed(&["verify", DIGITS, "--dim", "batch=2", "--target", target]);
        assert!(report.ends_with(" kernels compared with the evaluator, 0 differ\n"), "{report}");
        assert!(report.contains("\n1 outputs compared with the model, 0 differ\n"), "{report}");
    }
}

#[test]
fn bench_prints_one_object_with_the_keys_that_scripts_rely_on() {
    let options = ["--dim", "batch=1", "--seconds", "0.05", "--threads", "1", "--json"];
    let printed = succeed(&[&["bench", DIGITS][..], &options].concat());
    let object: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    let object = object.as_object().expect("an object");
    let mut keys = BENCH_KEYS.to_vec();
    keys.sort_unstable();
    assert_eq!(object.keys().map(String::as_str).collect::<Vec<_>>(), keys);
    assert_eq!(object["model"], DIGITS);
    assert_eq!(object["threads"], 1);
    let positive = BENCH_KEYS.iter().filter(|key| !matches!(**key, "model" | "target"));
    for key in positive {
        assert!(object[*key].as_f64().is_some_and(|value| value > 0.0), "{key}: {printed}");
    }
    let text = succeed(&["bench", DIGITS, "--dim", "batch=1", "--seconds", "0.05"]);
    assert!(text.contains(" ms of ") && text.contains("\narena "), "{text}");
}

#[test]
fn explain_names_the_nodes_of_every_kernel_and_where_the_time_went() {
    let text = succeed(&["explain", DIGITS, "--dim", "batch=16", "--threads", "1"]);
    let table = text.split_once("kernel: model nodes\n").expect("a head of the table").1;
    let rows: Vec<&str> = table.lines().collect();
    assert!(rows.len() >= 8, "{text}");
    let time = |row: &str| row.split_whitespace().next()?.parse::<f64>().ok();
    let times: Vec<f64> = rows.iter().filter_map(|row| time(row)).collect();
    assert_eq!(times.len(), rows.len(), "{text}");
    assert!(times.is_sorted_by(|a, b| a >= b), "{text}");
    for row in rows {
        let nodes = row.rsplit(": ").next().unwrap_or_default();
        assert!(nodes.split(", ").all(|node| node.starts_with("node_")), "{row}");
    }
    assert!(text.contains(" us a run on ") && text.contains(" % of the roofline: "), "{text}");
    let top = succeed(&["explain", DIGITS, "--dim", "batch=16", "--top", "2"]);
    let table = top.split_once("kernel: model nodes\n").expect("a head of the table").1;
    assert_eq!(table.lines().count(), 3, "{top}");
}

#[test]
fn explain_shows_the_kernels_before_a_size_that_is_computed() {
    let text = "input x: f32[4, 5]\nplaces = NonZero(x)\ny = Neg(places)\noutput y: i64\n";
    let model = onnx_text::parse_model(&mut Parser::new(text)).expect("a model");
    let folder = Folder::new();
    std::fs::write(folder.file("sizes.onnx"), model.encode_to_vec()).expect("written");
    let text = succeed(&["explain", &folder.file("sizes.onnx"), "--threads", "1"]);
    for stage in ["main_0_", "main_1_"] {
        assert!(text.contains(stage), "no kernel of stage {stage}: {text}");
    }
}

#[test]
fn explain_shows_what_counts_for_a_loop_beside_its_kernels() {
    let text = "input x: f32[40, 1, 4]\ninput w: f32[1, 5, 4]\ninput r: f32[1, 5, 5]\n\
                y = RNN(x, w, r) {hidden_size = 5}\noutput y: f32\n";
    let model = onnx_text::parse_model(&mut Parser::new(text)).expect("a model");
    let folder = Folder::new();
    std::fs::write(folder.file("rnn.onnx"), model.encode_to_vec()).expect("written");
    let text = succeed(&["explain", &folder.file("rnn.onnx"), "--threads", "1"]);
    for kernel in ["count_", "main_r1_contract"] {
        assert!(text.contains(kernel), "no row of {kernel}: {text}");
    }
}

#[test]
fn info_knows_the_dimensions_by_name() {
    let printed = succeed(&["info", DIGITS, "--json"]);
    let object: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(object["dimensions"], serde_json::json!(["batch"]));
    assert_eq!(object["inputs"][0]["shape"], serde_json::json!(["batch", "1", "8", "8"]));
    assert_eq!(object["unsupported"], serde_json::json!({}));
}
