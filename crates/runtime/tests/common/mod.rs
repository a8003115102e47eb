//! Kernels for the tests: functions of the kernel ABI behind a jump, and one written as bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Id, KernelId};
use program::Program;
use runtime::abi::{Context, KernelFn};
use runtime::{Code, KernelCode, LoadedProgram};
use sym::SymbolId;

/// Loads 64-bit integers, adds 1, stores them: `c[i] = a[i] + 1`.
const INCREMENT: [u8; 34] = [
    0x48, 0x8b, 0x07, // mov rax, [rdi]
    0x4c, 0x8b, 0x00, // mov r8, [rax]
    0x4c, 0x8b, 0x48, 0x08, // mov r9, [rax + 8]
    0x48, 0x39, 0xd6, // next: cmp rsi, rdx
    0x7d, 0x10, // jge done
    0x49, 0x8b, 0x04, 0xf0, // mov rax, [r8 + 8*rsi]
    0x48, 0xff, 0xc0, // inc rax
    0x49, 0x89, 0x04, 0xf1, // mov [r9 + 8*rsi], rax
    0x48, 0xff, 0xc6, // inc rsi
    0xeb, 0xeb, // jmp next
    0x31, 0xc0, // done: xor eax, eax
    0xc3, // ret
];

/// `c[i] = 2 * a[i]`, through the scratch memory.
unsafe extern "C" fn twice(context: *const Context, first: i64, last: i64) -> i32 {
    // SAFETY: the tests' programs give these arguments and eight bytes of scratch memory.
    unsafe {
        let (a, c) = (integers(context, 0), integers(context, 1));
        let scratch = (*context).scratch.cast::<i64>();
        for i in first as usize..last as usize {
            scratch.write_volatile(a.add(i).read_unaligned());
            std::hint::spin_loop();
            c.add(i).write_unaligned(scratch.read_volatile() * 2);
        }
    }
    0
}

/// `c[0] = a[0] < b[0]`, one byte.
unsafe extern "C" fn below(context: *const Context, _: i64, _: i64) -> i32 {
    // SAFETY: the tests' programs give these arguments.
    unsafe {
        let (a, b) = (integers(context, 0), integers(context, 1));
        let less = a.read_unaligned() < b.read_unaligned();
        integers(context, 2).cast::<u8>().write(u8::from(less));
    }
    0
}

/// A fault for each `a[i]` above 90, and a number that is none for 99.
unsafe extern "C" fn checked(context: *const Context, first: i64, last: i64) -> i32 {
    for i in first as usize..last as usize {
        // SAFETY: the tests' programs give this argument.
        match unsafe { integers(context, 0).add(i).read_unaligned() } {
            99 => return 77,
            91.. => return 1,
            _ => {}
        }
    }
    0
}

/// `c[0] = first symbol`.
unsafe extern "C" fn symbol(context: *const Context, _: i64, _: i64) -> i32 {
    // SAFETY: the tests' programs give this argument and have a symbol.
    unsafe { integers(context, 0).write_unaligned(*(*context).symbols) };
    0
}

/// `c[0] = the last iteration`.
unsafe extern "C" fn latest(context: *const Context, _: i64, last: i64) -> i32 {
    // SAFETY: the tests' programs give these arguments.
    unsafe { integers(context, 1).write_unaligned(last - 1) };
    0
}

/// # Safety
/// The context has that many buffers.
unsafe fn integers(context: *const Context, buffer: usize) -> *mut i64 {
    // SAFETY: the caller says so.
    unsafe { (*(*context).buffers.add(buffer)).cast() }
}

/// `mov rax, function; jmp rax`
fn jump_to(function: KernelFn) -> Vec<u8> {
    let address = (function as usize as u64).to_le_bytes();
    [&[0x48, 0xb8][..], &address, &[0xff, 0xe0]].concat()
}

/// The kernels `k0` increment, `k1` twice, `k2` below, `k3` checked, `k4` symbol, `k5` latest.
pub(crate) fn code() -> base::Result<Code> {
    let kernels = [
        ("increment", INCREMENT.to_vec(), 0),
        ("twice", jump_to(twice), 8),
        ("below", jump_to(below), 0),
        ("checked", jump_to(checked), 0),
        ("symbol", jump_to(symbol), 0),
        ("latest", jump_to(latest), 0),
    ];
    Code::load(kernels.iter().enumerate().map(|(index, (name, bytes, scratch_bytes))| {
        let code = KernelCode { name, bytes, scratch_bytes: *scratch_bytes };
        (KernelId::new(index), code)
    }))
}

/// A program of these kernels.
pub(crate) fn executable(
    program: &Program,
    values: &BTreeMap<SymbolId, i64>,
) -> base::Result<Arc<LoadedProgram>> {
    let code = Arc::new(code()?);
    // SAFETY: the programs of the tests give the kernels what they ask for.
    Ok(Arc::new(unsafe { LoadedProgram::new(program, code, values) }?))
}

/// The bytes of `from`, `from + 1` and so on, as 64-bit integers.
pub(crate) fn numbers(from: i64, bytes: usize) -> Vec<u8> {
    let count = i64::try_from(bytes.div_ceil(8)).unwrap_or(0);
    let mut all: Vec<u8> = (from..from + count).flat_map(i64::to_le_bytes).collect();
    all.truncate(bytes);
    all
}
