//! Statement definitions: what has no index expression. Rows are independent, a row is sequential.

use graph::{NodeId, ValueId};
use loops::build::{
    cast, constant, equal, fold, guard, if_then, index, less, let_value, load, reduce, store,
};
use loops::{Access, BufferId, ScalarExpr, Stmt};
use strategies::{Nest, ProducerKind};
use sym::{Expr, Range};
use tensor::{DType, Reduction, Scalar, ScalarFunction};

use super::index::extents;
use super::selection::is_side_by_side;
use super::write::{Axes, Writer};

/// Which element comes first.
#[derive(Clone, Copy)]
pub(super) struct Order {
    pub(super) descending: bool,
    pub(super) is_float: bool,
}

/// Elements of which one comparison tells that none is kept.
const BLOCK: i64 = 32;

impl Writer<'_> {
    pub(super) fn two(
        &self,
        function: ScalarFunction,
        a: &ScalarExpr,
        b: &ScalarExpr,
    ) -> ScalarExpr {
        self.kernel.apply(function, vec![a.clone(), b.clone()])
    }

    pub(super) fn select(
        &self,
        condition: &ScalarExpr,
        yes: ScalarExpr,
        no: ScalarExpr,
    ) -> ScalarExpr {
        self.kernel.apply(ScalarFunction::Select, vec![condition.clone(), yes, no])
    }

    pub(super) fn is_nan(&self, value: &ScalarExpr, is_float: bool) -> ScalarExpr {
        match is_float {
            true => self.kernel.apply(ScalarFunction::IsNan, vec![value.clone()]),
            false => constant(Scalar::bool(false)),
        }
    }

    /// `a or (b and not c)`
    fn or_and_not(&self, a: &ScalarExpr, b: &ScalarExpr, c: &ScalarExpr) -> ScalarExpr {
        let not = self.kernel.apply(ScalarFunction::Not, vec![c.clone()]);
        self.two(ScalarFunction::Or, a, &self.two(ScalarFunction::And, b, &not))
    }

    /// The parameter that holds a result, and the place of one of its elements.
    fn written(&mut self, value: ValueId, index: &[Expr]) -> (BufferId, Vec<Expr>) {
        self.place(value, index, Access::Write).expect("a result of statements has memory")
    }

    fn opaque(&mut self, buffer: BufferId, rows: &Axes, reduced: &Axes) {
        let reduced = self.names(&reduced.loops);
        let nest = Nest { parallel: self.names(&rows.loops), reduced, lanes: None };
        self.producer(buffer, ProducerKind::Opaque, vec![nest]);
    }

    /// Loops over all axes but one, and over that one; the index of the element at hand.
    fn rows_and(&mut self, shape: &[Expr], axis: usize) -> (Axes, Axes, Vec<Expr>) {
        let mut others = shape.to_vec();
        others.remove(axis);
        let (rows, along) = (self.axes("a", &others), self.axes("r", &shape[axis..=axis]));
        let mut index = rows.index.clone();
        index.insert(axis, along.index[0].clone());
        (rows, along, index)
    }

    /// The best element so far and its position; a NaN is better than any number.
    pub(crate) fn arg_reduce(&mut self, node: NodeId, axis: usize, greatest: bool, last: bool) {
        let data = &self.function.nodes[node];
        let (operand, result) = (data.operands[0], data.results[0]);
        let (shape, dtype) = (extents(self.function, operand), self.dtype(operand));
        let (rows, along, place) = self.rows_and(shape, axis);
        let best = self.scratch("best", dtype, rows.extents());
        // Places fit the lanes of most elements.
        let length = shape[axis].as_constant();
        let few = length.is_some_and(|length| length <= i64::from(i32::MAX));
        let place_dtype = if few { DType::I32 } else { DType::I64 };
        let at = self.scratch("at", place_dtype, rows.extents());
        let first = self.axes("a", &without(shape, axis));
        let start = if greatest { Reduction::Max } else { Reduction::Min }.identity(dtype);
        let zero = constant(Scalar::zero(place_dtype));
        let begin =
            [store(best, first.variables(), constant(start)), store(at, first.variables(), zero)];
        self.nest(&first.loops, begin.to_vec());
        self.opaque(best, &first, &Axes::default());

        let element = self.element(operand, place.clone());
        let element = self.share("x", element, dtype);
        let (held, is_float) = (load(best, rows.variables()), dtype.is_float());
        // A NaN is better than all numbers. A comparison with one does not hold.
        let compare = |writer: &Writer<'_>, [greater, less]: [ScalarFunction; 2]| {
            writer.two(if greatest { greater } else { less }, &element, &held)
        };
        let better = match (last, is_float) {
            (true, false) => compare(self, [ScalarFunction::Ge, ScalarFunction::Le]),
            (true, true) => {
                let at_least = compare(self, [ScalarFunction::Ge, ScalarFunction::Le]);
                self.two(ScalarFunction::Or, &at_least, &self.is_nan(&element, true))
            }
            (false, false) => compare(self, [ScalarFunction::Gt, ScalarFunction::Lt]),
            (false, true) => {
                let behind = compare(self, [ScalarFunction::Le, ScalarFunction::Ge]);
                let held_number = self.two(ScalarFunction::Eq, &held, &held);
                let not = self.kernel.apply(ScalarFunction::Not, vec![behind]);
                self.two(ScalarFunction::And, &held_number, &not)
            }
        };
        let better = self.share("better", better, DType::Bool);
        let place = cast(place_dtype, index(&along.index[0]));
        let position = self.select(&better, place, load(at, rows.variables()));
        let value = self.select(&better, element, held);
        let update =
            vec![store(at, rows.variables(), position), store(best, rows.variables(), value)];
        self.nest(&rows.around(&along.loops), update);
        self.opaque(best, &rows, &along);
        self.internals.insert(result, at);
        self.pointwise(node, None);
    }

    /// A running value a row.
    pub(crate) fn cumulate(
        &mut self,
        node: NodeId,
        axis: usize,
        reduction: Reduction,
        exclusive: bool,
        reverse: bool,
    ) {
        let data = &self.function.nodes[node];
        let (operand, result) = (data.operands[0], data.results[0]);
        let (shape, dtype) = (extents(self.function, operand), self.dtype(operand));
        let first = self.axes("a", &without(shape, axis));
        let running = self.scratch("running", dtype, first.extents());
        let identity = constant(reduction.identity(dtype));
        self.nest(&first.loops, vec![store(running, first.variables(), identity)]);
        self.opaque(running, &first, &Axes::default());

        let (rows, along, mut place) = self.rows_and(shape, axis);
        if reverse {
            place[axis] = shape[axis].clone() - 1 - &place[axis];
        }
        let element = self.element(operand, place.clone());
        let (buffer, written) = self.written(result, &place);
        let show = store(buffer, written, load(running, rows.variables()));
        let update = reduce(running, rows.variables(), reduction, element);
        let statements = if exclusive { vec![show, update] } else { vec![update, show] };
        self.nest(&rows.around(&along.loops), statements);
        self.opaque(buffer, &rows, &along);
    }

    /// The elements of each row in order, all or the first so many, and where they stood.
    pub(crate) fn sort(
        &mut self,
        node: NodeId,
        axis: usize,
        descending: bool,
        kept: Option<usize>,
    ) {
        let data = &self.function.nodes[node];
        let (operand, results) = (data.operands[0], data.results.clone());
        let (shape, dtype) = (extents(self.function, operand), self.dtype(operand));
        let rows = self.axes("a", &without(shape, axis));
        let extent = shape[axis].clone();
        let line = Line { operand, axis, rows: &rows, extent, dtype };
        let order = Order { descending, is_float: dtype.is_float() };
        let few = kept.map(|kept| kept as i64).filter(|&kept| is_few(kept, &line.extent));
        let (from, mut body) = match few {
            Some(kept) if is_side_by_side(&line, kept) => {
                self.selected_side_by_side(&line, kept, order)
            }
            Some(kept) => self.selected(&line, kept, order),
            None => self.merged(&line, order),
        };
        let (along, place) = self.along(&line, &extents(self.function, results[0])[axis]);
        let (values, places) = (self.written(results[0], &place), self.written(results[1], &place));
        let position = &along.index[0];
        let held = |writer: &Writer<'_>, buffer: BufferId, dtype: DType| {
            let held = load(buffer, [position]);
            let same = writer.kernel.buffers[buffer].dtype == dtype;
            if same { held } else { loops::build::cast(dtype, held) }
        };
        let show = vec![
            store(values.0, values.1, held(self, from.values, dtype)),
            store(places.0, places.1, held(self, from.places, DType::I64)),
        ];
        body.extend(self.looped(&along, show));
        self.nest(&rows.loops, body);
        self.opaque(values.0, &rows, &Axes::default());
    }

    /// A loop over the first elements of a row, and the place of the element at hand.
    pub(super) fn along(&mut self, line: &Line<'_>, count: &Expr) -> (Axes, Vec<Expr>) {
        let along = self.axes("r", std::slice::from_ref(count));
        let place = line.place(&along.index[0]);
        (along, place)
    }

    fn pair(&mut self, dtype: DType, extent: &Expr) -> Pair {
        Pair {
            values: self.scratch("values", dtype, vec![extent.clone()]),
            places: self.scratch("places", DType::I64, vec![extent.clone()]),
        }
    }

    /// Selection by insertion, stable: each element in turn moves forward past those kept so far
    /// that it comes before. What is moved behind the last place kept is overwritten by the next
    /// element, so that an element which is not kept costs one comparison; of a block of elements
    /// none of which is, the one that comes first tells.
    fn selected(&mut self, line: &Line<'_>, kept: i64, order: Order) -> (Pair, Vec<Stmt>) {
        let room = Expr::constant(kept + 1);
        let best = self.pair(line.dtype, &room);
        let cursors = Cursors {
            gap: self.scratch("cursor", DType::I64, Vec::new()),
            moves: self.scratch("moves", DType::Bool, Vec::new()),
        };
        let cleared = self.axes("r", std::slice::from_ref(&room));
        let zero = Reduction::Sum.identity(DType::I64);
        let clear = vec![
            store(best.values, [&cleared.index[0]], constant(Scalar::zero(line.dtype))),
            store(best.places, [&cleared.index[0]], constant(zero)),
        ];
        let mut body = self.looped(&cleared, clear);

        let blocks = match line.extent.as_constant() {
            Some(extent) if line.dtype != DType::Bool && extent >= 2 * BLOCK => extent / BLOCK,
            _ => 0,
        };
        if blocks > 0 {
            body.extend(self.selected_in_blocks(line, blocks, kept, order, (&best, &cursors)));
        }
        let met = Expr::constant(blocks * BLOCK);
        let left = line.extent.clone() - &met;
        if !left.is_zero() {
            let along = self.axes("r", &[left]);
            let position = along.index[0].clone() + &met;
            let inserted = self.inserted(line, &position, kept, order, (&best, &cursors));
            body.extend(self.looped(&along, inserted));
        }
        (best, body)
    }

    /// The first blocks of a line. That which comes first of a block is found by a reduction, which
    /// gives what is no number if there is such.
    fn selected_in_blocks(
        &mut self,
        line: &Line<'_>,
        blocks: i64,
        kept: i64,
        order: Order,
        (best, cursors): (&Pair, &Cursors),
    ) -> Vec<Stmt> {
        let dtype = line.compared_in();
        let block = self.axes("b", &[blocks.into()]);
        let start = block.index[0].clone() * BLOCK;
        let part = self.scratch("block", dtype, vec![BLOCK.into()]);
        let lanes = self.axes("l", &[BLOCK.into()]);
        let element = self.element(line.operand, line.place(&(start.clone() + &lanes.index[0])));
        let element = if dtype == line.dtype { element } else { cast(dtype, element) };
        let mut body = self.looped(&lanes, vec![store(part, [&lanes.index[0]], element)]);

        let first = if order.descending { Reduction::Max } else { Reduction::Min };
        let first = fold(first, part, Vec::<Expr>::new());
        let (compared, condition) = self.may_enter(line, &first, &start, kept, order, best);
        let within = self.axes("i", &[BLOCK.into()]);
        let position = start + &within.index[0];
        let inserted = self.inserted(line, &position, kept, order, (best, cursors));
        let inserted = self.looped(&within, inserted);
        body.extend([compared, if_then(vec![condition], inserted)]);
        self.looped(&block, body)
    }

    /// Whether an element at a place, or some behind it, may be kept: most come after all that are,
    /// which one comparison tells; it need not tell of what is no number.
    fn may_enter(
        &mut self,
        line: &Line<'_>,
        element: &ScalarExpr,
        position: &Expr,
        kept: i64,
        order: Order,
        best: &Pair,
    ) -> (Stmt, loops::Condition) {
        let behind = if order.descending { ScalarFunction::Le } else { ScalarFunction::Ge };
        let worst = load(best.values, [&Expr::constant(kept - 1)]);
        let dtype = element.dtype(&self.kernel).unwrap_or(line.dtype);
        let worst = if line.dtype == dtype { worst } else { cast(dtype, worst) };
        let is_behind = self.two(behind, element, &worst);
        let may_enter = self.kernel.apply(ScalarFunction::Not, vec![is_behind]);
        let enters = self.kernel.add_value("enters", DType::I64, Some(Range::extent(2)));
        let compared = let_value(enters, cast(DType::I64, may_enter));
        // The first ones are always kept.
        let always_until = Expr::constant(kept) + &line.extent * Expr::symbol(enters);
        (compared, less(position, always_until))
    }

    /// Brings one element to its place among those that are kept so far, if it is to be.
    fn inserted(
        &mut self,
        line: &Line<'_>,
        position: &Expr,
        kept: i64,
        order: Order,
        (best, cursors): (&Pair, &Cursors),
    ) -> Vec<Stmt> {
        let (cursor, moves) = (cursors.gap, cursors.moves);
        let here = Vec::<Expr>::new;
        let zero = Reduction::Sum.identity(DType::I64);
        let element = self.element(line.operand, line.place(position));
        let element = self.share("x", element, line.dtype);
        let gap = |writer: &mut Writer<'_>| {
            let range = Some(Range::extent(kept + 1));
            let gap = writer.kernel.add_value("gap", DType::I64, range);
            (let_value(gap, load(cursor, here())), Expr::symbol(gap))
        };
        let (find, behind) = gap(self);
        let before = |gap: &Expr| (gap.clone() - 1).max(&Expr::ZERO);
        let is_before = self.comes_before(&element, &load(best.values, [before(&behind)]), order);
        let is_inside = self.two(ScalarFunction::Gt, &index(&behind), &constant(zero));
        let moves_on = store(moves, here(), self.two(ScalarFunction::And, &is_inside, &is_before));
        let (find_moved, moved) = gap(self);
        let shift = vec![
            find_moved,
            store(best.values, [&moved], load(best.values, [before(&moved)])),
            store(best.places, [&moved], load(best.places, [before(&moved)])),
            store(cursor, here(), index(before(&moved))),
        ];
        let (find_last, found) = gap(self);
        let insert = vec![
            store(cursor, here(), index(position.clone().min(&Expr::constant(kept)))),
            Stmt::While {
                setup: vec![find, moves_on],
                condition: load(moves, here()),
                body: shift,
            },
            find_last,
            store(best.values, [&found], element.clone()),
            store(best.places, [&found], index(position)),
        ];
        let (compared, condition) = self.may_enter(line, &element, position, kept, order, best);
        vec![compared, if_then(vec![condition], insert)]
    }

    /// Bottom-up merge sort of each row, stable: runs of doubling width are merged from one pair
    /// of buffers (values, indices) into the other.
    fn merged(&mut self, line: &Line<'_>, order: Order) -> (Pair, Vec<Stmt>) {
        let extent = &line.extent;
        let (mut from, mut to) = (self.pair(line.dtype, extent), self.pair(line.dtype, extent));
        let cursors = self.scratch("cursors", DType::I64, vec![2.into()]);

        let (along, place) = self.along(line, extent);
        let element = self.element(line.operand, place);
        let position = &along.index[0];
        let fill = vec![
            store(from.values, [position], element),
            store(from.places, [position], index(position)),
        ];
        let mut body = self.looped(&along, fill);
        // Each pass begins with both cursors; that they are set in any case tells that nothing of
        // another row is read.
        let start = |number: i64| store(cursors, [number], constant(Scalar::i64(0)));
        body.extend([start(0), start(1)]);
        match extent.as_constant() {
            Some(constant) => {
                let mut width = 1;
                while width < constant {
                    let pass = self.merge_pass(&from, &to, cursors, extent, &width.into(), order);
                    body.extend(pass);
                    std::mem::swap(&mut from, &mut to);
                    width *= 2;
                }
            }
            None => body.extend(self.merge_passes(&from, &to, cursors, extent, order)),
        }
        (from, body)
    }

    /// Statements inside loops, with the values they share.
    pub(super) fn looped(&mut self, axes: &Axes, statements: Vec<Stmt>) -> Vec<Stmt> {
        let mut body = self.with_lets(statements);
        for (variable, extent) in axes.loops.iter().rev() {
            let kind = loops::LoopKind::Serial;
            body = vec![loops::build::for_loop(*variable, extent, kind, body)];
        }
        body
    }

    /// All passes over rows of a free extent: the width of runs is kept while the kernel runs, and
    /// what a pass made is copied back.
    fn merge_passes(
        &mut self,
        from: &Pair,
        to: &Pair,
        cursors: BufferId,
        extent: &Expr,
        order: Order,
    ) -> Vec<Stmt> {
        let here = Vec::<Expr>::new;
        let kept = self.scratch("width", DType::I64, Vec::new());
        let width = self.kernel.add_value("width", DType::I64, Some(Range::new(1, 1 << 61)));
        let mut body = vec![let_value(width, load(kept, here()))];
        let width = Expr::symbol(width);
        body.extend(self.merge_pass(from, to, cursors, extent, &width, order));
        let along = self.axes("r", std::slice::from_ref(extent));
        let position = &along.index[0];
        let back = vec![
            store(from.values, [position], load(to.values, [position])),
            store(from.places, [position], load(to.places, [position])),
        ];
        body.extend(self.looped(&along, back));
        body.push(store(kept, here(), index(width * 2)));
        let condition = self.two(ScalarFunction::Lt, &load(kept, here()), &index(extent));
        let passes = Stmt::While { setup: Vec::new(), condition, body };
        vec![store(kept, here(), constant(Scalar::i64(1))), passes]
    }

    /// Merges neighbouring runs of `width` elements; `cursors` are the next elements of both.
    fn merge_pass(
        &mut self,
        from: &Pair,
        to: &Pair,
        cursors: BufferId,
        extent: &Expr,
        width: &Expr,
        order: Order,
    ) -> Vec<Stmt> {
        let along = self.axes("r", std::slice::from_ref(extent));
        let position = along.index[0].clone();
        let double = width.clone() * 2;
        let start = position.floor_div(&double) * &double;
        let limit = |expr: Expr| expr.min(extent);
        let middle = limit(start.clone() + width);
        let end = limit(start.clone() + &double);
        let begin = if_then(
            vec![equal(position.modulo(&double), 0)],
            vec![store(cursors, [0], index(&start)), store(cursors, [1], index(&middle))],
        );
        let cursor = |number: i64| load(cursors, [number]);
        let last = number(extent.clone() - 1);
        let clamp =
            |writer: &Writer<'_>, value: ScalarExpr| writer.two(ScalarFunction::Min, &value, &last);
        let (left, right) = (clamp(self, cursor(0)), clamp(self, cursor(1)));
        let (left, right) = (self.checked_index(left, extent), self.checked_index(right, extent));
        let (a, b) = (load(from.values, [&left]), load(from.values, [&right]));
        let left_over = self.two(ScalarFunction::Ge, &cursor(0), &index(&middle));
        let right_over = self.two(ScalarFunction::Ge, &cursor(1), &index(&end));
        let right_first = self.comes_before(&b, &a, order);
        // The right element is taken if the left run is used up, or if it comes first.
        let take_right = self.or_and_not(&left_over, &right_first, &right_over);
        let take_right = self.share("right", take_right, DType::Bool);
        let value = self.select(&take_right, b, a);
        let places = (load(from.places, [&left]), load(from.places, [&right]));
        let place = self.select(&take_right, places.1, places.0);
        let step = |writer: &Writer<'_>, yes: i64, no: i64| {
            let scalar = |value| constant(Scalar::i64(value));
            writer.select(&take_right, scalar(yes), scalar(no))
        };
        let statements = vec![
            store(to.values, [&position], value),
            store(to.places, [&position], place),
            reduce(cursors, [0], Reduction::Sum, step(self, 0, 1)),
            reduce(cursors, [1], Reduction::Sum, step(self, 1, 0)),
        ];
        let mut body = vec![begin];
        body.extend(self.with_lets(statements));
        let mut axes = vec![];
        for (variable, extent) in along.loops.iter().rev() {
            axes.push(loops::build::for_loop(
                *variable,
                extent,
                loops::LoopKind::Serial,
                std::mem::take(&mut body),
            ));
        }
        axes
    }

    fn comes_before(&self, a: &ScalarExpr, b: &ScalarExpr, order: Order) -> ScalarExpr {
        let (a_nan, b_nan) = (self.is_nan(a, order.is_float), self.is_nan(b, order.is_float));
        match order.descending {
            false => self.or_and_not(&self.two(ScalarFunction::Lt, a, b), &b_nan, &a_nan),
            true => self.or_and_not(&self.two(ScalarFunction::Gt, a, b), &a_nan, &b_nan),
        }
    }

    /// Copies the data, unless it lies where the result does; then combines each update into its
    /// place, in order.
    pub(crate) fn scatter(
        &mut self,
        node: NodeId,
        axes: &[usize],
        batch: usize,
        position: usize,
        reduction: Option<Reduction>,
    ) {
        let data = &self.function.nodes[node];
        let (source, updates, result) = (data.operands[0], data.operands[1], data.results[0]);
        let in_place = self.grouping.in_place.contains(&node);
        if !in_place {
            let all = self.axes("a", extents(self.function, source));
            let element = self.element(source, all.index.clone());
            let (buffer, place) = self.written(result, &all.index);
            self.nest(&all.loops, vec![store(buffer, place, element)]);
            self.opaque(buffer, &all, &Axes::default());
        }

        let shape = extents(self.function, updates);
        let (rows, along) = shape.split_at(batch);
        let (rows, along) = (self.axes("a", rows), self.axes("r", along));
        let at = [&rows.index[..], &along.index].concat();
        let place = self.indexed_place(source, &data.operands[2..], axes, batch, position, &at);
        let element = self.element(updates, at);
        let access = if in_place { Access::Update } else { Access::Write };
        let written = self.place(result, &place, access);
        let (buffer, place) = written.expect("a result of statements has memory");
        let statement = match reduction {
            None => store(buffer, place, element),
            Some(reduction) => reduce(buffer, place, reduction, element),
        };
        self.nest(&rows.around(&along.loops), vec![statement]);
        self.opaque(buffer, &rows, &along);
    }

    /// Every element's index is written at the count so far, which only true elements advance;
    /// what is left behind the last is cleared at the end.
    pub(crate) fn non_zero(&mut self, node: NodeId) {
        let data = &self.function.nodes[node];
        let (operand, results) = (data.operands[0], data.results.clone());
        let shape = extents(self.function, operand);
        let bound = &extents(self.function, results[0])[0];
        let found = self.scratch("found", DType::I64, Vec::new());
        let here = Vec::<Expr>::new;
        let mut body = vec![store(found, here(), constant(Scalar::i64(0)))];

        if bound.is_zero() {
            body.push(self.counted(results[1], found));
            self.nest(&[], body);
            return self.opaque(found, &Axes::default(), &Axes::default());
        }
        let all = self.axes("r", shape);
        let last = number(bound.clone() - 1);
        let row = self.two(ScalarFunction::Min, &load(found, here()), &last);
        let row = self.checked_index(row, bound);
        let element = self.element(operand, all.index.clone());
        let one = loops::build::cast(DType::I64, element);
        let mut statements = Vec::new();
        for (axis, expr) in all.index.iter().enumerate() {
            let (buffer, place) = self.written(results[0], &[row.clone(), axis.into()]);
            statements.push(store(buffer, place, index(expr)));
        }
        statements.push(reduce(found, here(), Reduction::Sum, one));
        body.extend(self.looped(&all, statements));

        let rest = self.axes("r", &[bound.clone(), shape.len().into()]);
        let count = self.checked_index(load(found, here()), &(bound.clone() + 1));
        let (buffer, place) = self.written(results[0], &rest.index);
        let shown = load(buffer, place.clone());
        let zero = constant(Scalar::i64(0));
        let kept = guard(vec![less(&rest.index[0], count)], shown, zero);
        body.extend(self.looped(&rest, vec![store(buffer, place, kept)]));
        body.push(self.counted(results[1], found));
        self.nest(&[], body);
        self.opaque(found, &Axes::default(), &Axes::default());
    }

    /// Stores a count in its parameter.
    fn counted(&mut self, result: ValueId, found: BufferId) -> Stmt {
        let (count, place) = self.written(result, &[]);
        store(count, place, load(found, Vec::<Expr>::new()))
    }
}

/// An i64 that is known, at the latest when the kernel runs.
fn number(expr: Expr) -> ScalarExpr {
    expr.as_constant().map_or_else(|| index(&expr), |value| constant(Scalar::i64(value)))
}

/// Whether so few elements of an axis are wanted that to insert each element among those so far
/// takes no longer than to merge, whatever their order: an element moves past all that are kept in
/// the worst case, and is merged once for each doubling of the width; to merge an element takes
/// about four times as long as to move it.
fn is_few(kept: i64, extent: &Expr) -> bool {
    const MOVES_A_MERGE: i64 = 4;
    /// The extent that one is taken for which is not known.
    const USUAL: i64 = 256;
    let extent = extent.as_constant().unwrap_or(USUAL).max(2);
    let merges = i64::from((extent - 1).ilog2()) + 1;
    kept <= MOVES_A_MERGE * merges
}

/// A row to be sorted, as loops meet it.
pub(super) struct Line<'a> {
    pub(super) operand: ValueId,
    axis: usize,
    pub(super) rows: &'a Axes,
    pub(super) extent: Expr,
    pub(super) dtype: DType,
}

impl Line<'_> {
    /// What elements are compared in: short floats in what they are computed in.
    pub(super) fn compared_in(&self) -> DType {
        match self.dtype.is_float() && self.dtype.bits() < 32 {
            true => DType::F32,
            false => self.dtype,
        }
    }

    /// The place of an element of the row.
    fn place(&self, position: &Expr) -> Vec<Expr> {
        let mut place = self.rows.index.clone();
        place.insert(self.axis, position.clone());
        place
    }
}

/// What is kept while an element is brought to its place.
struct Cursors {
    /// The place that is free so far.
    gap: BufferId,
    /// Whether the element moves further.
    moves: BufferId,
}

/// Values of a row and where they came from.
pub(super) struct Pair {
    pub(super) values: BufferId,
    pub(super) places: BufferId,
}

fn without(shape: &[Expr], axis: usize) -> Vec<Expr> {
    let mut others = shape.to_vec();
    others.remove(axis);
    others
}
