//! The messages of `onnx.proto`, as far as the importer reads them.
//!
//! Field numbers are those of the ONNX specification (IR version 14); fields left out
//! (documentation, training, device placement, quantisation annotations) are skipped by the
//! decoder. `bytes` fields are slices of the decoded buffer, so weights of a mapped file are never
//! copied. The decoder itself refuses lengths beyond the buffer, more than 100 levels of nesting
//! and strings that are not UTF-8.

use bytes::Bytes;

use crate::wire::messages;

messages! {
    /// A model file.
    ModelProto {
        1 ir_version: i64 [int64] /// Version of the format itself.
        2 producer_name: String [string] /// The tool that wrote the file.
        3 producer_version: String [string] /// The version of that tool.
        7 graph: Option<GraphProto> [message, optional] /// The model.
        8 opset_import: Vec<OperatorSetIdProto> [message, repeated] /// What the graph uses.
        25 functions: Vec<FunctionProto> [message, repeated] /// Operators of its own.
    }

    /// An operator set: a domain (empty for ONNX's own) and a version.
    OperatorSetIdProto {
        1 domain: String [string] /// The domain.
        2 version: i64 [int64] /// The version.
    }

    /// A graph: the model's, or the branch or body of a control-flow operator.
    GraphProto {
        1 node: Vec<NodeProto> [message, repeated] /// The nodes.
        2 name: String [string] /// The graph's name.
        5 initializer: Vec<TensorProto> [message, repeated] /// Constants, defaults of inputs.
        15 sparse_initializer: Vec<SparseTensorProto> [message, repeated] /// Sparse ones.
        11 input: Vec<ValueInfoProto> [message, repeated] /// The inputs.
        12 output: Vec<ValueInfoProto> [message, repeated] /// The outputs.
        13 value_info: Vec<ValueInfoProto> [message, repeated] /// Types of values in between.
    }

    /// An operator with its inputs and outputs.
    NodeProto {
        1 input: Vec<String> [string, repeated] /// Names; empty of one left out.
        2 output: Vec<String> [string, repeated] /// Names; empty of one not wanted.
        3 name: String [string] /// The node's name; often empty.
        4 op_type: String [string] /// The operator.
        7 domain: String [string] /// The operator's domain; empty for ONNX's own.
        8 overload: String [string] /// Which of several functions of the same name.
        5 attribute: Vec<AttributeProto> [message, repeated] /// The attributes.
    }

    /// A function: a composite operator that the model defines.
    FunctionProto {
        1 name: String [string] /// The operator's name.
        4 input: Vec<String> [string, repeated] /// Names of the inputs.
        5 output: Vec<String> [string, repeated] /// Names of the outputs.
        6 attribute: Vec<String> [string, repeated] /// Names of attributes without a default.
        11 attribute_proto: Vec<AttributeProto> [message, repeated] /// Attributes and defaults.
        7 node: Vec<NodeProto> [message, repeated] /// The nodes.
        9 opset_import: Vec<OperatorSetIdProto> [message, repeated] /// What the nodes use.
        10 domain: String [string] /// The operator's domain.
        13 overload: String [string] /// Which of several functions of the same name.
    }

    /// An attribute of a node. [`attribute_type`] says which field holds its value.
    AttributeProto {
        1 name: String [string] /// The attribute's name.
        21 ref_attr_name: String [string] /// In a function: the caller's attribute.
        20 r#type: i32 [int32] /// One of [`attribute_type`].
        2 f: f32 [float] /// A float.
        3 i: i64 [int64] /// An integer.
        4 s: Bytes [bytes = "bytes"] /// A string.
        5 t: Option<Box<TensorProto>> [message, optional, boxed] /// A tensor.
        6 g: Option<Box<GraphProto>> [message, optional, boxed] /// A graph.
        14 tp: Option<Box<TypeProto>> [message, optional, boxed] /// A type.
        22 sparse_tensor: Option<Box<SparseTensorProto>> [message, optional, boxed] /// Sparse.
        7 floats: Vec<f32> [float, repeated, packed = "false"] /// Floats.
        8 ints: Vec<i64> [int64, repeated, packed = "false"] /// Integers.
        9 strings: Vec<Bytes> [bytes = "bytes", repeated] /// Strings.
        11 graphs: Vec<GraphProto> [message, repeated] /// Graphs.
    }

    /// A tensor. Its elements stand in `raw_data`, in the field of their type, or in another file.
    TensorProto {
        1 dims: Vec<i64> [int64, repeated, packed = "false"] /// The shape.
        2 data_type: i32 [int32] /// The element type; see [`crate::data_type`].
        4 float_data: Vec<f32> [float, repeated] /// Of `float` and of parts of complex.
        5 int32_data: Vec<i32> [int32, repeated] /// Integers up to 32 bits; bits of short floats.
        6 string_data: Vec<Bytes> [bytes = "bytes", repeated] /// Strings.
        7 int64_data: Vec<i64> [int64, repeated] /// Elements of `int64`.
        8 name: String [string] /// The tensor's name.
        9 raw_data: Option<Bytes> [bytes = "bytes", optional] /// Any type, little-endian.
        10 double_data: Vec<f64> [double, repeated] /// Elements of `double`.
        11 uint64_data: Vec<u64> [uint64, repeated] /// Elements of `uint32` and `uint64`.
        13 external_data: Vec<StringStringEntryProto> [message, repeated] /// Where they stand.
        14 data_location: i32 [int32] /// 1 when the elements stand in another file.
    }

    /// A key and a value.
    StringStringEntryProto {
        1 key: String [string] /// The key.
        2 value: String [string] /// The value.
    }

    /// A tensor of which only some elements are given; the others are zero.
    SparseTensorProto {
        1 values: Option<TensorProto> [message, optional] /// What is given; named as the whole.
        2 indices: Option<TensorProto> [message, optional] /// Where: `[n]` or `[n, rank]`.
        3 dims: Vec<i64> [int64, repeated, packed = "false"] /// The shape.
    }

    /// A sequence, or an optional value, which is a sequence of at most one: the messages of both
    /// have these fields.
    ListProto {
        1 name: String [string] /// Its name.
        3 tensors: Vec<TensorProto> [message, repeated] /// Tensors.
        5 sequences: Vec<ListProto> [message, repeated] /// Sequences.
        7 optionals: Vec<ListProto> [message, repeated] /// Optional values.
    }

    /// A value's name and type.
    ValueInfoProto {
        1 name: String [string] /// The name.
        2 r#type: Option<TypeProto> [message, optional] /// The type.
    }

    /// The type of a value.
    TypeProto one TypeValue {
        1 Tensor: TensorTypeProto [message] /// A dense tensor.
        4 Sequence: Box<ElementTypeProto> [message] /// A list of values of one type.
        5 Map: Box<MapTypeProto> [message] /// A dictionary.
        7 Opaque: UnreadTypeProto [message] /// Anything else.
        8 SparseTensor: UnreadTypeProto [message] /// A sparse tensor.
        9 Optional: Box<ElementTypeProto> [message] /// A value or none.
    }

    /// The type of a dense tensor.
    TensorTypeProto {
        1 elem_type: i32 [int32] /// The element type; see [`crate::data_type`].
        2 shape: Option<TensorShapeProto> [message, optional] /// Absent when the rank is unknown.
    }

    /// The type of the values of a sequence or of an optional value.
    ElementTypeProto {
        1 elem_type: Option<TypeProto> [message, optional] /// The type.
    }

    /// The type of a map.
    MapTypeProto {
        1 key_type: i32 [int32] /// The type of its keys; see [`crate::data_type`].
        2 value_type: Option<TypeProto> [message, optional] /// The type of its values.
    }

    /// A kind of type whose details the importer does not read.
    UnreadTypeProto {}

    /// A shape.
    TensorShapeProto {
        1 dim: Vec<DimensionProto> [message, repeated] /// The extents.
    }

    /// An extent: a number, a name, or nothing known.
    DimensionProto one DimensionValue {
        1 DimValue: i64 [int64] /// A number.
        2 DimParam: String [string] /// A name.
    }
}

impl ModelProto {
    /// The model's graph: what has none is not decoded.
    pub(crate) fn body(&self) -> &GraphProto {
        let Some(graph) = &self.graph else { unreachable!("a decoded model has a graph") };
        graph
    }
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

impl GraphProto {
    /// The graph and all graphs inside of its nodes.
    pub(crate) fn all(&self) -> Vec<&GraphProto> {
        let mut all = vec![self];
        let mut count = 0;
        while let Some(&graph) = all.get(count) {
            all.extend(graph.node.iter().flat_map(NodeProto::inner_graphs));
            count += 1;
        }
        all
    }
}

impl ValueInfoProto {
    /// A name of which no type is declared.
    #[must_use]
    pub fn untyped(name: impl Into<String>) -> ValueInfoProto {
        ValueInfoProto { name: name.into(), r#type: None }
    }
}

/// The kinds of attribute: number, name, and what messages call them.
macro_rules! kinds {
    ($($number:literal $name:ident $text:literal)*) => {
        /// Values of [`AttributeProto::type`](AttributeProto#structfield.type); those of the first
        /// IR versions do not say one.
        pub mod attribute_type {
            $(#[doc = $text] pub const $name: i32 = $number;)*

            /// What messages call a kind.
            pub(crate) fn name(kind: i32) -> &'static str {
                match kind { $($name => $text,)* _ => "of another kind" }
            }
        }
    };
}

kinds! {
    0 UNDEFINED "of a kind that is not said"
    1 FLOAT "a float"
    2 INT "an integer"
    3 STRING "a string"
    4 TENSOR "a tensor"
    5 GRAPH "a graph"
    6 FLOATS "a list of floats"
    7 INTS "a list of integers"
    8 STRINGS "a list of strings"
    10 GRAPHS "a list of graphs"
    11 SPARSE_TENSOR "a sparse tensor"
    13 TYPE_PROTO "a type"
}
