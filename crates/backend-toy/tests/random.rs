//! Random scheduled kernels on the register machine: they compute the evaluator's bits.

use backend_toy::ToyProgram;
use eval::{KernelOptions, evaluate_kernel};
use loops::{Access, Kernel, Scope};
use tensor::Tensor;
use testkit::{first_seed, random_kernel};

#[test]
fn random_kernels() {
    for number in 0..200 {
        check(&random_kernel(first_seed() + number, number as u32 % 4));
    }
}

fn check(kernel: &Kernel) {
    let (mut slots, mut arguments) = (String::new(), Vec::new());
    let (mut inputs, mut outputs, mut buffers) = (Vec::new(), Vec::new(), Vec::new());
    for (position, id) in kernel.parameters.iter().enumerate() {
        let buffer = &kernel.buffers[*id];
        let extent = |n: &sym::Expr| n.as_constant().expect("an extent") as usize;
        let shape: Vec<usize> = buffer.shape.iter().map(extent).collect();
        let bytes = buffer.dtype.size_of_elements(shape.iter().product()).expect("a size");
        let (effect, kind, place) = match buffer.scope {
            Scope::Parameter(Access::Read) => {
                let random = tensor::random::random(buffer.dtype, &shape, position as u64 + 1);
                inputs.push(random.clone());
                buffers.push(random);
                ("read", "input", inputs.len() - 1)
            }
            scope => {
                outputs.push(Tensor::zeros(buffer.dtype, &shape));
                buffers.push(Tensor::zeros(buffer.dtype, &shape));
                let is_new = scope == Scope::Parameter(Access::Write);
                (if is_new { "write" } else { "update" }, "output", outputs.len() - 1)
            }
        };
        slots.push_str(&format!("  %p{position}: {bytes} at {kind} {place}\n"));
        arguments.push(format!("{effect} {bytes} at %p{position}"));
    }
    let run = format!("  run k0({}) extent 1\n", arguments.join(", "));
    let text = format!("{kernel}\nprogram @main() arena 0 {{\n{slots}{run}}}\n");
    let module = module::parse(&text, &bytes::Bytes::new()).expect("a module");
    let program = &module.programs[module.program("main").expect("a program")];
    let toy = ToyProgram::new(&module, program).expect("code");
    toy.run(&inputs, &mut outputs, &mut Vec::new()).expect("a run");
    let evaluated = evaluate_kernel(kernel, &mut buffers, &[], KernelOptions::default());
    evaluated.unwrap_or_else(|fault| panic!("{fault:?}\n{kernel}"));
    let written = buffers
        .iter()
        .zip(&kernel.parameters)
        .filter(|(_, id)| kernel.buffers[**id].scope != Scope::Parameter(Access::Read));
    for ((expected, _), found) in written.zip(&outputs) {
        for (want, have) in expected.scalars().zip(found.scalars()) {
            let same = want.bits() == have.bits() || want.is_nan() && have.is_nan();
            assert!(same, "{kernel}\nan element is {have}, not {want}");
        }
    }
}
