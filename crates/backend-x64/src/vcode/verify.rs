//! The verifier of vcode: the invariants that `vcode.rs` states.

use base::{Id, SecondaryMap};

use super::op::ADDRESS;
use super::text::inst_text;
use super::{BlockId, Inst, IntOperand, RegisterType, Terminator, VCode, VRegId};

/// Checks a function.
///
/// # Errors
/// The first broken invariant, in words, with the instruction's place.
pub fn verify(function: &VCode) -> Result<(), String> {
    let mut checker = Checker { function, defined_in: SecondaryMap::new() };
    checker.definitions()?;
    let dominators = checker.dominators();
    for (id, block) in function.blocks.iter() {
        for (index, inst) in block.insts.iter().enumerate() {
            let place = |error: String| format!("{id}, `{}`: {error}", inst_text(function, inst));
            checker.shape(inst).map_err(place)?;
            let mut result = Ok(());
            inst.each_use(|value| {
                if let Err(error) = checker.visible(&dominators, value, id, index + 1) {
                    result = Err(error);
                }
            });
            result.map_err(place)?;
        }
        checker.terminator(&dominators, id).map_err(|error| format!("{id}: {error}"))?;
    }
    Ok(())
}

struct Checker<'a> {
    function: &'a VCode,
    /// BasicBlock and position (0 for parameters) of each definition.
    defined_in: SecondaryMap<VRegId, Option<(BlockId, usize)>>,
}

impl Checker<'_> {
    fn definitions(&mut self) -> Result<(), String> {
        for (id, block) in self.function.blocks.iter() {
            let params = block.params.iter().map(|value| (*value, 0));
            let results = block.insts.iter().enumerate().flat_map(|(index, inst)| {
                inst.result.iter().chain(&inst.lost).map(move |value| (*value, index + 1))
            });
            for (value, position) in params.chain(results) {
                if !self.function.values.contains(value) {
                    return Err(format!("{id} defines {value}, which has no type"));
                }
                if self.defined_in.insert(value, Some((id, position))).is_some() {
                    return Err(format!("{value} is defined twice"));
                }
            }
        }
        Ok(())
    }

    fn predecessors(&self) -> Vec<Vec<BlockId>> {
        let mut predecessors = vec![Vec::new(); self.function.blocks.len()];
        for (id, block) in self.function.blocks.iter() {
            for to in block.end.successors() {
                if let Some(list) = predecessors.get_mut(to.index()) {
                    list.push(id);
                }
            }
        }
        predecessors
    }

    /// For each block the set of blocks that dominate it, by iteration to the fixed point; `None`
    /// for blocks that cannot be reached.
    fn dominators(&self) -> Vec<Option<Vec<bool>>> {
        let count = self.function.blocks.len();
        let predecessors = self.predecessors();
        let mut sets: Vec<Option<Vec<bool>>> = vec![None; count];
        let mut changed = true;
        while changed {
            changed = false;
            for block in 0..count {
                let mut set: Option<Vec<bool>> = (block == 0).then(|| vec![false; count]);
                for from in
                    predecessors[block].iter().filter_map(|from| sets[from.index()].as_ref())
                {
                    set = Some(match set {
                        None => from.clone(),
                        Some(set) => set.iter().zip(from).map(|(a, b)| *a && *b).collect(),
                    });
                }
                if let Some(set) = &mut set {
                    set[block] = true;
                }
                if set != sets[block] {
                    sets[block] = set;
                    changed = true;
                }
            }
        }
        sets
    }

    fn visible(
        &self,
        dominators: &[Option<Vec<bool>>],
        value: VRegId,
        block: BlockId,
        position: usize,
    ) -> Result<(), String> {
        let Some((home, defined)) = self.defined_in[value] else {
            return Err(format!("{value} is not defined"));
        };
        let Some(dominating) = &dominators[block.index()] else {
            return Err("the block cannot be reached".to_string());
        };
        if home == block && defined < position || home != block && dominating[home.index()] {
            return Ok(());
        }
        Err(format!("{value} of {home} is not visible here"))
    }

    fn shape(&self, inst: &Inst) -> Result<(), String> {
        let row = inst.op.row();
        let in_memory = inst.address.is_some() && !inst.op.has(ADDRESS);
        let arity = row.arguments.len() - usize::from(in_memory);
        if inst.args.len() != arity {
            return Err(format!("{} operands instead of {arity}", inst.args.len()));
        }
        if inst.op.has(ADDRESS) && inst.address.is_none() {
            return Err("there is no address".to_string());
        }
        if in_memory && !inst.op.has(super::op::MEMORY) {
            return Err("no operand can be memory".to_string());
        }
        if inst.result.is_some() != (row.result != '-') {
            return Err("a result too many or too few".to_string());
        }
        for (kind, value) in row.arguments.chars().zip(inst.args.iter()) {
            self.kind(kind, value)?;
        }
        if let Some(result) = inst.result {
            self.kind(row.result, result)?;
        }
        Ok(())
    }

    fn kind(&self, kind: char, value: VRegId) -> Result<(), String> {
        let Some(ty) = self.function.values.get(value) else {
            return Err(format!("{value} has no type"));
        };
        let fits = match kind {
            'i' => *ty == RegisterType::Int,
            'm' => *ty == RegisterType::Mask,
            'v' => ty.vector_bytes() > 0,
            _ => *ty != RegisterType::Int,
        };
        if fits { Ok(()) } else { Err(format!("{value} is no `{kind}`")) }
    }

    fn terminator(&self, dominators: &[Option<Vec<bool>>], id: BlockId) -> Result<(), String> {
        let block = &self.function.blocks[id];
        let mut result = Ok(());
        block.end.each_use(|value| {
            if let Err(error) = self.visible(dominators, value, id, block.insts.len() + 1) {
                result = Err(error);
            }
        });
        result?;
        let blocks = &self.function.blocks;
        match &block.end {
            Terminator::Open => Err("the block has no end".to_string()),
            Terminator::Return(_) => Ok(()),
            Terminator::Jump(to, args) => {
                let target = blocks.get(*to).ok_or("a jump to no block")?;
                if target.params.len() != args.len() {
                    return Err(format!("{to} takes {} arguments", target.params.len()));
                }
                for (param, arg) in target.params.iter().zip(args) {
                    if self.function.values[*param] != self.function.values[*arg] {
                        return Err(format!("{arg} does not fit {param}"));
                    }
                }
                Ok(())
            }
            Terminator::Branch { left, right, then, otherwise, .. } => {
                self.kind('i', *left)?;
                if let IntOperand::Value(right) = right {
                    self.kind('i', *right)?;
                }
                let predecessors = self.predecessors();
                for to in [then, otherwise] {
                    let target = blocks.get(*to).ok_or("a branch to no block")?;
                    if !target.params.is_empty() || predecessors[to.index()].len() != 1 {
                        return Err(format!("the edge to {to} is critical"));
                    }
                }
                Ok(())
            }
        }
    }
}
