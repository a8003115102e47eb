//! A look at the bytes of a file before they are decoded: how much memory decoding would take.
//!
//! A message of no content takes two bytes in a file and hundreds in memory, so a small file could
//! ask for all memory there is. This walk over the fields adds up what the decoder would allocate;
//! bytes that are sliced, not copied, are free. Malformed input ends the walk: the decoder has the
//! words for it.

use base::Limits;

/// The messages that hold other messages or lists, as far as they are walked.
#[derive(Clone, Copy)]
enum Message {
    Model,
    Graph,
    Node,
    Function,
    Attribute,
    Tensor,
    Sparse,
    Value,
    Type,
    Shape,
    /// Anything without messages inside.
    Leaf,
}

/// How a field of a message is decoded.
enum Field {
    /// Into a message of so many bytes.
    Message(Message, usize),
    /// Into a string, copied.
    Text,
    /// Into a list of numbers, each of so many bytes.
    Numbers(usize),
    /// Into a slice of the file.
    Slice,
}

/// What the decoder makes of a length-delimited field.
fn field(message: Message, tag: u64) -> Field {
    use crate::proto::*;
    use Message::*;
    use std::mem::size_of;
    const SLICE: usize = size_of::<bytes::Bytes>();
    match (message, tag) {
        (Model, 7) | (Attribute, 6 | 11) => Field::Message(Graph, size_of::<GraphProto>()),
        (Model, 25) => Field::Message(Function, size_of::<FunctionProto>()),
        (Model, 8) | (Function, 9) => Field::Message(Leaf, size_of::<OperatorSetIdProto>()),
        (Graph, 1) | (Function, 7) => Field::Message(Node, size_of::<NodeProto>()),
        (Graph, 5) | (Attribute, 5) | (Sparse, 1 | 2) => {
            Field::Message(Tensor, size_of::<TensorProto>())
        }
        (Graph, 15) | (Attribute, 22) => Field::Message(Sparse, size_of::<SparseTensorProto>()),
        (Graph, 11..=13) => Field::Message(Value, size_of::<ValueInfoProto>()),
        (Node, 5) | (Function, 11) => Field::Message(Attribute, size_of::<AttributeProto>()),
        (Value, 2) => Field::Message(Type, size_of::<TypeProto>()),
        (Type, 1 | 4 | 9) => Field::Message(Type, size_of::<TypeProto>()),
        (Type, 2) => Field::Message(Shape, size_of::<TensorShapeProto>()),
        (Shape, 1) => Field::Message(Leaf, size_of::<Dimension>()),
        (Tensor, 13) => Field::Message(Leaf, size_of::<StringStringEntryProto>()),
        (Tensor, 6) | (Attribute, 9) => Field::Message(Leaf, SLICE),
        (Tensor, 1 | 4 | 5 | 7 | 10 | 11) | (Attribute, 7 | 8) | (Sparse, 3) => Field::Numbers(8),
        (Tensor, 9) | (Attribute, 4) => Field::Slice,
        (Leaf, _) | (Model, 2 | 3) | (Graph, 2) | (Node, 1..=8) | (Tensor, 8) | (Value, 1) => {
            Field::Text
        }
        (Function, 1..=6 | 10 | 13) | (Attribute, 1 | 21) => Field::Text,
        _ => Field::Slice,
    }
}

/// Whether decoding the file as a model stays within the limits of memory: so many times the size
/// of the file, and some more for small ones.
pub(crate) fn is_modest(bytes: &[u8], limits: &Limits) -> bool {
    let most = limits.decoded_bytes.saturating_add(bytes.len() as u64 * 4);
    let mut walk = Walk { taken: 0, most };
    walk.message(bytes, Message::Model, 0);
    walk.taken <= walk.most
}

struct Walk {
    taken: u64,
    most: u64,
}

impl Walk {
    /// Walks over the fields of a message. Stops early at anything malformed.
    fn message(&mut self, mut bytes: &[u8], message: Message, depth: usize) -> Option<()> {
        // The decoder refuses what is deeper.
        if depth > 100 {
            return None;
        }
        while !bytes.is_empty() && self.taken <= self.most {
            let key = varint(&mut bytes)?;
            match key & 7 {
                0 => {
                    varint(&mut bytes)?;
                    // A number of a list that is not packed.
                    self.taken += 8;
                }
                1 => bytes = bytes.get(8..)?,
                5 => bytes = bytes.get(4..)?,
                2 => {
                    let length = usize::try_from(varint(&mut bytes)?).ok()?;
                    let (content, rest) = bytes.split_at_checked(length)?;
                    bytes = rest;
                    self.field(field(message, key >> 3), content, depth)?;
                }
                _ => return None,
            }
        }
        Some(())
    }

    fn field(&mut self, field: Field, content: &[u8], depth: usize) -> Option<()> {
        // Lists grow by doubling, so twice the size of what they hold.
        match field {
            Field::Message(inner, size) => {
                self.taken += 2 * size as u64;
                return self.message(content, inner, depth + 1);
            }
            Field::Text => self.taken += content.len() as u64 + 48,
            Field::Numbers(size) => self.taken += (content.len() * size) as u64,
            Field::Slice => {}
        }
        Some(())
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for index in 0..10 {
        let byte = *bytes.get(index)?;
        value |= u64::from(byte & 0x7f).checked_shl(7 * index as u32).unwrap_or(0);
        if byte < 0x80 {
            *bytes = &bytes[index + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{GraphProto, ModelProto, NodeProto, TensorProto};
    use prost::Message as _;

    fn modest(graph: GraphProto) -> bool {
        let model = ModelProto { graph: Some(graph), ..Default::default() };
        is_modest(&model.encode_to_vec(), &Limits { decoded_bytes: 1 << 20, ..Limits::default() })
    }

    #[test]
    fn empty_messages_count() {
        let nodes =
            |count| GraphProto { node: vec![NodeProto::default(); count], ..Default::default() };
        assert!(modest(nodes(1_000)));
        assert!(!modest(nodes(10_000)));
    }

    #[test]
    fn weights_are_free() {
        let raw_data = Some(vec![0; 1 << 22].into());
        let tensor = TensorProto { raw_data, ..Default::default() };
        assert!(modest(GraphProto { initializer: vec![tensor], ..Default::default() }));
    }
}
