//! A look at the bytes of a file before they are decoded: how much memory decoding would take.
//!
//! A message of no content takes two bytes in a file and hundreds in memory, so a small file could
//! ask for all memory there is. This walk over the fields adds up what the decoder would allocate;
//! bytes that are sliced, not copied, are free. Malformed input ends the walk: the decoder has the
//! words for it.

use base::Limits;

/// What decoding takes for a field of a message.
pub(crate) enum Cost {
    /// A message of so many bytes; what its fields take, by number.
    Message(usize, fn(u64) -> Cost),
    /// So many bytes for each byte of the field, and so many more.
    Bytes(u64, u64),
}

/// A Rust type of fields.
pub(crate) trait Decoded {
    /// What it takes.
    const COST: Cost;
}

macro_rules! decoded {
    ($($type:ty: $each:expr, $more:expr;)*) => {
        $(impl Decoded for $type { const COST: Cost = Cost::Bytes($each, $more); })*
    };
}

// Numbers are as short as a byte, but for floats; bytes are a slice of the file.
decoded! {
    i32: 4, 0;
    i64: 8, 0;
    u64: 8, 0;
    f32: 1, 0;
    f64: 1, 0;
    String: 1, 48;
    bytes::Bytes: 0, size_of::<bytes::Bytes>() as u64;
}

macro_rules! decoded_as_content {
    ($($outer:ident)*) => {
        $(impl<T: Decoded> Decoded for $outer<T> { const COST: Cost = T::COST; })*
    };
}

decoded_as_content! { Vec Option Box }

/// Declares messages: a row a field, with its number, its name, its type, how `prost` calls that,
/// and what it is. A message that is one of several things is an enum in a field `value`.
macro_rules! messages {
    ($($(#[$doc:meta])* $message:ident $(one $choice:ident)? { $($rows:tt)* })*) => {
        $(messages! { @ $(#[$doc])* $message $(one $choice)? { $($rows)* } })*
    };
    (@ $(#[$doc:meta])* $message:ident {
        $($number:literal $name:ident: $type:ty [$($kind:tt)*] $(#[$of_field:meta])*)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, prost::Message)]
        pub struct $message {
            $($(#[$of_field])* #[prost($($kind)*, tag = $number)] pub $name: $type,)*
        }
        messages! { @ cost $message { $($number $type;)* } }
    };
    (@ $(#[$doc:meta])* $message:ident one $choice:ident {
        $($number:literal $name:ident: $type:ty [$kind:ident] $(#[$of_field:meta])*)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, prost::Message)]
        pub struct $message {
            /// Which; none where nothing is said.
            #[prost(oneof($choice), tags($($number),*))]
            pub value: Option<$choice>,
        }
        $(#[$doc])*
        #[derive(Clone, PartialEq, prost::Oneof)]
        pub enum $choice {
            $($(#[$of_field])* #[prost($kind, tag = $number)] $name($type),)*
        }
        messages! { @ cost $message { $($number $type;)* } }
    };
    (@ cost $message:ident { $($number:literal $type:ty;)* }) => {
        impl crate::wire::Decoded for $message {
            const COST: crate::wire::Cost = crate::wire::Cost::Message(
                size_of::<$message>(),
                |number| match number {
                    $($number => <$type as crate::wire::Decoded>::COST,)*
                    _ => crate::wire::Cost::Bytes(0, 0),
                },
            );
        }
    };
}
pub(crate) use messages;

/// Whether decoding the file as this message stays within the limits of memory: so many times the
/// size of the file, and some more for small ones.
pub(crate) fn is_modest<M: Decoded>(bytes: &[u8], limits: &Limits) -> bool {
    let most = limits.decoded_bytes.saturating_add(bytes.len() as u64 * 4);
    let mut walk = Walk { taken: 0, most };
    walk.field(M::COST, bytes, 0);
    walk.taken <= walk.most
}

struct Walk {
    taken: u64,
    most: u64,
}

impl Walk {
    /// Walks over the fields of a message. Stops early at anything malformed.
    fn message(&mut self, mut bytes: &[u8], fields: fn(u64) -> Cost, depth: usize) -> Option<()> {
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
                    self.field(fields(key >> 3), content, depth)?;
                }
                _ => return None,
            }
        }
        Some(())
    }

    fn field(&mut self, cost: Cost, content: &[u8], depth: usize) -> Option<()> {
        match cost {
            Cost::Message(size, fields) => {
                // Lists grow by doubling, so twice the size of what they hold.
                self.taken += 2 * size as u64;
                return self.message(content, fields, depth + 1);
            }
            Cost::Bytes(each, more) => self.taken += content.len() as u64 * each + more,
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
        is_modest::<ModelProto>(
            &model.encode_to_vec(),
            &Limits { decoded_bytes: 1 << 20, ..Limits::default() },
        )
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
