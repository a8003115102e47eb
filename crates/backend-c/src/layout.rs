//! Where everything lies: in the weights file, in the block of constants, in the arena.
//!
//! The block of constants holds, one behind the other: what `setup` makes; copies of the weights
//! that `main` reads as they are; the arena and the scratch memory of `setup`, which are of no use
//! afterwards. The arena of a program holds its slots, then its scratch memory.

use std::collections::BTreeMap;

use base::{ConstantId, Diagnostic, codes};
use module::Module;
use program::{Place, Program};
use sym::Expr;
use tensor::Tensor;

/// Every piece begins at a multiple of this many bytes.
const ALIGNMENT: u64 = 64;

/// The tensors of `weights.bin`.
#[derive(Clone, Debug, Default)]
pub struct Weights {
    /// Where each begins in the file, a multiple of 64.
    entries: Vec<(u64, Tensor)>,
    bytes: u64,
}

impl Weights {
    /// The size of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes the file: the bytes of each tensor, with zeros in between.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, file: &mut dyn std::io::Write) -> std::io::Result<()> {
        let mut written = 0;
        for (offset, tensor) in &self.entries {
            file.write_all(&[0; ALIGNMENT as usize][..(offset - written) as usize])?;
            file.write_all(tensor.bytes())?;
            written = offset + tensor.bytes().len() as u64;
        }
        Ok(())
    }

    /// Where the tensor lies in the file; it is added unless the same memory is there already.
    pub fn offset(&mut self, tensor: &Tensor) -> u64 {
        let same = |other: &Tensor| std::ptr::eq(other.bytes(), tensor.bytes());
        if let Some((offset, _)) = self.entries.iter().find(|(_, other)| same(other)) {
            return *offset;
        }
        let offset = self.bytes.next_multiple_of(ALIGNMENT);
        self.bytes = offset + tensor.bytes().len() as u64;
        self.entries.push((offset, tensor.clone()));
        offset
    }
}

/// A weight that `setup` copies, and where to in the block of constants.
#[derive(Clone, Debug)]
pub(crate) struct WeightCopy {
    /// Which of the programs reads it.
    pub(crate) part: usize,
    pub(crate) constant: ConstantId,
    pub(crate) source: u64,
    pub(crate) destination: u64,
    pub(crate) bytes: u64,
}

/// Offsets of the pieces, in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) weight_copies: Vec<WeightCopy>,
    /// In the block of constants.
    pub(crate) setup_arena: u64,
    pub(crate) setup_scratch: u64,
    pub(crate) constants_bytes: u64,
}

impl Layout {
    /// Lays everything out. With `setup`, where it is run by the code, come the bytes of its
    /// scratch memory.
    pub(crate) fn new(
        setup: Option<(&Program, &Expr)>,
        parts: &[(&Program, &Module)],
        weights: &mut Weights,
    ) -> base::Result<Layout> {
        let mut end = match setup {
            Some((setup, _)) => constants_bytes(setup)?,
            None => 0,
        };
        for (program, _) in parts {
            end = end.max(constants_bytes(program)?);
        }
        let mut weight_copies: Vec<WeightCopy> = Vec::new();
        for (part, (program, module)) in parts.iter().enumerate() {
            for slot in program.slots.values() {
                let Place::Weight(constant) = slot.place else { continue };
                let tensor = &module.constants[constant].tensor;
                let (source, bytes) = (weights.offset(tensor), tensor.bytes().len() as u64);
                let same = |copy: &&WeightCopy| copy.source == source && copy.bytes == bytes;
                if weight_copies.iter().any(|copy| (copy.part, copy.constant) == (part, constant)) {
                    continue;
                }
                // Another program may read the same weight.
                let destination = match weight_copies.iter().find(same) {
                    Some(copy) => copy.destination,
                    None => {
                        let destination = end.next_multiple_of(ALIGNMENT);
                        end = destination + bytes;
                        destination
                    }
                };
                weight_copies.push(WeightCopy { part, constant, source, destination, bytes });
            }
        }
        let (mut setup_arena, mut setup_scratch, mut constants_bytes) = (end, end, end);
        if let Some((setup, scratch)) = setup {
            setup_arena = end.next_multiple_of(ALIGNMENT);
            setup_scratch = setup_arena + known(setup, &setup.arena_bytes)?;
            constants_bytes = setup_scratch + known(setup, scratch)?;
        }
        Ok(Layout { weight_copies, setup_arena, setup_scratch, constants_bytes })
    }

    /// Where the weights that a program reads lie in the block of constants.
    pub(crate) fn weights_of(&self, part: usize) -> BTreeMap<ConstantId, u64> {
        let copies = self.weight_copies.iter().filter(|copy| copy.part == part);
        copies.map(|copy| (copy.constant, copy.destination)).collect()
    }
}

/// The bytes of the block of constants that a program touches.
fn constants_bytes(program: &Program) -> base::Result<u64> {
    let mut most = 0;
    for slot in program.slots.values() {
        if let Place::Constants(offset) = &slot.place {
            most = most.max(known(program, offset)? + known(program, &slot.bytes)?);
        }
    }
    Ok(most)
}

/// A size or offset, which must be known.
pub(crate) fn known(program: &Program, expr: &Expr) -> base::Result<u64> {
    let value = expr.as_constant().and_then(|value| u64::try_from(value).ok());
    value.ok_or_else(|| {
        let text = program::print_expression(program, expr);
        Diagnostic::error(codes::INTERNAL_ERROR, format!("the size {text} is not known"))
            .at(format!("program `{}`", program.name))
            .into()
    })
}
