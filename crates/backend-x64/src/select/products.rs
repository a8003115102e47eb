//! Products of integers come a few at once, before the sums that take them.
//!
//! ```text
//! v2 = mul.i64 v0, v1                    v2 = mul.i64 v0, v1
//! a1 = add.i64 a0, v2                    v3 = mul.i64 v0, w1
//! v3 = mul.i64 v0, w1            ->      a1 = add.i64 a0, v2
//! b1 = add.i64 b0, v3                    b1 = add.i64 b0, v3
//! ```
//!
//! Some units of a processor multiply and all of them add. A sum is given a unit as it comes, and
//! where each product is followed by its sum, every other sum is given one that products wait for:
//! 1.32 clocks a product here, 1.10 where four come before their sums, 1.06 where eight do.
//! Products of floats have no such sums beside them: one instruction does both.

use std::collections::VecDeque;

use base::SecondaryMap;

use crate::vcode::{BasicBlock, Inst, Opcode, VCode, VRegId};

/// The most products that come before the first of their sums.
const TOGETHER: usize = 8;

/// Registers for what products are made of.
const OPERANDS: usize = 4;

/// Puts sums of products of integers behind the next products, as many as have registers beside
/// what their block holds.
pub(super) fn products_first(function: &mut VCode, registers: usize) {
    let values = &function.values;
    let is_vector = |value: VRegId| values[value].vector_bytes() > 0;
    let mut uses: SecondaryMap<VRegId, u32> = SecondaryMap::new();
    for block in function.blocks.values() {
        block.insts.iter().for_each(|inst| inst.each_use(|value| uses[value] += 1));
        block.end.each_use(|value| uses[value] += 1);
    }
    for (_, block) in function.blocks.iter_mut() {
        let is_product = |inst: &Inst| {
            inst.op == Opcode::Mul
                && !inst.lane.is_float()
                && inst.result.is_some_and(|product| uses[product] == 1)
        };
        if !block.insts.iter().any(is_product) {
            continue;
        }
        let free = registers.saturating_sub(held(block, is_vector) + OPERANDS);
        let together = free.min(TOGETHER);
        let mut insts = Vec::with_capacity(block.insts.len());
        let mut waiting: VecDeque<Inst> = VecDeque::new();
        let mut product = None;
        for inst in std::mem::take(&mut block.insts) {
            let is_sum_of = |product: VRegId| {
                let takes = inst.args.iter().any(|arg| arg == product);
                inst.op == Opcode::Add && inst.mask.is_none() && takes
            };
            if product.take().is_some_and(is_sum_of) {
                waiting.push_back(inst);
                continue;
            }
            let mut takes = false;
            inst.each_use(|value| takes |= waiting.iter().any(|sum| sum.result == Some(value)));
            if takes || waiting.len() >= together {
                insts.extend(waiting.drain(..));
            }
            product = inst.result.filter(|_| is_product(&inst));
            insts.push(inst);
        }
        insts.extend(waiting);
        block.insts = insts;
    }
}

/// About how many vectors a block holds at once: what comes into it and what it takes from outside.
fn held(block: &BasicBlock, is_vector: impl Fn(VRegId) -> bool) -> usize {
    let mut own: SecondaryMap<VRegId, bool> = SecondaryMap::new();
    let mut from_outside = 0;
    for inst in &block.insts {
        inst.each_use(|value| {
            if is_vector(value) && !std::mem::replace(&mut own[value], true) {
                from_outside += 1;
            }
        });
        inst.result.iter().for_each(|value| own[*value] = true);
    }
    from_outside
}
