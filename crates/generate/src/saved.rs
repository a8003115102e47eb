//! What a model knows of a text, in a file: its tokens, with the keys and values of the pages that
//! they lie in, so that a long prompt is taken in once.
//!
//! A file is an identifier, a digest of the model and of the options that numbers depend on, how
//! many tokens there are, the tokens, the values of the state in the order of their names, and a
//! digest of all that. Numbers are little-endian.
//!
//! Invariants: a file is written whole or not at all; one of another model, or that is damaged, is
//! refused, and the text stays what it was.

use std::io::Write as _;
use std::path::Path;

use base::{Diagnostic, Result, codes};
use tensor::{StagedFiles, Tensor, map_file};
use tilewright::compiled::PAGE_PLACES;

use crate::model::{LanguageModel, TextContext};

const IDENTIFIER: &[u8; 8] = b"TWTEXT\0\x02";

/// The bytes of each end of a tensor that tell models apart.
const SAMPLE: usize = 4096;

/// Pages that hold so many tokens.
fn pages(count: usize) -> usize {
    count.div_ceil(PAGE_PLACES).max(1)
}

/// The bytes in front of the tokens: identifier, digest, count.
const HEAD: usize = 8 + 16 + 8;

impl LanguageModel {
    /// A digest of what keys and values depend on.
    fn digest(&self) -> u128 {
        let (model, options) = self.parts();
        let mut bytes =
            format!("{:?}{:?}{:?}", options.precision, options.activations, options.key_values)
                .into_bytes();
        for (key, value) in model.metadata() {
            if !key.starts_with("tokenizer.") {
                bytes.extend(format!("{key}={value};").bytes());
            }
        }
        for tensor in model.file().tensors.values() {
            let (name, shape, data) = (&tensor.name, &tensor.shape, tensor.data());
            bytes.extend(format!("{name}{shape:?}{};", tensor.format_name()).bytes());
            bytes.extend(&data[..data.len().min(SAMPLE)]);
            bytes.extend(&data[data.len().saturating_sub(SAMPLE)..]);
        }
        bytes.extend(self.engine_digest().into_iter().flat_map(u128::to_le_bytes));
        engine::digest(&bytes)
    }

    /// The names of the values that a text has.
    fn kept(&self) -> impl Iterator<Item = &String> {
        self.parts().1.updates.values()
    }
}

impl TextContext<'_> {
    /// Writes what the model knows of the text so far.
    ///
    /// # Errors
    /// `TW0301` for a file that cannot be written.
    pub fn save(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let count = self.tokens.len();
        let mut bytes = IDENTIFIER.to_vec();
        bytes.extend(self.model().digest().to_le_bytes());
        bytes.extend((count as u64).to_le_bytes());
        bytes.extend(self.tokens.iter().flat_map(|token| token.to_le_bytes()));
        self.state.set_extent("pages", pages(count))?;
        for name in self.model().kept() {
            bytes.extend_from_slice(self.state.value(name)?.bytes());
        }
        bytes.extend(engine::digest(&bytes).to_le_bytes());
        let mut files = StagedFiles::new();
        files.write(path, |file| file.write_all(&bytes))?;
        files.commit()
    }

    /// Begins with the text of a file, in the place of what there was.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged, or is of another model or other options; a text for
    /// which there is no room. The text is what it was before.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let bytes = map_file(path)?;
        let refused = |reason: &str| {
            Diagnostic::error(codes::NOT_LANGUAGE_MODEL, "the saved text cannot be used")
                .at(path.display().to_string())
                .because(reason)
                .remedy("remove the file, and save the text anew")
        };
        let number =
            |from: usize| -> Option<[u8; 16]> { bytes.get(from..from + 16)?.try_into().ok() };
        let end = bytes.len().checked_sub(16).filter(|end| *end >= HEAD);
        let end = end.ok_or_else(|| refused("it is too short"))?;
        if bytes[..8] != *IDENTIFIER {
            return Err(refused("it does not begin as a saved text does").into());
        }
        if number(end).map(u128::from_le_bytes) != Some(engine::digest(&bytes[..end])) {
            return Err(refused("it is damaged, or cut off").into());
        }
        if number(8).map(u128::from_le_bytes) != Some(self.model().digest()) {
            return Err(refused("it is of another model, or of other options").into());
        }
        let count = bytes[24..32].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let places = self.tokens.len() + self.room();
        let count = usize::try_from(count).ok().filter(|count| *count <= places);
        let Some(count) = count else {
            let found = refused("it has more tokens than there is room for");
            return Err(found.remedy("save the text anew, or give `--context` more").into());
        };
        self.state.set_extent("pages", pages(count))?;
        let mut at = HEAD + 4 * count;
        let mut values: Vec<(String, Tensor)> = Vec::new();
        for name in self.model().kept() {
            let own = self.state.value(name)?;
            let part = bytes.get(at..at + own.bytes().len());
            let part = part.ok_or_else(|| refused("it is too short"))?;
            at += part.len();
            let bytes = bytes.slice_ref(part);
            let value = Tensor::from_bytes(own.dtype(), own.shape(), bytes)
                .map_err(|found| refused(&found))?;
            values.push((name.clone(), value));
        }
        if at != end {
            return Err(refused("it is too long").into());
        }
        for (name, value) in &values {
            self.state.set_value(name, value)?;
        }
        let word = |four: &[u8]| u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        self.tokens = bytes[HEAD..HEAD + 4 * count].chunks_exact(4).map(word).collect();
        Ok(())
    }

    /// Goes back to the tokens that a text begins with, too; the rest of it, which is at least its
    /// last token, as its logits are asked for.
    pub fn rest_of<'t>(&mut self, text: &'t [u32]) -> &'t [u32] {
        let known = text.iter().zip(&self.tokens).take_while(|(a, b)| a == b).count();
        let known = known.min(text.len().saturating_sub(1));
        self.truncate(known);
        &text[known..]
    }
}
