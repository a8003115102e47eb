//! What a plan does, action by action: what is written down of it where nothing interprets, as C or
//! as machine code.
//!
//! A value has a place of its own: where its elements lie, how many bytes they take, its extents. A
//! list is a vector of such values: a sequence, or an optional value, which holds one or none. What
//! it holds is not copied, and nothing changes a list that is there.
//!
//! Memory is divided from both ends while a plan runs: values are made from below, the rows that
//! loops stack from above. What a turn of a loop makes is given back at its end, but for what the
//! loop carries and what that holds, which moves down to where the turn began. Symbols are
//! variables, checked as soon as they have values.

use std::collections::{BTreeMap, BTreeSet};

use base::codes::{INTERNAL_ERROR, UNBOUND_DIMENSION, UNSUPPORTED_TYPE};
use base::{Diagnostic, Diagnostics, FunctionId};
use sym::{Expr, Range, SymbolId};
use tensor::DType;

use crate::{
    Assumption, ElementType, Function, ListOperation, NodeId, Op, RegionId, Type, ValueId,
};

/// A plan as actions.
#[derive(Clone, Debug)]
pub struct PlanActions<'a> {
    /// The free extents of inputs, which callers tell.
    pub free: Vec<SymbolId>,
    /// For each input and axis, the number of the free extent that it is.
    pub inputs: Vec<Vec<Option<usize>>>,
    /// The most axes of a value, or of a tensor in one; at least one.
    pub axes: usize,
    /// Done from the first on, where the symbols of `free` are set.
    pub actions: Vec<PlanAction<'a>>,
}

/// Something that a plan does.
#[derive(Clone, Debug)]
pub enum PlanAction<'a> {
    /// Takes the elements of an input, whose extents are set.
    Input(usize, ValueId),
    /// Takes an input that is a list of tensors of this type and so many axes: what the caller
    /// tells of it is checked, and copied but for the elements.
    InputList(usize, ValueId, DType, usize),
    /// Leaves the plan with a fault where this holds: a size is out of range.
    Refuse(PlanCondition<'a>),
    /// Sets a symbol.
    Set(SymbolId, PlanNumber),
    /// Sets the extents of a tensor as its type says.
    Shape(ValueId),
    /// Makes memory for the elements of a tensor whose extents are set.
    Make(ValueId),
    /// Puts a value where another is.
    Assign(PlanPlace, PlanPlace),
    /// Runs the program of a segment, whose results have memory.
    Call {
        /// Which: one of those whose checks [`PlanActions::of`] was given.
        segment: FunctionId,
        /// What the node is given: values, then constants.
        operands: &'a [ValueId],
        /// What it makes.
        results: &'a [ValueId],
    },
    /// Does the first where a truth value holds, else the second.
    If(ValueId, Vec<PlanAction<'a>>, Vec<PlanAction<'a>>),
    /// Does something again and again.
    Loop(PlanLoop<'a>),
    /// Leaves the innermost loop where it has turned as often as it is said to.
    LeaveAtEnd,
    /// Leaves the innermost loop unless a truth value holds; what computed it gives its memory
    /// back.
    LeaveUnless(ValueId),
    /// Counts a turn of a loop that data may end.
    CountTurn,
    /// Stores the number of the turn, from 0, in a scalar that has memory.
    StoreTurn(ValueId),
    /// Has the second be the row of the first that is the turn's.
    Row(ValueId, ValueId),
    /// Keeps a row of the stack of this number; all rows of one have the same shape.
    Push(usize, ValueId),
    /// Puts the rows of the stack of this number together, behind the last turn.
    Stack(usize, ValueId),
    /// Does something with lists.
    List(ListOperation, &'a [ValueId], ValueId),
}

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanPlace {
    /// Its own place.
    Value(ValueId),
    /// What the innermost loop carries, by its number.
    Carried(usize),
    /// The caller's, by the number of the output.
    Output(usize),
}

/// A number that a plan meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanNumber {
    /// An extent of a value.
    Extent(ValueId, usize),
    /// The element of a scalar of type i64.
    Element(ValueId),
    /// How often the innermost loop has turned.
    Turns,
}

/// What must not be.
#[derive(Clone, Debug)]
pub enum PlanCondition<'a> {
    /// A symbol's value is not within its range.
    OutOfRange(SymbolId, Range),
    /// What is assumed does not hold.
    Broken(&'a Assumption),
    /// The first is greater than the second.
    Above(&'a Expr, &'a Expr),
    /// A value has not so many axes.
    OtherRank(ValueId, usize),
    /// An extent of a value is another.
    OtherExtent(ValueId, usize, &'a Expr),
}

/// A loop of a plan. What it carries is an array, which every turn reads and sets.
#[derive(Clone, Debug)]
pub struct PlanLoop<'a> {
    /// How many values it carries.
    pub carried: usize,
    /// How many stacks it makes.
    pub stacks: usize,
    /// How often it turns, where that is said before it begins.
    pub trips: Option<&'a Expr>,
    /// Whether it takes and stacks rows from the last to the first.
    pub reverse: bool,
    /// Done before the first turn.
    pub start: Vec<PlanAction<'a>>,
    /// A turn, behind which what it carries is kept and its other memory given back.
    pub turn: Vec<PlanAction<'a>>,
    /// Done behind the last turn.
    pub end: Vec<PlanAction<'a>>,
}

impl<'a> PlanActions<'a> {
    /// What a plan does, whose first parameters are so many inputs of its callers, the others
    /// constants. `checks` are, for each segment that it calls, what must hold when that begins:
    /// the first is at most the second.
    ///
    /// # Errors
    /// `TW0205` for a symbol of inputs' shapes that no extent is by itself; `TW0104` for loops over
    /// rows of elements that share bytes, and for what is no number; internal errors where the plan
    /// is not what its verifier accepts.
    pub fn of(
        function: &'a Function,
        inputs: usize,
        checks: &BTreeMap<FunctionId, &'a [(Expr, Expr)]>,
    ) -> base::Result<PlanActions<'a>> {
        let (free, extents) = free_extents(function, inputs)?;
        let (known, actions) = (BTreeSet::new(), Vec::new());
        let mut writer = PlanWriter { function, checks, known, actions };
        writer.check_symbols(&free);
        writer.inputs(inputs)?;
        writer.nodes(function.body)?;
        for (number, &value) in function.results().iter().enumerate() {
            writer.assign(PlanPlace::Output(number), PlanPlace::Value(value));
        }
        let axes = function.values.values().map(|value| most_axes(&value.ty));
        let axes = axes.max().unwrap_or(0).max(1);
        Ok(PlanActions { free, inputs: extents, axes, actions: writer.actions })
    }
}

/// For each axis of an input, the number of the free extent that it is.
type AxisNumbers = Vec<Option<usize>>;

/// The free extents of the inputs, and which of them each extent is.
fn free_extents(
    function: &Function,
    inputs: usize,
) -> base::Result<(Vec<SymbolId>, Vec<AxisNumbers>)> {
    let (mut free, mut found) = (Vec::new(), Diagnostics::new());
    let mut extents = Vec::new();
    let parameters = function.parameters().iter().zip(&function.parameter_names);
    for (&value, port) in parameters.take(inputs) {
        let mut number_of = |extent: &Expr| match (extent.as_symbol(), extent.as_constant()) {
            (Some(symbol), _) => {
                let known = free.iter().position(|&free| free == symbol);
                Some(known.unwrap_or_else(|| {
                    free.push(symbol);
                    free.len() - 1
                }))
            }
            (None, Some(_)) => None,
            (None, None) => {
                let text = extent.display(&|symbol| function.symbol_name(symbol)).to_string();
                found.push(
                    Diagnostic::error(
                        UNBOUND_DIMENSION,
                        format!("the extent {text} is no argument of its own"),
                    )
                    .at(format!("input `{port}`"))
                    .because("free extents of compiled code are the named ones of inputs")
                    .remedy("give the input, or name the dimension otherwise"),
                );
                None
            }
        };
        extents.push(function.ty(value).exprs().iter().map(&mut number_of).collect());
    }
    found.or_ok((free, extents))
}

/// What a list holds in the end, which is no list.
fn held_in(element: &ElementType) -> &ElementType {
    match element {
        ElementType::Sequence(held) | ElementType::Optional(held) => held_in(held),
        ElementType::Any | ElementType::Tensor { .. } => element,
    }
}

/// The axes that a value takes room for: its own, or those of the tensors in it.
fn most_axes(ty: &Type) -> usize {
    match held_in(&ElementType::of(ty)) {
        ElementType::Tensor { rank, .. } => rank.unwrap_or(0),
        _ => 0,
    }
}

struct PlanWriter<'a, 'b> {
    function: &'a Function,
    checks: &'b BTreeMap<FunctionId, &'a [(Expr, Expr)]>,
    /// The symbols that have values at the place at hand.
    known: BTreeSet<SymbolId>,
    /// Those of the innermost block.
    actions: Vec<PlanAction<'a>>,
}

impl<'a> PlanWriter<'a, '_> {
    fn push(&mut self, action: PlanAction<'a>) {
        self.actions.push(action);
    }

    fn assign(&mut self, to: PlanPlace, from: PlanPlace) {
        self.push(PlanAction::Assign(to, from));
    }

    /// Puts values where others are.
    fn assign_all(&mut self, to: &[ValueId], from: &[ValueId]) {
        for (&to, &from) in to.iter().zip(from) {
            self.assign(PlanPlace::Value(to), PlanPlace::Value(from));
        }
    }

    /// The actions that something writes.
    fn inside(
        &mut self,
        write: impl FnOnce(&mut Self) -> base::Result<()>,
    ) -> base::Result<Vec<PlanAction<'a>>> {
        let outer = std::mem::take(&mut self.actions);
        let written = write(self);
        let inner = std::mem::replace(&mut self.actions, outer);
        written.map(|()| inner)
    }

    // --- symbols ---

    /// Checks symbols that have got values, then what is assumed of them.
    fn check_symbols(&mut self, symbols: &[SymbolId]) {
        let function = self.function;
        for &symbol in symbols {
            let range = function.symbols[symbol].range;
            if (range.min, range.max) != (i64::MIN, i64::MAX) {
                self.push(PlanAction::Refuse(PlanCondition::OutOfRange(symbol, range)));
            }
        }
        self.known.extend(symbols);
        for assumption in &function.assumptions {
            let used: Vec<SymbolId> =
                assumption.exprs().into_iter().flat_map(Expr::symbols).collect();
            let is_new = used.iter().any(|symbol| symbols.contains(symbol));
            if is_new && used.iter().all(|symbol| self.known.contains(symbol)) {
                self.push(PlanAction::Refuse(PlanCondition::Broken(assumption)));
            }
        }
    }

    /// Sets the symbols that a node defines as extents of these values.
    fn bind_extents(&mut self, node: NodeId, values: &[ValueId]) {
        let function = self.function;
        let defined = function.symbols_defined_by(node);
        let mut bound = Vec::new();
        for &value in values {
            for (axis, extent) in function.ty(value).exprs().iter().enumerate() {
                if let Some(symbol) = extent.as_symbol().filter(|it| defined.contains(it)) {
                    self.push(PlanAction::Set(symbol, PlanNumber::Extent(value, axis)));
                    bound.push(symbol);
                }
            }
        }
        self.check_symbols(&bound);
    }

    // --- values ---

    /// Refuses what has no memory of its own: all but tensors of numbers.
    fn expect_numbers(&self, value: ValueId) -> base::Result<()> {
        match self.function.ty(value) {
            Type::Tensor(ty) if ty.dtype != DType::String => Ok(()),
            _ => Err(Diagnostic::error(UNSUPPORTED_TYPE, format!("{value} is no numeric tensor"))
                .at("the plan of the model")
                .because("what is computed from strings and pictures is no code that runs alone")
                .remedy("export the model without such values, or run it in process")
                .into()),
        }
    }

    /// Sets the extents of a tensor as its type says.
    fn shape(&mut self, value: ValueId) -> base::Result<()> {
        self.expect_numbers(value)?;
        self.push(PlanAction::Shape(value));
        Ok(())
    }

    fn inputs(&mut self, count: usize) -> base::Result<()> {
        let function = self.function;
        let parameters = function.parameters().iter().zip(&function.parameter_names);
        for (number, (&value, port)) in parameters.take(count).enumerate() {
            if function.ty(value).as_tensor().is_some() {
                self.shape(value)?;
                self.push(PlanAction::Input(number, value));
                continue;
            }
            let element = ElementType::of(function.ty(value));
            let &ElementType::Tensor { dtype, rank: Some(rank) } = held_in(&element) else {
                let message = format!("input `{port}` holds tensors of any rank");
                return Err(Diagnostic::error(UNSUPPORTED_TYPE, message)
                    .at("the model's inputs")
                    .because("a tensor of compiled code has a known number of axes")
                    .remedy("export the model with the shapes of what the input holds")
                    .into());
            };
            self.push(PlanAction::InputList(number, value, dtype, rank));
        }
        Ok(())
    }

    // --- nodes ---

    fn nodes(&mut self, region: RegionId) -> base::Result<()> {
        let function = self.function;
        function.regions[region].nodes.iter().try_for_each(|&node| self.node(node))
    }

    fn node(&mut self, id: NodeId) -> base::Result<()> {
        let function = self.function;
        let node = &function.nodes[id];
        match &node.op {
            Op::Call { function: called, .. } => self.call(*called, id),
            Op::Bind { symbol, .. } => {
                self.assign_all(&node.results, &node.operands);
                let element = PlanNumber::Element(node.operands[0]);
                self.push(PlanAction::Set(*symbol, element));
                self.check_symbols(&[*symbol]);
                Ok(())
            }
            Op::If { .. } => self.branch(id),
            Op::While { .. } | Op::Scan { .. } => self.looped(id),
            Op::List { operation, .. } => {
                let result = node.results[0];
                self.push(PlanAction::List(*operation, &node.operands, result));
                let takes = matches!(
                    operation,
                    ListOperation::At | ListOperation::Element | ListOperation::Concat { .. }
                );
                if takes {
                    self.taken(id, result);
                }
                Ok(())
            }
            op => {
                let message = format!("`{}` stands in a plan", op.name());
                Err(Diagnostic::error(INTERNAL_ERROR, message).at("the plan of the model").into())
            }
        }
    }

    fn call(&mut self, segment: FunctionId, id: NodeId) -> base::Result<()> {
        let node = &self.function.nodes[id];
        let checks: &'a [(Expr, Expr)] = self.checks.get(&segment).copied().ok_or_else(|| {
            Diagnostics::internal(format!("the plan calls {segment}, which is missing"))
        })?;
        for (least, most) in checks {
            self.push(PlanAction::Refuse(PlanCondition::Above(least, most)));
        }
        for &result in &node.results {
            self.shape(result)?;
            self.push(PlanAction::Make(result));
        }
        let (operands, results) = (&node.operands[..], &node.results[..]);
        self.push(PlanAction::Call { segment, operands, results });
        Ok(())
    }

    fn branch(&mut self, id: NodeId) -> base::Result<()> {
        let function = self.function;
        let node = &function.nodes[id];
        let before = self.known.clone();
        let mut branches = Vec::new();
        for &region in &node.regions {
            branches.push(self.inside(|plan| {
                plan.nodes(region)?;
                plan.assign_all(&node.results, &function.regions[region].results);
                Ok(())
            })?);
            self.known.clone_from(&before);
        }
        let mut branches = branches.into_iter();
        let mut next = || branches.next().unwrap_or_default();
        self.push(PlanAction::If(node.operands[0], next(), next()));
        self.bind_extents(id, &node.results);
        Ok(())
    }

    /// The extents of a tensor that was taken out of a list: symbols that the node defines, and
    /// what the type says of the others.
    fn taken(&mut self, id: NodeId, value: ValueId) {
        let function = self.function;
        let Some(ty) = function.ty(value).as_tensor() else { return };
        self.push(PlanAction::Refuse(PlanCondition::OtherRank(value, ty.shape.len())));
        self.bind_extents(id, &[value]);
        let defined = function.symbols_defined_by(id);
        for (axis, extent) in ty.shape.iter().enumerate() {
            let is_once = ty.shape.iter().filter(|&other| other == extent).count() == 1;
            if is_once && extent.as_symbol().is_some_and(|symbol| defined.contains(&symbol)) {
                continue;
            }
            self.push(PlanAction::Refuse(PlanCondition::OtherExtent(value, axis, extent)));
        }
    }

    // --- loops ---

    fn looped(&mut self, id: NodeId) -> base::Result<()> {
        let function = self.function;
        let node = &function.nodes[id];
        let (carried, trips, reverse) = match &node.op {
            Op::Scan { trip_count, carried, reverse } => (*carried, Some(trip_count), *reverse),
            _ => (node.operands.len(), None, false),
        };
        let stacks = &node.results[carried..];
        self.refuse_shared_bytes(id, carried)?;
        let before = self.known.clone();
        let start = self.inside(|plan| {
            for (number, &operand) in node.operands.iter().take(carried).enumerate() {
                plan.assign(PlanPlace::Carried(number), PlanPlace::Value(operand));
            }
            Ok(())
        })?;
        let turn = self.inside(|plan| plan.turn(id, carried))?;
        self.known = before;
        let end = self.inside(|plan| {
            plan.take_carried(&node.results[..carried]);
            if let Op::While { turns: Some(symbol) } = node.op {
                plan.push(PlanAction::Set(symbol, PlanNumber::Turns));
                plan.check_symbols(&[symbol]);
            }
            plan.bind_extents(id, &node.results[..carried]);
            for (number, &value) in stacks.iter().enumerate() {
                plan.expect_numbers(value)?;
                plan.push(PlanAction::Stack(number, value));
            }
            Ok(())
        })?;
        let stacks = stacks.len();
        let looped = PlanLoop { carried, stacks, trips, reverse, start, turn, end };
        self.push(PlanAction::Loop(looped));
        self.known.extend(function.symbols_known_behind(id));
        Ok(())
    }

    /// Rows are cut at bytes.
    fn refuse_shared_bytes(&self, id: NodeId, carried: usize) -> base::Result<()> {
        let function = self.function;
        let node = &function.nodes[id];
        let dtype = |value: &ValueId| function.ty(*value).as_tensor().map(|ty| ty.dtype);
        let rows = node.results[carried..].iter().chain(node.operands.iter().skip(carried));
        let shares = rows.filter_map(dtype).find(|dtype| dtype.bits() < 8);
        let refusal = |dtype: DType| {
            Diagnostic::error(UNSUPPORTED_TYPE, format!("a loop has rows of {dtype}"))
                .at(function.locations.describe(node.location))
                .because("elements that share bytes cannot be cut into rows in compiled code")
                .remedy("run the model in process, or widen the elements before the loop")
        };
        shares.map_or(Ok(()), |dtype| Err(refusal(dtype).into()))
    }

    fn turn(&mut self, id: NodeId, carried: usize) -> base::Result<()> {
        let function = self.function;
        let node = &function.nodes[id];
        let is_scan = matches!(node.op, Op::Scan { .. });
        let (first, body) = if is_scan { (1, node.regions[0]) } else { (0, node.regions[1]) };
        let parameters = &function.regions[body].parameters;
        match is_scan {
            true => self.push(PlanAction::LeaveAtEnd),
            false => self.condition(id)?,
        }
        self.push(PlanAction::CountTurn);
        self.take_carried(&parameters[first..first + carried]);
        if is_scan {
            self.push(PlanAction::Make(parameters[0]));
            self.push(PlanAction::StoreTurn(parameters[0]));
            let rows = node.operands[carried..].iter().zip(&parameters[1 + carried..]);
            rows.for_each(|(&operand, &row)| self.push(PlanAction::Row(operand, row)));
        }
        self.bind_extents(id, parameters);
        self.nodes(body)?;
        let results = &function.regions[body].results;
        for (number, &row) in results.iter().skip(carried).enumerate() {
            self.push(PlanAction::Push(number, row));
        }
        for (number, &value) in results.iter().take(carried).enumerate() {
            self.assign(PlanPlace::Carried(number), PlanPlace::Value(value));
        }
        Ok(())
    }

    /// Has values be what the innermost loop carries.
    fn take_carried(&mut self, values: &[ValueId]) {
        for (number, &value) in values.iter().enumerate() {
            self.assign(PlanPlace::Value(value), PlanPlace::Carried(number));
        }
    }

    /// Leaves the loop unless the condition holds.
    fn condition(&mut self, id: NodeId) -> base::Result<()> {
        let function = self.function;
        let region = function.nodes[id].regions[0];
        let parameters = &function.regions[region].parameters;
        self.take_carried(parameters);
        self.bind_extents(id, parameters);
        self.nodes(region)?;
        self.push(PlanAction::LeaveUnless(function.regions[region].results[0]));
        Ok(())
    }
}
