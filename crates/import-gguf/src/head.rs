//! All of a language model but the data of its tensors, as the bytes of a GGUF file that ends
//! there: what code that has been compiled of the model needs beside it, the tokenizer above all.
//!
//! A folder's model is written so, too: what was read of it is in the words of GGUF. Which of the
//! two it was is the first byte, for names and angles are written otherwise there.

use base::{Diagnostic, Limits};
use bytes::Bytes;
use front::Accepted;

use crate::file::{MetadataArray, MetadataValue, ModelFile, ModelOrigin, TensorEntry, damaged};

/// The version that is written.
const VERSION: u32 = 3;

impl ModelFile {
    /// The keys, and what is said of tensors.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut head = vec![u8::from(self.origin == ModelOrigin::Safetensors)];
        head.extend_from_slice(b"GGUF");
        head.extend(VERSION.to_le_bytes());
        head.extend((self.tensors.len() as u64).to_le_bytes());
        head.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            text(&mut head, key.as_bytes());
            keyed(&mut head, value);
        }
        for tensor in self.tensors.values() {
            text(&mut head, tensor.name.as_bytes());
            head.extend((tensor.shape.len() as u32).to_le_bytes());
            for &extent in tensor.shape.iter().rev() {
                head.extend((extent as u64).to_le_bytes());
            }
            head.extend(tensor.format.code.to_le_bytes());
            head.extend(0_u64.to_le_bytes());
        }
        head
    }

    /// A model of what [`Self::head`] has written: its tensors have no data.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) fn read_head(bytes: &Bytes, limits: &Limits) -> Accepted<ModelFile> {
        let cut = || -> Diagnostic { damaged("nothing is said of the model") };
        let origin = match bytes.first().ok_or_else(cut)? {
            0 => ModelOrigin::Gguf,
            _ => ModelOrigin::Safetensors,
        };
        let found = ModelFile::described(&bytes.slice(1..), limits)?;
        let tensors = found.entries.into_iter().map(|entry| {
            let (name, shape, format) = (entry.name, entry.shape, entry.format);
            (name.clone(), TensorEntry { name, shape, format, bytes: Bytes::new() })
        });
        let (version, metadata) = (found.version, found.metadata);
        Ok(ModelFile { origin, version, metadata, tensors: tensors.collect() })
    }
}

fn text(head: &mut Vec<u8>, bytes: &[u8]) {
    head.extend((bytes.len() as u64).to_le_bytes());
    head.extend_from_slice(bytes);
}

/// The type of a value, and the value.
fn keyed(head: &mut Vec<u8>, value: &MetadataValue) {
    let mut put = |kind: u32, bytes: &[u8]| {
        head.extend(kind.to_le_bytes());
        head.extend_from_slice(bytes);
    };
    match value {
        // Integers of the format are of 64 bits at most.
        MetadataValue::Integer(value) => match u64::try_from(*value) {
            Ok(value) => put(10, &value.to_le_bytes()),
            Err(_) => put(11, &(*value as i64).to_le_bytes()),
        },
        MetadataValue::Float(value) => put(12, &value.to_le_bytes()),
        MetadataValue::Bool(value) => put(7, &[u8::from(*value)]),
        MetadataValue::Text(bytes) => {
            put(8, &[]);
            text(head, bytes);
        }
        MetadataValue::Array(array) => {
            put(9, &[]);
            values(head, array);
        }
    }
}

/// The type of an array's elements, how many there are, and they.
fn values(head: &mut Vec<u8>, array: &MetadataArray) {
    let mut begin = |kind: u32, count: usize| {
        head.extend(kind.to_le_bytes());
        head.extend((count as u64).to_le_bytes());
    };
    match array {
        MetadataArray::Numbers { kind, bytes } => {
            begin(*kind, bytes.len() / ModelFile::number_bytes(*kind).unwrap_or(1));
            head.extend_from_slice(bytes);
        }
        MetadataArray::Texts(texts) => {
            begin(8, texts.len());
            head.extend_from_slice(texts.written());
        }
        MetadataArray::Arrays(arrays) => {
            begin(9, arrays.len());
            for own in arrays {
                values(head, own);
            }
        }
    }
}
