//! How closely what a kernel writes may follow what it reads, where its turns run one after the
//! other: then the two need not lie apart, only so that nothing is written over before it was read
//! for the last time.
//!
//! The kernel's outer loops are written out in time; of each moment the bytes that are read and
//! those that are written are bounded by ranges over the inner loops. Within a moment nothing is
//! known of the order. So the answer is sound and incomplete. (The idea is
//! "diagonal memory optimisation": P. Blacker, S. Hadfield, C. P. Bridges, 2020, who find the
//! distances by running kernels.)

use base::SecondaryMap;
use loops::visit::own_references;
use loops::{Access, BufferId, Kernel, Loop, LoopKind, Scope, Stmt, constant_strides};
use sym::{Expr, Range, SymbolId};

/// The most moments that a kernel is taken apart in.
const MOMENTS: i64 = 1 << 13;

/// Bytes, seen from the start of a buffer: the first, and the one behind the last.
type Span = (i64, i64);

/// The bytes that a kernel touches at some moment, and those between them.
#[derive(Clone, Copy, Debug)]
struct Moment {
    read: Option<Span>,
    written: Option<Span>,
}

/// The least span with all of two.
fn hull(known: Option<Span>, span: Span) -> Span {
    known.map_or(span, |known| (known.0.min(span.0), known.1.max(span.1)))
}

/// How many bytes behind the start of what a kernel writes something that it reads may begin, so
/// that each of its elements is read for the last time before anything is written over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Distances {
    /// At least so many: what is written follows what is read, which may reach beyond it. Where
    /// nothing is read once something was written, that of all written bytes, negative.
    pub(crate) least: i64,
    /// Or at most so many, most often negative: what is read lies in front of all that is written
    /// up to then.
    pub(crate) most: i64,
}

/// The distances at which the parameter `read` may lie behind the start of `written`. `None` where
/// that is not known.
pub(crate) fn distances(kernel: &Kernel, read: BufferId, written: BufferId) -> Option<Distances> {
    let is = |buffer: BufferId, access| kernel.buffers[buffer].scope == Scope::Parameter(access);
    if !is(read, Access::Read) || !is(written, Access::Write) {
        return None;
    }
    let element = |buffer: BufferId| {
        let bits = i64::from(kernel.buffers[buffer].dtype.bits());
        (bits % 8 == 0).then_some((buffer, constant_strides(kernel, buffer)?, bits / 8))
    };
    let mut ranges = SecondaryMap::with_default(Range::ALL);
    if let Some(last) = kernel.symbols.ids().next_back() {
        ranges[last] = Range::ALL;
    }
    let mut time =
        Time { read: element(read)?, written: element(written)?, ranges, moments: vec![] };
    time.block(&kernel.body, 1)?;
    let (mut later, mut all) = (None, None);
    let mut found = Distances { least: i64::MIN, most: i64::MAX };
    for moment in time.moments.iter().rev() {
        later = moment.read.map(|span| hull(later, span)).or(later);
        all = moment.written.map(|span| hull(all, span)).or(all);
        if let (Some(read), Some(written)) = (later, moment.written) {
            found.least = found.least.max(written.1 - read.0);
            found.most = found.most.min(written.0 - read.1);
        }
    }
    let end = all.map_or(0, |span| span.1);
    Some(Distances { least: found.least.max(-end), most: found.most.min(end) })
}

/// A buffer, its strides, and the bytes of an element.
type Accessed = (BufferId, Vec<i64>, i64);

struct Time {
    read: Accessed,
    written: Accessed,
    /// Of the loops around: what their variables are, or can be.
    ranges: SecondaryMap<SymbolId, Range>,
    moments: Vec<Moment>,
}

impl Time {
    /// Adds the moments of a block, which is run so many times; none where one is not bounded.
    fn block(&mut self, block: &[Stmt], turns: i64) -> Option<()> {
        for stmt in block {
            match stmt {
                Stmt::For(inner) => self.looped(inner, turns)?,
                // What a condition decides may happen; loops that data end are no kernels of few
                // moments.
                Stmt::While { .. } => return None,
                Stmt::If { then, otherwise, .. } => {
                    self.block(then, turns)?;
                    self.block(otherwise, turns)?;
                }
                _ => {
                    let mut moment = Moment { read: None, written: None };
                    self.touch(stmt, &mut moment)?;
                    self.add(moment);
                }
            }
        }
        Some(())
    }

    fn looped(&mut self, inner: &Loop, turns: i64) -> Option<()> {
        let extent = inner.extent.as_constant()?;
        let turns = turns.saturating_mul(extent);
        // Lanes are in no order: all may store before one loads.
        if turns <= MOMENTS && inner.kind != LoopKind::Vector {
            for turn in 0..extent {
                self.ranges.insert(inner.variable, Range::constant(turn));
                self.block(&inner.body, turns)?;
            }
            return Some(());
        }
        let mut moment = Moment { read: None, written: None };
        self.inside(inner, &mut moment)?;
        self.add(moment);
        Some(())
    }

    /// All that a loop does, as one moment.
    fn inside(&mut self, inner: &Loop, moment: &mut Moment) -> Option<()> {
        let extent = inner.extent.as_constant()?;
        self.ranges.insert(inner.variable, Range::new(0, (extent - 1).max(0)));
        self.all(&inner.body, moment)
    }

    fn all(&mut self, block: &[Stmt], moment: &mut Moment) -> Option<()> {
        for stmt in block {
            match stmt {
                Stmt::For(inner) => self.inside(inner, moment)?,
                Stmt::While { .. } => return None,
                _ => {
                    self.touch(stmt, moment)?;
                    for block in stmt.blocks() {
                        self.all(block, moment)?;
                    }
                }
            }
        }
        Some(())
    }

    /// What a statement itself reads and writes.
    fn touch(&self, stmt: &Stmt, moment: &mut Moment) -> Option<()> {
        let mut is_known = true;
        own_references(stmt, &mut |reference| {
            let mut bytes = |(buffer, strides, element): &Accessed| {
                if reference.buffer != *buffer {
                    return None;
                }
                let number: Expr =
                    reference.index.iter().zip(strides).map(|(index, by)| index * *by).sum();
                let whole = reference.index.len() == strides.len();
                let bounds = number.bounds(&|symbol| self.ranges[symbol]);
                is_known &= whole && bounds.min > i64::MIN && bounds.max < i64::MAX;
                let end = bounds.max.saturating_add(1).saturating_mul(*element);
                Some((bounds.min.saturating_mul(*element), end))
            };
            if let Some(span) = bytes(&self.read) {
                moment.read = Some(hull(moment.read, span));
            }
            if let Some(span) = bytes(&self.written) {
                moment.written = Some(hull(moment.written, span));
            }
        });
        is_known.then_some(())
    }

    fn add(&mut self, moment: Moment) {
        if moment.read.is_some() || moment.written.is_some() {
            self.moments.push(moment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turns::reads_before_writes;

    fn distance(text: &str) -> Option<i64> {
        let kernel = loops::parse(text).expect("a kernel");
        let [read, written] = [kernel.parameters[0], kernel.parameters[1]];
        let found = distances(&kernel, read, written)?;
        // What the checker says; within a statement it knows the order.
        assert!(reads_before_writes(&kernel, read, written, found.least));
        assert!(!reads_before_writes(&kernel, read, written, found.least - 2));
        assert!(reads_before_writes(&kernel, read, written, found.most));
        Some(found.least)
    }

    #[test]
    fn each_element_before_it_is_written() {
        let map = "kernel @k(%x: read i8[64], %y: write i8[64]) {
          for i < 64 parallel { %y[i] = abs(%x[i]) } }";
        assert_eq!(distance(map), Some(1));
    }

    #[test]
    fn rows_that_become_wider() {
        // Of 2 bytes 4: what is read ends where what is written does, a row less.
        let wider = "kernel @k(%x: read i8[8, 2], %y: write i8[8, 4]) {
          for i < 8 parallel { for j < 4 { %y[i, j] = %x[i, j div 2] } } }";
        assert_eq!(distance(wider), Some(17));
    }

    #[test]
    fn a_window_is_kept() {
        let window = "kernel @k(%x: read i8[10, 4], %y: write i8[8, 4]) {
          %acc: register i8[4]
          for i < 8 parallel {
            for z < 4 unroll { %acc[z] = 0i8 }
            for r < 3 { for j < 4 unroll { %acc[j] += %x[i + r, j] } }
            for s < 4 unroll { %y[i, s] = %acc[s] }
          } }";
        assert_eq!(distance(window), Some(0));
        let columns = "kernel @k(%x: read i8[10, 4], %y: write i8[8, 4]) {
          for j < 4 parallel { for i < 8 { %y[i, j] = max(%x[i, j], %x[i + 2, j]) } } }";
        assert_eq!(distance(columns), Some(28));
    }

    #[test]
    fn what_is_read_may_lie_in_front() {
        // The first row is another kernel's.
        let shifted = "kernel @k(%x: read i8[4, 4], %y: write i8[5, 4]) {
          for j < 4 parallel { for i < 4 { %y[i + 1, j] = max(%x[i, j], %x[3 - i, j]) } } }";
        let kernel = loops::parse(shifted).expect("a kernel");
        let [read, written] = [kernel.parameters[0], kernel.parameters[1]];
        let found = distances(&kernel, read, written).expect("distances");
        assert_eq!(found.most, 4 - 16);
        assert!(reads_before_writes(&kernel, read, written, found.most));
        assert!(!reads_before_writes(&kernel, read, written, found.most + 4));
    }

    #[test]
    fn lanes_may_store_before_one_loads() {
        let map = "kernel @k(%x: read i8[8, 8], %y: write i8[8, 8]) {
          for i < 8 parallel { for j < 8 vector { %y[i, j] = abs(%x[i, j]) } } }";
        let kernel = loops::parse(map).expect("a kernel");
        let [read, written] = [kernel.parameters[0], kernel.parameters[1]];
        let found = distances(&kernel, read, written);
        assert_eq!(found, Some(Distances { least: 8, most: -64 }));
        assert!(reads_before_writes(&kernel, read, written, 8));
        assert!(!reads_before_writes(&kernel, read, written, 7));
    }

    #[test]
    fn what_data_decide_is_not_known() {
        let gather = "kernel @k(%x: read i64[8], %y: write i64[8]) {
          for i < 8 parallel { let at: i64 in 0..=7 = %x[i] %y[i] = %x[at] } }";
        assert_eq!(distance(gather), None);
    }
}
