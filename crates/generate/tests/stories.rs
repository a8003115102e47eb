//! A trained model of 260 thousand weights, written as GGUF, where its data is there: the tokens of
//! its reference, whatever way they are computed.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use generate::{
    GenerateOptions, Generated, LanguageModel, SamplerOptions, StopReason, TextGeneration,
    TextTurn, likelihood, step_together,
};
use tilewright::{Activations, Options};

/// Where the data may be.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/stories260K");

/// What the reference in f64 computes greedily from the first token on.
const REFERENCE: [u32; 119] = [
    403, 407, 261, 378, 432, 383, 286, 261, 376, 298, 315, 421, 395, 317, 426, 338, 401, 396, 267,
    337, 410, 408, 419, 292, 411, 322, 265, 282, 295, 433, 426, 385, 328, 432, 358, 394, 261, 370,
    432, 352, 266, 268, 388, 426, 338, 391, 266, 267, 337, 335, 312, 432, 398, 312, 286, 267, 414,
    270, 333, 415, 426, 13, 438, 310, 439, 419, 357, 336, 432, 313, 438, 310, 432, 278, 316, 439,
    419, 298, 414, 267, 265, 282, 295, 433, 426, 436, 317, 286, 296, 418, 269, 279, 292, 416, 439,
    413, 409, 416, 327, 263, 415, 294, 267, 400, 426, 338, 336, 432, 313, 442, 391, 267, 337, 335,
    364, 420, 268, 388, 432,
];

/// A file under construction.
#[derive(Default)]
struct Writer {
    keys: Vec<u8>,
    key_count: u64,
    entries: Vec<u8>,
    tensor_count: u64,
    data: Vec<u8>,
}

impl Writer {
    fn text(bytes: &mut Vec<u8>, text: &[u8]) {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text);
    }

    fn key(&mut self, name: &str, kind: u32, value: &[u8]) {
        Writer::text(&mut self.keys, name.as_bytes());
        self.keys.extend(kind.to_le_bytes());
        self.keys.extend(value);
        self.key_count += 1;
    }

    fn integer(&mut self, name: &str, value: i32) {
        self.key(name, 5, &value.to_le_bytes());
    }

    fn word(&mut self, name: &str, value: &str) {
        let mut bytes = Vec::new();
        Writer::text(&mut bytes, value.as_bytes());
        self.key(name, 8, &bytes);
    }

    fn array(&mut self, name: &str, kind: u32, values: &[Vec<u8>]) {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|value| bytes.extend(value));
        self.key(name, 9, &bytes);
    }

    fn tensor(&mut self, name: &str, shape: &[usize], bytes: &[u8]) {
        Writer::text(&mut self.entries, name.as_bytes());
        self.entries.extend((shape.len() as u32).to_le_bytes());
        shape.iter().rev().for_each(|&it| self.entries.extend((it as u64).to_le_bytes()));
        self.entries.extend(0_u32.to_le_bytes());
        self.entries.extend((self.data.len() as u64).to_le_bytes());
        self.data.extend(bytes);
        self.data.resize(self.data.len().next_multiple_of(32), 0);
        self.tensor_count += 1;
    }

    fn finish(self) -> Vec<u8> {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(self.tensor_count.to_le_bytes());
        bytes.extend(self.key_count.to_le_bytes());
        bytes.extend(self.keys);
        bytes.extend(self.entries);
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes.extend(self.data);
        bytes
    }
}

/// The model and its tokenizer as llama2.c keeps them, as GGUF; see `bench/stories_gguf.py`.
fn as_gguf(model: &[u8], tokenizer: &[u8]) -> Vec<u8> {
    let number = |at: usize| i32::from_le_bytes(model[4 * at..4 * at + 4].try_into().expect("4"));
    let sizes: Vec<usize> = (0..7).map(|at| number(at) as usize).collect();
    let [width, inner, layers, heads, keys, vocabulary, context] = sizes[..] else {
        panic!("7 sizes")
    };
    let mut writer = Writer::default();
    writer.word("general.architecture", "llama");
    for (name, size) in [
        ("block_count", layers),
        ("context_length", context),
        ("embedding_length", width),
        ("feed_forward_length", inner),
        ("attention.head_count", heads),
        ("attention.head_count_kv", keys),
    ] {
        writer.integer(&format!("llama.{name}"), size as i32);
    }
    writer.key("llama.attention.layer_norm_rms_epsilon", 6, &1e-5_f32.to_le_bytes());
    let mut at = 28;
    let mut take = |shape: &[usize]| {
        let count = 4 * shape.iter().product::<usize>();
        at += count;
        &model[at - count..at]
    };
    writer.tensor("token_embd.weight", &[vocabulary, width], take(&[vocabulary, width]));
    let keys_width = width / heads * keys;
    for (name, shape) in [
        ("attn_norm", vec![width]),
        ("attn_q", vec![width, width]),
        ("attn_k", vec![keys_width, width]),
        ("attn_v", vec![keys_width, width]),
        ("attn_output", vec![width, width]),
        ("ffn_norm", vec![width]),
        ("ffn_gate", vec![inner, width]),
        ("ffn_down", vec![width, inner]),
        ("ffn_up", vec![inner, width]),
    ] {
        for layer in 0..layers {
            writer.tensor(&format!("blk.{layer}.{name}.weight"), &shape, take(&shape));
        }
    }
    writer.tensor("output_norm.weight", &[width], take(&[width]));

    let (mut texts, mut scores, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = &tokenizer[4..];
    for number in 0..vocabulary {
        let length = i32::from_le_bytes(rest[4..8].try_into().expect("4")) as usize;
        let piece = String::from_utf8_lossy(&rest[8..8 + length]).replace(' ', "\u{2581}");
        let (kind, piece) = match number {
            0 => (2_i32, "<unk>".to_owned()),
            1 => (3, "<s>".to_owned()),
            2 => (3, "</s>".to_owned()),
            3..259 => (6, piece),
            _ => (1, piece),
        };
        let mut text = Vec::new();
        Writer::text(&mut text, piece.as_bytes());
        texts.push(text);
        scores.push(rest[..4].to_vec());
        kinds.push(kind.to_le_bytes().to_vec());
        rest = &rest[8 + length..];
    }
    writer.word("tokenizer.ggml.model", "llama");
    writer.array("tokenizer.ggml.tokens", 8, &texts);
    writer.array("tokenizer.ggml.scores", 6, &scores);
    writer.array("tokenizer.ggml.token_type", 5, &kinds);
    writer.integer("tokenizer.ggml.bos_token_id", 1);
    writer.integer("tokenizer.ggml.eos_token_id", 1);
    writer.finish()
}

/// The model, where its data is there.
fn model(name: &str, threads: usize) -> Option<LanguageModel> {
    let read = |name: &str| fs::read(Path::new(FOLDER).join(name)).ok();
    let Some((model, tokenizer)) = read("stories260K.bin").zip(read("tok512.bin")) else {
        eprintln!("skipped: there is no {FOLDER}");
        return None;
    };
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("stories_{name}.gguf"));
    fs::write(&path, as_gguf(&model, &tokenizer)).expect("a file");
    let options = Options::default().with_threads(threads);
    Some(LanguageModel::read(&path, &options).expect("a model"))
}

fn generated(model: &LanguageModel, prompt: &[u32], options: &GenerateOptions) -> Generated {
    let mut context = model.context(400).expect("a context");
    let generated = context.generate(prompt, options, &mut |_| ControlFlow::Continue(()));
    generated.expect("a text")
}

fn tokens(count: usize) -> GenerateOptions {
    GenerateOptions { tokens: count, ..GenerateOptions::default() }
}

#[test]
fn the_text_is_that_of_the_reference() {
    let Some(model) = model("text", 1) else { return };
    assert_eq!(model.tokenizer().encode("", false), [1]);
    let text = generated(&model, &[1], &tokens(119));
    assert_eq!(text.tokens, REFERENCE);
    assert!(text.text.starts_with(" Once upon a time, there was a little girl named Lily."));
    // As a prompt, whose runs are others, up to any length: the same tokens follow.
    for given in [1, 15, 16, 17, 100] {
        let prompt = [&[1], &REFERENCE[..given]].concat();
        let rest = generated(&model, &prompt, &tokens(119 - given));
        assert_eq!(rest.tokens, REFERENCE[given..], "{given} tokens given");
    }
    // Neither lengths nor the growth of a text compile anything: runs of 1, 16 and 128 tokens that
    // see 256 places.
    assert_eq!(model.compiles(), 3);
    let mut context = model.context(400).expect("a context");
    let logits = context.feed(&[1]).expect("logits");
    for (token, wanted) in [(403, 17.023_515), (385, 15.406_213), (410, 13.108_263)] {
        assert!((logits[token] - wanted).abs() < 1e-4, "{token}: {}", logits[token]);
    }
    assert_eq!(model.tokenizer().decode(&REFERENCE[..8]), "Once upon a time, there was a");
}

#[test]
fn threads_do_not_matter_and_seeds_reproduce() {
    let (Some(one), Some(two)) = (model("one", 1), model("two", 2)) else { return };
    let sampler = SamplerOptions {
        temperature: 1.0,
        top_k: 40,
        top_p: 0.95,
        min_p: 0.01,
        repetition_penalty: 1.1,
        seed: 7,
        ..SamplerOptions::default()
    };
    let by_chance = GenerateOptions { sampler, ..tokens(60) };
    let first = generated(&one, &[1], &by_chance);
    assert_eq!(first.tokens, generated(&two, &[1], &by_chance).tokens);
    assert_ne!(first.tokens, REFERENCE[..60]);
    let mut contexts = [&one, &two].map(|model| model.context(300).expect("a context"));
    let rows = contexts.each_mut().map(|it| it.feed_all(&REFERENCE[..100]).expect("logits"));
    assert_eq!(rows[0], rows[1]);
}

#[test]
fn what_ends_a_text_is_said() {
    let Some(model) = model("ends", 1) else { return };
    let stop = GenerateOptions { stops: vec!["named".to_owned()], ..tokens(100) };
    let stopped = generated(&model, &[1], &stop);
    assert_eq!(stopped.text, " Once upon a time, there was a little girl ");
    assert_eq!(stopped.reason, StopReason::Stop("named".to_owned()));

    let mut context = model.context(20).expect("a context");
    let full = context.generate(&[1], &tokens(100), &mut |_| ControlFlow::Continue(()));
    let full = full.expect("a text");
    assert_eq!((full.tokens.len(), full.reason), (20, StopReason::Room));
    let refused = context.feed(&[5, 6]).expect_err("there is no room").to_string();
    assert!(refused.contains("there is room for 0 of 20"), "{refused}");
    assert_eq!(context.tokens().len(), 20);
    context.truncate(1);
    let refused = context.feed(&[512]).expect_err("there is no such token").to_string();
    assert!(refused.contains("there is no token 512"), "{refused}");
    assert!(context.feed(&[]).is_err());
    let again = context.feed(&REFERENCE[..10]).expect("logits");
    let next = (0..).zip(&again).max_by(|a, b| a.1.total_cmp(b.1)).map(|(token, _)| token);
    assert_eq!(next, Some(REFERENCE[10]));

    let mut pieces = 0;
    let caller = model.context(100).expect("a context").generate(&[1], &tokens(9), &mut |_| {
        pieces += 1;
        if pieces == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(caller.expect("a text").reason, StopReason::Caller);
}

#[test]
fn a_saved_text_goes_on_as_if_it_had_not_been() {
    let Some(model) = model("saved", 1) else { return };
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("text.saved");
    let prompt = [&[1], &REFERENCE[..60]].concat();
    let mut first = model.context(300).expect("a context");
    first.feed(&prompt).expect("logits");
    first.save(&path).expect("a file");
    let mut other = model.context(200).expect("a context");
    other.load(&path).expect("the text");
    assert_eq!(other.tokens(), prompt);
    assert_eq!(other.rest_of(&prompt), &prompt[60..]);
    let rest = other.generate(&prompt[60..], &tokens(59), &mut |_| ControlFlow::Continue(()));
    assert_eq!(rest.expect("a text").tokens, REFERENCE[60..]);
    let mut short = model.context(30).expect("a context");
    let refused = short.load(&path).expect_err("there is no room").to_string();
    assert!(refused.contains("more tokens than there is room for"), "{refused}");
    let bytes = fs::read(&path).expect("the file");
    let mut check = |bytes: &[u8], reason: &str| {
        fs::write(&path, bytes).expect("a file");
        let refused = short.load(&path).expect_err(reason).to_string();
        assert!(refused.contains(reason), "{refused}");
    };
    check(&bytes[..20], "too short");
    check(&bytes[..bytes.len() - 1], "damaged");
    let mut changed = bytes.clone();
    changed[200] ^= 1;
    check(&changed, "damaged");
    changed[0] = b'x';
    check(&changed, "does not begin as a saved text");
    // Numbers of other options are other numbers.
    fs::write(&path, &bytes).expect("a file");
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("stories_saved.gguf");
    let options = Options::default().with_threads(1).with_activations(Activations::Int8);
    let model = LanguageModel::read(&file, &options).expect("a model");
    let mut other = model.context(200).expect("a context");
    let refused = other.load(&path).expect_err("other numbers").to_string();
    assert!(refused.contains("of another model, or of other options"), "{refused}");
    assert!(other.tokens().is_empty());
}

#[test]
fn the_likelihood_of_a_text_is_that_of_its_tokens() {
    let Some(model) = model("likelihood", 1) else { return };
    let text = [&[1], &REFERENCE[..]].concat();
    let judged = likelihood(&model, &text, 512).expect("a likelihood");
    assert_eq!(judged.tokens, 119);
    assert!((1.0..2.0).contains(&judged.perplexity()), "{judged:?}");
    let parts = likelihood(&model, &text, 40).expect("a likelihood");
    assert!(parts.tokens == 117 && parts.perplexity() > judged.perplexity(), "{parts:?}");
    assert!(likelihood(&model, &[1], 8).is_err());
}

/// A sampler whose choices depend on the tokens before, too.
fn by_chance(seed: u64) -> SamplerOptions {
    SamplerOptions {
        temperature: 0.8,
        top_p: 0.95,
        repetition_penalty: 1.05,
        seed,
        ..SamplerOptions::default()
    }
}

#[test]
fn guesses_change_no_token() {
    let Some(model) = model("guesses", 1) else { return };
    // A model that is nearly the same, as a small one that guesses well would be.
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("stories_guesses.gguf");
    let options = Options::default().with_threads(1).with_activations(Activations::Int8);
    let other = LanguageModel::read(&file, &options).expect("a model");
    let prompt = [&[1], &REFERENCE[..80], &REFERENCE[..20]].concat();
    let named = vec!["garden".to_owned(), "Tim".to_owned()];
    let cases = [
        tokens(60),
        GenerateOptions { sampler: by_chance(3), ..tokens(60) },
        GenerateOptions { stops: named, sampler: by_chance(4), ..tokens(250) },
    ];
    for case in cases {
        let plain = generated(&model, &prompt, &case);
        assert_eq!((plain.guessed, plain.right), (0, 0));
        for guesses in [1, 3, 7, 15] {
            let case = GenerateOptions { guesses, ..case.clone() };
            let of_repeats = generated(&model, &prompt, &case);
            let mut context = model.context(400).expect("a context");
            let generation = TextGeneration::new(&context, &prompt, &case).expect("a text");
            let guessing = other.context(400).expect("a context");
            let generation = generation.guessing_by(&context, guessing).expect("the same tokens");
            let of_model = generation.finish(&mut context, &mut |_| ControlFlow::Continue(()));
            let of_model = of_model.expect("a text");
            for found in [of_repeats, of_model] {
                assert_eq!(found.tokens, plain.tokens, "{guesses} guesses");
                assert_eq!((&found.text, &found.reason), (&plain.text, &plain.reason));
                assert!(found.guessed >= found.right && found.guessed > 0, "{found:?}");
            }
            let known = prompt.len() + plain.tokens.len() - 1;
            assert_eq!(context.tokens().len(), known, "guesses are forgotten");
        }
    }
    // A text that ends because it is full ends there with guesses, too.
    let mut ends = [0, 7].map(|guesses| {
        let mut context = model.context(120).expect("a context");
        let options = GenerateOptions { guesses, ..tokens(100) };
        let full = context.generate(&prompt, &options, &mut |_| ControlFlow::Continue(()));
        full.map(|full| (full.tokens, full.reason)).expect("a text")
    });
    let [plain, guessed] = ends.each_mut();
    assert_eq!((&plain.1, &plain), (&StopReason::Room, &guessed));
}

#[test]
fn texts_at_once_are_those_alone() {
    let Some(model) = model("together", 1) else { return };
    let long = [&[1], &REFERENCE[..], &REFERENCE[..110]].concat();
    let prompts = [vec![1], vec![1, 403, 407], long, vec![1, 385], vec![1, 410], vec![1, 408, 419]];
    let options: Vec<GenerateOptions> = (0..prompts.len())
        .map(|text| GenerateOptions {
            sampler: if text % 2 == 0 { by_chance(text as u64) } else { tokens(0).sampler },
            guesses: if text == 4 { 3 } else { 0 },
            ..tokens(20 + 15 * text)
        })
        .collect();
    let alone: Vec<Generated> = prompts
        .iter()
        .zip(&options)
        .map(|(prompt, options)| generated(&model, prompt, options))
        .collect();
    let mut texts: Vec<_> = prompts
        .iter()
        .zip(&options)
        .map(|(prompt, options)| {
            let context = model.context(400).expect("a context");
            let generation = TextGeneration::new(&context, prompt, options).expect("a text");
            (generation, context, String::new())
        })
        .collect();
    let mut ends: Vec<Option<StopReason>> = vec![None; texts.len()];
    // One comes later than the others, and each leaves when it ends.
    for round in 0.. {
        let open: Vec<usize> = (0..texts.len())
            .filter(|&text| ends[text].is_none() && (text != 1 || round > 5))
            .collect();
        if open.is_empty() {
            break;
        }
        let mut rest = texts.iter_mut().enumerate().filter(|(text, _)| open.contains(text));
        let mut pieces = Vec::new();
        let mut parts = Vec::new();
        for (_, (generation, context, written)) in &mut rest {
            pieces.push(|piece: &str| {
                written.push_str(piece);
                ControlFlow::Continue(())
            });
            parts.push((generation, context));
        }
        let mut turns: Vec<TextTurn<'_, '_>> = parts
            .into_iter()
            .zip(&mut pieces)
            .map(|((generation, context), piece)| TextTurn { generation, context, piece })
            .collect();
        let outcomes = step_together(&model, &mut turns);
        for (text, outcome) in open.into_iter().zip(outcomes) {
            ends[text] = outcome.expect("a step");
        }
    }
    for (((generation, context, written), alone), reason) in texts.into_iter().zip(alone).zip(ends)
    {
        let kept = context.tokens().len();
        let found = generation.into_generated(reason.expect("an end"));
        assert_eq!((&found.tokens, &found.reason), (&alone.tokens, &alone.reason));
        assert_eq!((&found.text, &written), (&alone.text, &alone.text));
        assert!(kept >= found.tokens.len());
    }
    // Logits of a text do not depend on the others to the bit, whatever their lengths.
    let fed = |lengths: &[usize]| {
        let contexts = lengths.iter().map(|&length| {
            let mut context = model.context(400).expect("a context");
            context.feed(&REFERENCE[..length]).expect("logits");
            context
        });
        let mut contexts: Vec<_> = contexts.collect();
        let mut texts: Vec<_> = contexts.iter_mut().map(|context| (context, 403)).collect();
        model.feed_together(&mut texts).expect("logits")
    };
    assert_eq!(fed(&[9, 20, 30])[0], fed(&[9, 70, 5])[0]);
    let mut context = model.context(20).expect("a context");
    let refused = model.feed_together(&mut [(&mut context, 512)]).expect_err("no such token");
    assert!(refused.to_string().contains("there is no token 512"), "{refused}");
}
