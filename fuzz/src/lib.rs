//! What the fuzz targets do with bytes; `crates/tilewright/tests/mutants.rs` does the same with a
//! bounded number of mutants in every test run.
//!
//! ```text
//! mkdir -p fuzz/corpus/compile fuzz/corpus/importer
//! n=0; find CASES -name model.onnx -size -64k | while read file; do n=$((n+1));
//!   cp $file fuzz/corpus/compile/$n; cp $file fuzz/corpus/importer/$n; done
//! cargo +nightly fuzz run importer -- -rss_limit_mb=2048 -timeout=10 -runs=10000000
//! cargo +nightly fuzz run compile -- -rss_limit_mb=2048 -timeout=10 -runs=200000
//! ```
//!
//! `CASES` is what `cargo xtask conformance` generates, or any folder of models. What is found is
//! a crash (a panic counts), a hang or too much memory; its cause gets a test of its own.

pub mod attempt;
