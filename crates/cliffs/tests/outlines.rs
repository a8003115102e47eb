//! Drawn outlines are models: they print as what parses to them, a seed gives the same bytes, and
//! the compiler takes them.

use std::collections::BTreeSet;

use cliffs::{Outline, Part, Setting, bytes, outline};
use testkit::{demand_share, first_seed};
use tilewright::{Options, compile_bytes, runs_here};

const MODELS: u64 = 200;

fn drawn() -> impl Iterator<Item = Outline> {
    let seed = first_seed();
    (0..MODELS).map(move |number| outline(seed, number))
}

#[test]
fn what_prints_parses() {
    for outline in drawn() {
        assert_eq!(Outline::parse(&outline.to_string()), Ok(outline));
    }
}

#[test]
fn a_seed_gives_the_same_bytes() {
    for (one, other) in drawn().zip(drawn()) {
        let one = bytes(&one).expect("a model");
        assert!(one == bytes(&other).expect("a model"), "{other}");
    }
    assert_ne!(outline(1, 0), outline(1, 1));
    assert_ne!(outline(1, 0), outline(2, 0));
}

#[test]
fn the_compiler_takes_them() {
    if !runs_here() {
        eprintln!("skipped: this machine cannot run the JIT's code");
        return;
    }
    let options = Options::default().with_threads(1);
    let mut taken = 0;
    for outline in drawn() {
        match compile_bytes(bytes(&outline).expect("a model"), &options) {
            Ok(_) => taken += 1,
            Err(found) => eprintln!("{outline}{found}"),
        }
    }
    demand_share(taken, MODELS as usize, 0.98);
}

#[test]
fn many_kinds_are_drawn() {
    let kinds: BTreeSet<String> = drawn().map(|outline| outline.kind()).collect();
    assert!(kinds.len() > 150, "{} kinds", kinds.len());
}

#[test]
fn what_does_not_fit_is_refused() {
    for (text, reason) in [
        ("", "there is no line"),
        ("input f32", "is no input"),
        ("input f33 1,2", "is no input"),
        ("input f32 1,2\nfly", "no part `fly`"),
        ("input f32 1,2\nmap", "has no word `f`"),
        ("input f32 1,2\ntranspose 1,0", "is no setting"),
        ("input f32 1,2\ntranspose order=1,1", "it is no order"),
        ("input f32 1,0", "an axis is empty"),
        ("input f32 3000,3000", "too many elements"),
        ("input f32 9,9\nmatmul out=260000 bias=0", "too many elements"),
        ("input f32 1,3,4,4\nconv out=4 groups=2 kernel=1,1 WINDOW", "the groups do not divide"),
        ("input f32 1,3,4,4\nconv out=4 groups=1 kernel=5,1 WINDOW", "a window is larger"),
    ] {
        let text = text.replace("WINDOW", "stride=1,1 dilation=1,1 pads=0,0,0,0 bias=0");
        let made = Outline::parse(&text).and_then(|outline| bytes(&outline));
        let said = made.expect_err(&text);
        assert!(said.contains(reason), "{text}: {said}");
    }
}

/// Any number in place of another ends in a model or a refusal.
#[test]
fn other_numbers_do_not_panic() {
    let mut made = 0;
    for mut outline in drawn() {
        for number in [-1, 0, 1, 2, 1 << 18, 1 << 40] {
            let before = outline.clone();
            for Part { settings, .. } in &mut outline.parts {
                if let Some((_, Setting::Numbers(numbers))) = settings.last_mut() {
                    numbers[0] = number;
                }
            }
            made += usize::from(bytes(&outline).is_ok());
            outline = before;
        }
    }
    assert!(made > 0);
}
