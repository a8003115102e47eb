//! Random scheduled kernels as C: they compute the evaluator's bits. `C_CASES=500` runs longer.

mod common;

use backend::Isa;
use backend_c::COptions;
use common::{build, module_of_kernels, run, same, sources};
use eval::evaluate_kernel;
use loops::{Access, Kernel, Scope};
use tensor::Tensor;
use testkit::random_kernel;
use testkit::{Folder, first_seed, has_c_compiler};

/// A loop that is an instruction, which is the loop that it is here.
const INSTRUCTION: &str = "
    kernel @quads(%x: read u8[3, 8], %w: read i8[2, 20, 4], %y: write i32[3, 20]) {
      %acc: register i32[20]
      for i < 3 parallel {
        for z < 20 vector { %acc[z] = 0i32 }
        for k < 2 { for j < 20 vector { for e < 4 as dot_u8_i8_4 {
          %acc[j] += cast<i32>(%x[i, 4*k + e]) * cast<i32>(%w[k, j, e])
        } } }
        for s < 20 vector { %y[i, s] = %acc[s] }
      }
    }";

#[test]
fn random_kernels() {
    if !has_c_compiler() {
        return;
    }
    let cases: u64 =
        std::env::var("C_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(40);
    let instruction = loops::parse(INSTRUCTION).expect("a kernel");
    // The same with other constants, which small cores have in one function.
    let other = INSTRUCTION.replace("[3, 8]", "[5, 12]").replace("[2, 20, 4]", "[3, 20, 4]");
    let other = other.replace("[3, 20]", "[5, 20]").replace("i < 3", "i < 5");
    let likewise = loops::parse(&other.replace("k < 2", "k < 3")).expect("a kernel");
    let kernels: Vec<Kernel> = (0..cases)
        .map(|number| random_kernel(first_seed() + number, number as u32 % 4))
        .chain([instruction, likewise])
        .collect();
    let (module, interface) = module_of_kernels(&kernels);
    let (mut inputs, mut expected) = (Vec::new(), Vec::new());
    for kernel in &kernels {
        let mut buffers = Vec::new();
        for (position, id) in kernel.parameters.iter().enumerate() {
            let buffer = &kernel.buffers[*id];
            let extent = |n: &sym::Expr| n.as_constant().expect("an extent") as usize;
            let shape: Vec<usize> = buffer.shape.iter().map(extent).collect();
            if buffer.scope == Scope::Parameter(Access::Read) {
                let random = tensor::random::random(buffer.dtype, &shape, position as u64 + 1);
                inputs.push(random.clone());
                buffers.push(random);
            } else {
                buffers.push(Tensor::zeros(buffer.dtype, &shape));
            }
        }
        let result = evaluate_kernel(kernel, &mut buffers, &[], eval::KernelOptions::default());
        result.unwrap_or_else(|fault| panic!("{fault:?}\n{kernel}"));
        for (buffer, id) in buffers.into_iter().zip(&kernel.parameters) {
            if kernel.buffers[*id].scope != Scope::Parameter(Access::Read) {
                expected.push((buffer, kernel));
            }
        }
    }
    for (isa, is_short) in [(Isa::C99, false), (Isa::ArmDsp, false), (Isa::ArmHelium, true)] {
        let folder = Folder::new();
        let options = COptions { exact_sums: true, isa, is_short, ..COptions::default() };
        let sources = sources(&module, &interface, options);
        assert_eq!(sources.shared_kernels > 0, isa != Isa::C99);
        build(folder.path(), &sources, &[]);
        let found = run(folder.path(), &interface, &inputs);
        for ((expected, kernel), found) in expected.iter().zip(&found) {
            for number in 0..expected.len() {
                let (want, have) = (expected.get_scalar(number), found.get_scalar(number));
                let is_so = same(want, have);
                assert!(is_so, "{isa:?}: {kernel}\nelement {number} is {have}, not {want}");
            }
        }
    }
}
