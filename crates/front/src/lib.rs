//! The kit of all front ends: from the operators of a format to a graph function, whatever the
//! format is.
//!
//! A front end reads bytes, text or calls, and lowers each operator that it meets to primitives of
//! `graph`. Every one of them has the same work to do on the way, which is done here once:
//!
//! - [`Operand`] is what a name of the model stands for. Besides a node of the graph it may be
//!   *known*: models compute shapes with tensors, and the elements of such small tensors are kept
//!   as numbers or expressions of extents, so that what computes shapes leaves no node behind.
//! - [`Graph`] is the function under construction: the primitives as methods on values. Each first
//!   tries to compute what is known, then makes a node. Shapes broadcast as NumPy's do; extents
//!   that differ as expressions but may be equal are made equal by an assumption.
//! - [`Graph::add`] and its like are formulas by name; [`Windows`] is the geometry of convolution
//!   and pooling; [`Graph::scan`] is a counted loop, [`region`] the graph inside of a node.
//!
//! What an operator computes is then a few lines:
//!
//! ```
//! # use front::{Graph, Accepted, Operand};
//! /// `x` scaled so that its last axis has the mean square 1.
//! fn normalised(graph: &mut Graph, x: &Operand) -> Accepted<Operand> {
//!     let square = graph.square(x)?;
//!     let mean = graph.mean(&square, &[x.rank() - 1], true)?;
//!     let root = graph.sqrt(&mean)?;
//!     graph.div(x, &root)
//! }
//! # let graph = &mut Graph::new("main", base::Limits::default());
//! # let x = tensor::Tensor::from_slice(&[2], &[3.0_f32, 4.0]);
//! # let x = Operand::of_weight("x".to_owned(), x);
//! # assert_eq!(normalised(graph, &x).expect("a value").rank(), 1);
//! ```
//!
//! Invariants: a refusal is a diagnostic with a reason and a remedy, to which the front end adds
//! the place; nothing that a model says makes this crate panic or take memory beyond its limits; no
//! node that is made in a region is used outside of it. This crate knows no format: no operator has
//! a name here, and no attribute.

mod arithmetic;
mod attention;
mod blocks;
mod complex;
mod convolution;
mod einsum;
mod facts;
mod flatbuffer;
mod fourier;
mod host;
mod import;
mod indices;
mod lists;
mod loops;
mod model_file;
mod movement;
mod needs;
mod pooling;
mod port;
mod products;
mod sampling;
mod shapes;
mod special;
mod standard;
mod value;
mod windows;
mod writer;

pub use graph::Known;

pub use attention::{Heads, Scores, attend, attention_weights, product_of_heads, rotated};
pub use blocks::{block_values, repeat_blocks, rows_product};
pub use complex::Complex;
pub use convolution::{TransposedAxis, add_bias, convolve, convolve_transposed};
pub use einsum::einsum;
pub use facts::{FACT_ELEMENTS, FactKind, Facts, Here, Need};
pub use flatbuffer::{FlatBuffer, Number, Table};
pub use fourier::{Direction, fourier, fourier_of_real, fourier_to_real};
pub use host::{HostResult, Told};
pub use import::{ImportOptions, Imported, KeyValues};
pub use indices::{
    elementwise_indices, gather_axis, interpolation_order, shared_axes, true_indices, without_axes,
    wrapped_indices,
};
pub use loops::{Turn, region, scan_types};
pub use model_file::{ModelInfo, place_in, read_model_file};
pub use movement::{normalize_axes, normalize_axis};
pub use pooling::{PlaceOrder, max_places, reduce_windows, window_counts};
pub use port::{Port, PortExtent, in_order, ports, unknown_input};
pub use products::{product, product_as};
pub use sampling::{Interpolation, Surrounding, cubic_weight, sample_grid};
pub use shapes::with_shapes;
pub use special::{polynomial, scaled_bessel};
pub use standard::{
    gelu_of, in_channel_groups, inverse_deviation, over_root_mean_square, over_sum,
    shifted_exponentials, standardize, statistics,
};
pub use value::{
    Coded, KNOWN_ELEMENTS, List, Operand, Texts, Weight, constant_shape, constant_value,
};
pub use windows::{Padding, Windows, reach};
pub use writer::{Accepted, Graph, shape_error, type_error, unsupported};
