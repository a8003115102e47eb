//! Loads that only one operation uses become its memory operand.
//!
//! ```text
//! v1 = load_broadcast.f32 [p]
//! v2 = fma231.f32 v0, v1, w      ->      v2 = fma231.f32 v0, w, [p] in all lanes
//! ```
//!
//! An element in all lanes of a register of 512 bits takes an instruction that the units of
//! arithmetic are busy with; as an operand it comes with the load alone.

use std::collections::BTreeMap;

use base::SecondaryMap;

use crate::vcode::op::{PURE, READS};
use crate::vcode::{Args, BasicBlock, Inst, Lane, MemoryOperand, Opcode, VCode, VRegId};

/// The places of the operands of which either may be memory, the last one as it is, others by
/// changing places with it.
fn places(op: Opcode) -> &'static [usize] {
    match op {
        Opcode::Add | Opcode::Mul => &[1, 0],
        Opcode::Sub | Opcode::Div | Opcode::Min | Opcode::Max => &[1],
        Opcode::Fma231 => &[2, 1],
        Opcode::Fma213 => &[2],
        Opcode::Shuffle => &[0],
        _ => &[],
    }
}

/// Makes loads memory operands where that is possible; of single elements in all lanes only where
/// the instruction set has such operands.
pub(super) fn fold_loads(function: &mut VCode, has_broadcasts: bool) {
    let mut uses: SecondaryMap<VRegId, u32> = SecondaryMap::new();
    for block in function.blocks.values() {
        block.insts.iter().for_each(|inst| inst.each_use(|value| uses[value] += 1));
        block.end.each_use(|value| uses[value] += 1);
    }
    let values = &function.values;
    for (_, block) in function.blocks.iter_mut() {
        let mut loads: BTreeMap<VRegId, usize> = BTreeMap::new();
        let mut folded = vec![false; block.insts.len()];
        for at in 0..block.insts.len() {
            let inst = &block.insts[at];
            if !(inst.op.has(PURE) || inst.op.has(READS)) {
                // It may write what was to be loaded before.
                loads.clear();
                continue;
            }
            if let Some((load, changed)) = with_memory(block, inst, &loads, |value| {
                uses[value] == 1 && inst.result.is_some_and(|own| values[own] == values[value])
            }) {
                folded[load] = true;
                block.insts[at] = changed;
                continue;
            }
            let is_load =
                inst.op == Opcode::Load || inst.op == Opcode::LoadBroadcast && has_broadcasts;
            if let (true, Some(result), None) = (is_load, inst.result, inst.mask) {
                loads.insert(result, at);
            }
        }
        let mut folded = folded.into_iter();
        block.insts.retain(|_| !folded.next().unwrap_or(false));
    }
}

/// An instruction with one of its operands in memory, and where in the block that is loaded.
fn with_memory(
    block: &BasicBlock,
    inst: &Inst,
    loads: &BTreeMap<VRegId, usize>,
    may_be: impl Fn(VRegId) -> bool,
) -> Option<(usize, Inst)> {
    // Lanes of so many bits that are loaded as they are, not widened.
    let bits = |lane: Lane| match lane {
        Lane::F32 | Lane::I32 => Some(32),
        Lane::F64 => Some(64),
        _ => None,
    };
    if inst.address.is_some() || inst.mask.is_some() || bits(inst.lane).is_none() {
        return None;
    }
    let args: Vec<VRegId> = inst.args.iter().collect();
    let (at, load) = places(inst.op).iter().find_map(|&at| {
        let load = *loads.get(&args[at])?;
        let fits = bits(block.insts[load].lane) == bits(inst.lane);
        (fits && may_be(args[at])).then_some((at, load))
    })?;
    let loaded = &block.insts[load];
    let address = loaded.address?;
    let broadcast = loaded.op == Opcode::LoadBroadcast;
    let mut others = args;
    others.remove(at);
    let args = Args::new(&others);
    let address = Some(MemoryOperand { broadcast, ..address });
    Some((load, Inst { args, address, ..inst.clone() }))
}
