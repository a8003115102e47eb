//! A module around a kernel, compiled with the system's C compiler and run.

// Each test binary uses its own part.
#![allow(dead_code, reason = "shared by several test binaries")]

use std::path::{Path, PathBuf};
use std::process::Command;

use backend_c::{CSources, Interface, Options, Part, Port, emit};
use base::Locations;
use loops::{Access, Kernel, Scope};
use module::Module;
use tensor::minifloat::Overflow;
use tensor::{Scalar, Tensor};

/// The flags that every model must compile with.
pub(crate) const FLAGS: [&str; 4] = ["-std=c99", "-O2", "-Wall", "-Werror"];

/// Whether there is a C compiler; says so if not.
pub(crate) fn has_compiler() -> bool {
    let found = Command::new("cc").arg("--version").output().is_ok_and(|out| out.status.success());
    if !found {
        println!("SKIPPED: there is no C compiler `cc`");
    }
    found
}

/// A folder that is removed again.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tilewright-c-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for temporary files");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Module text around kernels: a program `main` that runs each once, on inputs and outputs of its
/// own, and an empty `setup`. Buffers that are updated are both: `main` copies them.
pub(crate) fn module_of_kernels(kernels: &[Kernel]) -> (Module, Interface) {
    let (mut slots, mut steps) = (String::new(), String::new());
    let mut interface =
        Interface { name: "test".to_owned(), inputs: Vec::new(), outputs: Vec::new() };
    let mut texts = String::new();
    for (number, kernel) in kernels.iter().enumerate() {
        let mut kernel = kernel.clone();
        kernel.name = format!("{}_{number}", kernel.name);
        let mut arguments = Vec::new();
        for (position, id) in kernel.parameters.iter().enumerate() {
            let buffer = &kernel.buffers[*id];
            let shape: Vec<usize> =
                buffer.shape.iter().map(|n| n.as_constant().expect("an extent") as usize).collect();
            let bytes = buffer.dtype.size_of_elements(shape.iter().product()).expect("a size");
            let name = format!("k{number}p{position}");
            let port = Port { name: name.clone(), dtype: buffer.dtype, shape };
            let mut slot = |name: &str, kind: &str, number: usize| {
                slots.push_str(&format!("  %{name}: {bytes} at {kind} {number}\n"));
            };
            match buffer.scope {
                Scope::Parameter(Access::Read) => {
                    slot(&name, "input", interface.inputs.len());
                    interface.inputs.push(port);
                    arguments.push(format!("read {bytes} at %{name}"));
                }
                Scope::Parameter(Access::Write) => {
                    slot(&name, "output", interface.outputs.len());
                    interface.outputs.push(port);
                    arguments.push(format!("write {bytes} at %{name}"));
                }
                _ => {
                    slot(&format!("{name}in"), "input", interface.inputs.len());
                    slot(&name, "output", interface.outputs.len());
                    interface.inputs.push(port.clone());
                    interface.outputs.push(port);
                    steps.push_str(&format!("  copy {bytes} from %{name}in to %{name}\n"));
                    arguments.push(format!("update {bytes} at %{name}"));
                }
            }
        }
        steps.push_str(&format!("  run k{number}({}) extent 1\n", arguments.join(", ")));
        texts.push_str(&format!("{kernel}\n"));
    }
    let text = format!(
        "{texts}program @setup() arena 0 {{\n}}\nprogram @main() arena 0 {{\n{slots}{steps}}}\n"
    );
    let module = module::parse(&text, &bytes::Bytes::new());
    (module.unwrap_or_else(|errors| panic!("{text}\n{errors}")), interface)
}

/// The files of a module with programs `setup` and `main`.
pub(crate) fn sources(module: &Module, interface: &Interface, options: Options) -> CSources {
    let locations = Locations::new();
    let part = |name| Part {
        module,
        program: module.program(name).expect("a program"),
        locations: &locations,
    };
    emit(part("setup"), part("main"), interface, options).unwrap_or_else(|e| panic!("{e}"))
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().expect("a program that runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{out}{errors}");
    out
}

/// Writes the files into a folder and compiles them to a program there.
pub(crate) fn build(folder: &Path, sources: &CSources, flags: &[&str]) -> PathBuf {
    for (name, text) in
        [("model.c", &sources.model_c), ("model.h", &sources.model_h), ("main.c", &sources.main_c)]
    {
        std::fs::write(folder.join(name), text).expect("a file that can be written");
    }
    let mut file = std::fs::File::create(folder.join("weights.bin")).expect("a file");
    sources.weights.write(&mut file).expect("a file that can be written");
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
    folder.join("main")
}

/// Runs the program on inputs; its outputs.
pub(crate) fn run(
    folder: &Path,
    program: &Path,
    interface: &Interface,
    inputs: &[Tensor],
) -> Vec<Tensor> {
    let mut command = Command::new(program);
    command.current_dir(folder).arg("weights.bin");
    for (number, tensor) in inputs.iter().enumerate() {
        let path = format!("input{number}.npy");
        tensor::npy::write(folder.join(&path), tensor).expect("a file that can be written");
        command.arg(path);
    }
    succeed(command.args(["-o", "."]));
    let read = |port: &Port| {
        let file = tensor::npy::read(folder.join(format!("{}.npy", port.name)));
        let file = file.unwrap_or_else(|errors| panic!("{errors}"));
        if file.dtype() == port.dtype {
            return file;
        }
        // A type that NumPy lacks.
        let back = |value| Scalar::from_f64_with(port.dtype, value, Overflow::Special);
        let elements: Vec<Scalar> = file.to_f64_vec().into_iter().map(back).collect();
        Tensor::from_scalars(port.dtype, &port.shape, &elements)
    };
    interface.outputs.iter().map(read).collect()
}

/// Whether two elements are the same, all NaNs counting as one.
pub(crate) fn same(a: Scalar, b: Scalar) -> bool {
    a == b || a.is_nan() && b.is_nan()
}
