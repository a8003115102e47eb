//! Engine files on the command line: what runs of them, what needs the model that they do not hold,
//! and files that are not as they were written.

mod support;

use import_onnx::proto::ModelProto;
use prost::Message;
use support::{Folder, runnable_targets, tilewright};
use tilewright::Options;

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/digits/digits.onnx");

const STORIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/stories/stories.gguf");

fn run(folder: &Folder, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = tilewright(folder.path(), arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A folder with an engine of the digits' model for two pictures.
fn engine() -> Option<Folder> {
    if runnable_targets().is_empty() {
        println!("skipped: this machine does not run what is compiled");
        return None;
    }
    let folder = Folder::new();
    let fixed = ["--dim", "batch=2", "--emit", "engine", "-o", "digits.tw"];
    let (status, _, errors) = run(&folder, &[&["compile", DIGITS][..], &fixed].concat());
    assert_eq!(status, Some(0), "{errors}");
    Some(folder)
}

#[test]
fn an_engine_runs_in_the_place_of_its_model() {
    let Some(folder) = engine() else { return };
    let (status, outputs, errors) = run(&folder, &["run", "digits.tw"]);
    assert_eq!(status, Some(0), "{errors}");
    let (_, wanted, _) = run(&folder, &["run", DIGITS, "--dim", "batch=2", "--no-cache"]);
    assert!(outputs.contains("logits: f32[2, 10]") && outputs == wanted, "{outputs}{wanted}");
    let (status, shown, errors) = run(&folder, &["info", "digits.tw", "--check"]);
    assert_eq!(status, Some(0), "{errors}");
    assert!(shown.contains("input image: f32[2, 1, 8, 8]"), "{shown}");
    for looked in [&["explain", "digits.tw"][..], &["bench", "digits.tw", "--seconds", "0.01"]] {
        let (status, _, errors) = run(&folder, looked);
        assert_eq!(status, Some(0), "{looked:?}: {errors}");
    }
}

#[test]
fn engines_are_made_for_machines_that_run_other_code() {
    let here = runnable_targets();
    if here.is_empty() {
        println!("skipped: this machine does not run what is compiled");
        return;
    }
    let folder = Folder::new();
    let outputs = ["x86-64-v3", "x86-64-v4"].map(|target| {
        for form in
            [&["engine", "-o", "digits.tw"][..], &["shared", "--fold-setup", "-o", "library"]]
        {
            let fixed = ["compile", DIGITS, "--dim", "batch=2", "--target", target, "--emit"];
            let (status, _, errors) = run(&folder, &[&fixed[..], form].concat());
            assert_eq!(status, Some(0), "{target}: {errors}");
        }
        let (status, _, errors) = run(&folder, &["info", "digits.tw", "--check"]);
        assert_eq!(status, Some(0), "{errors}");
        let (status, outputs, errors) = run(&folder, &["run", "digits.tw"]);
        match here.contains(&target) {
            true => assert_eq!(status, Some(0), "{errors}"),
            false => assert!(status == Some(1) && errors.contains("TW0402"), "{errors}"),
        }
        (status == Some(0)).then_some(outputs)
    });
    assert!(outputs.iter().flatten().all(|its| Some(its) == outputs[0].as_ref()), "{outputs:?}");
    let sources = ["compile", DIGITS, "--emit", "engine", "--target", "c99", "-o", "other.tw"];
    let (status, _, errors) = run(&folder, &sources);
    assert!(status == Some(1) && errors.contains("TW0402"), "{errors}");
}

#[test]
fn a_language_model_is_written_from_its_engine() {
    if runnable_targets().is_empty() {
        println!("skipped: this machine does not run what is compiled");
        return;
    }
    let folder = Folder::new();
    let emit = ["--emit", "engine", "--context", "200", "-o", "stories.tw"];
    let (status, _, errors) = run(&folder, &[&["compile", STORIES][..], &emit].concat());
    let has_bytes = Options::default().target.resolve().expect("a target").multiplies_bytes();
    if !has_bytes {
        assert!(status == Some(1) && errors.contains("TW0305"), "{errors}");
        return;
    }
    assert_eq!(status, Some(0), "{errors}");
    let text = ["-p", "Long ago a kind fox", "-n", "40", "--threads", "1"];
    let (status, written, errors) =
        run(&folder, &[&["generate", "stories.tw"][..], &text].concat());
    assert_eq!(status, Some(0), "{errors}");
    let (_, wanted, _) = run(&folder, &[&["generate", STORIES][..], &text].concat());
    assert!(written.len() > 40 && written == wanted, "{written}{wanted}");

    for (model, form) in [(DIGITS, "engine"), (STORIES, "c")] {
        let others = ["--emit", form, "--context", "200", "-o", "other"];
        let (status, _, errors) = run(&folder, &[&["compile", model][..], &others].concat());
        assert!(status == Some(1) && errors.contains("engines of language models"), "{errors}");
    }
}

#[test]
fn an_engine_takes_the_weights_of_another_file() {
    let Some(folder) = engine() else { return };
    let weights = ["--emit", "weights", "-o", "digits.tw"];
    let refit = |model: &str| run(&folder, &[&["compile", model][..], &weights].concat());
    let bytes = std::fs::read(DIGITS).expect("reads");
    let mut model = ModelProto::decode(&bytes[..]).expect("decodes");
    let constants = model.graph.iter_mut().flat_map(|graph| &mut graph.initializer);
    for own in constants.filter_map(|tensor| tensor.raw_data.as_mut()) {
        let mut changed = own.to_vec();
        // The lowest bits of floats; integers, all of which are small, stay as they are.
        for number in changed.chunks_exact_mut(4).filter(|number| number[3] != 0) {
            number[0] ^= 0x5a;
        }
        *own = changed.into();
    }
    std::fs::write(folder.path().join("other.onnx"), model.encode_to_vec()).expect("written");
    let (_, before, _) = run(&folder, &["run", "digits.tw"]);
    let (status, _, errors) = refit("other.onnx");
    assert_eq!(status, Some(0), "{errors}");
    let (_, outputs, _) = run(&folder, &["run", "digits.tw"]);
    let rebuilt = ["run", "other.onnx", "--dim", "batch=2", "--no-cache"];
    let (_, wanted, _) = run(&folder, &rebuilt);
    assert!(outputs == wanted && outputs != before, "{outputs}{wanted}{before}");
    let fixed = ["--dim", "batch=2", "--emit", "engine", "-o", "other.tw"];
    let (status, _, errors) = run(&folder, &[&["compile", "other.onnx"][..], &fixed].concat());
    assert_eq!(status, Some(0), "{errors}");
    let file = |name: &str| std::fs::read(folder.path().join(name)).expect("an engine");
    assert!(file("digits.tw") == file("other.tw"), "it is the engine of the other model");
    let nodes = model.graph.iter_mut().flat_map(|graph| &mut graph.node);
    for node in nodes.filter(|node| node.op_type == "Relu") {
        "Sigmoid".clone_into(&mut node.op_type);
    }
    std::fs::write(folder.path().join("stranger.onnx"), model.encode_to_vec()).expect("written");
    let (status, _, errors) = refit("stranger.onnx");
    assert_ne!(status, Some(0));
    assert!(errors.contains("error[TW0306]"), "{errors}");
    assert_eq!(run(&folder, &["run", "digits.tw"]).1, outputs, "the engine is as it was");
}

#[test]
fn what_needs_the_model_says_so() {
    let Some(folder) = engine() else { return };
    for asked in [
        &["verify", "digits.tw"][..],
        &["verify", "digits.tw", "--dim", "batch=2"],
        &["dump", "digits.tw"],
        &["compile", "digits.tw", "--emit", "c", "-o", "c"],
        &["compile", "digits.tw", "--emit", "shared", "-o", "shared"],
    ] {
        let (status, _, errors) = run(&folder, asked);
        assert_ne!(status, Some(0), "{asked:?}");
        assert!(errors.contains("error[TW0305]"), "{asked:?}: {errors}");
    }
    for made in ["c", "shared"] {
        assert!(!folder.path().join(made).exists(), "{made} is there");
    }
}

#[test]
fn a_file_that_is_cut_or_changed_is_refused() {
    let Some(folder) = engine() else { return };
    let path = folder.path().join("digits.tw");
    let good = std::fs::read(&path).expect("an engine");
    let mut changed = good.clone();
    changed[40] ^= 1;
    for bad in [&good[..20], &good[..good.len() / 2], &changed] {
        std::fs::write(&path, bad).expect("written");
        let (status, _, errors) = run(&folder, &["run", "digits.tw"]);
        assert_ne!(status, Some(0), "{} bytes", bad.len());
        assert!(errors.contains("error[TW0303]"), "{errors}");
    }
}
