//! Artifacts in this process: shared libraries that the compiler wrote, loaded and called as their
//! headers say.
//!
//! Values go in and out as bytes and extents; the memory between is made here. This is for tests
//! and for whoever wants to look at an artifact: programs call them directly.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;

use base::{Diagnostic, codes};

use crate::memory::Block;

/// A value that goes to an artifact, or comes from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArtifactValue {
    /// A dense tensor: extents and elements.
    Tensor {
        /// Its extents.
        extents: Vec<i64>,
        /// Its elements.
        bytes: Vec<u8>,
    },
    /// The values of a sequence, or of an optional value.
    List(Vec<ArtifactValue>),
}

/// What is known of a model in an artifact when it is called.
#[derive(Clone, Debug, Default)]
pub struct ArtifactCall<'a> {
    /// What its functions begin with.
    pub name: &'a str,
    /// Its weights; none where they lie in the artifact.
    pub weights: &'a [u8],
    /// Bytes of the block of constants; 0 where it lies in the artifact.
    pub constants_bytes: usize,
    /// Bytes of the arena of a setup, of one worker.
    pub setup_arena_bytes: usize,
    /// Bytes of the arena of a run, of one worker; a plan begins with as many, and takes more.
    pub arena_bytes: usize,
    /// Bytes more of an arena for each further worker.
    pub worker_bytes: usize,
    /// How many threads take part.
    pub workers: usize,
}

/// The outputs of a model.
#[derive(Clone, Debug)]
pub enum ArtifactOutputs<'a> {
    /// Those of a program: extents and bytes of each.
    Known(&'a [(Vec<i64>, usize)]),
    /// Those of a plan: how many lists stand around the tensors of each, and the most axes that a
    /// value has.
    Planned(&'a [usize], usize),
}

/// A shared library that the compiler wrote.
#[derive(Debug)]
pub struct LoadedArtifact {
    handle: *mut c_void,
}

// SAFETY: an artifact has no state of its own, and its functions may be called from any thread.
unsafe impl Send for LoadedArtifact {}
// SAFETY: as above.
unsafe impl Sync for LoadedArtifact {}

/// A function of an artifact.
type Entry = unsafe extern "C" fn(arguments: *const i64) -> i32;

/// A part of a kernel's run.
type Task = unsafe extern "C" fn(context: *mut c_void, first: i64, last: i64, worker: i64);

/// The most memory that a plan is given.
const MOST_MEMORY: usize = 1 << 36;

/// What plans say where there is too little memory.
const TOO_LITTLE_MEMORY: i32 = program::Fault::TooLittleMemory.code();

impl LoadedArtifact {
    /// Loads a library.
    ///
    /// # Errors
    /// `TW0301` where the system does not load it.
    ///
    /// # Safety
    /// The file is one that this compiler has written.
    pub unsafe fn open(path: &Path) -> base::Result<LoadedArtifact> {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).unwrap_or_default();
        // SAFETY: the name is a text of C. What the library does when it is loaded is nothing, as
        // the caller promises that the compiler has written it.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: the system says a text of C about what has just failed, or nothing.
            let said = unsafe { text_of(libc::dlerror()) };
            return Err(Diagnostic::error(codes::CANNOT_READ_FILE, "cannot load the library")
                .at(path.display().to_string())
                .because(said)
                .into());
        }
        Ok(LoadedArtifact { handle })
    }

    fn entry(&self, name: &str) -> base::Result<Entry> {
        let symbol = CString::new(name).unwrap_or_default();
        // SAFETY: the library is open.
        let address = unsafe { libc::dlsym(self.handle, symbol.as_ptr()) };
        if address.is_null() {
            let message = format!("the library has no function `{name}`");
            return Err(Diagnostic::error(codes::INTERNAL_ERROR, message).into());
        }
        // SAFETY: the compiler wrote functions of this type under these names.
        Ok(unsafe { std::mem::transmute::<*mut c_void, Entry>(address) })
    }

    /// Fills the block of constants, and gives it.
    ///
    /// # Errors
    /// The status, where it is not 0.
    pub fn set_up(&self, call: &ArtifactCall<'_>) -> base::Result<Block> {
        let mut constants = Block::zeroed(call.constants_bytes)?;
        if call.constants_bytes == 0 && call.setup_arena_bytes == 0 {
            return Ok(constants);
        }
        let mut arena = arena(call, call.setup_arena_bytes)?;
        let entry = self.entry(&format!("{}_setup", call.name))?;
        let mut words = arguments(call, &mut constants, &mut arena);
        words.extend([0; 2]);
        // SAFETY: weights, constants and arena are as long as the artifact asks for.
        status(unsafe { entry(words.as_ptr()) })?;
        Ok(constants)
    }

    /// Runs the model: the outputs, of inputs and free extents.
    ///
    /// # Errors
    /// The status, where it is not 0.
    pub fn run(
        &self,
        call: &ArtifactCall<'_>,
        constants: &mut Block,
        inputs: &[ArtifactValue],
        extents: &[i64],
        outputs: &ArtifactOutputs<'_>,
    ) -> base::Result<Vec<ArtifactValue>> {
        let entry = self.entry(&format!("{}_run", call.name))?;
        let axes = match outputs {
            ArtifactOutputs::Known(_) => 1,
            ArtifactOutputs::Planned(_, axes) => *axes,
        };
        let mut held = Held { axes, memory: Vec::new() };
        let table: Vec<i64> = inputs
            .iter()
            .map(|input| match input {
                ArtifactValue::Tensor { bytes, .. } => bytes.as_ptr() as i64,
                list => held.value(list),
            })
            .collect();
        let mut bytes = call.arena_bytes;
        loop {
            let mut arena = arena(call, bytes)?;
            let mut words = arguments(call, constants, &mut arena);
            words[4] = table.as_ptr() as i64;
            match outputs {
                ArtifactOutputs::Known(outputs) => {
                    let mut made: Vec<Vec<u8>> =
                        outputs.iter().map(|(_, bytes)| vec![0; *bytes]).collect();
                    let places: Vec<i64> =
                        made.iter_mut().map(|bytes| bytes.as_mut_ptr() as i64).collect();
                    words[5] = places.as_ptr() as i64;
                    // SAFETY: all memory is as long as the artifact asks for.
                    status(unsafe { entry(words.as_ptr()) })?;
                    let value = |((extents, _), bytes): (&(Vec<i64>, usize), Vec<u8>)| {
                        ArtifactValue::Tensor { extents: extents.clone(), bytes }
                    };
                    return Ok(outputs.iter().zip(made).map(value).collect());
                }
                ArtifactOutputs::Planned(outputs, axes) => {
                    let each = 3 + axes;
                    let made = vec![0i64; each * outputs.len() + 1];
                    words[5] = made.as_ptr() as i64;
                    words.extend(extents);
                    // SAFETY: as above; a plan asks for as many extents as there are.
                    match unsafe { entry(words.as_ptr()) } {
                        TOO_LITTLE_MEMORY if bytes < MOST_MEMORY => bytes = 2 * bytes.max(256),
                        other => {
                            status(other)?;
                            let place = |number: usize| made[number * each..].as_ptr();
                            // SAFETY: a plan that ends well has told where its outputs lie, in the
                            // arena or among the inputs, which are both here.
                            let value = |(number, lists): (usize, &usize)| unsafe {
                                told(place(number), *lists, each)
                            };
                            return Ok(outputs.iter().enumerate().map(value).collect());
                        }
                    }
                }
            }
        }
    }
}

impl Drop for LoadedArtifact {
    fn drop(&mut self) {
        // SAFETY: it was opened once, and is closed once.
        unsafe { libc::dlclose(self.handle) };
    }
}

/// Memory for an arena of several workers.
fn arena(call: &ArtifactCall<'_>, bytes: usize) -> base::Result<Block> {
    Block::zeroed(bytes + call.worker_bytes * call.workers.saturating_sub(1))
}

/// The arguments of a call, without inputs and outputs.
fn arguments(call: &ArtifactCall<'_>, constants: &mut Block, arena: &mut Block) -> Vec<i64> {
    let workers = call.workers as i64;
    let (arena_bytes, parallel) = (arena.len() as i64, parallel_for as *const () as i64);
    vec![
        call.weights.as_ptr() as i64,
        constants.as_ptr() as i64,
        arena.as_ptr() as i64,
        arena_bytes,
        0,
        0,
        if workers > 1 { parallel } else { 0 },
        workers,
        workers,
    ]
}

/// Lists that are given, as structures that artifacts read.
struct Held {
    axes: usize,
    memory: Vec<Vec<i64>>,
}

impl Held {
    /// Where the structure of a value is.
    fn value(&mut self, value: &ArtifactValue) -> i64 {
        let words = self.words(value);
        self.keep(words)
    }

    fn keep(&mut self, words: Vec<i64>) -> i64 {
        let place = words.as_ptr() as i64;
        self.memory.push(words);
        place
    }

    fn words(&mut self, value: &ArtifactValue) -> Vec<i64> {
        let mut words = match value {
            ArtifactValue::Tensor { extents, bytes } => {
                let head = [bytes.as_ptr() as i64, bytes.len() as i64, extents.len() as i64];
                head.into_iter().chain(extents.iter().copied()).collect::<Vec<i64>>()
            }
            ArtifactValue::List(values) => {
                let mut held = Vec::new();
                for value in values {
                    held.extend(self.words(value));
                }
                held.push(0);
                vec![self.keep(held), 0, 1, values.len() as i64]
            }
        };
        words.resize(3 + self.axes, 0);
        words
    }
}

/// The value that a structure tells, around whose tensors so many lists stand.
///
/// # Safety
/// The structure, of `each` words, and all that it tells are readable.
unsafe fn told(place: *const i64, lists: usize, each: usize) -> ArtifactValue {
    // SAFETY: as the caller promises.
    unsafe {
        let (data, bytes, axes) = (place.read(), place.add(1).read(), place.add(2).read());
        let extents: Vec<i64> = (0..axes as usize).map(|axis| place.add(3 + axis).read()).collect();
        if lists == 0 {
            let bytes = bytes as usize;
            let elements = match bytes {
                0 => Vec::new(),
                _ => std::slice::from_raw_parts(data as *const u8, bytes).to_vec(),
            };
            return ArtifactValue::Tensor { extents, bytes: elements };
        }
        let held = |number: usize| told((data as *const i64).add(number * each), lists - 1, each);
        ArtifactValue::List((0..extents[0] as usize).map(held).collect())
    }
}

/// What artifacts call to have several threads: the pool is how many.
unsafe extern "C" fn parallel_for(
    pool: *mut c_void,
    task: Task,
    context: *mut c_void,
    extent: i64,
    grain: i64,
) {
    let workers = (pool as i64).max(1);
    let part = grain.max(extent / (2 * workers)).max(1);
    let next = std::sync::atomic::AtomicI64::new(0);
    let context = context as usize;
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let next = &next;
            scope.spawn(move || {
                loop {
                    let first = next.fetch_add(part, std::sync::atomic::Ordering::Relaxed);
                    if first >= extent {
                        return;
                    }
                    let last = extent.min(first + part);
                    // SAFETY: the artifact gave the task and its context; each worker has one
                    // thread, and each number is done once.
                    unsafe { task(context as *mut c_void, first, last, worker) };
                }
            });
        }
    });
}

fn status(status: i32) -> base::Result<()> {
    if status == 0 {
        return Ok(());
    }
    Err(Diagnostic::error(codes::INDEX_OUT_OF_RANGE, format!("an artifact says fault {status}"))
        .at("a run of the artifact")
        .because("its header says what the number means")
        .into())
}

/// # Safety
/// The address is that of a text of C, or null.
unsafe fn text_of(text: *mut c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
