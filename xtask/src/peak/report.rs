//! Printing the figures: a table for people, one JSON object for scripts.

use super::Row;
use super::machine::Machine;
use std::fmt::Write as _;

pub(super) fn table(machine: &Machine, rows: &[Row]) -> String {
    let mut out = String::new();
    _ = writeln!(out, "{}, {} threads, load {}", machine.cpu, machine.threads, machine.load);
    _ = writeln!(out, "{}\n", machine.features.join(" "));
    let width = rows.iter().map(|row| row.what.len()).max().unwrap_or(0);
    _ = writeln!(out, "{:width$}  {:>10}  {:>11}", "", "one thread", "all threads");
    for Row { what, unit, one_thread, all_threads, .. } in rows {
        _ = writeln!(out, "{what:width$}  {one_thread:>10.1}  {all_threads:>11.1}  {unit}");
    }
    out
}

pub(super) fn json(machine: &Machine, rows: &[Row]) -> String {
    let features: Vec<String> = machine.features.iter().map(|name| quoted(name)).collect();
    let figure = |row: &Row| {
        format!(
            "{}: {{\"what\": {}, \"unit\": {}, \"one_thread\": {:.3}, \"all_threads\": {:.3}}}",
            quoted(row.key),
            quoted(row.what),
            quoted(row.unit),
            row.one_thread,
            row.all_threads
        )
    };
    let figures: Vec<String> = rows.iter().map(figure).collect();
    format!(
        "{{\"cpu\": {}, \"features\": [{}], \"threads\": {}, \"load\": {}, \"figures\": {{{}}}}}\n",
        quoted(&machine.cpu),
        features.join(", "),
        machine.threads,
        quoted(&machine.load),
        figures.join(", ")
    )
}

/// `text` as a JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => _ = write!(out, "\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_strings_are_escaped() {
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    }

    #[test]
    fn both_forms_hold_every_row() {
        let row = Row { key: "k", what: "w", unit: "u", one_thread: 1.5, all_threads: 3.0 };
        let machine = Machine {
            cpu: "c".to_owned(),
            features: vec!["avx2"],
            threads: 2,
            load: "0.1".to_owned(),
            l1_bytes: 0,
            l2_bytes: 0,
            last_bytes: 0,
        };
        let rows = [row];
        assert!(table(&machine, &rows).contains("1.5          3.0  u"));
        let expected = "{\"cpu\": \"c\", \"features\": [\"avx2\"], \"threads\": 2, \
                        \"load\": \"0.1\", \"figures\": {\"k\": {\"what\": \"w\", \"unit\": \"u\", \
                        \"one_thread\": 1.500, \"all_threads\": 3.000}}}\n";
        assert_eq!(json(&machine, &rows), expected);
    }
}
