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

/// Where bytes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Whether in the section that is checked.
    pub(super) is_checked: bool,
    pub(super) offset: usize,
    pub(super) bytes: usize,
}

impl<'a> SavedConstants<'a> {
    /// Adds bytes, unless they have been, and writes where they lie.
    pub(super) fn bytes(&mut self, encoder: &mut Encoder, bytes: &'a [u8]) {
        let key = (bytes.as_ptr().addr(), bytes.len());
        let place = *self.added.entry(key).or_insert_with(|| {
            let is_checked = bytes.len() <= CHECKED_BYTES;
            let offset = match is_checked {
                true => self.checked.len(),
                false => self.draft.constant(bytes),
            };
            if is_checked {
                self.checked.extend_from_slice(bytes);
            }
            Place { is_checked, offset, bytes: bytes.len() }
        });
        encoder.flag(place.is_checked);
        encoder.number(place.offset as u64);
        encoder.number(place.bytes as u64);
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

/// What an engine says of a constant: where its elements lie, or what they are, if strings; neither
/// where its type alone is kept.
pub(super) struct SavedConstant {
    dtype: DType,
    shape: Vec<usize>,
    strings: Option<Vec<String>>,
    pub(super) place: Option<Place>,
}

type Decoded<T> = std::result::Result<T, Damage>;

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

    /// Where bytes lie.
    pub(super) fn place(&self, decoder: &mut Decoder<'_>) -> Decoded<Place> {
        let (is_checked, offset, bytes) = (decoder.flag()?, decoder.size()?, decoder.size()?);
        let place = Place { is_checked, offset, bytes };
        self.at(place).map(|_| place)
    }

    fn at(&self, place: Place) -> Decoded<Bytes> {
        let Place { is_checked, offset, bytes } = place;
        if !is_checked {
            return self.file.constant(offset, bytes);
        }
        let end = offset.checked_add(bytes).filter(|&end| end <= self.checked.len());
        let end = end.ok_or_else(|| Damage::new("a constant ends behind its section"))?;
        Ok(self.checked.slice(offset..end))
    }

    /// Bytes, where they lie.
    pub(super) fn bytes(&self, decoder: &mut Decoder<'_>) -> Decoded<Bytes> {
        let place = self.place(decoder)?;
        self.at(place)
    }

    /// A tensor, and whether it is absent; its elements are zeros then.
    pub(super) fn tensor(&self, decoder: &mut Decoder<'_>) -> Decoded<(Tensor, bool)> {
        let SavedConstant { dtype, shape, strings, place } = self.saved(decoder)?;
        match (place, strings) {
            (Some(place), _) => {
                let bytes = self.at(place)?;
                Ok((Tensor::from_bytes(dtype, &shape, bytes).map_err(Damage)?, false))
            }
            (None, Some(strings)) => {
                match tensor::tensor::element_count(&shape) == Some(strings.len()) {
                    true => Ok((Tensor::from_strings(&shape, strings), false)),
                    false => Err(Damage::new("a tensor has not as many strings as its shape says")),
                }
            }
            (None, None) => {
                let zeros = Tensor::try_zeros(dtype, &shape);
                let too_large = || Damage::new("a weight is too large for memory");
                Ok((zeros.ok_or_else(too_large)?, true))
            }
        }
    }

    /// What is said of a tensor.
    pub(super) fn saved(&self, decoder: &mut Decoder<'_>) -> Decoded<SavedConstant> {
        let name = decoder.text()?;
        let unknown = || Damage::new(format!("there is no element type `{name}`"));
        let dtype = DType::parse(name).ok_or_else(unknown)?;
        let shape: Vec<usize> = decoder.list(Decoder::size)?;
        let (mut strings, mut place) = (None, None);
        match (decoder.flag()?, dtype) {
            (true, _) => {}
            (false, DType::String) => {
                strings = Some(decoder.list(|decoder| decoder.text().map(str::to_owned))?);
            }
            (false, _) => place = Some(self.place(decoder)?),
        }
        Ok(SavedConstant { dtype, shape, strings, place })
    }
}
