//! Tensors in an engine: small ones in a section that is checked, others mapped; none twice.
//!
//! Tensors of few bytes may be literals, by whose values passes decide; they must be what they
//! were. All others may hold any numbers, so far as memory is concerned.

use std::collections::BTreeMap;

use base::Result;
use bytes::Bytes;
use engine::{Damage, Decoder, Encoder, EngineDraft, EngineFile};
use tensor::{DType, Tensor};

use super::section;

/// Tensors of at most so many bytes are checked.
pub(super) const CHECKED_BYTES: usize = 4096;

/// The constants of an engine to be written.
#[derive(Default)]
pub(super) struct SavedConstants<'a> {
    pub(super) draft: EngineDraft<'a>,
    checked: Vec<u8>,
    /// Where bytes lie that have been added, by their address and number.
    added: BTreeMap<(usize, usize), Place>,
}

/// Where bytes lie: their offset, and whether in the section that is checked.
type Place = (bool, usize);

impl<'a> SavedConstants<'a> {
    /// Adds bytes, unless they have been, and writes where they lie.
    pub(super) fn bytes(&mut self, encoder: &mut Encoder, bytes: &'a [u8]) {
        let key = (bytes.as_ptr().addr(), bytes.len());
        let (is_checked, offset) = *self.added.entry(key).or_insert_with(|| {
            if bytes.len() > CHECKED_BYTES {
                return (false, self.draft.constant(bytes));
            }
            let offset = self.checked.len();
            self.checked.extend_from_slice(bytes);
            (true, offset)
        });
        encoder.flag(is_checked);
        encoder.number(offset as u64);
        encoder.number(bytes.len() as u64);
    }

    /// Adds a tensor; one that is `absent` leaves its type alone.
    pub(super) fn tensor(&mut self, encoder: &mut Encoder, tensor: &'a Tensor, absent: bool) {
        encoder.text(tensor.dtype().name());
        encoder.list(tensor.shape(), |encoder, &extent| encoder.number(extent as u64));
        encoder.flag(absent);
        if absent {
            return;
        }
        match tensor.strings() {
            Some(strings) => encoder.list(strings, |encoder, text| encoder.text(text)),
            None => self.bytes(encoder, tensor.bytes()),
        }
    }

    /// The draft with the section that is checked.
    pub(super) fn finish(mut self) -> EngineDraft<'a> {
        self.draft.section(section::CHECKED, self.checked);
        self.draft
    }
}

/// The constants of an engine.
#[derive(Clone)]
pub(super) struct LoadedConstants {
    file: EngineFile,
    checked: Bytes,
}

impl LoadedConstants {
    pub(super) fn new(file: &EngineFile) -> Result<LoadedConstants> {
        Ok(LoadedConstants { file: file.clone(), checked: file.section(section::CHECKED)? })
    }

    /// Bytes, where they lie.
    pub(super) fn bytes(&self, decoder: &mut Decoder<'_>) -> std::result::Result<Bytes, Damage> {
        let (is_checked, offset, count) = (decoder.flag()?, decoder.size()?, decoder.size()?);
        if !is_checked {
            return self.file.constant(offset, count);
        }
        let end = offset.checked_add(count).filter(|&end| end <= self.checked.len());
        let end = end.ok_or_else(|| Damage::new("a constant ends behind its section"))?;
        Ok(self.checked.slice(offset..end))
    }

    /// A tensor, and whether it is absent; its elements are zeros then.
    pub(super) fn tensor(
        &self,
        decoder: &mut Decoder<'_>,
    ) -> std::result::Result<(Tensor, bool), Damage> {
        let name = decoder.text()?;
        let unknown = || Damage::new(format!("there is no element type `{name}`"));
        let dtype = DType::parse(name).ok_or_else(unknown)?;
        let shape: Vec<usize> = decoder.list(Decoder::size)?;
        if decoder.flag()? {
            let zeros = Tensor::try_zeros(dtype, &shape);
            let too_large = || Damage::new("a weight is too large for memory");
            return Ok((zeros.ok_or_else(too_large)?, true));
        }
        if dtype != DType::String {
            let bytes = self.bytes(decoder)?;
            return Ok((Tensor::from_bytes(dtype, &shape, bytes).map_err(Damage)?, false));
        }
        let strings: Vec<String> = decoder.list(|decoder| decoder.text().map(str::to_owned))?;
        match tensor::tensor::element_count(&shape) == Some(strings.len()) {
            true => Ok((Tensor::from_strings(&shape, strings), false)),
            false => Err(Damage::new("a tensor has not as many strings as its shape says")),
        }
    }
}
