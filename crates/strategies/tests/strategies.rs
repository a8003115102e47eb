//! Tests of strategies: a naive kernel before, the remarks, the trace and the scheduled kernel
//! after. Every case is also run: the scheduled kernel computes the bits of the naive one, and the
//! trace replayed on the naive kernel gives the scheduled one.

mod support;

use backend::Target;
use filetest::Command;
use loops::Kernel;
use proptest::prelude::*;
use strategies::{Scheduled, StrategyOptions};
use support::{DEEP, KERNELS, instance, naive, outputs, with_values};

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
    let target = arguments.first().and_then(|name| target(name));
    let target = target.ok_or("the argument is no target")?;
    let kernel = loops::parse(text).map_err(|error| error.to_string())?;
    let naive = naive(kernel.clone());
    let scheduled = strategies::schedule(&naive, &target, &StrategyOptions::default())
        .map_err(|error| error.to_string())?;
    loops::verify_scheduled(&scheduled.kernel).map_err(|error| error.to_string())?;
    Ok((kernel, scheduled))
}

/// A row of the table; or that for AVX-512 as a server has it whose cores a mesh joins.
fn target(name: &str) -> Option<Target> {
    let mesh = |row: Target| row.tuned([None; 3], None, true);
    match name {
        "mesh" => Target::named("x86-64-v4-bf16").map(mesh),
        name => Target::named(name),
    }
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

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    /// Whatever the extents, a strategy keeps the bits, and its trace replays.
    #[test]
    fn strategies_keep_the_bits(
        structure in 0..KERNELS.len(),
        extents in [1i64..24, 1i64..80, 1i64..12],
        panel in prop::sample::select(vec![8, 16, 32, 48]),
        name in prop::sample::select(vec!["x86-64-v4", "mesh", "x86-64-v3", "c99"]),
    ) {
        let naive = instance(structure, extents, panel);
        let target = target(name).expect("a row of the table");
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
        name in prop::sample::select(vec!["x86-64-v4", "mesh", "x86-64-v3", "c99"]),
        drawn in any::<prop::sample::Selector>(),
    ) {
        let naive = instance(structure, extents, panel);
        let target = target(name).expect("a row of the table");
        let all = strategies::candidates(&support::naive(naive.clone()), &target);
        let fits: Vec<_> = all.iter().filter(|candidate| candidate.scheduled.is_ok()).collect();
        let candidate = drawn.select(fits);
        let Ok(scheduled) = &candidate.scheduled else { unreachable!("those that fit") };
        agree(&naive, scheduled).map_err(TestCaseError::fail)?;
        prop_assert!(scheduled.cost.cycles().is_finite() && scheduled.cost.cycles() >= 0.0);
        let point: strategies::Point =
            candidate.point.to_string().parse().map_err(TestCaseError::fail)?;
        prop_assert_eq!(&point, &candidate.point);
        let again = strategies::schedule_at(&support::naive(naive), &target, &point);
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
    let middle = "kernel @middle(%x: read f32[40, 25, 2],
      %y: write f32[40, 25, 2] strides [100, 4, 1]) {
      for x < 40 { for y < 25 { for z < 2 { %y[x, y, z] = abs(%x[x, y, z]) } } }
    }";
    let middle = support::naive(loops::parse(middle).expect("a kernel"));
    let at = |text: &str| {
        let point = text.parse().expect("a point");
        strategies::schedule_at(&middle, &target, &point).map(|scheduled| scheduled.remarks)
    };
    assert!(at("map(way=rows)").is_ok());
    assert_eq!(at("map(way=row)"), Err("elements do not come into vectors so".to_owned()));
}

/// Schedules a kernel and runs it beside the naive one; what the strategies said.
fn keeps_the_bits(naive: &Kernel, target: &Target) -> Result<String, TestCaseError> {
    let options = StrategyOptions::default();
    let scheduled = strategies::schedule(&support::naive(naive.clone()), target, &options);
    let scheduled = scheduled.map_err(|error| TestCaseError::fail(error.to_string()))?;
    if let Err(errors) = loops::verify_scheduled(&scheduled.kernel) {
        return Err(TestCaseError::fail(errors.to_string()));
    }
    agree(naive, &scheduled).map_err(TestCaseError::fail)?;
    Ok(scheduled.remarks.join("\n"))
}

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
