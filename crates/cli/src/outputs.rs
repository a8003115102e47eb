//! Prints tensors, and writes them to a folder.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use base::Result;
use tensor::{Keys, StagedFiles, Tensor};

/// Elements of a tensor that are printed.
const FIRST_VALUES: usize = 8;

/// `name: f32[1, 10] = 0.1, 2.5, …`
pub(crate) fn summary(name: &str, tensor: &Tensor) -> String {
    let mut text = format!("{name}: {}{:?} =", tensor.dtype(), tensor.shape());
    let first = FIRST_VALUES.min(tensor.len());
    for index in 0..first {
        let separator = if index == 0 { "" } else { "," };
        let value = match tensor.strings() {
            Some(strings) => format!("{:?}", strings[index]),
            None => tensor.get_scalar(index).to_string(),
        };
        let _ = write!(text, "{separator} {value}");
    }
    if tensor.len() > first {
        text.push_str(", …");
    }
    text
}

/// `"a", "b"`
pub(crate) fn keys(keys: &Keys) -> String {
    let texts: Vec<String> = match keys {
        Keys::Integers(numbers) => numbers.iter().map(i64::to_string).collect(),
        Keys::Strings(texts) => texts.iter().map(|text| format!("{text:?}")).collect(),
    };
    texts.join(", ")
}

/// Writes each tensor as `<name>.npy`. Characters other than letters, digits, `.`, `_` and `-`
/// become `_`; of equal names the second gets `_2`, and so on.
///
/// # Errors
/// The folder cannot be made, or a file cannot be written; then none is.
pub(crate) fn write(folder: &Path, names: &[String], tensors: &[Tensor]) -> Result<()> {
    let mut files = StagedFiles::in_folder(folder)?;
    for (name, tensor) in file_names(names).iter().zip(tensors) {
        files.write(folder.join(name), |file| tensor::npy::encode_to(tensor, file))?;
    }
    files.commit()
}

fn file_names(names: &[String]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let mut files = Vec::new();
    for name in names {
        let stem = sanitised(name);
        let mut file = format!("{stem}.npy");
        let mut number = 2;
        while !taken.insert(file.clone()) {
            file = format!("{stem}_{number}.npy");
            number += 1;
        }
        files.push(file);
    }
    files
}

fn sanitised(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let stem: String = name.chars().map(|c| if allowed(c) { c } else { '_' }).collect();
    if stem.chars().all(|c| c == '.') { format!("_{stem}") } else { stem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_distinct_and_stay_in_the_folder() {
        let names = ["a/b", "a_b", "a b", "..", "ä"].map(String::from);
        assert_eq!(file_names(&names), ["a_b.npy", "a_b_2.npy", "a_b_3.npy", "_...npy", "_.npy"]);
    }
}
