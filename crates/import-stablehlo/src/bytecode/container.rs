//! The sections of a bytecode file: texts, dialects, names of operations, and where attributes,
//! types and operations lie.
//!
//! Invariants: numbers that stand here are those of things that are there.

use front::Accepted;

use super::reader::{Reader, damaged};

/// The greatest version of the container that is read.
pub(super) const NEWEST: u64 = 6;
/// From here on a dialect says its version.
const DIALECT_VERSIONS: u64 = 1;
/// From here on what is isolated lies in sections of its own.
pub(super) const OWN_SECTIONS: u64 = 2;
/// From here on the order of uses is told.
pub(super) const USE_ORDERS: u64 = 3;
/// From here on parameters of blocks may be without locations, and the names of operations are
/// counted.
pub(super) const SHORT_PARAMETERS: u64 = 4;
/// From here on operations have properties besides attributes.
const PROPERTIES: u64 = 5;

/// The sections by number.
const STRINGS: u8 = 0;
const DIALECTS: u8 = 1;
const ENTRIES: u8 = 2;
const ENTRY_SIZES: u8 = 3;
pub(super) const OPERATIONS: u8 = 4;
const PROPERTY_TABLE: u8 = 8;

/// A file's sections.
#[derive(Debug)]
pub(super) struct Container<'b> {
    pub(super) version: u64,
    /// Who wrote it, with a version.
    pub(super) producer: &'b str,
    pub(super) texts: Vec<&'b str>,
    /// Names of operations, the dialect first.
    pub(super) operation_names: Vec<String>,
    pub(super) attributes: Vec<Entry<'b>>,
    pub(super) types: Vec<Entry<'b>>,
    pub(super) properties: Vec<&'b [u8]>,
    pub(super) operations: &'b [u8],
}

/// An attribute or type as it lies in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'b> {
    pub(super) dialect: &'b str,
    /// Whether the dialect's own encoding is used; else it is a text.
    pub(super) is_encoded: bool,
    pub(super) bytes: &'b [u8],
}

impl<'b> Container<'b> {
    pub(super) fn read(bytes: &'b [u8]) -> Accepted<Container<'b>> {
        let mut reader = Reader::new(bytes);
        reader.take(super::MAGIC.len())?;
        let version = reader.number()?;
        let producer = reader.text()?;
        if version > NEWEST {
            return Err(damaged(format!(
                "its container has version {version} and is by {producer}; versions up to \
                 {NEWEST} are read"
            ))
            .remedy("write the program anew, for a target version up to 1.20.0"));
        }
        let mut sections: [Option<&'b [u8]>; 16] = [None; 16];
        while reader.left() > 0 {
            let section = reader.section()?;
            match sections.get_mut(usize::from(section.id)) {
                Some(place @ None) => *place = Some(section.bytes),
                Some(Some(_)) => return Err(damaged(format!("section {} is twice", section.id))),
                None => return Err(damaged(format!("there is no section {}", section.id))),
            }
        }
        let required = |id: u8| {
            sections[usize::from(id)].ok_or_else(|| damaged(format!("section {id} is not there")))
        };
        let texts = texts(required(STRINGS)?)?;
        let (dialects, operation_names) = dialects(required(DIALECTS)?, version, &texts)?;
        let (attributes, types) = entries(required(ENTRY_SIZES)?, required(ENTRIES)?, &dialects)?;
        let properties = match sections[usize::from(PROPERTY_TABLE)] {
            Some(bytes) => properties(bytes)?,
            None => Vec::new(),
        };
        let operations = required(OPERATIONS)?;
        Ok(Container {
            version,
            producer,
            texts,
            operation_names,
            attributes,
            types,
            properties,
            operations,
        })
    }
}

/// The thing of a number.
pub(super) fn at<'a, T>(things: &'a [T], number: u64, what: &str) -> Accepted<&'a T> {
    let found = usize::try_from(number).ok().and_then(|number| things.get(number));
    found.ok_or_else(|| damaged(format!("there is no {what} {number}")))
}

/// Their lengths stand in front of them, from the last one on; the bytes of zero behind them count.
fn texts(bytes: &[u8]) -> Accepted<Vec<&str>> {
    let mut reader = Reader::new(bytes);
    let count = reader.count()?;
    let mut lengths = Vec::with_capacity(count);
    for _ in 0..count {
        let length = usize::try_from(reader.number()?).unwrap_or(usize::MAX);
        lengths.push(length);
    }
    let mut texts = Vec::with_capacity(count);
    for length in lengths.into_iter().rev() {
        let bytes = reader.take(length)?;
        let Some((0, bytes)) = bytes.split_last() else {
            return Err(damaged("a text has no end"));
        };
        // What is no UTF-8 (configurations of custom calls) is not read.
        texts.push(std::str::from_utf8(bytes).unwrap_or_default());
    }
    Ok(texts)
}

/// The names of dialects, and those of operations.
fn dialects<'b>(
    bytes: &'b [u8],
    version: u64,
    texts: &[&'b str],
) -> Accepted<(Vec<&'b str>, Vec<String>)> {
    let mut reader = Reader::new(bytes);
    let count = reader.count()?;
    let mut dialects = Vec::with_capacity(count);
    for _ in 0..count {
        let (name, is_versioned) = match version >= DIALECT_VERSIONS {
            true => reader.flagged()?,
            false => (reader.number()?, false),
        };
        if is_versioned {
            reader.section()?;
        }
        dialects.push(*at(texts, name, "text")?);
    }
    if version >= SHORT_PARAMETERS {
        reader.number()?;
    }
    let mut names = Vec::new();
    while reader.left() > 0 {
        let dialect = *at(&dialects, reader.number()?, "dialect")?;
        for _ in 0..reader.count()? {
            let name = match version >= PROPERTIES {
                true => reader.flagged()?.0,
                false => reader.number()?,
            };
            let own = *at(texts, name, "text")?;
            names.push(if dialect.is_empty() {
                own.to_owned()
            } else {
                format!("{dialect}.{own}")
            });
        }
    }
    Ok((dialects, names))
}

type Entries<'b> = (Vec<Entry<'b>>, Vec<Entry<'b>>);

/// Attributes and types: groups of a dialect each, with the size of each entry.
fn entries<'b>(sizes: &[u8], bytes: &'b [u8], dialects: &[&'b str]) -> Accepted<Entries<'b>> {
    let (mut sizes, mut bytes) = (Reader::new(sizes), Reader::new(bytes));
    let counts = [sizes.count()?, sizes.count()?];
    let mut lists = [Vec::new(), Vec::new()];
    for (list, count) in lists.iter_mut().zip(counts) {
        while list.len() < count {
            let dialect = *at(dialects, sizes.number()?, "dialect")?;
            for _ in 0..sizes.count()? {
                let (size, is_encoded) = sizes.flagged()?;
                let bytes = bytes.take(usize::try_from(size).unwrap_or(usize::MAX))?;
                list.push(Entry { dialect, is_encoded, bytes });
            }
        }
        if list.len() != count {
            let found = list.len();
            return Err(damaged(format!(
                "{found} attributes or types stand where {count} are told"
            )));
        }
    }
    let [attributes, types] = lists;
    Ok((attributes, types))
}

fn properties(bytes: &[u8]) -> Accepted<Vec<&[u8]>> {
    let mut reader = Reader::new(bytes);
    let count = reader.count()?;
    (0..count).map(|_| reader.blob()).collect()
}
