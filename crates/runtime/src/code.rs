//! Kernels in executable memory.
//!
//! Invariants: no page is ever writable and executable at once; every kernel begins at a multiple
//! of 64 bytes, so that its constants are aligned, too; what lies between kernels traps.

use std::collections::BTreeMap;
use std::io::Write as _;

use base::{Diagnostic, KernelId, codes};

use crate::abi::KernelFn;

/// One kernel to load.
#[derive(Clone, Copy, Debug)]
pub struct KernelCode<'a> {
    /// For diagnostics and profilers.
    pub name: &'a str,
    /// Position-independent code, its entry at offset 0, and constants behind it.
    pub bytes: &'a [u8],
    /// Scratch memory that one worker needs, in bytes.
    pub scratch_bytes: u64,
}

/// Kernels that can be called.
#[derive(Debug)]
pub struct Code {
    kernels: BTreeMap<KernelId, Loaded>,
    mapping: Mapping,
}

/// Where a kernel is.
#[derive(Debug)]
struct Loaded {
    name: String,
    offset: usize,
    bytes: usize,
    scratch_bytes: u64,
}

impl Code {
    /// Loads kernels. Nothing is run by that.
    ///
    /// # Errors
    /// A diagnostic if this platform has no just-in-time compiler, or if the system does not give
    /// executable memory.
    pub fn load<'a>(
        kernels: impl IntoIterator<Item = (KernelId, KernelCode<'a>)>,
    ) -> base::Result<Code> {
        let mut pieces = Vec::new();
        let mut loaded = BTreeMap::new();
        let mut end: usize = 0;
        for (id, kernel) in kernels {
            let offset = end.next_multiple_of(crate::memory::ALIGNMENT);
            let (name, bytes) = (kernel.name.to_owned(), kernel.bytes.len());
            end = offset + bytes;
            pieces.push((offset, kernel.bytes));
            let scratch_bytes = kernel.scratch_bytes;
            loaded.insert(id, Loaded { name, offset, bytes, scratch_bytes });
        }
        Ok(Code { kernels: loaded, mapping: Mapping::executable(end, &pieces)? })
    }

    /// The bytes of all kernels, constants behind them included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.kernels.values().map(|kernel| kernel.bytes).sum()
    }

    /// The kernels as they were given to [`Code::load`], by their ids.
    pub fn kernels(&self) -> impl ExactSizeIterator<Item = (KernelId, KernelCode<'_>)> {
        self.kernels.iter().map(|(&id, kernel)| {
            let bytes = self.mapping.bytes(kernel.offset, kernel.bytes);
            (id, KernelCode { name: &kernel.name, bytes, scratch_bytes: kernel.scratch_bytes })
        })
    }

    /// The kernel's name, if it is loaded.
    #[must_use]
    pub fn name(&self, kernel: KernelId) -> Option<&str> {
        self.kernels.get(&kernel).map(|loaded| &loaded.name[..])
    }

    /// The lines of a perf map: address, size and name of each kernel.
    #[must_use]
    pub fn perf_map(&self) -> String {
        let base = self.mapping.address();
        let line = |kernel: &Loaded| {
            let Loaded { name, offset, bytes, .. } = kernel;
            format!("{:x} {bytes:x} {name}\n", base + offset)
        };
        self.kernels.values().map(line).collect()
    }

    /// Adds the kernels to the file `/tmp/perf-PID.map`, in which `perf` looks for the names of
    /// generated code.
    ///
    /// # Errors
    /// `TW0301` if it cannot be written.
    pub fn append_perf_map(&self) -> Result<(), Diagnostic> {
        let path = std::env::temp_dir().join(format!("perf-{}.map", std::process::id()));
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(self.perf_map().as_bytes()));
        written.map_err(|error| {
            Diagnostic::error(codes::CANNOT_WRITE_FILE, "cannot write the map of kernel names")
                .at(path.display().to_string())
                .because(error.to_string())
        })
    }

    /// The kernel's entry point, if it is loaded. It can be called as long as `self` lives.
    pub(crate) fn entry(&self, kernel: KernelId) -> Option<KernelFn> {
        let loaded = self.kernels.get(&kernel).filter(|loaded| loaded.bytes > 0)?;
        let address = (self.mapping.address() + loaded.offset) as *const ();
        // SAFETY: the address is not null, and a function pointer may be made of any other. Whoever
        // calls it answers for what is there.
        Some(unsafe { std::mem::transmute::<*const (), KernelFn>(address) })
    }

    /// Scratch memory that a worker needs for the kernel.
    pub(crate) fn scratch_bytes(&self, kernel: KernelId) -> u64 {
        self.kernels.get(&kernel).map_or(0, |loaded| loaded.scratch_bytes)
    }
}

/// `int3`.
const TRAP: u8 = 0xcc;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod mapping {
    use base::Diagnostic;
    use base::codes::NO_JIT_ON_THIS_PLATFORM;
    use base::remedies::WRITE_C;

    /// Pages that can be read and executed.
    #[derive(Debug)]
    pub(super) struct Mapping {
        address: usize,
        bytes: usize,
    }

    impl Mapping {
        /// So many bytes that hold pieces, each from an offset on; what lies before each traps.
        pub(super) fn executable(bytes: usize, pieces: &[(usize, &[u8])]) -> base::Result<Mapping> {
            // An empty mapping is refused by the system.
            let bytes = bytes.max(1);
            let (access, kind) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: a new anonymous mapping touches no memory in use.
            let pointer = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
            if pointer == libc::MAP_FAILED {
                return Err(refused());
            }
            let mapping = Mapping { address: pointer as usize, bytes };
            // SAFETY: the mapping is writable, initialised and of this size; there are no other
            // references to it.
            let image = unsafe { std::slice::from_raw_parts_mut(pointer.cast::<u8>(), bytes) };
            let mut end = 0;
            for (offset, piece) in pieces {
                image[end..*offset].fill(super::TRAP);
                end = offset + piece.len();
                image[*offset..end].copy_from_slice(piece);
            }
            // SAFETY: the range is the mapping, to which there are no references.
            let changed =
                unsafe { libc::mprotect(pointer, bytes, libc::PROT_READ | libc::PROT_EXEC) };
            if changed == 0 { Ok(mapping) } else { Err(refused()) }
        }

        pub(super) fn address(&self) -> usize {
            self.address
        }

        /// So many bytes of it, from an offset on.
        pub(super) fn bytes(&self, offset: usize, bytes: usize) -> &[u8] {
            assert!(offset + bytes <= self.bytes, "a kernel lies in the mapping");
            // SAFETY: the range lies in the mapping, which is initialised, readable as long as it
            // lives, and no longer written to.
            unsafe { std::slice::from_raw_parts((self.address + offset) as *const u8, bytes) }
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: mapped with this size, and not given back before. Executables hold the code
            // that they call, so no kernel runs now.
            unsafe { libc::munmap(self.address as *mut libc::c_void, self.bytes) };
        }
    }

    fn refused() -> base::Diagnostics {
        let reason = std::io::Error::last_os_error();
        Diagnostic::error(NO_JIT_ON_THIS_PLATFORM, "the system gives no executable memory")
            .because(reason.to_string())
            .remedy(format!("allow the process executable memory, or {WRITE_C}"))
            .into()
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod mapping {
    use base::Diagnostic;
    use base::codes::NO_JIT_ON_THIS_PLATFORM;
    use base::remedies::WRITE_C;

    /// There are none here.
    #[derive(Debug)]
    pub(super) struct Mapping(std::convert::Infallible);

    impl Mapping {
        pub(super) fn executable(_: usize, _: &[(usize, &[u8])]) -> base::Result<Mapping> {
            Err(Diagnostic::error(NO_JIT_ON_THIS_PLATFORM, "models cannot be run in process here")
                .because("machine code is made for Linux on x86-64 only")
                .remedy(WRITE_C)
                .into())
        }

        pub(super) fn address(&self) -> usize {
            match self.0 {}
        }

        pub(super) fn bytes(&self, _: usize, _: usize) -> &[u8] {
            match self.0 {}
        }
    }
}

use mapping::Mapping;
