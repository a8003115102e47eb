//! `tilewright generate`: a text that a language model continues.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
#[cfg(feature = "grammar")]
use generate::TextGrammar;
use generate::{
    GenerateOptions, LanguageModel, SamplerOptions, StopReason, TextContext, TextGeneration,
};

use crate::Outcome;
use crate::arguments::{ModelArguments, TimingArguments};
use crate::help::{INPUTS, OUTPUTS, WORK, examples};
use crate::messages::note;
use crate::standard_output::{say, say_line};

/// Arguments of `tilewright generate`.
#[derive(Args)]
#[command(after_long_help = examples(&[
    ("tilewright generate model.gguf -p 'Once upon a time'", "the likeliest text, as it comes"),
    (
        "tilewright generate model.gguf -p 'Once' --temperature 0.8 --top-p 0.95 --seed 7",
        "one by chance, the same for the same seed",
    ),
    ("tilewright generate model.gguf -p '1, 2,' --stop 4 --tokens 20", "up to a text"),
    (
        "tilewright generate model.gguf -p 'Once' --speculate 7",
        "guesses what the text repeats, several tokens a run",
    ),
]))]
#[command(next_help_heading = WORK)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    timings: TimingArguments,
    /// The text that the model continues
    #[arg(short, long, value_name = "TEXT", help_heading = INPUTS)]
    prompt: String,
    #[command(flatten)]
    sampling: SamplingArguments,
    /// Keeps what is known of the prompt in a file, and begins with that
    ///
    /// Where the file is there, what its text and the prompt begin with is not run again.
    #[arg(long, value_name = "FILE", help_heading = INPUTS)]
    prompt_cache: Option<PathBuf>,
    /// A smaller model of the same tokenizer, which guesses for `--speculate`
    #[arg(long, value_name = "MODEL", requires = "speculate")]
    #[arg(hide_short_help = true, help_heading = INPUTS)]
    draft: Option<PathBuf>,
    /// Prints the numbers of tokens, not their text
    #[arg(long, help_heading = OUTPUTS)]
    ids: bool,
}

/// How a text goes on.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = WORK)]
pub(crate) struct SamplingArguments {
    /// The most tokens
    #[arg(short = 'n', long, value_name = "N", default_value_t = 256)]
    pub(crate) tokens: usize,
    /// How many tokens of prompt and text there is room for [default: what the model was made for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub(crate) context: Option<u32>,
    /// What logits are divided by; 0 takes the likeliest token
    #[arg(long, value_name = "T", default_value_t = 0.0, value_parser = amount)]
    temperature: f32,
    /// The likeliest N tokens count; 0 is all
    #[arg(long, value_name = "N", default_value_t = 0)]
    top_k: usize,
    /// The likeliest tokens count that together are at least so likely
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = share)]
    top_p: f32,
    /// Tokens count that are at least so many times as likely as the likeliest
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = share)]
    min_p: f32,
    /// Divides the logits of tokens that came shortly before
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = factor)]
    repetition_penalty: f32,
    /// Taken from logits for each time that the token came shortly before
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = amount)]
    #[arg(hide_short_help = true)]
    frequency_penalty: f32,
    /// Taken from logits of tokens that came shortly before
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = amount)]
    #[arg(hide_short_help = true)]
    presence_penalty: f32,
    /// What all chances follow from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// A text at which it ends, which is not printed
    #[arg(long = "stop", value_name = "TEXT")]
    stops: Vec<String>,
    /// Guesses up to N tokens that follow, by what the text repeats, and judges them in one run
    ///
    /// The text is the same but for rounding, by which weights that are floats and `--activations
    /// int8` may have another token chosen. It pays where texts repeat what they or their prompts
    /// have said; runs take 2, 4, 8 or 16 tokens, so 1, 3, 7 or 15 guesses fill them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=63))]
    #[arg(hide_short_help = true)]
    speculate: Option<u8>,
    /// The text is JSON that a schema allows, which a file has
    #[cfg(feature = "grammar")]
    #[arg(long, value_name = "FILE", conflicts_with = "grammar", help_heading = INPUTS)]
    schema: Option<PathBuf>,
    /// The text is what a grammar allows, which a file has in the notation of Lark
    #[cfg(feature = "grammar")]
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = INPUTS)]
    grammar: Option<PathBuf>,
}

fn amount(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(amount) if amount >= 0.0 && amount.is_finite() => Ok(amount),
        _ => Err("expected a number, 0 or more".to_owned()),
    }
}

fn share(text: &str) -> Result<f32, String> {
    amount(text).and_then(|share| match share <= 1.0 {
        true => Ok(share),
        false => Err("expected a number from 0 to 1".to_owned()),
    })
}

fn factor(text: &str) -> Result<f32, String> {
    amount(text).and_then(|factor| match factor > 0.0 {
        true => Ok(factor),
        false => Err("expected a number above 0".to_owned()),
    })
}

impl SamplingArguments {
    /// How a text of a model goes on.
    ///
    /// # Errors
    /// A schema or a grammar that cannot be read, or used.
    #[cfg_attr(not(feature = "grammar"), expect(unused_variables, clippy::unnecessary_wraps))]
    pub(crate) fn options(&self, model: &LanguageModel) -> base::Result<GenerateOptions> {
        let sampler = SamplerOptions {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            seed: self.seed,
            ..SamplerOptions::default()
        };
        let guesses = self.speculate.map_or(0, usize::from);
        Ok(GenerateOptions {
            tokens: self.tokens,
            sampler,
            stops: self.stops.clone(),
            guesses,
            #[cfg(feature = "grammar")]
            grammar: match (&self.schema, &self.grammar) {
                (Some(path), _) => Some(read_grammar(path, model, TextGrammar::of_schema)?),
                (None, Some(path)) => Some(read_grammar(path, model, TextGrammar::of_grammar)?),
                (None, None) => None,
            },
        })
    }

    /// How many tokens there is to be room for.
    pub(crate) fn places(&self, model: &LanguageModel) -> usize {
        self.context.map_or(model.trained_places(), |context| context as usize)
    }
}

/// What a file says that texts have to be.
#[cfg(feature = "grammar")]
fn read_grammar(
    path: &std::path::Path,
    model: &LanguageModel,
    of: fn(&LanguageModel, &str) -> base::Result<TextGrammar>,
) -> base::Result<TextGrammar> {
    let text = std::fs::read_to_string(path).map_err(|found| {
        base::Diagnostic::error(base::codes::CANNOT_READ_FILE, "cannot read the file")
            .at(path.display().to_string())
            .because(found.to_string())
            .remedy("give a file of text in UTF-8")
    })?;
    of(model, &text).map_err(|found| found.map(|one| one.at(path.display().to_string())))
}

/// Compiles, takes the prompt in, prints the text piece by piece.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let mut options = arguments.model.options();
    options.phases = arguments.timings.phases();
    let started = Instant::now();
    let model = LanguageModel::read(&arguments.model.model, &options)?;
    let prompt = model.tokenizer().encode(&arguments.prompt, false);
    let mut context = model.context(arguments.sampling.places(&model))?;
    let mut rest = &prompt[..];
    if let Some(file) = &arguments.prompt_cache {
        if file.exists() {
            context.load(file)?;
            rest = context.rest_of(&prompt);
        }
        // All but the last token, whose logits are asked for.
        if let Some((last, front)) = rest.split_last().filter(|(_, front)| !front.is_empty()) {
            context.feed(front)?;
            context.save(file)?;
            rest = std::slice::from_ref(last);
        }
    }
    let draft = match &arguments.draft {
        Some(path) => Some(LanguageModel::read(path, &options)?),
        None => None,
    };
    let how = arguments.sampling.options(&model)?;
    let mut generation = TextGeneration::new(&context, rest, &how)?;
    if let Some(draft) = &draft {
        let other: TextContext<'_> = draft.context(arguments.sampling.places(&model))?;
        generation = generation.guessing_by(&context, other)?;
    }
    let mut first: Option<Instant> = None;
    let generated = generation.finish(&mut context, &mut |piece| {
        first.get_or_insert_with(Instant::now);
        if !arguments.ids {
            say!("{piece}");
            // Whoever reads along sees each piece when it is there.
            _ = std::io::stdout().flush();
        }
        ControlFlow::Continue(())
    })?;
    match arguments.ids {
        true => say_line!("{:?}", generated.tokens),
        false => say_line!(""),
    }
    if let StopReason::Room = generated.reason {
        let places = arguments.sampling.places(&model);
        note(&format!("the text ends because there is room for {places} tokens (`--context`)"));
    }
    if let Some(first) = first.filter(|_| arguments.timings.are_asked_for()) {
        let count = generated.tokens.len().saturating_sub(1);
        let each = first.elapsed().as_secs_f64() * 1e3 / count.max(1) as f64;
        let before = (first - started).as_secs_f64() * 1e3;
        eprintln!("first piece after {before:.0} ms, then {count} tokens of {each:.2} ms");
        if generated.guessed > 0 {
            eprintln!("{} of {} guesses were right", generated.right, generated.guessed);
        }
    }
    arguments.timings.print(&options.phases);
    Ok(Outcome::Good)
}
