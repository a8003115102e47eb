//! Runs compiled kernels beside the evaluator: executable memory, buffers that end at a page that
//! cannot be touched, and the comparison of what both made.
#![allow(dead_code)]

use backend::{MachineCode, Target};
use loops::{Access, Kernel, Scope};
use runtime::abi::{Context, KernelFn};
use tensor::{Scalar, Tensor};

const PAGE: usize = 4096;

/// Pages of memory with one behind them that traps.
struct Pages {
    memory: *mut u8,
    length: usize,
}

impl Pages {
    fn new(bytes: usize) -> Pages {
        let length = bytes.next_multiple_of(PAGE) + PAGE;
        // SAFETY: a fresh private mapping; its last page is made inaccessible before anyone sees
        // it.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let memory = libc::mmap(std::ptr::null_mut(), length, access, flags, -1, 0);
            assert!(memory != libc::MAP_FAILED, "mmap");
            let memory = memory.cast::<u8>();
            let last = memory.add(length - PAGE);
            assert_eq!(libc::mprotect(last.cast(), PAGE, libc::PROT_NONE), 0, "mprotect");
            Pages { memory, length }
        }
    }

    fn protect(&self, access: i32) {
        // SAFETY: the mapping's pages but the last, which stays as it is.
        let result = unsafe { libc::mprotect(self.memory.cast(), self.length - PAGE, access) };
        assert_eq!(result, 0, "mprotect");
    }

    /// Where `bytes` bytes end with the last accessible one.
    fn end(&self, bytes: usize) -> *mut u8 {
        // SAFETY: the mapping is at least so long.
        unsafe { self.memory.add(self.length - PAGE - bytes) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, which nothing uses any more.
        unsafe { libc::munmap(self.memory.cast(), self.length) };
    }
}

/// Code in executable memory.
pub(crate) struct Loaded {
    pages: Pages,
    scratch_bytes: usize,
}

impl Loaded {
    /// Copies code into pages that are then executable and no longer writable.
    pub(crate) fn new(code: &MachineCode) -> Loaded {
        let pages = Pages::new(code.bytes.len());
        // SAFETY: the pages are as long as the code, and nothing else knows them.
        unsafe {
            std::ptr::copy_nonoverlapping(code.bytes.as_ptr(), pages.memory, code.bytes.len());
        }
        pages.protect(libc::PROT_READ | libc::PROT_EXEC);
        Loaded { pages, scratch_bytes: code.scratch_bytes as usize }
    }

    /// Runs iterations `first..last` of the parallel loop.
    ///
    /// # Safety
    /// The buffers must be as large as the kernel's parameters say, and in their order.
    pub(crate) unsafe fn run(
        &self,
        buffers: &[*mut u8],
        symbols: &mut [i64],
        first: i64,
        last: i64,
    ) -> i32 {
        let scratch = Pages::new(self.scratch_bytes.next_multiple_of(64));
        let context = Context {
            buffers: buffers.as_ptr(),
            symbols: symbols.as_mut_ptr(),
            scratch: scratch.end(self.scratch_bytes.next_multiple_of(64)),
        };
        // SAFETY: the memory holds a function of this type; the rest is the caller's promise.
        unsafe {
            let entry = std::mem::transmute::<*mut u8, KernelFn>(self.pages.memory);
            entry(&raw const context, first, last)
        }
    }
}

/// Whether this machine has the instructions of a target.
pub(crate) fn can_run(target: &Target) -> bool {
    target.check_machine(&runtime::cpu::has_feature).is_ok()
}

/// The x86-64 targets.
pub(crate) fn targets() -> impl Iterator<Item = Target> {
    ["x86-64-v4-bf16", "x86-64-v4", "x86-64-v3"].into_iter().filter_map(Target::named)
}

/// How exactly results must agree; NaNs are equal to each other in any case.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exact {
    /// To the bit.
    Bits,
    /// A zero may have either sign.
    ZeroSign,
}

fn same(a: Scalar, b: Scalar, exact: Exact) -> bool {
    a == b
        || a.is_nan() && b.is_nan()
        || exact == Exact::ZeroSign && a.as_f64() == 0.0 && b.as_f64() == 0.0
}

fn shape_value(kernel: &Kernel, symbol: sym::SymbolId, symbols: &[i64]) -> Option<i64> {
    match kernel.symbols[symbol].kind {
        loops::SymbolKind::Shape { position, .. } => symbols.get(position as usize).copied(),
        _ => None,
    }
}

/// Runs compiled code on copies of the buffers and gives back what they hold, or the fault code.
pub(crate) fn execute(
    kernel: &Kernel,
    code: &MachineCode,
    buffers: &[Tensor],
    symbols: &[i64],
) -> Result<Vec<Tensor>, i32> {
    let loaded = Loaded::new(code);
    let pages: Vec<Pages> = buffers.iter().map(|tensor| Pages::new(tensor.bytes().len())).collect();
    let mut pointers = Vec::new();
    for (pages, tensor) in pages.iter().zip(buffers) {
        let start = pages.end(tensor.bytes().len());
        // SAFETY: the pages hold as many bytes below their end.
        unsafe {
            std::ptr::copy_nonoverlapping(tensor.bytes().as_ptr(), start, tensor.bytes().len());
        }
        pointers.push(start);
    }
    let value = |symbol| shape_value(kernel, symbol, symbols);
    let extent = kernel.parallel_extent().evaluate(&value).unwrap();
    let mut values = symbols.to_vec();
    // In two calls, as two workers would.
    for (first, last) in [(0, extent / 2), (extent / 2, extent)] {
        if first == last {
            continue;
        }
        // SAFETY: the buffers have the shapes of the kernel's parameters.
        let fault = unsafe { loaded.run(&pointers, &mut values, first, last) };
        if fault != 0 {
            return Err(fault);
        }
    }
    let results = buffers.iter().zip(&pointers).map(|(tensor, start)| {
        let mut result = tensor.clone();
        // SAFETY: as above, the other way.
        let bytes = unsafe { std::slice::from_raw_parts(*start, tensor.bytes().len()) };
        result.bytes_mut().copy_from_slice(bytes);
        result
    });
    Ok(results.collect())
}

/// Compiles a kernel for every target that has its instructions, and compares its results with the
/// evaluator's, or its fault.
pub(crate) fn agree(kernel: &Kernel, buffers: &[Tensor], symbols: &[i64], exact: Exact) {
    loops::verify_scheduled(kernel).unwrap_or_else(|errors| panic!("{errors}"));
    let mut expected = buffers.to_vec();
    let outcome =
        eval::evaluate_kernel(kernel, &mut expected, symbols, eval::KernelOptions::default());
    let mut compiled = 0;
    for target in targets() {
        // Strategies ask for what a target has.
        if let Err(reason) = backend::check_instructions(kernel, &target) {
            println!("not compiled for {}: {reason}", target.name);
            continue;
        }
        compiled += 1;
        let options =
            tilewright_backend_x64::X64Options { want_vcode_text: true, ..Default::default() };
        let code = tilewright_backend_x64::compile_with(kernel, &target, options)
            .unwrap_or_else(|errors| panic!("{kernel}\n{errors}"));
        if !can_run(&target) {
            println!("not run: {} is not on this machine", target.name);
            continue;
        }
        let listing = || {
            let vcode = code.vcode.clone().unwrap_or_default();
            let asm = tilewright_backend_x64::disassemble(&code);
            format!("{}\n{kernel}\n{vcode}\n{asm}", target.name)
        };
        let actual = match (execute(kernel, &code, buffers, symbols), &outcome) {
            (Ok(actual), Ok(())) => actual,
            (Err(_), Err(_)) => continue,
            (Ok(_), Err(fault)) => panic!("no fault, but {fault}\n{}", listing()),
            (Err(code), Ok(())) => panic!("fault {code}\n{}", listing()),
        };
        for ((id, actual), expected) in kernel.parameters.iter().zip(&actual).zip(&expected) {
            if kernel.buffers[*id].scope == Scope::Parameter(Access::Read) {
                continue;
            }
            for (index, (a, e)) in actual.scalars().zip(expected.scalars()).enumerate() {
                assert!(
                    same(a, e, exact) || is_flushed(&target, a, e),
                    "%{}[{index}] is {a:?} instead of {e:?}\n{}",
                    kernel.buffers[*id].name,
                    listing()
                );
            }
        }
    }
    assert!(compiled > 0, "no target compiles it\n{kernel}");
}

/// Whether a number below the normal ones became a zero, as instructions for bf16 have it.
fn is_flushed(target: &Target, actual: Scalar, expected: Scalar) -> bool {
    target.isa == backend::Isa::X86Avx512Bf16
        && expected.dtype() == tensor::DType::BF16
        && actual.as_f32() == 0.0
        && expected.as_f32().abs() < f32::MIN_POSITIVE
}

/// Parameters filled with small numbers; those only written hold zeros.
pub(crate) fn small_buffers(kernel: &Kernel, symbols: &[i64], seed: u64) -> Vec<Tensor> {
    let mut generator = tensor::random::Generator::new(seed);
    let mut buffers = Vec::new();
    for id in &kernel.parameters {
        let buffer = &kernel.buffers[*id];
        let value = |symbol| shape_value(kernel, symbol, symbols);
        let extent = |expr: &sym::Expr| expr.evaluate(&value).unwrap();
        let count = match &buffer.strides {
            None => buffer.shape.iter().map(extent).product::<i64>(),
            Some(strides) => {
                let axes = buffer.shape.iter().zip(strides);
                1 + axes.map(|(n, stride)| (extent(n) - 1) * extent(stride)).sum::<i64>()
            }
        } as usize;
        let scalars: Vec<Scalar> = (0..count)
            .map(|_| {
                let quarters = generator.below(65) as f64 - 32.0;
                let number = if buffer.dtype.is_float() { quarters / 4.0 } else { quarters };
                match buffer.scope {
                    Scope::Parameter(Access::Write) => Scalar::zero(buffer.dtype),
                    _ if buffer.dtype == tensor::DType::Bool => {
                        Scalar::bool(generator.below(2) == 1)
                    }
                    _ if buffer.dtype.is_float() => Scalar::from_f64(buffer.dtype, number),
                    _ => Scalar::from_i64(buffer.dtype, number as i64),
                }
            })
            .collect();
        buffers.push(Tensor::from_scalars(buffer.dtype, &[count], &scalars));
    }
    buffers
}

/// The kernel that a text is.
pub(crate) fn parse(text: &str) -> loops::Kernel {
    loops::parse(text).unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

/// Compares on small random numbers.
pub(crate) fn check(text: &str) {
    check_with(text, &[]);
}

/// The same, with these values of its symbols.
pub(crate) fn check_with(text: &str, symbols: &[i64]) {
    let kernel = parse(text);
    for seed in 1..4 {
        agree(&kernel, &small_buffers(&kernel, symbols, seed), symbols, Exact::ZeroSign);
    }
}
