//! What requests ask for, and what answers say, as JSON.
//!
//! Source: the reference of OpenAI's interface, as its Python client sends and reads it. What is
//! asked for and cannot be done is refused with its name; what changes no answer is left unread.

use base::Diagnostics;
use generate::{GenerateOptions, Message, SamplerOptions, StopReason};
use serde_json::{Map, Value, json};

/// Why a request is not answered.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The status of HTTP.
    pub(crate) status: u16,
    /// What kind of error the protocol calls it.
    kind: &'static str,
    message: String,
    code: Option<String>,
}

impl Refusal {
    #[cold]
    #[inline(never)]
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Refusal {
        let kind = match status {
            404 => "not_found_error",
            429 | 503 => "overloaded_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        Refusal { status, kind, message: message.into(), code: None }
    }

    /// What the model says of a request. Broken invariants are the server's mistake.
    pub(crate) fn of(found: &Diagnostics) -> Refusal {
        let code = found.iter().next().map(|first| first.code);
        let status = if code == Some(base::codes::INTERNAL_ERROR) { 500 } else { 400 };
        let code = code.map(str::to_owned);
        Refusal { code, ..Refusal::new(status, found.to_string()) }
    }

    pub(crate) fn to_json(&self) -> Value {
        let Refusal { kind, message, code, .. } = self;
        json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
    }
}

type Accepted<T> = Result<T, Refusal>;

/// A text as a request gives it.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    Text(String),
    Tokens(Vec<u32>),
}

/// What a request for texts asks for.
#[derive(Debug)]
pub(crate) struct TextRequest {
    /// What each text continues, or the talk that one answers.
    pub(crate) prompts: Prompts,
    /// How many texts for each.
    pub(crate) count: usize,
    pub(crate) options: GenerateOptions,
    pub(crate) streamed: bool,
    /// Whether a stream ends with counts of tokens.
    pub(crate) counted: bool,
    /// The JSON schema of each text, if it has one.
    pub(crate) schema: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Prompts {
    Given(Vec<Given>),
    Talk(Vec<Message>),
}

/// The object of a request, for this model.
pub(crate) fn object(body: &[u8], name: &str) -> Accepted<Map<String, Value>> {
    let body: Value = serde_json::from_slice(body)
        .map_err(|found| Refusal::new(400, format!("the body is no JSON: {found}")))?;
    let Value::Object(object) = body else {
        return Err(Refusal::new(400, "the body is no JSON object"));
    };
    match object.get("model") {
        None | Some(Value::Null) => {}
        Some(Value::String(own)) if own == name => {}
        Some(other) => {
            let message = format!("there is no model {other}: this server has \"{name}\"");
            return Err(Refusal {
                code: Some("model_not_found".into()),
                ..Refusal::new(404, message)
            });
        }
    }
    Ok(object)
}

/// Keys that ask for what there is not, where they have another value than these.
const REFUSED: &[(&str, &[&str])] = &[
    ("best_of", &["1"]),
    ("echo", &["false"]),
    ("function_call", &["\"none\""]),
    ("functions", &["[]"]),
    ("logit_bias", &["{}"]),
    ("logprobs", &["false"]),
    ("suffix", &["\"\""]),
    ("tools", &["[]"]),
    ("top_logprobs", &["0"]),
];

/// Reads a request for texts; `is_talk` where it gives messages. At most `texts` of them.
pub(crate) fn text_request(
    object: &Map<String, Value>,
    is_talk: bool,
    texts: usize,
) -> Accepted<TextRequest> {
    for (key, harmless) in REFUSED {
        if let Some(value) = object.get(*key).filter(|value| !value.is_null())
            && !harmless.contains(&value.to_string().as_str())
        {
            return Err(Refusal::new(400, format!("\"{key}\": {value} is not supported")));
        }
    }
    let prompts = match is_talk {
        true => Prompts::Talk(messages(object.get("messages"))?),
        false => Prompts::Given(given(object.get("prompt"), "prompt", texts)?),
    };
    let asked = match &prompts {
        Prompts::Given(given) => given.len(),
        Prompts::Talk(_) => 1,
    };
    let count = number(object, "n", 1.0, 1.0, texts as f64)? as usize;
    if count * asked > texts {
        let message = format!("{count} texts for each of {asked} prompts: at most {texts} in all");
        return Err(Refusal::new(400, message));
    }
    let most = f64::from(u32::MAX);
    let tokens = match object.get("max_completion_tokens").filter(|value| !value.is_null()) {
        Some(_) => number(object, "max_completion_tokens", 16.0, 1.0, most)?,
        None => number(object, "max_tokens", if is_talk { most } else { 16.0 }, 0.0, most)?,
    };
    let plain = SamplerOptions::default();
    let seed = match object.get("seed") {
        None | Some(Value::Null) => chance(),
        Some(seed) => seed
            .as_i64()
            .map(|seed| seed as u64)
            .or(seed.as_u64())
            .ok_or_else(|| Refusal::new(400, format!("\"seed\": {seed} is no integer")))?,
    };
    let sampler = SamplerOptions {
        temperature: number(object, "temperature", 1.0, 0.0, 100.0)? as f32,
        top_p: number(object, "top_p", 1.0, 0.0, 1.0)? as f32,
        min_p: number(object, "min_p", 0.0, 0.0, 1.0)? as f32,
        top_k: number(object, "top_k", 0.0, 0.0, most)? as usize,
        repetition_penalty: number(object, "repetition_penalty", 1.0, 0.01, 100.0)? as f32,
        frequency_penalty: number(object, "frequency_penalty", 0.0, -2.0, 2.0)? as f32,
        presence_penalty: number(object, "presence_penalty", 0.0, -2.0, 2.0)? as f32,
        seed,
        ..plain
    };
    let (tokens, stops) = (tokens as usize, stops(object)?);
    let options = GenerateOptions { tokens, sampler, stops, ..GenerateOptions::default() };
    let truth = |value: Option<&Value>| value.and_then(Value::as_bool).unwrap_or(false);
    let streamed = truth(object.get("stream"));
    let counted = truth(object.get("stream_options").and_then(|own| own.get("include_usage")));
    let schema = schema(object.get("response_format"))?;
    Ok(TextRequest { prompts, count, options, streamed, counted, schema })
}

/// The JSON schema of answers, as a request gives it.
fn schema(format: Option<&Value>) -> Accepted<Option<String>> {
    let Some(format) = format.filter(|value| !value.is_null()) else { return Ok(None) };
    let refused = || {
        let message = format!("\"response_format\": {format} is not supported");
        Refusal::new(400, message)
    };
    match format.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_object") if cfg!(feature = "grammar") => {
            Ok(Some(json!({"type": "object"}).to_string()))
        }
        Some("json_schema") if cfg!(feature = "grammar") => {
            let schema = format.get("json_schema").and_then(|own| own.get("schema"));
            let schema = schema.filter(|schema| schema.is_object());
            schema.map(|schema| Some(schema.to_string())).ok_or_else(refused)
        }
        _ => Err(refused()),
    }
}

/// A seed of its own for each request that gives none.
fn chance() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0_u8)
}

fn number(
    object: &Map<String, Value>,
    key: &str,
    default: f64,
    least: f64,
    most: f64,
) -> Accepted<f64> {
    let Some(value) = object.get(key).filter(|value| !value.is_null()) else { return Ok(default) };
    let number = value.as_f64().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| {
        Refusal::new(400, format!("\"{key}\": {value} is no number from {least} to {most}"))
    })
}

/// The texts at which one ends.
fn stops(object: &Map<String, Value>) -> Accepted<Vec<String>> {
    let refused = || Refusal::new(400, "\"stop\" is no text, and no list of at most 16");
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(refused);
    match object.get("stop") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(stops)) if stops.len() <= 16 => stops.iter().map(text).collect(),
        Some(stop) => Ok(vec![text(stop)?]),
    }
}

/// One text or several, as texts or tokens.
pub(crate) fn given(value: Option<&Value>, key: &str, texts: usize) -> Accepted<Vec<Given>> {
    let refused = || {
        let message = format!("\"{key}\" is no text or tokens, and no list of at most {texts}");
        Refusal::new(400, message)
    };
    let token = |value: &Value| value.as_u64().and_then(|token| u32::try_from(token).ok());
    let one = |value: &Value| match value {
        Value::String(text) => Some(Given::Text(text.clone())),
        Value::Array(tokens) => {
            tokens.iter().map(token).collect::<Option<Vec<u32>>>().map(Given::Tokens)
        }
        _ => None,
    };
    let all = match value {
        Some(Value::Array(all)) if !all.is_empty() && !all[0].is_number() => {
            if all.len() > texts {
                return Err(refused());
            }
            all.iter().map(one).collect::<Option<Vec<Given>>>()
        }
        Some(value) => one(value).map(|one| vec![one]),
        None => None,
    };
    all.ok_or_else(refused)
}

/// The messages of a talk.
fn messages(value: Option<&Value>) -> Accepted<Vec<Message>> {
    let all = value.and_then(Value::as_array).filter(|all| !all.is_empty());
    let all = all.ok_or_else(|| Refusal::new(400, "\"messages\" is no list of messages"))?;
    let message = |value: &Value| {
        let role = value.get("role").and_then(Value::as_str)?;
        let content = match value.get("content")? {
            Value::String(text) => text.clone(),
            // Parts, of which only texts are read.
            Value::Array(parts) => {
                let text = |part: &Value| part.get("text")?.as_str().map(str::to_owned);
                parts.iter().map(text).collect::<Option<Vec<String>>>()?.concat()
            }
            _ => return None,
        };
        // Newer models call what they are told before all messages so.
        let role = if role == "developer" { "system" } else { role };
        Some(Message::new(role, content))
    };
    let all: Option<Vec<Message>> = all.iter().map(message).collect();
    all.ok_or_else(|| Refusal::new(400, "a message has no role, or no content of text"))
}

/// What answers to a request for texts are written with.
#[derive(Clone, Debug)]
pub(crate) struct AnswerWriter {
    pub(crate) id: String,
    /// Seconds since 1970.
    pub(crate) created: u64,
    pub(crate) model: String,
    pub(crate) is_talk: bool,
    pub(crate) prompt_tokens: usize,
}

impl AnswerWriter {
    fn object(&self, streamed: bool) -> &'static str {
        match (self.is_talk, streamed) {
            (true, true) => "chat.completion.chunk",
            (true, false) => "chat.completion",
            (false, _) => "text_completion",
        }
    }

    fn answer(&self, choices: Vec<Value>, streamed: bool) -> Value {
        json!({
            "id": self.id,
            "object": self.object(streamed),
            "created": self.created,
            "model": self.model,
            "choices": choices,
        })
    }

    fn usage(&self, tokens: usize) -> Value {
        let prompt = self.prompt_tokens;
        json!({
            "prompt_tokens": prompt,
            "completion_tokens": tokens,
            "total_tokens": prompt + tokens,
        })
    }

    /// The whole answer: texts with what ended them.
    pub(crate) fn whole(&self, texts: Vec<(String, &'static str)>, tokens: usize) -> Value {
        let choice = |(index, (text, reason)): (usize, (String, &'static str))| {
            let mut choice = json!({"index": index, "finish_reason": reason, "logprobs": null});
            match self.is_talk {
                true => choice["message"] = json!({"role": "assistant", "content": text}),
                false => choice["text"] = text.into(),
            }
            choice
        };
        let choices = texts.into_iter().enumerate().map(choice).collect();
        let mut answer = self.answer(choices, false);
        answer["usage"] = self.usage(tokens);
        answer
    }

    /// A part of a stream: the first one of a text says who speaks.
    pub(crate) fn part(
        &self,
        index: usize,
        text: Option<&str>,
        is_first: bool,
        reason: Option<&'static str>,
    ) -> Value {
        let mut choice = json!({"index": index, "finish_reason": reason, "logprobs": null});
        if self.is_talk {
            let mut delta = json!({});
            if is_first {
                delta["role"] = "assistant".into();
            }
            if let Some(text) = text {
                delta["content"] = text.into();
            }
            choice["delta"] = delta;
        } else {
            choice["text"] = text.unwrap_or_default().into();
        }
        self.answer(vec![choice], true)
    }

    /// The part of a stream that counts tokens.
    pub(crate) fn counts(&self, tokens: usize) -> Value {
        let mut answer = self.answer(Vec::new(), true);
        answer["usage"] = self.usage(tokens);
        answer
    }
}

/// What ended a text, in the words of the protocol.
pub(crate) fn reason_of(reason: &StopReason) -> &'static str {
    match reason {
        StopReason::Tokens | StopReason::Room => "length",
        StopReason::End | StopReason::Stop(_) | StopReason::Caller | StopReason::NoNumber => "stop",
    }
}

/// The answer with vectors of texts.
pub(crate) fn vectors(vectors: &[Vec<f32>], encoded: bool, name: &str, tokens: usize) -> Value {
    let of = |(index, vector): (usize, &Vec<f32>)| {
        let own = match encoded {
            true => {
                let bytes: Vec<u8> = vector.iter().flat_map(|own| own.to_le_bytes()).collect();
                Value::from(base64(&bytes))
            }
            false => json!(vector),
        };
        json!({"object": "embedding", "index": index, "embedding": own})
    };
    let data: Vec<Value> = vectors.iter().enumerate().map(of).collect();
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    json!({"object": "list", "data": data, "model": name, "usage": usage})
}

/// Bytes in letters, three as four (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let mut bits = 0;
        for place in 0..3 {
            bits = bits << 8 | u32::from(three.get(place).copied().unwrap_or(0));
        }
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn bytes_are_letters() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
