//! Language models, and texts of them that go on.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use generate::{
    GenerateOptions, LanguageModel, SamplerOptions, StopReason, TextContext, TextGeneration,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{exception, unlocked};
use crate::model::interruptible;
use crate::options::options;

/// A language model. Any number of texts may use it at once.
#[pyclass(frozen, module = "tilewright._native")]
pub(crate) struct Language {
    model: Arc<LanguageModel>,
}

/// Reads and compiles a language model, or loads an engine of one.
#[pyfunction]
pub(crate) fn read_language(
    py: Python<'_>,
    path: PathBuf,
    given: &Bound<'_, PyDict>,
) -> PyResult<Language> {
    let options = options(given)?;
    let model = interruptible(py, move || LanguageModel::read(path, &options))?;
    Ok(Language { model: Arc::new(model) })
}

#[pymethods]
impl Language {
    /// How many tokens it was made for.
    #[getter]
    fn trained_places(&self) -> usize {
        self.model.trained_places()
    }

    /// How many tokens its tokenizer knows.
    #[getter]
    fn vocabulary(&self) -> usize {
        self.model.tokenizer().len()
    }

    /// The template of its file for messages, if it has one.
    #[getter]
    fn chat_template(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let found = self.model.chat_template().map_err(|refused| exception(py, &refused))?;
        Ok(found.map(str::to_owned))
    }

    /// The texts of the tokens that begin and end texts.
    #[getter]
    fn around(&self) -> (String, String) {
        let tokenizer = self.model.tokenizer();
        (tokenizer.first_text(), tokenizer.last_text())
    }

    /// The tokens of a text; names of tokens in it stand for those where they are asked for.
    fn encode(&self, py: Python<'_>, text: String, control: bool) -> PyResult<Vec<u32>> {
        unlocked(py, || Ok(self.model.tokenizer().encode(&text, control)))
    }

    /// The text of tokens; those that the model does not have are none.
    fn decode(&self, tokens: Vec<u32>) -> String {
        self.model.tokenizer().decode(&tokens)
    }

    /// Saves what has been compiled, with code for texts of so many tokens.
    fn save(&self, py: Python<'_>, path: PathBuf, tokens: usize) -> PyResult<()> {
        unlocked(py, || self.model.save(path, tokens))
    }

    /// Begins a text behind the tokens of a prompt, with room for so many in all.
    fn begin(
        &self,
        py: Python<'_>,
        prompt: Vec<u32>,
        places: usize,
        how: &Bound<'_, PyDict>,
    ) -> PyResult<Text> {
        let how = how_it_goes_on(how)?;
        let begun = unlocked(py, || {
            let context = self.model.shared_context(places)?;
            let generation = TextGeneration::new(&context, &prompt, &how)?;
            Ok(Begun { context, generation })
        })?;
        Ok(Text { begun: Mutex::new(begun) })
    }
}

/// A text that goes on step by step.
#[pyclass(frozen, module = "tilewright._native")]
pub(crate) struct Text {
    begun: Mutex<Begun>,
}

struct Begun {
    context: TextContext<'static>,
    generation: TextGeneration<'static>,
}

#[pymethods]
impl Text {
    /// Goes on until there is more of the text, or it ends: the piece, and why it ends.
    fn step(&self, py: Python<'_>) -> PyResult<(String, Option<&'static str>)> {
        loop {
            let (piece, reason) = unlocked(py, || {
                let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
                let Begun { context, generation } = &mut *begun;
                let mut found = String::new();
                let reason = generation.step(context, &mut |piece| {
                    found += piece;
                    ControlFlow::Continue(())
                })?;
                Ok((found, reason))
            })?;
            if !piece.is_empty() || reason.is_some() {
                return Ok((piece, reason.map(|reason| reason_name(&reason))));
            }
            py.check_signals()?;
        }
    }

    /// The tokens so far, one that ended it included.
    #[getter]
    fn tokens(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        unlocked(py, || {
            let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(begun.generation.tokens().to_vec())
        })
    }
}

fn reason_name(reason: &StopReason) -> &'static str {
    match reason {
        StopReason::End => "end",
        StopReason::Stop(_) | StopReason::Caller => "stop",
        StopReason::Tokens => "length",
        StopReason::Room => "context",
        StopReason::NoNumber => "no number",
    }
}

/// The options of a text, which the package has checked.
fn how_it_goes_on(given: &Bound<'_, PyDict>) -> PyResult<GenerateOptions> {
    let mut how = GenerateOptions::default();
    let SamplerOptions { temperature, top_k, top_p, min_p, repetition_penalty, seed, .. } =
        &mut how.sampler;
    for (key, value) in given {
        let key: String = key.extract()?;
        match key.as_str() {
            "max_tokens" => how.tokens = value.extract()?,
            "temperature" => *temperature = value.extract()?,
            "top_k" => *top_k = value.extract()?,
            "top_p" => *top_p = value.extract()?,
            "min_p" => *min_p = value.extract()?,
            "repetition_penalty" => *repetition_penalty = value.extract()?,
            "seed" => *seed = value.extract()?,
            "stop" => how.stops = value.extract()?,
            _ => return Err(PyTypeError::new_err(format!("there is no option {key:?}"))),
        }
    }
    Ok(how)
}
