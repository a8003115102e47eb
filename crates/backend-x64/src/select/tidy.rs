//! Tidying a selected function: blocks in layout order, nothing unused, values numbered densely.

use base::{Id, SecondaryMap};

use crate::vcode::op::{PURE, READS};
use crate::vcode::{Base, BlockId, Inst, IntOperand, Terminator, VCode, VRegId};

/// Renumbers the blocks to this order.
pub(super) fn reorder(mut function: VCode, order: &[BlockId]) -> VCode {
    let mut new_id: SecondaryMap<BlockId, Option<BlockId>> = SecondaryMap::new();
    for (index, block) in order.iter().enumerate() {
        new_id[*block] = Some(BlockId::new(index));
    }
    let renumbered = |block: &mut BlockId| *block = new_id[*block].unwrap_or(*block);
    let mut blocks = Vec::new();
    for id in order {
        let mut block = std::mem::take(&mut function.blocks[*id]);
        match &mut block.end {
            Terminator::Jump(to, _) => renumbered(to),
            Terminator::Branch { then, otherwise, .. } => {
                renumbered(then);
                renumbered(otherwise);
            }
            Terminator::Open | Terminator::Return(_) => {}
        }
        blocks.push(block);
    }
    function.blocks = blocks.into_iter().collect();
    function
}

/// The block of a value that nothing defines, and what marks the position of a parameter.
const NOWHERE: u32 = u32::MAX;
const PARAMETER: u32 = 1 << 31;

/// Removes instructions and block parameters that nothing with an effect needs, then renumbers the
/// values densely.
pub(super) fn remove_unused(function: &mut VCode) {
    let mut used = vec![false; function.values.len()];
    let mut definitions = vec![(NOWHERE, 0); function.values.len()];
    let mut incoming: SecondaryMap<BlockId, Vec<BlockId>> = SecondaryMap::new();
    let mut work = Vec::new();
    let removable = |inst: &Inst| inst.op.has(PURE) || inst.op.has(READS);
    for (id, block) in function.blocks.iter() {
        for (index, param) in block.params.iter().enumerate() {
            definitions[param.index()] = (id.index() as u32, PARAMETER | index as u32);
        }
        for (index, inst) in block.insts.iter().enumerate() {
            if let Some(result) = inst.result {
                definitions[result.index()] = (id.index() as u32, index as u32);
            }
            if !removable(inst) {
                inst.each_use(|value| work.push(value));
            }
        }
        match &block.end {
            Terminator::Jump(to, _) => incoming[*to].push(id),
            end => end.each_use(|value| work.push(value)),
        }
    }
    while let Some(value) = work.pop() {
        if std::mem::replace(&mut used[value.index()], true) {
            continue;
        }
        let (block, index) = definitions[value.index()];
        if block == NOWHERE {
            continue;
        }
        let block = BlockId::new(block as usize);
        if index & PARAMETER == 0 {
            let inst = &function.blocks[block].insts[index as usize];
            inst.each_use(|value| work.push(value));
            continue;
        }
        for from in &incoming[block] {
            if let Terminator::Jump(_, args) = &function.blocks[*from].end {
                work.push(args[(index & !PARAMETER) as usize]);
            }
        }
    }
    let keep: Vec<Vec<bool>> = function
        .blocks
        .iter()
        .map(|(id, block)| {
            block.params.iter().map(|p| id.index() == 0 || used[p.index()]).collect()
        })
        .collect();
    for (id, block) in function.blocks.iter_mut() {
        block.insts.retain(|inst| {
            !removable(inst) || inst.result.is_none_or(|result| used[result.index()])
        });
        filter(&mut block.params, &keep[id.index()]);
        if let Terminator::Jump(to, args) = &mut block.end {
            filter(args, &keep[to.index()]);
        }
    }
    renumber(function);
}

fn filter(values: &mut Vec<VRegId>, keep: &[bool]) {
    let mut keep = keep.iter();
    values.retain(|_| keep.next().copied().unwrap_or(true));
}

/// Numbers the values in the order of their definitions.
fn renumber(function: &mut VCode) {
    let mut new_id = vec![VRegId::new(0); function.values.len()];
    let mut types = base::Arena::new();
    types.reserve(function.values.len());
    for block in function.blocks.values() {
        let results = block.insts.iter().flat_map(|inst| inst.result.iter().chain(&inst.lost));
        for value in block.params.iter().chain(results) {
            new_id[value.index()] = types.push(function.values[*value]);
        }
    }
    let rename = |value: &mut VRegId| *value = new_id[value.index()];
    for (_, block) in function.blocks.iter_mut() {
        block.params.iter_mut().for_each(rename);
        for inst in &mut block.insts {
            inst.args.iter_mut().for_each(rename);
            inst.result.iter_mut().chain(&mut inst.lost).chain(&mut inst.mask).for_each(rename);
            if let Some(address) = &mut inst.address {
                if let Base::Value(base) = &mut address.base {
                    rename(base);
                }
                address.index.iter_mut().for_each(|(index, _)| rename(index));
            }
        }
        match &mut block.end {
            Terminator::Jump(_, args) => args.iter_mut().for_each(rename),
            Terminator::Branch { left, right, .. } => {
                rename(left);
                if let IntOperand::Value(right) = right {
                    rename(right);
                }
            }
            Terminator::Open | Terminator::Return(_) => {}
        }
    }
    function.values = types;
}
