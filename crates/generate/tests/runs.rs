//! Logits of the language model of the repository, whose weights are in blocks, where bytes are
//! multiplied: the same bits, whether tokens come one by one, several at once, or with other texts.
//! Activations are as given: rounded to 8 bits, norms of several rows add up in another order.

use generate::{GenerateOptions, LanguageModel, TextContext};
use tilewright::{KeyValues, Options};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/stories/stories.gguf");

/// The model, where the machine multiplies bytes: elsewhere its weights become floats.
fn model(key_values: KeyValues) -> Option<LanguageModel> {
    let options = Options::default().with_threads(1).with_key_values(key_values);
    if !options.target.resolve().expect("a target").multiplies_bytes() {
        eprintln!("skipped: this machine multiplies no bytes");
        return None;
    }
    Some(LanguageModel::read(MODEL, &options).expect("a model"))
}

fn bits(rows: &[Vec<f32>]) -> Vec<Vec<u32>> {
    rows.iter().map(|row| row.iter().map(|logit| logit.to_bits()).collect()).collect()
}

#[test]
fn logits_are_those_of_runs_of_one_token() {
    let Some(model) = model(KeyValues::F32) else { return };
    let prompt = "Long ago a kind fox wanted to find an old oak by the river.";
    let mut tokens = model.tokenizer().encode(prompt, false);
    // Behind a page, too: places of two are added up.
    tokens = tokens.iter().copied().cycle().take(272).collect();
    let context = || -> TextContext<'_> { model.context(400).expect("a context") };
    let mut one = context();
    let feed = |token: &u32| one.feed(&[*token]).expect("logits");
    let wanted = bits(&tokens.iter().map(feed).collect::<Vec<_>>());
    for count in [2, 4, 8, 16, 128] {
        let mut several = context();
        let feed = |part| several.feed_all(part).expect("logits");
        let rows: Vec<_> = tokens.chunks(count).flat_map(feed).collect();
        assert!(bits(&rows) == wanted, "runs of {count} tokens");
    }
    for count in [2, 4, 8] {
        let mut texts: Vec<_> = (0..count).map(|_| context()).collect();
        for (token, wanted) in tokens.iter().zip(&wanted).take(24) {
            let mut turn: Vec<_> = texts.iter_mut().map(|text| (text, *token)).collect();
            for row in model.feed_together(&mut turn).expect("logits") {
                assert!(bits(&[row])[0] == *wanted, "{count} texts");
            }
        }
    }
    let written = |guesses: usize| {
        let options = GenerateOptions { tokens: 80, guesses, ..GenerateOptions::default() };
        let text = context()
            .generate(&tokens[..40], &options, &mut |_| std::ops::ControlFlow::Continue(()));
        text.expect("a text").tokens
    };
    let plain = written(0);
    for guesses in [1, 3, 7, 15] {
        assert_eq!(written(guesses), plain, "{guesses} guesses");
    }
}

#[test]
fn shorter_keys_and_values_are_near_and_of_the_same_bits_in_runs_of_several() {
    let prompt = "Long ago a kind fox wanted to find an old oak by the river.";
    let mut plain: Vec<Vec<f32>> = Vec::new();
    for (name, key_values) in KeyValues::ALL {
        let Some(model) = model(key_values) else { return };
        let tokens = model.tokenizer().encode(prompt, false);
        let tokens: Vec<u32> = tokens.iter().copied().cycle().take(272).collect();
        let context = || -> TextContext<'_> { model.context(400).expect("a context") };
        let mut one = context();
        let rows: Vec<_> =
            tokens.iter().map(|token| one.feed(&[*token]).expect("logits")).collect();
        for count in [4, 128] {
            let mut several = context();
            let feed = |part| several.feed_all(part).expect("logits");
            let own: Vec<_> = tokens.chunks(count).flat_map(feed).collect();
            assert!(bits(&own) == bits(&rows), "{name}: runs of {count} tokens");
        }
        if plain.is_empty() {
            plain.clone_from(&rows);
        }
        let off = |(row, other): (&Vec<f32>, &Vec<f32>)| {
            let squares = row.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum::<f32>();
            (squares / other.iter().map(|logit| logit * logit).sum::<f32>()).sqrt()
        };
        let worst = rows.iter().zip(&plain).map(off).fold(0.0, f32::max);
        let most = match key_values {
            KeyValues::F32 => 0.0,
            KeyValues::F16 => 0.002,
            KeyValues::Bf16 => 0.02,
            // An element is off by a 254th of the greatest of its head.
            KeyValues::Int8 => 0.1,
        };
        eprintln!("{name}: {worst}");
        assert!(worst <= most, "{name}: off by {worst}");
        // A text that grows by a page more has the code that was made for two.
        let mut long = model.context(900).expect("a context");
        let feed = |long: &mut TextContext<'_>| {
            let whole: Vec<u32> = tokens[..128].to_vec();
            long.feed(&whole).expect("logits");
        };
        (0..3).for_each(|_| feed(&mut long));
        let compiles = model.compiles();
        (0..3).for_each(|_| feed(&mut long));
        assert_eq!(model.compiles(), compiles, "{name}: code for a third page");
    }
}
