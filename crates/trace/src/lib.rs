//! Functions written in Rust over values, traced into graphs, with their derivatives.
//!
//! [`trace()`] runs a closure once, on [`TracedValue`]s: each operation adds a node to a graph.
//! What comes out is a [`TracedFunction`], which compiles like any other model. What Rust does
//! meanwhile (loops of Rust's, `if`s on shapes) is gone by then; what shall happen anew in each run
//! is said with [`if_else`], [`while_loop`], [`repeat`] and [`scan`].
//!
//! [`grad`], [`value_and_grad`], [`jvp`], [`vmap`], [`jacobian`] and [`hessian`] make functions
//! over values of such functions, and nest in each other and in control flow.
//!
//! Values may come in tuples, arrays and vectors: whatever is a [`ValueTree`].
//!
//! # Mistakes
//!
//! Operations do not return results, so that formulas read as such: a trace notes the first mistake
//! (shapes that do not fit, say) with the place in the caller's source, goes on with a stand-in,
//! and gives it as a diagnostic in the end.

mod control;
mod derivatives;
mod operators;
mod recording;
mod tree;
mod value;

use base::{Id, Result};
use graph::{FunctionBuilder, TensorType, Type};
use module::{Constant, Module};
use sym::Expr;
use tensor::DType;

pub use control::{if_else, repeat, scan, while_loop};
pub use derivatives::{grad, hessian, jacobian, jvp, value_and_grad, vmap};
pub use tree::ValueTree;
pub use value::TracedValue;

use recording::Recording;

/// What a closure computed: a graph function with the constants that it reads.
#[derive(Clone, Debug)]
pub struct TracedFunction {
    module: Module,
}

impl TracedFunction {
    /// The function as a module, to be compiled.
    #[must_use]
    pub fn into_module(self) -> Module {
        self.module
    }

    /// The module.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.module
    }
}

/// Prints as the text form of modules.
impl std::fmt::Display for TracedFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut printer = base::text::Printer::new();
        module::print(&self.module, &mut printer);
        f.write_str(&printer.finish())
    }
}

/// Runs a closure on values for inputs of these names, element types and shapes. Results are called
/// as [`TracedValue::named`] says, others `result 0`, `result 1` and so on.
///
/// # Errors
/// The first mistake that the closure made.
pub fn trace<R: ValueTree>(
    name: &str,
    inputs: &[(&str, DType, &[usize])],
    function: impl FnOnce(&[TracedValue]) -> R,
) -> Result<TracedFunction> {
    let mut builder = FunctionBuilder::new(name);
    let mut parameters = Vec::new();
    for (name, dtype, shape) in inputs {
        let shape = shape.iter().map(|&extent| Expr::from(extent)).collect();
        let ty = Type::Tensor(TensorType { dtype: *dtype, shape });
        parameters.push(builder.parameter(*name, ty));
    }
    let recording = Recording::new(builder);
    let parameters: Vec<TracedValue> =
        parameters.into_iter().map(|id| recording.value(id)).collect();
    let results = function(&parameters).leaves();
    let ids = recording.ids("a result", &results);
    let (builder, constants, refused) = recording.finish();
    if let Some(refused) = refused {
        return Err(refused.into());
    }
    let mut names: Vec<String> = Vec::new();
    for (number, &id) in ids.iter().flatten().enumerate() {
        let own = builder.function().values[id].name.as_deref();
        let name = own.filter(|own| !names.iter().any(|name| name == own));
        names.push(name.map_or_else(|| format!("result {number}"), str::to_owned));
    }
    let mut function = builder.finish(names.into_iter().zip(ids.into_iter().flatten()).collect());
    function.compact();
    graph::verify(&function)?;
    let mut module = Module::default();
    module.functions.push(function.into());
    for (number, tensor) in constants.into_iter().enumerate() {
        let id = module.constants.push(Constant { name: format!("constant {number}"), tensor });
        debug_assert_eq!(id.index(), number);
    }
    Ok(TracedFunction { module })
}
