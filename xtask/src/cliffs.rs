//! `cargo xtask cliffs`: builds the performance fuzzer, pins it to a core, runs it, and measures
//! the machine's ceilings beside its figures.
//!
//! A model that ends the fuzzer's process is a result of that model: the fuzzer is started again,
//! and goes on behind it.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

/// The repository's root.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Runs it; what follows on the command line is the fuzzer's.
pub(crate) fn main(arguments: &[&str]) -> ExitCode {
    match run(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("cliffs: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the fuzzer ended well.
fn run(arguments: &[&str]) -> Result<bool, String> {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--release", "--package", "tilewright-cliffs"]);
    let built = build.current_dir(ROOT).status().map_err(|error| error.to_string())?;
    if !built.success() {
        return Err("it does not build".to_owned());
    }
    let mut arguments = arguments.to_vec();
    loop {
        let status = pinned(&program(), &arguments)?;
        if let Some(code) = status.code() {
            #[cfg(target_arch = "x86_64")]
            if code == 0 && arguments.contains(&"--count") {
                println!("ceilings of this machine, measured behind it:");
                super::peak::main(false);
            }
            return Ok(code == 0);
        }
        eprintln!("cliffs: {status}: it is started again, behind the model that did it");
        arguments.retain(|argument| *argument != "--fresh");
    }
}

/// Where cargo puts the binary.
fn program() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(ROOT).join("target"));
    target.join("release/cliffs")
}

/// Runs it on one core, where the system has a way to.
fn pinned(program: &Path, arguments: &[&str]) -> Result<ExitStatus, String> {
    let status = match last_core() {
        Some(core) => {
            let mut command = Command::new("taskset");
            command.args(["-c", &core]).arg(program).args(arguments).status()
        }
        None => {
            eprintln!("cliffs: it is not pinned to a core: there is no `taskset` here");
            Command::new(program).args(arguments).status()
        }
    };
    status.map_err(|error| error.to_string())
}

/// The last core that this process may use: interrupts tend to land on the first.
fn last_core() -> Option<String> {
    let id = std::process::id().to_string();
    let output = Command::new("taskset").args(["-cp", &id]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // `pid 17's current affinity list: 0-3,8`
    let core = text.trim().rsplit([' ', ',', '-']).next()?.to_owned();
    (output.status.success() && core.parse::<u32>().is_ok()).then_some(core)
}
