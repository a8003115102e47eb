//! Scales, zero points and shifts of blocks, in panels like those of the integers that they belong
//! to.
//!
//! before: `mul(broadcast(cast<f32>(whole)[n, b])[n, b, 8], cast<f32>(part)[n, b, 8])` as a scale
//!         of `[n, 8 * b]` blocks, `whole` floats of 16 bits, `part` bytes
//! after:  the same of `whole` and `part` laid out each by itself, as short as they are
//!
//! So the cut can have kernels make scales where they load what these are made of, which takes a
//! fraction of their memory. The numbers are the same.

use backend::Target;
use base::Id;
use graph::{Built, Function, IterationSpace, Op, Rewriter, ValueId, element_count};
use sym::Expr;
use tensor::{DType, ScalarFunction};

use super::{Parts, Stored};
use crate::panels;
use crate::quantised::Scale;

/// Functions and movements that are looked through: more than formats of blocks have.
const MOST_STEPS: usize = 16;

/// Numbers in panels, and the axes of the sums of blocks that theirs are.
struct Laid {
    value: ValueId,
    axes: Vec<usize>,
}

impl Stored {
    /// Scales in panels like those of the integers, in the shape of the sums of blocks.
    pub(super) fn repeated(
        &self,
        rewriter: &mut Rewriter<'_>,
        space: &IterationSpace,
        (scale, value): (&Scale, ValueId),
        target: &Target,
        parts: &Parts,
    ) -> Built {
        let as_given = value == rewriter.get(scale.value);
        let laid = if as_given && self.is_made_of_short(rewriter.source, scale) {
            let value = (scale.value, self.blocks);
            self.laid_as_made(rewriter, space, scale, value, (target, parts))?
        } else {
            self.laid(rewriter, space, scale, (value, self.blocks), (target, parts))?
        };
        rewriter.builder.broadcast(laid.value, parts.shape(), &laid.axes)
    }

    /// Whether numbers follow, element by element, from such of at most 16 bits.
    fn is_made_of_short(&self, source: &Function, scale: &Scale) -> bool {
        let blocks_last = scale.shape.last() == Some(&Expr::constant(self.blocks));
        let mut work = vec![(scale.value, self.blocks, MOST_STEPS)];
        while let Some((value, blocks, steps)) = work.pop() {
            let Some((id, _)) = source.producer(value).filter(|_| steps > 0) else { return false };
            let node = &source.nodes[id];
            let next = |blocks: i64| node.operands.iter().map(move |&it| (it, blocks, steps - 1));
            match &node.op {
                Op::Map { function: ScalarFunction::Cast, dtype: DType::F32 }
                    if is_short(source, node.operands[0]) => {}
                Op::Map { function, dtype: DType::F32 } if combines(*function) => {
                    work.extend(next(blocks));
                }
                Op::Reshape { .. } => work.extend(next(blocks)),
                Op::Broadcast { .. } => {
                    let each = repeats_last(source, value).filter(|_| blocks_last);
                    let Some(each) = each.filter(|each| blocks % each == 0) else { return false };
                    work.extend(next(blocks / each));
                }
                _ => return false,
            }
        }
        true
    }

    /// Numbers made, element by element, of what they are made of in panels: old ones, of which
    /// there are so many along the blocks.
    fn laid_as_made(
        &self,
        rewriter: &mut Rewriter<'_>,
        space: &IterationSpace,
        scale: &Scale,
        (value, blocks): (ValueId, i64),
        layout: (&Target, &Parts),
    ) -> Built<Laid> {
        let source = rewriter.source;
        let (id, _) = source.producer(value).ok_or("scales of nothing")?;
        let node = &source.nodes[id];
        let inner = node.operands[0];
        match &node.op {
            Op::Reshape { .. } => {
                self.laid_as_made(rewriter, space, scale, (inner, blocks), layout)
            }
            Op::Broadcast { .. } => {
                let each = repeats_last(source, value).ok_or("scales that are not repeated")?;
                let fewer = (inner, blocks / each);
                let Laid { value, axes } =
                    self.laid_as_made(rewriter, space, scale, fewer, layout)?;
                let block = axes.iter().position(|axis| *axis == layout.1.block());
                let block = block.ok_or("scales without blocks")?;
                let builder = &mut rewriter.builder;
                let mut shape = builder.shape(value)?.to_vec();
                let mut split = shape.clone();
                split.insert(block + 1, Expr::constant(each));
                let kept: Vec<usize> = (0..split.len()).filter(|at| *at != block + 1).collect();
                let value = builder.broadcast(value, &split[..], &kept)?;
                shape[block] = Expr::constant(blocks);
                Ok(Laid { value: builder.reshape(value, shape)?, axes })
            }
            Op::Map { function: ScalarFunction::Cast, dtype } => {
                let short = (rewriter.get(inner), blocks);
                let laid = self.laid(rewriter, space, scale, short, layout)?;
                Ok(Laid { value: rewriter.builder.cast(laid.value, *dtype)?, ..laid })
            }
            Op::Map { function, .. } => {
                let (mut values, mut own) = (Vec::new(), Vec::new());
                for &operand in &node.operands {
                    let laid =
                        self.laid_as_made(rewriter, space, scale, (operand, blocks), layout)?;
                    values.push(laid.value);
                    own = laid.axes;
                }
                Ok(Laid { value: rewriter.builder.map(*function, &values)?, axes: own })
            }
            _ => Err("scales that are made otherwise".to_owned()),
        }
    }

    /// Numbers in panels, as they are: new ones, of which there are so many along the blocks.
    fn laid(
        &self,
        rewriter: &mut Rewriter<'_>,
        space: &IterationSpace,
        scale: &Scale,
        (value, blocks): (ValueId, i64),
        (target, parts): (&Target, &Parts),
    ) -> Built<Laid> {
        let mut shape = scale.shape.clone();
        if blocks != self.blocks {
            shape.pop();
            shape.push(Expr::constant(blocks));
        }
        let value = rewriter.builder.reshape(value, shape)?;
        let fewer = Stored { blocks, terms: self.terms * self.blocks / blocks, ..self.clone() };
        let mut own = fewer.contraction(rewriter, space);
        // Blocks have the place of the terms: both are the only reduced axis of their operand.
        let read = &space.operands[self.operand];
        own.space.operands[self.operand] =
            scale.axes.iter().map(|axis| read[*axis].clone()).collect();
        own.operands[self.operand].value = value;
        panels::apply(&mut own, &mut rewriter.builder, target, &mut Vec::new())?;
        let value = own.operands[self.operand].value;
        let own = fewer.parts(&own, &rewriter.builder.shape(value)?)?;
        if own.panel != parts.panel {
            return Err("scales of another layout".to_owned());
        }
        let place = |own: &Expr| Some(parts.axis(own.as_symbol()?.index()));
        let axes = own.space.operands[self.operand].iter().map(place);
        let axes = axes.collect::<Option<Vec<usize>>>().ok_or("scales that are not walked")?;
        Ok(Laid { value, axes })
    }
}

/// Whether a value is floats of 16 bits or bytes.
fn is_short(source: &Function, value: ValueId) -> bool {
    let dtype = source.ty(value).as_tensor().map(|ty| ty.dtype);
    matches!(dtype, Some(DType::F16 | DType::BF16 | DType::U8 | DType::I8))
}

/// Whether a function makes scales of parts of them.
fn combines(function: ScalarFunction) -> bool {
    matches!(function, ScalarFunction::Mul | ScalarFunction::Neg)
}

/// How often in a row a value repeats each element of what it is a broadcast of.
fn repeats_last(source: &Function, value: ValueId) -> Option<i64> {
    let (id, _) = source.producer(value)?;
    let Op::Broadcast { shape, axes } = &source.nodes[id].op else { return None };
    let inner = source.ty(source.nodes[id].operands[0]).as_tensor()?;
    let whole = axes.iter().zip(inner.shape.iter()).all(|(&axis, own)| shape[axis] == *own);
    let leading = whole && axes.iter().copied().eq(0..axes.len());
    element_count(&shape[axes.len()..]).as_constant().filter(|each| leading && *each > 0)
}
