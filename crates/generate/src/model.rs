//! A language model as an executable whose keys and values lie in a state.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use base::{Diagnostic, Diagnostics, Result, codes};
use tensor::{DType, Tensor};
use tilewright::compiled::{DecoderModel, EngineSource, PAGE_PLACES, Source, compile_early};
use tilewright::{Activations, Executable, ModelState, Options};

use crate::together::Together;
use crate::tokenizer::TextTokenizer;

/// How many tokens a run takes, least first: a prompt is cut into the largest, and what is left is
/// filled up to the least that holds it.
const RUNS: [usize; 3] = [1, 16, 128];

/// How many tokens a run takes behind each of which logits are asked for.
pub(crate) const RUNS_OF_ROWS: [usize; 6] = [1, 2, 4, 8, 16, 128];

/// Tokens up to this many are run one by one: what reads a whole prompt at once is compiled for
/// longer ones.
const FEW: usize = 4;

/// A language model, ready to run. Any number of [`TextContext`]s may use it at once.
pub struct LanguageModel {
    /// For one token.
    one: Arc<Executable>,
    /// For several; the same where both read weights as they are stored, and else made when it is
    /// first used.
    many: Mutex<Option<Arc<Executable>>>,
    /// For a token of each of several texts.
    together: Together,
    #[cfg(feature = "grammar")]
    grammar_tokens: crate::grammar::GrammarTokens,
    source: Source,
    /// What it was loaded of, if not of a model.
    engine: Option<Arc<EngineSource>>,
    options: Options,
    tokenizer: TextTokenizer,
    /// What the model says of itself; of an engine without the data of tensors.
    model: Arc<DecoderModel>,
}

impl LanguageModel {
    /// Whether a file or a folder is a language model that has its tokenizer with it.
    ///
    /// # Errors
    /// Files that cannot be read, or are damaged.
    pub fn is_one(path: impl AsRef<Path>, options: &Options) -> Result<bool> {
        match Source::read(path, &options.limits)? {
            Source::Decoder(model) => {
                let name = model.file().text("tokenizer.ggml.model")?;
                Ok(name.is_some_and(|name| name != "no_vocab"))
            }
            Source::Engine(engine) => Ok(engine.beside().is_some()),
            _ => Ok(false),
        }
    }

    /// Reads and compiles a model: a GGUF file, or a folder as Hugging Face writes it; or loads an
    /// engine file that [`Self::save`] has written.
    ///
    /// # Errors
    /// `TW0303` and the like for files that cannot be read; `TW0103` for one that is no language
    /// model, and what [`TextTokenizer::of`] refuses.
    pub fn read(path: impl AsRef<Path>, options: &Options) -> Result<LanguageModel> {
        let path = path.as_ref();
        let source = Source::read(path, &options.limits)?;
        let engine = match &source {
            Source::Engine(engine) => Some(engine.clone()),
            _ => None,
        };
        let model = match (&source, engine.as_ref().and_then(|engine| engine.beside())) {
            (Source::Decoder(model), _) => model.clone(),
            (_, Some(head)) => Arc::new(DecoderModel::read_head(&head, &options.limits)?),
            (_, None) => {
                let message = "there is no language model in GGUF, or in a safetensors folder";
                return Err(Diagnostic::error(codes::UNSUPPORTED_OPERATOR, message)
                    .at(path.display().to_string())
                    .because("a text is generated with the tokenizer that such a model holds")
                    .remedy("convert the model to GGUF, or run it with `tilewright run`")
                    .into());
            }
        };
        let mut options = options.clone();
        options.updates = updates(&source, &options)?;
        if engine.is_none() {
            // As a text grows it has other numbers of pages, which share code.
            options = options.with_symbolic_extents_but(&["tokens", "rows"]);
        }
        // Where bytes are multiplied, products of many tokens read weights as those of one do.
        let is_shared = engine.is_some() || options.target.resolve()?.multiplies_bytes();
        let compiled = || match is_shared {
            true => compile_early(source.clone(), &options),
            false => {
                let single = options.clone().with_dim("tokens", 1).with_dim("rows", 1);
                compile_early(source.clone(), &single)
            }
        };
        let (tokenizer, one) = beside(|| TextTokenizer::of(model.file()), compiled);
        let (tokenizer, one) = (tokenizer?, Arc::new(one?));
        let many = is_shared.then(|| one.clone());
        if tokenizer.len() > model.vocabulary() {
            let (tokens, rows) = (tokenizer.len(), model.vocabulary());
            let message = format!("the tokenizer has {tokens} tokens, the model {rows}");
            return Err(Diagnostic::error(codes::NOT_LANGUAGE_MODEL, message)
                .because("each token of the tokenizer needs a row of the embedding")
                .remedy("convert the model anew")
                .into());
        }
        if engine.is_some() {
            // What numbers depend on was said when the engine was made.
            options = one.options().clone();
        }
        let (many, together) = (Mutex::new(many), Together::default());
        Ok(LanguageModel {
            one,
            many,
            engine,
            together,
            #[cfg(feature = "grammar")]
            grammar_tokens: crate::grammar::GrammarTokens::default(),
            source,
            options,
            tokenizer,
            model,
        })
    }

    /// Saves what has been compiled as an engine file, which [`Self::read`] takes: it is mapped,
    /// and nothing is compiled. Code for texts of up to so many tokens goes along; that for longer
    /// ones and for guesses is made when it is met. Texts of an engine take turns.
    ///
    /// # Errors
    /// `TW0305` for a target that does not multiply bytes, on which weights are read in two ways;
    /// `TW0301` for a file that cannot be written.
    pub fn save(&self, path: impl AsRef<Path>, tokens: usize) -> Result<()> {
        let many = self.many.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !many.is_some_and(|many| Arc::ptr_eq(&many, &self.one)) {
            let message = "the language model cannot become an engine file";
            return Err(Diagnostic::error(codes::NOT_IN_ENGINE, message)
                .at(format!("target {}", self.one.target().name))
                .because("without products of bytes, prompts read other weights than tokens do")
                .remedy("start from the model file, or use `--target x86-64-v3`")
                .into());
        }
        let mut before = 0;
        while before < tokens.max(1) {
            let room = before.saturating_add(TextContext::LONGEST_RUN);
            let mut context = self.context(room)?;
            for count in RUNS {
                context.tokens = vec![0; before];
                context.run(&vec![0; count], count, false, "logits")?;
            }
            before = (2 * before).max(PAGE_PLACES);
        }
        self.one.save_with(path, self.model.head())
    }

    /// A digest of the weights of an engine, if the model was loaded of one.
    pub(crate) fn engine_digest(&self) -> Option<u128> {
        self.engine.as_ref().map(|engine| engine.constants_digest())
    }

    /// The tokenizer.
    #[must_use]
    pub fn tokenizer(&self) -> &TextTokenizer {
        &self.tokenizer
    }

    /// How many times code has been made so far.
    #[must_use]
    pub fn compiles(&self) -> usize {
        let many = self.many.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |executable: &Arc<Executable>| executable.statistics().compiles;
        let other = many.as_ref().filter(|many| !Arc::ptr_eq(many, &self.one));
        count(&self.one) + other.map_or(0, count) + self.together.compiles()
    }

    /// For a token of each of several texts.
    pub(crate) fn together(&self) -> &Together {
        &self.together
    }

    /// What grammars for texts of this model share.
    #[cfg(feature = "grammar")]
    pub(crate) fn grammar_tokens(&self) -> &crate::grammar::GrammarTokens {
        &self.grammar_tokens
    }

    /// The executable for runs of so many tokens.
    fn executable(&self, tokens: usize) -> Result<Arc<Executable>> {
        if tokens == 1 {
            return Ok(self.one.clone());
        }
        let mut many = self.many.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = &*many {
            return Ok(made.clone());
        }
        let made = Arc::new(compile_early(self.source.clone(), &self.options)?);
        Ok(many.insert(made).clone())
    }

    /// The model as it was read, and the options that it was compiled with.
    pub(crate) fn parts(&self) -> (&DecoderModel, &Options) {
        (&self.model, &self.options)
    }

    /// What each further token adds to the time of a run, of what the first takes. Where a product
    /// of bytes is one instruction, runs wait for memory, and it is an estimate; elsewhere, as
    /// measured (`docs/language-models.md`), for products, of which a float takes three.
    pub(crate) fn further_token(&self) -> f64 {
        let is_quick = self.options.target.resolve().is_ok_and(|target| target.prefers_bytes());
        match self.options.activations {
            _ if is_quick => 0.07,
            Activations::Int8 => 0.2,
            Activations::AsGiven => 0.55,
        }
    }

    /// How many tokens the model was made for.
    #[must_use]
    pub fn trained_places(&self) -> usize {
        self.model.context()
    }

    /// The chat template of the file.
    ///
    /// # Errors
    /// It is no text.
    pub fn chat_template(&self) -> Result<Option<&str>> {
        Ok(self.model.file().text("tokenizer.chat_template")?)
    }

    /// A text without tokens, with room for so many.
    ///
    /// # Errors
    /// Too little memory.
    pub fn context(&self, places: usize) -> Result<TextContext<'_>> {
        TextContext::new(Held::Borrowed(self), places)
    }

    /// The same, of a model that the text holds itself.
    ///
    /// # Errors
    /// Too little memory.
    pub fn shared_context(self: &Arc<Self>, places: usize) -> Result<TextContext<'static>> {
        TextContext::new(Held::Shared(self.clone()), places)
    }

    /// A state with room for so many pages.
    pub(crate) fn state(&self, pages: usize) -> Result<ModelState> {
        self.one.new_state(&BTreeMap::from([("pages".to_owned(), pages)]))
    }
}

/// What two functions give, the first of which runs on a thread of its own where there can be one.
fn beside<A: Send, B>(first: impl Fn() -> A + Sync, second: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| {
        let own = std::thread::Builder::new().spawn_scoped(scope, &first);
        let second = second();
        let first = match own.map(std::thread::ScopedJoinHandle::join) {
            Ok(found) => found.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => first(),
        };
        (first, second)
    })
}

/// Which outputs of a model are what becomes of which inputs.
pub(crate) fn updates(source: &Source, options: &Options) -> Result<BTreeMap<String, String>> {
    let (_, outputs) = source.declared(options)?;
    let pair = |name: &str| {
        let (prefix, rest) = name.split_once("present.")?;
        Some((name.to_owned(), format!("{prefix}past.{rest}")))
    };
    Ok(outputs.iter().filter_map(|output| pair(&output.name)).collect())
}

/// Rows of an output, each of so many numbers; none where it has another type or other rows.
pub(crate) fn rows_of(values: &Tensor, count: usize, width: usize) -> Result<Vec<Vec<f32>>> {
    if values.dtype() != DType::F32 || width == 0 || values.len() != count * width {
        return Err(Diagnostics::internal("rows of another shape"));
    }
    let float = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let rows = values.bytes().chunks_exact(4 * width);
    Ok(rows.map(|row| row.chunks_exact(4).map(float).collect()).collect())
}

/// A model whose text it is: borrowed, or shared.
enum Held<'m> {
    Borrowed(&'m LanguageModel),
    Shared(Arc<LanguageModel>),
}

impl Deref for Held<'_> {
    type Target = LanguageModel;

    fn deref(&self) -> &LanguageModel {
        match self {
            Held::Borrowed(model) => model,
            Held::Shared(model) => model,
        }
    }
}

/// A text that grows, of one model.
pub struct TextContext<'m> {
    model: Held<'m>,
    pub(crate) state: ModelState,
    pub(crate) tokens: Vec<u32>,
    /// How many tokens there may be.
    places: usize,
    /// How many pages of places the memory has room for.
    pub(crate) reserved: usize,
}

impl<'m> TextContext<'m> {
    fn new(model: Held<'m>, places: usize) -> Result<TextContext<'m>> {
        let places = places.max(1);
        // A run writes whole, so there is room for what it is filled up with.
        let most = RUNS[RUNS.len() - 1];
        let reserved = places.saturating_add(most).div_ceil(PAGE_PLACES);
        let state = model.state(reserved)?;
        Ok(TextContext { model, state, tokens: Vec::new(), places, reserved })
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &LanguageModel {
        &self.model
    }

    /// The tokens so far.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// How many tokens there is still room for.
    #[must_use]
    pub fn room(&self) -> usize {
        self.places - self.tokens.len()
    }

    /// Allows so many tokens in all, at most those that there is room for, and no fewer than there
    /// are.
    pub fn limit(&mut self, tokens: usize) {
        self.places = tokens.clamp(self.tokens.len().max(1), self.places.max(1));
    }

    /// Goes back to the first so many tokens.
    pub fn truncate(&mut self, tokens: usize) {
        self.tokens.truncate(tokens);
    }

    /// Takes tokens in; the logits of what follows the last of them.
    ///
    /// # Errors
    /// No tokens; more than there is room for; one that the model does not have; faults while
    /// running. The text is what it was before.
    pub fn feed(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let rows = self.take(tokens, false)?;
        rows.into_iter().next_back().ok_or_else(|| Diagnostics::internal("no row of logits"))
    }

    /// Takes tokens in; the logits of what follows each of them.
    ///
    /// # Errors
    /// As [`Self::feed`].
    pub fn feed_all(&mut self, tokens: &[u32]) -> Result<Vec<Vec<f32>>> {
        self.take(tokens, true)
    }

    /// Takes tokens in; the values that the logits of what follows each of them are computed of.
    ///
    /// # Errors
    /// As [`Self::feed`].
    pub fn feed_hidden(&mut self, tokens: &[u32]) -> Result<Vec<Vec<f32>>> {
        self.take_of(tokens, true, "hidden")
    }

    fn take(&mut self, tokens: &[u32], every: bool) -> Result<Vec<Vec<f32>>> {
        self.take_of(tokens, every, "logits")
    }

    /// Takes tokens in; the rows of an output, of each token or the last.
    fn take_of(&mut self, tokens: &[u32], every: bool, output: &str) -> Result<Vec<Vec<f32>>> {
        self.check(tokens)?;
        let before = self.tokens.len();
        let mut rows = Vec::new();
        let mut left = tokens;
        while !left.is_empty() {
            let most = RUNS[RUNS.len() - 1];
            let counts = if every { &RUNS_OF_ROWS[..] } else { &RUNS[..] };
            let fits = counts.iter().copied().find(|&count| count >= left.len());
            // Rows of logits are of one run.
            let count = if left.len() <= FEW && !every { 1 } else { fits.unwrap_or(most) };
            let (now, rest) = left.split_at(left.len().min(count));
            let outcome = self.run(now, count, every, output);
            let own = outcome.inspect_err(|_| self.tokens.truncate(before))?;
            self.tokens.extend(now);
            if every || rest.is_empty() {
                rows.extend(own);
            }
            left = rest;
        }
        Ok(rows)
    }

    /// The most tokens that one run takes.
    pub(crate) const LONGEST_RUN: usize = RUNS[RUNS.len() - 1];

    pub(crate) fn check(&self, tokens: &[u32]) -> Result<()> {
        let refuse = |message: String, reason: &str, remedy: &str| {
            let found = Diagnostic::error(codes::INDEX_OUT_OF_RANGE, message).at("the tokens");
            Err(found.because(reason).remedy(remedy).into())
        };
        if tokens.is_empty() {
            let reason = "a model says what follows a token";
            return refuse("there are no tokens".to_owned(), reason, "give a text");
        }
        let vocabulary = self.model.model.vocabulary();
        if let Some(token) = tokens.iter().find(|token| **token as usize >= vocabulary) {
            let message = format!("there is no token {token}: the model has {vocabulary}");
            return refuse(message, "it has no row in the embedding", "use the model's tokenizer");
        }
        if tokens.len() > self.room() {
            let (more, room, all) = (tokens.len(), self.room(), self.places);
            let message = format!("{more} tokens do not fit: there is room for {room} of {all}");
            let reason = "keys and values of all tokens are kept";
            return refuse(message, reason, "shorten the text, or give `--context` more");
        }
        Ok(())
    }

    /// How many pages a run of so many more tokens sees.
    pub(crate) fn pages(&self, count: usize) -> usize {
        (self.tokens.len() + count).div_ceil(PAGE_PLACES).min(self.reserved)
    }

    /// Runs the model on tokens, filled up to a number of them.
    fn run(
        &mut self,
        tokens: &[u32],
        count: usize,
        every: bool,
        output: &str,
    ) -> Result<Vec<Vec<f32>>> {
        let first = self.tokens.len();
        let mut ids: Vec<i64> = tokens.iter().map(|&token| i64::from(token)).collect();
        ids.resize(count, 0);
        let last = tokens.len() as i64 - 1;
        let rows: Vec<i64> = if every { (0..count as i64).collect() } else { vec![last] };
        self.state.set_extent("pages", self.pages(count))?;
        let tensor = |values: &[i64]| Tensor::from_slice(&[values.len()], values);
        let (ids, rows) = (tensor(&ids), tensor(&rows));
        let position = Tensor::from_slice(&[], &[first as i64]);
        let inputs = [("tokens", &ids), ("position", &position), ("rows", &rows)];
        let executable = self.model.executable(count)?;
        let outputs = executable.run_with_state(&inputs, &mut self.state)?;
        let values = outputs.tensor(output)?;
        let width = match output {
            "logits" => self.model.model.vocabulary(),
            _ => values.shape().last().copied().unwrap_or(0),
        };
        let mut rows = rows_of(values, rows.len(), width)?;
        rows.truncate(if every { tokens.len() } else { 1 });
        Ok(rows)
    }
}
