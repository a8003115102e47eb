//! The language model of the repository: its texts are like those that it has learned from.

use std::ops::ControlFlow;

use generate::{GenerateOptions, LanguageModel, SamplerOptions, StopReason, likelihood};
use tilewright::Options;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/stories/stories.gguf");

/// As the grammar has it, by the seed 5.
const LEARNED: &str = "Long ago a kind fox lived in a den under an old oak. Kiki was its name. \
    Every day Kiki went to the meadow. Then came a day that was not like the others. There was not \
    a cloud in the sky. Kiki wanted to learn to bake bread.";

/// The same words in another order.
const SHUFFLED: &str = "Kiki oak a ago in kind bake. Every cloud was others meadow the to went day \
    its lived. Bread to learn Kiki fox wanted Long not sky a in the was There name under.";

#[test]
fn it_knows_stories_and_ends_them() {
    let model = LanguageModel::read(MODEL, &Options::default().with_threads(1)).expect("a model");
    let tokens = |text: &str| model.tokenizer().encode(text, false);
    let of = |text: &str| likelihood(&model, &tokens(text), 256).expect("a text").perplexity();
    let (learned, shuffled) = (of(LEARNED), of(SHUFFLED));
    assert!(learned < 3.0 && shuffled > 30.0 * learned, "{learned} and {shuffled}");
    assert_eq!(model.tokenizer().decode(&tokens(LEARNED)), LEARNED);
    let sampler =
        SamplerOptions { temperature: 0.8, top_p: 0.95, seed: 1, ..SamplerOptions::default() };
    let options = GenerateOptions { sampler, ..GenerateOptions::default() };
    let mut context = model.context(256).expect("a context");
    let story = context.generate(&tokens(""), &options, &mut |_| ControlFlow::Continue(()));
    let story = story.expect("a story");
    assert_eq!(story.reason, StopReason::End, "{}", story.text);
    assert!(story.text.len() > 200, "{}", story.text);
}
