//! Texts of the language model of the repository that a JSON schema or a grammar allows: whatever
//! is drawn, they are of that form.
#![cfg(feature = "grammar")]

use std::ops::ControlFlow;

use generate::{
    GenerateOptions, Generated, LanguageModel, SamplerOptions, StopReason, TextGrammar,
};
use serde_json::Value;
use tilewright::Options;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/stories/stories.gguf");

const SCHEMA: &str = r#"{
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "legs": {"enum": [2, 4]},
        "kind": {"type": "boolean"}
    },
    "required": ["name", "legs", "kind"],
    "additionalProperties": false
}"#;

fn model() -> LanguageModel {
    LanguageModel::read(MODEL, &Options::default().with_threads(1)).expect("a model")
}

fn generated(model: &LanguageModel, grammar: &TextGrammar, seed: u64, guesses: usize) -> Generated {
    let sampler = SamplerOptions { temperature: 1.5, seed, ..SamplerOptions::default() };
    let grammar = Some(grammar.clone());
    let options = GenerateOptions { tokens: 200, sampler, grammar, guesses, ..Default::default() };
    let prompt = model.tokenizer().encode("Once a small bear", false);
    let mut context = model.context(256).expect("a context");
    let text = context.generate(&prompt, &options, &mut |_| ControlFlow::Continue(()));
    text.expect("a text")
}

#[test]
fn texts_are_what_a_schema_allows() {
    let model = model();
    let grammar = TextGrammar::of_schema(&model, SCHEMA).expect("a schema");
    let mut ends = 0;
    for seed in 0..12 {
        let text = generated(&model, &grammar, seed, 0);
        assert_eq!(text.tokens, generated(&model, &grammar, seed, 7).tokens, "guesses");
        if text.reason != StopReason::End {
            continue;
        }
        ends += 1;
        let value: Value = serde_json::from_str(&text.text).expect("JSON");
        let own = value.as_object().expect("an object");
        assert_eq!(own.keys().collect::<Vec<_>>(), ["name", "legs", "kind"], "{value}");
        let length = value["name"].as_str().expect("a name").chars().count();
        assert!((1..=12).contains(&length) && value["kind"].is_boolean(), "{value}");
        assert!(value["legs"] == 2 || value["legs"] == 4, "{value}");
    }
    assert!(ends >= 10, "{ends} of 12 texts end");
}

#[test]
fn texts_are_what_a_grammar_allows() {
    let model = model();
    let grammar = "start: animal \" is \" (\"big\" | \"small\") \".\"\nanimal: /a [a-z]{3,5}/\n";
    let grammar = TextGrammar::of_grammar(&model, grammar).expect("a grammar");
    for seed in 0..6 {
        let text = generated(&model, &grammar, seed, 0);
        assert_eq!(text.reason, StopReason::End);
        let animal = text.text.strip_prefix("a ").expect("an animal");
        let (animal, rest) = animal.split_once(' ').expect("a word");
        assert!((3..=5).contains(&animal.len()), "{}", text.text);
        assert!(rest == "is big." || rest == "is small.", "{}", text.text);
    }
}

#[test]
fn what_is_no_grammar_is_refused() {
    let model = model();
    let check = |refused: base::Result<TextGrammar>, reason: &str| {
        let refused = refused.expect_err(reason).to_string();
        assert!(refused.contains("TW0212") && refused.contains(reason), "{refused}");
    };
    check(TextGrammar::of_schema(&model, "{\"type\": "), "the schema is no JSON");
    check(TextGrammar::of_schema(&model, "{\"type\": \"thing\"}"), "thing");
    check(TextGrammar::of_grammar(&model, "start: other\n"), "other");
    let deep = format!("{}{}", "{\"items\": ".repeat(100), "}".repeat(100));
    _ = TextGrammar::of_schema(&model, &deep);
}
