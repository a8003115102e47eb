//! The meaning of graph functions.
//!
//! Values are host tensors, computed node by node and dropped after their last use. Each node's
//! results are checked against their declared types with the symbols' values put in, so an
//! ill-behaved function stops where it goes wrong.
//!
//! Sums are formed in the order of the iteration space, one after the other from the identity; the
//! products of a contraction in f32 and f64 are added by fused multiply-add.
//!
//! Relies on the verifier: a function that does not verify may panic here.

mod axes;
mod lists;
mod movement;
mod rounding;
mod run;
mod space;

use std::sync::Arc;

use base::{Arena, ConstantId, FunctionId, SecondaryMap, codes};
use graph::{Assumption, Function, Node, NodeId, Op, Type, ValueId};
use sym::{Expr, SymbolId};
use tensor::{DType, Given, Tensor, Value};

use crate::{EvaluationFault, EvaluationPrecision, Settings};
use lists::Held;
pub use rounding::rounding_bounds;
use run::Run;

/// The value of each symbol bound so far.
pub type SymbolValues = SecondaryMap<SymbolId, Option<i64>>;

/// Computes a function's results. Constants are asked for as they are met.
///
/// # Errors
/// A fault when the inputs do not fit the parameters or each other, when the function meets a
/// run-time fault, when its loops turn too often, or when it does what is not known here (calls a
/// function).
pub fn evaluate(
    function: &Function,
    constants: &dyn Fn(ConstantId) -> Tensor,
    inputs: &[Tensor],
    settings: impl Into<Settings>,
) -> Result<Vec<Tensor>, EvaluationFault> {
    tensors(evaluate_observed(function, constants, inputs, settings, &mut |_, _| {})?)
}

/// The tensors among results, all of which are some.
fn tensors(values: Vec<Value>) -> Result<Vec<Tensor>, EvaluationFault> {
    let list = || EvaluationFault::new(codes::UNSUPPORTED_TYPE, "a result is a list");
    values.into_iter().map(|value| value.as_tensor().cloned().ok_or_else(list)).collect()
}

/// As [`evaluate`], of a function that calls others.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_with(
    function: &Function,
    called: &Arena<FunctionId, Arc<Function>>,
    constants: &dyn Fn(ConstantId) -> Tensor,
    inputs: &[Tensor],
    settings: impl Into<Settings>,
) -> Result<Vec<Tensor>, EvaluationFault> {
    let symbols = bind_symbols(function, inputs)?;
    let settings = settings.into();
    let mut segments = Evaluated { called, constants, settings, turns: 0 };
    tensors(run_plan(function, symbols, inputs, &mut segments)?)
}

/// What computes the functions that a plan calls.
pub trait Segments {
    /// The results of a function, of these operands; the symbols are those of the plan.
    ///
    /// # Errors
    /// What the function meets.
    fn call(
        &mut self,
        function: FunctionId,
        symbols: &SymbolValues,
        operands: &[Tensor],
    ) -> Result<Vec<Tensor>, EvaluationFault>;

    /// Hears of each turn of a loop, and how many bytes the loop keeps by now: what it carries, and
    /// the rows of its stacks.
    ///
    /// # Errors
    /// When that is too much.
    fn turn(&mut self, kept_bytes: u64) -> Result<(), EvaluationFault>;

    /// Hears that a list is copied, and how many values it holds.
    ///
    /// # Errors
    /// When that is too much.
    fn copied(&mut self, values: u64) -> Result<(), EvaluationFault>;

    /// Hears how many bytes a host function is about to make.
    ///
    /// # Errors
    /// When that is too much.
    fn room(&mut self, bytes: u64) -> Result<(), EvaluationFault>;
}

/// Runs a function in plan form: what it calls is computed by `segments`, all else here. `inputs`
/// are the values of its first parameters, from whose extents the symbols' first values follow; the
/// others are constants, which `segments` knows.
///
/// # Errors
/// As [`evaluate`], and those of the segments.
pub fn run_plan<G: Given>(
    plan: &Function,
    symbols: SymbolValues,
    inputs: &[G],
    segments: &mut dyn Segments,
) -> Result<Vec<Value>, EvaluationFault> {
    let no_constants = |_: ConstantId| Tensor::zeros(DType::Bool, &[0]);
    let observe = &mut |_: ValueId, _: &Tensor| {};
    // The segments count turns.
    let settings = Settings { precision: EvaluationPrecision::Declared, most_turns: u64::MAX };
    let mut run = Run::new(plan, Some(segments), &no_constants, settings, symbols, observe);
    let mut values: Vec<Held> = inputs.iter().map(|it| run.held(it.clone().into())).collect();
    values.resize(plan.parameters().len(), Held::Tensor(Tensor::zeros(DType::Bool, &[0])));
    Ok(run.region(plan.body, values)?.into_iter().map(Held::into_value).collect())
}

/// Segments that are evaluated themselves.
struct Evaluated<'a> {
    called: &'a Arena<FunctionId, Arc<Function>>,
    constants: &'a dyn Fn(ConstantId) -> Tensor,
    settings: Settings,
    turns: u64,
}

impl Segments for Evaluated<'_> {
    fn call(
        &mut self,
        function: FunctionId,
        symbols: &SymbolValues,
        operands: &[Tensor],
    ) -> Result<Vec<Tensor>, EvaluationFault> {
        let missing =
            || EvaluationFault::new(codes::VERIFIER_FAILED, format!("no function {function}"));
        let called = self.called.get(function).ok_or_else(missing)?;
        let observe = &mut |_: ValueId, _: &Tensor| {};
        let (constants, settings, symbols) = (self.constants, self.settings, symbols.clone());
        let mut run = Run::new(called, None, constants, settings, symbols, observe);
        let operands = operands.iter().map(|operand| run.held(operand.clone().into())).collect();
        run.region(called.body, operands)?.into_iter().map(Held::tensor).collect()
    }

    fn copied(&mut self, _: u64) -> Result<(), EvaluationFault> {
        Ok(())
    }

    fn room(&mut self, _: u64) -> Result<(), EvaluationFault> {
        Ok(())
    }

    fn turn(&mut self, _: u64) -> Result<(), EvaluationFault> {
        self.turns += 1;
        if self.turns <= self.settings.most_turns {
            return Ok(());
        }
        Err(EvaluationFault::too_many_turns(self.settings.most_turns))
    }
}

/// As [`evaluate`], of values of any kind; `observe` sees every value as soon as it is there,
/// parameters included, and in loops anew in each iteration; but no lists.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_observed<G: Given>(
    function: &Function,
    constants: &dyn Fn(ConstantId) -> Tensor,
    inputs: &[G],
    settings: impl Into<Settings>,
    observe: &mut dyn FnMut(ValueId, &Tensor),
) -> Result<Vec<Value>, EvaluationFault> {
    let symbols = bind_symbols(function, inputs)?;
    let mut run = Run::new(function, None, constants, settings.into(), symbols, observe);
    let inputs = inputs.iter().map(|input| run.held(input.clone().into())).collect();
    Ok(run.region(function.body, inputs)?.into_iter().map(Held::into_value).collect())
}

/// The symbols' values that follow from the inputs' shapes.
///
/// # Errors
/// A fault when number, types or shapes of the inputs do not fit the parameters, when two inputs
/// contradict each other, or when an assumption does not hold.
pub fn bind_symbols<G: Given>(
    function: &Function,
    inputs: &[G],
) -> Result<SymbolValues, EvaluationFault> {
    let (parameters, names) = (function.parameters(), &function.parameter_names);
    if inputs.len() != parameters.len() {
        let message = format!("{} inputs for {} parameters", inputs.len(), parameters.len());
        return Err(EvaluationFault::new(codes::MISSING_INPUT, message));
    }
    let mut symbols = SymbolValues::new();
    for ((&value, name), input) in parameters.iter().zip(names).zip(inputs) {
        bind_input(function, function.ty(value), input, &mut symbols)
            .map_err(|fault| fault.at(|| format!("input \"{name}\"")))?;
    }
    for ((&value, name), input) in parameters.iter().zip(names).zip(inputs) {
        let (Type::Tensor(ty), Some(input)) = (function.ty(value), input.as_tensor()) else {
            continue;
        };
        for (axis, (extent, &found)) in ty.shape.iter().zip(input.shape()).enumerate() {
            let expected = value_of(function, &symbols, extent)?;
            if expected != found as i64 {
                let message = format!("axis {axis} has extent {found}, not {expected}");
                let fault = EvaluationFault::new(codes::WRONG_SHAPE, message);
                return Err(fault.at(|| format!("input \"{name}\"")));
            }
        }
    }
    check_assumptions(function, &symbols)?;
    Ok(symbols)
}

/// Elements that the nodes of a function compute, and terms of their sums; each region counts once.
#[must_use]
pub fn operations<G: Given>(function: &Function, inputs: &[G]) -> u64 {
    // What does not bind is refused by the evaluation itself.
    let Ok(symbols) = bind_symbols(function, inputs) else { return 0 };
    let of_node = |node: &Node| count_operations(function, node, &symbols);
    function.nodes.values().map(of_node).fold(0, u64::saturating_add)
}

/// Elements that a node computes, and terms of its sums, where extents are constants; others count
/// as 1.
#[must_use]
pub fn node_operations(function: &Function, node: NodeId) -> u64 {
    count_operations(function, &function.nodes[node], &SymbolValues::new())
}

fn count_operations(function: &Function, node: &Node, symbols: &SymbolValues) -> u64 {
    let count = |extents: &[Expr]| {
        let known = extents.iter().filter_map(|extent| extent.evaluate(&|symbol| symbols[symbol]));
        known.fold(1, |count: u64, extent| count.saturating_mul(extent.max(0) as u64))
    };
    match &node.op {
        Op::Contract { space, .. } | Op::Reduce { space, .. } => count(&space.extents),
        _ => node.results.iter().fold(0, |sum: u64, &result| match function.ty(result) {
            Type::Tensor(ty) => sum.saturating_add(count(&ty.shape)),
            _ => sum,
        }),
    }
}

/// Checks the assumptions over symbols that have a value so far.
///
/// # Errors
/// A fault when one does not hold.
pub fn check_assumptions(
    function: &Function,
    symbols: &SymbolValues,
) -> Result<(), EvaluationFault> {
    let is_known = |expr: &&Expr| expr.symbols().iter().all(|&symbol| symbols[symbol].is_some());
    for assumption in &function.assumptions {
        if assumption.exprs().iter().all(is_known) {
            check_assumption(function, symbols, assumption)?;
        }
    }
    Ok(())
}

/// Checks type and rank of an input, and binds the symbols that alone are an extent. What lists
/// hold is checked where it is taken out.
fn bind_input(
    function: &Function,
    ty: &Type,
    input: &impl Given,
    symbols: &mut SymbolValues,
) -> Result<(), EvaluationFault> {
    let (ty, input) = match (ty, input.as_tensor()) {
        (Type::Tensor(ty), Some(input)) => (ty, input),
        (Type::Sequence(_) | Type::Optional(_), None) => return Ok(()),
        _ => return Err(EvaluationFault::new(codes::WRONG_DTYPE, "a list, or a tensor for one")),
    };
    if ty.dtype != input.dtype() {
        let message = format!("elements of type {}, not {}", input.dtype(), ty.dtype);
        return Err(EvaluationFault::new(codes::WRONG_DTYPE, message));
    }
    if ty.shape.len() != input.shape().len() {
        let message = format!("rank {}, not {}", input.shape().len(), ty.shape.len());
        return Err(EvaluationFault::new(codes::WRONG_SHAPE, message));
    }
    for (extent, &found) in ty.shape.iter().zip(input.shape()) {
        let Some(symbol) = extent.as_symbol() else { continue };
        let found = found as i64;
        let known = *symbols[symbol].get_or_insert(found);
        let (name, range) = (function.symbol_name(symbol), function.symbols[symbol].range);
        if known != found {
            let message = format!("`{name}` is {found} here, but {known} elsewhere");
            return Err(EvaluationFault::new(codes::WRONG_SHAPE, message));
        }
        if !range.contains(found) {
            let message = format!("`{name}` is {found}, which is not in {range}");
            return Err(EvaluationFault::new(codes::WRONG_SHAPE, message));
        }
    }
    Ok(())
}

fn check_assumption(
    function: &Function,
    symbols: &SymbolValues,
    assumption: &Assumption,
) -> Result<(), EvaluationFault> {
    let value = |expr: &Expr| value_of(function, symbols, expr);
    let holds = match assumption {
        Assumption::Equal(a, b) => value(a)? == value(b)?,
        Assumption::Broadcastable(a, b) => {
            let (a, b) = (value(a)?, value(b)?);
            a == b || a == 1 || b == 1
        }
        Assumption::Divisible(a, by) => *by != 0 && value(a)? % by == 0,
    };
    if holds {
        return Ok(());
    }
    let text = graph::assumption_text(assumption, &|symbol| function.symbol_name(symbol));
    Err(EvaluationFault::new(
        codes::WRONG_SHAPE,
        format!("the inputs' shapes break the assumption {text}"),
    ))
}

/// The value of an expression over a function's symbols.
fn value_of(
    function: &Function,
    symbols: &SymbolValues,
    expr: &Expr,
) -> Result<i64, EvaluationFault> {
    if let Some(value) = expr.as_constant() {
        return Ok(value);
    }
    expr.evaluate(&|symbol| symbols[symbol]).ok_or_else(|| {
        let names = |symbol| function.symbol_name(symbol);
        let message = format!("{} has no value", expr.display(&names));
        EvaluationFault::new(codes::UNBOUND_DIMENSION, message)
    })
}
