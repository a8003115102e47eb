//! Index expressions: integers in registers, and addresses.
//!
//! The bytes from a buffer's start to an element are brought into linear form. Its constant part
//! becomes the displacement, so that elements a constant apart share one pointer; the variable part
//! becomes a pointer, summed from the outermost variable inwards, so that each partial sum leaves
//! the loops it does not depend on. In a loop without loops inside, the pointer is carried from
//! turn to turn instead of computed from the loop's variable.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use sym::{Atom, Expr, Range, SymbolId};

use super::Selector;
use super::build::Bound;
use super::value::Vector;
use crate::vcode::{Cond, Inst, Lane, MemoryOperand, Opcode, RegisterType, VRegId};
use loops::{BufferId, Scope};

/// What a symbol stands for where the code is being written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Binding {
    /// Not in scope.
    #[default]
    None,
    /// A number: the variable of a loop that is written out.
    Constant(i64),
    /// The variable of the loop at this depth.
    Loop(u32),
    /// An integer in a register.
    Int(VRegId),
    /// An integer a lane.
    Lanes(LaneIndex),
}

/// An integer a lane, checked to be in its range.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LaneIndex {
    pub(crate) vector: Vector,
    pub(crate) range: Range,
    /// The lanes in registers of their own, once they have been asked for.
    pub(crate) apart: Vec<VRegId>,
}

/// Bytes from a buffer's start: a constant and a sum of coefficients times products.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Linear {
    pub(crate) constant: i64,
    pub(crate) terms: Factors,
    /// What the vector variable is multiplied by.
    pub(crate) lane_step: i64,
    /// Whether lanes differ in another way than that.
    pub(crate) irregular: bool,
}

/// A pointer into a buffer: its start and a sum of terms.
pub(super) struct Pointer {
    buffer: BufferId,
    terms: Factors,
    pointer: VRegId,
}

/// Coefficients and what they multiply, a few without an allocation.
pub(crate) type Factors = SmallVec<[(i64, Factor); 4]>;

/// What a coefficient multiplies.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Factor {
    Symbol(SymbolId),
    Product(SmallVec<[Atom; 1]>),
}

/// The values of an expression's symbols as they occur in it, of those that have one now.
type Values = SmallVec<[Option<i64>; 6]>;

/// Index expressions in simplest form, by the values of their symbols.
pub(super) type Simplified = FxHashMap<Expr, FxHashMap<Values, Expr>>;

impl Selector<'_> {
    /// The linear form of an element's place in its buffer.
    pub(crate) fn linear(&self, buffer: BufferId, index: &[Expr]) -> Linear {
        let bytes = self.element_bytes(buffer) as i64;
        let mut linear = Linear::default();
        match self.plan.strides[buffer].as_constants() {
            Some(strides) => {
                for (expr, stride) in index.iter().zip(strides) {
                    self.add_scaled_expr(&mut linear, expr, stride * bytes);
                }
            }
            None => {
                let strides = self.plan.strides[buffer].expressions();
                let mut offset = Expr::ZERO;
                for (expr, stride) in index.iter().zip(strides) {
                    offset += &(expr * stride);
                }
                self.add_scaled_expr(&mut linear, &offset, bytes);
            }
        }
        linear
    }

    fn add_scaled_expr(&self, linear: &mut Linear, expr: &Expr, scale: i64) {
        if expr.terms().iter().any(|term| term.as_symbol().is_none()) {
            self.with_substituted(expr, |expr| self.add_canonical(linear, expr, scale));
        } else {
            self.add_canonical(linear, expr, scale);
        }
    }

    /// The number that an expression of variables of written-out loops is.
    pub(super) fn known_index(&self, expr: &Expr) -> Option<i64> {
        let is_known = |symbol: SymbolId| matches!(self.bindings[symbol], Binding::Constant(_));
        let is_open = expr.any_symbol(&mut |symbol| !is_known(symbol));
        if is_open { None } else { self.with_substituted(expr, Expr::as_constant) }
    }

    /// The expression with the variables of written-out loops replaced by their values.
    fn substituted(&self, expr: &Expr) -> Expr {
        self.with_substituted(expr, Expr::clone)
    }

    /// Shows the expression with the variables of written-out loops replaced by their values.
    fn with_substituted<T>(&self, expr: &Expr, see: impl FnOnce(&Expr) -> T) -> T {
        let vector = self.vector.as_ref().map(|vector| vector.symbol);
        let value = |symbol: SymbolId| match self.bindings[symbol] {
            Binding::Constant(value) if Some(symbol) != vector => Some(value),
            _ => None,
        };
        // Written out, a kernel asks for the same quotients again and again. What is known of a
        // symbol's range does not change where it is in scope, but by loops of free extents.
        let mut values = Values::new();
        expr.any_symbol(&mut |symbol| {
            values.push(value(symbol));
            false
        });
        if let Some(known) = self.simplified.borrow().get(expr).and_then(|all| all.get(&values)) {
            return see(known);
        }
        let simplified = match values.iter().any(Option::is_some) {
            true => self
                .ranges
                .simplify(&expr.substitute(&mut |symbol| value(symbol).map(Expr::constant))),
            false => self.ranges.simplify(expr),
        };
        let result = see(&simplified);
        let mut known = self.simplified.borrow_mut();
        match known.get_mut(expr) {
            Some(all) => _ = all.insert(values, simplified),
            None => {
                let all = FxHashMap::from_iter([(values, simplified)]);
                known.insert(expr.clone(), all);
            }
        }
        result
    }

    fn add_canonical(&self, linear: &mut Linear, expr: &Expr, scale: i64) {
        linear.constant += expr.constant_part() * scale;
        for term in expr.terms() {
            let coefficient = term.coefficient() * scale;
            match term.as_symbol() {
                Some(symbol) => self.add_symbol(linear, symbol, coefficient),
                None => {
                    let factors = term.factors();
                    if factors.iter().any(|atom| self.atom_differs_by_lane(atom)) {
                        linear.irregular = true;
                    }
                    linear.terms.push((coefficient, Factor::Product(copied(factors))));
                }
            }
        }
    }

    fn add_symbol(&self, linear: &mut Linear, symbol: SymbolId, coefficient: i64) {
        if let Some(vector) = self.vector.as_ref().filter(|vector| vector.symbol == symbol) {
            linear.lane_step += coefficient;
            linear.constant += coefficient * vector.offset;
        }
        match &self.bindings[symbol] {
            Binding::Constant(value) => linear.constant += coefficient * value,
            binding => {
                linear.irregular |= matches!(binding, Binding::Lanes(_));
                let factor = Factor::Symbol(symbol);
                match linear.terms.iter_mut().find(|(_, known)| *known == factor) {
                    Some((known, _)) => *known += coefficient,
                    None => linear.terms.push((coefficient, factor)),
                }
            }
        }
    }

    pub(super) fn atom_differs_by_lane(&self, atom: &Atom) -> bool {
        match atom {
            Atom::Symbol(symbol) => self.symbol_differs_by_lane(*symbol),
            _ => atom
                .operands()
                .is_some_and(|(a, b)| self.expr_differs_by_lane(a) || self.expr_differs_by_lane(b)),
        }
    }

    fn symbol_differs_by_lane(&self, symbol: SymbolId) -> bool {
        self.vector.as_ref().is_some_and(|vector| vector.symbol == symbol)
            || matches!(self.bindings[symbol], Binding::Lanes(_))
    }

    /// Whether the expression has different values in different lanes.
    pub(crate) fn expr_differs_by_lane(&self, expr: &Expr) -> bool {
        self.vector.is_some() && expr.any_symbol(&mut |symbol| self.symbol_differs_by_lane(symbol))
    }

    /// The scope at which everything in a factor is known.
    fn factor_depth(&self, factor: &Factor) -> u32 {
        match factor {
            Factor::Symbol(symbol) => self.symbol_depth(*symbol),
            Factor::Product(atoms) => {
                atoms.iter().map(|atom| self.atom_depth(atom)).max().unwrap_or(0)
            }
        }
    }

    fn atom_depth(&self, atom: &Atom) -> u32 {
        match atom {
            Atom::Symbol(symbol) => self.symbol_depth(*symbol),
            _ => {
                let mut depth = 0;
                let mut deepest = |symbol| {
                    depth = depth.max(self.symbol_depth(symbol));
                    false
                };
                if let Some((a, b)) = atom.operands() {
                    a.any_symbol(&mut deepest);
                    b.any_symbol(&mut deepest);
                }
                depth
            }
        }
    }

    fn symbol_depth(&self, symbol: SymbolId) -> u32 {
        match &self.bindings[symbol] {
            Binding::None | Binding::Constant(_) => 0,
            Binding::Loop(depth) => *depth,
            Binding::Int(value) => self.builder.depth_of(*value),
            Binding::Lanes(_) => self.builder.depth(),
        }
    }

    /// The address of lane 0 of a regular place.
    pub(crate) fn address(&mut self, buffer: BufferId, linear: &Linear) -> MemoryOperand {
        let known = self.pointers.iter().rev().find(|known| {
            known.buffer == buffer
                && known.terms == linear.terms
                && self.builder.is_visible(known.pointer)
        });
        let pointer = match known {
            Some(known) => known.pointer,
            None => {
                let pointer = self.pointer(buffer, &linear.terms);
                if !linear.irregular && linear.terms.iter().all(|term| self.is_settled(&term.1)) {
                    self.pointers.retain(|known| self.builder.is_visible(known.pointer));
                    self.pointers.push(Pointer { buffer, terms: linear.terms.clone(), pointer });
                }
                pointer
            }
        };
        match i32::try_from(linear.constant) {
            Ok(displacement) => MemoryOperand::new(pointer, displacement),
            Err(_) => MemoryOperand::new(self.builder.add_imm(pointer, linear.constant), 0),
        }
    }

    /// Whether what a factor stands for does not change as long as the scopes of its symbols are
    /// open.
    fn is_settled(&self, factor: &Factor) -> bool {
        let is_loop = |symbol: SymbolId| matches!(self.bindings[symbol], Binding::Loop(_));
        match factor {
            Factor::Symbol(symbol) => is_loop(*symbol),
            Factor::Product(atoms) => atoms.iter().all(|atom| match atom {
                Atom::Symbol(symbol) => is_loop(*symbol),
                _ => atom.operands().is_some_and(|(a, b)| {
                    let settled = |side: &Expr| !side.any_symbol(&mut |symbol| !is_loop(symbol));
                    settled(a) && settled(b)
                }),
            }),
        }
    }

    /// A buffer's start and the sum of these terms.
    fn pointer(&mut self, buffer: BufferId, terms: &Factors) -> VRegId {
        let mut pointer = self.base(buffer);
        let mut terms: SmallVec<[(u32, &(i64, Factor)); 4]> =
            terms.iter().map(|term| (self.factor_depth(&term.1), term)).collect();
        // Of what is known at one depth, the loop's variable comes first: its pointer is carried
        // from turn to turn, so it starts from what is known outside.
        let is_loop = |factor: &Factor| match factor {
            Factor::Symbol(symbol) => matches!(self.bindings[*symbol], Binding::Loop(_)),
            Factor::Product(_) => false,
        };
        terms.sort_by_key(|(depth, (_, factor))| (*depth, !is_loop(factor)));
        for (_, (coefficient, factor)) in terms {
            if *coefficient == 0 {
                continue;
            }
            pointer = match factor {
                Factor::Symbol(symbol) => match self.bindings[*symbol] {
                    Binding::Loop(depth)
                        if self.builder.is_innermost(depth)
                            && self.builder.depth_of(pointer) < depth =>
                    {
                        self.carried_pointer(pointer, depth, *coefficient)
                    }
                    _ => {
                        let value = self.symbol(*symbol);
                        self.builder.add_scaled(pointer, value, *coefficient)
                    }
                },
                Factor::Product(atoms) => {
                    let value = self.product(atoms);
                    self.builder.add_scaled(pointer, value, *coefficient)
                }
            };
        }
        pointer
    }

    /// A pointer that moves on with the loop at a depth.
    fn carried_pointer(&mut self, pointer: VRegId, depth: u32, coefficient: i64) -> VRegId {
        let entry = match self.builder.loop_start(depth) {
            Bound::Constant(start) => self.builder.add_imm(pointer, start * coefficient),
            Bound::Value(start) => self.builder.add_scaled(pointer, start, coefficient),
        };
        let step = self.builder.loop_step(depth);
        self.builder.induction(depth, entry, coefficient * step)
    }

    /// The pointer to a buffer's first element.
    pub(crate) fn base(&mut self, buffer: BufferId) -> VRegId {
        if let Some(base) = self.bases[buffer] {
            return base;
        }
        let context = self.context();
        let load = |at: VRegId, offset: i32| {
            Inst::new(Opcode::IntLoad, Lane::I64, &[]).address(MemoryOperand::new(at, offset))
        };
        let base = match self.kernel.buffers[buffer].scope {
            Scope::Parameter(_) => {
                let position = self.kernel.parameters.iter().position(|id| *id == buffer);
                let position = position.unwrap_or(0) as i32;
                let table = self.builder.emit_at(load(context, 0), RegisterType::Int, 0);
                self.builder.emit_at(load(table, 8 * position), RegisterType::Int, 0)
            }
            Scope::Scratch | Scope::Register => {
                let scratch = self.builder.emit_at(load(context, 16), RegisterType::Int, 0);
                let offset = self.plan.scratch_offsets[buffer];
                self.builder.add_imm(scratch, offset)
            }
        };
        self.bases[buffer] = Some(base);
        base
    }

    /// The value of a symbol.
    pub(crate) fn symbol(&mut self, symbol: SymbolId) -> VRegId {
        let lane = self.lane;
        let value = match &self.bindings[symbol] {
            Binding::Constant(value) => {
                let value = *value;
                self.builder.int_const(value)
            }
            Binding::Loop(depth) => {
                let depth = *depth;
                self.builder.loop_variable(depth)
            }
            Binding::Int(value) => *value,
            Binding::Lanes(_) => self.lane_of(symbol, lane),
            Binding::None => self.shape_symbol(symbol),
        };
        match self.vector.as_ref().filter(|vector| vector.symbol == symbol) {
            Some(vector) => {
                let offset = vector.offset + lane as i64;
                self.builder.add_imm(value, offset)
            }
            None => value,
        }
    }

    /// Reads a shape symbol from the context.
    fn shape_symbol(&mut self, symbol: SymbolId) -> VRegId {
        let position = match &self.kernel.symbols[symbol].kind {
            loops::SymbolKind::Shape { position, .. } => *position as i32,
            _ => 0,
        };
        let context = self.context();
        let load = |at: VRegId, offset: i32| {
            Inst::new(Opcode::IntLoad, Lane::I64, &[]).address(MemoryOperand::new(at, offset))
        };
        let table = self.builder.emit_at(load(context, 8), RegisterType::Int, 0);
        let value = self.builder.emit_at(load(table, 8 * position), RegisterType::Int, 0);
        self.bindings[symbol] = Binding::Int(value);
        value
    }

    fn context(&self) -> VRegId {
        self.builder.function.blocks[base::Id::new(0)].params[0]
    }

    /// An index expression as an integer, in the lane that is being computed.
    pub(crate) fn int(&mut self, expr: &Expr) -> VRegId {
        let expr = match expr.terms().iter().all(|term| term.as_symbol().is_some()) {
            true => expr.clone(),
            false => self.substituted(expr),
        };
        let mut linear = Linear::default();
        self.add_canonical(&mut linear, &expr, 1);
        // `symbol` adds the lane; what `add_canonical` added for the vector's offset goes again.
        linear.constant += linear.lane_step * self.lane as i64;
        let mut terms = std::mem::take(&mut linear.terms);
        terms.sort_by_key(|(_, factor)| self.factor_depth(factor));
        let mut sum: Option<VRegId> = None;
        for (coefficient, factor) in terms.into_iter().filter(|(c, _)| *c != 0) {
            let value = match factor {
                Factor::Symbol(symbol) => self.symbol_without_lane(symbol),
                Factor::Product(atoms) => self.product(&atoms),
            };
            sum = Some(match sum {
                None => self.builder.mul_imm(value, coefficient),
                Some(sum) => self.builder.add_scaled(sum, value, coefficient),
            });
        }
        match sum {
            Some(sum) => self.builder.add_imm(sum, linear.constant),
            None => self.builder.int_const(linear.constant),
        }
    }

    /// The value of a symbol; of the vector variable, where the loop over vectors stands.
    fn symbol_without_lane(&mut self, symbol: SymbolId) -> VRegId {
        match self.bindings[symbol] {
            Binding::Loop(depth) => self.builder.loop_variable(depth),
            _ => self.symbol(symbol),
        }
    }

    fn product(&mut self, atoms: &[Atom]) -> VRegId {
        let mut product: Option<VRegId> = None;
        for atom in atoms {
            let value = self.atom(atom);
            product = Some(match product {
                None => value,
                Some(product) => self.builder.int(Opcode::IntMul, &[product, value]),
            });
        }
        product.unwrap_or_else(|| self.builder.int_const(1))
    }

    fn atom(&mut self, atom: &Atom) -> VRegId {
        match atom {
            Atom::Symbol(symbol) => self.symbol(*symbol),
            Atom::Min(a, b) => {
                let (a, b) = (self.int(a), self.int(b));
                self.builder.int(Opcode::IntMin, &[a, b])
            }
            Atom::Max(a, b) => {
                let (a, b) = (self.int(a), self.int(b));
                self.builder.int(Opcode::IntMax, &[a, b])
            }
            Atom::FloorDiv(a, b) => self.floor_division(a, b, true),
            Atom::Mod(a, b) => self.floor_division(a, b, false),
        }
    }

    /// The floored quotient or what it leaves.
    fn floor_division(&mut self, a: &Expr, b: &Expr, quotient: bool) -> VRegId {
        let range = self.ranges.bounds(a);
        let value = self.int(a);
        let divisor = self.substituted(b);
        let Some(divisor) = divisor.as_constant().filter(|divisor| *divisor > 0) else {
            let divisor = self.int(b);
            return self.general_floor_division(value, divisor, quotient);
        };
        if divisor.count_ones() == 1 && i32::try_from(divisor).is_ok() {
            let shift = i64::from(divisor.trailing_zeros());
            return match quotient {
                true => self.builder.int_imm(Opcode::IntSarImm, value, shift),
                false => self.builder.int_imm(Opcode::IntAndImm, value, divisor - 1),
            };
        }
        let divided = if range.min >= 0 && range.max < 1 << 31 && divisor < 1 << 31 {
            // Multiplication by the rounded-up inverse is exact below 2^31.
            let bits = 31 + i64::from(64 - (divisor - 1).leading_zeros());
            let inverse = ((1i128 << bits) as u128).div_ceil(divisor as u128) as i64;
            let inverse = self.builder.int_const(inverse);
            let product = self.builder.int(Opcode::IntMul, &[value, inverse]);
            self.builder.int_imm(Opcode::IntShrImm, product, bits)
        } else {
            let divisor = self.builder.int_const(divisor);
            return self.general_floor_division(value, divisor, quotient);
        };
        if quotient {
            return divided;
        }
        let multiple = self.builder.mul_imm(divided, divisor);
        self.builder.int(Opcode::IntSub, &[value, multiple])
    }

    fn general_floor_division(&mut self, a: VRegId, b: VRegId, quotient: bool) -> VRegId {
        // A divisor of 0 has no meaning here, but must not trap where it is computed in vain.
        let zero = self.builder.int_const(0);
        let one = self.builder.int_const(1);
        let b = self.builder.int(Opcode::IntSelect, &[b, one, b]);
        let truncated = self.builder.int(Opcode::IntDivSigned, &[a, b]);
        let multiple = self.builder.int(Opcode::IntMul, &[truncated, b]);
        let rest = self.builder.int(Opcode::IntSub, &[a, multiple]);
        let compare = |selector: &mut Self, cond: Cond, a: VRegId, b: VRegId| {
            let position = Cond::NAMES.iter().position(|(known, _)| *known == cond).unwrap_or(0);
            let inst = Inst::new(Opcode::IntCompare, Lane::I64, &[a, b]).imm(position as i64);
            selector.builder.emit(inst, RegisterType::Int)
        };
        let rest_negative = compare(self, Cond::Less, rest, zero);
        let b_negative = compare(self, Cond::Less, b, zero);
        let signs_differ = compare(self, Cond::NotEqual, rest_negative, b_negative);
        let inexact = compare(self, Cond::NotEqual, rest, zero);
        let correct = self.builder.int(Opcode::IntAnd, &[signs_differ, inexact]);
        if quotient {
            return self.builder.int(Opcode::IntSub, &[truncated, correct]);
        }
        let corrected = self.builder.int(Opcode::IntAdd, &[rest, b]);
        self.builder.int(Opcode::IntSelect, &[corrected, rest, correct])
    }

    /// The place of each lane of an irregular access, in bytes from lane 0's, where these are
    /// constants.
    pub(crate) fn lane_offsets(
        &self,
        buffer: BufferId,
        index: &[Expr],
        lanes: usize,
    ) -> Option<Vec<i64>> {
        let bytes = self.element_bytes(buffer) as i64;
        let strides = self.plan.strides[buffer].expressions();
        let mut offset = Expr::ZERO;
        for (expr, stride) in index.iter().zip(strides) {
            offset += &(expr * stride);
        }
        let first = self.in_lane(&offset, 0)?;
        if first.any_symbol(&mut |s| matches!(self.bindings[s], Binding::Lanes(_))) {
            return None;
        }
        (0..lanes)
            .map(|lane| {
                let elements = self.in_lane(&offset, lane)? - &first;
                elements.as_constant().map(|elements| elements * bytes)
            })
            .collect()
    }

    /// An expression in a lane of the vector loop around, simplified. The variable stands for the
    /// loop's turns where it is one over vectors.
    pub(super) fn in_lane(&self, expr: &Expr, lane: usize) -> Option<Expr> {
        let vector = self.vector.as_ref()?;
        let start = match self.bindings[vector.symbol] {
            Binding::Constant(value) => Expr::constant(value),
            // Here the symbol counts turns: that the variable is a multiple of the step is what
            // makes quotients the same for all lanes.
            Binding::Loop(depth) => Expr::symbol(vector.symbol) * self.builder.loop_step(depth),
            _ => Expr::symbol(vector.symbol),
        };
        let place = start + vector.offset + lane as i64;
        let replaced = expr.substitute(&mut |symbol| match self.bindings[symbol] {
            _ if symbol == vector.symbol => Some(place.clone()),
            Binding::Constant(value) => Some(Expr::constant(value)),
            _ => None,
        });
        Some(self.ranges.simplify(&replaced))
    }

    /// The address of the lane that is being computed, of an irregular place.
    pub(crate) fn lane_address(&mut self, buffer: BufferId, index: &[Expr]) -> VRegId {
        let bytes = self.element_bytes(buffer) as i64;
        let strides: Vec<Expr> = self.plan.strides[buffer].expressions().to_vec();
        let mut pointer = self.base(buffer);
        for (expr, stride) in index.iter().zip(&strides) {
            let value = self.int(expr);
            pointer = match stride.as_constant() {
                Some(stride) => self.builder.add_scaled(pointer, value, stride * bytes),
                None => {
                    let stride = self.int(stride);
                    let elements = self.builder.int(Opcode::IntMul, &[value, stride]);
                    self.builder.add_scaled(pointer, elements, bytes)
                }
            };
        }
        pointer
    }
}

/// A copy of a product's atoms. The general way takes several times as long for the one that there
/// mostly is.
fn copied(atoms: &[Atom]) -> SmallVec<[Atom; 1]> {
    match atoms {
        [atom] => SmallVec::from_buf([atom.clone()]),
        atoms => atoms.into(),
    }
}
