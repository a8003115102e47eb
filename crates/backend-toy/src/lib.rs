//! A back end for a machine that does not exist: the smallest whole example of a target.
//!
//! The machine has registers that hold a number of any element type, and instructions that apply
//! one row of the scalar function table, load or store one element, or jump (`machine`). A
//! scheduled kernel becomes such code (`code`): every loop, whatever its kind, is run turn by
//! turn. The steps of a program are run as they stand (`host`). As any back end it knows kernels,
//! programs and scalars, and nothing above them: no graph, no strategy, no format of models.

mod code;
mod host;
mod machine;

pub use host::ToyProgram;
