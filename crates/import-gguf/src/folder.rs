//! Language models in folders as Hugging Face writes them: `config.json`, safetensors files, and
//! what belongs to the tokenizer, said in the words of GGUF (`file.rs`), so that architectures are
//! written once.
//!
//! Here are the tables of names: of architectures, of keys, of tensors. What a configuration says
//! that the architecture is not written with is refused by its name.
//!
//! Invariants: no file outside of the folder is read, whatever an index says; files of JSON are
//! read up to limits.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base::{Diagnostic, Limits, codes};
use bytes::Bytes;
use front::Accepted;
use serde_json::Value;

use crate::file::{MetadataArray, MetadataValue, ModelFile, ModelOrigin, TensorEntry, damaged};
use crate::formats;
use crate::safetensors;

/// The most bytes of a file of JSON.
const MOST_JSON: usize = 1 << 28;

/// An architecture as configurations name it.
struct Architecture {
    /// `model_type` of the configuration.
    name: &'static str,
    /// Its name in GGUF.
    own: &'static str,
    /// Names of tensors in a layer that differ from those that most have.
    tensors: &'static [(&'static str, &'static str)],
    /// In which layers tokens see a window, where there is one.
    windows: fn(usize) -> bool,
}

const ARCHITECTURES: &[Architecture] = &[
    plain("llama", "llama"),
    plain("mistral", "llama"),
    plain("mixtral", "llama"),
    plain("granite", "granite"),
    plain("olmo", "olmo"),
    plain("qwen2", "qwen2"),
    plain("qwen3", "qwen3"),
    plain("phi3", "phi3"),
    Architecture {
        name: "gemma2",
        own: "gemma2",
        tensors: &[
            ("post_attention_layernorm", "post_attention_norm"),
            ("pre_feedforward_layernorm", "ffn_norm"),
            ("post_feedforward_layernorm", "post_ffw_norm"),
        ],
        windows: |layer| layer % 2 == 0,
    },
];

const fn plain(name: &'static str, own: &'static str) -> Architecture {
    Architecture { name, own, tensors: &[], windows: |_| true }
}

/// Keys of a configuration that are numbers, and the keys of GGUF behind the architecture's name.
const KEYS: &[(&str, &str)] = &[
    ("num_hidden_layers", "block_count"),
    ("hidden_size", "embedding_length"),
    ("intermediate_size", "feed_forward_length"),
    ("max_position_embeddings", "context_length"),
    ("num_attention_heads", "attention.head_count"),
    ("num_key_value_heads", "attention.head_count_kv"),
    ("head_dim", "attention.key_length"),
    ("rms_norm_eps", "attention.layer_norm_rms_epsilon"),
    ("clip_qkv", "attention.clamp_kqv"),
    ("attention_multiplier", "attention.scale"),
    ("attn_logit_softcapping", "attn_logit_softcapping"),
    ("final_logit_softcapping", "final_logit_softcapping"),
    ("embedding_multiplier", "embedding_scale"),
    ("residual_multiplier", "residual_scale"),
    ("logits_scaling", "logit_scale"),
    ("num_local_experts", "expert_count"),
    ("num_experts_per_tok", "expert_used_count"),
];

/// Tensors outside of layers, weights and biases alike.
const TENSORS: &[(&str, &str)] =
    &[("model.embed_tokens", "token_embd"), ("model.norm", "output_norm"), ("lm_head", "output")];

/// Tensors behind `model.layers.N`, and what they are behind `blk.N`.
const LAYER_TENSORS: &[(&str, &str)] = &[
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("self_attn.qkv_proj", "attn_qkv"),
    ("post_attention_layernorm", "ffn_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("mlp.gate_up_proj", "ffn_up"),
    ("block_sparse_moe.gate", "ffn_gate_inp"),
];

/// Tensors of an expert behind `block_sparse_moe.experts.N`.
const EXPERT_TENSORS: &[(&str, &str)] = &[("w1", "ffn_gate"), ("w2", "ffn_down"), ("w3", "ffn_up")];

/// The bytes of a file by its name, none where there is no such file.
pub(crate) type Files<'f> = dyn Fn(&str) -> Accepted<Option<Bytes>> + 'f;

/// The files of a folder, mapped.
pub(crate) fn files_of(folder: &Path) -> impl Fn(&str) -> Accepted<Option<Bytes>> + '_ {
    move |name| {
        let path = folder.join(name);
        if !path.is_file() {
            return Ok(None);
        }
        let mapped = tensor::map_file(&path).map(Some);
        mapped.map_err(|found| {
            let first = found.iter().next().cloned();
            first.unwrap_or_else(|| damaged("a file cannot be read"))
        })
    }
}

/// Reads the files of a folder.
pub(crate) fn read(files: &Files<'_>, limits: &Limits) -> Accepted<ModelFile> {
    let configuration = json(files, "config.json")?.ok_or_else(|| {
        let message = "the folder holds no language model";
        Diagnostic::error(codes::NOT_LANGUAGE_MODEL, message)
            .because("there is no `config.json` in it")
            .remedy("give the folder that holds it, beside the safetensors files")
    })?;
    let configuration = Configured { values: &configuration };
    let architecture = configuration.architecture()?;
    let mut file = ModelFile {
        origin: ModelOrigin::Safetensors,
        version: 0,
        metadata: BTreeMap::new(),
        tensors: tensors(files, architecture, limits)?,
    };
    configuration.say(architecture, &mut file)?;
    if configuration.truth("tie_word_embeddings").unwrap_or(architecture.name == "gemma2") {
        file.tensors.remove("output.weight");
    } else if !file.tensors.contains_key("output.weight") {
        return Err(damaged("the tensor \"lm_head.weight\" is missing"));
    }
    tokenizer(files, &configuration, &mut file)?;
    Ok(file)
}

/// A file of JSON; none where there is no such file.
fn json(files: &Files<'_>, name: &str) -> Accepted<Option<Value>> {
    let Some(bytes) = small(files, name)? else { return Ok(None) };
    let value = serde_json::from_slice(&bytes);
    value.map(Some).map_err(|found| damaged(format!("{found}")).at(format!("file \"{name}\"")))
}

/// The bytes of a file that is not large; none where there is no such file.
fn small(files: &Files<'_>, name: &str) -> Accepted<Option<Bytes>> {
    let bytes = files(name)?;
    if let Some(length) = bytes.as_ref().map(Bytes::len).filter(|length| *length > MOST_JSON) {
        let reason = format!("{length} bytes, where at most {MOST_JSON} are read");
        return Err(damaged(reason).at(format!("file \"{name}\"")));
    }
    Ok(bytes)
}

/// The tensors of one file, or of those that an index names.
fn tensors(
    files: &Files<'_>,
    architecture: &Architecture,
    limits: &Limits,
) -> Accepted<BTreeMap<String, TensorEntry>> {
    let index = json(files, "model.safetensors.index.json")?;
    let names: BTreeSet<String> = match &index {
        None => BTreeSet::from(["model.safetensors".to_owned()]),
        Some(index) => {
            let map = index.get("weight_map").and_then(Value::as_object);
            let map = map.ok_or_else(|| damaged("the index of its files has no \"weight_map\""))?;
            let names = map.values().map(|name| name.as_str().map(str::to_owned));
            let names = names.collect::<Option<BTreeSet<String>>>();
            names.ok_or_else(|| damaged("the index of its files names no files"))?
        }
    };
    let renamed = |name: &str| own_name(name, architecture);
    let mut tensors = BTreeMap::new();
    for name in names {
        if Path::new(&name).file_name().is_none_or(|plain| plain != name.as_str()) {
            let reason = format!("the index names \"{name}\", which is not in the folder");
            return Err(damaged(reason));
        }
        let Some(bytes) = files(&name)? else {
            let reason = "the folder has no such file";
            return Err(damaged(reason).at(format!("file \"{name}\"")));
        };
        let own = safetensors::read(&bytes, limits, &renamed);
        for (tensor, entry) in own.map_err(|found| found.or_at(|| format!("file \"{name}\"")))? {
            if tensors.insert(tensor.clone(), entry).is_some() {
                return Err(damaged(format!("the tensor \"{tensor}\" is in two files")));
            }
        }
    }
    Ok(tensors)
}

/// What a tensor is called in GGUF.
fn own_name(name: &str, architecture: &Architecture) -> Option<String> {
    let (whole, end) =
        name.rsplit_once('.').filter(|(_, end)| matches!(*end, "weight" | "bias"))?;
    let find = |rows: &[(&str, &'static str)], name: &str| {
        rows.iter().find(|row| row.0 == name).map(|row| row.1)
    };
    if let Some(own) = find(TENSORS, whole) {
        return Some(format!("{own}.{end}"));
    }
    let (layer, part) = whole.strip_prefix("model.layers.")?.split_once('.')?;
    let layer: u32 = layer.parse().ok()?;
    if let Some(expert) = part.strip_prefix("block_sparse_moe.experts.") {
        let (number, part) = expert.split_once('.')?;
        let (number, own) = (number.parse::<u32>().ok()?, find(EXPERT_TENSORS, part)?);
        return Some(format!("blk.{layer}.{own}.{number}.{end}"));
    }
    let own = find(architecture.tensors, part).or_else(|| find(LAYER_TENSORS, part))?;
    Some(format!("blk.{layer}.{own}.{end}"))
}

/// What `config.json` says.
struct Configured<'v> {
    values: &'v Value,
}

impl<'v> Configured<'v> {
    /// The value of a key that is there and not null.
    fn get(&self, key: &str) -> Option<&'v Value> {
        self.values.get(key).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str) -> Option<&'v str> {
        self.get(key).and_then(Value::as_str)
    }

    fn truth(&self, key: &str) -> Option<bool> {
        self.get(key).and_then(Value::as_bool)
    }

    /// A number.
    fn number(&self, key: &str) -> Accepted<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.as_f64().filter(|number| number.is_finite());
        number
            .map(Some)
            .ok_or_else(|| damaged(format!("\"{key}\" of its configuration is {value}")))
    }

    fn unsupported(key: &str, what: &str) -> Diagnostic {
        Diagnostic::error(codes::UNSUPPORTED_OPERATOR, format!("{what} are not supported"))
            .at(format!("key \"{key}\" of config.json"))
            .because("the architecture is written without them")
            .remedy("export the model as ONNX")
    }

    fn architecture(&self) -> Accepted<&'static Architecture> {
        let name = self.text("model_type").unwrap_or_default();
        let found = ARCHITECTURES.iter().find(|row| row.name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = ARCHITECTURES.iter().map(|row| row.name).collect();
            let message = format!("the architecture \"{name}\"");
            Diagnostic::error(codes::UNSUPPORTED_OPERATOR, message)
                .at("key \"model_type\" of config.json")
                .because(format!("these are known: {}", known.join(", ")))
                .remedy("export the model as ONNX")
        })
    }

    /// Writes the keys of a model, in the words of GGUF.
    fn say(&self, architecture: &Architecture, file: &mut ModelFile) -> Accepted<()> {
        if self.get("quantization_config").is_some() {
            return Err(Self::unsupported("quantization_config", "weights quantised for others"));
        }
        let (act, expected) = match self.text("hidden_activation") {
            Some(act) => (act, "gelu_pytorch_tanh"),
            None if architecture.name == "gemma2" => ("gelu_pytorch_tanh", "gelu_pytorch_tanh"),
            None => (self.text("hidden_act").unwrap_or("silu"), "silu"),
        };
        if act != expected {
            return Err(Self::unsupported("hidden_act", &format!("products bent by \"{act}\"")));
        }
        let own = architecture.own;
        let mut keys: BTreeMap<String, MetadataValue> = BTreeMap::new();
        for (key, name) in KEYS {
            if let Some(number) = self.number(key)? {
                keys.insert((*name).to_owned(), value_of(number));
            }
        }
        if let Some(scale) = self.number("query_pre_attn_scalar")?.filter(|scale| *scale > 0.0) {
            keys.insert("attention.scale".to_owned(), MetadataValue::Float(scale.powf(-0.5)));
        }
        if self.truth("use_sliding_window").unwrap_or(true)
            && let Some(window) = self.number("sliding_window")?
        {
            keys.insert("attention.sliding_window".to_owned(), value_of(window));
            self.check_layers(architecture)?;
        }
        self.angles(file, &mut keys)?;
        file.metadata.insert("general.architecture".to_owned(), text_value(own));
        let named = keys.into_iter().map(|(name, value)| (format!("{own}.{name}"), value));
        file.metadata.extend(named);
        if let Some(name) = self.text("_name_or_path").filter(|name| !name.is_empty()) {
            file.metadata.insert("general.name".to_owned(), text_value(name));
        }
        Ok(())
    }

    /// Refuses windows in other layers than the architecture has them in.
    fn check_layers(&self, architecture: &Architecture) -> Accepted<()> {
        let kinds = self.get("layer_types").and_then(Value::as_array);
        let fits = |(layer, kind): (usize, &Value)| {
            let window = kind.as_str() == Some("sliding_attention");
            window == (architecture.windows)(layer)
        };
        let partly = architecture.own.starts_with("qwen");
        match kinds {
            Some(kinds) if kinds.iter().enumerate().all(fits) => Ok(()),
            None if !partly => Ok(()),
            _ => Err(Self::unsupported("layer_types", "windows in these layers")),
        }
    }

    /// What places turn pairs by: keys, and factors of the angles as a tensor.
    fn angles(
        &self,
        file: &mut ModelFile,
        keys: &mut BTreeMap<String, MetadataValue>,
    ) -> Accepted<()> {
        // Newer configurations have one object; older ones a base, and what scales it.
        let rope = ["rope_parameters", "rope_scaling"].into_iter().find_map(|key| self.get(key));
        let rope = Configured { values: rope.unwrap_or(&Value::Null) };
        let either = |key: &str| match rope.number(key)? {
            Some(number) => Ok(Some(number)),
            None => self.number(key),
        };
        let base = either("rope_theta")?.unwrap_or(10_000.0);
        keys.insert("rope.freq_base".to_owned(), MetadataValue::Float(base));
        let whole = |key: &str| -> Accepted<Option<f64>> { self.number(key) };
        let (width, heads) = (whole("hidden_size")?, whole("num_attention_heads")?);
        let head = match (whole("head_dim")?, width, heads) {
            (Some(head), ..) => head,
            (None, Some(width), Some(heads)) if heads > 0.0 => (width / heads).floor(),
            _ => return Err(damaged("its configuration has no sizes of heads")),
        };
        let share = either("partial_rotary_factor")?.unwrap_or(1.0);
        let rotated = (head * share).floor();
        if !(2.0..=65_536.0).contains(&rotated) {
            return Err(damaged(format!("{rotated} rotated elements of heads of {head}")));
        }
        keys.insert("rope.dimension_count".to_owned(), value_of(rotated));
        let kind = rope.text("rope_type").or(rope.text("type")).unwrap_or("default");
        let required = |key: &str| {
            let found = either(key)?.filter(|number| *number > 0.0);
            found.ok_or_else(|| damaged(format!("angles of the kind \"{kind}\" need \"{key}\"")))
        };
        let pairs = (rotated / 2.0) as usize;
        match kind {
            "default" => {}
            "linear" => {
                keys.insert("rope.scaling.type".to_owned(), text_value("linear"));
                keys.insert("rope.scaling.factor".to_owned(), value_of(required("factor")?));
            }
            "llama3" => {
                let [factor, low, high, places] = [
                    "factor",
                    "low_freq_factor",
                    "high_freq_factor",
                    "original_max_position_embeddings",
                ]
                .map(required);
                let (factor, low, high, places) = (factor?, low?, high?, places?);
                let of_pair = |pair: usize| {
                    let turn = base.powf(-2.0 * pair as f64 / rotated);
                    let waves = places * turn / std::f64::consts::TAU;
                    let smooth = ((waves - low) / (high - low)).clamp(0.0, 1.0);
                    (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
                };
                let factors: Vec<f32> = (0..pairs).map(of_pair).collect();
                insert_factors(file, "rope_freqs.weight", &factors)?;
            }
            "longrope" => {
                let places = required("original_max_position_embeddings")?;
                let most = whole("max_position_embeddings")?.unwrap_or(places);
                let factors = rope.get("short_factor").and_then(Value::as_array);
                let factors = factors.and_then(|all| {
                    all.iter().map(|it| it.as_f64().map(|it| it as f32)).collect::<Option<Vec<_>>>()
                });
                let factors = factors.filter(|factors| factors.len() == pairs);
                let factors = factors.ok_or_else(|| {
                    damaged(format!("its \"short_factor\" has not {pairs} numbers"))
                })?;
                insert_factors(file, "rope_factors_short.weight", &factors)?;
                keys.insert("rope.scaling.type".to_owned(), text_value("longrope"));
                let stretch = either("factor")?.unwrap_or(most / places);
                let implied = (1.0 + stretch.max(1.0).ln() / places.ln()).sqrt();
                let magnitude = either("attention_factor")?.unwrap_or(implied);
                let magnitude = MetadataValue::Float(magnitude);
                keys.insert("rope.scaling.attn_factor".to_owned(), magnitude);
                // Longer texts are turned by other factors, which are not there.
                keys.insert("context_length".to_owned(), value_of(most.min(places)));
            }
            _ => return Err(Self::unsupported("rope_type", &format!("angles of \"{kind}\""))),
        }
        Ok(())
    }
}

/// Factors that divide angles, as a tensor.
fn insert_factors(file: &mut ModelFile, name: &str, factors: &[f32]) -> Accepted<()> {
    let format = formats::find_plain("F32").ok_or_else(|| damaged("no format of floats"))?;
    let bytes: Vec<u8> = factors.iter().flat_map(|factor| factor.to_le_bytes()).collect();
    let shape = vec![factors.len()];
    let entry = TensorEntry { name: name.to_owned(), shape, format, bytes: bytes.into() };
    file.tensors.insert(name.to_owned(), entry);
    Ok(())
}

/// A number as a key has it.
fn value_of(number: f64) -> MetadataValue {
    let is_whole = number.fract() == 0.0 && number.abs() < 1e15;
    if is_whole { MetadataValue::Integer(number as i128) } else { MetadataValue::Float(number) }
}

fn text_value(text: &str) -> MetadataValue {
    MetadataValue::Text(Bytes::copy_from_slice(text.as_bytes()))
}

/// Reads what belongs to the tokenizer: `tokenizer.json` as it is, the template of talks, and which
/// tokens begin and end texts.
fn tokenizer(files: &Files<'_>, model: &Configured<'_>, file: &mut ModelFile) -> Accepted<()> {
    let Some(whole) = small(files, "tokenizer.json")? else { return Ok(()) };
    let mut say = |name: &str, value: MetadataValue| {
        file.metadata.insert(format!("tokenizer.{name}"), value);
    };
    say("ggml.model", text_value("huggingface"));
    say("huggingface.json", MetadataValue::Text(whole));
    let values = json(files, "tokenizer_config.json")?.unwrap_or(Value::Null);
    for name in ["bos", "eos"] {
        // Either the text itself, or an object that describes the token.
        let token = values.get(format!("{name}_token"));
        let token = token.and_then(|token| token.get("content").or(Some(token)));
        if let Some(token) = token.and_then(Value::as_str) {
            say(&format!("{name}_token"), text_value(token));
        }
    }
    let template = match small(files, "chat_template.jinja")? {
        Some(template) => Some(template),
        None => match values.get("chat_template") {
            Some(Value::String(template)) => Some(Bytes::copy_from_slice(template.as_bytes())),
            // Several by name: one is that of plain talks.
            Some(Value::Array(templates)) => {
                let plain = templates
                    .iter()
                    .find(|one| one.get("name").and_then(Value::as_str) == Some("default"));
                let text = plain.and_then(|one| one.get("template")).and_then(Value::as_str);
                text.map(|text| Bytes::copy_from_slice(text.as_bytes()))
            }
            _ => None,
        },
    };
    if let Some(template) = template {
        say("chat_template", MetadataValue::Text(template));
    }
    let generation = json(files, "generation_config.json")?.unwrap_or(Value::Null);
    let ends = generation.get("eos_token_id").filter(|ends| !ends.is_null());
    let ends = match ends.or(model.get("eos_token_id")) {
        Some(Value::Array(ends)) => ends.iter().filter_map(Value::as_u64).collect(),
        Some(end) => end.as_u64().into_iter().collect(),
        None => Vec::new(),
    };
    let bytes: Vec<u8> = ends.iter().flat_map(|end: &u64| end.to_le_bytes()).collect();
    let ends = MetadataArray::Numbers { kind: 10, bytes: bytes.into() };
    say("end_token_ids", MetadataValue::Array(ends));
    Ok(())
}
