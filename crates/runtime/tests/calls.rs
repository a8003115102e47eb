//! Calls: what is missing or too small is refused; many callers at the same time; profiles; code.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use base::{ConstantId, Id, KernelId};
use common::{executable, numbers};
use runtime::{LoadedProgram, Profile, ProfileRow, State};

const TEXT: &str = "program @main(i in 0..) arena 8192 {
  %x: 8192 at input 0
  %w: 8 at weight c2
  %c: 8 at constants 0
  %y: 8192 at output 0
  %t: 8192 at arena 0
  run k0(read 8192 at %x, write 8192 at %t) extent 1024
  barrier
  repeat i < 2 {
    run k1(read 8192 at %t, write 8192 at %y) extent 1024 grain 16
  }
  run k0(read 8 at %w, write 8 at %y) extent 1
  run k0(read 8 at %c, write 8 at %y[8]) extent 1
}";

fn load() -> Arc<LoadedProgram> {
    let program = program::parse(TEXT).expect("it parses");
    program::verify(&program).expect("it is well formed");
    executable(&program, &BTreeMap::new()).expect("it loads")
}

#[test]
fn what_reads_many_constants_again_turns_back() {
    let run = |bytes: usize, turns: i64| {
        let text = format!(
            "program @main(i in 0..) arena 0 {{
  %c: {bytes} at constants 0
  %y: 8 at output 0
  repeat i < {turns} {{ run k5(read {bytes} at %c, write 8 at %y) extent 10 }}
}}"
        );
        let program = program::parse(&text).expect("it parses");
        let executable = executable(&program, &BTreeMap::new()).expect("it loads");
        let mut state = State::new(executable, 1).expect("there is memory");
        let (constants, mut latest) = (vec![0; bytes], [0; 8]);
        let mut call = state.call();
        call.constants(&constants).expect("enough");
        call.output(0, &mut latest).expect("enough");
        call.run().expect("no fault");
        i64::from_le_bytes(latest)
    };
    assert_eq!([1, 2, 3, 4].map(|turns| run(1 << 20, turns)), [9, 0, 9, 0]);
    assert_eq!([1, 2, 3, 4].map(|turns| run(1 << 10, turns)), [9; 4]);
}

/// What a call says that gets so many bytes for input, weight, constants and output.
fn refused(sizes: [Option<usize>; 4]) -> String {
    let executable = load();
    let mut state = State::new(executable, 2).expect("there is memory");
    let memory = numbers(5, 8192);
    let mut output = vec![0; 8192];
    let mut run = || -> base::Result<()> {
        let mut call = state.call();
        sizes[0].map_or(Ok(()), |bytes| call.input(0, &memory[..bytes]))?;
        sizes[1].map_or(Ok(()), |bytes| call.weight(ConstantId::new(2), &memory[..bytes]))?;
        sizes[2].map_or(Ok(()), |bytes| call.constants(&memory[..bytes]))?;
        sizes[3].map_or(Ok(()), |bytes| call.output(0, &mut output[..bytes]))?;
        call.run()
    };
    run().map_or_else(|errors| errors.to_string(), |()| "good".to_owned())
}

#[test]
fn all_memory_must_be_given() {
    let (large, small) = (Some(8192), Some(8));
    assert_eq!(refused([large, small, small, large]), "good");
    let missing = |name| format!("error[TW0201]: {name} was not given");
    assert_eq!(refused([None, small, small, large]), missing("input 0"));
    assert_eq!(refused([large, None, small, large]), missing("weight c2"));
    assert_eq!(refused([large, small, None, large]), missing("the block of constants"));
    assert_eq!(refused([large, small, small, None]), missing("output 0"));
    let small_input = refused([Some(8191), small, small, large]);
    assert_eq!(small_input, "error[TW0204]: input 0 has 8191 bytes instead of 8192");
}

#[test]
fn donated_inputs_go_back_when_they_have_been_read() {
    const BYTES: usize = 1 << 20;
    let extent = BYTES / 8;
    let program = |symbols: &str, second: &str| {
        let text = format!(
            "program @main({symbols}) arena 0 {{
  %a: {BYTES} at input 0
  %b: {BYTES} at input 1
  %y: {BYTES} at output 0
  %z: {BYTES} at output 1
  run k0(read {BYTES} at %a, write {BYTES} at %y) extent {extent} grain 64
  barrier
  {second}
}}"
        );
        let program = program::parse(&text).expect("it parses");
        executable(&program, &BTreeMap::new()).expect("it loads")
    };
    let step = format!("run k0(read {BYTES} at %b, write {BYTES} at %z) extent {extent} grain 64");
    let turns = format!("repeat i < 2 {{ {step} }}");
    let (once, turns) = (program("", &step), program("i in 0..", &turns));
    for (executable, loops, threads) in [(&once, false, 1), (&once, false, 2), (&turns, true, 2)] {
        let (mut a, mut b) = (numbers(7, BYTES), numbers(9, BYTES));
        let (mut y, mut z) = (vec![0; BYTES], vec![0; BYTES]);
        let mut state = State::new(executable.clone(), threads).expect("there is memory");
        let mut call = state.call();
        call.donated(0, &mut a).expect("it is large enough");
        call.donated(1, &mut b).expect("it is large enough");
        call.output(0, &mut y).expect("it is large enough");
        call.output(1, &mut z).expect("it is large enough");
        call.run().expect("it runs");
        assert!(y == numbers(8, BYTES) && z == numbers(10, BYTES), "{threads} threads");
        // New pages are zero; the first and the last one may be others' too.
        let is_new = |memory: &[u8]| memory[1 << 16..BYTES - (1 << 16)].iter().all(|it| *it == 0);
        assert_eq!((is_new(&a), is_new(&b)), (true, !loops));
        assert!(!loops || b == numbers(9, BYTES), "what a loop reads stays");
    }
}

#[test]
fn weights_are_released_when_they_have_been_read() {
    const BYTES: usize = 80 << 20;
    let extent = BYTES / 8;
    let program = program::parse(&format!(
        "program @main() arena 0 {{
  %v: 8 at weight c1
  %w: {BYTES} at weight c2
  %y: {BYTES} at output 0
  %z: 16 at output 1
  run k0(read 8 at %v, write 8 at %z) extent 1
  run k0(read {BYTES} at %w, write {BYTES} at %y) extent {extent} grain 64
  run k0(read 8 at %v, write 8 at %z[8]) extent 1
  run k0(read 8 at %w, write 8 at %z[8]) extent 1
}}"
    ));
    let executable = executable(&program.expect("it parses"), &BTreeMap::new()).expect("it loads");
    let large = numbers(7, BYTES);
    for threads in [1, 2] {
        let (mut y, mut z) = (vec![0; BYTES], vec![0; 16]);
        let mut state = State::new(executable.clone(), threads).expect("there is memory");
        let mut released = Vec::new();
        let mut call = state.call();
        call.weight(ConstantId::new(1), &large[..8]).expect("it is large enough");
        call.weight(ConstantId::new(2), &large).expect("it is large enough");
        call.output(0, &mut y).expect("it is large enough");
        call.output(1, &mut z).expect("it is large enough");
        call.run_releasing(&mut |weight| released.push(weight.index())).expect("it runs");
        // Piece by piece, whoever reads it; the small one when it has been read for the last time.
        assert_eq!(released, [2, 2, 2, 2, 1, 2]);
        assert!(y == numbers(8, BYTES), "pieces make up the whole");
        assert_eq!(z, [8, 0, 0, 0, 0, 0, 0, 0].repeat(2));
    }
}

/// A kernel and two moves of one weight, which go on piece by piece; a move of another, and one
/// that writes where the kernel does.
#[test]
fn moves_beside_what_reads_the_same_weight() {
    for bytes in [64usize, 3 << 20, 70 << 20] {
        let (extent, half) = (bytes / 8, bytes / 2);
        let (second, third) = (bytes, bytes + bytes / 2);
        let program = program::parse(&format!(
            "program @main() arena 0 {{
  %v: {bytes} at weight c1
  %w: {bytes} at weight c2
  %y: {bytes} at constants 0
  %a: {half} at constants {second}
  %b: {half} at constants {third}
  %z: 8 at output 0
  run k0(read {bytes} at %w, write {bytes} at %y) extent {extent} grain 64
  move 4 from %w to %a over ({} by 4 to 2, 2 by 2 to 1)
  move 2 from %w[2] to %b over ({} by 2 to 1)
  move 2 from %v to %b over (2 by 2 to 1)
  run k0(read 8 at %w, write 8 at %y) extent 1
  move 8 from %w[8] to %y over (1 by 1 to 1)
  run k0(read 8 at %v, write 8 at %z) extent 1
}}",
            half / 8,
            half / 2,
        ));
        let program = program.expect("it parses");
        let executable = executable(&program, &BTreeMap::new()).expect("it loads");
        let (one, other) = (numbers(7, bytes), numbers(9, bytes));
        for threads in [1, 2] {
            let mut z = vec![0; 8];
            let mut constants = vec![0; 2 * bytes];
            let mut state = State::new(executable.clone(), threads).expect("there is memory");
            let mut call = state.call();
            call.weight(ConstantId::new(1), &other).expect("it is large enough");
            call.weight(ConstantId::new(2), &one).expect("it is large enough");
            call.output(0, &mut z).expect("it is large enough");
            call.constants_to_fill(&mut constants).expect("it is large enough");
            let mut released = Vec::new();
            call.run_releasing(&mut |weight| released.push(weight.index())).expect("it runs");
            assert_eq!(released.last(), Some(&1), "{bytes} bytes");
            let mut wanted = numbers(8, bytes);
            wanted[..8].copy_from_slice(&one[8..16]);
            assert!(constants[..bytes] == wanted, "{bytes} bytes");
            let words = one.chunks_exact(8).flat_map(|word| &word[..4]);
            assert!(constants[second..third].iter().eq(words), "{bytes} bytes");
            let mut wanted: Vec<u8> =
                one[2..].chunks(4).flat_map(|word| &word[..2]).copied().collect();
            wanted[..2].copy_from_slice(&other[..2]);
            wanted[2..4].copy_from_slice(&other[4..6]);
            assert!(constants[third..] == wanted, "{bytes} bytes");
        }
    }
}

#[test]
fn what_one_call_got_is_not_there_for_the_next() {
    let executable = load();
    let mut state = State::new(executable, 1).expect("there is memory");
    let memory = numbers(5, 8192);
    state.call().input(0, &memory).expect("it is large enough");
    assert!(state.call().run().is_err());
}

#[test]
fn callers_at_the_same_time() {
    let executable = load();
    std::thread::scope(|scope| {
        for caller in 0..5i64 {
            let executable = &executable;
            scope.spawn(move || {
                let mut state = State::new(executable.clone(), 1 + caller as usize % 3)
                    .expect("there is memory");
                let (weight, constants) = (numbers(caller, 8), numbers(-caller, 8));
                for round in 0..100 {
                    let from = 1000 * caller + round;
                    let input = numbers(from, 8192);
                    let mut output = vec![0; 8192];
                    let mut call = state.call();
                    call.input(0, &input).expect("it is large enough");
                    call.weight(ConstantId::new(2), &weight).expect("it is large enough");
                    call.constants(&constants).expect("it is large enough");
                    call.output(0, &mut output).expect("it is large enough");
                    call.run().expect("no fault");
                    let mut expected: Vec<i64> = (from..from + 1024).map(|x| 2 * (x + 1)).collect();
                    (expected[0], expected[1]) = (caller + 1, 1 - caller);
                    let expected: Vec<u8> =
                        expected.into_iter().flat_map(i64::to_le_bytes).collect();
                    assert!(output == expected, "caller {caller}, round {round}");
                }
            });
        }
    });
}

#[test]
fn profiles_add_up() {
    let executable = load();
    let mut state = State::new(executable.clone(), 1).expect("there is memory");
    let memory = numbers(5, 8192);
    let mut output = vec![0; 8192];
    let now = Cell::new(0);
    let clock = || {
        now.set(now.get() + 10);
        now.get()
    };
    let mut profile = Profile::new(&executable, &clock);
    for _ in 0..3 {
        let mut call = state.call();
        call.input(0, &memory).expect("it is large enough");
        call.weight(ConstantId::new(2), &memory).expect("it is large enough");
        call.constants(&memory).expect("it is large enough");
        call.output(0, &mut output).expect("it is large enough");
        call.run_profiled(&mut profile).expect("no fault");
    }
    let row = |step, kernel: Option<usize>, runs| ProfileRow {
        step,
        kernel: kernel.map(KernelId::new),
        runs,
        nanoseconds: 10 * runs,
    };
    // The repeat counts once to begin and twice to go on, each time the program is run.
    let expected = [
        row(0, Some(0), 3),
        row(2, None, 9),
        row(3, Some(1), 6),
        row(4, Some(0), 3),
        row(5, Some(0), 3),
    ];
    assert_eq!(profile.rows(), expected);
}

#[test]
fn sizes_are_known() {
    let executable = load();
    assert_eq!(executable.input_bytes(), [8192]);
    assert_eq!(executable.output_bytes(), [8192]);
    assert_eq!(executable.weights(), [ConstantId::new(2)]);
    assert_eq!((executable.constant_bytes(), executable.fills_constants()), (8, false));
    assert_eq!((executable.arena_bytes(), executable.scratch_bytes()), (8192, 8));
}

#[test]
fn code_can_be_executed_but_not_written() {
    let code = common::code().expect("this platform has a JIT");
    let map = code.perf_map();
    assert_eq!(map.lines().count(), 6);
    assert_eq!(code.name(KernelId::new(0)), Some("increment"));
    assert_eq!(code.name(KernelId::new(9)), None);
    for line in map.lines() {
        let address = line.split(' ').next().expect("an address");
        let address = usize::from_str_radix(address, 16).expect("a number");
        assert_eq!(address % 64, 0, "{line}");
        assert_eq!(access(address), "r-xp", "{line}");
    }
}

/// What may be done with the page at this address, as the system says.
fn access(address: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the system says");
    let line = maps.lines().find(|line| {
        let (range, _) = line.split_once(' ').expect("a range");
        let (start, end) = range.split_once('-').expect("a range");
        let number = |text| usize::from_str_radix(text, 16).expect("a number");
        (number(start)..number(end)).contains(&address)
    });
    line.and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned()
}
