//! Which inputs a source is for.

use base::nearest::nearest;
use base::{Diagnostic, Result, codes};
use tensor::{Kind, Value};
use tilewright::Port;

use crate::content::{Content, Encoded};
use crate::given::{GivenInput, InputSource};
use crate::numbers::number;
use crate::read::Header;
use crate::sentences::{malformed, quoted};
use crate::table::Table;

/// What one source gives for one input.
pub(crate) enum Piece {
    /// A value that says itself what it is.
    Value(Value),
    /// A file with a value of the kind that the input declares.
    Recorded(std::path::PathBuf),
    /// Pictures, one an element of the batch.
    Pictures(Vec<Encoded>),
    /// Strings, one an element.
    Words(Vec<String>),
    /// Text in a file.
    Text(String),
    /// Some columns of a table, header left out.
    Columns(Columns),
    /// Nested lists, or an object.
    Json(serde_json::Value),
}

/// Some columns of a table.
pub(crate) struct Columns {
    /// Their fields, row by row.
    pub(crate) fields: Vec<String>,
    /// How many columns.
    pub(crate) width: usize,
    /// The line of each row.
    pub(crate) lines: Vec<usize>,
    /// Their names, if there is a header.
    pub(crate) names: Option<Vec<String>>,
}

/// Gives the content of a source to inputs, by their numbers; what it leaves out is noted.
pub(crate) fn assign(
    given: &GivenInput,
    content: Content,
    ports: &[Port],
    header: Header,
    notes: &mut Vec<String>,
) -> Result<Vec<(usize, Piece)>> {
    let chooser = Chooser { given, ports, header };
    match content {
        Content::Archive(arrays) => {
            let arrays = arrays.into_iter().map(|(name, array)| (name, array.into())).collect();
            let named = chooser.named(arrays, "array", notes)?;
            Ok(named.into_iter().map(|(port, value)| (port, Piece::Value(value))).collect())
        }
        Content::Case(folder) => chooser.case(&folder, notes),
        Content::Table(table) => chooser.table(table, notes),
        Content::Json(serde_json::Value::Object(object)) if chooser.names_inputs(&object) => {
            let values = object.into_iter().collect();
            let named = chooser.named(values, "value", notes)?;
            Ok(named.into_iter().map(|(port, json)| (port, Piece::Json(json))).collect())
        }
        Content::Array(array) => Ok(vec![(chooser.only()?, Piece::Value(array.into()))]),
        Content::Recorded(path) => Ok(vec![(chooser.only()?, Piece::Recorded(path))]),
        Content::Pictures(pictures) => Ok(vec![(chooser.only()?, Piece::Pictures(pictures))]),
        Content::Text(text) => Ok(vec![(chooser.only()?, Piece::Text(text))]),
        Content::Word(text) => Ok(vec![(chooser.only()?, Piece::Words(vec![text]))]),
        Content::Json(json) => {
            let port = chooser.only().map_err(|refused| match &given.name {
                Some(_) => refused,
                None => {
                    refused.map(|it| it.remedy("give an object with the inputs' names as keys"))
                }
            })?;
            Ok(vec![(port, Piece::Json(json))])
        }
    }
}

struct Chooser<'c> {
    given: &'c GivenInput,
    ports: &'c [Port],
    header: Header,
}

impl Chooser<'_> {
    fn number_of(&self, name: &str) -> Option<usize> {
        self.ports.iter().position(|port| port.name == name)
    }

    fn inputs(&self) -> String {
        quoted(self.ports.iter().map(|port| &port.name))
    }

    /// The input that a value without a name of its own is for.
    fn only(&self) -> Result<usize> {
        if let Some(name) = &self.given.name {
            let unknown = || tilewright::unknown_input(name, self.ports).into();
            return self.number_of(name).ok_or_else(unknown);
        }
        match self.ports {
            [_] => Ok(0),
            [] => Err(self.unnamed("the model has no inputs".to_owned()).into()),
            _ => Err(self.unnamed(format!("the model has {}", self.inputs())).into()),
        }
    }

    fn unnamed(&self, reason: String) -> Diagnostic {
        let source = &self.given.source;
        let remedy = match (self.ports.first(), source) {
            (Some(port), InputSource::Text(text)) => {
                format!("give `--text '{}={text}'`", port.name)
            }
            (Some(port), InputSource::StandardInput(_)) => {
                format!("give `--input {}=-`", port.name)
            }
            (Some(port), _) => format!("give `--input {}={source}`, or another name", port.name),
            (None, _) => "give nothing".to_owned(),
        };
        Diagnostic::error(codes::UNNAMED_INPUT, "it is not clear which input this is for")
            .at(source.to_string())
            .because(reason)
            .remedy(remedy)
    }

    /// Whether an object's keys are names of inputs: at least one, and none is asked for by name.
    fn names_inputs(&self, object: &serde_json::Map<String, serde_json::Value>) -> bool {
        self.given.name.is_none() && object.keys().any(|key| self.number_of(key).is_some())
    }

    /// Values with names, each for the input of its name; or the one that a name or a key asks for.
    fn named<T>(
        &self,
        mut values: Vec<(String, T)>,
        what: &str,
        notes: &mut Vec<String>,
    ) -> Result<Vec<(usize, T)>> {
        let names = quoted(values.iter().map(|(name, _)| name));
        let key = match &self.given.source {
            InputSource::File { key, .. } => key.as_ref(),
            InputSource::StandardInput(_) | InputSource::Text(_) => None,
        };
        if key.is_some() || self.given.name.is_some() {
            let port = self.only()?;
            let wanted = key.unwrap_or(&self.ports[port].name);
            let found = values.iter().position(|(name, _)| name == wanted);
            return match found.or((key.is_none() && values.len() == 1).then_some(0)) {
                Some(at) => Ok(vec![(port, values.swap_remove(at).1)]),
                None => {
                    let names: Vec<&str> = values.iter().map(|(name, _)| name.as_str()).collect();
                    Err(self.no_such_value(wanted, what, &names).into())
                }
            };
        }
        if values.len() == 1 && self.ports.len() == 1 {
            return Ok(values.pop().map(|(_, value)| (0, value)).into_iter().collect());
        }
        let (mut found, mut left) = (Vec::new(), Vec::new());
        for (name, value) in values {
            match self.number_of(&name) {
                Some(port) => found.push((port, value)),
                None => left.push(name),
            }
        }
        if found.is_empty() {
            let reason = format!("it holds {names}; the model's inputs are {}", self.inputs());
            let remedy = match (left.first(), self.ports.first(), &self.given.source) {
                (Some(name), Some(port), source @ InputSource::File { .. }) => {
                    format!("say which, such as `--input {}={source}:{name}`", port.name)
                }
                _ => "give them the names of the inputs".to_owned(),
            };
            return Err(self.unnamed(reason).remedy(remedy).into());
        }
        if !left.is_empty() {
            let names = quoted(&left);
            notes.push(format!("{}: left out what is no input: {names}", self.given.source));
        }
        Ok(found)
    }

    fn no_such_value(&self, wanted: &str, what: &str, names: &[&str]) -> Diagnostic {
        let source = match &self.given.source {
            InputSource::File { path, .. } => path.display().to_string(),
            other => other.to_string(),
        };
        let name = self.given.name.as_ref().map(|name| format!("{name}=")).unwrap_or_default();
        let message = format!("the file has no {what} `{wanted}`");
        let near = nearest(wanted, names.iter().copied()).or(names.first().copied());
        let (reason, remedy) = match near {
            None => ("it is empty".to_owned(), "give another".to_owned()),
            Some(near) => (
                format!("it holds {}", quoted(names)),
                format!("name one of them, such as `--input {name}{source}:{near}`"),
            ),
        };
        Diagnostic::error(codes::UNKNOWN_INPUT, message)
            .at(source.clone())
            .because(reason)
            .remedy(remedy)
    }

    /// The inputs of a recorded case: by the names in its files if all of them are inputs', else in
    /// order.
    fn case(
        &self,
        folder: &std::path::Path,
        notes: &mut Vec<String>,
    ) -> Result<Vec<(usize, Piece)>> {
        if let Some(name) = &self.given.name {
            let source = &self.given.source;
            let reason = "it is the folder of a case, which holds all inputs".to_owned();
            let remedy =
                format!("give `--input {source}`, or `--input {name}={source}/input_0.pb`");
            return Err(self.unnamed(reason).remedy(remedy).into());
        }
        let kinds: Vec<Kind> = self.ports.iter().map(|port| port.kind.clone()).collect();
        let values = tilewright::read_values(folder, "input", &kinds)?;
        if values.len() > self.ports.len() {
            let reason = format!("it has {} inputs, the model {}", values.len(), kinds.len());
            return Err(self.unnamed(reason).remedy("give the case of this model").into());
        }
        let mut by_name: Vec<usize> =
            values.iter().filter_map(|(name, _)| self.number_of(name)).collect();
        let in_files = by_name.clone();
        by_name.sort_unstable();
        by_name.dedup();
        let is_named = by_name.len() == values.len();
        if !is_named {
            notes.push(format!("{}: taken in order, by number", self.given.source));
        }
        let ports = if is_named { in_files } else { (0..values.len()).collect() };
        let pieces = values.into_iter().map(|(_, value)| Piece::Value(value));
        Ok(ports.into_iter().zip(pieces).collect())
    }

    /// Columns by the names of inputs, or all columns for one input.
    fn table(&self, table: Table, notes: &mut Vec<String>) -> Result<Vec<(usize, Piece)>> {
        let first = table.rows[0].clone();
        let matching = |field: &String| match self.given.name {
            None => self.number_of(field),
            Some(_) => None,
        };
        let is_named = self.header != Header::No && first.iter().any(|it| matching(it).is_some());
        if is_named {
            let left: Vec<&String> = first.iter().filter(|it| matching(it).is_none()).collect();
            if !left.is_empty() {
                let left = quoted(left);
                notes.push(format!("{}: left out what is no input: {left}", self.given.source));
            }
            let ports = first.iter().enumerate();
            let pieces = ports.filter_map(|(column, field)| {
                let port = matching(field)?;
                let columns = self.columns(&table, &[column], true);
                Some(columns.map(|columns| (port, Piece::Columns(columns))))
            });
            return pieces.collect();
        }
        let port = self.only().map_err(|refused| match self.given.name {
            Some(_) => refused,
            None => refused.map(|it| {
                it.because("no field of the table's first row is the name of an input")
                    .remedy("name the columns after the inputs, in the table's first row")
            }),
        })?;
        let has_header = match self.header {
            Header::Yes => true,
            Header::No => false,
            Header::Auto => self.is_header(&table, port),
        };
        let all: Vec<usize> = (0..first.len()).collect();
        Ok(vec![(port, Piece::Columns(self.columns(&table, &all, has_header)?))])
    }

    /// Whether the first row of a table for an input is a header: nothing in it is a number where
    /// the input takes some, and there are rows below.
    fn is_header(&self, table: &Table, port: usize) -> bool {
        let Some(dtype) = self.ports[port].dtype else { return false };
        if dtype == tensor::DType::String {
            return table.rows[0].len() == 1 && table.rows[0][0] == self.ports[port].name;
        }
        let mut names = table.rows[0].iter().filter(|field| !field.is_empty()).peekable();
        let is_any = names.peek().is_some();
        is_any && table.rows.len() > 1 && names.all(|field| number(dtype, field).is_err())
    }

    /// Some columns of a table.
    fn columns(&self, table: &Table, columns: &[usize], has_header: bool) -> Result<Columns> {
        if has_header && table.rows.len() == 1 {
            let place = self.given.source.to_string();
            let refused = malformed("a table", &place, "it has no rows below its header");
            return Err(refused.remedy("give at least one row of values").into());
        }
        Ok(columns_of(table, columns, has_header))
    }
}

fn columns_of(table: &Table, columns: &[usize], has_header: bool) -> Columns {
    let first = usize::from(has_header);
    let rows = table.rows[first..].iter();
    let pick = |row: &Vec<String>| columns.iter().map(|&at| row[at].clone()).collect::<Vec<_>>();
    Columns {
        fields: rows.flat_map(pick).collect(),
        width: columns.len(),
        lines: table.lines[first..].to_vec(),
        names: has_header.then(|| pick(&table.rows[0])),
    }
}
