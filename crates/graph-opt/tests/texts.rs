//! Text tests of rules and passes. Every case also runs before and after on random data, which must
//! give the same bits (but for passes that round elsewhere: see `Keeps`).

mod common;

use std::sync::Arc;

use base::{PassContext, run_passes};
use common::Keeps;
use filetest::Command;
use graph::Function;
use tilewright_graph_opt::{apply_rule, cut, laws, passes};

const COMMANDS: &[(&str, Command)] =
    &[("rule", rule), ("pass", pass), ("passes", all_passes), ("cut", halves), ("plan", plan)];

#[test]
fn texts() {
    filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/texts"), COMMANDS);
}

/// Every rule has a case in which it fires, and one in which it does not.
#[test]
fn every_rule_has_its_cases() {
    let mut texts = String::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/texts");
    for entry in std::fs::read_dir(folder).expect("a folder") {
        texts.push_str(&std::fs::read_to_string(entry.expect("an entry").path()).expect("text"));
        texts.push_str("// ====");
    }
    let cases: Vec<&str> = texts.split("// ====").collect();
    for (name, law) in laws() {
        let own = |case: &&&str| case.contains(&format!("// run: rule {name}\n"));
        let stays = cases.iter().filter(own).filter(|case| case.contains("unchanged")).count();
        let all = cases.iter().filter(own).count();
        assert!(stays >= 1 && all > stays, "rule `{name}` ({law}) lacks a case");
    }
}

fn read(text: &str) -> Result<Function, String> {
    let function = graph::parse(text).map_err(|error| error.to_string())?;
    graph::verify(&function).map_err(|found| found.to_string())?;
    Ok(function)
}

/// `rule NAME`: the function after this rule alone, or why it stays as it is.
fn rule(text: &str, arguments: &[&str]) -> Result<String, String> {
    let mut function = read(text)?;
    let name = arguments.first().ok_or("which rule?")?;
    let (after, mut reasons) = apply_rule(&function, name)?;
    Keeps::Bits.check(&function, &after)?;
    function.compact();
    if after == function {
        reasons.dedup();
        let reasons: String = reasons.iter().map(|reason| format!(": {reason}")).collect();
        return Ok(format!("unchanged{reasons}\n"));
    }
    Ok(after.to_string())
}

/// `pass NAME..`: the function after these passes, which change nothing if run again.
fn pass(text: &str, arguments: &[&str]) -> Result<String, String> {
    let before = read(text)?;
    let mut context = PassContext::default();
    let mut after = Arc::new(before.clone());
    let mut run = |function: &mut Arc<Function>| {
        for name in arguments {
            let row = passes().iter().find(|row| row.name == *name);
            let row = row.ok_or_else(|| format!("there is no pass `{name}`"))?;
            (row.run)(function, &mut context).map_err(|error| error.to_string())?;
        }
        Ok::<(), String>(())
    };
    run(&mut after)?;
    let mut again = after.clone();
    run(&mut again)?;
    if again.to_string() != after.to_string() {
        return Err(format!("not idempotent:\n{after}\nbecomes\n{again}"));
    }
    let keeps = arguments.iter().map(|name| Keeps::of(name)).max().unwrap_or(Keeps::Bits);
    keeps.check(&before, &after)?;
    Ok(after.to_string())
}

/// The whole table.
fn all_passes(text: &str, _: &[&str]) -> Result<String, String> {
    let mut function = Arc::new(read(text)?);
    run_passes(passes(), &mut function, &mut PassContext::default(), &mut ())
        .map_err(|error| error.to_string())?;
    graph::verify(&function).map_err(|found| found.to_string())?;
    Ok(function.to_string())
}

/// The two halves, which together compute what the whole does.
fn halves(text: &str, _: &[&str]) -> Result<String, String> {
    let function = read(text)?;
    let halves = cut(function.clone());
    for half in [&halves.setup, &halves.main] {
        graph::verify(half).map_err(|found| found.to_string())?;
    }
    let data = common::Data::random(&function, 1, false);
    let setup = common::Data { inputs: Vec::new(), constants: data.constants.clone() };
    let constants = setup.run(&halves.setup, &[])?;
    if !common::same_bits(&data.run(&function, &[])?, &data.run(&halves.main, &constants)?) {
        return Err(format!("other results\n{}{}", halves.setup, halves.main));
    }
    Ok(format!("{}{}", halves.setup, halves.main))
}

/// The plan, and the functions that it calls.
fn plan(text: &str, _: &[&str]) -> Result<String, String> {
    let function = Arc::new(read(text)?);
    let (plan, called) = common::plan(&function, &Default::default())?;
    let segments = called.values().filter(|segment| segment.name != plan.name);
    let called: String = segments.map(|segment| segment.to_string()).collect();
    Ok(format!("{plan}{called}"))
}
