//! The meaning of the graph and loop IRs: evaluators that are obvious first and quick second.
//!
//! Every pass, schedule and back end is compared with these. They run in the declared types, or with
//! every float as f64 ([`Precision`]), which gives the reference that errors are measured against.

pub mod loops;

use tensor::DType;

pub use crate::loops::{Fault, FaultKind, Options, Order, evaluate_kernel};

/// The types in which floats are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Every value in its declared type, rounded as the IR says.
    #[default]
    Declared,
    /// Every float value and tensor in f64, whatever its declared float type; casts between float
    /// types do nothing. Other types are as declared.
    F64,
}

impl Precision {
    /// The type in which values declared as `dtype` are computed and stored.
    pub fn dtype(self, dtype: DType) -> DType {
        match self {
            Precision::F64 if dtype.is_float() => DType::F64,
            Precision::F64 | Precision::Declared => dtype,
        }
    }
}
