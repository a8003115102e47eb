//! Constants that several instructions of a block take from memory are loaded once, where that
//! needs no register that something else is in.
//!
//! ```text
//! v1 = mul.f32 v0, [c0]                  v9 = constant.f32 [c0]
//! v3 = mul.f32 v2, [c0]          ->      v1 = mul.f32 v0, v9
//! v5 = mul.f32 v4, [c0]                  v3 = mul.f32 v2, v9
//! ..                                     ..
//! ```
//!
//! Each is four bytes shorter so, and loads nothing. Where a block begins with all registers in
//! use, as one does behind a loop that sums in them, the load stands where some have become free.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use base::{Id, SecondaryMap};

use crate::vcode::{
    Args, Base, BasicBlock, BlockId, Inst, Lane, MemoryOperand, Opcode, PoolId, Terminator, VCode,
    VRegId,
};

/// So many uses are worth a load: they save sixteen bytes, of which it takes ten.
const WORTH: usize = 4;

/// Registers that are left alone: values are moved between blocks by way of them.
const SPARE: usize = 2;

/// What is taken from memory: a constant, whether one element goes to all lanes, and as what.
type Constant = (PoolId, bool, Lane, usize);

/// Does so in all blocks.
pub(super) fn load_constants_once(function: &mut VCode, registers: usize) {
    let mut wanted: Vec<(BlockId, Vec<Vec<usize>>)> = Vec::new();
    for (id, block) in function.blocks.iter() {
        let mut uses: BTreeMap<Constant, Vec<usize>> = BTreeMap::new();
        for (at, inst) in block.insts.iter().enumerate() {
            if let Some(constant) = taken(inst, function) {
                uses.entry(constant).or_default().push(at);
            }
        }
        uses.retain(|_, places| places.len() >= WORTH);
        if !uses.is_empty() {
            wanted.push((id, uses.into_values().collect()));
        }
    }
    if wanted.is_empty() {
        return;
    }
    let spans = Spans::of(function);
    let most = registers.saturating_sub(SPARE);
    for (id, uses) in wanted {
        let mut held = spans.held(function, id);
        let mut loads: Vec<(usize, Inst)> = Vec::new();
        for places in uses {
            let last = places[places.len() - 1];
            let full = (places[0]..=last).rev().find(|&at| held[at] >= most);
            let places =
                &places[places.partition_point(|&at| full.is_some_and(|full| at <= full))..];
            if places.len() < WORTH {
                continue;
            }
            held[places[0]..=last].iter_mut().for_each(|held| *held += 1);
            let insts = &mut function.blocks[id].insts;
            let first = &insts[places[0]];
            let Some(ty) = first.result.map(|result| function.values[result]) else { continue };
            let value = function.values.push(ty);
            let mut load = Inst::new(Opcode::Constant, first.lane, &[]);
            (load.address, load.result, load.made_for) =
                (first.address, Some(value), first.made_for);
            loads.push((places[0], load));
            for &at in places {
                let inst = &mut insts[at];
                let args: Vec<VRegId> = inst.args.iter().chain([value]).collect();
                (inst.args, inst.address) = (Args::new(&args), None);
            }
        }
        loads.sort_by_key(|(at, _)| *at);
        put(&mut function.blocks[id], loads);
    }
}

/// Puts instructions in front of those with these numbers, which ascend.
fn put(block: &mut BasicBlock, loads: Vec<(usize, Inst)>) {
    let mut loads = loads.into_iter().peekable();
    let insts = std::mem::take(&mut block.insts);
    block.insts.reserve(insts.len() + loads.len());
    for (at, inst) in insts.into_iter().enumerate() {
        while let Some((_, load)) = loads.next_if(|(place, _)| *place == at) {
            block.insts.push(load);
        }
        block.insts.push(inst);
    }
}

/// The constant that an instruction takes as its last operand, which is of its result's type.
fn taken(inst: &Inst, function: &VCode) -> Option<Constant> {
    let takes = matches!(
        inst.op,
        Opcode::Add
            | Opcode::Sub
            | Opcode::Mul
            | Opcode::Div
            | Opcode::Min
            | Opcode::Max
            | Opcode::Fma231
            | Opcode::Fma213
            | Opcode::And
            | Opcode::Or
            | Opcode::Xor
    );
    let MemoryOperand { base: Base::Pool(constant), index: None, displacement: 0, broadcast } =
        inst.address?
    else {
        return None;
    };
    let bytes = function.values[inst.result?].vector_bytes();
    (takes && inst.mask.is_none()).then_some((constant, broadcast, inst.lane, bytes))
}

/// Where vectors live: from the block that defines each up to the last that needs it, and through
/// every loop that needs it again.
struct Spans {
    /// The last block that needs each value.
    end: SecondaryMap<VRegId, usize>,
    /// How many live at the end of each block.
    behind: Vec<usize>,
}

impl Spans {
    fn of(function: &VCode) -> Spans {
        let is_vector = |value: VRegId| function.values[value].vector_bytes() > 0;
        let loops = loops(function);
        let mut home: SecondaryMap<VRegId, usize> = SecondaryMap::new();
        let mut end: SecondaryMap<VRegId, usize> = SecondaryMap::new();
        for (id, block) in function.blocks.iter() {
            let results = block.insts.iter().flat_map(|inst| [inst.result, inst.lost]).flatten();
            for value in block.params.iter().copied().chain(results) {
                (home[value], end[value]) = (id.index(), id.index());
            }
        }
        for (id, block) in function.blocks.iter() {
            let around = loops.iter().filter(|range| range.contains(&id.index()));
            let around: Vec<&RangeInclusive<usize>> = around.collect();
            each_use(block, |value| {
                let again = around.iter().filter(|range| !range.contains(&home[value]));
                let last = again.map(|range| *range.end()).max().unwrap_or(id.index());
                end[value] = end[value].max(last);
            });
        }
        let mut change = vec![0_isize; function.blocks.len() + 1];
        for value in function.values.ids().filter(|&value| is_vector(value)) {
            change[home[value]] += 1;
            change[end[value]] -= 1;
        }
        let mut count = 0;
        let behind = change.iter().map(|change| {
            count += change;
            count.unsigned_abs()
        });
        Spans { behind: behind.collect(), end }
    }

    /// How many vectors there are at each instruction of a block: those that it takes, or that are
    /// needed behind it.
    fn held(&self, function: &VCode, id: BlockId) -> Vec<usize> {
        let (own, block) = (id.index(), &function.blocks[id]);
        let mut count = self.behind[own];
        let mut seen: SecondaryMap<VRegId, bool> = SecondaryMap::new();
        let mut begin = |value: VRegId, count: &mut usize| {
            let ends_here = self.end[value] == own && function.values[value].vector_bytes() > 0;
            if ends_here && !std::mem::replace(&mut seen[value], true) {
                *count += 1;
            }
        };
        block.end.each_use(|value| begin(value, &mut count));
        let mut held = vec![0; block.insts.len()];
        for (at, inst) in block.insts.iter().enumerate().rev() {
            let behind = count;
            if let Some(result) = inst.result {
                begin(result, &mut count);
                count -= usize::from(function.values[result].vector_bytes() > 0);
            }
            inst.each_use(|value| begin(value, &mut count));
            held[at] = count.max(behind);
        }
        held
    }
}

/// The ranges of blocks that run again and again.
fn loops(function: &VCode) -> Vec<RangeInclusive<usize>> {
    let mut loops = Vec::new();
    for (id, block) in function.blocks.iter() {
        let mut back = |to: &BlockId| {
            if to.index() <= id.index() {
                loops.push(to.index()..=id.index());
            }
        };
        match &block.end {
            Terminator::Jump(to, _) => back(to),
            Terminator::Branch { then, otherwise, .. } => {
                [then, otherwise].into_iter().for_each(back)
            }
            Terminator::Open | Terminator::Return(_) => {}
        }
    }
    loops
}

fn each_use(block: &BasicBlock, mut each: impl FnMut(VRegId)) {
    block.insts.iter().for_each(|inst| inst.each_use(&mut each));
    block.end.each_use(&mut each);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vcode;

    /// A block that multiplies as many loaded vectors as are given, then adds each to a sum that
    /// comes in from a loop; how many products take the constant from memory in the end, and the
    /// instructions in front of the one that loads it, if one does.
    fn check(sums: usize, registers: usize) -> (usize, Option<usize>) {
        let zeros = (0..sums).map(|it| format!("    v{}: v512 = zero.f32\n", 4 + it));
        let list = |first: usize| {
            let names = (0..sums).map(|it| format!("v{}", first + it));
            names.collect::<Vec<String>>().join(", ")
        };
        let typed = |first: usize| {
            let names = (0..sums).map(|it| format!("v{}: v512", first + it));
            names.collect::<Vec<String>>().join(", ")
        };
        let (params, count) = (4 + sums, 4 + 2 * sums);
        let mut text = String::from("vcode @sums {\n  pool c0 \"0000803f\"\n");
        text += "  b0(v0: int, v1: int, v2: int):\n    v3: int = int.load.i64 [v0]\n";
        text.extend(zeros);
        text += &format!("    jump b1({}, v1)\n", list(4));
        text += &format!("  b1({}, v{count}: int):\n", typed(params));
        text += &format!("    v{}: int = lea.i64 [v{count} - 1]\n", count + 1);
        text += &format!("    branch greater v{}, #0, b2, b3\n", count + 1);
        text += &format!("  b2:\n    jump b1({}, v{})\n  b3:\n", list(params), count + 1);
        for number in 0..sums {
            let product = count + 2 + number;
            text +=
                &format!("    v{product}: v512 = mul.f32 v{}, broadcast [c0]\n", params + number);
            text += &format!("    store.f32 v{product}, [v3 + {}]\n", 64 * number);
        }
        text += "    return #0\n}\n";
        let mut function = vcode::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        vcode::verify(&function).unwrap_or_else(|error| panic!("{error}\n{text}"));
        load_constants_once(&mut function, registers);
        vcode::verify(&function).unwrap_or_else(|error| panic!("{error}"));
        let insts = &function.blocks[BlockId::new(3)].insts;
        let takes = |inst: &&Inst| inst.op == Opcode::Mul && inst.address.is_some();
        let loads = insts.iter().position(|inst| inst.op == Opcode::Constant);
        (insts.iter().filter(takes).count(), loads)
    }

    #[test]
    fn constants_are_loaded_where_registers_are_left() {
        // There are registers from the beginning.
        assert_eq!(check(6, 32), (0, Some(0)));
        assert_eq!(check(16, 19), (0, Some(0)));
        // The sums leave them one behind the other: two instructions for each.
        assert_eq!(check(16, 18), (1, Some(2)));
        assert_eq!(check(16, 16), (3, Some(6)));
        assert_eq!(check(16, 8), (11, Some(22)));
        // Too few uses, in all or where there is room.
        assert_eq!(check(3, 32), (3, None));
        assert_eq!(check(8, 6), (8, None));
    }
}
