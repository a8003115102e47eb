//! Outputs to files: arrays, archives, JSON.
//!
//! An array file holds one tensor. A map takes two, its keys and its numbers; a list of maps the
//! same, with a row of numbers a map; sequences one for each of their tensors.

mod json;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base::remedies::use_instead;
use base::{Diagnostic, Result, codes};
use tensor::{StagedFiles, Tensor, Value};
use tilewright::Port;

use crate::given::split_name;
use crate::sentences::quoted;

/// Where outputs go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The output that is meant; all of them if none is said.
    pub name: Option<String>,
    /// Where to.
    pub place: OutputPlace,
    /// In which form.
    pub format: OutputFormat,
}

/// A file, a folder or standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputPlace {
    /// A file.
    File(PathBuf),
    /// A folder, with an array file an output.
    Folder(PathBuf),
    /// Standard output.
    StandardOutput,
}

/// How outputs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// An array; of one output that is one tensor or a map.
    Npy,
    /// Arrays with names.
    Npz,
    /// An object by names: of a tensor `dtype`, `shape` and nested lists, `data`; of a map an
    /// object from its keys.
    Json,
}

impl OutputFormat {
    fn of_extension(extension: &str) -> Option<OutputFormat> {
        match extension.to_ascii_lowercase().as_str() {
            "npy" => Some(OutputFormat::Npy),
            "npz" => Some(OutputFormat::Npz),
            "json" => Some(OutputFormat::Json),
            _ => None,
        }
    }
}

impl Destination {
    /// Reads `FILE.npz`, `FILE.json`, `NAME=FILE.npy` and their like; `-` is JSON to standard
    /// output, `-:npz` another format.
    ///
    /// # Errors
    /// `TW0301` for a file of no known format.
    pub fn parse(text: &str, outputs: &[Port]) -> Result<Destination> {
        let (name, rest) = split_name(text, outputs);
        let name = name.map(str::to_owned);
        let standard = match rest {
            "-" => Some("json"),
            _ => rest.strip_prefix("-:"),
        };
        let path = PathBuf::from(rest);
        let extension = standard.or_else(|| path.extension()?.to_str());
        let format = extension.and_then(OutputFormat::of_extension).ok_or_else(|| {
            Diagnostic::error(codes::CANNOT_WRITE_FILE, "outputs are not written in this format")
                .at(rest)
                .because("the formats are `.npy`, `.npz` and `.json`")
                .remedy("name the file so, or give a folder, such as `--output-dir outputs`")
        })?;
        let place = match standard {
            Some(_) => OutputPlace::StandardOutput,
            None => OutputPlace::File(path),
        };
        Ok(Destination { name, place, format })
    }

    /// A folder for all outputs.
    #[must_use]
    pub fn folder(path: &Path) -> Destination {
        Destination {
            name: None,
            place: OutputPlace::Folder(path.to_owned()),
            format: OutputFormat::Npy,
        }
    }
}

/// An output with its name.
type Named = (String, Value);

/// The outputs that a destination is for.
///
/// # Errors
/// `TW0214` for a name that no output has, and for an array file of something else than one output
/// that is one tensor or a map.
pub fn select(outputs: &[Named], destination: &Destination) -> Result<Vec<Named>> {
    let names = quoted(outputs.iter().map(|(name, _)| name));
    let refuse = |message: String, reason: String, remedy: String| {
        let found = Diagnostic::error(codes::UNSUITABLE_OUTPUT, message).because(reason);
        found.remedy(remedy).at(match &destination.place {
            OutputPlace::File(path) | OutputPlace::Folder(path) => path.display().to_string(),
            OutputPlace::StandardOutput => "standard output".to_owned(),
        })
    };
    let chosen: Vec<Named> = match &destination.name {
        None => outputs.to_vec(),
        Some(name) => outputs.iter().filter(|output| output.0 == *name).cloned().collect(),
    };
    if let (Some(name), []) = (&destination.name, chosen.as_slice()) {
        let message = format!("the model has no output `{name}`");
        let reason = format!("its outputs are {names}");
        let known = outputs.iter().map(|(name, _)| name.as_str());
        return Err(refuse(message, reason, use_instead(name, known, str::to_owned)).into());
    }
    if destination.format == OutputFormat::Npy
        && !matches!(destination.place, OutputPlace::Folder(_))
    {
        let [(_, value)] = chosen.as_slice() else {
            let reason = format!("the model has {names}");
            let remedy = "name one, `NAME=FILE.npy`, or write all to an archive, `FILE.npz`";
            let message = "an array file takes one output".to_owned();
            return Err(refuse(message, reason, remedy.to_owned()).into());
        };
        let is_file = matches!(destination.place, OutputPlace::File(_));
        let is_map = matches!(value, Value::Map(..) | Value::Maps(..)) && is_file;
        if !is_map && !matches!(value, Value::Tensor(_)) {
            let message = "an array file takes one tensor".to_owned();
            let reason = "the output is made of several".to_owned();
            return Err(refuse(message, reason, "write JSON, or an archive, `.npz`".into()).into());
        }
    }
    Ok(chosen)
}

/// Writes outputs to files, all of them or none. What goes to standard output is the caller's, who
/// has [`encode`] for it.
///
/// # Errors
/// Those of [`select`]; `TW0301` when the system refuses.
pub fn write(outputs: &[Named], destinations: &[Destination]) -> Result<()> {
    let mut files = StagedFiles::new();
    for destination in destinations {
        let chosen = select(outputs, destination)?;
        match &destination.place {
            OutputPlace::StandardOutput => {}
            OutputPlace::Folder(folder) => {
                // Makes the folder; the files are those of all destinations.
                StagedFiles::in_folder(folder)?;
                write_arrays(&arrays(&chosen), folder, &mut files)?;
            }
            OutputPlace::File(path) => match (destination.format, chosen.as_slice()) {
                (
                    OutputFormat::Npy,
                    [(_, Value::Map(keys, tensor) | Value::Maps(keys, tensor))],
                ) => {
                    let keys = keys.clone().into_tensor();
                    let beside = path.with_extension("keys.npy");
                    files.write(path, |file| tensor::npy::encode_to(tensor, file))?;
                    files.write(beside, |file| tensor::npy::encode_to(&keys, file))?;
                }
                _ => files.write(path, |file| encode(&chosen, destination.format, file))?,
            },
        }
    }
    files.commit()
}

fn write_arrays(arrays: &[(String, Tensor)], folder: &Path, files: &mut StagedFiles) -> Result<()> {
    let names: Vec<&str> = arrays.iter().map(|(name, _)| name.as_str()).collect();
    for (file, (_, tensor)) in file_names(&names).iter().zip(arrays) {
        files.write(folder.join(file), |file| tensor::npy::encode_to(tensor, file))?;
    }
    Ok(())
}

/// Writes outputs in a format, as [`select`] gives them.
///
/// # Errors
/// Those of the writer.
pub fn encode(outputs: &[Named], format: OutputFormat, file: &mut impl Write) -> io::Result<()> {
    match format {
        OutputFormat::Json => json::encode(outputs, file),
        OutputFormat::Npz => tensor::npz::encode_to(&arrays(outputs), file),
        OutputFormat::Npy => {
            arrays(outputs).iter().try_for_each(|(_, tensor)| tensor::npy::encode_to(tensor, file))
        }
    }
}

/// The tensors of outputs with names, keys of maps as `NAME.keys`.
fn arrays(outputs: &[Named]) -> Vec<(String, Tensor)> {
    let mut arrays = Vec::new();
    for (name, value) in outputs {
        match value.clone() {
            Value::Map(keys, tensor) | Value::Maps(keys, tensor) => {
                arrays.push((name.clone(), tensor));
                arrays.push((format!("{name}.keys"), keys.into_tensor()));
            }
            other => {
                let names = other.structure().names(name);
                arrays.extend(names.into_iter().zip(other.into_tensors()));
            }
        }
    }
    arrays
}

/// `<name>.npy` for each. Characters other than letters, digits, `.`, `_` and `-` become `_`; of
/// equal names the second gets `_2`, and so on.
fn file_names(names: &[&str]) -> Vec<String> {
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
    use tensor::Keys;
    use testkit::Folder;

    fn outputs() -> Vec<Named> {
        let keys = Keys::Strings(vec!["no".to_owned(), "yes".to_owned()]);
        let scores = Tensor::from_slice(&[1, 2], &[0.25_f32, 0.75]);
        let label = Tensor::from_slice(&[1], &[7_i64]);
        vec![("label".to_owned(), label.into()), ("p".to_owned(), Value::Maps(keys, scores))]
    }

    #[test]
    fn file_names_are_distinct_and_stay_in_the_folder() {
        let names = ["a/b", "a_b", "a b", "..", "ä"];
        assert_eq!(file_names(&names), ["a_b.npy", "a_b_2.npy", "a_b_3.npy", "_...npy", "_.npy"]);
    }

    #[test]
    fn maps_keep_their_keys() {
        let folder = Folder::new();
        let archive = folder.path().join("all.npz");
        let parse = |text: &str| Destination::parse(text, &[]).expect("a destination");
        let destinations = [
            Destination::folder(&folder.path().join("out")),
            Destination { name: None, ..parse(&archive.display().to_string()) },
            Destination { name: Some("p".to_owned()), ..parse(&folder.file("q.npy")) },
        ];
        write(&outputs(), &destinations).expect("written");
        let read = |name: &str| tensor::npy::read(folder.path().join(name)).expect("an array");
        for name in ["out/p.keys.npy", "q.keys.npy"] {
            assert_eq!(read(name).strings().map(<[String]>::len), Some(2), "{name}");
        }
        assert_eq!(read("out/p.npy"), read("q.npy"));
        let names: Vec<String> =
            tensor::npz::read(archive).expect("an archive").into_iter().map(|it| it.0).collect();
        assert_eq!(names, ["label", "p", "p.keys"]);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_nothing_written() {
        let folder = Folder::new();
        let first = folder.path().join("a.json");
        let good = Destination::parse(&first.display().to_string(), &[]).expect("a destination");
        for (text, message) in [
            ("all.npy", "an array file takes one output"),
            ("q=x.json", "the model has no output `q`"),
            ("p=-:npy", "an array file takes one tensor"),
        ] {
            let bad = Destination::parse(text, &[]).expect("a destination");
            let found = write(&outputs(), &[good.clone(), bad]).expect_err("refused");
            assert_eq!(found[0].message, message);
            assert!(!first.exists());
        }
        assert!(Destination::parse("x.csv", &[]).is_err());
    }
}
