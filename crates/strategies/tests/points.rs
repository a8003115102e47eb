//! Random points of the sketches' spaces, as machine code: what a point is accepted for computes
//! the bits of the naive kernel, in the evaluator, in which turns of parallel loops come in any
//! order, and on the machine. `STRATEGY_CASES=80000` takes 20,000 points; `PROPTEST_RNG_SEED` draws
//! others.

mod support;

use std::sync::Arc;

use backend::Target;
use loops::Kernel;
use runtime::State;
use strategies::{Candidate, Point, Scheduled};
use support::{DEEP, KERNELS, arguments, instance, naive, outputs, with_values};
use tensor::Tensor;
use tensor::random::Generator;

/// Bytes behind each argument that no kernel may change.
const BEHIND: usize = 64;

/// How many points of a kernel are drawn from those that sketches list, and as many have any
/// values.
const POINTS: usize = 8;

#[test]
fn random_points_in_machine_code() {
    let target = Target::named("x86-64-v3").expect("a row of the table");
    let wide = Target::named("x86-64-v4").expect("a row of the table");
    let runs = |target: &Target| target.check_machine(&runtime::cpu::has_feature).is_ok();
    let targets: Vec<Target> = [target, wide].into_iter().filter(runs).collect();
    if targets.is_empty() {
        println!("not run: this machine has none of the targets");
        return;
    }
    let mut random = Generator::new(seed());
    let (mut emitted, mut refused) = (0, 0);
    while emitted < points() {
        let kernel = random_kernel(&mut random);
        let target = &targets[random.below(targets.len() as u64) as usize];
        let expected = outputs(&kernel).expect("the naive kernel runs");
        let naive = naive(kernel.clone());
        let listed = strategies::candidates(&naive, target);
        let pick = |_| listed[random.below(listed.len() as u64) as usize].clone();
        let mut drawn: Vec<Candidate> = (0..POINTS).map(pick).collect();
        drawn.extend((0..POINTS).map(|_| {
            let point = random_point(&kernel, &mut random);
            let scheduled = strategies::schedule_at(&naive, target, &point);
            Candidate { point, scheduled }
        }));
        for Candidate { point, scheduled } in drawn {
            let Ok(scheduled) = scheduled else {
                refused += 1;
                continue;
            };
            emitted += 1;
            if let Err(wrong) = check(&scheduled, &expected, target) {
                panic!("{point} for {}: {wrong}\n{kernel}\n{}", target.name, scheduled.kernel);
            }
        }
    }
    println!("{emitted} points were emitted and run, {refused} refused");
    assert!(emitted * 4 > refused, "{refused} points are refused, {emitted} are not");
}

fn random_kernel(random: &mut Generator) -> Kernel {
    let mut within = |low: i64, high: i64| low + random.below((high - low) as u64) as i64;
    let structure = within(0, KERNELS.len() as i64 + 1) as usize;
    if structure < KERNELS.len() {
        let panel = [8, 16, 32, 48][within(0, 4) as usize];
        return instance(structure, [within(1, 13), within(1, 70), within(1, 10)], panel);
    }
    let structure = within(0, DEEP.len() as i64) as usize;
    let (rows, columns) = (within(1, 10), within(33, 80));
    let terms = [48, 200][within(0, 2) as usize];
    let values = [
        ("R", rows),
        ("W", rows + 2),
        ("C", columns),
        ("P", 32),
        ("Q", (columns + 31) / 32),
        ("D", if structure == 1 { terms / 8 } else { terms }),
    ];
    with_values(DEEP[structure], &values)
}

/// A point of a sketch with choices, which may fit or not.
fn random_point(kernel: &Kernel, random: &mut Generator) -> Point {
    let mut pick = |count: u64| random.below(count);
    if pick(4) == 0 {
        return format!("dots(rows={})", 1 + pick(8)).parse().expect("a point");
    }
    let mut choices = Vec::new();
    if pick(2) == 0 {
        choices.push(format!("way={}", ["whole", "parts", "stream"][pick(3) as usize]));
    }
    let loops = names_of_loops(kernel);
    for along in ["along", "rows_along"] {
        if pick(3) == 0 {
            choices.push(format!("{along}={}", loops[pick(loops.len() as u64) as usize]));
        }
    }
    for (count, most) in [("rows", 14), ("vectors", 6), ("blocks", 6)] {
        if pick(2) == 0 {
            choices.push(format!("{count}={}", 1 + pick(most)));
        }
    }
    let text = match choices.is_empty() {
        true => "tile".to_owned(),
        false => format!("tile({})", choices.join(", ")),
    };
    text.parse().expect("a point")
}

fn names_of_loops(kernel: &Kernel) -> Vec<String> {
    let mut names = Vec::new();
    loops::visit::walk(&kernel.body, &mut |stmt| {
        if let loops::Stmt::For(found) = stmt {
            names.push(kernel.symbols[found.variable].name.clone());
        }
    });
    names
}

/// What is wrong with a scheduled kernel, if something is.
fn check(scheduled: &Scheduled, expected: &[Tensor], target: &Target) -> Result<(), String> {
    let same = |found: &[Tensor]| {
        expected.iter().zip(found).all(|(one, other)| one.bytes() == other.bytes())
    };
    if !same(&outputs(&scheduled.kernel)?) {
        return Err("the evaluator finds other bits".to_owned());
    }
    match same(&on_this_machine(&scheduled.kernel, target)?) {
        true => Ok(()),
        false => Err("the machine finds other bits".to_owned()),
    }
}

/// What the kernel makes of random inputs, by machine code.
fn on_this_machine(kernel: &Kernel, target: &Target) -> Result<Vec<Tensor>, String> {
    let said = |error: base::Diagnostics| error.to_string();
    let program = backend_x64::compile_alone(kernel, target).map_err(said)?;
    let mut state = State::new(Arc::new(program), 1).map_err(said)?;
    let mut tensors = arguments(kernel, 1);
    let with_end = |tensor: &Tensor| [tensor.bytes(), &[0x5a; BEHIND]].concat();
    let mut memory: Vec<Vec<u8>> = tensors.iter().map(with_end).collect();
    let mut call = state.call();
    for (number, bytes) in memory.iter_mut().enumerate() {
        call.output(number, bytes).map_err(said)?;
    }
    call.run().map_err(said)?;
    for (tensor, bytes) in tensors.iter_mut().zip(&memory) {
        let (own, behind) = bytes.split_at(tensor.bytes().len());
        if behind.iter().any(|&byte| byte != 0x5a) {
            return Err("it writes behind an argument".to_owned());
        }
        tensor.bytes_mut().copy_from_slice(own);
    }
    Ok(tensors)
}

fn points() -> usize {
    let cases = std::env::var("STRATEGY_CASES").ok().and_then(|text| text.parse().ok());
    cases.unwrap_or(400) / 4
}

fn seed() -> u64 {
    let given = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or(0)
}
