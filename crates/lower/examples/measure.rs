//! Measures contractions from graph to machine code: format choice, a naive kernel, a strategy, the
//! x86-64 back end; GFLOP/s of one thread beside a bare loop of multiply-adds.
//!
//! ```text
//! cargo run --release -p tilewright-lower --example measure -- [OPTION...] CASE...
//! ```
//!
//! A case is `matmul:ROWSxDEPTHxCOLUMNS` (a packed constant), `products:ROWSxDEPTHxCOLUMNS` (both
//! at run time), `conv:CHANNELS,HEIGHT,OUTPUTS,KERNEL,STRIDE`,
//! `depthwise:CHANNELS,HEIGHT,KERNEL,STRIDE`, or the path of a naive kernel's text. Without a case
//! it measures a list of them. Copies that pack run-time operands are not part of a figure; they
//! are kernels of their own.

use std::sync::Arc;
use std::time::Instant;

use backend::{KernelCompiler, Target};
use backend_x64::X64;
use base::{Arena, Id, KernelId};
use graph::{Built, Function, FunctionBuilder, IterationSpace, Op, TensorType, ValueId};
use loops::Kernel;
use runtime::State;
use strategies::{Naive, Producer, ProducerKind};
use sym::{Expr, SymbolId};
use tensor::DType;

const CASES: [&str; 24] = [
    "matmul:1024x1024x1024",
    "products:1024x1024x1024",
    "conv:256,28,256,3,1",
    "conv:64,56,64,3,1",
    "conv:128,28,128,3,1",
    "conv:512,7,512,3,1",
    "conv:512,14,512,3,1",
    "conv:3,224,64,7,2",
    "conv:3,224,64,3,1",
    "conv:3,224,32,3,2",
    "conv:64,56,256,1,1",
    "conv:1024,14,256,1,1",
    "conv:256,14,1024,1,1",
    "conv:2048,7,512,1,1",
    "conv:96,56,24,1,1",
    "conv:320,7,1280,1,1",
    "conv:64,55,16,1,1",
    "matmul:128x768x768",
    "matmul:128x3072x768",
    "matmul:197x768x3072",
    "matmul:1x1024x1000",
    "matmul:1x25088x4096",
    "depthwise:144,56,3,1",
    "depthwise:576,14,3,1",
];

fn main() -> Result<(), String> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let show = arguments.iter().position(|argument| argument == "--show");
    if let Some(position) = show {
        arguments.remove(position);
    }
    let mut name = "x86-64-v4".to_owned();
    if let Some(position) = arguments.iter().position(|argument| argument == "--target") {
        name = arguments.remove(position + 1);
        arguments.remove(position);
    }
    let mut point = None;
    if let Some(position) = arguments.iter().position(|argument| argument == "--point") {
        point = Some(arguments.remove(position + 1).parse::<strategies::Point>()?);
        arguments.remove(position);
    }
    let target = Target::named(&name).ok_or(format!("`{name}` is no target"))?;
    if arguments.is_empty() {
        arguments = CASES.map(str::to_owned).to_vec();
    }
    let peak = peak(&target)?;
    println!("peak {peak:.1} GFLOP/s, a bare loop of multiply-adds, {name}");
    for case in &arguments {
        measure(case, &target, point.as_ref(), show.is_some())?;
    }
    println!("peak {:.1} GFLOP/s afterwards", self::peak(&target)?);
    Ok(())
}

fn measure(
    case: &str,
    target: &Target,
    point: Option<&strategies::Point>,
    show: bool,
) -> Result<(), String> {
    let naive = match case.split_once(':') {
        Some((kind, sizes)) => contraction(kind, sizes, target)?,
        None => {
            let text = std::fs::read_to_string(case).map_err(|error| error.to_string())?;
            loops::parse(&text).map_err(|error| error.to_string())?
        }
    };
    let producers =
        vec![Producer { buffer: String::new(), kind: ProducerKind::Pointwise, nests: Vec::new() }];
    let naive = Naive { kernel: naive, producers, once: false };
    let start = Instant::now();
    let options = strategies::StrategyOptions::default();
    let scheduled = match point {
        Some(point) => strategies::schedule_at(&naive, target, point)?,
        None => strategies::schedule(&naive, target, &options).map_err(|e| e.to_string())?,
    };
    let schedule_time = start.elapsed();
    if show {
        println!("{}{}", scheduled.trace, scheduled.kernel);
    }
    let start = Instant::now();
    let code = X64.compile(&scheduled.kernel, target).map_err(|error| error.to_string())?;
    let compile_time = start.elapsed();
    if show {
        println!("{}", backend_x64::disassemble(&code));
    }
    let seconds = run(&scheduled.kernel, &code)?;
    let roofline = strategies::Roofline::of(&naive.kernel, target);
    println!(
        "{case:26} {:8.1} GFLOP/s {:7.1} GB/s {:9.3} ms  \
         scheduled {:5.2} ms, compiled {:5.2} ms, {:6} bytes  {}",
        roofline.operations / seconds / 1e9,
        roofline.bytes / seconds / 1e9,
        seconds * 1e3,
        schedule_time.as_secs_f64() * 1e3,
        compile_time.as_secs_f64() * 1e3,
        code.code_bytes,
        scheduled.remarks.join("; "),
    );
    Ok(())
}

/// The naive kernel of a contraction after format choice.
fn contraction(kind: &str, sizes: &str, target: &Target) -> Result<Kernel, String> {
    let sizes: Vec<i64> = sizes
        .split([',', 'x'])
        .map(|size| size.parse().map_err(|_| format!("`{size}` is no number")))
        .collect::<Result<_, String>>()?;
    let function = match (kind, &sizes[..]) {
        ("matmul", &[m, k, n]) => matmul(m, k, n, true),
        ("products", &[m, k, n]) => matmul(m, k, n, false),
        ("conv", &[c, h, o, k, s]) => convolution(c, h, o, k, s, false),
        ("depthwise", &[c, h, k, s]) => convolution(c, h, c, k, s, true),
        _ => Err(format!("`{kind}` with {} sizes is no case", sizes.len())),
    }?;
    let options =
        formats::FormatOptions { winograd: formats::Winograd::Never, ..Default::default() };
    let function = formats::choose(function, target, &options, None, &mut Vec::new())
        .map_err(|error| error.to_string())?;
    let id = function
        .nodes_in_order()
        .into_iter()
        .find(|&id| matches!(function.nodes[id].op, Op::Contract { .. }));
    Ok(naive_kernel(&function, id.ok_or("the contraction is gone")?))
}

fn tensor_type(shape: &[i64]) -> TensorType {
    TensorType { dtype: DType::F32, shape: shape.iter().map(|&extent| extent.into()).collect() }
}

fn operand(
    builder: &mut FunctionBuilder,
    name: &str,
    shape: &[i64],
    constant: bool,
) -> Built<ValueId> {
    match constant {
        true => builder.weight(base::ConstantId::new(0), tensor_type(shape)),
        false => Ok(builder.parameter(name, tensor_type(shape).into())),
    }
}

fn matmul(m: i64, k: i64, n: i64, constant: bool) -> Result<Function, String> {
    let mut builder = FunctionBuilder::new("product");
    let a = operand(&mut builder, "a", &[m, k], false)?;
    let b = operand(&mut builder, "b", &[k, n], constant)?;
    let c = builder.matmul(a, b)?;
    Ok(builder.finish(vec![("c".to_owned(), c)]))
}

/// A convolution that keeps the height (over the stride), already padded.
fn convolution(
    c: i64,
    h: i64,
    o: i64,
    k: i64,
    s: i64,
    depthwise: bool,
) -> Result<Function, String> {
    let mut builder = FunctionBuilder::new("convolution");
    let (padded, out) = (h + k - 1, (h - 1) / s + 1);
    let inner = if depthwise { 1 } else { c };
    let x = operand(&mut builder, "x", &[1, c, padded, padded], false)?;
    let w = operand(&mut builder, "w", &[o, inner, k, k], true)?;
    let axis = IterationSpace::axis;
    let channel = if depthwise { axis(1) } else { axis(4) };
    // A window of one has no axis once the graph is optimised.
    let tap = |tap: usize| if k == 1 { Expr::ZERO } else { axis(tap) };
    let window = |spatial: usize, number: usize| axis(spatial) * s + tap(number);
    let space = IterationSpace {
        extents: [1, o, out, out, inner, k, k].map(Expr::from).to_vec(),
        parallel: 4,
        operands: vec![
            vec![axis(0), channel, window(2, 5), window(3, 6)],
            vec![axis(1), axis(4), tap(5), tap(6)],
        ],
    };
    let y = builder.contract(space, x, w, DType::F32, DType::F32)?;
    // Something with a window, so that 1x1 convolutions are channels last as in a network.
    let other = operand(&mut builder, "v", &[1, 3], true)?;
    let space = IterationSpace {
        extents: vec![2.into(), 2.into(), 2.into()],
        parallel: 2,
        operands: vec![
            vec![Expr::ZERO, Expr::ZERO, axis(1) + axis(2), Expr::ZERO],
            vec![Expr::ZERO, axis(2)],
        ],
    };
    let z = builder.contract(space, x, other, DType::F32, DType::F32)?;
    Ok(builder.finish(vec![("y".to_owned(), y), ("z".to_owned(), z)]))
}

/// One nest that clears the sums, one that adds, one that applies a bias and a floor. Axes of
/// extent 1 are left out.
fn naive_kernel(function: &Function, id: graph::NodeId) -> Kernel {
    let node = &function.nodes[id];
    let Op::Contract { space, .. } = &node.op else { unreachable!("found as a contraction") };
    let extents: Vec<i64> =
        space.extents.iter().map(|extent| extent.as_constant().unwrap_or(1)).collect();
    let axes: Vec<usize> = (0..extents.len()).filter(|&axis| extents[axis] > 1).collect();
    let parallel: Vec<usize> = axes.iter().copied().filter(|&axis| axis < space.parallel).collect();
    let names = |prefix: &str, list: &[usize]| -> Vec<String> {
        list.iter().map(|axis| format!("{prefix}{axis}")).collect()
    };
    let nest = |prefix: &str, list: &[usize], body: String| {
        let head: String = list
            .iter()
            .map(|axis| format!("for {prefix}{axis} < {} {{ ", extents[*axis]))
            .collect();
        format!("  {head}{body}{}\n", " }".repeat(list.len()))
    };
    let shape: Vec<String> = parallel.iter().map(|&axis| extents[axis].to_string()).collect();
    let (mut parameters, mut loads) = (Vec::new(), Vec::new());
    for (number, value) in node.operands.iter().enumerate() {
        let ty = function.ty(*value).as_tensor().expect("operands are tensors");
        let (mut operand_shape, mut index) = (Vec::new(), Vec::new());
        for (expr, extent) in space.operands[number].iter().zip(&ty.shape) {
            if extent.is_one() {
                continue;
            }
            operand_shape.push(extent.as_constant().unwrap_or(1).to_string());
            let kept = |symbol: SymbolId| (extents[symbol.index()] == 1).then_some(Expr::ZERO);
            let expr = expr.substitute(&mut { kept });
            index
                .push(expr.display(&|symbol: SymbolId| format!("s{}", symbol.index())).to_string());
        }
        parameters.push(format!("%x{number}: read f32[{}]", operand_shape.join(", ")));
        loads.push(format!("%x{number}[{}]", index.join(", ")));
    }
    let (shape, last) = (shape.join(", "), extents[*parallel.last().unwrap_or(&0)]);
    let sum = |prefix: &str| format!("%acc[{}]", names(prefix, &parallel).join(", "));
    let bias = parallel.last().map_or(String::new(), |axis| format!("w{axis}"));
    let text = format!(
        "kernel @contraction({}, %bias: read f32[{last}], %out: write f32[{shape}]) {{\n  \
         %acc: scratch f32[{shape}]\n{}{}{}}}",
        parameters.join(", "),
        nest("t", &parallel, format!("{} = 0.0", sum("t"))),
        nest("s", &axes, format!("{} += {} * {}", sum("s"), loads[0], loads[1])),
        nest(
            "w",
            &parallel,
            format!(
                "%out[{}] = max({} + %bias[{bias}], 0.0)",
                names("w", &parallel).join(", "),
                sum("w")
            )
        ),
    );
    loops::parse(&text).unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

/// Seconds that one thread takes to run a kernel.
fn run(kernel: &Kernel, code: &backend::MachineCode) -> Result<f64, String> {
    let mut blocks = Vec::new();
    for id in &kernel.parameters {
        let buffer = &kernel.buffers[*id];
        let count = buffer.span_bytes().unwrap_or(0) * 8 / i64::from(buffer.dtype.bits());
        let values: Vec<u8> = (0..count)
            .flat_map(|i| (((i * 7919) % 13) as f32 * 0.125 - 0.7).to_le_bytes())
            .collect();
        let mut block = runtime::Block::zeroed(values.len()).map_err(|e| e.to_string())?;
        block.bytes_mut().copy_from_slice(&values);
        blocks.push(block);
    }
    let id = KernelId::new(0);
    let mut kernels = Arena::new();
    kernels.push(kernel.clone());
    let code = backend_x64::load(&kernels, &[(id, code.clone())]).map_err(|e| e.to_string())?;
    let executable = backend_x64::alone(&kernels, id, Arc::new(code));
    let executable = Arc::new(executable.map_err(|error| error.to_string())?);
    let mut state = State::new(executable, 1).map_err(|error| error.to_string())?;
    let mut best = f64::INFINITY;
    let (begin, on_processor) = (Instant::now(), time_on_processor());
    let mut turns = 0;
    while turns < 3 || (begin.elapsed().as_secs_f64() < 1.0 && turns < 2000) {
        let mut call = state.call();
        for (number, block) in blocks.iter_mut().enumerate() {
            call.output(number, block.bytes_mut()).map_err(|error| error.to_string())?;
        }
        let start = Instant::now();
        call.run().map_err(|error| error.to_string())?;
        best = best.min(start.elapsed().as_secs_f64());
        turns += 1;
    }
    // On a busy machine no long run is undisturbed; the mean time on the processor is then nearer.
    let mean = (time_on_processor() - on_processor) / f64::from(turns);
    Ok(if mean > 0.0 { best.min(mean) } else { best })
}

/// Seconds that this thread has run, so that other processes count little (Linux).
fn time_on_processor() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|field| field.parse::<f64>().ok());
    nanoseconds.unwrap_or(0.0) * 1e-9
}

/// GFLOP/s of independent multiply-adds in registers.
fn peak(target: &Target) -> Result<f64, String> {
    let lanes = target.vector_bytes / 4;
    let text = format!(
        "kernel @peak(%c: write f32[12, {lanes}]) {{
           %acc: register f32[12, {lanes}]
           for r < 12 unroll {{ for c < {lanes} vector {{ %acc[r, c] = 1.0 }} }}
           for k < 1000000 {{
             for r1 < 12 unroll {{ for c1 < {lanes} vector {{ %acc[r1, c1] += 0.5 * 0.25 }} }}
           }}
           for r2 < 12 unroll {{ for c2 < {lanes} vector {{ %c[r2, c2] = %acc[r2, c2] }} }}
         }}"
    );
    let kernel = loops::parse(&text).map_err(|error| error.to_string())?;
    let code = X64.compile(&kernel, target).map_err(|error| error.to_string())?;
    let seconds = run(&kernel, &code)?;
    Ok(12.0 * f64::from(lanes) * 2.0 * 1e6 / seconds / 1e9)
}
