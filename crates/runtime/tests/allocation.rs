//! From the second run on nothing is allocated, by any thread.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;

use std::collections::BTreeMap;

use common::{executable, numbers};
use runtime::State;
use testkit::CountingAllocator;

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator::new();

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
    let mut before = 0;
    for round in 0..200 {
        if round == 1 {
            before = COUNTING.allocations();
        }
        let mut call = state.call();
        for id in executable.weights() {
            call.weight(*id, &weight).expect("it is large enough");
        }
        call.input(0, &inputs[round % 2]).expect("it is large enough");
        call.output(0, &mut output).expect("it is large enough");
        call.run().expect("no fault");
    }
    assert_eq!(COUNTING.allocations() - before, 0, "allocations behind the first run");
}
