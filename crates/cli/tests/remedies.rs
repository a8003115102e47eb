//! Remedies hold as they are printed: each command in one is run, and cures what it says.
//!
//! A case is a command that is refused. What stands between backticks in the remedy that is
//! *printed* is then done: a command `tilewright ...` is run and must be good; options take the
//! place of the words that were wrong, and the diagnostic must be gone. `FILE` is what only the
//! reader knows; each case says which.
//!
//! The last tests see to it that no remedy is left out: each that the sources hold has been printed
//! by a case, or is named with the reason why none prints it.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Output;

use support::files::{prepare, steps};
use support::{Folder, tilewright, tilewright_reading};

/// A refusal, and what its remedies are done with.
struct Case {
    code: &'static str,
    /// What is run, in the words of a shell.
    command: &'static str,
    /// The words of it that the options of the remedy take the place of; empty if none are wrong.
    wrong: &'static str,
    /// What `FILE` stands for, and what standard input is.
    file: &'static str,
}

const fn case(code: &'static str, command: &'static str, wrong: &'static str) -> Case {
    Case { code, command, wrong, file: "" }
}

const fn with_file(
    code: &'static str,
    command: &'static str,
    wrong: &'static str,
    file: &'static str,
) -> Case {
    Case { code, command, wrong, file }
}

/// The files that the cases need.
const FILES: &str = "
model one.onnx
  input x: f32[2]
  y = Relu(x)
  output y: f32[2]
model two.onnx
  input left: f32[2]
  input right: f32[2]
  y = Add(left, right)
  output y: f32[2]
model make.onnx
  input a: f32[2]
  left = Neg(a)
  right = Abs(a)
  output left: f32[2]
  output right: f32[2]
model words.onnx
  input left: string[1]
  input right: string[1]
  a = Identity(left)
  b = Identity(right)
  output a: string[1]
  output b: string[1]
model free.onnx
  input x: f32[batch, 2]
  y = Relu(x)
  output y: f32[batch, 2]
model both.onnx
  input x: f32[n, m]
  y = Relu(x)
  output y: f32[n, m]
model weight.onnx
  input x: f32[2]
  constant weight: f32[2] {1.0, 2.0}
  y = Add(x, weight)
  output y: f32[2]
model product.onnx
  input x: f32[2, 2]
  constant weight: f32[2, 2] {1.0, 2.0, 3.0, 4.0}
  y = MatMul(x, weight)
  output y: f32[2, 2]
model high.onnx
  input x: f32[1, 1, 2]
  y = Relu(x)
  output y: f32[1, 1, 2]
model loop.onnx
  input n: i64[]
  input x: f32[]
  y = Loop(n, _, x) {body = {
    input i: i64[] input c: bool[] input a: f32[]
    k = Identity(c) b = Add(a, a)
    output k: bool output b: f32
  }}
  output y: f32[]
model squeezed.onnx
  input x: f32[n, 3, m]
  y = Squeeze(x)
  output y: f32
model tall.onnx
  input x: f32[1, 3, 5, 5]
  y = Identity(x)
  output y: f32[1, 3, 5, 5]
model sized.onnx
  input x: f32[n, 3, h, w]
  y = Identity(x)
  output y: f32[n, 3, h, w]
model unclear.onnx
  input x: u8[1, 1, 2, 3]
  y = Identity(x)
  output y: u8[1, 1, 2, 3]
model grey.onnx
  input x: f32[c, h, w]
  y = Identity(x)
  output y: f32[c, h, w]
array x.npy f32[2] {1.0, -2.0}
array pairs.npy f32[2, 2] {1.0, 2.0, 3.0, 4.0}
array squeezed.npy f32[1, 3, 2] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}
array n.npy i64[] {9}
array s.npy f32[] {1.0}
tensor set/input_0.pb left f32[2] {1.0, 2.0}
tensor set/input_1.pb right f32[2] {1.0, 2.0}
text wrong.csv
  one,two
  three,four
text numbers.txt
  1
  2
  3
text pair.txt
  1
  2
text labels.txt
  cat
  dog
picture small.png 5 5
picture large.png 8 6
";

const CASES: &[Case] = &[
    with_file("TW0201", "run two.onnx --input left=x.npy", "", "x.npy"),
    with_file("TW0213", "run two.onnx --random --input x.npy", "--input x.npy", ""),
    with_file("TW0213", "run two.onnx --random --input -", "--input -", "x.npy"),
    with_file("TW0213", "run words.onnx --random --text 'a b'", "--text 'a b'", ""),
    with_file("TW0213", "run one.onnx --input all.npz", "--input all.npz", ""),
    with_file("TW0213", "run two.onnx --random --input left=set", "--input left=set", ""),
    case(
        "TW0202",
        "run two.onnx --random --input left=all.npz:rihgt",
        "--input left=all.npz:rihgt",
    ),
    with_file("TW0212", "run one.onnx --input -:pb", "--input -:pb", "set/input_0.pb"),
    case("TW0212", "run free.onnx --input wrong.csv --header no", ""),
    case("TW0204", "run both.onnx --input numbers.txt", ""),
    case("TW0204", "run grey.onnx --input small.png", ""),
    case("TW0204", "run sized.onnx --input x=small.png --input x=large.png", ""),
    case("TW0210", "run tall.onnx --input small.png --resize 4", "--resize 4"),
    with_file("TW0115", "compile squeezed.onnx -o c --emit c", "", "squeezed.npy"),
    case("TW0109", "run weight.onnx --random --literal wieght", "--literal wieght"),
    case("TW0207", "run free.onnx --random --dim bacth=2", "--dim bacth=2"),
    case("TW0120", "run one.onnx --random --key-values int8", "--key-values int8"),
    case("TW0208", "dump one.onnx --stage asm --kernel main_map", "--kernel main_map"),
    case("TW0209", "run one.onnx --random --disable csee", "--disable csee"),
    case("TW0208", "explain one.onnx --candidates main_mop_0", "--candidates main_mop_0"),
    case("TW0211", "explain-error TW9999", ""),
    case("TW0215", "quantise product.onnx -o bytes.onnx", ""),
    with_file("TW0214", "run high.onnx --random --top 1", "--top 1", "labels.txt"),
    case("TW0301", "run one.onnx --random --output y.txt", "--output y.txt"),
    case("TW0401", "run one.onnx --random --target x86-64-v33", "--target x86-64-v33"),
    case("TW0402", "run one.onnx --random --target c99", "--target c99"),
    case("TW0401", "compile one.onnx -o out --emit shared --target c99", "--target c99"),
    case("TW0408", "compile one.onnx -o out --emit c --weights inside", "--emit c"),
    case("TW0408", "compile one.onnx -o out --emit shared --report", "--emit shared"),
    case("TW0408", "compile one.onnx -o out --emit static --system macos", "--emit static"),
    case("TW0409", "compile one.onnx -o out --emit c --memory ram=1", "--memory ram=1"),
    case("TW0112", "info one.onnx --limit file-bytes=3", "--limit file-bytes=3"),
    case("TW0112", "run weight.onnx --random --limit nodes=0", "--limit nodes=0"),
    case("TW0112", "run weight.onnx --random --limit primitives=1", "--limit primitives=1"),
    case("TW0112", "run high.onnx --random --limit rank=2", "--limit rank=2"),
    case("TW0112", "run high.onnx --random --limit elements=1", "--limit elements=1"),
    case("TW0112", "run two.onnx --random --limit random-bytes=12", "--limit random-bytes=12"),
    case("TW0112", "run one.onnx --input pair.txt --limit input-bytes=2", "--limit input-bytes=2"),
    case("TW0112", "run one.onnx --random --limit memory-bytes=1", "--limit memory-bytes=1"),
    case(
        "TW0112",
        "run loop.onnx --input n=n.npy --input x=s.npy --limit turns=1",
        "--limit turns=1",
    ),
    case(
        "TW0112",
        "verify loop.onnx --input n=n.npy --input x=s.npy --limit turns=8",
        "--limit turns=8",
    ),
    // A shell does not read Python.
    case("TW0407", "compare one.onnx --python sh", ""),
];

/// Remedies that no case prints, as the sources hold them, and why.
const NOT_PRINTED: &[(&str, &str)] = &[
    ("give it one, such as `--dim {name}=1`", "extents that nothing binds are chosen"),
    ("give them, such as `{}`, or the input itself", "extents that nothing binds are chosen"),
    ("use `--target {}`", "this machine may have all that the targets need"),
    ("leave `--perf-map` out", "the folder of profiles can be written"),
    ("give it smaller, or `--fit stretch`", "the picture would be as large as memory"),
    ("give the value with the type and rank", "values are made to fit before"),
    (
        "use `--time-limit {}`",
        "it takes another engine that is slow; the tests of compare have one",
    ),
    ("or run it with `tilewright run`", "which inputs it takes is not known"),
    ("go on with: `tilewright generate`", "it takes a language model, which is large"),
    ("use `tilewright generate`", "it takes a language model, which is large"),
    ("prompt yourself with `tilewright generate`", "it takes a language model, which is large"),
    ("or give `--context` more", "it takes a language model, which is large"),
    ("more of this talk (`--context`)", "it is no remedy, and takes a language model"),
    ("for {places} tokens (`--context`)", "it is no remedy, and takes a language model"),
    ("use `--emit engine`, or leave the option out", "it takes a language model, which is large"),
    ("or use `--target x86-64-v3`", "it takes a language model, which is large"),
    ("`--context` is for engines", "it is no remedy; the one beside it takes no command"),
    ("takes the shapes that `--dim` fixes", "it is no remedy, and takes a language model"),
    ("of other models are those of `--dim`", "it is no remedy"),
    ("run its folder with `tilewright conformance`", "the tests of `import-stablehlo` do"),
    ("use a Python that has it", "its cure is another engine; the tests of compare have one"),
    ("`--threads {cores}`", "it is no remedy, and needs a machine with several cores"),
    ("`--all` compares everything", "it is no remedy, and needs a large model"),
    ("Examples: `--help`", "it is no remedy; the tests of help texts see to it"),
    ("examples: `--help`", "it is no remedy; the tests of help texts see to it"),
];

/// Codes whose explanation holds a command and that no case has, and why.
const NOT_PROVOKED: &[(&str, &str)] = &[
    ("TW0205", "extents that nothing binds are chosen"),
    ("TW0403", "the machine that runs the tests has a JIT"),
];

/// How often a limit is raised: each time to twice as much, where what is needed is not known.
const MOST_RAISES: usize = 12;

fn prepared() -> Folder {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("set")).expect("a folder");
    for (line, block) in steps(FILES) {
        prepare(folder.path(), line, &block).expect("the files are made");
    }
    let made = run(folder.path(), "run make.onnx --input x.npy --output all.npz", "");
    assert!(made.status.success());
    folder
}

/// The words of a line, as a shell splits it.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut is_quoted, mut is_new) = (Vec::<String>::new(), false, true);
    for character in line.chars() {
        match character {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => is_new = true,
            _ => {
                if std::mem::take(&mut is_new) {
                    words.push(String::new());
                }
                words.last_mut().expect("one is there").push(character);
            }
        }
    }
    words
}

fn run(folder: &Path, command: &str, file: &str) -> Output {
    let words = words(command);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match file {
        "" => tilewright(folder, &words),
        file => tilewright_reading(folder, &words, file),
    }
}

/// The remedies that were printed for a code.
fn remedies(output: &Output, code: &str) -> Vec<String> {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let blocks = said.split("error[").filter(|block| block.starts_with(code));
    let remedies = blocks.filter_map(|block| block.split_once("= remedy: "));
    remedies.map(|(_, rest)| rest.lines().next().unwrap_or_default().to_owned()).collect()
}

/// What is to be done, as a remedy prints it: each command or option between backticks, and whether
/// it is to be left out.
fn steps_of(remedy: &str) -> Vec<(&str, bool)> {
    let pieces: Vec<&str> = remedy.split('`').collect();
    let spans = pieces.windows(2).enumerate().filter(|(number, _)| number % 2 == 0);
    let spans = spans.map(|(_, pair)| (pair[1], pair[0].trim_end().ends_with("leave out")));
    spans.filter(|(span, _)| span.starts_with("--") || span.starts_with("tilewright ")).collect()
}

/// Does what the remedies of a case say, each by itself; gives what they were.
fn follow(folder: &Path, case: &Case) -> Vec<String> {
    let Case { code, command, wrong, file } = case;
    let refused = run(folder, command, file);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{command}: {said}");
    let printed = remedies(&refused, code);
    assert!(!printed.is_empty(), "{command}: there is no {code} with a remedy in {said}");
    for remedy in &printed {
        let spans = steps_of(remedy);
        assert!(!spans.is_empty(), "{command}: nothing can be done by `{remedy}`");
        for (span, is_left_out) in spans {
            if let Some(line) = span.strip_prefix("tilewright ") {
                let done = run(folder, line, "");
                let said = String::from_utf8_lossy(&done.stderr).into_owned();
                assert!(done.status.success(), "{command}: `{span}`: {said}");
            } else {
                let right = if is_left_out { String::new() } else { filled(span, file) };
                cure(folder, case, wrong, &right);
            }
        }
    }
    printed
}

/// With the file that the reader knows.
fn filled(span: &str, file: &str) -> String {
    span.replace("FILE.pb", "FILE").replace("FILE", file)
}

/// Runs the case with the words that are right instead of those that are wrong.
fn cure(folder: &Path, case: &Case, wrong: &str, right: &str) {
    let mut right = right.to_owned();
    for _ in 0..MOST_RAISES {
        let line = format!("{} {right}", case.command.replacen(wrong, "", 1));
        let done = run(folder, &line, case.file);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        if done.status.success() {
            assert!(!said.contains(case.code), "{line}: {said}");
            return;
        }
        // The same limit may have to be raised once more.
        let next = remedies(&done, case.code);
        let next = next.iter().flat_map(|remedy| steps_of(remedy)).next();
        let is_raised = next.is_some_and(|(span, _)| span.starts_with("--limit") && span != right);
        assert!(is_raised, "{line}: {said}");
        right = next.map(|(span, _)| span.to_owned()).unwrap_or_default();
    }
    panic!("{}: `{right}` is not enough after {MOST_RAISES} times", case.command);
}

/// The string literals of a Rust source but for its tests, their holes as `{}`.
fn literals(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let source: String = lines.map(|line| line.replace("'\"'", "") + "\n").collect();
    let source = source.replace("\\\"", "\u{1}");
    source.split('"').skip(1).step_by(2).map(unfolded).collect()
}

/// A literal on one line.
fn unfolded(literal: &str) -> String {
    let mut lines = literal.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |text, line| text + line.trim_start())
}

/// Whether a text is what a literal makes: its pieces between the holes, one behind another.
fn is_made_by(text: &str, literal: &str) -> bool {
    let mut rest = text;
    let pieces = literal.split('{').enumerate().map(|(number, piece)| match number {
        0 => piece,
        _ => piece.split_once('}').map_or(piece, |(_, piece)| piece),
    });
    pieces.flat_map(|piece| piece.split("MODEL")).all(|piece| match rest.find(piece) {
        Some(at) => {
            rest = &rest[at + piece.len()..];
            true
        }
        None => false,
    })
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Whether a text tells to give an option or a command.
fn has_command(text: &str) -> bool {
    text.contains("`--") || text.contains("`tilewright ")
}

#[test]
fn remedies_cure_and_none_is_left_out() {
    let folder = prepared();
    let printed: BTreeSet<String> =
        CASES.iter().flat_map(|case| follow(folder.path(), case)).collect();
    let mut sources = Vec::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for entry in std::fs::read_dir(crates).expect("the crates").flatten() {
        rust_files(&entry.path().join("src"), &mut sources);
    }
    assert!(sources.len() > 100, "the sources are not there");
    let mut missing = String::new();
    for path in sources {
        let source = std::fs::read_to_string(&path).expect("a source");
        // Explanations of codes have their own test.
        if path.ends_with("codes.rs") || !has_command(&source) {
            continue;
        }
        for literal in literals(&source).iter().filter(|literal| has_command(literal)) {
            let is_printed = printed.iter().any(|remedy| is_made_by(remedy, literal));
            let is_known = NOT_PRINTED.iter().any(|(text, _)| literal.contains(text));
            if !is_printed && !is_known {
                missing += &format!("{}: \"{literal}\"\n", path.display());
            }
        }
    }
    assert!(missing.is_empty(), "no case of this test prints\n{missing}");
}

#[test]
fn every_code_with_a_command_has_a_case() {
    for row in base::codes::CODES.iter().filter(|row| has_command(row.explanation)) {
        let is_known = NOT_PROVOKED.iter().any(|(code, _)| *code == row.code)
            || CASES.iter().any(|case| case.code == row.code);
        assert!(is_known, "{}: {}", row.code, row.explanation);
    }
}

#[test]
fn literals_are_found_and_compared() {
    let source = "// \"no\"\nlet x = format!(\"give `--a {}=F`, \\\n   or\"); '\"'; f(\"two\");\n";
    assert_eq!(literals(source), ["give `--a {}=F`, or", "two"]);
    assert!(is_made_by("give `--a b=F`, or", "give `--a {}=F`, or"));
    assert!(is_made_by("run `tilewright info a.onnx` now", "`tilewright info MODEL` now"));
    assert!(!is_made_by("give `--a b=G`", "give `--a {}=F`"));
    assert_eq!(steps_of("leave out `--a` or `it`, `--b 1`"), [("--a", true), ("--b 1", false)]);
    assert_eq!(words("a 'b c' --d='e f'"), ["a", "b c", "--d=e f"]);
}
