//! A language model of a file or a folder: what it holds, and its graph as a graph function.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base::{Limits, Result};
use bytes::Bytes;
use front::{Accepted, Graph, ImportOptions, Imported, Port, PortExtent, with_shapes};
use module::Module;
use tensor::{DType, Kind};

use crate::architectures;
use crate::configuration::Configuration;
use crate::decoder::{Decoder, KeptPart, unknown_architecture};
use crate::file::{MetadataValue, ModelFile, damaged};
use crate::folder;

/// Places of a page of keys and values: what a head has there lies in one piece, long enough for
/// memory to be read at its speed.
pub const PAGE_PLACES: usize = 256;

/// A model as a file holds it.
#[derive(Debug)]
pub struct DecoderModel {
    file: Arc<ModelFile>,
    shape: Configuration,
    /// How many texts a run is of.
    texts: usize,
}

impl DecoderModel {
    /// Whether a file begins as GGUF.
    #[must_use]
    pub fn is_one(bytes: &[u8]) -> bool {
        ModelFile::is_one(bytes)
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// `TW0120` for what is damaged or cut off, or says what cannot be; limits that are exceeded.
    pub fn read(bytes: Bytes, limits: &Limits) -> Result<DecoderModel> {
        let file = ModelFile::read(bytes, limits)?;
        DecoderModel::of(file)
    }

    /// Reads a folder as Hugging Face writes it: `config.json`, safetensors files, the tokenizer.
    ///
    /// # Errors
    /// As [`Self::read`], and for what the configuration says that is not supported.
    pub fn read_folder(folder: &Path, limits: &Limits) -> Result<DecoderModel> {
        DecoderModel::read_files(&folder::files_of(folder), limits)
    }

    /// The same of files that need not lie in a folder: their bytes by name, none where there is no
    /// such file.
    ///
    /// # Errors
    /// As [`Self::read_folder`].
    pub fn read_files(
        files: &dyn Fn(&str) -> Accepted<Option<Bytes>>,
        limits: &Limits,
    ) -> Result<DecoderModel> {
        let file = folder::read(files, limits)?;
        DecoderModel::of(file)
    }

    fn of(file: ModelFile) -> Result<DecoderModel> {
        let shape = Configuration::read(&file)?;
        Ok(DecoderModel { file: Arc::new(file), shape, texts: 1 })
    }

    /// All of the model but the data of its tensors, for [`Self::read_head`].
    #[must_use]
    pub fn head(&self) -> Vec<u8> {
        self.file.head()
    }

    /// A model of what [`Self::head`] gave: its tokenizer and what it says of itself. Its tensors
    /// have no data, so it is not to be imported.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_head(head: &Bytes, limits: &Limits) -> Result<DecoderModel> {
        DecoderModel::of(ModelFile::read_head(head, limits)?)
    }

    /// The same model for runs of several texts, a token of each: products read weights once for
    /// all, and each text attends to what is kept of it. [`Self::import`] has the inputs.
    #[must_use]
    pub fn of_texts(&self, texts: usize) -> DecoderModel {
        let (file, shape) = (self.file.clone(), self.shape.clone());
        DecoderModel { file, shape, texts: texts.max(1) }
    }

    /// What stands before the names of what is kept of a text, in runs of several.
    #[must_use]
    pub fn text_prefix(text: usize) -> String {
        format!("text.{text}.")
    }

    /// What the file holds besides the graph: the tokenizer, among others.
    #[must_use]
    pub fn file(&self) -> &ModelFile {
        &self.file
    }

    /// How many tokens there are.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        self.shape.vocabulary as usize
    }

    /// How many places the model was made for.
    #[must_use]
    pub fn context(&self) -> usize {
        self.shape.context as usize
    }

    /// Imports it in the shapes that the options give. The inputs are
    ///
    /// - `tokens`: i64 `[tokens]`,
    /// - `position`: i64 `[]`, the place of the first of them,
    /// - `rows`: i64 `[rows]`, the tokens behind which logits are asked for, counted from 0,
    /// - `past.LAYER.keys`: f32 `[pages, heads of keys, size of a head, PAGE_PLACES]`,
    /// - `past.LAYER.values`: f32 `[pages, heads of keys, PAGE_PLACES, size of a head]`.
    ///
    /// Keys and values are of the type that the options name; in 8 bits they come with
    /// `past.LAYER.keys.scales` and `past.LAYER.values.scales`: f32 `[pages, heads of keys,
    /// PAGE_PLACES]`, which they are to be multiplied by.
    ///
    /// The outputs are `logits`, f32 `[rows, vocabulary]`; `hidden`, f32 `[rows, width]`, what they
    /// are computed of; and `present.LAYER.keys` and
    /// `present.LAYER.values`: what was given, with the rows of these tokens at their places. What
    /// lies behind them is not read.
    ///
    /// Of `n` texts ([`Self::of_texts`]) `tokens` and `position` are `[n]`, a token of each and its
    /// place, and what is kept has the [prefix](Self::text_prefix) of its text.
    ///
    /// # Errors
    /// Options that do not fit; an architecture that is not known, or tensors that do not fit it.
    pub fn import(&self, options: &ImportOptions) -> Result<Imported> {
        if self.file.tensors.values().any(|tensor| tensor.lacks_data()) {
            return Err(damaged("nothing is there of the data of its tensors").into());
        }
        let name = self.shape.architecture.as_str();
        let Some(write) = architectures::find(name) else {
            let known: Vec<&str> = architectures::ARCHITECTURES.iter().map(|row| row.0).collect();
            return Err(unknown_architecture(name, &known).into());
        };
        let (inputs, _) = self.ports(options)?;
        let shape = |number: usize| &inputs[number].shape[..];
        let graph = Graph::new("main", options.limits.clone());
        let shapes = [shape(0), shape(1), shape(2)];
        let pages = shape(3)[0].clone();
        let prefixes = self.prefixes();
        let kept = (pages, options.key_values, prefixes);
        let mut model = Decoder::new(&self.file, &self.shape, graph, shapes, kept)?;
        let logits = write(&mut model)?;
        let (graph, results) = model.finish(&logits)?;
        let mut module = Module::default();
        module.functions.push(Arc::new(graph.builder.finish(results)));
        module.constants = graph.constants;
        Ok(Imported::of_module(module))
    }

    /// Inputs and outputs in the shapes that the options give.
    ///
    /// # Errors
    /// Options that do not fit.
    pub fn ports(&self, options: &ImportOptions) -> Result<(Vec<Port>, Vec<Port>)> {
        let free = |name: &str| PortExtent::Symbolic(name.to_owned());
        let port = |name: String, dtype: DType, shape: Vec<PortExtent>| Port {
            name,
            dtype: Some(dtype),
            shape,
            kind: Kind::Tensor,
        };
        let key_values = options.key_values;
        let kept = |prefix: &str| {
            let mut ports = Vec::new();
            for layer in 0..self.shape.layers {
                for text in self.prefixes() {
                    for part in [KeptPart::Keys, KeptPart::Values] {
                        for (behind, dtype, page) in part.tensors(&self.shape, key_values) {
                            let fixed = page.into_iter().map(PortExtent::Fixed);
                            let extents = [free("pages")].into_iter().chain(fixed).collect();
                            let name = format!("{text}{prefix}.{layer}.{}{behind}", part.name());
                            ports.push(port(name, dtype, extents));
                        }
                    }
                }
            }
            ports
        };
        let (tokens, position) = match self.texts {
            1 => (free("tokens"), Vec::new()),
            texts => (PortExtent::Fixed(texts), vec![PortExtent::Fixed(texts)]),
        };
        let mut inputs = vec![
            port("tokens".to_owned(), DType::I64, vec![tokens]),
            port("position".to_owned(), DType::I64, position),
            port("rows".to_owned(), DType::I64, vec![free("rows")]),
        ];
        inputs.extend(kept("past"));
        let rows = vec![free("rows"), PortExtent::Fixed(self.vocabulary())];
        let hidden = vec![free("rows"), PortExtent::Fixed(self.shape.width as usize)];
        let mut outputs = vec![
            port("logits".to_owned(), DType::F32, rows),
            port("hidden".to_owned(), DType::F32, hidden),
        ];
        outputs.extend(kept("present"));
        Ok((with_shapes(inputs, options, &BTreeMap::new())?, outputs))
    }

    /// What stands before the names of what is kept of each text.
    fn prefixes(&self) -> Vec<String> {
        match self.texts {
            1 => vec![String::new()],
            texts => (0..texts).map(DecoderModel::text_prefix).collect(),
        }
    }

    /// The architecture, as the file names it.
    #[must_use]
    pub fn architecture(&self) -> &str {
        &self.shape.architecture
    }

    /// What the file says of the model in words and numbers, by key; arrays are left out.
    #[must_use]
    pub fn metadata(&self) -> BTreeMap<String, String> {
        let text = |value: &MetadataValue| match value {
            MetadataValue::Integer(value) => Some(value.to_string()),
            MetadataValue::Float(value) => Some(value.to_string()),
            MetadataValue::Bool(value) => Some(value.to_string()),
            MetadataValue::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            MetadataValue::Array(_) => None,
        };
        let entries = self.file.metadata.iter();
        entries.filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect()
    }

    /// The elements and the bytes of all tensors.
    #[must_use]
    pub fn parameters(&self) -> (u64, u64) {
        self.file.tensors.values().fold((0, 0), |(elements, bytes), tensor| {
            let own: u64 = tensor.shape.iter().map(|&extent| extent as u64).product();
            (elements.saturating_add(own), bytes + tensor.byte_count() as u64)
        })
    }

    /// How many tensors there are of each format.
    #[must_use]
    pub fn formats(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for tensor in self.file.tensors.values() {
            *counts.entry(tensor.format_name().to_owned()).or_default() += 1;
        }
        counts
    }

    /// Names of dimensions that are not fixed.
    #[must_use]
    pub fn dimensions(&self) -> Vec<String> {
        let all =
            if self.texts == 1 { &["pages", "rows", "tokens"][..] } else { &["pages", "rows"] };
        all.iter().map(|name| (*name).to_owned()).collect()
    }
}
