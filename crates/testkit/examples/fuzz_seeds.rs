//! Seeds and a dictionary for the fuzz targets.
//!
//!     cargo run -p tilewright-testkit --example fuzz_seeds -- FOLDER SOURCE...
//!
//! Seeds are the models in folders that the caller names, and those of the importer's text tests,
//! each in a file that is called by a hash of what it holds; of a model that is large the weights
//! become inputs, and what is large even then is left out. The dictionary holds the operators'
//! names, and the names and words of attributes found in the seeds.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::ExitCode;

use import_onnx::proto::{GraphProto, ModelProto};
use prost::Message;
use testkit::mutation::weights_to_inputs;
use testkit::onnx_text::models_in;

/// The largest seed, and from where on weights become inputs.
const LARGEST: usize = 1 << 17;
const WITH_WEIGHTS: usize = 1 << 14;
/// What has more elements is a weight.
const WEIGHT: i64 = 64;
/// Where the importer's text tests are.
const TEXTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../import-onnx/tests/texts");

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, sources @ ..] = words.as_slice() else {
        eprintln!("fuzz_seeds FOLDER SOURCE...");
        return ExitCode::from(2);
    };
    match write(Path::new(folder), sources) {
        Ok((seeds, left_out)) => {
            println!("{seeds} seeds, {left_out} models left out as too large");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("fuzz_seeds: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the seeds to the folder `seeds`, and the file `dictionary` beside it.
fn write(folder: &Path, sources: &[String]) -> std::io::Result<(usize, usize)> {
    let mut seeds: BTreeSet<Vec<u8>> =
        models_in(Path::new(TEXTS))?.iter().map(Message::encode_to_vec).collect();
    let mut left_out = 0;
    for source in sources {
        collect(Path::new(source), &mut seeds, &mut left_out)?;
    }
    let place = folder.join("seeds");
    std::fs::create_dir_all(&place)?;
    let mut words: BTreeSet<String> =
        import_onnx::supported_operators().iter().map(|row| row.name.to_owned()).collect();
    for seed in &seeds {
        if let Ok(ModelProto { graph: Some(graph), .. }) = ModelProto::decode(&seed[..]) {
            add_words(&graph, &mut words);
        }
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        std::fs::write(place.join(format!("{:016x}", hasher.finish())), seed)?;
    }
    let mut dictionary = String::new();
    for word in words {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if !word.is_empty() && word.len() <= 64 && word.bytes().all(is_plain) {
            // As it stands in a message: after its length.
            let _ = writeln!(dictionary, "\"\\x{:02x}{word}\"", word.len());
        }
    }
    std::fs::write(folder.join("dictionary"), dictionary)?;
    Ok((seeds.len(), left_out))
}

/// Adds the models in a folder and the folders in it. What is no model is a seed as well: a file
/// that is damaged.
fn collect(
    folder: &Path,
    seeds: &mut BTreeSet<Vec<u8>>,
    left_out: &mut usize,
) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, seeds, left_out)?;
        } else if path.extension().is_some_and(|extension| extension == "onnx") {
            let mut bytes = std::fs::read(path)?;
            if bytes.len() > WITH_WEIGHTS
                && let Ok(mut model) = ModelProto::decode(&bytes[..])
            {
                weights_to_inputs(&mut model, WEIGHT);
                bytes = model.encode_to_vec();
            }
            match bytes.len() {
                ..=LARGEST => _ = seeds.insert(bytes),
                _ => *left_out += 1,
            }
        }
    }
    Ok(())
}

fn add_words(graph: &GraphProto, words: &mut BTreeSet<String>) {
    for attribute in graph.node.iter().flat_map(|node| &node.attribute) {
        words.insert(attribute.name.clone());
        words.extend(String::from_utf8(attribute.s.to_vec()).ok());
        for inner in attribute.g.as_deref().into_iter().chain(&attribute.graphs) {
            add_words(inner, words);
        }
    }
}
