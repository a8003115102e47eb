//! Tests of strategies: a naive kernel before, the remarks, the trace and the scheduled kernel
//! after. Every case is also run: the scheduled kernel computes the bits of the naive one, and the
//! trace replayed on the naive kernel gives the scheduled one.

use backend::Target;
use eval::{KernelOptions, Order, evaluate_kernel};
use filetest::Command;
use loops::{Kernel, Scope};
use proptest::prelude::*;
use strategies::{Naive, Producer, ProducerKind, Scheduled, StrategyOptions};
use tensor::Tensor;

const COMMANDS: &[(&str, Command)] = &[("strategy", strategy), ("check", check)];

#[test]
fn texts() {
    filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/texts"), COMMANDS);
}

/// `strategy TARGET`: remarks, trace, kernel.
fn strategy(text: &str, arguments: &[&str]) -> Result<String, String> {
    let (_, scheduled) = scheduled(text, arguments)?;
    let remarks: String = scheduled.remarks.iter().map(|remark| format!("// {remark}\n")).collect();
    Ok(format!("{remarks}{}{}", scheduled.trace, scheduled.kernel))
}

/// `check TARGET`: remarks and trace, after the scheduled kernel has been run beside the naive one.
fn check(text: &str, arguments: &[&str]) -> Result<String, String> {
    let (naive, scheduled) = scheduled(text, arguments)?;
    agree(&naive, &scheduled)?;
    let remarks: String = scheduled.remarks.iter().map(|remark| format!("// {remark}\n")).collect();
    Ok(format!("{remarks}{}", scheduled.trace))
}

fn scheduled(text: &str, arguments: &[&str]) -> Result<(Kernel, Scheduled), String> {
    let target = arguments.first().and_then(|name| Target::named(name));
    let target = target.ok_or("the argument is no target")?;
    let kernel = loops::parse(text).map_err(|error| error.to_string())?;
    let naive = naive(kernel.clone());
    let scheduled = strategies::schedule(&naive, &target, &StrategyOptions::default())
        .map_err(|error| error.to_string())?;
    loops::verify_scheduled(&scheduled.kernel).map_err(|error| error.to_string())?;
    Ok((kernel, scheduled))
}

/// A kernel that is all one opaque producer if it is marked so by its name, else nests of maps and
/// sums.
fn naive(kernel: Kernel) -> Naive {
    let kind = match kernel.name.starts_with("opaque") {
        true => ProducerKind::Opaque,
        false => ProducerKind::Pointwise,
    };
    let producers = vec![Producer { buffer: String::new(), kind, nests: Vec::new() }];
    Naive { kernel, producers, once: false }
}

fn agree(naive: &Kernel, scheduled: &Scheduled) -> Result<(), String> {
    let trace =
        schedule::parse_trace(&scheduled.trace.to_string()).map_err(|error| error.to_string())?;
    let replayed = schedule::replay(naive.clone(), &trace).map_err(|error| error.to_string())?;
    if replayed != scheduled.kernel {
        return Err("the trace replays to another kernel".into());
    }
    let expected = outputs(naive)?;
    let found = outputs(&scheduled.kernel)?;
    for (expected, found) in expected.iter().zip(&found) {
        let same = expected.scalars().zip(found.scalars()).all(|(a, b)| a.bits() == b.bits());
        if !same {
            return Err(format!("other bits:\n{}", scheduled.kernel));
        }
    }
    Ok(())
}

/// What the kernel makes of random inputs.
fn outputs(kernel: &Kernel) -> Result<Vec<Tensor>, String> {
    let mut buffers = Vec::new();
    for (position, id) in kernel.parameters.iter().enumerate() {
        let buffer = &kernel.buffers[*id];
        let extents = buffer.shape.iter().map(|extent| extent.as_constant().unwrap_or(1) as usize);
        let count: usize = match &buffer.strides {
            None => extents.product(),
            Some(strides) => {
                let strides = strides.iter().map(|stride| stride.as_constant().unwrap_or(1));
                1 + extents.zip(strides).map(|(e, s)| (e - 1) * s as usize).sum::<usize>()
            }
        };
        buffers.push(match buffer.scope {
            Scope::Parameter(loops::Access::Write) => Tensor::zeros(buffer.dtype, &[count]),
            _ => tensor::random::random(buffer.dtype, &[count], position as u64 + 1),
        });
    }
    let options = KernelOptions { order: Order::Shuffled(7), ..KernelOptions::default() };
    evaluate_kernel(kernel, &mut buffers, &[], options)
        .map_err(|fault| format!("{fault:?}\n{kernel}"))?;
    Ok(buffers)
}

/// Kernels with extents `A`, `B`, `C` and panels of `P`; `Q` panels hold `B` columns.
const KERNELS: [&str; 15] = [
    "kernel @product(%a: read f32[A, C], %b: read f32[Q, C, P], %d: read f32[B],
      %c: write f32[A, B]) {
      %acc: scratch f32[A, B]
      for x0 < A { for y0 < B { %acc[x0, y0] = 0.0 } }
      for x1 < A { for y1 < B { for k < C {
        %acc[x1, y1] += %a[x1, k] * %b[(y1) div P, k, (y1) mod P]
      } } }
      for x < A { for y < B { %c[x, y] = max(%acc[x, y] + %d[y], 0.0) } }
    }",
    "kernel @plain_product(%a: read f32[C, A], %b: read f32[C, B], %c: write f32[A, B]) {
      %acc: scratch f32[A, B]
      for x0 < A { for y0 < B { %acc[x0, y0] = 0.0 } }
      for x1 < A { for y1 < B { for k < C { %acc[x1, y1] += %a[k, x1] * %b[k, y1] } } }
      for x < A { for y < B { %c[x, y] = %acc[x, y] } }
    }",
    "kernel @in_place(%a: read f32[A, C], %b: read f32[C, B], %c: update f32[A, B]) {
      %acc: scratch f32[A, B]
      for x0 < A { for y0 < B { %acc[x0, y0] = 0.0 } }
      for x1 < A { for y1 < B { for k < C { %acc[x1, y1] += %a[x1, k] * %b[k, y1] } } }
      for x < A { for y < B { %c[x, y] = %c[x, y] + %acc[x, y] } }
    }",
    "kernel @convolution(%x: read f32[A + 2, A + 1, C], %w: read f32[Q, C, 3, 2, P],
      %y: write f32[A, A, B]) {
      %acc: scratch f32[A, A, B]
      for x0 < A { for y0 < A { for z0 < B { %acc[x0, y0, z0] = 0.0 } } }
      for x1 < A { for y1 < A { for z1 < B { for k < C { for u < 3 { for v < 2 {
        %acc[x1, y1, z1] += %x[x1 + u, y1 + v, k] * %w[(z1) div P, k, u, v, (z1) mod P]
      } } } } } }
      for x < A { for y < A { for z < B { %y[x, y, z] = %acc[x, y, z] } } }
    }",
    "kernel @depthwise(%x: read f32[2*A + 1, 2*A + 1, B], %w: read f32[3, 3, B],
      %y: write f32[A, A, B]) {
      %acc: scratch f32[A, A, B]
      for x0 < A { for y0 < A { for z0 < B { %acc[x0, y0, z0] = 0.0 } } }
      for x1 < A { for y1 < A { for z1 < B { for u < 3 { for v < 3 {
        %acc[x1, y1, z1] += %x[2*x1 + u, 2*y1 + v, z1] * %w[u, v, z1]
      } } } } }
      for x < A { for y < A { for z < B { %y[x, y, z] = %acc[x, y, z] } } }
    }",
    "kernel @depthwise_of_bytes(%x: read u8[A + 2, A + 2, B], %w: read f32[3, 3, B],
      %y: write f32[A, A, B]) {
      %acc: scratch f32[A, A, B]
      for x0 < A { for y0 < A { for z0 < B { %acc[x0, y0, z0] = 0.0 } } }
      for x1 < A { for y1 < A { for z1 < B { for u < 3 { for v < 3 {
        %acc[x1, y1, z1] += cast<f32>(%x[x1 + u, y1 + v, z1]) * %w[u, v, z1]
      } } } } }
      for x < A { for y < A { for z < B { %y[x, y, z] = %acc[x, y, z] } } }
    }",
    "kernel @steps_of_bytes(%x: read i8[2*A + 3, 2*A + 4, B], %w: read f32[5, 5, B],
      %y: write f32[A, A, B]) {
      %acc: scratch f32[A, A, B]
      for x0 < A { for y0 < A { for z0 < B { %acc[x0, y0, z0] = 0.0 } } }
      for x1 < A { for y1 < A { for z1 < B { for u < 5 { for v < 5 {
        %acc[x1, y1, z1] += cast<f32>(%x[2*x1 + u, 2*y1 + v, z1]) * %w[u, v, z1]
      } } } } }
      for x < A { for y < A { for z < B { %y[x, y, z] = %acc[x, y, z] * 0.5 } } }
    }",
    "kernel @means(%x: read f32[A, C, B], %y: write f32[A, B]) {
      %acc: scratch f32[A, B]
      for x0 < A { for y0 < B { %acc[x0, y0] = 0.0 } }
      for x1 < A { for y1 < B { for k < C { %acc[x1, y1] += %x[x1, k, y1] } } }
      for x < A { for y < B { %y[x, y] = %acc[x, y] * 0.5 } }
    }",
    "kernel @centre(%x: read f32[A, B], %y: write f32[A, B]) {
      %partial: scratch f32[A, 16]
      %sum: scratch f32[A]
      for x0 < A { for l0 < 16 { %partial[x0, l0] = 0.0 } }
      for x1 < A { for k < (B + 15) div 16 { for l1 < 16 {
        if 16*k + l1 < B { %partial[x1, l1] += %x[x1, 16*k + l1] }
      } } }
      for x2 < A { %sum[x2] = fold(sum, %partial[x2]) }
      for x < A { for y < B { %y[x, y] = %x[x, y] - %sum[x] } }
    }",
    "kernel @attention(%q: read f32[A, 2, C], %k: read f32[2, Q, C, P], %v: read f32[B, 2, C],
      %y: write f32[A, 2, C]) {
      %acc: scratch f32[2, A, B]
      %row: scratch f32[2, A, B]
      %partial: scratch f32[2, A, 16]
      %n: scratch f32[2, A]
      %p: scratch f32[2, A, B]
      %out: scratch f32[A, 2, C]
      for h0 < 2 { for x0 < A { for y0 < B { %acc[h0, x0, y0] = 0.0 } } }
      for h1 < 2 { for x1 < A { for y1 < B { for k < C {
        %acc[h1, x1, y1] += %q[x1, h1, k] * %k[h1, (y1) div P, k, (y1) mod P]
      } } } }
      for h2 < 2 { for x2 < A { for y2 < B { %row[h2, x2, y2] = abs(%acc[h2, x2, y2]) } } }
      for h3 < 2 { for x3 < A { for l3 < 16 { %partial[h3, x3, l3] = 0.0 } } }
      for h4 < 2 { for x4 < A { for k4 < (B + 15) div 16 { for l4 < 16 {
        if 16*k4 + l4 < B { %partial[h4, x4, l4] += %row[h4, x4, 16*k4 + l4] }
      } } } }
      for h5 < 2 { for x5 < A { %n[h5, x5] = fold(sum, %partial[h5, x5]) } }
      for h6 < 2 { for x6 < A { for y6 < B {
        %p[h6, x6, y6] = %row[h6, x6, y6] * %n[h6, x6]
      } } }
      for x7 < A { for h7 < 2 { for z7 < C { %out[x7, h7, z7] = 0.0 } } }
      for x8 < A { for h8 < 2 { for z8 < C { for k8 < B {
        %out[x8, h8, z8] += %p[h8, x8, k8] * %v[k8, h8, z8]
      } } } }
      for x < A { for h < 2 { for z < C { %y[x, h, z] = %out[x, h, z] } } }
    }",
    "kernel @columns(%x: read f32[A, B], %y: write f32[A, B]) {
      %top: scratch f32[B]
      %sum: scratch f32[B]
      for y0 < B { %top[y0] = -inf }
      for y1 < B { for k < A { %top[y1] max= %x[k, y1] } }
      for y2 < B { %sum[y2] = 0.0 }
      for y3 < B { for k3 < A { %sum[y3] += %x[k3, y3] - %top[y3] } }
      for x < A { for y < B { %y[x, y] = (%x[x, y] - %top[y]) * %sum[y] } }
    }",
    "kernel @map(%x: read f32[A, B, C], %b: read f32[C], %y: write f32[A, B, C]) {
      for x < A { for y < B { for z < C { %y[x, y, z] = max(%x[x, y, z] * %b[z], 0.0) } } }
    }",
    "kernel @transpose(%x: read f32[A, B, C], %y: write f32[C, A, B]) {
      for x < C { for y < A { for z < B { %y[x, y, z] = %x[y, z, x] } } }
    }",
    "kernel @pad(%x: read f32[A, B, C], %y: write f32[A + 2, B + 3, C]) {
      for x < A + 2 { for y < B + 3 { for z < C {
        %y[x, y, z] = guard(1 <= x, x < A + 1, 2 <= y, y < B + 2 ? %x[x - 1, y - 2, z] : 0.0)
      } } }
    }",
    "kernel @grouped(%a: read f32[A, 12, 4], %b: read f32[4, P], %y: write f32[A, P]) {
      %acc: scratch f32[A, P]
      for i0 < A { for j0 < P { %acc[i0, j0] = 0.0 } }
      for i < A { for j < P { for k < 4 {
        %acc[i, j] += %a[i, (j) div 4, k] * %b[k, j]
      } } }
      for x < A { for z < P { %y[x, z] = max(%acc[x, z], 0.0) } }
    }",
];

fn instance(structure: usize, extents: [i64; 3], panel: i64) -> Kernel {
    let [a, b, c] = extents;
    let values = [("A", a), ("B", b), ("C", c), ("P", panel), ("Q", (b + panel - 1) / panel)];
    with_values(KERNELS[structure], &values)
}

/// A kernel's text with numbers for its capital letters.
fn with_values(kernel: &str, values: &[(&str, i64)]) -> Kernel {
    let mut text = String::new();
    let mut word = String::new();
    for char in kernel.chars().chain([' ']) {
        if char.is_alphanumeric() || char == '_' {
            word.push(char);
            continue;
        }
        match values.iter().find(|(name, _)| *name == word) {
            Some((_, value)) => text += &value.to_string(),
            None => text += &word,
        }
        word.clear();
        text.push(char);
    }
    loops::parse(&text).unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    /// Whatever the extents, a strategy keeps the bits, and its trace replays.
    #[test]
    fn strategies_keep_the_bits(
        structure in 0..KERNELS.len(),
        extents in [1i64..24, 1i64..80, 1i64..12],
        panel in prop::sample::select(vec![8, 16, 32, 48]),
        target in prop::sample::select(vec!["x86-64-v4", "x86-64-v3", "c99"]),
    ) {
        let naive = instance(structure, extents, panel);
        let target = Target::named(target).expect("a row of the table");
        let remarks = keeps_the_bits(&naive, &target)?;
        prop_assert!(!remarks.contains("plain:"), "{remarks}\n{naive}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases() / 4, ..ProptestConfig::default() })]

    /// Whatever is chosen of the sketches' spaces keeps the bits, or is refused; points print and
    /// parse, and lead to the same kernel again.
    #[test]
    fn candidates_keep_the_bits(
        structure in 0..KERNELS.len(),
        extents in [1i64..24, 1i64..80, 1i64..12],
        panel in prop::sample::select(vec![8, 16, 32, 48]),
        target in prop::sample::select(vec!["x86-64-v4", "x86-64-v3", "c99"]),
        drawn in any::<prop::sample::Selector>(),
    ) {
        let naive = instance(structure, extents, panel);
        let target = Target::named(target).expect("a row of the table");
        let all = strategies::candidates(&self::naive(naive.clone()), &target);
        let fits: Vec<_> = all.iter().filter(|candidate| candidate.scheduled.is_ok()).collect();
        let candidate = drawn.select(fits);
        let Ok(scheduled) = &candidate.scheduled else { unreachable!("those that fit") };
        agree(&naive, scheduled).map_err(TestCaseError::fail)?;
        prop_assert!(scheduled.cost.cycles().is_finite() && scheduled.cost.cycles() >= 0.0);
        let point: strategies::Point =
            candidate.point.to_string().parse().map_err(TestCaseError::fail)?;
        prop_assert_eq!(&point, &candidate.point);
        let again = strategies::schedule_at(&self::naive(naive), &target, &point);
        let again = again.map(|again| again.kernel).map_err(TestCaseError::fail)?;
        prop_assert_eq!(&again, &scheduled.kernel);
    }
}

#[test]
fn points_that_name_nothing_are_refused() {
    let naive = naive(instance(0, [8, 32, 4], 16));
    let target = Target::named("x86-64-v4").expect("a row of the table");
    let refused = |text: &str| {
        let point = text.parse().expect("a point");
        strategies::schedule_at(&naive, &target, &point).expect_err("it is refused")
    };
    assert_eq!(refused("tiles"), "no sketch is called `tiles`");
    assert_eq!(refused("tile(row=6)"), "`tile` has no choice `row`");
    assert_eq!(refused("tile(rows=1000, vectors=1)"), "its axes cannot be cut so");
}

/// Schedules a kernel and runs it beside the naive one; what the strategies said.
fn keeps_the_bits(naive: &Kernel, target: &Target) -> Result<String, TestCaseError> {
    let options = StrategyOptions::default();
    let scheduled = strategies::schedule(&self::naive(naive.clone()), target, &options);
    let scheduled = scheduled.map_err(|error| TestCaseError::fail(error.to_string()))?;
    if let Err(errors) = loops::verify_scheduled(&scheduled.kernel) {
        return Err(TestCaseError::fail(errors.to_string()));
    }
    agree(naive, &scheduled).map_err(TestCaseError::fail)?;
    Ok(scheduled.remarks.join("\n"))
}

/// Sums of many terms: of a product, and of windows. `R` rows, `C` columns in panels of `P`, of
/// which there are `Q`, `D` terms a window; and a product whose second operand has fewer axes than
/// the sum; and one that is not packed.
const DEEP: [&str; 4] = [
    "kernel @deep(%a: read f32[R, D], %b: read f32[Q, D, P], %y: write f32[R, C]) {
      %acc: scratch f32[R, C]
      for i0 < R { for j0 < C { %acc[i0, j0] = 0.0 } }
      for i < R { for j < C { for k < D { %acc[i, j] += %a[i, k] * %b[(j) div P, k, (j) mod P] } } }
      for x < R { for z < C { %y[x, z] = max(%acc[x, z], 0.0) } }
    }",
    "kernel @windows(%a: read f32[5, W, D], %b: read f32[Q, 3, 3, D, P], %y: write f32[3, R, C]) {
      %acc: scratch f32[3, R, C]
      for h0 < 3 { for i0 < R { for j0 < C { %acc[h0, i0, j0] = 0.0 } } }
      for h < 3 { for i < R { for j < C { for u < 3 { for v < 3 { for k < D {
        %acc[h, i, j] += %a[h + u, i + v, k] * %b[(j) div P, u, v, k, (j) mod P]
      } } } } } }
      for g < 3 { for x < R { for z < C { %y[g, x, z] = %acc[g, x, z] + 1.0 } } }
    }",
    "kernel @repeated(%a: read f32[R, D, 6], %b: read f32[Q, D, P], %y: write f32[R, C]) {
      %acc: scratch f32[R, C]
      for i0 < R { for j0 < C { %acc[i0, j0] = 0.0 } }
      for i < R { for j < C { for k < D { for l < 6 {
        %acc[i, j] += %a[i, k, l] * %b[(j) div P, k, (j) mod P]
      } } } }
      for x < R { for z < C { %y[x, z] = %acc[x, z] } }
    }",
    "kernel @strips(%a: read f32[R, D], %b: read f32[D, C], %y: write f32[R, C]) {
      %acc: scratch f32[R, C]
      for i0 < R { for j0 < C { %acc[i0, j0] = 0.0 } }
      for i < R { for j < C { for k < D { %acc[i, j] += %a[i, k] * %b[k, j] } } }
      for x < R { for z < C { %y[x, z] = %acc[x, z] } }
    }",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: cases() / 8, ..ProptestConfig::default() })]

    /// Whatever the extents, sums of many terms keep the bits; a cache of 256 kB makes few many.
    #[test]
    fn sums_in_parts_keep_the_bits(
        structure in 0..DEEP.len(),
        rows in 1i64..50,
        columns in 33i64..200,
        terms in prop::sample::select(vec![200, 400, 512, 600, 613, 1024]),
        name in prop::sample::select(vec!["x86-64-v4", "x86-64-v3"]),
    ) {
        let panels = (columns + 31) / 32;
        let values = [
            ("R", rows), ("W", rows + 2), ("C", columns), ("P", 32), ("Q", panels),
            ("D", if structure == 1 { terms / 8 } else { terms }),
        ];
        let naive = with_values(DEEP[structure], &values);
        let row = Target::named(name).expect("a row of the table");
        let mut target = row;
        target.machine.l2.bytes = 256 << 10;
        let remarks = keeps_the_bits(&naive, &target)?;
        let in_parts = remarks.contains("the sum in parts of");
        // Rows of 1024 terms are apart by the sets of a cache, which keeps eight of them.
        let copied = remarks.contains("rows copied");
        let few_sums = rows < 42 || structure > 0 || terms < 400;
        let few = (1..=8).any(|rows| remarks.contains(&format!("tile: {rows} rows ")));
        let apart = structure == 0 && terms == 1024;
        let kept = apart && few;
        prop_assert!(in_parts || copied || kept || few_sums, "{remarks}\n{naive}");
        let strips = structure == 3 && in_parts;
        prop_assert!(!strips || remarks.contains("panels copied"), "{remarks}\n{naive}");
        prop_assert!(!in_parts || !apart || copied != few, "{remarks}\n{naive}");
    }
}

/// Cases of the property test; `STRATEGY_CASES=100000` runs longer.
fn cases() -> u32 {
    std::env::var("STRATEGY_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}
