//! Messages as their fields declare them: decoded, encoded; and a look at the bytes of a file
//! before they are decoded: how much memory decoding would take.
//!
//! A message of no content takes two bytes in a file and hundreds in memory, so a small file could
//! ask for all memory there is. This walk over the fields adds up what the decoder would allocate;
//! bytes that are sliced, not copied, are free. Malformed input ends the walk: the decoder has the
//! words for it.

use base::Limits;
use bytes::{Buf, BufMut, Bytes};
use prost::encoding::{self, DecodeContext, WireType};
use prost::{DecodeError, Message};

/// What decoding takes for a field of a message.
pub(crate) enum Cost {
    /// A message of so many bytes; what its fields take, by number.
    Message(usize, fn(u64) -> Cost),
    /// So many bytes for each byte of the field, and so many more.
    Bytes(u64, u64),
}

/// A Rust type of what a field holds once, or of one of the elements of a list.
pub(crate) trait Element: Default {
    /// What decoding it takes.
    const COST: Cost;

    /// Decodes one into this.
    fn merge(&mut self, from: WireType, buffer: &mut impl Buf, context: DecodeContext) -> Decoding;

    /// Decodes one or, of packed numbers, several to the end of a list.
    fn merge_into(
        list: &mut Vec<Self>,
        from: WireType,
        buffer: &mut impl Buf,
        context: DecodeContext,
    ) -> Decoding;

    /// Encodes it, behind the field's number.
    fn encode(&self, tag: u32, buffer: &mut impl BufMut);

    /// Encodes a list one by one, which every reader takes of numbers, too.
    fn encode_all(list: &[Self], tag: u32, buffer: &mut impl BufMut);

    /// The bytes that it is encoded to.
    fn encoded_len(&self, tag: u32) -> usize;

    /// The bytes that a list is encoded to.
    fn encoded_len_all(list: &[Self], tag: u32) -> usize;
}

/// A Rust type of fields.
pub(crate) trait Field {
    /// What decoding takes for it.
    const COST: Cost;

    /// Decodes what a message says of it.
    fn merge(&mut self, from: WireType, buffer: &mut impl Buf, context: DecodeContext) -> Decoding;

    /// Encodes it, if there is something to say.
    fn encode(&self, tag: u32, buffer: &mut impl BufMut);

    /// The bytes that it is encoded to.
    fn encoded_len(&self, tag: u32) -> usize;
}

pub(crate) type Decoding = Result<(), DecodeError>;

/// Types as `prost` calls them, and what decoding takes: so many bytes for each byte, and so many
/// more. A field that holds one has its default where nothing is said.
macro_rules! elements {
    (
        $($type:ty, $kind:ident:
            $each:expr, $more:expr;)*
    ) => {$(
        impl Element for $type {
            const COST: Cost = Cost::Bytes($each, $more);

            fn merge(
                &mut self,
                from: WireType,
                buffer: &mut impl Buf,
                context: DecodeContext,
            ) -> Decoding {
                encoding::$kind::merge(from, self, buffer, context)
            }

            fn merge_into(
                list: &mut Vec<Self>,
                from: WireType,
                buffer: &mut impl Buf,
                context: DecodeContext,
            ) -> Decoding {
                encoding::$kind::merge_repeated(from, list, buffer, context)
            }

            fn encode(&self, tag: u32, buffer: &mut impl BufMut) {
                encoding::$kind::encode(tag, self, buffer);
            }

            fn encode_all(list: &[Self], tag: u32, buffer: &mut impl BufMut) {
                encoding::$kind::encode_repeated(tag, list, buffer);
            }

            fn encoded_len(&self, tag: u32) -> usize {
                encoding::$kind::encoded_len(tag, self)
            }

            fn encoded_len_all(list: &[Self], tag: u32) -> usize {
                encoding::$kind::encoded_len_repeated(tag, list)
            }
        }

        impl Field for $type {
            const COST: Cost = <$type as Element>::COST;

            fn merge(
                &mut self,
                from: WireType,
                buffer: &mut impl Buf,
                context: DecodeContext,
            ) -> Decoding {
                Element::merge(self, from, buffer, context)
            }

            fn encode(&self, tag: u32, buffer: &mut impl BufMut) {
                if *self != <$type>::default() {
                    Element::encode(self, tag, buffer);
                }
            }

            fn encoded_len(&self, tag: u32) -> usize {
                if *self == <$type>::default() { 0 } else { Element::encoded_len(self, tag) }
            }
        }
    )*};
}

// Numbers are as short as a byte, but for floats; bytes are a slice of the file.
elements! {
    i32, int32: 4, 0;
    i64, int64: 8, 0;
    u64, uint64: 8, 0;
    f32, float: 1, 0;
    f64, double: 1, 0;
    String, string: 1, 48;
    Bytes, bytes: 0, size_of::<Bytes>() as u64;
}

impl<T: Element> Field for Option<T> {
    const COST: Cost = T::COST;

    fn merge(&mut self, from: WireType, buffer: &mut impl Buf, context: DecodeContext) -> Decoding {
        self.get_or_insert_default().merge(from, buffer, context)
    }

    fn encode(&self, tag: u32, buffer: &mut impl BufMut) {
        if let Some(element) = self {
            element.encode(tag, buffer);
        }
    }

    fn encoded_len(&self, tag: u32) -> usize {
        self.as_ref().map_or(0, |element| element.encoded_len(tag))
    }
}

impl<T: Element> Field for Vec<T> {
    const COST: Cost = T::COST;

    fn merge(&mut self, from: WireType, buffer: &mut impl Buf, context: DecodeContext) -> Decoding {
        T::merge_into(self, from, buffer, context)
    }

    fn encode(&self, tag: u32, buffer: &mut impl BufMut) {
        if !self.is_empty() {
            T::encode_all(self, tag, buffer);
        }
    }

    fn encoded_len(&self, tag: u32) -> usize {
        if self.is_empty() { 0 } else { T::encoded_len_all(self, tag) }
    }
}

/// A message within one that it may hold in turn.
impl<M: Message + Element> Element for Box<M> {
    const COST: Cost = M::COST;

    fn merge(&mut self, from: WireType, buffer: &mut impl Buf, context: DecodeContext) -> Decoding {
        Element::merge(&mut **self, from, buffer, context)
    }

    fn merge_into(
        list: &mut Vec<Self>,
        from: WireType,
        buffer: &mut impl Buf,
        context: DecodeContext,
    ) -> Decoding {
        let mut one = Box::<M>::default();
        Element::merge(&mut *one, from, buffer, context)?;
        list.push(one);
        Ok(())
    }

    fn encode(&self, tag: u32, buffer: &mut impl BufMut) {
        Element::encode(&**self, tag, buffer);
    }

    fn encode_all(list: &[Self], tag: u32, buffer: &mut impl BufMut) {
        list.iter().for_each(|one| Element::encode(&**one, tag, buffer));
    }

    fn encoded_len(&self, tag: u32) -> usize {
        Element::encoded_len(&**self, tag)
    }

    fn encoded_len_all(list: &[Self], tag: u32) -> usize {
        list.iter().map(|one| Element::encoded_len(&**one, tag)).sum()
    }
}

/// Declares messages: a row a field, with its number, its name and its type. A message that is one
/// of several things is an enum in a field `value`.
///
/// `prost` has a derive for the same. It takes as long to build as all that this project needs of
/// `prost`, and asks for each field what its type tells.
macro_rules! messages {
    ($($(#[$doc:meta])* $message:ident $(one $choice:ident)? { $($rows:tt)* })*) => {
        $(messages! { @ $(#[$doc])* $message $(one $choice)? { $($rows)* } })*
    };
    (@ $(#[$doc:meta])* $message:ident {
        $($number:literal $name:ident: $type:ty, $(#[$of_field:meta])*)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug, Default)]
        pub struct $message {
            $($(#[$of_field])* pub $name: $type,)*
        }

        impl prost::Message for $message {
            fn encode_raw(&self, _buffer: &mut impl bytes::BufMut) {
                $(crate::wire::Field::encode(&self.$name, $number, _buffer);)*
            }

            fn merge_field(
                &mut self,
                tag: u32,
                from: prost::encoding::WireType,
                buffer: &mut impl bytes::Buf,
                context: prost::encoding::DecodeContext,
            ) -> crate::wire::Decoding {
                match tag {
                    $($number => crate::wire::Field::merge(&mut self.$name, from, buffer, context)
                        .map_err(|mut error| {
                            error.push(stringify!($message), stringify!($name));
                            error
                        }),)*
                    _ => prost::encoding::skip_field(from, tag, buffer, context),
                }
            }

            fn encoded_len(&self) -> usize {
                0 $(+ crate::wire::Field::encoded_len(&self.$name, $number))*
            }

            fn clear(&mut self) {
                *self = $message::default();
            }
        }
        messages! { @ element $message {
            $($number <$type as crate::wire::Field>::COST;)*
        } }
    };
    (@ $(#[$doc:meta])* $message:ident one $choice:ident {
        $($number:literal $name:ident: $type:ty, $(#[$of_field:meta])*)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug, Default)]
        pub struct $message {
            /// Which; none where nothing is said.
            pub value: Option<$choice>,
        }

        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug)]
        pub enum $choice {
            $($(#[$of_field])* $name($type),)*
        }

        impl prost::Message for $message {
            fn encode_raw(&self, buffer: &mut impl bytes::BufMut) {
                match &self.value {
                    $(Some($choice::$name(one)) => {
                        crate::wire::Element::encode(one, $number, buffer);
                    })*
                    None => {}
                }
            }

            fn merge_field(
                &mut self,
                tag: u32,
                from: prost::encoding::WireType,
                buffer: &mut impl bytes::Buf,
                context: prost::encoding::DecodeContext,
            ) -> crate::wire::Decoding {
                match tag {
                    $($number => {
                        // What is said twice is one message in two parts.
                        let mut one = match self.value.take() {
                            Some($choice::$name(one)) => one,
                            _ => <$type>::default(),
                        };
                        crate::wire::Element::merge(&mut one, from, buffer, context)?;
                        self.value = Some($choice::$name(one));
                        Ok(())
                    })*
                    _ => prost::encoding::skip_field(from, tag, buffer, context),
                }
            }

            fn encoded_len(&self) -> usize {
                match &self.value {
                    $(Some($choice::$name(one)) => {
                        crate::wire::Element::encoded_len(one, $number)
                    })*
                    None => 0,
                }
            }

            fn clear(&mut self) {
                self.value = None;
            }
        }
        messages! { @ element $message {
            $($number <$type as crate::wire::Element>::COST;)*
        } }
    };
    (@ element $message:ident { $($number:literal $cost:expr;)* }) => {
        impl crate::wire::Element for $message {
            const COST: crate::wire::Cost = crate::wire::Cost::Message(
                size_of::<$message>(),
                |number| match number {
                    $($number => $cost,)*
                    _ => crate::wire::Cost::Bytes(0, 0),
                },
            );

            fn merge(
                &mut self,
                from: prost::encoding::WireType,
                buffer: &mut impl bytes::Buf,
                context: prost::encoding::DecodeContext,
            ) -> crate::wire::Decoding {
                prost::encoding::message::merge(from, self, buffer, context)
            }

            fn merge_into(
                list: &mut Vec<Self>,
                from: prost::encoding::WireType,
                buffer: &mut impl bytes::Buf,
                context: prost::encoding::DecodeContext,
            ) -> crate::wire::Decoding {
                prost::encoding::message::merge_repeated(from, list, buffer, context)
            }

            fn encode(&self, tag: u32, buffer: &mut impl bytes::BufMut) {
                prost::encoding::message::encode(tag, self, buffer);
            }

            fn encode_all(list: &[Self], tag: u32, buffer: &mut impl bytes::BufMut) {
                prost::encoding::message::encode_repeated(tag, list, buffer);
            }

            fn encoded_len(&self, tag: u32) -> usize {
                prost::encoding::message::encoded_len(tag, self)
            }

            fn encoded_len_all(list: &[Self], tag: u32) -> usize {
                prost::encoding::message::encoded_len_repeated(tag, list)
            }
        }
    };
}
pub(crate) use messages;

/// Whether decoding the file as this message stays within the limits of memory: so many times the
/// size of the file, and some more for small ones.
pub(crate) fn is_modest<M: Element>(bytes: &[u8], limits: &Limits) -> bool {
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
    use crate::proto::{
        DimensionProto, DimensionValue, GraphProto, ModelProto, NodeProto, TensorProto,
    };

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

    #[test]
    fn lists_are_read_packed_and_one_by_one() {
        // Field 1, `dims`: 2 and 300; field 4, `float_data`: 1.0.
        let packed = [0x0a, 3, 2, 0xac, 2, 0x22, 4, 0, 0, 0x80, 0x3f];
        let apart = [0x08, 2, 0x08, 0xac, 2, 0x25, 0, 0, 0x80, 0x3f];
        for bytes in [&packed[..], &apart[..]] {
            let tensor = TensorProto::decode(bytes).expect("a tensor");
            assert_eq!(
                (tensor.dims.as_slice(), tensor.float_data.as_slice()),
                (&[2, 300][..], &[1.0][..])
            );
            assert_eq!(tensor.encode_to_vec(), apart);
            assert_eq!(Message::encoded_len(&tensor), apart.len());
        }
        let said = TensorProto::decode(&[0x0a, 9, 2][..]).expect_err("cut off").to_string();
        assert!(said.contains("TensorProto.dims"), "{said}");
    }

    #[test]
    fn one_of_several_is_what_comes_last() {
        // A number, then a name, of an extent.
        let bytes = [0x08, 5, 0x12, 1, b'n'];
        let extent = DimensionProto::decode(&bytes[..]).expect("an extent");
        assert_eq!(extent.value, Some(DimensionValue::DimParam("n".to_owned())));
        assert_eq!(extent.encode_to_vec(), bytes[2..]);
        // Zero is said, not left out.
        let zero = DimensionProto { value: Some(DimensionValue::DimValue(0)) };
        assert_eq!(DimensionProto::decode(&zero.encode_to_vec()[..]), Ok(zero));
    }
}
