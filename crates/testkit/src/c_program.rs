//! C sources that the project emits, compiled with the system's C compiler and run.

use std::path::Path;
use std::process::Command;

use tensor::Tensor;

/// The flags that every model must compile with.
const FLAGS: [&str; 6] = ["-std=c99", "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror"];

/// Whether there is a C compiler; says so if not.
#[must_use]
pub fn has_c_compiler() -> bool {
    let found = Command::new("cc").arg("--version").output().is_ok_and(|out| out.status.success());
    if !found {
        eprintln!("skipped: there is no C compiler `cc`");
    }
    found
}

/// Compiles `model.c` and `main.c` in a folder to the program `main` there, and sees that the
/// former needs nothing.
///
/// # Panics
/// With what the compiler says, if it refuses them; with what `nm -u` prints of `model.o`.
pub fn build_c_program(folder: &Path, flags: &[&str]) {
    let cc = |arguments: &[&str]| {
        let mut command = Command::new("cc");
        succeed(command.current_dir(folder).args(FLAGS).args(flags).args(arguments));
    };
    cc(&["-c", "model.c", "-o", "model.o"]);
    let symbols = Command::new("nm").current_dir(folder).args(["-u", "model.o"]).output();
    if let Ok(symbols) = symbols {
        assert_eq!(String::from_utf8_lossy(&symbols.stdout), "", "what model.c does not define");
    }
    cc(&["main.c", "model.o", "-o", "main"]);
}

/// Runs the program that was built in a folder; it writes its outputs there, as `.npy` files.
///
/// # Panics
/// With what the program says, if it fails.
pub fn run_c_program(folder: &Path, inputs: &[Tensor]) {
    let mut command = Command::new(folder.join("main"));
    command.current_dir(folder);
    // Sources that hold all that is made of weights need no file.
    if folder.join("weights.bin").exists() {
        command.arg("weights.bin");
    }
    for (number, tensor) in inputs.iter().enumerate() {
        let path = format!("input{number}.npy");
        tensor::npy::write(folder.join(&path), tensor).expect("a file that can be written");
        command.arg(path);
    }
    succeed(command.args(["-o", "."]));
}

fn succeed(command: &mut Command) {
    let output = command.output().expect("a program that runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{out}{errors}");
}
