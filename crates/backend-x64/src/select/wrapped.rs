//! Loads of neighbouring elements whose row may end within the vector: two loads under masks, of
//! what is before the end and of what is behind it, instead of one for each lane.
//!
//! ```text
//! for j < 16 vector { .. = in[(16 * i + j) div 105, (16 * i + j) mod 105] }
//! ```

use loops::{BufferId, Comparison};
use sym::{Atom, Expr};

use super::Selector;
use super::value::{Evaluated, Mask};
use crate::vcode::{Cond, Inst, Lane, MemoryOperand, Opcode, RegisterType};

/// How a place moves from lane to lane.
struct Wrapped {
    /// What the row's end is found from: its remainder by `length` is the place in the row.
    along: Expr,
    /// Elements of a row.
    length: i64,
    /// Elements from where a row would go on to where the next one begins.
    jump: i64,
}

impl Selector<'_> {
    /// Neighbouring elements of which some may be of the next row.
    pub(super) fn load_wrapped(
        &mut self,
        buffer: BufferId,
        index: &[Expr],
        mask: Mask,
        lanes: usize,
    ) -> Option<Evaluated> {
        let bytes = self.element_bytes(buffer) as i64;
        if !self.builder.has_masks() && bytes < 4 {
            return None;
        }
        let Wrapped { along, length, jump } = self.wrapped(buffer, index, lanes as i64)?;
        self.lane = 0;
        let address = self.first_address(buffer, index);
        let inst = Inst::new(Opcode::Lea, Lane::I64, &[]).address(address);
        let address = self.builder.emit(inst, RegisterType::Int);
        let place = self.int(&along.modulo(&Expr::constant(length)));
        let row = self.builder.int_const(length);
        let left = self.builder.int(Opcode::IntSub, &[row, place]);
        // Where the row does not end, what is behind it need not be memory.
        let next = self.builder.add_imm(address, jump * bytes);
        let all = self.builder.int_const(lanes as i64);
        let position = Cond::NAMES.iter().position(|(known, _)| *known == Cond::Less);
        let ends = Inst::new(Opcode::IntCompare, Lane::I64, &[left, all]);
        let ends = ends.imm(position.unwrap_or(0) as i64);
        let ends = self.builder.emit(ends, RegisterType::Int);
        let next = self.builder.int(Opcode::IntSelect, &[next, address, ends]);

        let left = self.vector_of_int(left, Lane::I32);
        let left = self.broadcast_vector(left, lanes);
        let numbers: Vec<u64> = (0..lanes as u64).collect();
        let numbers = self.lane_constants(&numbers, Lane::I32);
        let before = self.compare_ints(Comparison::Less, numbers, left, true);
        let behind = self.mask_not(before, lanes);
        let [before_on, behind_on] = [before, behind].map(|part| self.mask_and(mask, part, lanes));
        let first = self.load_contiguous(buffer, MemoryOperand::new(address, 0), before_on, lanes);
        let second = self.load_contiguous(buffer, MemoryOperand::new(next, 0), behind_on, lanes);
        Some(self.blend(before, second, first, lanes))
    }

    /// How a place moves, if it does from element to element, but for one jump in a vector at most.
    fn wrapped(&self, buffer: BufferId, index: &[Expr], lanes: i64) -> Option<Wrapped> {
        let symbol = self.vector.as_ref()?.symbol;
        let strides = self.plan.strides[buffer].as_constants()?;
        let mut offset = Expr::ZERO;
        for (expr, stride) in index.iter().zip(strides) {
            offset.add_scaled(expr, *stride);
        }
        let (mut step, mut quotients) = (0, 0);
        let mut remainder: Option<(&Expr, i64)> = None;
        for term in offset
            .terms()
            .iter()
            .filter(|term| term.factors().iter().any(|atom| self.atom_differs_by_lane(atom)))
        {
            let (dividend, divisor, is_remainder) = match term.factors() {
                [Atom::Symbol(own)] if *own == symbol => {
                    step += term.coefficient();
                    continue;
                }
                [Atom::Mod(dividend, divisor)] => (dividend, divisor, true),
                [Atom::FloorDiv(dividend, divisor)] => (dividend, divisor, false),
                _ => return None,
            };
            let divisor = divisor.as_constant()?;
            if *remainder.get_or_insert((dividend, divisor)) != (&**dividend, divisor) {
                return None;
            }
            match is_remainder {
                true => {
                    step += term.coefficient();
                    quotients -= term.coefficient() * divisor;
                }
                false => quotients += term.coefficient(),
            }
        }
        let (along, length) = remainder?;
        let fits = step == 1 && length >= lanes && along.linear_coefficient(symbol) == Some(1);
        let regular = along
            .symbols()
            .iter()
            .all(|&own| own == symbol || !self.expr_differs_by_lane(&Expr::symbol(own)));
        (fits && regular).then(|| Wrapped { along: along.clone(), length, jump: quotients })
    }
}
