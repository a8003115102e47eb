//! What was found, as files of a folder: outlines with what they showed, a file each.
//!
//! The name of a file is that of the finding, the last core part, and a digest of the outline.
//! Files whose outlines show nothing any more stay, so that they are measured again by every run.

use std::path::{Path, PathBuf};

use crate::figures::Finding;
use crate::outline::Outline;
use crate::parts;
use crate::results::Reduced;

/// A kept finding.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// Its file.
    pub path: PathBuf,
    /// What it showed when it was kept.
    pub finding: Finding,
    /// The model.
    pub outline: Outline,
}

/// All of a folder, in the order of their names.
///
/// # Errors
/// A file that cannot be read, or holds something else.
pub(crate) fn read(folder: &Path) -> Result<Vec<Kept>, String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    paths.into_iter().map(read_one).collect()
}

fn read_one(path: PathBuf) -> Result<Kept, String> {
    let in_file = |reason: String| format!("{}: {reason}", path.display());
    let text = std::fs::read_to_string(&path).map_err(|error| in_file(error.to_string()))?;
    let outline = Outline::parse(&text).map_err(in_file)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_named = |finding: &Finding| name.starts_with(finding.word());
    let finding = Finding::ALL.into_iter().find(is_named);
    let finding = finding.ok_or_else(|| in_file("its name begins with no finding".to_owned()))?;
    Ok(Kept { finding, outline, path })
}

/// Keeps a finding, unless one of its kind is; gives its file.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn keep(
    folder: &Path,
    reduced: &Reduced,
    about: &str,
) -> Result<Option<PathBuf>, String> {
    let Reduced { finding, outline, figures } = reduced;
    let is_alike = |kept: &Kept| kept.finding == *finding && kept.outline.kind() == outline.kind();
    if read(folder)?.iter().any(is_alike) {
        return Ok(None);
    }
    let text = outline.to_string();
    let is_core = |name: &&str| parts::row(name).is_some_and(|row| row.as_core > 0);
    let mut names = outline.parts.iter().rev().map(|part| part.name.as_str());
    let core = names.clone().find(is_core).or_else(|| names.next()).unwrap_or("nothing");
    let name = format!("{}-{}-{}-{:08x}.txt", finding.word(), outline.dtype, core, digest(&text));
    let path = folder.join(name);
    let (found, _) = finding.of(figures);
    let content = format!("# {} {found:.2}: {}\n# {about}\n{text}", finding.word(), figures.line());
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(folder).map_err(failed)?;
    std::fs::write(&path, content).map_err(failed)?;
    Ok(Some(path))
}

/// 32 bits of FNV-1a: Fowler, Noll and Vo, "The FNV Non-Cryptographic Hash Algorithm".
fn digest(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figures;

    fn reduced(text: &str) -> Reduced {
        let outline = Outline::parse(text).expect("an outline");
        Reduced { finding: Finding::Slow, outline, figures: Figures::default() }
    }

    #[test]
    fn one_of_a_kind_is_kept() {
        let folder = testkit::Folder::new();
        let keep = |text| keep(folder.path(), &reduced(text), "where it is from").expect("kept");
        let path = keep("input f32 7,3\nsoftmax f=Softmax axis=0\nmap f=Relu\n").expect("new");
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        assert!(name.starts_with("slow-f32-map-"), "{name}");
        assert!(keep("input f32 9,3\nsoftmax f=Softmax axis=1\nmap f=Relu\n").is_none());
        assert!(keep("input f64 9,3\nsoftmax f=Softmax axis=1\nmap f=Relu\n").is_some());
        let all = read(folder.path()).expect("read");
        assert_eq!(all.len(), 2);
        assert!(all.iter().all(|kept| kept.finding == Finding::Slow));
    }
}
