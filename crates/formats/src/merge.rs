//! Neighbouring axes that always step together become one.
//!
//! before: `data[n, y, x, c] * filter[c, o] -> [n, y, x, o]`
//! after:  `data[p, c] * filter[c, o] -> [p, o]` with `p` over all of `n, y, x`
//!
//! Both axes are of the result or both are reduced, and each operand either does not read them or
//! has them as two whole neighbouring axes. The order of the sum stays: the merged axis counts as
//! the two did.

use graph::{Built, FunctionBuilder, IterationSpace};

use crate::contraction::Contraction;

/// Merges all axes that can be.
pub(super) fn apply(
    contraction: &mut Contraction,
    builder: &mut FunctionBuilder,
    messages: &mut Vec<String>,
) -> Built<()> {
    let before = contraction.space.extents.len();
    let mut first = 0;
    while first + 1 < contraction.space.extents.len() {
        match places(contraction, builder, first)? {
            Some(places) => contraction.merge_axes(builder, first, places)?,
            None => first += 1,
        }
    }
    let after = contraction.space.extents.len();
    if after < before {
        messages.push(format!("{before} axes merged into {after}"));
    }
    Ok(())
}

/// Where each operand has the axes `first` and `first + 1`, if they can be merged.
fn places(
    contraction: &Contraction,
    builder: &FunctionBuilder,
    first: usize,
) -> Built<Option<[Option<usize>; 2]>> {
    let space = &contraction.space;
    if first + 1 == space.parallel {
        return Ok(None);
    }
    let (outer, inner) = (IterationSpace::axis(first), IterationSpace::axis(first + 1));
    let mut places = [None; 2];
    for (operand, place) in places.iter_mut().enumerate() {
        if !contraction.reads(operand, first) && !contraction.reads(operand, first + 1) {
            continue;
        }
        let index = &space.operands[operand];
        let Some(at) = index.windows(2).position(|pair| pair[0] == outer && pair[1] == inner)
        else {
            return Ok(None);
        };
        let shape = builder.shape(contraction.operands[operand].value)?;
        let whole = shape[at] == space.extents[first];
        if !whole || !space.steps_as_one(operand, &shape, first, first + 1) {
            return Ok(None);
        }
        *place = Some(at);
    }
    Ok(places.iter().any(Option::is_some).then_some(places))
}
