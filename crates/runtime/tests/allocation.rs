//! From the second run on nothing is allocated, by any thread that has begun its work.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;

use std::collections::BTreeMap;

use common::{executable, numbers};
use runtime::State;
use testkit::CountingAllocator;

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator::new();

/// Series of runs of which one at least must allocate nothing.
const SERIES: usize = 20;

#[test]
fn runs_allocate_nothing() {
    let text = "program @main(n in 0..=1024, i in 0..) arena 8192 {
      %x: 8192 at input 0
      %y: 8192 at output 0
      %w: 8 at weight c0
      %t: 8192 at arena 0
      run k0(read 8192 at %x, write 8192 at %t) extent 1024
      bind n = %w
      repeat i < 4 { run k1(read 8*n at %t, write 8*n at %y[i]) extent n - 1 scratch 8 }
    }";
    let program = program::parse(text).expect("it parses");
    program::verify(&program).expect("it is well formed");
    let executable = executable(&program, &BTreeMap::new()).expect("it loads");
    let mut state = State::new(executable.clone(), 2).expect("there is memory");
    let (inputs, weight) = ([numbers(0, 8192), numbers(1, 8192)], numbers(1000, 8));
    let mut output = vec![0; 8192];
    let mut run = |round: usize| {
        let mut call = state.call();
        for id in executable.weights() {
            call.weight(*id, &weight).expect("it is large enough");
        }
        call.input(0, &inputs[round % 2]).expect("it is large enough");
        call.output(0, &mut output).expect("it is large enough");
        call.run().expect("no fault");
    };
    run(0);
    // A worker that the system lets wait allocates what a thread has of its own when it begins,
    // which may be many runs later; a run that allocates does so in each of these series.
    let allocate_nothing = (0..SERIES).any(|_| {
        let before = COUNTING.allocations();
        (0..200).for_each(&mut run);
        COUNTING.allocations() == before
    });
    assert!(allocate_nothing, "allocations behind the first run");
}
