//! A module around a kernel, compiled with the system's C compiler and run.

// Each test binary uses its own part.
#![allow(dead_code, reason = "shared by several test binaries")]

use std::path::Path;

use backend_c::{COptions, CPort, CProgram, CSetup, CSources, Interface, emit};
use base::Locations;
use loops::{Access, Kernel, Scope};
use module::Module;
use tensor::minifloat::Overflow;
use tensor::{Scalar, Tensor};
use testkit::{build_c_program, run_c_program};

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
            let port = CPort::new(&name, buffer.dtype, shape);
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
pub(crate) fn sources(module: &Module, interface: &Interface, options: COptions) -> CSources {
    let locations = Locations::new();
    let part = |name| CProgram {
        module,
        program: module.program(name).expect("a program"),
        locations: &locations,
    };
    let setup = CSetup::Run(part("setup"));
    emit(&setup, part("main"), interface, options).unwrap_or_else(|e| panic!("{e}"))
}

/// Writes the files into a folder and compiles them to a program there.
pub(crate) fn build(folder: &Path, sources: &CSources, flags: &[&str]) {
    for (name, text) in
        [("model.c", &sources.model_c), ("model.h", &sources.model_h), ("main.c", &sources.main_c)]
    {
        std::fs::write(folder.join(name), text).expect("a file that can be written");
    }
    let mut file = std::fs::File::create(folder.join("weights.bin")).expect("a file");
    sources.weights.write(&mut file).expect("a file that can be written");
    build_c_program(folder, flags);
}

/// Runs the program on inputs; its outputs.
pub(crate) fn run(folder: &Path, interface: &Interface, inputs: &[Tensor]) -> Vec<Tensor> {
    run_c_program(folder, inputs);
    let read = |port: &CPort| {
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
