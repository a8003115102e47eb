//! Values: element types, scalars, host tensors, and what can be computed on one element.
//!
//! This crate knows no IR. It holds
//!
//! - [`DType`], the element types, a row of one table each; [`minifloat`] for the short float
//!   formats;
//! - [`Scalar`], one element as plain data, whose text form round-trips bit for bit;
//! - [`Tensor`], a dense row-major host tensor over owned or shared (mapped) bytes;
//! - [`Value`], a tensor, a sequence or an optional value;
//! - [`ScalarFunction`] and [`Reduction`], the one table of scalar functions that all levels share;
//! - [`npy`] and [`npz`], NumPy's files; [`zip`], archives; [`random`], a reproducible fill;
//!   [`compare()`], tolerant comparison; [`StagedFiles`], files written whole or not at all;
//!   [`TemporaryFolder`], for files that nobody is to find later.
//!
//! Bytes are little-endian everywhere; the host must be too. Sub-byte elements are packed from the
//! low bits of each byte upwards, as in ONNX.

#[cfg(not(target_endian = "little"))]
compile_error!("tensor bytes are little-endian; a big-endian host is not supported");

pub mod compare;
pub mod dtype;
pub mod function;
pub mod fused;
pub mod mapped;
pub mod minifloat;
#[cfg(any(feature = "ndarray", test))]
mod ndarray;
pub mod npy;
pub mod npz;
pub mod random;
pub mod reduction;
mod rows;
pub mod scalar;
pub mod staged;
pub mod storage;
pub mod strides;
pub mod temporary;
pub mod tensor;
pub mod value;
pub mod zip;

pub use compare::{Deviation, Tolerance, compare};
pub use dtype::{Class, DType};
pub use function::{Monotone, ScalarFunction};
pub use fused::MultiplyAdd;
pub use mapped::map_file;
pub use reduction::Reduction;
pub use scalar::Scalar;
pub use staged::{StagedFile, StagedFiles};
pub use storage::Element;
pub use strides::{dense_strides, offsets};
pub use temporary::TemporaryFolder;
pub use tensor::Tensor;
pub use value::{Given, Keys, Kind, Structure, Value};
