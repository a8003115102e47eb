//! Kernels that do nothing but put elements elsewhere, as steps of the program.
//!
//! ```text
//! for i < 64 { for j < 9 { %out[j, i] = %in[i, j] } }
//! move 4 from %in to %out over (64 by 9 to 1, 9 by 1 to 64)
//! ```
//!
//! What `setup` does with weights is mostly this, with other sizes each time. As a step it runs at
//! a fraction of a kernel's speed, but need not be compiled.

use loops::{BufferId, Kernel, Stmt, Value};
use program::MoveAxis;
use sym::{Expr, SymbolId};

use crate::naive::index::dense_strides;

/// Elements from which on a kernel that runs once gains more by good code, about a nanosecond an
/// element, than it takes to compile that.
pub(crate) const WORTH_CODE: i64 = 1 << 18;

/// A kernel as a movement: its parameters by number, offsets in bytes.
pub(crate) struct Movement {
    pub(crate) source: usize,
    pub(crate) source_offset: i64,
    pub(crate) destination: usize,
    pub(crate) destination_offset: i64,
    /// Bytes of an element.
    pub(crate) element: u32,
    /// Outermost first.
    pub(crate) axes: Vec<MoveAxis>,
}

impl Movement {
    /// The kernel as a movement, if it is one, of so few elements that code is not worth it.
    pub(crate) fn of(kernel: &Kernel) -> Option<Movement> {
        let mut loops: Vec<(SymbolId, i64)> = Vec::new();
        let mut block = &kernel.body[..];
        while let [Stmt::For(inner)] = block {
            loops.push((inner.variable, inner.extent.as_constant().filter(|&extent| extent > 0)?));
            block = &inner.body;
        }
        let few = loops.iter().try_fold(1_i64, |count, (_, extent)| count.checked_mul(*extent))?;
        let [
            Stmt::Store { buffer: to, index: written, value: Value::Load { buffer: from, index } },
        ] = block
        else {
            return None;
        };
        let dtype = kernel.buffers[*to].dtype;
        if few >= WORTH_CODE || kernel.buffers[*from].dtype != dtype {
            return None;
        }
        let element = dtype.bytes()? as i64;
        let (read, written) = (place(kernel, *from, index)?, place(kernel, *to, written)?);
        let (mut source_offset, mut destination_offset) = (read, written);
        let mut axes = Vec::new();
        for (variable, extent) in loops {
            let stride = |place: &mut Expr| {
                let stride = place.linear_coefficient(variable)?;
                *place = place.without(variable);
                u32::try_from(stride).ok()
            };
            let (from, to) = (stride(&mut source_offset)?, stride(&mut destination_offset)?);
            axes.push(MoveAxis { extent: u32::try_from(extent).ok()?, from, to });
        }
        let parameter = |buffer: BufferId| kernel.parameters.iter().position(|id| *id == buffer);
        Some(Movement {
            source: parameter(*from)?,
            source_offset: source_offset.as_constant()? * element,
            destination: parameter(*to)?,
            destination_offset: destination_offset.as_constant()? * element,
            element: element as u32,
            axes,
        })
    }
}

/// Elements from a buffer's start; none where its strides are not constant.
fn place(kernel: &Kernel, buffer: BufferId, index: &[Expr]) -> Option<Expr> {
    let buffer = &kernel.buffers[buffer];
    let constants =
        |exprs: &[Expr]| -> Option<Vec<i64>> { exprs.iter().map(Expr::as_constant).collect() };
    let strides = match &buffer.strides {
        Some(strides) => constants(strides)?,
        None => dense_strides(&constants(&buffer.shape)?),
    };
    if strides.len() != index.len() {
        return None;
    }
    let mut place = Expr::ZERO;
    index.iter().zip(strides).for_each(|(index, stride)| place.add_scaled(index, stride));
    Some(place)
}
