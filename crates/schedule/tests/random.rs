//! Random schedules of random kernels: whatever the checks let through must compute the same bits.
//!
//! A case is a kernel's structure and extents and a list of numbers, which are read as steps on the
//! loops and buffers that the kernel has at that moment. Steps that are refused are skipped. The
//! evaluator also checks that parallel and vector loops are what they claim to be, and that no
//! element is read before it is stored. `SCHEDULE_CASES=100000` runs longer.

use backend::Instruction;
use eval::{EvaluationPrecision, KernelOptions, Order, evaluate_kernel};
use loops::visit::walk;
use loops::{Kernel, Scope, Stmt};
use proptest::prelude::*;
use schedule::{
    CutAt, LocalScope, Schedule, ScheduleStep, Tail, Walk, parse_trace, print_trace, replay,
};
use tensor::Tensor;
use testkit::counted;

/// Kernels with extents `A`, `B`, `C`.
const KERNELS: [&str; 15] = [
    "kernel @contraction(
      %a: read f32[A, C], %b: read f32[C, B], %d: read f32[B], %c: write f32[A, B]
    ) {
      %acc: scratch f32[A, B]
      for i0 < A { for j0 < B { %acc[i0, j0] = 0.0 } }
      for i1 < A { for j1 < B { for k < C { %acc[i1, j1] += %a[i1, k] * %b[k, j1] } } }
      for i < A { for j < B { %c[i, j] = max(%acc[i, j] + %d[j], 0.0) } }
    }",
    "kernel @stencil(%x: read f32[A, B], %y: write f32[A, B]) {
      %t: scratch f32[A, B]
      for p < A { for q < B { %t[p, q] = %x[p, q] * 0.5 } }
      for i < A { for j < B {
        %y[i, j] = guard(1 <= i ? %t[i - 1, j] : 0.0) + guard(j + 1 < B ? %t[i, j + 1] : 1.0)
      } }
    }",
    "kernel @softmax(%x: read f32[A, B], %y: write f32[A, B]) {
      %m: scratch f32[A]
      %e: scratch f32[A, B]
      %s: scratch f32[A]
      for a0 < A { %m[a0] = -inf }
      for a1 < A { for k1 < B { %m[a1] max= %x[a1, k1] } }
      for a2 < A { for k2 < B { %e[a2, k2] = (%x[a2, k2] - %m[a2]) * 0.3 } }
      for a3 < A { %s[a3] = 1.0 }
      for a4 < A { for k4 < B { %s[a4] += %e[a4, k4] } }
      for i < A { for j < B { %y[i, j] = %e[i, j] / %s[i] } }
    }",
    "kernel @partials(%x: read f32[A, B], %y: write f32[A]) {
      %p: scratch f32[A, 4]
      for i0 < A { for p0 < 4 { %p[i0, p0] = 0.0 } }
      for i1 < A { for k < B { %p[i1, (k) mod 4] += %x[i1, k] } }
      for i < A { %y[i] = fold(sum, %p[i]) }
    }",
    "kernel @wavefront(%x: update f32[A, B]) {
      for i < A - 1 { for j < B - 1 { %x[i + 1, j] = %x[i, j + 1] + %x[i, j] } }
    }",
    "kernel @window(%x: read f32[A, 2 * B + 2], %y: write f32[A, B]) {
      %m: scratch f32[A, B]
      for i0 < A { for j0 < B { %m[i0, j0] = -inf } }
      for i1 < A { for j1 < B { for w < 3 { %m[i1, j1] max= %x[i1, 2 * j1 + w] } } }
      for i < A { for j < B { %y[i, j] = %m[i, j] * 2.0 } }
    }",
    "kernel @two(%x: read f32[A], %y: write f32[A], %z: write f32[A, B]) {
      for i < A {
        %y[i] = %x[i] + 1.0
        for j < B { %z[i, j] = %y[i] * %x[A - 1 - i] }
      }
    }",
    "kernel @convolution(
      %x: read f32[A + 2, B + 2, C], %w: read f32[3, 3, C], %y: write f32[A, B]
    ) {
      %acc: scratch f32[A, B]
      for i0 < A { for j0 < B { %acc[i0, j0] = 0.0 } }
      for i1 < A { for j1 < B { for u < 3 { for v < 3 { for k < C {
        %acc[i1, j1] += %x[i1 + u, j1 + v, k] * %w[u, v, k]
      } } } } }
      for i < A { for j < B { %y[i, j] = %acc[i, j] } }
    }",
    "kernel @sums(%x: read i32[A, B], %y: write i32[B], %z: write f32[B]) {
      %s: scratch f32[B]
      for j0 < B { %y[j0] = 0i32 %s[j0] = 1.0 }
      for i < A { for j < B {
        %y[j] += %x[i, j]
        %s[j] *= cast<f32>(%x[i, j])
      } }
      for k < B { %z[k] = %s[k] - cast<f32>(%y[k]) }
    }",
    "kernel @triangle(%x: read f32[A, B], %y: write f32[A, B]) {
      %t: scratch f32[A, B]
      for i0 < A { for j0 < B { %t[i0, j0] = 0.0 } }
      for i1 < A { for k < i1 + 1 { for j1 < B { %t[i1, j1] += %x[k, j1] } } }
      for i < A { for j < B { %y[i, j] = %t[i, j] * 2.0 } }
    }",
    "kernel @transposed(%a: read f32[A, C], %b: read f32[C, B], %c: write f32[A, B, 7]) {
      %acc: scratch f32[A, B]
      for i0 < A { for j0 < B { %acc[i0, j0] = 0.0 } }
      for i1 < A { for j1 < B { for k < C { %acc[i1, j1] += %a[i1, k] * %b[k, j1] } } }
      for i < A { for j < B { %c[(i) div 7, j, (i) mod 7] = %acc[i, j] } }
    }",
    "kernel @digits(%x: read f32[A, B], %y: write f32[A + B, 2, 3], %z: write f32[A * B, C]) {
      for i < A { for j < B {
        %y[(i + j) div 6, ((i + j) div 3) mod 2, (i + j) mod 3] = %x[i, j]
        %z[(B * i + j) div C, (B * i + j) mod C] = %x[i, j] + 1.0
      } }
    }",
    "kernel @pairs(%a: read i16[A, 2 * C], %b: read i16[C, B, 2], %c: update i32[A, B]) {
      for i < A { for k < C { for j < B { for e < 2 {
        %c[i, j] += cast<i32>(%a[i, 2 * k + 1 - e]) * cast<i32>(%b[k, j, 1 - e])
      } } } }
    }",
    "kernel @quads(%a: read i8[C, A, 4], %b: read u8[C, B, 4], %c: write i32[A, B]) {
      %acc: scratch i32[A, B]
      for i0 < A { for j0 < B { %acc[i0, j0] = 0i32 } }
      for i1 < A { for k < C { for j1 < B { for e < 4 {
        %acc[i1, j1] += cast<i32>(%a[k, i1, e]) * cast<i32>(%b[k, j1, e])
      } } } }
      for i < A { for j < B { %c[i, j] = %acc[i, j] } }
    }",
    "kernel @carried(%x: update f32[A + 1, C]) {
      for i < A { %x[(i + 1) div C, (i + 1) mod C] = %x[(i) div C, (i) mod C] + 1.0 }
    }",
];

fn kernel(structure: usize, extents: [usize; 3]) -> Kernel {
    let mut text = KERNELS[structure].to_owned();
    for (name, extent) in ["A", "B", "C"].iter().zip(extents) {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let mut replaced = String::new();
        for (position, part) in text.split(name).enumerate() {
            // Only where the letter stands alone.
            let alone = !replaced.ends_with(is_word) && !part.starts_with(is_word);
            if position > 0 {
                replaced.push_str(&if alone { extent.to_string() } else { (*name).to_owned() });
            }
            replaced.push_str(part);
        }
        text = replaced;
    }
    loops::parse(&text).unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

/// What the kernel makes of random inputs.
fn outputs(kernel: &Kernel, order: Order) -> Vec<Tensor> {
    let mut buffers = Vec::new();
    for (position, id) in kernel.parameters.iter().enumerate() {
        let buffer = &kernel.buffers[*id];
        let shape: Vec<usize> =
            buffer.shape.iter().map(|extent| extent.as_constant().unwrap() as usize).collect();
        let count = shape.iter().product();
        buffers.push(match buffer.scope {
            Scope::Parameter(loops::Access::Write) => Tensor::zeros(buffer.dtype, &[count]),
            _ => tensor::random::random(buffer.dtype, &[count], position as u64 + 1),
        });
    }
    let options =
        KernelOptions { precision: EvaluationPrecision::Declared, order, check_loops: true };
    if let Err(fault) = evaluate_kernel(kernel, &mut buffers, &[], options) {
        panic!("{fault:?}\n{kernel}");
    }
    buffers
}

/// Reads four numbers as a step on something that the kernel has.
fn step(kernel: &Kernel, serial: usize, choice: &[u16; 4]) -> ScheduleStep {
    let mut loops: Vec<String> = Vec::new();
    walk(&kernel.body, &mut |stmt| {
        if let Stmt::For(inner) = stmt {
            loops.push(kernel.symbols[inner.variable].name.clone());
        }
    });
    let buffers: Vec<String> = kernel.buffers.values().map(|b| b.name.clone()).collect();
    let pick = |names: &[String], choice: u16| match names.len() {
        0 => "none".to_owned(),
        count => names[choice as usize % count].clone(),
    };
    let [kind, a, b, c] = *choice;
    let target = pick(&loops, a);
    let after = |steps: u16| pick(&loops, a.wrapping_add(steps));
    let buffer = pick(&buffers, b);
    let scope = if c % 2 == 0 { LocalScope::Scratch } else { LocalScope::Register };
    let fresh = |stem: &str| format!("{stem}{serial}");
    match kind % 21 {
        0..=3 => ScheduleStep::Split {
            target,
            factor: [2, 3, 4, 5, 8][b as usize % 5],
            outer: fresh("o"),
            inner: fresh("n"),
            tail: [Tail::Exact, Tail::Guard, Tail::Shift][c as usize % 3],
        },
        4 | 5 => ScheduleStep::Reorder { order: vec![after(1), target] },
        6 => ScheduleStep::Reorder { order: vec![after(2), target, after(1)] },
        7 => ScheduleStep::Fuse { outer: target, inner: after(1), into: fresh("f") },
        8 | 9 => ScheduleStep::ComputeAt { buffer, target },
        10 => ScheduleStep::Fission { target, at: 1 + c as usize % 2, into: fresh("r") },
        11 => ScheduleStep::Merge { first: target, second: pick(&loops, b) },
        12 => {
            ScheduleStep::StageRead { buffer, target, into: fresh("s"), scope, order: Vec::new() }
        }
        13 => ScheduleStep::StageWrite { buffer, target, into: fresh("s"), scope },
        14 => match c % 4 {
            0 => ScheduleStep::Inline { buffer },
            1 => ScheduleStep::Flatten { buffer, axis: c as usize / 3 % 2 },
            2 => ScheduleStep::SetScope { buffer, scope },
            _ => {
                let bytes = 64 * u32::from(b);
                let walk = (b % 3 == 0).then(|| Walk { along: vec![pick(&loops, b)], bytes });
                let shared = if b % 2 == 0 { vec![target] } else { Vec::new() };
                ScheduleStep::Prefetch { buffer, bytes, walk, shared }
            }
        },
        15 => ScheduleStep::Vectorise { target },
        16 => ScheduleStep::Parallelise { target: pick(&loops, 0) },
        17 => match (c % 4, i64::from(b % 5)) {
            (0, _) => ScheduleStep::Cut { target, at: CutAt::Tail, into: fresh("k") },
            (1, at) => ScheduleStep::Case { target, at },
            (_, at) => ScheduleStep::Cut { target, at: CutAt::Turn(at), into: fresh("k") },
        },
        18 => match c % 4 {
            0 | 1 => ScheduleStep::Unroll { target },
            2 => ScheduleStep::Hoist,
            _ => ScheduleStep::Simplify,
        },
        19 => match c % 2 {
            0 => ScheduleStep::Privatise { buffer, target },
            _ => ScheduleStep::Shrink { buffer, target },
        },
        _ => {
            let rows = Instruction::all();
            let instruction = rows[c as usize % rows.len()].name().to_owned();
            ScheduleStep::Tensorise { target, instruction }
        }
    }
}

/// Applies the steps that are legal; every one must keep the bits.
fn check(structure: usize, extents: [usize; 3], choices: &[[u16; 4]]) -> usize {
    let first = kernel(structure, extents);
    let expected = outputs(&first, Order::Forward);
    let mut schedule = Schedule::new(first.clone());
    for (serial, choice) in choices.iter().enumerate() {
        let step = step(schedule.kernel(), serial, choice);
        let before = schedule.kernel().clone();
        if schedule.apply(step.clone()).is_err() {
            continue;
        }
        let kernel = schedule.kernel();
        for order in [Order::Forward, Order::Shuffled(serial as u64)] {
            let found = outputs(kernel, order);
            assert!(found == expected, "`{step}` changed the result of\n{before}\nto\n{kernel}");
        }
    }
    let trace = parse_trace(&print_trace(schedule.trace())).unwrap();
    assert_eq!(trace, schedule.trace());
    assert_eq!(&replay(first, &trace).unwrap(), schedule.kernel());
    schedule.trace().len()
}

fn cases() -> u32 {
    std::env::var("SCHEDULE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(150)
}

/// Of random lists of steps so many have one that is legal.
const LEAST_SHARE: f64 = 0.8;

#[test]
fn steps_keep_the_bits() {
    let extents = [2usize..12, 2usize..12, 1usize..6];
    let choices = prop::collection::vec(any::<[u16; 4]>(), 1..40);
    let cases = ProptestConfig { cases: cases(), ..ProptestConfig::default() };
    counted(
        cases,
        LEAST_SHARE,
        (0..KERNELS.len(), extents, choices),
        |(structure, extents, choices)| Ok(check(structure, extents, &choices) > 0),
    );
}

/// Steps that lead up to an instruction are drawn too rarely to rely on.
#[test]
fn instructions_keep_the_bits() {
    for (structure, lanes, instruction) in [(12, "j", "dot_i16_2"), (13, "j1", "dot_u8_i8_4")] {
        for extents in [[2, 5, 3], [4, 16, 1], [1, 33, 2]] {
            let first = kernel(structure, extents);
            let expected = outputs(&first, Order::Forward);
            let mut schedule = Schedule::new(first);
            schedule.unroll("e").unwrap();
            schedule.vectorise(lanes).unwrap();
            schedule.tensorise("e", instruction).unwrap();
            for order in [Order::Forward, Order::Shuffled(7)] {
                assert!(outputs(schedule.kernel(), order) == expected, "{}", schedule.kernel());
            }
        }
    }
}
