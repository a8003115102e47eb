//! One execution: whatever the bytes are, no panic, and no diagnostic that blames the compiler.

use std::collections::BTreeMap;

use prost::Message;
use tilewright::{
    DType, Diagnostics, Kind, Limits, Options, Port, PortExtent, TargetChoice, Tensor, Value,
};

/// The limits of an execution: small, so that many fit into a second, and so that all of them are
/// met.
#[must_use]
pub fn limits() -> Limits {
    Limits {
        file_bytes: 1 << 20,
        decoded_bytes: 1 << 25,
        nesting: 8,
        nodes: 2000,
        elements: 1 << 17,
        computed_elements: 1 << 16,
        dimension: 64,
        memory_bytes: 1 << 24,
        ..Limits::default()
    }
}

/// Imports the bytes.
pub fn import(bytes: &[u8]) {
    let limits = limits();
    let bytes = bytes::Bytes::copy_from_slice(bytes);
    _ = import_onnx::inspect_bytes(bytes.clone(), &limits);
    let options = import_onnx::ImportOptions { limits, ..Default::default() };
    match import_onnx::import_bytes(bytes, None, &options) {
        Ok(module) => {
            for (_, function) in module.functions.iter() {
                graph::verify(function).unwrap_or_else(|found| panic!("{found}"));
            }
        }
        Err(found) => judge(&found),
    }
}

/// Compiles the bytes, for one of the targets, and runs the model once on small inputs.
pub fn compile_and_run(bytes: &[u8]) {
    let target = if bytes.len().is_multiple_of(2) { "x86-64-v3" } else { "native" };
    let options = Options {
        target: match target {
            "native" => TargetChoice::Native,
            name => TargetChoice::Named(name.to_owned()),
        },
        threads: Some(1),
        limits: limits(),
        ..Options::default()
    };
    let executable = match tilewright::compile_bytes(bytes.to_vec(), &options) {
        Ok(executable) => executable,
        Err(found) => return judge(&found),
    };
    // How often a loop turns may be data; running it may take any time.
    let model = import_onnx::proto::ModelProto::decode(bytes);
    if model.is_ok_and(|model| has_loop(&model)) {
        return;
    }
    for extent in [2, 1] {
        let inputs: Option<Vec<Value>> = inputs(executable.inputs(), extent);
        let Some(inputs) = inputs else { return };
        if let Err(found) = executable.run_values(&inputs) {
            judge(&found);
        }
    }
}

fn has_loop(model: &import_onnx::proto::ModelProto) -> bool {
    fn within(nodes: &[import_onnx::proto::NodeProto]) -> bool {
        nodes.iter().any(|node| {
            let mut inner =
                node.attribute.iter().flat_map(|found| found.g.iter().chain(&found.graphs));
            node.op_type == "Loop" || inner.any(|graph| within(&graph.node))
        })
    }
    model.graph.iter().any(|graph| within(&graph.node))
        || model.functions.iter().any(|function| within(&function.node))
}

/// Small inputs; free dimensions of one name have one extent. None for what is large or no tensor.
fn inputs(ports: &[Port], extent: usize) -> Option<Vec<Value>> {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let mut values = Vec::new();
    for (number, port) in ports.iter().enumerate() {
        let mut shape = Vec::new();
        for dim in &port.shape {
            shape.push(match dim {
                PortExtent::Fixed(extent) => *extent,
                PortExtent::Symbolic(name) => *names.entry(name).or_insert(extent),
                PortExtent::Any => extent,
            });
        }
        let count = shape.iter().try_fold(1usize, |count, extent| count.checked_mul(*extent))?;
        if count > 1 << 17 {
            return None;
        }
        let tensor = match port.dtype {
            DType::String => Tensor::from_strings(&shape, vec!["a b".to_owned(); count]),
            dtype => tilewright::random(dtype, &shape, number as u64),
        };
        values.push(match &port.kind {
            Kind::Tensor => tensor.into(),
            Kind::Sequence(inner) if **inner == Kind::Tensor => {
                Value::Sequence(vec![tensor.clone().into(), tensor.into()])
            }
            Kind::Optional(inner) if **inner == Kind::Tensor => {
                Value::Optional((extent > 1).then(|| Box::new(tensor.into())))
            }
            _ => return None,
        });
    }
    Some(values)
}

/// A refusal is right; a bug of the compiler is not. Nor is a diagnostic without a remedy.
fn judge(found: &Diagnostics) {
    for diagnostic in found.iter() {
        assert!(!diagnostic.code.starts_with("TW09"), "{found}");
    }
}
