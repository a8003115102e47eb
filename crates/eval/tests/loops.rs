//! The text tests of the kernel evaluator: `// run: run [NAME=v,v,...]... [SYMBOL...]` parses a
//! kernel, fills its parameters (those named with the values given, the others with 0, 1, 2, ...),
//! runs it and prints what it wrote, or the fault. `f64`, `reverse` and `shuffled` among the words
//! are options; other words are the values of shape symbols.

use eval::{EvaluationPrecision, KernelOptions, Order, evaluate_kernel};
use loops::{Access, Kernel, Scope};
use tensor::{DType, Scalar, Tensor};

fn run(text: &str, words: &[&str]) -> Result<String, String> {
    let kernel = loops::parse(text).map_err(|errors| errors.to_string())?;
    let mut options = KernelOptions::default();
    let (mut symbols, mut given) = (Vec::new(), Vec::new());
    for word in words {
        match *word {
            "f64" => options.precision = EvaluationPrecision::F64,
            "reverse" => options.order = Order::Reverse,
            "shuffled" => options.order = Order::Shuffled(7),
            "unchecked" => options.check_loops = false,
            _ => match word.split_once('=') {
                Some(pair) => given.push(pair),
                None => symbols.push(word.parse().map_err(|_| format!("`{word}`?"))?),
            },
        }
    }
    let mut buffers = Vec::new();
    for id in &kernel.parameters {
        buffers.push(parameter(&kernel, *id, &given, &symbols, options.precision)?);
    }
    evaluate_kernel(&kernel, &mut buffers, &symbols, options).map_err(|fault| fault.to_string())?;
    let mut out = String::new();
    for (id, tensor) in kernel.parameters.iter().zip(&buffers) {
        if kernel.buffers[*id].scope != Scope::Parameter(Access::Read) {
            let values: Vec<String> = tensor.scalars().map(|value| value.to_string()).collect();
            out.push_str(&format!("{}: {}\n", kernel.buffer_name(*id), values.join(" ")));
        }
    }
    Ok(out)
}

fn parameter(
    kernel: &Kernel,
    id: loops::BufferId,
    given: &[(&str, &str)],
    symbols: &[i64],
    precision: EvaluationPrecision,
) -> Result<Tensor, String> {
    let buffer = &kernel.buffers[id];
    let dtype = precision.dtype(buffer.dtype);
    let value = |_| symbols.first().copied();
    let extent = |expr: &sym::Expr| expr.evaluate(&value).and_then(|n| usize::try_from(n).ok());
    let shape: Option<Vec<usize>> = buffer.shape.iter().map(extent).collect();
    let shape = shape.ok_or("a shape without value")?;
    if let Some((_, list)) = given.iter().find(|(name, _)| *name == buffer.name) {
        let values: Result<Vec<Scalar>, String> =
            list.split(',').map(|text| Scalar::parse(dtype, text)).collect();
        let values = values?;
        return Ok(Tensor::from_scalars(dtype, &[values.len()], &values));
    }
    let count: usize = shape.iter().product();
    let values: Vec<Scalar> = (0..count)
        .map(|i| {
            Scalar::from_i64(dtype, if dtype == DType::Bool { i as i64 % 2 } else { i as i64 })
        })
        .collect();
    Ok(Tensor::from_scalars(dtype, &shape, &values))
}

#[test]
fn text_tests() {
    filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/loops"), &[("run", run)]);
}
