//! The messages of `onnx.proto`, as far as the importer reads them.
//!
//! Field numbers are those of the ONNX specification (IR version 14); fields left out (training,
//! device placement, quantisation annotations, what dimensions denote) are skipped by the decoder.
//! Some are read for the sake of a file that is written again with other nodes: descriptions.
//! `bytes` fields are slices of the decoded buffer, so weights of a mapped
//! file are never copied. The decoder itself refuses lengths beyond the buffer, more than 100
//! levels of nesting and strings that are not UTF-8.

use bytes::Bytes;
use tensor::DType;

use crate::data_type::number_of;
use crate::wire::messages;

messages! {
    /// A model file.
    ModelProto {
        1 ir_version: i64, /// Version of the format itself.
        2 producer_name: String, /// The tool that wrote the file.
        3 producer_version: String, /// The version of that tool.
        4 domain: String, /// Whose model it is.
        5 model_version: i64, /// The version of the model.
        6 doc_string: Bytes, /// What it is for.
        7 graph: Option<GraphProto>, /// The model.
        8 opset_import: Vec<OperatorSetIdProto>, /// What the graph uses.
        14 metadata_props: Vec<StringStringEntryProto>, /// What its makers say of it.
        25 functions: Vec<FunctionProto>, /// Operators of its own.
    }

    /// An operator set: a domain (empty for ONNX's own) and a version.
    OperatorSetIdProto {
        1 domain: String, /// The domain.
        2 version: i64, /// The version.
    }

    /// A graph: the model's, or the branch or body of a control-flow operator.
    GraphProto {
        1 node: Vec<NodeProto>, /// The nodes.
        2 name: String, /// The graph's name.
        5 initializer: Vec<TensorProto>, /// Constants, defaults of inputs.
        15 sparse_initializer: Vec<SparseTensorProto>, /// Sparse ones.
        10 doc_string: Bytes, /// What it is for.
        11 input: Vec<ValueInfoProto>, /// The inputs.
        12 output: Vec<ValueInfoProto>, /// The outputs.
        13 value_info: Vec<ValueInfoProto>, /// Types of values in between.
        16 metadata_props: Vec<StringStringEntryProto>, /// What its makers say of it.
    }

    /// An operator with its inputs and outputs.
    NodeProto {
        1 input: Vec<String>, /// Names; empty of one left out.
        2 output: Vec<String>, /// Names; empty of one not wanted.
        3 name: String, /// The node's name; often empty.
        4 op_type: String, /// The operator.
        7 domain: String, /// The operator's domain; empty for ONNX's own.
        8 overload: String, /// Which of several functions of the same name.
        5 attribute: Vec<AttributeProto>, /// The attributes.
        6 doc_string: Bytes, /// What it is for.
        9 metadata_props: Vec<StringStringEntryProto>, /// What its makers say of it.
    }

    /// A function: a composite operator that the model defines.
    FunctionProto {
        1 name: String, /// The operator's name.
        4 input: Vec<String>, /// Names of the inputs.
        5 output: Vec<String>, /// Names of the outputs.
        6 attribute: Vec<String>, /// Names of attributes without a default.
        11 attribute_proto: Vec<AttributeProto>, /// Attributes and defaults.
        7 node: Vec<NodeProto>, /// The nodes.
        9 opset_import: Vec<OperatorSetIdProto>, /// What the nodes use.
        10 domain: String, /// The operator's domain.
        13 overload: String, /// Which of several functions of the same name.
        8 doc_string: Bytes, /// What it is for.
        12 value_info: Vec<ValueInfoProto>, /// Types of values in between.
        14 metadata_props: Vec<StringStringEntryProto>, /// What its makers say of it.
    }

    /// An attribute of a node. [`attribute_type`] says which field holds its value.
    AttributeProto {
        1 name: String, /// The attribute's name.
        21 ref_attr_name: String, /// In a function: the caller's attribute.
        20 r#type: i32, /// One of [`attribute_type`].
        2 f: f32, /// A float.
        3 i: i64, /// An integer.
        4 s: Bytes, /// A string.
        5 t: Option<Box<TensorProto>>, /// A tensor.
        6 g: Option<Box<GraphProto>>, /// A graph.
        14 tp: Option<Box<TypeProto>>, /// A type.
        22 sparse_tensor: Option<Box<SparseTensorProto>>, /// Sparse.
        7 floats: Vec<f32>, /// Floats.
        8 ints: Vec<i64>, /// Integers.
        9 strings: Vec<Bytes>, /// Strings.
        11 graphs: Vec<GraphProto>, /// Graphs.
        13 doc_string: Bytes, /// What it is for.
    }

    /// A tensor. Its elements stand in `raw_data`, in the field of their type, or in another file.
    TensorProto {
        1 dims: Vec<i64>, /// The shape.
        2 data_type: i32, /// The element type; see [`crate::data_type`].
        4 float_data: Vec<f32>, /// Of `float` and of parts of complex.
        5 int32_data: Vec<i32>, /// Integers up to 32 bits; bits of short floats.
        6 string_data: Vec<Bytes>, /// Strings.
        7 int64_data: Vec<i64>, /// Elements of `int64`.
        8 name: String, /// The tensor's name.
        9 raw_data: Option<Bytes>, /// Any type, little-endian.
        10 double_data: Vec<f64>, /// Elements of `double`.
        11 uint64_data: Vec<u64>, /// Elements of `uint32` and `uint64`.
        13 external_data: Vec<StringStringEntryProto>, /// Where they stand.
        14 data_location: i32, /// 1 when the elements stand in another file.
        12 doc_string: Bytes, /// What it is for.
        16 metadata_props: Vec<StringStringEntryProto>, /// What its makers say of it.
    }

    /// A key and a value.
    StringStringEntryProto {
        1 key: String, /// The key.
        2 value: String, /// The value.
    }

    /// A tensor of which only some elements are given; the others are zero.
    SparseTensorProto {
        1 values: Option<TensorProto>, /// What is given; named as the whole.
        2 indices: Option<TensorProto>, /// Where: `[n]` or `[n, rank]`.
        3 dims: Vec<i64>, /// The shape.
    }

    /// A sequence, or an optional value, which is a sequence of at most one: the messages of both
    /// have these fields.
    ListProto {
        1 name: String, /// Its name.
        3 tensors: Vec<TensorProto>, /// Tensors.
        5 sequences: Vec<ListProto>, /// Sequences.
        6 maps: Vec<MapProto>, /// Maps.
        7 optionals: Vec<ListProto>, /// Optional values.
    }

    /// A map: keys of one type, and as many values.
    MapProto {
        1 name: String, /// Its name.
        2 key_type: i32, /// The type of its keys; see [`crate::data_type`].
        3 keys: Vec<i64>, /// Keys that are integers.
        4 string_keys: Vec<Bytes>, /// Keys that are strings.
        5 values: Option<ListProto>, /// A tensor of one element each.
    }

    /// A value's name and type.
    ValueInfoProto {
        1 name: String, /// The name.
        2 r#type: Option<TypeProto>, /// The type.
        3 doc_string: Bytes, /// What it is for.
        4 metadata_props: Vec<StringStringEntryProto>, /// What its makers say of it.
    }

    /// The type of a value.
    TypeProto one TypeValue {
        1 Tensor: TensorTypeProto, /// A dense tensor.
        4 Sequence: Box<ElementTypeProto>, /// A list of values of one type.
        5 Map: Box<MapTypeProto>, /// A dictionary.
        7 Opaque: UnreadTypeProto, /// Anything else.
        8 SparseTensor: UnreadTypeProto, /// A sparse tensor.
        9 Optional: Box<ElementTypeProto>, /// A value or none.
    }

    /// The type of a dense tensor.
    TensorTypeProto {
        1 elem_type: i32, /// The element type; see [`crate::data_type`].
        2 shape: Option<TensorShapeProto>, /// Absent when the rank is unknown.
    }

    /// The type of the values of a sequence or of an optional value.
    ElementTypeProto {
        1 elem_type: Option<TypeProto>, /// The type.
    }

    /// The type of a map.
    MapTypeProto {
        1 key_type: i32, /// The type of its keys; see [`crate::data_type`].
        2 value_type: Option<TypeProto>, /// The type of its values.
    }

    /// A kind of type whose details the importer does not read.
    UnreadTypeProto {}

    /// A shape.
    TensorShapeProto {
        1 dim: Vec<DimensionProto>, /// The extents.
    }

    /// An extent: a number, a name, or nothing known.
    DimensionProto one DimensionValue {
        1 DimValue: i64, /// A number.
        2 DimParam: String, /// A name.
    }
}

impl ModelProto {
    /// The model's graph: what has none is not decoded.
    #[must_use]
    pub fn body(&self) -> &GraphProto {
        let Some(graph) = &self.graph else { unreachable!("a decoded model has a graph") };
        graph
    }

    /// The same, to change.
    pub fn body_mut(&mut self) -> &mut GraphProto {
        self.graph.get_or_insert_default()
    }
}

impl NodeProto {
    /// The attribute of a name.
    #[must_use]
    pub fn attribute_of(&self, name: &str) -> Option<&AttributeProto> {
        self.attribute.iter().find(|attribute| attribute.name == name)
    }

    /// The names that it reads: its inputs, and what the graphs in its attributes see of the graph
    /// around them; each once, sorted.
    #[must_use]
    pub fn reads(&self) -> Vec<&str> {
        crate::order::names_read(self)
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
        ValueInfoProto { name: name.into(), ..ValueInfoProto::default() }
    }

    /// The declaration of a tensor whose extents are numbers.
    #[must_use]
    pub fn of_tensor(name: impl Into<String>, dtype: DType, shape: &[usize]) -> ValueInfoProto {
        let extent = |&extent: &usize| DimensionProto {
            value: Some(DimensionValue::DimValue(extent as i64)),
        };
        let shape = Some(TensorShapeProto { dim: shape.iter().map(extent).collect() });
        let ty = TensorTypeProto { elem_type: number_of(dtype), shape };
        let r#type = Some(TypeProto { value: Some(TypeValue::Tensor(ty)) });
        ValueInfoProto { r#type, ..ValueInfoProto::untyped(name) }
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
