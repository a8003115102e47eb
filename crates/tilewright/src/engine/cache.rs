//! The compile cache: engine files in a folder, found again by what they were compiled of.
//!
//! An entry is named after a digest of its *key*: the model's identity or content, the options that
//! decide code, the target, the compiler. The key itself lies in the entry, beside the identities
//! of the files of external data, so that neither two keys of one digest nor other data can be
//! taken for each other.
//!
//! Entries are written under another name, handed to the disk and renamed: whoever is interrupted
//! at whatever byte leaves no entry, and processes that write the same one replace each other's
//! equal work. An engine's head is checked whenever it is loaded. Its constants are checked unless
//! a *seal* beside the entry says that the file is the very one that was written (same number,
//! size and time of its last change): a file that somebody has changed has another time.
//!
//! Times of change are as coarse as the system's clock tick. So a model that has changed within the
//! last ticks is compiled, but not kept: it might change once more without its time doing so.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use base::{Diagnostic, InOrder, Result, codes};
use engine::{Damage, Decoder, Encoder, EngineFile, digest};
use tensor::StagedFile;

use super::{EngineSource, describe, load, section};
use crate::compile::compile_source;
use crate::executable::Executable;
use crate::options::Options;
use crate::source::Source;

/// Where compiled models are kept for the next process that compiles them.
#[derive(Clone, Debug)]
pub struct EngineCache {
    /// The folder, which is made if it is not there.
    pub folder: PathBuf,
    /// Whether a model is known by its bytes, which are read for that, rather than by the identity
    /// of its file: device, number, size, and time of the last change.
    pub by_content: bool,
    /// The most bytes that all entries take; what was used longest ago leaves first.
    pub most_bytes: u64,
    /// Is told, once a process, why the cache cannot be used; what is compiled works without.
    pub report: Option<fn(&Diagnostic)>,
}

/// The most bytes of all entries, unless something else is said.
const MOST_BYTES: u64 = 4 << 30;

/// A file that has changed since may change again without another time.
const TICKS: Duration = Duration::from_millis(50);

/// Files that are older and have not been renamed are nobody's any more.
const ABANDONED: Duration = Duration::from_secs(600);

/// What an entry is found by.
struct Key {
    bytes: Vec<u8>,
    by_content: bool,
    /// The model's file, as it was when the key was made.
    identity: [u8; IDENTITY],
}

/// Bytes of a file's identity.
const IDENTITY: usize = 40;

impl EngineCache {
    /// A cache in this folder, by identity, of 4 GiB at most, which reports nothing.
    #[must_use]
    pub fn in_folder(folder: impl Into<PathBuf>) -> EngineCache {
        let folder = folder.into();
        EngineCache { folder, by_content: false, most_bytes: MOST_BYTES, report: None }
    }

    /// Loads what has been compiled of the model, or compiles it and keeps that.
    ///
    /// # Errors
    /// Those of the compile. What is wrong with the cache is reported, not returned.
    pub(crate) fn compile(&self, model: &Path, options: &Options) -> Result<Executable> {
        let read = || options.phases.time("import", || Source::read(model, &options.limits));
        let key = self.key(model, options);
        if let Some(key) = &key
            && let Some(found) = options.phases.time("cache", || self.find(key, model, options))
        {
            return Ok(found);
        }
        let source = read()?;
        if matches!(source, Source::Engine(_)) {
            return compile_source(source, options);
        }
        let executable = compile_source(source.clone(), options)?;
        if let Some(key) = key
            && executable.has_code_to_save()
        {
            let keep = || self.keep(&key, model, &source, &executable);
            if let Err(found) = options.phases.time("cache", keep) {
                self.tell(&found);
            }
        }
        Ok(executable)
    }

    fn key(&self, model: &Path, options: &Options) -> Option<Key> {
        let identity = identity(model)?;
        let target = options.target.resolve().ok()?;
        let mut encoder = Encoder::new();
        encoder.bytes(compiler()?);
        encoder.text(&format!("{target:?}"));
        describe::options(&mut encoder, options);
        encoder.text(&format!("{:?}", options.limits));
        encoder.flag(self.by_content);
        match self.by_content {
            true => encoder.bytes(&content(model)?),
            false => encoder.bytes(&identity),
        }
        Some(Key { bytes: encoder.finish(), by_content: self.by_content, identity })
    }

    fn entry(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{:032x}.tw", digest(&key.bytes)))
    }

    /// The entry of a key, if it is as it was written; one that is not is removed.
    fn find(&self, key: &Key, model: &Path, options: &Options) -> Option<Executable> {
        let path = self.entry(key);
        let file = self.sound(&path)?;
        let section = file.optional_section(section::KEY)?;
        if !fits(&section, key, model).unwrap_or(false) {
            return None;
        }
        let mut source = EngineSource::of(file).ok()?;
        source.origin = Some(model.to_owned());
        load::load(Arc::new(source), options).ok()
    }

    /// The file of an entry, if it is there and as it was written; one that is not is removed.
    fn sound(&self, path: &Path) -> Option<EngineFile> {
        let its = identity(path)?;
        let is_sealed = fs::read(seal_of(path)).is_ok_and(|sealed| sealed == its);
        let opened = EngineFile::open(path).and_then(|file| {
            if !is_sealed {
                file.check_constants()?;
            }
            Ok(file)
        });
        let is_damaged = |found: &base::Diagnostics| {
            found.iter().any(|found| found.code != codes::CANNOT_READ_FILE)
        };
        match opened {
            Ok(file) if is_sealed => {
                // Best effort: it tells what was used last.
                let seal = File::options().write(true).open(seal_of(path));
                let _ = seal.and_then(|seal| seal.set_modified(SystemTime::now()));
                Some(file)
            }
            Ok(file) => {
                let _ = self.seal(path, its);
                Some(file)
            }
            Err(found) => {
                // It is written anew in a moment; another may just have done that.
                if is_damaged(&found) && identity(path) == Some(its) {
                    let _ = fs::remove_file(path);
                }
                None
            }
        }
    }

    fn keep(&self, key: &Key, model: &Path, source: &Source, made: &Executable) -> Result<()> {
        let age = fs::metadata(model).and_then(|model| model.modified()).ok();
        let age = age.and_then(|time| SystemTime::now().duration_since(time).ok());
        if age.is_none_or(|age| age < TICKS) || identity(model) != Some(key.identity) {
            return Ok(());
        }
        let mut encoder = Encoder::new();
        encoder.bytes(&key.bytes);
        let Some(external) = external(source, model, key.by_content) else { return Ok(()) };
        encoder.list(&external, |encoder, (name, identity)| {
            encoder.text(name);
            encoder.bytes(identity);
        });
        fs::create_dir_all(&self.folder).map_err(|error| cannot_keep(&self.folder, &error))?;
        let path = self.entry(key);
        let mut is_written = false;
        made.with_draft(&mut |draft| {
            draft.section(section::KEY, std::mem::take(&mut encoder).finish());
            if draft.constant_bytes() as u64 > self.most_bytes / 2 {
                return Ok(());
            }
            is_written = true;
            write_whole(&path, |file| {
                let mut writer = StagedFile::new(file);
                draft.write(&mut writer)?;
                writer.finish()?.sync_all()
            })
            .map_err(|error| cannot_keep(&path, &error).into())
        })?;
        if let Some(its) = identity(&path).filter(|_| is_written) {
            self.seal(&path, its).map_err(|error| cannot_keep(&path, &error))?;
        }
        self.make_room(&path);
        Ok(())
    }

    /// Says beside an entry that it is as it was written.
    fn seal(&self, path: &Path, identity: [u8; IDENTITY]) -> std::io::Result<()> {
        write_whole(&seal_of(path), |mut file| file.write_all(&identity))
    }

    /// Removes entries that were used longest ago until the rest is small enough; all but one.
    fn make_room(&self, newest: &Path) {
        let Ok(files) = fs::read_dir(&self.folder) else { return };
        let (mut entries, mut total) = (Vec::new(), 0);
        for file in files.flatten() {
            let path = file.path();
            let Ok(metadata) = file.metadata() else { continue };
            let time = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
            let is_old = |time: SystemTime| time.elapsed().is_ok_and(|age| age > ABANDONED);
            match path.extension().and_then(|kind| kind.to_str()) {
                Some("tw") => {
                    let used = time(&seal_of(&path)).or_else(|| metadata.modified().ok());
                    total += metadata.len();
                    entries.push((used, metadata.len(), path));
                }
                Some("tmp") if metadata.modified().is_ok_and(is_old) => {
                    let _ = fs::remove_file(&path);
                }
                _ => {}
            }
        }
        entries.put_in_order();
        for (_, bytes, path) in entries {
            if total <= self.most_bytes {
                return;
            }
            if path != newest && fs::remove_file(&path).is_ok() {
                let _ = fs::remove_file(seal_of(&path));
                total -= bytes;
            }
        }
    }

    fn tell(&self, found: &base::Diagnostics) {
        static TOLD: OnceLock<()> = OnceLock::new();
        if let (Some(report), Some(first)) = (self.report, found.iter().next())
            && TOLD.set(()).is_ok()
        {
            report(first);
        }
    }
}

/// Writes a file beside its place and moves it there, or leaves nothing.
fn write_whole(
    path: &Path,
    write: impl FnOnce(File) -> std::io::Result<()>,
) -> std::io::Result<()> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.{number}.tmp", std::process::id()));
    let written =
        File::create_new(&temporary).and_then(write).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn cannot_keep(path: &Path, error: &std::io::Error) -> Diagnostic {
    Diagnostic::warning(codes::CANNOT_WRITE_FILE, "the compile cache cannot be written")
        .at(path.display().to_string())
        .because(error.to_string())
        .remedy("name another folder for it, or do without")
}

fn seal_of(entry: &Path) -> PathBuf {
    entry.with_extension("seal")
}

/// Whether an entry is of this key, and its files of external data are what they were.
fn fits(section: &[u8], key: &Key, model: &Path) -> std::result::Result<bool, Damage> {
    let mut decoder = Decoder::new(section);
    if decoder.bytes()? != key.bytes {
        return Ok(false);
    }
    let external: Vec<(&str, &[u8])> =
        decoder.list(|decoder| Ok((decoder.text()?, decoder.bytes()?)))?;
    decoder.end()?;
    let is_same = |(name, its): (&str, &[u8])| {
        told(&model.with_file_name(name), key.by_content).is_some_and(|now| now == its)
    };
    Ok(external.into_iter().all(is_same))
}

/// What the model's files of external data are, by their names from its folder; none if one cannot
/// be told.
fn external(source: &Source, model: &Path, by_content: bool) -> Option<Vec<(String, Vec<u8>)>> {
    let names = source.external_files();
    let tell = |name: String| {
        let path = model.with_file_name(&name);
        let is_settled = fs::metadata(&path).and_then(|file| file.modified()).ok()?;
        let age = SystemTime::now().duration_since(is_settled).ok()?;
        let told = told(&path, by_content).filter(|_| age >= TICKS)?;
        Some((name, told))
    };
    names.into_iter().map(tell).collect()
}

/// A file, by its content or its identity.
fn told(path: &Path, by_content: bool) -> Option<Vec<u8>> {
    match by_content {
        true => content(path),
        false => identity(path).map(Vec::from),
    }
}

/// The size and the digest of a file's bytes.
fn content(path: &Path) -> Option<Vec<u8>> {
    let bytes = front::read_model_file(path).ok()?;
    let mut encoder = Encoder::new();
    encoder.number(bytes.len() as u64);
    encoder.bytes(&digest(&bytes).to_le_bytes());
    Some(encoder.finish())
}

/// The device, number, size and last change of a plain file.
#[cfg(unix)]
fn identity(path: &Path) -> Option<[u8; IDENTITY]> {
    use std::os::unix::fs::MetadataExt as _;

    let file = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let numbers =
        [file.dev(), file.ino(), file.size(), file.ctime() as u64, file.ctime_nsec() as u64];
    let mut bytes = [0; IDENTITY];
    for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    Some(bytes)
}

/// What tells files apart is not known here: nothing is kept.
#[cfg(not(unix))]
fn identity(_: &Path) -> Option<[u8; IDENTITY]> {
    None
}

/// The file that this code was loaded from, the program or a library, by its identity: another
/// build of the compiler makes other code.
fn compiler() -> Option<&'static [u8]> {
    static COMPILER: OnceLock<Option<[u8; IDENTITY]>> = OnceLock::new();
    let find = || {
        let here = compiler as fn() -> Option<&'static [u8]> as usize;
        let maps = fs::read_to_string("/proc/self/maps").ok()?;
        let path = maps.lines().find_map(|line| {
            let (start, rest) = line.split_once('-')?;
            let (end, rest) = rest.split_once(' ')?;
            let [start, end] = [start, end].map(|it| usize::from_str_radix(it, 16).ok());
            let path = &rest[rest.find('/')?..];
            (start? <= here && here < end?).then_some(path)
        })?;
        identity(Path::new(path))
    };
    COMPILER.get_or_init(find).as_ref().map(|it| &it[..])
}
