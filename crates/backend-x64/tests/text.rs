//! Text tests: `// run: vcode TARGET` and `// run: asm TARGET` compile the kernel below and print
//! it between selection and allocation, or its machine code. What prints of vcode must also parse,
//! print the same and compile to the same bytes. `// run: parse` prints vcode as it was read, once
//! verified; `// run: registers TARGET` its machine code.

use backend::Target;
use tilewright_backend_x64::{X64Options, compile_vcode, compile_with, disassemble, vcode};

fn compile(text: &str, words: &[&str]) -> Result<(Target, backend::MachineCode), String> {
    let kernel = loops::parse(text).map_err(|errors| errors.to_string())?;
    let name = words.first().ok_or("which target?")?;
    let target = Target::named(name).ok_or("an unknown target")?;
    let options = X64Options { want_vcode_text: true, ..Default::default() };
    let code = compile_with(&kernel, &target, options).map_err(|errors| errors.to_string())?;
    Ok((target, code))
}

fn run_vcode(text: &str, words: &[&str]) -> Result<String, String> {
    let (target, code) = compile(text, words)?;
    let printed = code.vcode.unwrap_or_default();
    let parsed = vcode::parse(&printed).map_err(|error| error.to_string())?;
    vcode::verify(&parsed)?;
    assert_eq!(vcode::print(&parsed), printed);
    let again = compile_vcode(&parsed, target.isa).map_err(|errors| errors.to_string())?;
    assert_eq!(again.bytes, code.bytes);
    Ok(printed)
}

fn run_asm(text: &str, words: &[&str]) -> Result<String, String> {
    compile(text, words).map(|(_, code)| disassemble(&code))
}

fn run_parse(text: &str, _: &[&str]) -> Result<String, String> {
    let parsed = vcode::parse(text).map_err(|error| error.to_string())?;
    vcode::verify(&parsed)?;
    Ok(vcode::print(&parsed))
}

fn run_registers(text: &str, words: &[&str]) -> Result<String, String> {
    let parsed = vcode::parse(text).map_err(|error| error.to_string())?;
    vcode::verify(&parsed)?;
    let target = words.first().and_then(|name| Target::named(name)).ok_or("an unknown target")?;
    let code = compile_vcode(&parsed, target.isa).map_err(|errors| errors.to_string())?;
    Ok(disassemble(&code))
}

#[test]
fn text_tests() {
    filetest::run(
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/text"),
        &[
            ("vcode", run_vcode),
            ("asm", run_asm),
            ("parse", run_parse),
            ("registers", run_registers),
        ],
    );
}
