//! `cargo xtask`: the project's own chores.
//!
//! `tidy` checks what the compiler cannot (direction of dependencies, file headers and sizes,
//! where `unsafe` may stand); `peak` measures what this machine can do, so that every figure can
//! be set against a ceiling taken in the same minute; `operators` and `diagnostics` write the pages
//! of `docs` that are generated from tables in the code; `conformance` runs the official cases;
//! `cliffs` looks for models that are slow; `explorer` looks at the explorer's page in a browser;
//! `wheel` builds the Python package, `jax-wheel` JAX's plugin.

mod cliffs;
mod conformance;
mod explorer;
mod pages;
#[cfg(target_arch = "x86_64")]
mod peak;
mod tidy;
mod wheel;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  tidy            check layers, file headers, file sizes, dependency reasons, unsafe, unwrap
  peak [--json]   measure this machine's ceilings: arithmetic and memory (x86-64)
  operators       write docs/operators.md from the importer's table
  diagnostics     write docs/diagnostics.md from the table of codes
  conformance [--bless] [OPTIONS]
                  run the official cases of ONNX, compiled and evaluated, against the lists
                  in conformance/; with --target c99 as C sources alone
  cliffs --seed S --count N [OPTIONS]
                  random small models beside their predictions and other engines
                  (bench/README.md); the rest of its options without any
  explorer [OPTIONS] [MODEL...]
                  the explorer's page in a headless browser; skipped aloud where there is none
  wheel [DIR]     build the Python package into DIR (dist): needs maturin and ziglang of PyPI
  jax-wheel [DIR] build JAX's plugin into DIR (dist)";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy"] => tidy::main(),
        ["operators"] => pages::OPERATORS.write(),
        ["diagnostics"] => pages::DIAGNOSTICS.write(),
        ["conformance", rest @ ..] => conformance::main(rest),
        ["cliffs", rest @ ..] => cliffs::main(rest),
        ["explorer", rest @ ..] => explorer::main(rest),
        ["wheel"] => wheel::main("dist"),
        ["wheel", folder] => wheel::main(folder),
        ["jax-wheel"] => wheel::jax("dist"),
        ["jax-wheel", folder] => wheel::jax(folder),
        #[cfg(target_arch = "x86_64")]
        ["peak"] => peak::main(false),
        #[cfg(target_arch = "x86_64")]
        ["peak", "--json"] => peak::main(true),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
