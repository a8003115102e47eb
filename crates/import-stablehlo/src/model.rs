//! A StableHLO program: what it holds, and its functions as graph functions.

use std::collections::BTreeMap;

use base::{Diagnostic, InOrder, Limits, Result, codes};
use bytes::Bytes;
use front::{Accepted, ImportOptions, Imported, Port, PortExtent, with_shapes};
use tensor::Kind;

use crate::bytecode;
use crate::check::Check;
use crate::importer::{self, port_type};
use crate::operators;
use crate::sharding::{PortSplit, port_split};
use crate::syntax::{Attribute, Attributes, ElementType, Function, Program, ValueType};
use crate::text;

/// A program as a file holds it.
#[derive(Debug)]
pub struct StablehloProgram {
    program: Program,
    bytes: u64,
}

/// A function of a program that takes nothing, and what the program expects of it.
#[derive(Debug)]
pub struct CheckedFunction {
    /// Its name.
    pub name: String,
    /// The function, its results followed by the values of its checks.
    pub imported: Imported,
    /// The checks.
    pub checks: Vec<Check>,
}

/// Words of which one stands at the beginning of a text, behind comments.
const BEGINNINGS: &[&str] =
    &["module", "func.func", "\"builtin.module\"", "#", "!", "builtin.module"];

impl StablehloProgram {
    /// Whether a file is bytecode, holds it as `jax.export` writes it, or begins as a program's
    /// text does: with a module, a function or the name of an attribute, behind comments. A name of
    /// an attribute alone may begin other texts, so that one of a location or alias must follow as
    /// MLIR writes it.
    #[must_use]
    pub fn is_one(bytes: &Bytes) -> bool {
        if bytecode::found_in(bytes).is_some() {
            return true;
        }
        let front = &bytes[..bytes.len().min(1 << 16)];
        let front = match std::str::from_utf8(front) {
            Ok(text) => text,
            Err(found) => std::str::from_utf8(&front[..found.valid_up_to()]).unwrap_or_default(),
        };
        let lines = front.lines().map(str::trim_start);
        let first = lines.into_iter().find(|line| !line.is_empty() && !line.starts_with("//"));
        first.is_some_and(|line| {
            BEGINNINGS.iter().any(|word| {
                line.strip_prefix(word).is_some_and(|rest| match *word {
                    "#" | "!" => rest.contains(" = "),
                    _ => rest.is_empty() || rest.starts_with([' ', '(', '@', '{']),
                })
            })
        })
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// `TW0701` for text that is malformed, with line and column; `TW0121` for bytecode that is
    /// damaged or of a version that is not known; limits that are exceeded.
    pub fn read(bytes: &Bytes, limits: &Limits) -> Result<StablehloProgram> {
        if bytes.len() as u64 > limits.file_bytes {
            let message = format!("the file has {} bytes", bytes.len());
            let found = base::limits::exceeded("file-bytes", bytes.len() as u64, message);
            return Err(found.because("that is more than is read").into());
        }
        let program = match bytecode::found_in(bytes) {
            Some(bytes) => bytecode::read(&bytes, limits)?,
            None => text::parse(utf8(bytes)?)?,
        };
        Ok(StablehloProgram { program, bytes: bytes.len() as u64 })
    }

    /// Imports its function `main` in the shapes that the options give.
    ///
    /// # Errors
    /// Options that do not fit; the first operation that is not supported, or not right.
    pub fn import(&self, options: &ImportOptions) -> Result<Imported> {
        let (module, _) = self.import_function(self.main()?, options, false)?;
        Ok(Imported::of_module(module))
    }

    /// Imports the functions that take nothing and are called by no other, with the values that
    /// they expect (`check.expect_eq` and its like).
    pub fn checked_functions(
        &self,
        options: &ImportOptions,
    ) -> Vec<(String, Result<CheckedFunction>)> {
        let called = |name: &str| {
            let calls = self.program.operations().into_iter().filter_map(|operation| {
                Attribute::of(&operation.attributes, "callee").and_then(Attribute::word)
            });
            calls.into_iter().any(|callee| callee == name)
        };
        let functions = self.program.functions.iter();
        let tested = functions.filter(|function| {
            function.parameters.is_empty() && !function.is_private && !called(&function.name)
        });
        let import = |function: &Function| {
            let (module, checks) = self.import_function(function, options, true)?;
            let imported = Imported::of_module(module);
            Ok(CheckedFunction { name: function.name.clone(), imported, checks })
        };
        tested.map(|function| (function.name.clone(), import(function))).collect()
    }

    fn import_function(
        &self,
        function: &Function,
        options: &ImportOptions,
        has_checks: bool,
    ) -> Result<(module::Module, Vec<Check>)> {
        let (inputs, outputs) = ports(function, options)?;
        let outputs: Vec<String> = outputs.into_iter().map(|port| port.name).collect();
        let ports = (&inputs[..], &outputs[..]);
        Ok(importer::import(&self.program, function, ports, options, has_checks)?)
    }

    fn main(&self) -> std::result::Result<&Function, Diagnostic> {
        let public = || self.program.functions.iter().find(|function| !function.is_private);
        self.program.function("main").or_else(public).ok_or_else(|| {
            Diagnostic::error(codes::UNDEFINED_NAME, "the program has no function `main`")
                .because("all of its functions are private")
                .remedy("name the function that is to run `main`")
        })
    }

    /// Inputs and outputs as the program declares them, in the shapes that the options give.
    ///
    /// # Errors
    /// Options that do not fit.
    pub fn ports(&self, options: &ImportOptions) -> Result<(Vec<Port>, Vec<Port>)> {
        ports(self.main()?, options)
    }

    /// Of each input and output whether its elements are complex numbers, whose parts lie along a
    /// last axis of the port.
    ///
    /// # Errors
    /// A program without a main function.
    pub fn complex_ports(&self) -> Result<(Vec<bool>, Vec<bool>)> {
        let main = self.main()?;
        let is_complex = |ty: &ValueType| match ty {
            ValueType::Tensor(ty) => matches!(ty.element, ElementType::Complex(_)),
            _ => false,
        };
        let inputs = main.parameters.iter().map(|&number| is_complex(&main.values[number]));
        Ok((inputs.collect(), main.results.iter().map(is_complex).collect()))
    }

    /// Of each input whether callers may give its memory away with it, and of one that they may
    /// the output that is to lie there, if the program says which.
    ///
    /// # Errors
    /// A program without a main function.
    pub fn donations(&self) -> Result<Vec<Option<Option<usize>>>> {
        let main = self.main()?;
        let donation = |attributes: &Attributes| {
            let output = Attribute::of(attributes, "tf.aliasing_output");
            match output.and_then(Attribute::integer).map(usize::try_from) {
                Some(Ok(output)) => Some(Some(output)),
                _ => {
                    let donor = Attribute::of(attributes, "jax.buffer_donor");
                    donor.and_then(Attribute::flag).unwrap_or(false).then_some(None)
                }
            }
        };
        let of = |at: usize| main.parameter_attributes.get(at).and_then(donation);
        Ok((0..main.parameters.len()).map(of).collect())
    }

    /// How each input and output is split among so many devices.
    ///
    /// # Errors
    /// A program without a main function; shardings that do not fit.
    pub fn splits(&self, devices: usize) -> Result<(Vec<PortSplit>, Vec<PortSplit>)> {
        let main = self.main()?;
        let rank = |ty: &ValueType| match ty {
            ValueType::Tensor(ty) => ty.shape.len(),
            _ => 0,
        };
        let split = |attributes: Option<&Attributes>, ty: &ValueType| {
            port_split(&self.program, attributes, rank(ty), devices)
        };
        let inputs = main.parameters.iter().enumerate();
        let inputs = inputs
            .map(|(at, &number)| split(main.parameter_attributes.get(at), &main.values[number]));
        let outputs = main.results.iter().enumerate();
        let outputs = outputs.map(|(at, ty)| split(main.result_attributes.get(at), ty));
        Ok((inputs.collect::<Accepted<_>>()?, outputs.collect::<Accepted<_>>()?))
    }

    /// The name of its module.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.program.name
    }

    /// Who wrote it, with a version, where the file tells: `StableHLO_v1.15.0`.
    #[must_use]
    pub fn producer(&self) -> &str {
        &self.program.producer
    }

    /// The elements and the bytes of all constants; of bytes those of the file.
    #[must_use]
    pub fn parameters(&self) -> (u64, u64) {
        let operations = self.program.operations();
        let elements = operations.into_iter().filter_map(|operation| {
            match Attribute::of(&operation.attributes, "value") {
                Some(Attribute::Elements(elements)) => Some(elements.count() as u64),
                _ => None,
            }
        });
        (elements.sum(), self.bytes)
    }

    /// How often each operation stands in the functions.
    #[must_use]
    pub fn operations(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for operation in self.program.operations() {
            *counts.entry(operation.name.clone()).or_default() += 1;
        }
        counts
    }

    /// Operations that are not supported, and where they stand.
    #[must_use]
    pub fn unsupported(&self) -> BTreeMap<String, Vec<String>> {
        let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for operation in self.program.operations() {
            let is_return = operation.name.ends_with(".return");
            if operators::find(&operation.name).is_none() && !is_return {
                let place = self.program.place(operation.place);
                places.entry(operation.name.clone()).or_default().push(place);
            }
        }
        places
    }

    /// Names of extents that are not fixed.
    #[must_use]
    pub fn dimensions(&self) -> Vec<String> {
        let (inputs, _) = self.ports(&ImportOptions::default()).unwrap_or_default();
        let mut names: Vec<String> =
            inputs.iter().flat_map(Port::free_extents).map(str::to_owned).collect();
        names.put_in_order();
        names.dedup();
        names
    }
}

/// The names and shapes of a function's inputs and outputs.
fn ports(function: &Function, options: &ImportOptions) -> Result<(Vec<Port>, Vec<Port>)> {
    let mut inputs = Vec::new();
    for (at, &number) in function.parameters.iter().enumerate() {
        let name = function.parameter_names.get(at).cloned().unwrap_or_else(|| format!("arg{at}"));
        inputs.push(port(&function.values[number], name));
    }
    let inputs = with_shapes(inputs, options, &BTreeMap::new())?;
    let mut outputs: Vec<Port> = Vec::new();
    for (at, ty) in function.results.iter().enumerate() {
        let own = function.result_attributes.get(at).and_then(result_name);
        let is_taken = |name: &String| outputs.iter().any(|port| port.name == *name);
        let name = own.filter(|name| !is_taken(name)).unwrap_or_else(|| format!("result{at}"));
        outputs.push(port(ty, name));
    }
    Ok((inputs, outputs))
}

/// What JAX calls a result: the path to it in the value that the function returned.
fn result_name(attributes: &Attributes) -> Option<String> {
    let Some(Attribute::Text(path)) = Attribute::of(attributes, "jax.result_info") else {
        return None;
    };
    let plain: String =
        path.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '_' }).collect();
    let plain = plain.trim_matches('_').to_owned();
    let is_name = plain.starts_with(|it: char| it.is_ascii_alphabetic());
    is_name.then_some(plain)
}

/// A value as callers see it. Complex numbers have their parts along a last axis.
fn port(ty: &ValueType, name: String) -> Port {
    let plain: String =
        name.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '_' }).collect();
    let mut shape = Vec::new();
    if let ValueType::Tensor(tensor) = ty {
        for (axis, extent) in tensor.shape.iter().enumerate() {
            shape.push(match extent {
                Some(extent) => PortExtent::Fixed(*extent),
                None => PortExtent::Symbolic(format!("{plain}_{axis}")),
            });
        }
        if matches!(tensor.element, ElementType::Complex(_)) {
            shape.push(PortExtent::Fixed(2));
        }
    }
    Port { name, dtype: port_type(ty), shape, kind: Kind::Tensor }
}

/// The programs of a file: of a text those between which lines `// -----` stand; parts that hold
/// nothing but comments are left out.
///
/// # Errors
/// `TW0701` for bytes that are no UTF-8.
pub fn parts(bytes: &Bytes) -> Result<Vec<Bytes>> {
    if bytecode::found_in(bytes).is_some() {
        return Ok(vec![bytes.clone()]);
    }
    let is_comment = |line: &str| line.trim().is_empty() || line.trim_start().starts_with("//");
    let parts = utf8(bytes)?.split("\n// -----");
    let parts = parts.filter(|part| !part.lines().all(is_comment));
    Ok(parts.map(|part| Bytes::copy_from_slice(part.as_bytes())).collect())
}

fn utf8(bytes: &Bytes) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|found| {
        Diagnostic::error(codes::TEXT_SYNTAX, "the StableHLO text cannot be read")
            .at(format!("byte {}", found.valid_up_to()))
            .because("it is not UTF-8")
            .remedy("write the program anew, as `jax.jit(f).lower(x).as_text()` does")
            .into()
    })
}

/// The names of all operations that are imported.
#[must_use]
pub fn supported_operations() -> Vec<&'static str> {
    operators::names().collect()
}
