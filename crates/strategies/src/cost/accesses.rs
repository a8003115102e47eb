//! How accesses meet memory, and the work of loads and stores that follows from it.

use std::hash::{Hash as _, Hasher as _};

use backend::tile::Window;
use loops::{BufferId, Scope, SymbolKind};
use rustc_hash::FxHasher;
use sym::{Atom, Expr, SymbolId, Term};

use super::traffic::Step;
use super::work::{Depends, Work};
use super::{Around, Kind, Walk};
use crate::problem::MOST_TAPS;
use crate::structure::{Access, Motion};

/// Lanes from which on every second element is taken out of what lies side by side.
const EVERY_SECOND: i64 = 8;

/// Columns from which on a block is transposed in registers.
const TRANSPOSED: i64 = 4;

/// The most elements of a row that is held in registers, and how many a register holds.
const PERMUTED: [i64; 2] = [128, 16];

/// The same of bytes, where these can be picked from anywhere in a register.
const PERMUTED_BYTES: [i64; 2] = [256, 64];

/// Bits of a row of a square of narrow elements.
const SQUARE: i64 = 128;

/// Shifts and unions that put a vector of narrow elements among others.
const INTO_TUPLE: f64 = 2.0;

/// Instructions that check the indices of bytes that are looked up, and extend what they find.
const LOOKED_UP: f64 = 5.0;

/// Instructions that take a narrow element out of the word that a gather brings.
const NARROW_GATHER: f64 = 6.0;

/// Instructions that find where in a vector a row ends, and where the next one begins.
const WRAPPING: f64 = 12.0;

/// Instructions for a quotient or a remainder by a constant, of an index of one lane.
const QUOTIENT: f64 = 4.0;

/// Instructions that take as long as one of the index of a vector, which is multiplied twice.
const QUOTIENT_OF_ADDRESS: f64 = 10.0;

/// The same of the indices of all lanes of a vector, which are twice as wide.
const QUOTIENT_OF_LANES: f64 = 16.0;

/// How an access of straight code meets memory.
enum Meeting {
    /// One element for all lanes.
    One,
    /// Neighbouring elements, in whole vectors.
    Vectors,
    /// The same, beginning anywhere in a line.
    Unaligned,
    /// Neighbouring elements of rows that end anywhere in a vector.
    Wrapped,
    /// Every second element.
    EverySecond,
    /// Neighbouring elements, each in front of that of the lane before.
    Backwards,
    /// Elements that each serve several lanes.
    Spread,
    /// So many columns of blocks that are transposed in registers.
    Transposed(i64),
    /// Elements that so many vectors put side by side.
    Tuples(i64),
    /// Elements at places that are values, of a row that so many vectors hold.
    Permuted(i64),
    /// Elements at known distances, loaded one by one and put side by side.
    Scattered,
    /// Elements at values, or that conditions are for, which a gather takes.
    Gathered,
    /// Elements at other places: an address each.
    Apart,
}

impl Walk<'_> {
    /// A motion along lanes, counted in what an instruction takes of an operand at once.
    fn in_tuples(&self, motion: Motion, index: &[Expr]) -> Motion {
        match (self.around.last(), self.instruction()) {
            (Some(around), Some((_, count)))
                if index.iter().any(|axis| axis.contains(around.variable)) =>
            {
                motion.in_tuples(count)
            }
            _ => motion,
        }
    }

    /// Of the instances of a load the share that are different: a window that is written out inside
    /// of rows meets what the row before has met.
    fn distinct(&self, buffer: BufferId, index: &[Expr]) -> f64 {
        let written_out = |around: &&super::Around| around.kind == Kind::WrittenOut;
        let found: Vec<super::Around> =
            self.straight().map(|(_, around)| around).filter(written_out).copied().collect();
        let access = Access::new(self.kernel, buffer, index);
        let stride =
            |around: &super::Around| match access.motion_along(around.variable, around.extent) {
                Motion::Steady { stride: stride @ 1.., block: None } => Some(stride),
                _ => None,
            };
        let [.., row, taps] = &found[..] else { return 1.0 };
        let (Some(next), Some(tap)) = (stride(row), stride(taps)) else { return 1.0 };
        let window = Window { taps: taps.extent, step: next / tap };
        match next % tap == 0 && window.step < window.taps && window.taps <= MOST_TAPS {
            true => window.elements(row.extent) as f64 / (row.extent * taps.extent) as f64,
            false => 1.0,
        }
    }

    /// The loops of straight code on which an index depends.
    pub(super) fn depends_of(&self, index: &[Expr]) -> u64 {
        let mut found = 0;
        for (bit, around) in self.straight() {
            if index.iter().any(|axis| axis.contains(around.variable)) {
                found |= bit;
            }
        }
        let lets = index.iter().flat_map(Expr::symbols);
        lets.fold(found, |found, symbol| found | self.depends[symbol])
    }

    /// Where a vector begins along the last axis.
    pub(super) fn beginning(&self, index: &[Expr]) -> Option<Expr> {
        let vectors = self.around.iter().filter(|around| around.kind == Kind::Vector);
        let vectors: Vec<SymbolId> = vectors.map(|around| around.variable).collect();
        let first = |symbol: SymbolId| vectors.contains(&symbol).then_some(Expr::ZERO);
        index.last().map(|last| last.substitute(&mut { first }))
    }

    /// Whether vectors that are loaded begin elsewhere than those that were stored in this turn:
    /// what lies in several stores is not handed on, but has to reach the cache first.
    fn crosses_stores(&self, buffer: BufferId, index: &[Expr]) -> bool {
        let Some(own) = self.beginning(index) else { return false };
        let lanes = self.lanes();
        let is_whole = |elements: i64| elements % lanes == 0;
        let written_out = |symbol: SymbolId| {
            let found = self.around.iter().find(|around| around.variable == symbol);
            found.is_some_and(|around| around.kind == Kind::WrittenOut)
        };
        self.stored.iter().filter(|(stored, _)| *stored == buffer).any(|(_, place)| {
            let apart = &own - place;
            match apart.as_constant() {
                Some(elements) => !is_whole(elements),
                None => apart.symbols().into_iter().any(|symbol| {
                    let step = apart.linear_coefficient(symbol);
                    written_out(symbol) && step.is_some_and(|step| !is_whole(step))
                }),
            }
        })
    }

    /// The work of a load.
    pub(super) fn load(&mut self, buffer: BufferId, index: &[Expr]) -> (Work, Depends) {
        let depends =
            Depends { loops: self.depends_of(index), distinct: self.distinct(buffer, index) };
        let mut work = Work { latency: self.held[buffer], ..Work::default() };
        if self.kernel.buffers[buffer].scope == Scope::Register {
            work.loads = self.times(depends) * self.spilled;
            return (work, depends);
        }
        let narrow = self.kernel.buffers[buffer].dtype.bits() < 32;
        let meeting = match self.meet(buffer, index, false) {
            // What is between the elements may not be touched.
            Meeting::EverySecond | Meeting::Backwards | Meeting::Spread if self.masked => {
                Meeting::Gathered
            }
            // Turns that differ in what they may touch are not transposed together.
            Meeting::Transposed(_) if self.turns_differ() => Meeting::Scattered,
            meeting => meeting,
        };
        let meeting = match meeting {
            // Narrow elements are transposed in whole blocks where no mask says how much of a row
            // may be touched.
            Meeting::Transposed(columns)
                if narrow && !self.target.masks_narrow() && columns % self.lanes() != 0 =>
            {
                Meeting::Scattered
            }
            meeting => meeting,
        };
        let meeting = match meeting {
            Meeting::Scattered if self.is_conditional() => Meeting::Gathered,
            meeting => meeting,
        };
        let instances = self.times(depends);
        let lanes = self.lanes() as f64;
        let machine = &self.target.machine;
        self.packed &= matches!(
            meeting,
            Meeting::One | Meeting::Vectors | Meeting::Unaligned | Meeting::Transposed(_)
        );
        match meeting {
            Meeting::One => work.scalar_loads = instances,
            Meeting::Vectors => work.loads = instances,
            Meeting::Unaligned => {
                work.loads = instances * machine.unaligned_load;
                self.drains |= self.crosses_stores(buffer, index);
            }
            Meeting::Wrapped => {
                work.loads = 2.0 * instances;
                work.permutes = instances;
                work.instructions = instances * (WRAPPING + QUOTIENT * quotients(index));
            }
            Meeting::EverySecond => (work.loads, work.permutes) = (2.0 * instances, instances),
            Meeting::Backwards | Meeting::Spread => {
                (work.loads, work.permutes) = (instances, instances);
            }
            Meeting::Transposed(columns) => {
                // Squares that are copied, and whose rows fill registers, stay as they are in
                // memory. Rows that are shorter take short registers, which is as little.
                let side = SQUARE / i64::from(self.kernel.buffers[buffer].dtype.bits()).max(1);
                let row = lanes as i64;
                let squares = self.copied && columns % side == 0 && row % side == 0;
                self.packed &= squares || row < side;
                let rows = instances * rows_a_column(columns, lanes);
                (work.loads, work.permutes) = (rows, rows * lanes.log2().ceil());
            }
            Meeting::Permuted(vectors) => {
                work.loads = instances * vectors as f64;
                work.permutes = instances * (vectors as f64 + 1.0);
                let bytes = self.kernel.buffers[buffer].dtype.bits() == 8;
                work.arithmetic = if bytes { instances * LOOKED_UP } else { 0.0 };
            }
            Meeting::Scattered => {
                work.scalar_loads = instances * lanes;
                // Narrow elements are put into a register; of others, short registers are made one.
                work.permutes = instances * if narrow { lanes } else { lanes / 2.0 };
            }
            Meeting::Gathered | Meeting::Tuples(_) => {
                work.gathers = instances * lanes * machine.cycles_of_gather;
                // Narrow elements are taken out of words.
                work.arithmetic = if narrow { instances * NARROW_GATHER } else { 0.0 };
                work.arithmetic += instances * QUOTIENT_OF_LANES * quotients(index);
            }
            Meeting::Apart => {
                let elements = instances * lanes;
                work.scalar_loads = 2.0 * elements;
                work.scalar_stores = elements;
                work.instructions = elements * (1.0 + QUOTIENT * quotients(index));
            }
        }
        if !matches!(meeting, Meeting::Wrapped | Meeting::Gathered | Meeting::Apart) {
            work.instructions += self.indexing(index);
        }
        (work, depends)
    }

    /// Instructions for the quotients and remainders of an index, beside one address a vector:
    /// each is computed again for each turn of the loops it depends on, unless they are written out
    /// and it goes on by whole steps.
    fn indexing(&self, index: &[Expr]) -> f64 {
        let first = self.around.len() - self.straight().count();
        let of = |term: &Term| {
            let [atom @ (Atom::FloorDiv(dividend, divisor) | Atom::Mod(dividend, divisor))] =
                term.factors()
            else {
                return 0.0;
            };
            let alone = Expr::from(term.clone());
            let mut computed = 0.0;
            for around in self.around.iter().skip(first.saturating_sub(1)) {
                if around.kind == Kind::Vector || !atom.contains(around.variable) {
                    continue;
                }
                let again =
                    around.kind == Kind::WrittenOut && !walks_whole_blocks(&alone, around.variable);
                computed = f64::max(computed, 1.0) * if again { around.extent as f64 } else { 1.0 };
            }
            computed * (1 + dividend.quotients() + divisor.quotients()) as f64
        };
        QUOTIENT_OF_ADDRESS * index.iter().flat_map(Expr::terms).map(of).sum::<f64>()
    }

    /// The work of a store, once for each turn of the straight loops.
    pub(super) fn store(&mut self, buffer: BufferId, index: &[Expr]) -> Work {
        let mut work = Work::default();
        if self.kernel.buffers[buffer].scope == Scope::Register {
            work.stores = self.instances(u64::MAX) * self.spilled;
            return work;
        }
        let meeting = match (self.meet(buffer, index, true), self.tuples(buffer, index)) {
            (Meeting::Transposed(_), _) if self.turns_differ() => Meeting::Scattered,
            (_, Some(elements)) => Meeting::Tuples(elements),
            (meeting, None) => meeting,
        };
        let instances = self.instances(u64::MAX);
        let lanes = self.lanes() as f64;
        match meeting {
            Meeting::One => work.scalar_stores = instances,
            Meeting::Vectors => work.stores = instances,
            Meeting::Unaligned => work.stores = instances * self.target.machine.unaligned_store,
            Meeting::Transposed(columns) => {
                let rows = instances * rows_a_column(columns, lanes);
                (work.stores, work.permutes) = (rows, rows * lanes.log2().ceil());
            }
            Meeting::Tuples(elements) => {
                let narrow = self.kernel.buffers[buffer].dtype.bits() < 32;
                work.stores = instances / if narrow { elements as f64 } else { 1.0 };
                work.arithmetic = instances * if narrow { INTO_TUPLE } else { 0.0 };
                work.permutes = instances * if narrow { 0.0 } else { 1.0 };
            }
            Meeting::EverySecond
            | Meeting::Backwards
            | Meeting::Wrapped
            | Meeting::Spread
            | Meeting::Permuted(_)
            | Meeting::Scattered
            | Meeting::Gathered
            | Meeting::Apart => {
                (work.scalar_stores, work.permutes) = (instances * lanes, instances * lanes);
            }
        }
        work.instructions += self.indexing(index);
        work
    }

    /// How many elements a store puts side by side, into a lane or in pairs: those of a loop that
    /// is written out, where vectors lie along another.
    pub(super) fn tuples(&self, buffer: BufferId, index: &[Expr]) -> Option<i64> {
        let bits = i64::from(self.kernel.buffers[buffer].dtype.bits());
        let access = Access::new(self.kernel, buffer, index);
        let vector = self.vector()?;
        let (written_out, _) = self
            .straight()
            .filter(|(_, around)| around.kind == Kind::WrittenOut)
            .map(|(_, around)| (around, access.motion_along(around.variable, around.extent)))
            .find(|(around, motion)| {
                let fills = around.extent * bits == 32 || around.extent == 2 && bits == 32;
                motion.is_unit() && around.extent > 1 && fills
            })?;
        let next = Motion::Steady { stride: written_out.extent, block: None };
        let along = access.motion_along(vector.variable, vector.extent);
        (along == next).then_some(written_out.extent)
    }

    /// How elements at places that are values are met, if some place is one that differs by lane.
    fn at_values(&self, buffer: BufferId, index: &[Expr]) -> Option<Meeting> {
        let differs = |symbol: &SymbolId| self.depends[*symbol] != 0;
        let mut symbols = index.iter().flat_map(Expr::symbols).filter(differs);
        let first = symbols.next()?;
        let alone = symbols.all(|other| other == first);
        let linear =
            |symbol: SymbolId| index.iter().all(|axis| axis.linear_coefficient(symbol).is_some());
        if !index.iter().flat_map(Expr::symbols).filter(differs).all(linear) {
            return Some(Meeting::Apart);
        }
        let range = match &self.kernel.symbols[first].kind {
            SymbolKind::Value { range: Some(range), .. } => *range,
            _ => return Some(Meeting::Gathered),
        };
        let bits = self.kernel.buffers[buffer].dtype.bits();
        let bytes = bits == 8 && self.target.permutes_bytes();
        let [most, lanes] = if bytes { PERMUTED_BYTES } else { PERMUTED };
        let ends = index.last().is_some_and(|last| last.as_symbol() == Some(first));
        let lane = self.vector().map(|vector| vector.variable);
        let row = ends && !lane.is_some_and(|lane| index.iter().any(|axis| axis.contains(lane)));
        let narrow = bits <= 32;
        let wide = i64::from(self.target.vector_bytes) == 4 * PERMUTED[1];
        Some(match alone && row && narrow && wide && range.min == 0 && range.max < most {
            true => Meeting::Permuted(range.max / lanes + 1),
            false => Meeting::Gathered,
        })
    }

    /// Lanes of a vector of the straight code that are used.
    fn lanes(&self) -> i64 {
        self.vector().map_or(1, |vector| vector.lanes.min(vector.extent))
    }

    /// Whether guards tell the turns of a loop that is written out apart.
    fn turns_differ(&self) -> bool {
        self.straight().any(|(_, around)| around.differs)
    }

    /// Whether conditions around are known only while running.
    fn is_conditional(&self) -> bool {
        let runs = |symbol: &SymbolId| {
            let own = |around: &&super::Around| around.variable == *symbol;
            self.around.iter().find(own).is_some_and(|around| !around.is_straight())
        };
        self.guarded.iter().any(runs)
    }

    /// How an access meets memory; what it brings is noted.
    fn meet(&mut self, buffer: BufferId, index: &[Expr], writes: bool) -> Meeting {
        let index: Vec<Expr> = index.iter().map(unshifted).collect();
        let access = Access::new(self.kernel, buffer, &index);
        let motion = |around: &super::Around| access.motion_along(around.variable, around.extent);
        let motions: Vec<Motion> = self.around.iter().map(motion).collect();
        let steps = self.around.iter().zip(&motions).map(|(around, motion)| Step {
            number: around.number,
            turns: around.extent,
            stride: match *motion {
                Motion::Still => Some(0),
                Motion::Steady { stride, .. } => Some(stride),
                Motion::Irregular => None,
            },
            block: match *motion {
                Motion::Steady { block, .. } => block,
                Motion::Still | Motion::Irregular => None,
            },
        });
        let steps: Vec<Step> = steps.collect();
        let buffer_data = &self.kernel.buffers[buffer];
        let element = f64::from(buffer_data.dtype.bits()) / 8.0;
        let whole = self.kernel.usual_span_bytes(buffer) as f64;
        let mut hasher = FxHasher::default();
        index.hash(&mut hasher);
        let key = (buffer, writes, hasher.finish());
        self.traffic.add(&self.target.machine, key, [element, whole], &steps);
        let straight = self.straight().count();
        let own = self.around.iter().zip(&motions).skip(self.around.len() - straight);
        let values = self.at_values(buffer, &index);
        let (mut along, mut spread) = (None, false);
        let (mut columns, mut wrapped, mut known) = (None, false, true);
        for (around, motion) in own {
            match around.kind {
                Kind::Vector => {
                    known = index.iter().all(|axis| is_known_by_lane(axis, around));
                    let apart = if known { *motion } else { Motion::Irregular };
                    wrapped = !known && motion.is_run_of(around.lanes);
                    let motion = apart;
                    spread = access.is_spread(motion, around.variable, around.lanes);
                    along = Some((self.in_tuples(motion, &index), around.lanes));
                }
                Kind::Instruction(_) => {}
                _ => {
                    let whole = index.iter().all(|axis| walks_whole_blocks(axis, around.variable));
                    if let (Motion::Steady { stride: 1, block }, true) = (*motion, whole) {
                        let side_by_side = block.unwrap_or(around.extent).min(around.extent);
                        columns = Some(side_by_side).filter(|it| *it >= TRANSPOSED).or(columns);
                    }
                }
            }
        }
        match along {
            _ if values.is_some() => values.unwrap_or(Meeting::Apart),
            None | Some((Motion::Still, _)) => Meeting::One,
            Some((Motion::Steady { stride: 1, block }, lanes))
                if block.is_none_or(|block| block >= lanes) =>
            {
                let bytes = i64::from(self.target.vector_bytes) / 2;
                let elements = bytes / i64::from(buffer_data.dtype.bits() / 8).max(1);
                let vector = self.vector().map(|vector| vector.variable);
                match vector.is_some_and(|own| !access.begins_at_multiples(own, elements)) {
                    true => Meeting::Unaligned,
                    false => Meeting::Vectors,
                }
            }
            Some(_) if wrapped => Meeting::Wrapped,
            Some((Motion::Steady { stride: 2, block: None }, _))
                if self.lanes() >= EVERY_SECOND =>
            {
                Meeting::EverySecond
            }
            Some((Motion::Steady { stride: -1, block: None }, _)) => Meeting::Backwards,
            Some(_) if spread => Meeting::Spread,
            Some(other) => match (columns, other) {
                (Some(columns), (Motion::Steady { block: None, .. }, _)) => {
                    Meeting::Transposed(columns)
                }
                (None, (Motion::Steady { block: None, .. }, _)) => Meeting::Scattered,
                _ if known => Meeting::Scattered,
                _ => Meeting::Apart,
            },
        }
    }
}

/// Quotients and remainders of an index.
fn quotients(index: &[Expr]) -> f64 {
    let is_quotient = |atom: &&Atom| matches!(atom, Atom::FloorDiv(..) | Atom::Mod(..));
    let atoms = index.iter().flat_map(Expr::terms).flat_map(Term::factors);
    atoms.filter(is_quotient).count() as f64
}

/// Rows of the blocks that so many columns are transposed in, a column: a block that is not full
/// has as many rows as one that is.
fn rows_a_column(columns: i64, lanes: f64) -> f64 {
    (columns as f64 / lanes).ceil() * lanes / columns as f64
}

/// Whether quotients and remainders of an index change between lanes at the same places wherever
/// all other loops stand, so that code can tell how the lanes lie.
fn walks_whole_blocks(index: &Expr, variable: SymbolId) -> bool {
    index.terms().iter().flat_map(Term::factors).all(|atom| {
        let (Atom::FloorDiv(dividend, divisor) | Atom::Mod(dividend, divisor)) = atom else {
            return !matches!(atom, Atom::Min(..) | Atom::Max(..)) || !atom.contains(variable);
        };
        let Some(divisor) = divisor.as_constant().filter(|divisor| *divisor > 0) else {
            return !atom.contains(variable);
        };
        let others = dividend.terms().iter().filter(|term| term.as_symbol() != Some(variable));
        let whole = |term: &Term| {
            term.coefficient() % divisor == 0
                && !term.factors().iter().any(|factor| factor.contains(variable))
        };
        !atom.contains(variable)
            || (dividend.constant_part() % divisor == 0 && { others }.all(whole))
    })
}

/// The same of a vector loop, which is one more loop to stand somewhere where its vectors are not
/// written out.
pub(super) fn is_known_by_lane(index: &Expr, vector: &Around) -> bool {
    let (variable, lanes) = (vector.variable, vector.lanes);
    let whole = |atom: &Atom| match atom {
        Atom::FloorDiv(_, divisor) | Atom::Mod(_, divisor) if atom.contains(variable) => divisor
            .as_constant()
            .is_some_and(|divisor| divisor > 0 && (lanes % divisor == 0 || divisor % lanes == 0)),
        _ => true,
    };
    walks_whole_blocks(index, variable)
        && (vector.is_written_out() || index.terms().iter().flat_map(Term::factors).all(whole))
}

/// An index without what keeps the last turn of a loop inside: `min(a, c * v)` is `c * v`.
fn unshifted(index: &Expr) -> Expr {
    let is_shifted = |term: &Term| matches!(term.factors(), [Atom::Min(..)]);
    if !index.terms().iter().any(is_shifted) {
        return index.clone();
    }
    let mut sum = Expr::constant(index.constant_part());
    for term in index.terms() {
        match term.factors() {
            [Atom::Min(one, other)] => {
                let moving = if one.as_constant().is_some() { other } else { one };
                sum.add_scaled(moving, term.coefficient());
            }
            _ => sum += &Expr::from(term.clone()),
        }
    }
    sum
}
