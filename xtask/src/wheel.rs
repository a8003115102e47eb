//! `cargo xtask wheel` and `cargo xtask jax-wheel`: the Python package, and JAX's plugin, as files
//! that `pip install` takes.
//!
//! The plugin needs no Python to be built; `crates/pjrt/wheel.py` packs it. maturin builds the
//! package's, with zig for a linker: so the extension asks for no newer glibc than 2.17, and its
//! tag is `cp39-abi3-manylinux2014_x86_64`, on whatever system it is built. A wheel of more than
//! [`MOST_BYTES`], or [`MOST_PLUGIN_BYTES`], is refused.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::SystemTime;

/// What a wheel may take.
const MOST_BYTES: u64 = 8_000_000;

/// What the plugin's may take.
const MOST_PLUGIN_BYTES: u64 = 5 << 20;

/// Builds the plugin's wheel into a folder, and says where it lies and what it takes.
pub(crate) fn jax(folder: &str) -> ExitCode {
    told(build_plugin(Path::new(folder)))
}

fn build_plugin(folder: &Path) -> Result<(PathBuf, u64), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let run = |command: &mut Command, what: &str| match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what}: {status}")),
        Err(error) => Err(format!("cannot run {what}: {error}")),
    };
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "-p", "tilewright-pjrt"]);
    cargo.args(["--config", "profile.release.strip=true"]).current_dir(&root);
    run(&mut cargo, "cargo")?;
    let mut pack = Command::new("python3");
    let script = root.join("crates/pjrt/wheel.py");
    let library = target.join("release/libtilewright_pjrt.so");
    run(pack.arg(script).arg(library).arg(folder), "python3")?;
    at_most(newest_wheel(folder)?, MOST_PLUGIN_BYTES)
}

/// Builds the wheel into a folder, and says where it lies and what it takes.
pub(crate) fn main(folder: &str) -> ExitCode {
    told(build(Path::new(folder)))
}

fn told(built: Result<(PathBuf, u64), String>) -> ExitCode {
    match built {
        Ok((path, bytes)) => {
            println!("{}: {bytes} bytes", path.display());
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("wheel: {message}");
            ExitCode::FAILURE
        }
    }
}

fn build(folder: &Path) -> Result<(PathBuf, u64), String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/python/Cargo.toml");
    let status = Command::new("maturin")
        .args(["build", "--release", "--zig", "--locked", "--manifest-path"])
        .arg(manifest)
        .arg("--out")
        .arg(folder)
        .status()
        .map_err(|error| format!("cannot run maturin: {error}; `pip install maturin ziglang`"))?;
    if !status.success() {
        return Err(format!("maturin: {status}"));
    }
    at_most(newest_wheel(folder)?, MOST_BYTES)
}

/// The wheel, if it takes no more than this.
fn at_most((path, bytes): (PathBuf, u64), most: u64) -> Result<(PathBuf, u64), String> {
    match bytes > most {
        true => Err(format!("{} takes {bytes} bytes; at most {most}", path.display())),
        false => Ok((path, bytes)),
    }
}

/// The wheel that was written last, and its size.
fn newest_wheel(folder: &Path) -> Result<(PathBuf, u64), String> {
    let cannot = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut newest: Option<(SystemTime, PathBuf, u64)> = None;
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.extension().is_none_or(|extension| extension != "whl") {
            continue;
        }
        let metadata = path.metadata().map_err(cannot)?;
        let written = metadata.modified().map_err(cannot)?;
        if newest.as_ref().is_none_or(|(before, ..)| *before < written) {
            newest = Some((written, path, metadata.len()));
        }
    }
    let found = newest.map(|(_, path, bytes)| (path, bytes));
    found.ok_or_else(|| format!("maturin left no wheel in {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_wheel_is_found_and_others_are_not() {
        let name = format!("tilewright-wheels-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        assert!(newest_wheel(&folder).unwrap_err().contains("left no wheel"));
        std::fs::write(folder.join("notes.txt"), "no wheel").unwrap();
        std::fs::write(folder.join("a.whl"), "one").unwrap();
        let found = newest_wheel(&folder).unwrap();
        assert_eq!(found, (folder.join("a.whl"), 3));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
