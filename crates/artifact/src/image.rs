//! What an artifact is made of, whatever the file that it goes to: code, data that is only read,
//! symbols. All that code says of code is settled here; what is left are distances from code to
//! data.
//!
//! Names and contents alone decide the bytes: the order is that of what was added, and code that is
//! there already is not added again.

use std::collections::BTreeMap;
use std::io::{self, Write};

use backend_c::Weights;
use backend_x64::LinkableCode;
use base::Diagnostics;

use crate::digest::Digest;

/// What lies between pieces of code: it traps.
const TRAP: u8 = 0xcc;

/// Data that is only read.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Bytes(Vec<u8>),
    Weights(Weights),
}

impl Data {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Data::Bytes(bytes) => bytes.len() as u64,
            Data::Weights(weights) => weights.bytes(),
        }
    }

    pub(crate) fn write(&self, file: &mut dyn Write) -> io::Result<()> {
        match self {
            Data::Bytes(bytes) => file.write_all(bytes),
            Data::Weights(weights) => weights.write(file),
        }
    }
}

/// The section that a symbol is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Code,
    Data,
}

/// A name for a place.
#[derive(Clone, Debug)]
pub(crate) struct ImageSymbol {
    pub(crate) name: String,
    pub(crate) section: Section,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) is_exported: bool,
}

/// Code, data, symbols.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    pub(crate) code: Vec<u8>,
    /// Each at a multiple of 64.
    pub(crate) data: Vec<Data>,
    pub(crate) symbols: Vec<ImageSymbol>,
    by_name: BTreeMap<String, usize>,
    /// Where in the code distances to symbols belong.
    references: Vec<(usize, String)>,
    data_bytes: u64,
}

impl Image {
    /// Whether there is a symbol of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Adds code under a name that nothing has yet, aligned to at most 64 bytes.
    pub(crate) fn add_code(&mut self, name: &str, code: LinkableCode, is_exported: bool) {
        let offset = self.code.len().next_multiple_of(code.alignment);
        self.code.resize(offset, TRAP);
        let bytes = code.bytes.len() as u64;
        self.code.extend(code.bytes);
        let references = code.references.into_iter();
        self.references.extend(references.map(|(at, name)| (offset + at, name)));
        self.symbol(name, Section::Code, offset as u64, bytes, is_exported);
    }

    /// Adds data under a name that nothing has yet.
    pub(crate) fn add_data(&mut self, name: &str, data: Data, is_exported: bool) {
        let (offset, bytes) = (self.data_bytes, data.bytes());
        self.data_bytes = (offset + bytes).next_multiple_of(64);
        self.data.push(data);
        self.symbol(name, Section::Data, offset, bytes, is_exported);
    }

    fn symbol(&mut self, name: &str, section: Section, offset: u64, bytes: u64, exported: bool) {
        self.by_name.insert(name.to_owned(), self.symbols.len());
        let name = name.to_owned();
        self.symbols.push(ImageSymbol { name, section, offset, bytes, is_exported: exported });
    }

    /// The bytes of all data.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Writes all data, with zeros in between.
    pub(crate) fn write_data(&self, file: &mut dyn Write) -> io::Result<()> {
        for data in &self.data {
            data.write(file)?;
            let bytes = data.bytes();
            let fill = (bytes.next_multiple_of(64) - bytes) as usize;
            file.write_all(&[0; 64][..fill])?;
        }
        Ok(())
    }

    /// Settles distances within the code; gives those to data: where each belongs, and the number
    /// of its symbol.
    ///
    /// # Errors
    /// An internal error for a symbol that is not there.
    pub(crate) fn linked(&mut self) -> base::Result<Vec<(usize, usize)>> {
        let mut left = Vec::new();
        for (at, name) in std::mem::take(&mut self.references) {
            let Some(&number) = self.by_name.get(&name) else {
                return Err(Diagnostics::internal(format!("nothing defines `{name}`")));
            };
            let symbol = &self.symbols[number];
            match symbol.section {
                Section::Code => {
                    let distance = symbol.offset as i64 - (at as i64 + 4);
                    let distance = i32::try_from(distance).map_err(|_| {
                        Diagnostics::internal("the code is larger than two gigabytes")
                    })?;
                    self.code[at..at + 4].copy_from_slice(&distance.to_le_bytes());
                }
                Section::Data => left.push((at, number)),
            }
        }
        Ok(left)
    }

    /// A digest of code and data, whatever they are called.
    pub(crate) fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        digest.add(&self.code);
        // A digest takes whatever is written to it.
        let _ = self.write_data(&mut digest);
        for symbol in self.symbols.iter().filter(|symbol| symbol.is_exported) {
            digest.add(&symbol.offset.to_le_bytes());
        }
        digest
    }
}
