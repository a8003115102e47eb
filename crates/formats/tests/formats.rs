//! Tests of format choice: texts with a function before, the remarks and the function after; random
//! contractions and random functions, of which every bit stays, unless products are in bf16.

use std::cell::Cell;
use std::collections::BTreeMap;

use backend::Target;
use base::Id;
use eval::EvaluationPrecision;
use filetest::Command;
use formats::{Activations, FormatOptions, Weigh, Winograd, integers};
use graph::{Function, TensorType};
use proptest::prelude::*;
use tensor::{DType, Tensor};
use testkit::{GraphOptions, graph_samples};

const COMMANDS: &[(&str, Command)] =
    &[("formats", choose), ("tables", tables), ("long_sums", long_sums)];

#[test]
fn texts() {
    filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/texts"), COMMANDS);
}

/// `formats TARGET [winograd|predicted] [bf16] [integers] [layouts=K]`: never minimal filtering,
/// wherever possible, or where it should be faster; products in bf16; products of 8 bits as
/// integers; of the layouts that are tried that with this number should be the fastest.
fn choose(text: &str, arguments: &[&str]) -> Result<String, String> {
    let target = arguments.first().and_then(|name| Target::named(name));
    let target = target.ok_or("the argument is no target")?;
    let function = graph::parse(text).map_err(|error| error.to_string())?;
    let mut remarks = Vec::new();
    let winograd = match arguments {
        [_, "winograd", ..] => Winograd::Always,
        [_, "predicted", ..] => Winograd::WherePredicted,
        _ => Winograd::Never,
    };
    let options = FormatOptions { winograd, ..Default::default() };
    let function = match arguments.contains(&"integers") {
        true => integers(function, &target, &mut remarks).map_err(|error| error.to_string())?,
        false => function,
    };
    let function = match arguments.contains(&"bf16") {
        true => formats::shorten(&function, DType::BF16, &target, &options, &mut remarks)
            .map_err(|error| error.to_string())?,
        false => function,
    };
    let wanted = arguments.iter().find_map(|own| own.strip_prefix("layouts="));
    let wanted: Option<u32> = match wanted {
        Some(number) => Some(number.parse().map_err(|_| "the layout is no number")?),
        None => None,
    };
    let tried = Cell::new(0);
    let weigh = |_: Function| {
        tried.set(tried.get() + 1);
        Some(if Some(tried.get()) == wanted { 0.0 } else { 1e3 })
    };
    let weigh: Option<Weigh<'_>> = wanted.is_some().then_some(&weigh);
    let chosen = formats::choose(function, &target, &options, weigh, &mut remarks)
        .map_err(|error| error.to_string())?;
    graph::verify(&chosen).map_err(|error| error.to_string())?;
    let remarks: String = remarks.iter().map(|remark| format!("// {}\n", remark.message)).collect();
    Ok(match arguments.contains(&"remarks") {
        true => remarks,
        false => format!("{remarks}{chosen}"),
    })
}

/// `tables TARGET`: maps of bytes to bytes as tables, where these take less.
fn tables(text: &str, arguments: &[&str]) -> Result<String, String> {
    let target = arguments.first().and_then(|name| Target::named(name));
    let target = target.ok_or("the argument is no target")?;
    let function = graph::parse(text).map_err(|error| error.to_string())?;
    let mut remarks = Vec::new();
    let found = formats::tables(&function, &target, &mut remarks);
    let found = found.map_err(|error| error.to_string())?.unwrap_or(function);
    graph::verify(&found).map_err(|error| error.to_string())?;
    let remarks: String = remarks.iter().map(|remark| format!("// {}\n", remark.message)).collect();
    Ok(format!("{remarks}{found}"))
}

/// `long_sums`: sums of many terms in two steps.
fn long_sums(text: &str, _: &[&str]) -> Result<String, String> {
    let function = graph::parse(text).map_err(|error| error.to_string())?;
    let mut remarks = Vec::new();
    let found = formats::long_sums(&function, &mut remarks);
    let found = found.map_err(|error| error.to_string())?.unwrap_or(function);
    graph::verify(&found).map_err(|error| error.to_string())?;
    let remarks: String = remarks.iter().map(|remark| format!("// {}\n", remark.message)).collect();
    Ok(format!("{remarks}{found}"))
}

/// Functions with extents `A`, `B`, `C`.
const FUNCTIONS: [&str; 12] = [
    "function @packed { parameter %x: f32[A, B, C] as \"x\" %w: f32[C, D] = weight @c0
      %y: f32[A, B, D] = contract [a0: A, a1: B, a2: D | r0: C]
        %x[a0, a1, r0], %w[r0, a2] accumulate f32
      return %y as \"y\" }",
    "function @runtime { parameter %x: f32[B, C] as \"x\" parameter %w: f32[D, C] as \"w\"
      %y: f32[B, D] = contract [a0: B, a1: D | r0: C] %x[a0, r0], %w[a1, r0] accumulate f32
      return %y as \"y\" }",
    "function @left { parameter %x: f32[C, D] as \"x\" %w: f32[B, C] = weight @c0
      %y: f32[B, D] = contract [a0: B, a1: D | r0: C] %w[a0, r0], %x[r0, a1] accumulate f32
      return %y as \"y\" }",
    "function @network { parameter %x: f32[A, C, 2*B + 1, B + 1] as \"x\"
      %w: f32[D, C, 3, 2] = weight @c0  %v: f32[C, D] = weight @c1  %u: f32[C, 1, 2] = weight @c2
      %y: f32[A, D, B, B] = contract [a0: A, a1: D, a2: B, a3: B | r0: C, r1: 3, r2: 2]
        %x[a0, r0, 2*a2 + r1, a3 + r2], %w[a1, r0, r1, r2] accumulate f32
      %z: f32[A, C, B, B] = contract [a0: A, a1: C, a2: B, a3: B | r0: D]
        %y[a0, r0, a2, a3], %v[a1, r0] accumulate f32
      %q: f32[A, C, B, B - 1] = contract [a0: A, a1: C, a2: B, a3: B - 1 | r0: 2]
        %z[a0, a1, a2, a3 + r0], %u[a1, 0, r0] accumulate f32
      return %q as \"q\" }",
    "function @attention { parameter %q: f32[B, A, C] as \"q\" parameter %k: f32[D, A, C] as \"k\"
      parameter %v: f32[D, A, C] as \"v\"
      %s: f32[A, B, D] = contract [a0: A, a1: B, a2: D | r0: C]
        %q[a1, a0, r0], %k[a2, a0, r0] accumulate f32
      %y: f32[B, A, C] = contract [a0: B, a1: A, a2: C | r0: D]
        %s[a1, a0, r0], %v[r0, a1, a2] accumulate f32
      return %y as \"y\" }",
    "function @in_steps { parameter %x: f32[A, C, B, 2*D] as \"x\" %w: f32[C, 2, 3] = weight @c0
      %f: f32[] = literal {0.5}
      %p: f32[A, C, B + 1, 2*D + 2] = pad low [0, 0, 0, 1] high [0, 0, 1, 1] interior [0, 0, 0, 0]
        %x, %f
      %y: f32[A, C, B, D] = contract [a0: A, a1: C, a2: B, a3: D | r0: 2, r1: 3]
        %p[a0, a1, a2 + r0, 2*a3 + r1], %w[a1, r0, r1] accumulate f32
      return %y as \"y\" }",
    "function @points { parameter %x: f32[A, C, B, D] as \"x\" %w: f32[D, C] = weight @c0
      %y: f32[A, D, B, D] = contract [a0: A, a1: D, a2: B, a3: D | r0: C]
        %x[a0, r0, a2, a3], %w[a1, r0] accumulate f32
      return %y as \"y\" }",
    "function @apart { parameter %x: f32[A, C, 2*B, 2*D + 1] as \"x\" %w: f32[D, C] = weight @c0
      %y: f32[A, D, B, D] = contract [a0: A, a1: D, a2: B, a3: D | r0: C]
        %x[a0, r0, 2*a2, 2*a3 + 1], %w[a1, r0] accumulate f32
      return %y as \"y\" }",
    "function @first { parameter %x: f32[A, C, B + 2, D + 2] as \"x\"
      %w: f32[D, C, 3, 3] = weight @c0
      %y: f32[A, D, B, D] = contract [a0: A, a1: D, a2: B, a3: D | r0: C, r1: 3, r2: 3]
        %x[a0, r0, a2 + r1, a3 + r2], %w[a1, r0, r1, r2] accumulate f32
      return %y as \"y\" }",
    "function @single { parameter %x: f32[A, C, 2*B + 3, 3*D + 2] as \"x\"
      %w: f32[C, 2, 3, 3] = weight @c0  %f: f32[] = literal {0.5}
      %p: f32[A, C, 2*B + 5, 3*D + 3] = pad low [0, 0, 1, 0] high [0, 0, 1, 1]
        interior [0, 0, 0, 0] %x, %f
      %y: f32[A, 2, B, D] = contract [a0: A, a1: 2, a2: B, a3: D | r0: 3, r1: 3, r2: C]
        %p[a0, r2, 2*a2 + 2*r0, 3*a3 + r1], %w[r2, a1, r0, r1] accumulate f32
      return %y as \"y\" }",
    "function @grouped { parameter %x: f32[A, B + 1, D, 8, 2] as \"x\"
      %w: f32[8, 2, 2, 2] = weight @c0
      %y: f32[A, B, D, 8, 2] = contract [a0: A, a1: B, a2: D, a3: 8, a4: 2 | r0: 2, r1: 2]
        %x[a0, a1 + r1, a2, a3, r0], %w[a3, a4, r0, r1] accumulate f32
      return %y as \"y\" }",
    "function @bordered { parameter %x: f32[A, C, B + 2, 26] as \"x\"
      %w: f32[D, C, 3, 3] = weight @c0
      %o: f32[] = literal {0}
      %p: f32[A, C, 3*B + 2, 74] = pad low [0, 0, B, 24] high [0, 0, B, 24] interior [0, 0, 0, 0]
        %x, %o
      %y: f32[A, D, B + 2, 26] = contract [a0: A, a1: D, a2: B + 2, a3: 26 | r0: C, r1: 3, r2: 3]
        %p[a0, r0, a2 + B*r1, a3 + 24*r2], %w[a1, r0, r1, r2] accumulate f32
      return %y as \"y\" }",
];

fn instance(structure: usize, extents: [i64; 4]) -> Function {
    let mut text = FUNCTIONS[structure].to_owned();
    for (name, extent) in ["A", "B", "C", "D"].into_iter().zip(extents) {
        text = text.replace(name, &extent.to_string());
    }
    graph::parse(&text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// Results of a function for random inputs and weights.
fn results(function: &Function, constants: &[Tensor], inputs: &[Tensor]) -> Vec<Tensor> {
    let constant = |id: base::ConstantId| constants[id.index()].clone();
    eval::graph::evaluate(function, &constant, inputs, EvaluationPrecision::Declared)
        .unwrap_or_else(|fault| panic!("{fault:?}\n{function}"))
}

fn random_of(ty: &TensorType, seed: u64) -> Tensor {
    let shape: Vec<usize> =
        ty.shape.iter().map(|extent| extent.as_constant().unwrap_or(1) as usize).collect();
    tensor::random::random(ty.dtype, &shape, seed)
}

fn random_tensor(dtype: DType, shape: &[i64], seed: u64) -> Tensor {
    let shape = shape.iter().map(|&extent| extent.into()).collect();
    random_of(&TensorType { dtype, shape }, seed)
}

/// Checks that a function in which products are taken otherwise, with one remark or none, computes
/// the same numbers but for rounding, whatever formats are chosen for it.
fn keeps_the_numbers(
    function: &Function,
    remarks: usize,
    weights: &[Tensor],
    inputs: &[Tensor],
) -> Result<(), TestCaseError> {
    let mut said = Vec::new();
    let target = Target::table().remove(1);
    let short = integers(function.clone(), &target, &mut said).expect("well typed");
    prop_assert_eq!(said.len(), remarks);
    let numbers = results(function, weights, inputs);
    for (one, other) in numbers.iter().zip(&results(&short, weights, inputs)) {
        let error = tensor::compare(one, other, 0.0, 0.0).relative_l2;
        prop_assert!(error < 5e-6, "{error}");
    }
    keeps_the_bits(&short, weights, inputs);
    Ok(())
}

/// A contraction with random operands: function, constants, inputs.
fn random_instance(structure: usize, extents: [i64; 4]) -> (Function, Vec<Tensor>, Vec<Tensor>) {
    let function = instance(structure, extents);
    let tensors = |ty: &graph::Type, seed| ty.as_tensor().map(|ty| random_of(ty, seed));
    let parameters = function.parameters().iter().zip(1..);
    let inputs: Vec<Tensor> =
        parameters.filter_map(|(value, seed)| tensors(function.ty(*value), seed)).collect();
    let mut constants = Vec::new();
    for id in function.nodes_in_order() {
        if let graph::Op::Weight { result, .. } = &function.nodes[id].op {
            constants.push(random_of(result, constants.len() as u64 + 10));
        }
    }
    (function, constants, inputs)
}

/// Checks that products in bf16 are those of rounded operands, summed in some order, the same for
/// every target of an architecture, and close to what they were.
fn rounds_operands(function: &Function, constants: &[Tensor], inputs: &[Tensor]) {
    let exact = results(function, constants, inputs);
    let options = FormatOptions { winograd: Winograd::Never, ..Default::default() };
    let native = Target::table().remove(0);
    let short = formats::shorten(function, DType::BF16, &native, &options, &mut Vec::new())
        .expect("well typed");
    graph::verify(&short).unwrap_or_else(|error| panic!("{error}\n{short}"));
    let rounded = results(&short, constants, inputs);
    let mut seen: BTreeMap<String, Vec<Tensor>> = BTreeMap::new();
    for target in Target::table() {
        let weigh: Option<Weigh<'_>> = Some(&nonsense);
        let chosen = formats::choose(short.clone(), &target, &options, weigh, &mut Vec::new())
            .unwrap_or_else(|error| panic!("{error}\n{short}"));
        graph::verify(&chosen).unwrap_or_else(|error| panic!("{error}\n{chosen}"));
        let found = results(&chosen, constants, inputs);
        for ((found, rounded), exact) in found.iter().zip(&rounded).zip(&exact) {
            let of = |other| tensor::compare(found, other, 0.0, 0.0).relative_l2;
            assert!(of(rounded) < 1e-2 && of(exact) < 5e-2, "{function}\n{chosen}");
        }
        let first = seen.entry(target.deciding().name).or_insert_with(|| found.clone());
        for (one, two) in first.iter().zip(&found) {
            assert_eq!(one.bytes(), two.bytes(), "{} differs\n{chosen}", target.name);
        }
    }
}

/// Costs that are nonsense, so that any layout may be the cheapest.
fn nonsense(function: Function) -> Option<f64> {
    let text = function.to_string();
    let mixed = text.bytes().fold(7u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    Some(f64::from(mixed))
}

/// Checks that format choice keeps every bit, whatever layouts are thought to be the fastest.
fn keeps_the_bits(function: &Function, constants: &[Tensor], inputs: &[Tensor]) {
    let expected = results(function, constants, inputs);
    for target in Target::table() {
        let options = FormatOptions { winograd: Winograd::Never, ..Default::default() };
        for weigh in [None, Some(&nonsense as Weigh<'_>)] {
            let chosen =
                formats::choose(function.clone(), &target, &options, weigh, &mut Vec::new())
                    .unwrap_or_else(|error| panic!("{error}\n{function}"));
            graph::verify(&chosen).unwrap_or_else(|error| panic!("{error}\n{chosen}"));
            for (one, two) in expected.iter().zip(results(&chosen, constants, inputs)) {
                assert_eq!(one.shape(), two.shape());
                let same = one.dtype() == tensor::DType::String
                    || one.scalars().zip(two.scalars()).all(|(a, b)| a.bits() == b.bits());
                assert!(same, "{function}\n{chosen}");
            }
        }
    }
}

#[test]
fn a_large_weight_stays_behind_its_transpose_and_keeps_the_bits() {
    let text = "function @row {
      parameter %x: f32[1, 256] as \"x\"
      %w: f32[8208, 256] = weight @c0
      %t: f32[256, 8208] = transpose [1, 0] %w
      %y: f32[1, 8208] = contract [a0: 1, a1: 8208 | r0: 256] %x[a0, r0], %t[r0, a1] accumulate f32
      return %y as \"y\" }";
    let function = graph::parse(text).expect("it is well formed");
    let target = Target::named("x86-64-v3").expect("it is a row of the table");
    let options = FormatOptions { winograd: Winograd::Never, ..Default::default() };
    let mut said = Vec::new();
    let chosen = formats::choose(function.clone(), &target, &options, None, &mut said)
        .expect("it is well typed");
    assert!(!chosen.to_string().contains("transpose"), "{chosen}");
    let weights = [random_tensor(DType::F32, &[8208, 256], 1)];
    let inputs = [random_tensor(DType::F32, &[1, 256], 2)];
    let [before, after] = [&function, &chosen].map(|it| results(it, &weights, &inputs));
    assert_eq!(before[0].bytes(), after[0].bytes());
}

/// Maps from bytes to bytes: what stands for a number is what a function makes of it, or of two
/// such numbers, and is quantised again, as often as there are functions. The last bytes and the
/// first function's are results.
fn chain_of_bytes(dtypes: [DType; 2], functions: &[&str], count: i64, zero: i64) -> Function {
    let shape = format!("3, {count}");
    let repeated =
        |name: &str, of: &str| format!("%{name}: f32[{shape}] = broadcast axes [] %{of}\n");
    let mut text = format!(
        "function @chain {{ parameter %x: {}[{shape}] as \"x\"
           %s: f32[] = weight @c0 %t: f32[] = weight @c1 %z: f32[] = literal {{{zero}}}\n",
        dtypes[0]
    );
    text += &(repeated("sb", "s") + &repeated("tb", "t") + &repeated("zb", "z"));
    let number = |name: &str, of: &str| {
        format!(
            "%{name}f: f32[{shape}] = map cast %{of} %{name}d: f32[{shape}] = map sub %{name}f, %zb
             %{name}: f32[{shape}] = map mul %{name}d, %sb\n"
        )
    };
    text += &number("n", "x");
    let mut bytes = "x".to_owned();
    for (at, function) in functions.iter().enumerate() {
        text += &number(&format!("m{at}"), &bytes);
        let operands = match *function {
            "mul" | "max" | "sub" => format!("%n, %m{at}"),
            _ => format!("%m{at}"),
        };
        text += &format!(
            "%a{at}: f32[{shape}] = map {function} {operands}
             %b{at}: f32[{shape}] = map div %a{at}, %tb %c{at}: f32[{shape}] = map round %b{at}
             %e{at}: f32[{shape}] = map add %c{at}, %zb %q{at}: {}[{shape}] = map cast %e{at}\n",
            dtypes[1]
        );
        bytes = format!("q{at}");
    }
    text += &format!("return %q0 as \"first\", %{bytes} as \"last\" }}");
    graph::parse(&text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// A dense layer, or a convolution of 3 x 3 in a frame of zeros, of integers of these types with a
/// zero point each and a scale for each column.
fn quantised(
    windows: bool,
    dtypes: [DType; 2],
    [rows, depth, columns]: [i64; 3],
    [zero, other]: [i64; 2],
) -> Function {
    let [left, right] = dtypes;
    let (data, weight, padded, space, reads) = match windows {
        false => (
            format!("{rows}, {depth}"),
            format!("{depth}, {columns}"),
            format!("{rows}, {depth}"),
            format!("[a0: {rows}, a1: {columns} | r0: {depth}]"),
            "%p[a0, r0], %y[r0, a1]",
        ),
        true => (
            format!("1, {depth}, {rows}, 5"),
            format!("3, 3, {depth}, {columns}"),
            format!("1, {depth}, {}, 7", rows + 2),
            format!("[a0: 1, a1: {columns}, a2: {rows}, a3: 5 | r0: 3, r1: 3, r2: {depth}]"),
            "%p[a0, r2, a2 + r0, a3 + r1], %y[r0, r1, r2, a1]",
        ),
    };
    let (axis, ones, zeros) = match windows {
        false => (1, "0, 0", "0, 0"),
        true => (3, "0, 0, 1, 1", "0, 0, 0, 0"),
    };
    let result = match windows {
        false => format!("{rows}, {columns}"),
        true => format!("1, {columns}, {rows}, 5"),
    };
    let text = format!(
        "function @quantised {{ parameter %q: {left}[{data}] as \"q\"
           %w: {right}[{weight}] = weight @c0
           %s: f32[] = weight @c1 %t: f32[{columns}] = weight @c2
           %z: f32[] = literal {{{zero}}} %o: f32[] = literal {{0}} %e: f32[] = literal {{{other}}}
           %f: f32[{data}] = map cast %q %zb: f32[{data}] = broadcast axes [] %z
           %d: f32[{data}] = map sub %f, %zb %sb: f32[{data}] = broadcast axes [] %s
           %x: f32[{data}] = map mul %d, %sb
           %p: f32[{padded}] = pad low [{ones}] high [{ones}] interior [{zeros}] %x, %o
           %g: f32[{weight}] = map cast %w %tb: f32[{weight}] = broadcast axes [{axis}] %t
           %eb: f32[{weight}] = broadcast axes [] %e %h: f32[{weight}] = map sub %g, %eb
           %y: f32[{weight}] = map mul %h, %tb
           %r: f32[{result}] = contract {space} {reads} accumulate f32
           return %r as \"r\" }}"
    );
    graph::parse(&text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

const OPTIONS: GraphOptions = GraphOptions {
    nodes: 12,
    symbolic: true,
    control_flow: true,
    few_bits: false,
    sizes: false,
    lists: false,
};

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn contractions_keep_their_bits(
        structure in 0..FUNCTIONS.len(),
        extents in [1i64..4, 2i64..7, 1i64..7, 1i64..70],
    ) {
        let (function, constants, inputs) = random_instance(structure, extents);
        keeps_the_bits(&function, &constants, &inputs);
    }

    #[test]
    fn contractions_in_bf16_round_their_operands(
        structure in 0..FUNCTIONS.len(),
        extents in [1i64..4, 2i64..7, 8i64..20, 8i64..40],
    ) {
        let (function, constants, inputs) = random_instance(structure, extents);
        rounds_operands(&function, &constants, &inputs);
    }

    #[test]
    fn products_of_8_bits_are_those_of_integers(
        windows in any::<bool>(),
        signed in [any::<bool>(), any::<bool>()],
        extents in [16i64..24, 16i64..40, 16i64..40],
        zeros in [0i64..128, -64i64..64],
    ) {
        let dtypes = signed.map(|signed| if signed { DType::I8 } else { DType::U8 });
        // Half of the weights have no zero point.
        let zeros = zeros.map(|zero| zero.max(0));
        let function = quantised(windows, dtypes, extents, zeros);
        let tensors = |ty: &graph::Type, seed| ty.as_tensor().map(|ty| random_of(ty, seed));
        let weights = [(0, 1), (1, 2), (2, 3)].map(|(number, seed)| {
            let weight = |id: &graph::NodeId| matches!(&function.nodes[*id].op,
                graph::Op::Weight { constant, .. } if constant.index() == number);
            let id = function.nodes_in_order().into_iter().find(weight).expect("a weight");
            tensors(function.ty(function.nodes[id].results[0]), seed).expect("a tensor")
        });
        let inputs = [tensors(function.ty(function.parameters()[0]), 4).expect("a tensor")];
        let numbers = results(&function, &weights, &inputs);
        let mut first: Option<Vec<Tensor>> = None;
        for target in Target::table() {
            let whole = integers(function.clone(), &target, &mut Vec::new());
            let whole = whole.expect("well typed");
            let text = whole.to_string();
            prop_assert!(text.contains("accumulate i32"), "{whole}");
            let bytes = target.name == "x86-64-v4-bf16" || target.is_microcontroller();
            prop_assert!(text.contains("i16") != bytes, "{}: {whole}", target.name);
            let exact = results(&whole, &weights, &inputs);
            for (numbers, integers) in numbers.iter().zip(&exact) {
                let error = tensor::compare(numbers, integers, 0.0, 0.0).relative_l2;
                prop_assert!(error < 5e-6, "{error}");
            }
            let first = first.get_or_insert_with(|| exact.clone());
            for (one, other) in first.iter().zip(&exact) {
                prop_assert_eq!(one.bytes(), other.bytes(), "{}: {}", target.name, whole);
            }
            keeps_the_bits(&whole, &weights, &inputs);
        }
    }

    /// Windows of one channel: all targets sum the same integers, stored as bytes or not.
    #[test]
    fn windows_of_bytes_are_those_of_integers(
        signed in [any::<bool>(), any::<bool>()],
        (taps, step) in (1i64..8, 1i64..3),
        [extent, channels] in [2i64..9, 1i64..40],
        zero in 0i64..128,
    ) {
        let [data, weight] = signed.map(|signed| if signed { "i8" } else { "u8" });
        let (from, to) = (step * (extent - 1) + taps - 1, step * (extent - 1) + taps);
        let text = format!(
            "function @windows {{ parameter %q: {data}[{channels}, {from}, {from}] as \"q\"
               %w: {weight}[{channels}, {taps}, {taps}] = weight @c0
               %s: f32[] = weight @c1 %t: f32[{channels}] = weight @c2
               %z: f32[] = literal {{{zero}}} %o: f32[] = literal {{0}}
               %f: f32[{channels}, {from}, {from}] = map cast %q
               %zb: f32[{channels}, {from}, {from}] = broadcast axes [] %z
               %d: f32[{channels}, {from}, {from}] = map sub %f, %zb
               %sb: f32[{channels}, {from}, {from}] = broadcast axes [] %s
               %x: f32[{channels}, {from}, {from}] = map mul %d, %sb
               %p: f32[{channels}, {to}, {to}] = pad low [0, 1, 1] high [0, 0, 0]
                 interior [0, 0, 0] %x, %o
               %g: f32[{channels}, {taps}, {taps}] = map cast %w
               %tb: f32[{channels}, {taps}, {taps}] = broadcast axes [0] %t
               %h: f32[{channels}, {taps}, {taps}] = map mul %g, %tb
               %r: f32[{channels}, {extent}, {extent}] = contract
                 [a0: {channels}, a1: {extent}, a2: {extent} | r0: {taps}, r1: {taps}]
                 %p[a0, {step}*a1 + r0, {step}*a2 + r1], %h[a0, r0, r1] accumulate f32
               return %r as \"r\" }}"
        );
        let function = graph::parse(&text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let dtypes = signed.map(|signed| if signed { DType::I8 } else { DType::U8 });
        let weights = [
            random_tensor(dtypes[1], &[channels, taps, taps], 1),
            random_tensor(DType::F32, &[], 2),
            random_tensor(DType::F32, &[channels], 3),
        ];
        let inputs = [random_tensor(dtypes[0], &[channels, from, from], 4)];
        let numbers = results(&function, &weights, &inputs);
        let mut seen: BTreeMap<String, Vec<Tensor>> = BTreeMap::new();
        for target in Target::table() {
            let whole = integers(function.clone(), &target, &mut Vec::new()).expect("well typed");
            let found = results(&whole, &weights, &inputs);
            let error = tensor::compare(&numbers[0], &found[0], 0.0, 0.0).relative_l2;
            prop_assert!(error < 5e-6, "{error}: {whole}");
            let first = seen.entry(target.deciding().name).or_insert_with(|| found.clone());
            prop_assert_eq!(first[0].bytes(), found[0].bytes(), "{}: {}", target.name, whole);
            keeps_the_bits(&whole, &weights, &inputs);
        }
    }

    #[test]
    fn tables_hold_the_bits_of_maps(
        signed in [any::<bool>(), any::<bool>()],
        functions in prop::collection::vec(0usize..9, 1..4),
        count in 350i64..700,
        zero in -20i64..140,
    ) {
        let dtypes = signed.map(|signed| if signed { DType::I8 } else { DType::U8 });
        let names = ["erf", "tanh", "exp", "abs", "neg", "floor", "mul", "max", "sub"];
        let functions: Vec<&str> = functions.into_iter().map(|at| names[at]).collect();
        let function = chain_of_bytes(dtypes, &functions, count, zero);
        let weights = [0.021f32, 0.013].map(|scale| Tensor::from_vec(&[], vec![scale]));
        let inputs = [random_tensor(dtypes[0], &[3, count], 7)];
        let expected = results(&function, &weights, &inputs);
        for target in Target::table() {
            let made = formats::tables(&function, &target, &mut Vec::new()).expect("well typed");
            // Elsewhere few operations may take less than what a table does.
            let always = matches!(target.name.as_str(), "x86-64-v4-bf16" | "c99");
            prop_assert!(made.is_some() || !always, "{}: {}", target.name, function);
            let Some(made) = made else { continue };
            graph::verify(&made).unwrap_or_else(|error| panic!("{error}\n{made}"));
            for (one, other) in expected.iter().zip(&results(&made, &weights, &inputs)) {
                prop_assert_eq!(one.bytes(), other.bytes(), "{}: {}", target.name, made);
            }
        }
    }

    #[test]
    fn weights_of_8_bits_stay_bytes(
        signed in any::<bool>(),
        [rows, depth, columns] in [1i64..24, 1i64..40, 1i64..40],
    ) {
        let (dtype, zero) = if signed { ("i8", 0) } else { ("u8", 128) };
        let text = format!(
            "function @weights {{ parameter %x: f32[{rows}, {depth}] as \"x\"
               %w: {dtype}[{columns}, {depth}] = weight @c0 %t: f32[{columns}] = weight @c1
               %z: f32[] = literal {{{zero}}}
               %f: f32[{columns}, {depth}] = map cast %w
               %zb: f32[{columns}, {depth}] = broadcast axes [] %z
               %d: f32[{columns}, {depth}] = map sub %f, %zb
               %tb: f32[{columns}, {depth}] = broadcast axes [0] %t
               %y: f32[{columns}, {depth}] = map mul %d, %tb
               %r: f32[{rows}, {columns}] = contract [a0: {rows}, a1: {columns} | r0: {depth}]
                 %x[a0, r0], %y[a1, r0] accumulate f32
               return %r as \"r\" }}"
        );
        let function = graph::parse(&text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let dtype = if signed { DType::I8 } else { DType::U8 };
        let weights = [
            random_tensor(dtype, &[columns, depth], 1),
            random_tensor(DType::F32, &[columns], 2),
        ];
        let inputs = [random_tensor(DType::F32, &[rows, depth], 3)];
        keeps_the_numbers(&function, 1, &weights, &inputs)?;
    }

    #[test]
    fn blocks_of_weights_are_read_as_they_are_stored(
        [rows, blocks, columns] in [1i64..7, 1i64..5, 1i64..140],
        bits in prop::sample::select(vec![2u32, 4, 5, 6, 8]),
        [points, turned, signed, rounded, shifted, uneven, parts, near] in any::<[bool; 8]>(),
    ) {
        let (depth, most) = (32 * blocks, (1 << bits) - 1);
        // Integers as they are, or their lowest bits.
        let (dtype, few) = match signed && bits == 8 {
            true => ("i8", "%n: i8[N, K] = map cast %w".to_owned()),
            false => (
                "u8",
                format!("%m: u8[] = literal {{{most}}} %mb: u8[N, K] = broadcast axes [] %m
                         %n: u8[N, K] = map and %w, %mb"),
            ),
        };
        // The numbers, or those of a table at their places, some of which five bits would hold.
        let uneven = uneven && bits == 4 && !points;
        let (words, table) = match near {
            true => (
                [50462976_u32, 201852420, 4261347072, 4109957884],
                "-12, -8, -6, -4, -3, -2, -1, 0, 0, 1, 2, 3, 4, 6, 8, 12",
            ),
            false => (
                [3215825025, 4142587343, 639175937, 1901675829],
                "-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113",
            ),
        };
        let word = |(place, word): (usize, &u32)| {
            format!(
                "%u{place}: u32[] = literal {{{word}}}
                 %ub{place}: u32[N, K] = broadcast axes [] %u{place} "
            )
        };
        let words: String = words.iter().enumerate().map(word).collect();
        let numbers = match uneven {
            true if signed => format!(
                "{words} %k: u8[N, K] = map lookup %n, %ub0, %ub1, %ub2, %ub3
                 %i: i8[N, K] = bitcast %k %f: f32[N, K] = map cast %i"
            ),
            true => format!(
                "%i: i64[N, K] = map cast %n %u: f32[16] = literal {{{table}}}
                 %f: f32[N, K] = gather axes [0] batch 0 position 0 %u, %i"
            ),
            false => "%f: f32[N, K] = map cast %n".to_owned(),
        };
        // A number, or one for each block.
        let zero = match points {
            true => format!(
                "%z: {dtype}[N, B] = weight @c2
                 %zf: f32[N, B] = map cast %z
                 %zr: f32[N, B, 32] = broadcast axes [0, 1] %zf
                 %zb: f32[N, K] = reshape %zr"
            ),
            false => format!(
                "%z: f32[] = literal {{{}}} %zb: f32[N, K] = broadcast axes [] %z",
                if dtype == "i8" { 0 } else { (most + 1) / 2 }
            ),
        };
        // A number a block that is added to all of its weights.
        let shift = match shifted {
            true => format!(
                "%s: f32[N, B] = weight @c{}
                 %sb: f32[N, B, 32] = broadcast axes [0, 1] %s
                 %sr: f32[N, K] = reshape %sb
                 %y: f32[N, K] = map add %p, %sr",
                if points { 3 } else { 2 }
            ),
            false => String::new(),
        };
        // Scales as they are, or a short float for every two blocks times a byte for each.
        let halves = blocks / 2;
        let parts = parts && blocks % 2 == 0;
        let scales = match parts {
            true => format!(
                "%h: f16[N, H] = weight @c1 %hf: f32[N, H] = map cast %h
                 %hr: f32[N, H, 2] = broadcast axes [0, 1] %hf
                 %q: u8[N, H, 2] = weight @c{} %qf: f32[N, H, 2] = map cast %q
                 %hq: f32[N, H, 2] = map mul %hr, %qf %t: f32[N, B] = reshape %hq",
                2 + usize::from(points) + usize::from(shifted)
            ),
            false => "%t: f32[N, B] = weight @c1".to_owned(),
        };
        // As a matrix product has its operand, or its transpose.
        let (moved, read, shape) = match turned {
            true => ("transpose [1, 0]", "r0, a1", "K, N"),
            false => ("transpose [0, 1]", "a1, r0", "N, K"),
        };
        // Data as they are, or in bytes.
        let data = "%xb: f32[M, B, 32] = reshape %x %xa: f32[M, B, 32] = map abs %xb
          %xm: f32[M, B] = reduce max [a0: M, a1: B | r0: 32] %xa[a0, a1, r0]
          %l: f32[] = literal {127} %lb: f32[M, B] = broadcast axes [] %l
          %e: f32[] = literal {1e-37} %eb: f32[M, B] = broadcast axes [] %e
          %xd: f32[M, B] = map div %xm, %lb %xs: f32[M, B] = map max %xd, %eb
          %xr: f32[M, B, 32] = broadcast axes [0, 1] %xs
          %xq: f32[M, B, 32] = map div %xb, %xr %xi: f32[M, B, 32] = map round %xq
          %xc: i8[M, B, 32] = map cast %xi %xf: f32[M, B, 32] = map cast %xc
          %xx: f32[M, B, 32] = map mul %xf, %xr %xy: f32[M, K] = reshape %xx";
        let product = if shifted { "p" } else { "y" };
        let text = |rounded: bool| {
            let (data, x) = if rounded { (data, "xy") } else { ("", "x") };
            let text = format!(
                "function @blocks {{ parameter %x: f32[M, K] as \"x\"
                   %w: {dtype}[N, K] = weight @c0 {scales}
                   {few} {zero}
                   {numbers}
                   %d: f32[N, K] = map sub %f, %zb
                   %tb: f32[N, B, 32] = broadcast axes [0, 1] %t
                   %tr: f32[N, K] = reshape %tb
                   %{product}: f32[N, K] = map mul %d, %tr
                   {shift}
                   %v: f32[{shape}] = {moved} %y
                   {data}
                   %r: f32[M, N] = contract [a0: M, a1: N | r0: K]
                     %{x}[a0, r0], %v[{read}] accumulate f32
                   return %r as \"r\" }}"
            );
            let extent = [
                ("M", rows),
                ("N", columns),
                ("K", depth),
                ("B", blocks),
                ("H", halves),
            ];
            extent.iter().fold(text, |text, (name, extent)| {
                let forms = [("[", ","), (" ", "]"), (" ", ","), (": ", " ")];
                forms
                    .map(|(before, behind)| format!("{before}{name}{behind}"))
                    .iter()
                    .fold(text, |text, from| {
                        text.replace(from, &from.replace(name, &extent.to_string()))
                    })
            })
        };
        let parsed = |text: &str| {
            graph::parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
        };
        let function = parsed(&text(rounded));
        let dtype = if dtype == "i8" { DType::I8 } else { DType::U8 };
        let mut weights = vec![
            random_tensor(dtype, &[columns, depth], 1),
            match parts {
                true => random_tensor(DType::F16, &[columns, halves], 2),
                false => random_tensor(DType::F32, &[columns, blocks], 2),
            },
        ];
        if points {
            weights.push(random_tensor(dtype, &[columns, blocks], 4));
        }
        if shifted {
            weights.push(random_tensor(DType::F32, &[columns, blocks], 5));
        }
        if parts {
            weights.push(random_tensor(DType::U8, &[columns, halves, 2], 6));
        }
        let inputs = [random_tensor(DType::F32, &[rows, depth], 3)];
        let options = FormatOptions { winograd: Winograd::Never, ..Default::default() };
        let wanted = results(&function, &weights, &inputs);
        let mut first: Option<Vec<Tensor>> = None;
        for target in Target::table() {
            let said = &mut Vec::new();
            let chosen = formats::choose(function.clone(), &target, &options, None, said);
            let chosen = chosen.expect("well typed");
            graph::verify(&chosen).unwrap_or_else(|error| panic!("{error}\n{chosen}"));
            let says = |what: &str| said.iter().any(|remark| remark.message.contains(what));
            let few = rows <= 4 || rounded;
            let bytes = target.multiplies_bytes();
            if blocks > 1 && columns > 1 {
                prop_assert_eq!(says("are multiplied by"), bytes, "{:?}", said);
                let four = says("weights of 4 bits are multiplied");
                prop_assert_eq!(four, bytes && bits == 4, "{:?}", said);
                prop_assert_eq!(says("as they are stored"), few && !bytes, "{:?}", said);
            }
            let found = results(&chosen, &weights, &inputs);
            let error = tensor::compare(&wanted[0], &found[0], 0.0, 0.0).relative_l2;
            prop_assert!(error < 5e-6, "{error}: {chosen}");
            if bytes {
                // Asked for, data are rounded to the same bytes.
                let options = FormatOptions { activations: Activations::Int8, ..options.clone() };
                let asked = parsed(&text(false));
                let asked = formats::choose(asked, &target, &options, None, said);
                let asked = results(&asked.expect("well typed"), &weights, &inputs);
                if rounded && blocks > 1 && columns > 1 {
                    prop_assert_eq!(asked[0].bytes(), found[0].bytes(), "{}", chosen);
                }
                continue;
            }
            // Targets that multiply no bytes agree to the bit.
            let first = first.get_or_insert_with(|| found.clone());
            prop_assert_eq!(first[0].bytes(), found[0].bytes(), "{}: {}", target.name, chosen);
        }
    }

    #[test]
    fn random_functions_keep_their_bits(
        sample in graph_samples(OPTIONS)
    ) {
        keeps_the_bits(&sample.function, &sample.constants, &sample.inputs);
    }
}
