//! A cache of keys and values that has room for little more than a window: its first rows hold the
//! last places of a text, in their order.
//!
//! With room for `c` rows and windows of `w`, a text of `t` tokens has its last `kept(t)` places
//! there: all `t` up to `c`; beyond, as often as the rows are all taken, `g = c - w + 1` places
//! leave at once, so `kept(t) = t - g * ceil((t - c) / g)`. What a cache holds so depends on the
//! length of the text alone, not on how it was cut into calls. Rows behind those hold anything.

use front::{Accepted, Graph, Operand, shape_error};
use sym::Expr;
use tensor::DType;

use crate::node::{Node, attribute_error, unsupported};

/// The places of a call's keys: those of the cache, then those of the call.
pub(super) struct WindowCache {
    /// Rows of the cache.
    room: Expr,
    /// Rows that were kept behind the call before, and are behind this one, `[b, 1]`.
    kept: [Operand; 2],
    /// The place of the call's first token, and how many tokens there are behind it, `[b, 1]`.
    ends: [Operand; 2],
    /// The place of each key, `[b, 1, 1, c + s]`.
    pub(super) places: Operand,
    /// Whether there is such a key, of the same shape.
    pub(super) are_there: Operand,
}

impl WindowCache {
    /// The cache of a node whose call begins at places `first` and ends in front of `end`, both
    /// `[b, 1]`, with `steps` tokens in a row; none where the cache has room for all places.
    pub(super) fn of(
        node: &Node<'_>,
        graph: &mut Graph,
        [first, end]: [&Operand; 2],
        steps: &Expr,
    ) -> Accepted<Option<WindowCache>> {
        if !node.flag("sliding_window_cache", false)? {
            return Ok(None);
        }
        let window = node.int("local_window_size", -1)?;
        if window < 1 {
            let reason = format!("a cache of a window, and a window of {window}");
            return Err(attribute_error("local_window_size", reason));
        }
        if node.optional(10).is_some() {
            return Err(unsupported("a bias of scores beside a cache of no more than a window"));
        }
        let room = match node.optional(3).map(Operand::shape) {
            Some([_, _, room, _]) => room.clone(),
            _ => return Err(shape_error("a cache of a window has four axes and is given")),
        };
        if let Some(rows) = room.as_constant().filter(|rows| *rows < window) {
            return Err(shape_error(format!("a cache of {rows} rows for windows of {window}")));
        }
        let before = kept(graph, first, &room, window)?;
        let after = kept(graph, end, &room, window)?;
        let shape = [first.shape()[0].clone(), &room + steps];
        let row = graph.iota(DType::I64, &shape, 1)?;
        let length = graph.dimension(room.clone());
        let is_old = graph.less(&row, &length)?;
        let oldest = graph.sub(first, &before)?;
        let old = graph.add(&row, &oldest)?;
        let new = graph.sub(first, &length)?;
        let new = graph.add(&row, &new)?;
        let places = graph.select(&is_old, &old, &new)?;
        let is_kept = graph.less(&row, &before)?;
        let is_new = graph.greater_equal(&row, &length)?;
        let are_there = graph.or(&is_kept, &is_new)?;
        let [batch, keys] = shape;
        let shape = [batch, Expr::ONE, Expr::ONE, keys];
        let places = graph.reshape(&places, &shape)?;
        let are_there = graph.reshape(&are_there, &shape)?;
        let ends = [first.clone(), end.clone()];
        Ok(Some(WindowCache { room, kept: [before, after], ends, places, are_there }))
    }

    /// Keys or values of the cache with those of the call behind them, `[b, h, c + s, d]`.
    pub(super) fn joined(
        &self,
        graph: &mut Graph,
        past: Option<&Operand>,
        new: &Operand,
    ) -> Accepted<Operand> {
        match past {
            Some(past) if past.rank() == 4 && past.dtype() == new.dtype() => {
                graph.concat(2, &[past.clone(), new.clone()])
            }
            _ => Err(shape_error("the cache must have four axes, and the keys' type")),
        }
    }

    /// What the cache holds behind the call, of [joined](Self::joined) keys or values.
    pub(super) fn kept(&self, graph: &mut Graph, joined: &Operand) -> Accepted<Operand> {
        let [before, after] = &self.kept;
        let [first, end] = &self.ends;
        let row = graph.iota(DType::I64, &[first.shape()[0].clone(), self.room.clone()], 1)?;
        let oldest = graph.sub(end, after)?;
        let place = graph.add(&row, &oldest)?;
        // A row of the call, or, counted back from the first of them, of the cache.
        let from_first = graph.sub(&place, first)?;
        let length = graph.dimension(self.room.clone());
        let of_call = graph.add(&from_first, &length)?;
        let of_cache = graph.add(&from_first, before)?;
        let zero = graph.number(DType::I64, 0.0);
        let is_new = graph.greater_equal(&from_first, &zero)?;
        let index = graph.select(&is_new, &of_call, &of_cache)?;
        // What lies behind the last of them may be anything.
        let last = graph.dimension(&joined.shape()[2] - &Expr::ONE);
        let index = graph.min(&index, &last)?;
        graph.gather(joined, &[2], &[index], 1, 1)
    }
}

/// How many of the last places of texts of these lengths a cache holds.
fn kept(graph: &mut Graph, length: &Operand, room: &Expr, window: i64) -> Accepted<Operand> {
    let rows = graph.dimension(room.clone());
    // Of a cache that has no room for a window, which only a run knows, the division is a fault.
    let [at_once, rounding] =
        [1 - window, -window].map(|other| graph.dimension(room + &Expr::from(other)));
    let zero = graph.number(DType::I64, 0.0);
    let at_once = graph.max(&at_once, &zero)?;
    let beyond = graph.sub(length, &rows)?;
    let beyond = graph.max(&beyond, &zero)?;
    let beyond = graph.add(&beyond, &rounding)?;
    let times = graph.div(&beyond, &at_once)?;
    let gone = graph.mul(&times, &at_once)?;
    graph.sub(length, &gone)
}
