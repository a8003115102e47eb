//! Messages as a chat model wants them written: by the template that its file holds, which is
//! Jinja.
//!
//! Templates were written for Python, so methods of its texts and maps that they use are here. One
//! that loops without end is stopped by the fuel that it has.

use base::{Diagnostic, Result, codes};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, context};

use crate::model::LanguageModel;

/// Steps that a template may take: a thousand times what one for a long talk takes.
const FUEL: u64 = 10_000_000;

/// How deep calls in a template may be.
const DEPTH: usize = 128;

/// A message of a talk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who speaks: `system`, `user` or `assistant`.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message of this role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into() }
    }
}

impl LanguageModel {
    /// The tokens of a talk, as the model's template has it written.
    ///
    /// # Errors
    /// `TW0120` for a model without a chat template; what [`written`] refuses.
    pub fn encode_talk(&self, messages: &[Message]) -> Result<Vec<u32>> {
        let Some(template) = self.chat_template()? else {
            let message = "the model has no chat template";
            return Err(Diagnostic::error(codes::NOT_LANGUAGE_MODEL, message)
                .because("it continues texts, and was not made to answer")
                .remedy("give it a text to go on with: `tilewright generate`, /v1/completions")
                .into());
        };
        let tokenizer = self.tokenizer();
        let around = [tokenizer.first_text(), tokenizer.last_text()];
        let text = written(template, messages, [&around[0], &around[1]])?;
        Ok(tokenizer.encode(&text, true))
    }
}

/// The text of messages, with the beginning of the next one of the assistant's. `bos` and `eos` are
/// the texts of the tokens that begin and end texts.
///
/// # Errors
/// A template that cannot be read, does not end, or refuses the messages.
pub fn written(template: &str, messages: &[Message], [bos, eos]: [&str; 2]) -> Result<String> {
    let refuse = |found: Error| {
        let reason = match found.detail() {
            Some(detail) => format!("{}: {detail}", found.kind()),
            None => found.kind().to_string(),
        };
        Diagnostic::error(
            codes::NOT_LANGUAGE_MODEL,
            "the chat template of the model cannot be used",
        )
        .at(found.line().map_or("its template".to_owned(), |line| format!("line {line}")))
        .because(reason)
        .remedy("write the prompt yourself with `tilewright generate`")
    };
    let mut environment = Environment::new();
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(DEPTH);
    // As the templates' own library sets it.
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(refuse)?);
    environment.set_unknown_method_callback(method);
    environment.add_function(
        "raise_exception",
        |message: String| -> std::result::Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        },
    );
    let messages: Vec<Value> = messages
        .iter()
        .map(|message| context!(role => message.role.as_str(), content => message.content.as_str()))
        .collect();
    let context = context!(
        messages => Value::from(messages),
        bos_token => bos,
        eos_token => eos,
        add_generation_prompt => true,
    );
    Ok(environment.render_str(template, context).map_err(refuse)?)
}

/// Methods of texts and maps in Python.
fn method(
    _: &mut State,
    value: &Value,
    name: &str,
    arguments: &[Value],
) -> std::result::Result<Value, Error> {
    let unknown = || Err(Error::from(ErrorKind::UnknownMethod));
    let text = |number: usize| arguments.get(number).and_then(Value::as_str);
    if let Some(own) = value.as_str() {
        let is_one = |it: char| {
            text(0).is_none_or(|set| set.contains(it)) && (text(0).is_some() || it.is_whitespace())
        };
        return Ok(match (name, text(0), text(1)) {
            ("strip", ..) => own.trim_matches(is_one).into(),
            ("lstrip", ..) => own.trim_start_matches(is_one).into(),
            ("rstrip", ..) => own.trim_end_matches(is_one).into(),
            ("startswith", Some(front), _) => own.starts_with(front).into(),
            ("endswith", Some(end), _) => own.ends_with(end).into(),
            ("upper", ..) => own.to_uppercase().into(),
            ("lower", ..) => own.to_lowercase().into(),
            ("replace", Some(from), Some(to)) => own.replace(from, to).into(),
            ("split", Some(at), _) if !at.is_empty() => {
                own.split(at).map(Value::from).collect::<Vec<Value>>().into()
            }
            ("split", None, _) => {
                own.split_whitespace().map(Value::from).collect::<Vec<Value>>().into()
            }
            _ => return unknown(),
        });
    }
    if value.kind() != ValueKind::Map {
        return unknown();
    }
    let keys = || value.try_iter();
    match (name, arguments) {
        ("keys", []) => Ok(keys()?.collect::<Vec<Value>>().into()),
        ("values", []) => {
            let values = keys()?.map(|key| value.get_item(&key));
            Ok(values.collect::<std::result::Result<Vec<Value>, Error>>()?.into())
        }
        ("items", []) => {
            let pairs = keys()?.map(|key| {
                let own = value.get_item(&key)?;
                Ok(Value::from(vec![key, own]))
            });
            Ok(pairs.collect::<std::result::Result<Vec<Value>, Error>>()?.into())
        }
        ("get", [key, rest @ ..]) => match value.get_item(key)? {
            found if found.is_undefined() => Ok(rest.first().cloned().unwrap_or(Value::from(()))),
            found => Ok(found),
        },
        _ => unknown(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Message, written};

    fn write(template: &str) -> Result<String, String> {
        let messages = [Message::new("system", " Be brief. "), Message::new("user", "Who?")];
        written(template, &messages, ["<s>", "</s>"]).map_err(|found| found.to_string())
    }

    #[test]
    fn messages_are_written_as_templates_say() {
        let template = "{{ bos_token }}{% for message in messages %}\n\
             [{{ message['role'] }}] {{ message.content.strip() }}{{ eos_token }}\n\
             {% endfor %}\n\
             {% if add_generation_prompt %}[assistant]{% endif %}";
        let text = "<s>[system] Be brief.</s>\n[user] Who?</s>\n[assistant]";
        assert_eq!(write(template).as_deref(), Ok(text));
        let methods = "{{ 'a,b'.split(',')[1].upper() }}{{ messages[0].get('name', 'none') }}\
             {% for key, value in messages[1].items() %}{{ key }}{% endfor %}";
        assert!(write(methods).expect("a text").starts_with("Bnone"));
    }

    #[test]
    fn templates_that_do_not_end_or_refuse_are_refused() {
        let endless = "{% for i in range(10000) %}{% for j in range(10000) %}{{ j }}{% endfor %}\
             {% endfor %}";
        let refused = write(endless).expect_err("it does not end");
        assert!(refused.contains("fuel"), "{refused}");
        let recursive = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}";
        assert!(write(recursive).is_err());
        let refused =
            write("{{ raise_exception('roles must alternate') }}").expect_err("it says so");
        assert!(refused.contains("roles must alternate"), "{refused}");
        assert!(write("{% for %}").is_err());
    }
}
