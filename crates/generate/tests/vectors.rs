//! Tokenizers on the texts and tokens that the llama.cpp project keeps beside vocabularies:
//! `ggml-vocab-NAME.gguf`, `.inp` (texts between lines of `__ggml_vocab_test__`) and `.out` (the
//! tokens of each on a line). The folder that holds them is named by TILEWRIGHT_VOCABULARIES; where
//! it is not, there is nothing to compare.

use std::fs;
use std::path::{Path, PathBuf};

use base::Limits;
use generate::TextTokenizer;
use tilewright::compiled::ModelFile;

/// What stands between texts.
const BETWEEN: &str = "\n__ggml_vocab_test__\n";

#[test]
fn tokens_are_those_of_the_vectors() {
    let Some(folder) = std::env::var_os("TILEWRIGHT_VOCABULARIES").map(PathBuf::from) else {
        return eprintln!("skipped: TILEWRIGHT_VOCABULARIES names no folder");
    };
    let (mut wrong, mut equal) = (Vec::new(), 0);
    let entries = fs::read_dir(&folder).expect("a folder").flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|it| it == "gguf")) {
        let beside = |end: &str| PathBuf::from(format!("{}{end}", path.display()));
        if !beside(".inp").exists() {
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match compare(path, &beside(".inp"), &beside(".out")) {
            Ok((texts, found)) if found.is_empty() => {
                eprintln!("{name}: all {texts} texts");
                equal += 1;
            }
            Ok((texts, found)) => {
                wrong.push(format!("{name}: {} of {texts}: {}", found.len(), found[0]))
            }
            Err(refused) => eprintln!("{name}: refused: {refused}"),
        }
    }
    assert!(wrong.is_empty() && equal > 0, "{equal} equal\n{}", wrong.join("\n"));
}

/// How many texts there are, and what is wrong with some.
fn compare(model: &Path, texts: &Path, tokens: &Path) -> Result<(usize, Vec<String>), String> {
    let file = ModelFile::read(fs::read(model).expect("a file").into(), &Limits::default());
    let tokenizer = TextTokenizer::of(&file.map_err(|found| found.to_string())?);
    let tokenizer = tokenizer.map_err(|found| found.to_string())?;
    let texts = fs::read_to_string(texts).expect("texts");
    let tokens = fs::read_to_string(tokens).expect("tokens");
    let mut wrong = Vec::new();
    let mut count = 0;
    for (text, line) in texts.split(BETWEEN).zip(tokens.lines()) {
        let wanted: Vec<u32> =
            line.split_whitespace().map(|id| id.parse().expect("a token")).collect();
        let found = tokenizer.encode_plain_text(text);
        count += 1;
        if found != wanted {
            wrong.push(format!("{text:?}: {found:?}, not {wanted:?}"));
        }
    }
    Ok((count, wrong))
}
