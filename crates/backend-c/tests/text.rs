//! Text tests. `// run: kernel` takes kernels and prints the functions that they become, with what
//! these need; `module` takes a module with programs `setup` and `main` and prints all of `model.c`
//! but its head; `header` prints `model.h`. With the word `dsp` it is for cores with the DSP
//! extension. Where there is a C compiler, all of it is compiled.

mod common;

use backend::Isa;
use backend_c::{COptions, CPort, CProgram, CSetup, CSources, Interface, emit};
use base::Locations;
use common::{build, module_of_kernels};
use loops::Kernel;
use module::Module;
use program::Place;
use tensor::{DType, Tensor};
use testkit::{Folder, has_c_compiler};

fn kernel(text: &str, words: &[&str]) -> Result<String, String> {
    let mut parser = base::text::Parser::new(text);
    let mut kernels: Vec<Kernel> = Vec::new();
    while !parser.at_end() {
        kernels.push(loops::parse_kernel(&mut parser).map_err(|error| error.to_string())?);
    }
    for kernel in &kernels {
        loops::verify_scheduled(kernel).map_err(|errors| errors.to_string())?;
    }
    let (module, interface) = module_of_kernels(&kernels);
    let text = code(&sources(&module, &interface, words)?);
    Ok(text.split("size_t test_constants_size").next().unwrap_or("").to_owned())
}

fn module(text: &str, words: &[&str]) -> Result<String, String> {
    let (module, interface) = parse(text, words)?;
    Ok(code(&sources(&module, &interface, words)?))
}

fn header(text: &str, words: &[&str]) -> Result<String, String> {
    let (module, interface) = parse(text, words)?;
    Ok(sources(&module, &interface, words)?.model_h)
}

/// The module; its inputs and outputs are bytes. With the word `values` each input has the value
/// 0, 1, 2 and so on; with the word `strings` outputs are numbers in a list.
fn parse(text: &str, words: &[&str]) -> Result<(Module, Interface), String> {
    let module = module::parse(text, &bytes::Bytes::new()).map_err(|errors| errors.to_string())?;
    module::verify(&module).map_err(|errors| errors.to_string())?;
    let mut interface =
        Interface { name: "tiny".to_owned(), inputs: Vec::new(), outputs: Vec::new() };
    let main = &module.programs[module.program("main").ok_or("no program `main`")?];
    for slot in main.slots.values() {
        let bytes = slot.bytes.as_constant().unwrap_or(0) as usize;
        let mut port = CPort::new(&slot.name, DType::U8, vec![bytes]);
        match slot.place {
            Place::Input(_) => {
                port.value = words
                    .contains(&"values")
                    .then(|| Tensor::from_vec(&[bytes], (0..bytes as u8).collect()));
                interface.inputs.push(port);
            }
            Place::Output(_) => {
                if words.contains(&"strings") {
                    port.strings = vec!["one".to_owned(), "*/\"".to_owned()];
                }
                interface.outputs.push(port);
            }
            _ => {}
        }
    }
    Ok((module, interface))
}

fn sources(module: &Module, interface: &Interface, words: &[&str]) -> Result<CSources, String> {
    let unknown = Locations::new();
    let main = module.function("main").map(|id| &module.functions[id].locations);
    let locations = main.unwrap_or(&unknown);
    let part = |name: &str| -> Result<CProgram<'_>, String> {
        let program = module.program(name).ok_or_else(|| format!("no program `{name}`"))?;
        Ok(CProgram { module, program, locations })
    };
    let isa = if words.contains(&"dsp") { Isa::ArmDsp } else { Isa::C99 };
    let options = COptions { exact_sums: words.contains(&"exact"), isa, ..COptions::default() };
    let setup = CSetup::Run(part("setup")?);
    let sources = emit(&setup, part("main")?, interface, options);
    let sources = sources.map_err(|errors| errors.to_string())?;
    if has_c_compiler() {
        build(Folder::new().path(), &sources, &[]);
    }
    Ok(sources)
}

/// What stands between the head of `model.c` and its last directive.
fn code(sources: &CSources) -> String {
    let (_, code) = sources.model_c.split_once("#endif\n\n").expect("the head of model.c");
    let (code, _) = code.rsplit_once("\n#if defined(__clang__)").expect("the end of model.c");
    code.to_owned()
}

#[test]
fn text_tests() {
    filetest::run(
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/text"),
        &[("kernel", kernel), ("module", module), ("header", header)],
    );
}
