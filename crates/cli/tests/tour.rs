//! The tour of ARCHITECTURE.md shows what `dump` prints.

mod support;

use support::{DIGITS, succeed};

const ARCHITECTURE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../ARCHITECTURE.md"));

/// A line without the place in the model behind it, and without what it is indented by.
fn bare(line: &str) -> &str {
    line.split(" loc(").next().unwrap_or(line).trim()
}

/// Each block of text named by a stage, and perhaps a kernel, is what the stage prints: the lines
/// between two of `..` behind each other, and what follows `..` further down.
#[test]
fn the_tour_is_what_dump_prints() {
    let blocks: Vec<&str> = ARCHITECTURE.split("```text ").skip(1).collect();
    assert_eq!(blocks.len(), 8, "a block a stage");
    for block in blocks {
        let (block, _) = block.split_once("```").expect("the block ends");
        let (head, text) = block.split_once('\n').expect("lines");
        let mut words = head.split(' ');
        let stage = words.next().expect("a stage");
        let mut arguments = vec!["dump", DIGITS, "--dim", "batch=2", "--target", "x86-64-v3"];
        arguments.extend(["--stage", stage]);
        if let Some(kernel) = words.next() {
            arguments.extend(["--kernel", kernel]);
        }
        let printed = succeed(&arguments);
        let printed: Vec<&str> =
            printed.lines().map(bare).filter(|line| !line.is_empty()).collect();
        let lines: Vec<&str> = text.lines().map(bare).filter(|line| !line.is_empty()).collect();
        let mut rest = &printed[..];
        for lines in lines.split(|line| *line == "..") {
            let at = rest.windows(lines.len().max(1)).position(|window| window == lines);
            let at = at.or(lines.is_empty().then_some(0));
            let at = at.unwrap_or_else(|| panic!("{stage}: not printed any more:\n{lines:#?}"));
            rest = &rest[at + lines.len()..];
        }
    }
}
