//! The messages of `onnx.proto`, as far as the importer reads them.
//!
//! Field numbers are those of the ONNX specification (IR version 14); fields left out
//! (documentation, training, device placement, quantisation annotations) are skipped by the
//! decoder. `bytes` fields are slices of the decoded buffer, so weights of a mapped file are never
//! copied. The decoder itself refuses lengths beyond the buffer, more than 100 levels of nesting
//! and strings that are not UTF-8.

use bytes::Bytes;
use prost::{Message, Oneof};

/// A model file.
#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    /// Version of the format itself.
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    /// The tool that wrote the file.
    #[prost(string, tag = "2")]
    pub producer_name: String,
    /// The version of that tool.
    #[prost(string, tag = "3")]
    pub producer_version: String,
    /// The model.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// The operator sets that the graph uses.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Operators that the file defines itself.
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<FunctionProto>,
}

/// An operator set: a domain (empty for ONNX's own) and a version.
#[derive(Clone, PartialEq, Message)]
pub struct OperatorSetIdProto {
    /// The domain.
    #[prost(string, tag = "1")]
    pub domain: String,
    /// The version.
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// A graph: the model's, or the branch or body of a control-flow operator.
#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    /// The nodes.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// The graph's name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Constants, and default values of inputs.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// Constants with few nonzero elements.
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializer: Vec<SparseTensorProto>,
    /// The inputs.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// The outputs.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
    /// Types of values in between.
    #[prost(message, repeated, tag = "13")]
    pub value_info: Vec<ValueInfoProto>,
}

/// An operator with its inputs and outputs.
#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    /// Names of the inputs; an empty name is an input left out.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// Names of the outputs; an empty name is an output not wanted.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// The node's name; often empty.
    #[prost(string, tag = "3")]
    pub name: String,
    /// The operator.
    #[prost(string, tag = "4")]
    pub op_type: String,
    /// The operator's domain; empty for ONNX's own.
    #[prost(string, tag = "7")]
    pub domain: String,
    /// Which of several functions of the same name.
    #[prost(string, tag = "8")]
    pub overload: String,
    /// The attributes.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
}

impl NodeProto {
    /// The attribute of a name.
    #[must_use]
    pub fn attribute_of(&self, name: &str) -> Option<&AttributeProto> {
        self.attribute.iter().find(|attribute| attribute.name == name)
    }

    /// The graphs inside of it.
    pub fn inner_graphs(&self) -> impl Iterator<Item = &GraphProto> {
        self.attribute.iter().flat_map(|it| it.g.as_deref().into_iter().chain(&it.graphs))
    }
}

/// A function: a composite operator that the model defines.
#[derive(Clone, PartialEq, Message)]
pub struct FunctionProto {
    /// The operator's name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Names of the inputs.
    #[prost(string, repeated, tag = "4")]
    pub input: Vec<String>,
    /// Names of the outputs.
    #[prost(string, repeated, tag = "5")]
    pub output: Vec<String>,
    /// Names of attributes without a default.
    #[prost(string, repeated, tag = "6")]
    pub attribute: Vec<String>,
    /// Attributes with their defaults.
    #[prost(message, repeated, tag = "11")]
    pub attribute_proto: Vec<AttributeProto>,
    /// The nodes.
    #[prost(message, repeated, tag = "7")]
    pub node: Vec<NodeProto>,
    /// The operator sets that the nodes use.
    #[prost(message, repeated, tag = "9")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// The operator's domain.
    #[prost(string, tag = "10")]
    pub domain: String,
    /// Which of several functions of the same name.
    #[prost(string, tag = "13")]
    pub overload: String,
}

/// An attribute of a node. [`attribute_type`] says which field holds its value.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    /// The attribute's name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// In a function: the attribute of the caller that stands here.
    #[prost(string, tag = "21")]
    pub ref_attr_name: String,
    /// One of [`attribute_type`].
    #[prost(int32, tag = "20")]
    pub r#type: i32,
    /// A float.
    #[prost(float, tag = "2")]
    pub f: f32,
    /// An integer.
    #[prost(int64, tag = "3")]
    pub i: i64,
    /// A string.
    #[prost(bytes = "bytes", tag = "4")]
    pub s: Bytes,
    /// A tensor.
    #[prost(message, optional, boxed, tag = "5")]
    pub t: Option<Box<TensorProto>>,
    /// A graph.
    #[prost(message, optional, boxed, tag = "6")]
    pub g: Option<Box<GraphProto>>,
    /// A type.
    #[prost(message, optional, boxed, tag = "14")]
    pub tp: Option<Box<TypeProto>>,
    /// A sparse tensor.
    #[prost(message, optional, boxed, tag = "22")]
    pub sparse_tensor: Option<Box<SparseTensorProto>>,
    /// Floats.
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub floats: Vec<f32>,
    /// Integers.
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    /// Strings.
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub strings: Vec<Bytes>,
    /// Graphs.
    #[prost(message, repeated, tag = "11")]
    pub graphs: Vec<GraphProto>,
}

/// Values of [`AttributeProto::type`](AttributeProto#structfield.type).
pub mod attribute_type {
    /// Not said: files of the first IR versions.
    pub const UNDEFINED: i32 = 0;
    /// `f`.
    pub const FLOAT: i32 = 1;
    /// `i`.
    pub const INT: i32 = 2;
    /// `s`.
    pub const STRING: i32 = 3;
    /// `t`.
    pub const TENSOR: i32 = 4;
    /// `g`.
    pub const GRAPH: i32 = 5;
    /// `floats`.
    pub const FLOATS: i32 = 6;
    /// `ints`.
    pub const INTS: i32 = 7;
    /// `strings`.
    pub const STRINGS: i32 = 8;
    /// `graphs`.
    pub const GRAPHS: i32 = 10;
    /// `sparse_tensor`.
    pub const SPARSE_TENSOR: i32 = 11;
    /// `tp`.
    pub const TYPE_PROTO: i32 = 13;
}

/// A tensor. Its elements stand in `raw_data`, in the field of their type, or in another file.
#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    /// The shape.
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    /// The element type; see [`crate::data_type`].
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    /// Elements of `float` and the parts of complex numbers.
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// Elements of the integers up to 32 bits, booleans, and the bits of short floats.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// Strings.
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub string_data: Vec<Bytes>,
    /// Elements of `int64`.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// The tensor's name.
    #[prost(string, tag = "8")]
    pub name: String,
    /// Elements of any type but strings, little-endian and packed.
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub raw_data: Option<Bytes>,
    /// Elements of `double`.
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    /// Elements of `uint32` and `uint64`.
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    /// Where the elements stand: `location`, `offset`, `length`, `checksum`.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// 1 when the elements stand in another file.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

/// A key and a value.
#[derive(Clone, PartialEq, Message)]
pub struct StringStringEntryProto {
    /// The key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A tensor of which only some elements are given; the others are zero.
#[derive(Clone, PartialEq, Message)]
pub struct SparseTensorProto {
    /// The given elements; the name of the whole.
    #[prost(message, optional, tag = "1")]
    pub values: Option<TensorProto>,
    /// Their places: row-major indices `[n]`, or coordinates `[n, rank]`.
    #[prost(message, optional, tag = "2")]
    pub indices: Option<TensorProto>,
    /// The shape.
    #[prost(int64, repeated, packed = "false", tag = "3")]
    pub dims: Vec<i64>,
}

/// A sequence of values of one kind, or an optional value: one of at most one value. Both of the
/// format's messages have these fields.
#[derive(Clone, PartialEq, Message)]
pub struct ListProto {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Tensors.
    #[prost(message, repeated, tag = "3")]
    pub tensors: Vec<TensorProto>,
    /// Sequences.
    #[prost(message, repeated, tag = "5")]
    pub sequences: Vec<ListProto>,
    /// Optional values.
    #[prost(message, repeated, tag = "7")]
    pub optionals: Vec<ListProto>,
}

/// A value's name and type.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfoProto {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The type.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
}

impl ValueInfoProto {
    /// A name of which no type is declared.
    #[must_use]
    pub fn untyped(name: impl Into<String>) -> ValueInfoProto {
        ValueInfoProto { name: name.into(), r#type: None }
    }
}

/// The type of a value.
#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    /// Which kind.
    #[prost(oneof = "type_proto::Value", tags = "1, 4, 5, 7, 8, 9")]
    pub value: Option<type_proto::Value>,
}

/// The kinds of [`TypeProto`].
pub mod type_proto {
    use super::*;

    /// The kinds of value.
    #[derive(Clone, PartialEq, Oneof)]
    pub enum Value {
        /// A dense tensor.
        #[prost(message, tag = "1")]
        Tensor(Tensor),
        /// A list of values of one type.
        #[prost(message, tag = "4")]
        Sequence(Box<Element>),
        /// A dictionary.
        #[prost(message, tag = "5")]
        Map(Box<Map>),
        /// Anything else.
        #[prost(message, tag = "7")]
        Opaque(Unread),
        /// A sparse tensor.
        #[prost(message, tag = "8")]
        SparseTensor(Unread),
        /// A value or none.
        #[prost(message, tag = "9")]
        Optional(Box<Element>),
    }

    /// The type of a dense tensor.
    #[derive(Clone, PartialEq, Message)]
    pub struct Tensor {
        /// The element type; see [`crate::data_type`].
        #[prost(int32, tag = "1")]
        pub elem_type: i32,
        /// The shape; absent when even the rank is unknown.
        #[prost(message, optional, tag = "2")]
        pub shape: Option<TensorShapeProto>,
    }

    /// The element type of a sequence or of an optional value.
    #[derive(Clone, PartialEq, Message)]
    pub struct Element {
        /// The type.
        #[prost(message, optional, tag = "1")]
        pub elem_type: Option<TypeProto>,
    }

    /// The type of a map.
    #[derive(Clone, PartialEq, Message)]
    pub struct Map {
        /// The type of its keys; see [`crate::data_type`].
        #[prost(int32, tag = "1")]
        pub key_type: i32,
        /// The type of its values.
        #[prost(message, optional, tag = "2")]
        pub value_type: Option<TypeProto>,
    }

    /// A kind of type whose details the importer does not read.
    #[derive(Clone, Copy, PartialEq, Message)]
    pub struct Unread {}
}

/// A shape.
#[derive(Clone, PartialEq, Message)]
pub struct TensorShapeProto {
    /// The extents.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<Dimension>,
}

/// An extent: a number, a name, or nothing known.
#[derive(Clone, PartialEq, Message)]
pub struct Dimension {
    /// Which.
    #[prost(oneof = "dimension::Value", tags = "1, 2")]
    pub value: Option<dimension::Value>,
}

/// The kinds of [`Dimension`].
pub mod dimension {
    use super::Oneof;

    /// A number or a name.
    #[derive(Clone, PartialEq, Oneof)]
    pub enum Value {
        /// A number.
        #[prost(int64, tag = "1")]
        DimValue(i64),
        /// A name.
        #[prost(string, tag = "2")]
        DimParam(String),
    }
}
