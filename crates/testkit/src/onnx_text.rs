//! A text form of small ONNX models, for tests only.
//!
//! ```text
//! ir 8                                        // 8 if left out
//! opset 18                                    // 18 if left out; `opset "ml" 2` for a domain
//! input x: f32[n, 3, ?]                       // `f32?` for an unknown rank
//! input s: sequence f32[2]
//! output z: sequence map string f32[]
//! constant w: f32[2] {1.0, 2.0}
//! y, _ = Conv(x, w, _) {strides = [2, 2], auto_pad = "SAME_UPPER", alpha = 0.5}
//! z = "my.domain" Foo(y) {value = i64[1] {3}, body = {a = Relu(x) output a: f32}, r = @outer}
//! output y: f32[n]
//! function "my.domain" Foo(a) -> (b) {b = Relu(a)}
//! ```
//!
//! `_` is a name left out. `@name` is an attribute of the caller of a function.

use std::io;
use std::path::Path;

use base::text::{Parser, TextError, Token};
use import_onnx::data_type::number_of;
use import_onnx::proto::{
    AttributeProto, DimensionProto, DimensionValue, ElementTypeProto, FunctionProto, GraphProto,
    MapTypeProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
    TensorTypeProto, TypeProto, TypeValue, ValueInfoProto, attribute_type,
};
use tensor::{DType, Tensor};

/// The models in a folder of text tests, whose cases stand apart by lines `// ====` and begin with
/// a model, which ends with the line `// ----`. What does not parse as one is left out.
///
/// # Errors
/// A folder or a file that cannot be read.
pub fn models_in(folder: &Path) -> io::Result<Vec<ModelProto>> {
    let entries: io::Result<Vec<_>> = std::fs::read_dir(folder)?.collect();
    let mut paths: Vec<_> = entries?.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    let mut models = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(path)?;
        for case in text.split("// ====\n") {
            let model = case.split("// ----\n").next().unwrap_or_default();
            models.extend(parse_model(&mut Parser::new(model)));
        }
    }
    Ok(models)
}

type Parsed<T> = Result<T, TextError>;

/// Reads a model up to a word that starts no statement.
///
/// # Errors
/// Text that is not of this form.
pub fn parse_model(parser: &mut Parser<'_>) -> Parsed<ModelProto> {
    let mut model = ModelProto { ir_version: 8, ..Default::default() };
    let mut graph = GraphProto { name: "test".to_owned(), ..Default::default() };
    loop {
        if parser.keyword("ir") {
            model.ir_version = parser.integer()?;
        } else if parser.keyword("opset") {
            let domain = domain(parser)?;
            model.opset_import.push(OperatorSetIdProto { domain, version: parser.integer()? });
        } else if parser.keyword("function") {
            model.functions.push(function(parser)?);
        } else if !statement(parser, &mut graph)? {
            break;
        }
    }
    if model.opset_import.is_empty() {
        model.opset_import.push(OperatorSetIdProto { domain: String::new(), version: 18 });
    }
    model.graph = Some(graph);
    Ok(model)
}

fn domain(parser: &mut Parser<'_>) -> Parsed<String> {
    if matches!(parser.peek(), Token::String(_)) { parser.string() } else { Ok(String::new()) }
}

fn function(parser: &mut Parser<'_>) -> Parsed<FunctionProto> {
    let mut function = FunctionProto { domain: domain(parser)?, ..Default::default() };
    function.name = parser.identifier()?.to_owned();
    function.input = parser.list("(", ",", ")", name)?;
    parser.expect("->")?;
    function.output = parser.list("(", ",", ")", name)?;
    let mut graph = GraphProto::default();
    body(parser, &mut graph)?;
    function.node = graph.node;
    let version = OperatorSetIdProto { domain: String::new(), version: 18 };
    let own = OperatorSetIdProto { domain: function.domain.clone(), version: 1 };
    function.opset_import = vec![version, own];
    Ok(function)
}

fn body(parser: &mut Parser<'_>, graph: &mut GraphProto) -> Parsed<()> {
    parser.expect("{")?;
    while !parser.eat("}") {
        if !statement(parser, graph)? {
            return Err(parser.unexpected("a statement"));
        }
    }
    Ok(())
}

/// Reads one statement; false if there is none.
fn statement(parser: &mut Parser<'_>, graph: &mut GraphProto) -> Parsed<bool> {
    if parser.keyword("input") {
        graph.input.push(value_info(parser)?);
    } else if parser.keyword("output") {
        graph.output.push(value_info(parser)?);
    } else if parser.keyword("constant") {
        let name = parser.identifier()?.to_owned();
        parser.expect(":")?;
        graph.initializer.push(TensorProto { name, ..tensor_proto(&tensor(parser)?) });
    } else if matches!(parser.peek(), Token::Identifier(_)) && !parser.at_keyword("given") {
        graph.node.push(node(parser)?);
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn name(parser: &mut Parser<'_>) -> Parsed<String> {
    let name = parser.identifier()?;
    Ok(if name == "_" { String::new() } else { name.to_owned() })
}

fn node(parser: &mut Parser<'_>) -> Parsed<NodeProto> {
    let mut node = NodeProto::default();
    loop {
        node.output.push(name(parser)?);
        if !parser.eat(",") {
            break;
        }
    }
    parser.expect("=")?;
    node.domain = domain(parser)?;
    node.op_type = parser.identifier()?.to_owned();
    node.input = parser.list("(", ",", ")", name)?;
    if parser.at("{") {
        node.attribute = parser.list("{", ",", "}", attribute)?;
    }
    Ok(node)
}

fn attribute(parser: &mut Parser<'_>) -> Parsed<AttributeProto> {
    let mut result = AttributeProto { name: parser.identifier()?.to_owned(), ..Default::default() };
    parser.expect("=")?;
    let is_float = |token: &Token<'_>| matches!(token, Token::Float(_));
    match parser.peek().clone() {
        Token::Prefixed('@', _) => {
            result.ref_attr_name = parser.prefixed('@')?.to_owned();
        }
        Token::String(_) => {
            result.r#type = attribute_type::STRING;
            result.s = parser.string()?.into();
        }
        Token::Punctuation("{") => {
            result.r#type = attribute_type::GRAPH;
            let mut graph = GraphProto::default();
            body(parser, &mut graph)?;
            result.g = Some(Box::new(graph));
        }
        Token::Punctuation("[") if matches!(parser.peek_at(1), Token::String(_)) => {
            result.r#type = attribute_type::STRINGS;
            let strings = parser.list("[", ",", "]", Parser::string)?;
            result.strings = strings.into_iter().map(Into::into).collect();
        }
        Token::Punctuation("[")
            if is_float(parser.peek_at(1))
                || *parser.peek_at(1) == Token::Punctuation("-") && is_float(parser.peek_at(2)) =>
        {
            result.r#type = attribute_type::FLOATS;
            result.floats = parser.list("[", ",", "]", Parser::float)?;
        }
        Token::Punctuation("[") => {
            result.r#type = attribute_type::INTS;
            result.ints = parser.list("[", ",", "]", Parser::integer)?;
        }
        Token::Identifier(_) => {
            result.r#type = attribute_type::TENSOR;
            result.t = Some(Box::new(tensor_proto(&tensor(parser)?)));
        }
        token if is_float(&token) || is_float(parser.peek_at(1)) => {
            result.r#type = attribute_type::FLOAT;
            result.f = parser.float()?;
        }
        _ => {
            result.r#type = attribute_type::INT;
            result.i = parser.integer()?;
        }
    }
    Ok(result)
}

fn dtype(parser: &mut Parser<'_>) -> Parsed<DType> {
    let name = parser.identifier()?;
    DType::parse(name).ok_or_else(|| parser.error("an element type"))
}

fn value_info(parser: &mut Parser<'_>) -> Parsed<ValueInfoProto> {
    let name = parser.identifier()?.to_owned();
    parser.expect(":")?;
    Ok(ValueInfoProto { r#type: Some(value_type(parser)?), ..ValueInfoProto::untyped(name) })
}

fn value_type(parser: &mut Parser<'_>) -> Parsed<TypeProto> {
    let value = if parser.keyword("sequence") {
        let elem_type = Some(value_type(parser)?);
        TypeValue::Sequence(Box::new(ElementTypeProto { elem_type }))
    } else if parser.keyword("map") {
        let key_type = number_of(dtype(parser)?);
        let value_type = Some(value_type(parser)?);
        TypeValue::Map(Box::new(MapTypeProto { key_type, value_type }))
    } else {
        let elem_type = number_of(dtype(parser)?);
        let shape = match parser.at("[") {
            true => Some(TensorShapeProto { dim: parser.list("[", ",", "]", dimension)? }),
            false => {
                parser.eat("?");
                None
            }
        };
        TypeValue::Tensor(TensorTypeProto { elem_type, shape })
    };
    Ok(TypeProto { value: Some(value) })
}

fn dimension(parser: &mut Parser<'_>) -> Parsed<DimensionProto> {
    let value = match parser.peek().clone() {
        Token::Identifier(name) => {
            parser.next();
            Some(DimensionValue::DimParam(name.to_owned()))
        }
        Token::Punctuation("?") => {
            parser.next();
            None
        }
        _ => Some(DimensionValue::DimValue(parser.integer()?)),
    };
    Ok(DimensionProto { value })
}

/// Reads `f32[2] {1.0, 2.0}`; one element stands for all.
///
/// # Errors
/// Text that is not of this form.
pub fn tensor(parser: &mut Parser<'_>) -> Parsed<Tensor> {
    let dtype = dtype(parser)?;
    let shape = parser.list("[", ",", "]", |parser| Ok(parser.unsigned()? as usize))?;
    if dtype == DType::String {
        let strings = parser.list("{", ",", "}", Parser::string)?;
        if strings.len() != shape.iter().product::<usize>() {
            return Err(parser.error("as many strings as the shape has"));
        }
        return Ok(Tensor::from_strings(&shape, strings));
    }
    if *parser.peek_at(2) == Token::Punctuation("}")
        || *parser.peek_at(3) == Token::Punctuation("}")
    {
        let one = graph::parse_literal(parser, dtype, &[])?;
        return Ok(Tensor::splat(&shape, one.get_scalar(0)));
    }
    graph::parse_literal(parser, dtype, &shape)
}

/// A tensor as the file would hold it.
pub fn tensor_proto(tensor: &Tensor) -> TensorProto {
    import_onnx::tensor_proto("", tensor)
}
