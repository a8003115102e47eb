//! The runtime: runs a program whose kernels are machine code.
//!
//! - [`abi`]: how kernels are called;
//! - [`Code`]: kernels in executable memory;
//! - [`Block`]: aligned memory for arenas and constants;
//! - [`pool`]: the worker threads, one pool a process;
//! - [`LoadedProgram`]: a program ready to run; [`State`]: what one caller needs to run it,
//!   [`StatePool`]: several; [`Call`]: one run; [`Profile`]: where its time went;
//! - `LoadedArtifact`: a shared library that the compiler wrote, called;
//! - [`cpu`]: what this machine can do;
//! - [`SmallObjects`]: an allocator for programs that compile.
//!
//! From the second run on a state allocates nothing and makes no system call, unless workers have
//! to be woken. The same program gives the same bits for any number of threads, because a kernel's
//! result does not depend on how its parallel extent is cut. Nothing here reads a clock; a
//! [`Profile`] brings its own.
//!
//! This crate does not know graphs, kernels' insides or element types: memory is bytes.

pub mod abi;
mod call;
mod code;
pub mod cpu;
mod executable;
#[cfg(target_os = "linux")]
mod library;
mod memory;
mod movement;
mod parts;
pub mod pool;
mod profile;
mod resolve;
mod run;
mod settling;
mod small;
mod square;
mod state;

pub use call::Call;
pub use code::{Code, KernelCode};
pub use executable::LoadedProgram;
#[cfg(target_os = "linux")]
pub use library::{ArtifactCall, ArtifactOutputs, ArtifactValue, LoadedArtifact};
pub use memory::{Block, out_of_memory};
pub use profile::{Profile, ProfileEvent, ProfileRow};
pub use settling::SettlingBlock;
pub use small::SmallObjects;
pub use state::{State, StatePool};
