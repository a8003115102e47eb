//! Gradients, tangents, functions of many rows and hessians of StableHLO functions of one vector,
//! for `bench/jax_derivatives.py`, which says what lies in the folder.
//!
//!     derivatives FOLDER NUMBER...

use std::path::{Path, PathBuf};

use base::{Diagnostic, codes};
use graph::Function;
use module::Module;
use tilewright::compiled::{Facts, Source, read};
use tilewright::{Options, Tensor, Value};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("a folder"));
    for number in arguments {
        for kind in ["grad", "jvp", "vmap", "hessian"] {
            let path = |end: &str| folder.join(format!("{number}.{end}"));
            match derived(&folder, &number, kind) {
                Ok(found) => tilewright::write_npy(path(&format!("{kind}.npy")), &found)
                    .expect("the folder can be written to"),
                Err(refused) => std::fs::write(path(&format!("{kind}.txt")), refused.to_string())
                    .expect("the folder can be written to"),
            }
        }
    }
}

fn derived(folder: &Path, number: &str, kind: &str) -> tilewright::Result<Tensor> {
    let input = |name: &str| tilewright::read_npy(folder.join(format!("{number}.{name}.npy")));
    let (x, direction, rows) = (input("x")?, input("t")?, input("rows")?);
    let options = Options::default().with_threads(1);
    let source = Source::read(folder.join(format!("{number}.mlir")), &options.limits)?;
    let (imported, _) = read(&source, &options, Facts::default(), &[Value::Tensor(x.clone())])?;
    let function = imported.function();
    let refused = |refused: autodiff::TransformRefusal| {
        Diagnostic::error(codes::NO_DERIVATIVE, refused.to_string())
    };
    let extent = x.shape()[0];
    let (derived, inputs, result): (Function, Vec<Tensor>, usize) = match kind {
        "grad" => (autodiff::gradient(function, 0, &[0]).map_err(refused)?, vec![x], 1),
        "jvp" => (autodiff::tangent(function, &[0]).map_err(refused)?, vec![x, direction], 1),
        "vmap" => {
            let many = (rows.shape()[0] as i64).into();
            (autodiff::vectorise(function, &many, &[0]).map_err(refused)?, vec![rows], 0)
        }
        _ => {
            let gradient = autodiff::gradient(function, 0, &[0]).map_err(refused)?;
            let tangent = autodiff::tangent(&gradient, &[0]).map_err(refused)?;
            let many = (extent as i64).into();
            let all = autodiff::vectorise(&tangent, &many, &[1]).map_err(refused)?;
            let unit = |place: usize| f64::from(place / extent == place % extent);
            let basis: Vec<f64> = (0..extent * extent).map(unit).collect();
            (all, vec![x, Tensor::from_vec(&[extent, extent], basis)], 3)
        }
    };
    let mut module = Module { constants: imported.module.constants.clone(), ..Module::default() };
    module.functions.push(derived.into());
    let executable = tilewright::compile_module(module, &options)?;
    Ok(executable.run(&inputs)?.swap_remove(result))
}
