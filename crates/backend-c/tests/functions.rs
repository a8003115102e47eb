//! Every scalar function that back ends get, for every element type, against the evaluator: the
//! same bits, but for which NaN it is, and which zero `min` and `max` give.

mod common;

use backend_c::COptions;
use common::{build, module_of_kernels, run, same, sources};
use eval::evaluate_kernel;
use loops::{Access, Kernel, Scope};
use tensor::random::Generator;
use tensor::{DType, Scalar, ScalarFunction, Tensor};
use testkit::{Folder, has_c_compiler};

/// Values that are likely to go wrong.
const EDGES: [f64; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    3.0,
    7.0,
    -8.0,
    31.0,
    127.0,
    128.0,
    -129.0,
    255.5,
    65504.0,
    8388609.0,
    2147483648.0,
    -9.3e18,
    1.9e19,
    f64::NAN,
    f64::NEG_INFINITY,
];

/// Every pair of edges, then random bits.
fn operands(dtype: DType, position: usize) -> Vec<Scalar> {
    let mut random = Generator::new(position as u64 + 1);
    let smallest = [1, 1 << (dtype.bits() - 1), u64::MAX, 0x0000_0345_0000_0000];
    let mut edges: Vec<Scalar> =
        EDGES.iter().map(|&value| Scalar::from_f64(dtype, value)).collect();
    edges.extend(smallest.map(|bits| Scalar::from_bits(dtype, bits)));
    let pairs = edges.len() * edges.len();
    let edge = |number: usize| match position {
        0 => edges[number / edges.len()],
        1 => edges[number % edges.len()],
        _ => edges[(number * 7 + 3) % edges.len()],
    };
    let mut values: Vec<Scalar> = (0..pairs).map(edge).collect();
    values.extend((0..400).map(|_| Scalar::from_bits(dtype, random.bits())));
    // Files keep one NaN only of the types that NumPy lacks.
    let one_nan = |value: Scalar| match value.is_nan() {
        true => Scalar::from_f64(dtype, f64::NAN),
        false => value,
    };
    values = values.into_iter().map(one_nan).collect();
    // Numbers of ordinary size, for which most bits of a result matter.
    values.extend((0..400).map(|_| Scalar::from_f64(dtype, random.normal() * 4.0)));
    values
}

/// A kernel that applies every function to operands of a type.
fn kernel(dtype: DType, count: usize) -> Kernel {
    let (mut outputs, mut body) = (String::new(), String::new());
    let mut row = |function: ScalarFunction, types: &[DType], result: DType| {
        let name = format!("{function}_{result}");
        let names = ["%a[i]", "%b[i]", "%c[i]"];
        let arguments = match types {
            [DType::Bool, _, _] if function == ScalarFunction::Select => {
                "lt(%a[i], %b[i]), %b[i], %c[i]".to_owned()
            }
            _ if function == ScalarFunction::Lookup => {
                let words = names.map(|name| format!("cast<u32>({name})"));
                format!("%a[i], {}, not<u32>({})", words.join(", "), words[0])
            }
            _ => names[..types.len()].join(", "),
        };
        outputs.push_str(&format!(", %{name}: write {result}[{count}]"));
        body.push_str(&format!("%{name}[i] = {function}<{result}>({arguments})\n"));
    };
    for function in ScalarFunction::all().filter(|function| function.is_machine()) {
        let types = function.operand_dtypes(dtype);
        if matches!(function, ScalarFunction::Cast | ScalarFunction::Bitcast) {
            for result in DType::all() {
                if function.result_dtype(&types, Some(result)) == Ok(result) {
                    row(function, &types, result);
                }
            }
        } else if let Ok(result) = function.result_dtype(&types, None) {
            row(function, &types, result);
        }
    }
    let inputs: Vec<String> =
        ["a", "b", "c"].iter().map(|name| format!("%{name}: read {dtype}[{count}]")).collect();
    let inputs = inputs.join(", ");
    let text = format!("kernel @{dtype}({inputs}{outputs}) {{\nfor i < {count} {{\n{body}}}\n}}");
    loops::parse(&text).unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

#[test]
fn every_function_of_every_type() {
    if !has_c_compiler() {
        return;
    }
    let dtypes: Vec<DType> = DType::all().filter(|dtype| *dtype != DType::String).collect();
    let count = operands(DType::F32, 0).len();
    let kernels: Vec<Kernel> = dtypes.iter().map(|dtype| kernel(*dtype, count)).collect();
    let mut inputs = Vec::new();
    let mut expected = Vec::new();
    for (kernel, dtype) in kernels.iter().zip(&dtypes) {
        let mut buffers: Vec<Tensor> = (0..3)
            .map(|position| Tensor::from_scalars(*dtype, &[count], &operands(*dtype, position)))
            .collect();
        inputs.extend(buffers.iter().cloned());
        for id in &kernel.parameters[3..] {
            buffers.push(Tensor::zeros(kernel.buffers[*id].dtype, &[count]));
        }
        let quick = eval::KernelOptions { check_loops: false, ..eval::KernelOptions::default() };
        evaluate_kernel(kernel, &mut buffers, &[], quick).unwrap_or_else(|f| panic!("{f:?}"));
        expected.extend(buffers.into_iter().skip(3));
    }
    let (module, interface) = module_of_kernels(&kernels);
    let folder = Folder::new();
    let sources = sources(&module, &interface, COptions::default());
    build(folder.path(), &sources, &[]);
    let found = run(folder.path(), &interface, &inputs);
    let names = kernels.iter().zip(&dtypes).flat_map(|(kernel, dtype)| {
        let outputs = kernel
            .parameters
            .iter()
            .filter(|id| kernel.buffers[**id].scope == Scope::Parameter(Access::Write));
        outputs.map(move |id| (*dtype, kernel.buffers[*id].name.clone()))
    });
    let mut wrong = Vec::new();
    for (((dtype, name), expected), found) in names.zip(&expected).zip(&found) {
        let loose = name.starts_with("min") || name.starts_with("max");
        for number in 0..count {
            let (want, have) = (expected.get_scalar(number), found.get_scalar(number));
            let zeros = loose && want.as_f64() == 0.0 && have.as_f64() == 0.0;
            if !same(want, have) && !zeros {
                let operands: Vec<Scalar> =
                    (0..3).map(|position| operands(dtype, position)[number]).collect();
                wrong.push(format!("{name} of {operands:?}: {have}, not {want}"));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
