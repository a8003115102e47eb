//! The operators of ONNX Runtime's own domains, which its optimiser, its quantiser and builders of
//! models write: a table with a row each, and one function each that lowers a node to the
//! primitives that its relative of ONNX's own operators becomes, so that the same passes apply.
//!
//! Meanings are those of ONNX Runtime's kernels for CPUs, which models were made with; where the
//! text of a schema says otherwise, the function says so.

mod attention;
mod blocked;
mod dense;
mod elementwise;
mod experts;
mod group_attention;
mod normalization;
mod packed;
mod quantized;
mod sequences;
mod table;
mod window_cache;

pub(crate) use blocked::filter_block;
pub(crate) use table::{REFUSED, TABLE, refused};

use super::Lowered;
