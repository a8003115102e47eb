//! The first few elements of many rows, without a branch.
//!
//! Each element in turn, from the last to the first, is compared with all that are kept so far, and
//! goes before those that it is not behind; the last one falls out. So equal elements end up in
//! the order in which they stand, and what places hold at first, which no element is behind, is
//! gone once as many elements have been met as there are places. Comparisons with the places do not
//! wait for each other, and rows do all the same steps: side by side they go along in vectors.

use loops::build::{cast, constant, guard, index, less, load, store};
use loops::{ScalarExpr, Stmt};
use sym::Expr;
use tensor::{DType, Reduction, Scalar, ScalarFunction};

use super::statements::{Line, Order, Pair};
use super::write::Writer;

/// Rows from which on they fill a good part of a vector.
const MANY_ROWS: i64 = 6;

/// Elements kept up to which all comparisons of an element cost less than to find its place.
const MOST: i64 = 32;

/// Whether rows are so many, and of such elements, that they are met side by side.
pub(super) fn is_side_by_side(line: &Line<'_>, kept: i64) -> bool {
    let rows: Option<i64> =
        line.rows.extents().iter().map(Expr::as_constant).product::<Option<i64>>();
    let length = line.extent.as_constant();
    kept <= MOST
        && line.dtype != DType::Bool
        && rows.is_some_and(|rows| rows >= MANY_ROWS)
        && length.is_some_and(|length| length <= i64::from(i32::MAX))
}

impl Writer<'_> {
    /// See the head of this file.
    pub(super) fn selected_side_by_side(
        &mut self,
        line: &Line<'_>,
        kept: i64,
        order: Order,
    ) -> (Pair, Vec<Stmt>) {
        let dtype = line.compared_in();
        let room = Expr::constant(kept);
        let row = self.scratch("row", dtype, vec![line.extent.clone()]);
        let best = Pair {
            values: self.scratch("values", dtype, vec![room.clone()]),
            places: self.scratch("places", DType::I32, vec![room.clone()]),
        };
        let (along, place) = self.along(line, &line.extent);
        let element = self.element(line.operand, place);
        let element = if dtype == line.dtype { element } else { cast(dtype, element) };
        let mut body = self.looped(&along, vec![store(row, [&along.index[0]], element)]);

        let places = self.axes("s", std::slice::from_ref(&room));
        let last = match (order.descending, order.is_float) {
            (true, _) => Reduction::Max.identity(dtype),
            (false, true) => Scalar::from_f64(dtype, f64::NAN),
            (false, false) => Reduction::Min.identity(dtype),
        };
        let nowhere = constant(Scalar::zero(DType::I32));
        let clear = vec![
            store(best.values, [&places.index[0]], constant(last)),
            store(best.places, [&places.index[0]], nowhere),
        ];
        body.extend(self.looped(&places, clear));

        let along = self.axes("r", std::slice::from_ref(&line.extent));
        let position = line.extent.clone() - 1 - &along.index[0];
        let places = self.axes("s", std::slice::from_ref(&room));
        let to = Expr::constant(kept - 1) - &places.index[0];
        let update = self.moved_up(&best, &load(row, [&position]), &position, &to, order);
        let inner = self.looped(&places, update);
        body.extend(self.looped(&along, inner));
        (best, body)
    }

    /// What a place holds once an element has been met: what the place before it held if the
    /// element goes before that, else the element if that goes before what the place holds.
    fn moved_up(
        &mut self,
        best: &Pair,
        element: &ScalarExpr,
        position: &Expr,
        to: &Expr,
        order: Order,
    ) -> Vec<Stmt> {
        let here = [to.clone()];
        let before = [to.clone() - 1];
        let inside = || vec![less(0, to)];
        let held = |at: &[Expr; 1]| load(best.values, at);
        let is_ahead = self.is_not_behind(element, &held(&here), order);
        let is_ahead = self.share("ahead", is_ahead, DType::Bool);
        let is_farther = self.is_not_behind(element, &held(&before), order);
        let no = constant(Scalar::bool(false));
        let is_farther = self.share("farther", guard(inside(), is_farther, no), DType::Bool);
        let moved = |buffer, new: ScalarExpr| {
            let own = self.select(&is_ahead, new.clone(), load(buffer, &here));
            let shifted = guard(inside(), load(buffer, &before), new);
            store(buffer, &here, self.select(&is_farther, shifted, own))
        };
        let place = cast(DType::I32, index(position));
        vec![moved(best.values, element.clone()), moved(best.places, place)]
    }

    /// Whether an element comes before another, or either may.
    fn is_not_behind(&self, a: &ScalarExpr, b: &ScalarExpr, order: Order) -> ScalarExpr {
        let (compare, either) = match order.descending {
            true => (ScalarFunction::Ge, a),
            false => (ScalarFunction::Le, b),
        };
        let compared = self.two(compare, a, b);
        match order.is_float {
            true => self.two(ScalarFunction::Or, &compared, &self.is_nan(either, true)),
            false => compared,
        }
    }
}
