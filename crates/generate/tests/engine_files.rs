//! The language model of the repository as an engine file: it writes the texts of the model, and
//! nothing is compiled for them.

use std::ops::ControlFlow;
use std::path::PathBuf;

use generate::{GenerateOptions, LanguageModel, TextContext};
use tilewright::{Executable, Options};

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models");

fn options() -> Options {
    Options::default().with_threads(1)
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The model, and an engine file of it, where the machine multiplies bytes.
fn saved(name: &str) -> Option<(LanguageModel, PathBuf)> {
    let model = LanguageModel::read(format!("{MODELS}/stories/stories.gguf"), &options());
    let (model, path) = (model.expect("a model"), file(name));
    let is_shared = options().target.resolve().expect("a target").multiplies_bytes();
    match model.save(&path, 256) {
        Ok(()) if is_shared => Some((model, path)),
        Err(refused) if !is_shared => {
            assert!(refused.to_string().contains("TW0305"), "{refused}");
            eprintln!("skipped: this machine multiplies no bytes");
            None
        }
        outcome => panic!("{outcome:?}"),
    }
}

fn written(model: &LanguageModel) -> Vec<u32> {
    let prompt = model.tokenizer().encode("Long ago a kind fox wanted to", false);
    let mut context = model.context(256).expect("a context");
    let options = GenerateOptions { tokens: 60, ..GenerateOptions::default() };
    let text = context.generate(&prompt, &options, &mut |_| ControlFlow::Continue(()));
    text.expect("a text").tokens
}

#[test]
fn texts_of_an_engine_are_those_of_the_model_and_compile_nothing() {
    let Some((model, path)) = saved("stories_engine_file.tw") else { return };
    let engine = LanguageModel::read(&path, &options()).expect("an engine");
    // Code that was loaded counts.
    let loaded = engine.compiles();
    assert_eq!(written(&engine), written(&model));
    assert_eq!(engine.compiles(), loaded);
    assert_eq!(engine.trained_places(), model.trained_places());
    assert_eq!(engine.tokenizer().len(), model.tokenizer().len());

    // Several texts take turns.
    let mut texts: Vec<TextContext<'_>> =
        (0..3).map(|_| engine.context(256).expect("a context")).collect();
    let mut turn: Vec<_> = texts.iter_mut().zip([5, 6, 7]).collect();
    let rows = engine.feed_together(&mut turn).expect("logits");
    let mut alone = model.context(256).expect("a context");
    assert_eq!(rows[2], alone.feed(&[7]).expect("logits"));
    assert_eq!(engine.compiles(), loaded);

    // What is known of a text is for the file that it is of.
    let text = file("stories_engine_file.text");
    let mut context = engine.context(256).expect("a context");
    context.feed(&[5, 6, 7]).expect("logits");
    context.save(&text).expect("a file");
    engine.context(256).expect("a context").load(&text).expect("the same engine");
    assert!(alone.load(&text).is_err(), "another file");
}

#[test]
fn other_engine_files_are_refused() {
    let path = file("digits_engine.tw");
    let model = tilewright::compile(format!("{MODELS}/digits/digits.onnx"), &options());
    model.expect("a model").save(&path).expect("a file");
    let refused = LanguageModel::read(&path, &options()).err().expect("a refusal").to_string();
    assert!(refused.contains("no language model"), "{refused}");

    let Some((_, path)) = saved("stories_cut.tw") else { return };
    let whole = std::fs::read(&path).expect("a file");
    for bytes in [&whole[..whole.len() / 2], &whole[..100], &whole[..whole.len() - 1]] {
        std::fs::write(&path, bytes).expect("a file");
        assert!(LanguageModel::read(&path, &options()).is_err());
        assert!(Executable::load(&path, &options()).is_err());
    }
}
