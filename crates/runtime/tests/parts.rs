//! A block of constants that is handed over part by part is the block as it is filled at once.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base::{ConstantId, Id};
use common::{executable, numbers};
use runtime::State;

/// Bytes of the weight that everything is made of.
const WEIGHT: usize = 4096;

/// The block of a program, at once and in parts of about so many bytes; of how many bytes each is.
fn blocks(text: &str, bytes: usize, most: usize) -> (Vec<u8>, Vec<u8>, Vec<usize>) {
    let program = program::parse(text).unwrap_or_else(|found| panic!("{found}\n{text}"));
    program::verify(&program).unwrap_or_else(|found| panic!("{found}\n{text}"));
    let executable = executable(&program, &BTreeMap::new()).expect("it loads");
    let weight = numbers(5, WEIGHT);
    let mut state = State::new(executable, 1).expect("there is memory");
    let mut at_once = vec![0; bytes];
    let mut call = state.call();
    call.weight(ConstantId::new(1), &weight).expect("it is large enough");
    call.constants_to_fill(&mut at_once).expect("it is large enough");
    call.run_releasing(&mut |_| {}).expect("it runs");
    let (mut in_parts, mut sizes) = (Vec::new(), Vec::new());
    let mut call = state.call();
    call.weight(ConstantId::new(1), &weight).expect("it is large enough");
    let mut take = |part: &[u8]| {
        in_parts.extend_from_slice(part);
        sizes.push(part.len());
        Ok(())
    };
    call.run_in_parts(most, &mut |_| {}, &mut take).expect("it runs");
    (at_once, in_parts, sizes)
}

#[test]
fn parts_make_up_the_block() {
    let mut state = 1_u64;
    let mut below = |count: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % count
    };
    let mut several = 0;
    for _ in 0..300 {
        let count = 1 + below(12);
        let (mut slots, mut steps) = (String::new(), String::new());
        let mut end = 0;
        for number in 0..count {
            let (gap, bytes) = (64 * below(3), 64 * (1 + below(4)));
            let from = 8 * below((WEIGHT - bytes) / 8);
            let start = end + gap;
            let _ = writeln!(slots, "  %c{number}: {bytes} at constants {start}");
            // Some are made by way of the arena, of what was made before, or in part.
            let _ = match below(6) {
                0 if number > 0 => {
                    let other = below(number);
                    writeln!(steps, "  copy 32 from %c{other} to %c{number}[16]")
                }
                1 => writeln!(
                    steps,
                    "  copy {bytes} from %w[{from}] to %t\n  run k0(read {bytes} at %t, \
                     write {bytes} at %c{number}) extent {}",
                    bytes / 8
                ),
                2 => writeln!(
                    steps,
                    "  move 8 from %w[{from}] to %c{number} over ({} by 1 to 2)",
                    bytes / 16
                ),
                _ => writeln!(steps, "  copy {bytes} from %w[{from}] to %c{number}"),
            };
            end = start + bytes;
        }
        let text = format!(
            "program @setup() arena 256 {{\n  %w: {WEIGHT} at weight c1\n  %t: 256 at arena 0\n\
             {slots}{steps}}}"
        );
        let most = 1 + below(600);
        let (at_once, in_parts, sizes) = blocks(&text, end, most);
        assert!(at_once == in_parts, "parts of {most}: {sizes:?}\n{text}");
        several += usize::from(sizes.len() > 1);
    }
    assert!(several > 100, "{several} of 300 have several parts");
}

#[test]
fn what_cannot_be_told_apart_is_one_part() {
    let slots = "  %w: 4096 at weight c1\n  %a: 512 at constants 0\n  %b: 512 at constants 512\n";
    let check = |steps: &str, wanted: &[usize]| {
        let symbols = if steps.contains("repeat") { "i in 0.." } else { "" };
        let text = format!("program @setup({symbols}) arena 0 {{\n{slots}{steps}}}");
        let (at_once, in_parts, sizes) = blocks(&text, 1024, 100);
        assert!(at_once == in_parts);
        assert_eq!(sizes, wanted, "{steps}");
    };
    let (a, b) = ("  copy 512 from %w to %a\n", "  copy 512 from %w[64] to %b\n");
    check(&format!("{a}{b}"), &[512, 512]);
    check(&format!("{b}{a}"), &[1024]);
    check(&format!("{a}{b}  copy 8 from %w to %a\n"), &[1024]);
    check(&format!("{a}  repeat i < 2 {{\n{b}  }}\n"), &[1024]);
}
