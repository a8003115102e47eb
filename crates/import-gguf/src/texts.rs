//! Texts behind each other, as GGUF has those of an array: each is its length in 8 bytes and its
//! bytes. Where each ends is kept, nothing else: a tokenizer has hundreds of thousands.
//!
//! Invariant: each end lies at least 8 bytes behind the one before it, and in the bytes; between
//! the two stand the length and the text.

use std::sync::Arc;

use bytes::Bytes;

/// The bytes of a text's length.
const LENGTH: usize = 8;

/// Texts in an order. A copy shares them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextList {
    bytes: Bytes,
    ends: Arc<[u32]>,
}

impl TextList {
    /// Texts in their order; none if they take 4 GiB or more.
    #[must_use]
    pub fn of<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> Option<TextList> {
        let (mut bytes, mut count) = (Vec::new(), 0);
        for text in texts {
            let text = text.as_ref();
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend_from_slice(text);
            count += 1;
        }
        TextList::read(&bytes.into(), count)
    }

    /// The texts that bytes begin with, so many; none if they hold fewer, or 4 GiB and more of
    /// them.
    pub(crate) fn read(bytes: &Bytes, count: usize) -> Option<TextList> {
        if count > bytes.len() / LENGTH {
            return None;
        }
        let (mut ends, mut at) = (Vec::with_capacity(count), 0_usize);
        for _ in 0..count {
            let length = bytes.get(at..)?.first_chunk::<LENGTH>()?;
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            at = (at + LENGTH).checked_add(length).filter(|end| *end <= bytes.len())?;
            ends.push(u32::try_from(at).ok()?);
        }
        Some(TextList { bytes: bytes.slice(..at), ends: ends.into() })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The text at a place.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&[u8]> {
        let end = *self.ends.get(place)? as usize;
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Some(&self.bytes[start + LENGTH..end])
    }

    /// The texts in their order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|place| self.get(place))
    }

    /// The texts with their lengths, as they stand in files.
    pub(crate) fn written(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        let texts: [&[u8]; 4] = [b"one", b"", b"\xff\0", b"four"];
        let list = TextList::of(texts).expect("a list");
        assert_eq!(list.iter().collect::<Vec<_>>(), texts);
        assert_eq!((list.len(), list.get(1), list.get(4)), (4, Some(&b""[..]), None));
        let behind = [list.written(), b"what follows"].concat();
        assert_eq!(TextList::read(&behind.into(), 4), Some(list));
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let list = TextList::of(["one"]).expect("a list");
        let bytes = list.written().to_vec();
        for count in [2, usize::MAX] {
            assert_eq!(TextList::read(&bytes.clone().into(), count), None);
        }
        for length in [4, u64::from(u32::MAX), u64::MAX] {
            let mut wrong = bytes.clone();
            wrong[..LENGTH].copy_from_slice(&length.to_le_bytes());
            assert_eq!(TextList::read(&wrong.into(), 1), None, "{length}");
        }
        assert_eq!(TextList::read(&bytes[..5].to_vec().into(), 1), None);
        assert_eq!(TextList::read(&Bytes::new(), 0), Some(TextList::default()));
    }
}
