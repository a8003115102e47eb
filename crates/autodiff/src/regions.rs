//! Derivatives of control flow.
//!
//! A branch's derivative is a branch that computes the taken one again and goes back through it. A
//! counted loop runs again, to stack what it carries into each turn, and then backwards: what it
//! carries are the cotangents of what the loop carried, and the sums for what it reads from around
//! it. A loop with a condition is a counted loop of as many turns as the condition allows at most,
//! in each of which a branch goes on or stays: the condition must compare a count with a limit.

use graph::{Built, Function, FunctionBuilder, Node, Op, RegionId, TensorType, Type, ValueId};
use sym::Expr;
use tensor::{DType, ScalarFunction as F};

use crate::{Reverse, constant, inside, is_float};

/// The type of the number of a turn.
pub(crate) fn counter() -> Type {
    Type::Tensor(TensorType { dtype: DType::I64, shape: Vec::new().into() })
}

impl Reverse<'_> {
    /// The rule of a primitive with regions.
    pub(crate) fn regions(&mut self, node: &Node, cotangents: &[Option<ValueId>]) -> Built<()> {
        match &node.op {
            Op::If { .. } => self.branch(node, cotangents),
            Op::Scan { .. } => self.scan(node, cotangents),
            Op::While { .. } => self.repeat(node, cotangents),
            op => Err(format!("`{}` cannot be differentiated", op.name())),
        }
    }

    /// A loop with a condition, as a counted one.
    fn repeat(&mut self, node: &Node, cotangents: &[Option<ValueId>]) -> Built<()> {
        let Some(most) = MostTurns::of(self.builder.function(), node) else {
            return Err("`while` cannot be differentiated backwards: nothing bounds how often it \
                        runs; have its condition compare a count of its turns with a limit, too"
                .to_owned());
        };
        let [condition, step] = node.regions[..] else { return Err("two regions".to_owned()) };
        let mut types = vec![counter()];
        types.extend(self.builder.function().region_type(step).parameters);
        let carried = self.builder.begin_region(&types).split_off(1);
        let results = match most.is_exact {
            true => self.builder.copy_region(step, &carried)?,
            false => {
                let goes_on = self.builder.copy_region(condition, &carried)?[0];
                self.builder.begin_region(&[]);
                let next = self.builder.copy_region(step, &carried)?;
                let next = self.builder.end_region(&next);
                self.builder.begin_region(&[]);
                let same = self.builder.end_region(&carried);
                self.builder.branch(goes_on, &[next, same])?
            }
        };
        let body = self.builder.end_region(&results);
        let op = Op::Scan { trip_count: most.turns, carried: carried.len(), reverse: false };
        self.builder.add_with_regions(op, &node.operands, &[body])?;
        let nodes = self.builder.open_region_nodes();
        let counted = self.builder.function().nodes[nodes[nodes.len() - 1]].clone();
        self.scan(&counted, cotangents)
    }

    /// The active values that regions read from around them.
    fn outer(&self, node: &Node) -> Vec<ValueId> {
        let mut outer = self.builder.function().captures(&node.regions);
        outer.retain(|&value| self.is_active(value));
        outer
    }

    fn branch(&mut self, node: &Node, cotangents: &[Option<ValueId>]) -> Built<()> {
        let outer = self.outer(node);
        let mut pull = |region: RegionId| {
            self.builder.begin_region(&[]);
            let results = self.builder.copy_region(region, &[])?;
            let seeds: Vec<_> = results.iter().copied().zip(cotangents.iter().copied()).collect();
            let pulled = pull_back(self.builder, &seeds, &outer)?;
            Ok::<RegionId, String>(self.builder.end_region(&pulled))
        };
        let regions = [pull(node.regions[0])?, pull(node.regions[1])?];
        let pulled = self.builder.branch(node.operands[0], &regions)?;
        outer.iter().zip(pulled).try_for_each(|(&value, more)| self.add(value, more))
    }

    fn scan(&mut self, node: &Node, cotangents: &[Option<ValueId>]) -> Built<()> {
        let Op::Scan { trip_count, carried, reverse } = node.op.clone() else {
            return Err(format!("`{}` is no counted loop", node.op.name()));
        };
        let outer = self.outer(node);
        let body = node.regions[0];
        let function = self.builder.function();
        let types: Vec<Type> = function.region_type(body).parameters;
        let stacked: Vec<Type> = function.region_type(body).results.split_off(carried);
        // Forwards, keeping what each turn starts from.
        let parameters = self.builder.begin_region(&types);
        let mut results = self.builder.copy_region(body, &parameters)?;
        results.truncate(carried);
        results.extend(&parameters[1..=carried]);
        let region = self.builder.end_region(&results);
        let op = Op::Scan { trip_count: trip_count.clone(), carried, reverse };
        let kept = self.builder.add_with_regions(op, &node.operands, &[region])?;
        // Backwards.
        let floats: Vec<usize> = (0..node.operands.len())
            .filter(|&n| is_float(self.builder, node.operands[n]))
            .collect();
        let (states, slices): (Vec<usize>, Vec<usize>) =
            floats.into_iter().partition(|&number| number < carried);
        let mut operands = Vec::new();
        for &number in &states {
            operands.push(match cotangents[number] {
                Some(cotangent) => cotangent,
                None => constant(self.builder, node.results[number], 0.0)?,
            });
        }
        for &value in &outer {
            operands.push(constant(self.builder, value, 0.0)?);
        }
        let sums = operands.len();
        operands.extend(&kept[carried..]);
        operands.extend(&node.operands[carried..]);
        let seeded: Vec<usize> =
            (0..stacked.len()).filter(|&number| cotangents[carried + number].is_some()).collect();
        operands.extend(seeded.iter().filter_map(|&number| cotangents[carried + number]));
        let ty = |value: ValueId| self.builder.function().ty(value).clone();
        let mut own = vec![counter()];
        own.extend(operands[..sums].iter().map(|&value| ty(value)));
        own.extend(types[1..].iter().cloned());
        own.extend(seeded.iter().map(|&number| stacked[number].clone()));
        let own = self.builder.begin_region(&own);
        let pulled = self.turn_back(Turn {
            body,
            carried,
            trip_count: &trip_count,
            parameters: &own,
            sums,
            seeded: &seeded,
            states: &states,
            slices: &slices,
            outer: &outer,
        })?;
        let region = self.builder.end_region(&pulled);
        let op = Op::Scan { trip_count, carried: sums, reverse: !reverse };
        let pulled = self.builder.add_with_regions(op, &operands, &[region])?;
        let of = states.iter().map(|&number| node.operands[number]).chain(outer);
        let of = of.chain(slices.iter().map(|&number| node.operands[number]));
        for (value, more) in of.zip(pulled) {
            if self.is_active(value) {
                self.add(value, more)?;
            }
        }
        Ok(())
    }

    /// The body of the loop that runs backwards.
    fn turn_back(&mut self, turn: Turn<'_>) -> Built<Vec<ValueId>> {
        let (cotangents, rest) = turn.parameters[1..].split_at(turn.sums);
        let (values, seeds) = rest.split_at(rest.len() - turn.seeded.len());
        let last = self.builder.dimension(turn.trip_count - 1)?;
        let number = self.builder.map(F::Sub, &[last, turn.parameters[0]])?;
        let parameters = [&[number], values].concat();
        let results = self.builder.copy_region(turn.body, &parameters)?;
        let (of_states, of_outer) = cotangents.split_at(turn.states.len());
        let mut given: Vec<(ValueId, Option<ValueId>)> = Vec::new();
        given.extend(turn.states.iter().zip(of_states).map(|(&n, &g)| (results[n], Some(g))));
        let stacks = turn.seeded.iter().zip(seeds);
        given.extend(stacks.map(|(&n, &g)| (results[turn.carried + n], Some(g))));
        let inner = turn.states.iter().chain(turn.slices).map(|&number| values[number]);
        let sources: Vec<ValueId> = turn.outer.iter().copied().chain(inner).collect();
        let pulled = pull_back(self.builder, &given, &sources)?;
        let (more, pulled) = pulled.split_at(turn.outer.len());
        let (states, slices) = pulled.split_at(turn.states.len());
        let mut results = states.to_vec();
        for (&so_far, &more) in of_outer.iter().zip(more) {
            results.push(self.builder.map(F::Add, &[so_far, more])?);
        }
        results.extend(slices);
        Ok(results)
    }
}

/// One turn of a loop, to go back through.
struct Turn<'a> {
    body: RegionId,
    /// How many values the loop carries.
    carried: usize,
    trip_count: &'a Expr,
    /// The turn's number, cotangents of states, sums for outer values, what the body starts from,
    /// cotangents of stacked elements.
    parameters: &'a [ValueId],
    /// How many cotangents and sums.
    sums: usize,
    /// Which stacks have cotangents.
    seeded: &'a [usize],
    /// The float operands of the loop that it carries, and those that it slices.
    states: &'a [usize],
    slices: &'a [usize],
    outer: &'a [ValueId],
}

/// Goes back through all nodes of the innermost open region.
fn pull_back(
    builder: &mut FunctionBuilder,
    seeds: &[(ValueId, Option<ValueId>)],
    sources: &[ValueId],
) -> Built<Vec<ValueId>> {
    let last = builder.open_region_nodes().len();
    let mut reverse = Reverse::new(builder, sources);
    for &(value, cotangent) in seeds {
        if let Some(cotangent) = cotangent {
            reverse.add(value, cotangent)?;
        }
    }
    reverse.sweep(0..last).map_err(inside)?;
    sources.iter().map(|&source| reverse.result(source).map_err(inside)).collect()
}

/// How often a loop with a condition turns at most.
pub(crate) struct MostTurns {
    pub(crate) turns: Expr,
    /// Whether it always does, if that is not negative.
    is_exact: bool,
}

impl MostTurns {
    /// What the condition says: one of the facts that must all hold compares a number that changes
    /// by the same in each turn with one that stays.
    pub(crate) fn of(function: &Function, node: &Node) -> Option<MostTurns> {
        let [condition, body] = node.regions[..] else { return None };
        let mut facts = function.regions[condition].results.clone();
        let mut is_exact = true;
        let mut most: Option<Expr> = None;
        while let Some(fact) = facts.pop() {
            let Some((id, _)) = function.producer(fact) else { continue };
            let map = &function.nodes[id];
            let Op::Map { function: compares, .. } = map.op else { continue };
            let count = Count { function, node, condition, body };
            let turns = match (compares, &map.operands[..]) {
                (F::And, both) => {
                    facts.extend(both);
                    is_exact = false;
                    continue;
                }
                // As other front ends write that the operand holds.
                (F::Cast, [fact]) => {
                    facts.push(*fact);
                    continue;
                }
                (F::Ne | F::Eq, &[first, second]) => {
                    let told = |value: ValueId| truth(function, value) == Some(compares == F::Eq);
                    facts.extend(told(second).then_some(first));
                    facts.extend(told(first).then_some(second));
                    continue;
                }
                (F::Lt | F::Le, &[low, high]) => count.turns(low, high, compares == F::Le),
                (F::Gt | F::Ge, &[high, low]) => count.turns(low, high, compares == F::Ge),
                _ => None,
            };
            most = match (most, turns) {
                (Some(so_far), Some(turns)) => Some(so_far.min(&turns)),
                (so_far, turns) => turns.or(so_far),
            };
        }
        most.map(|turns| MostTurns { turns, is_exact })
    }
}

/// A boolean that is known, or a number that stands for one.
fn truth(function: &Function, value: ValueId) -> Option<bool> {
    let (id, _) = function.producer(value)?;
    let node = &function.nodes[id];
    match &node.op {
        Op::Literal(it) if it.len() == 1 && !it.dtype().is_float() => {
            match it.get_scalar(0).as_f64() {
                0.0 => Some(false),
                1.0 => Some(true),
                _ => None,
            }
        }
        Op::Map { function: F::Cast, .. } => truth(function, node.operands[0]),
        _ => None,
    }
}

/// A loop in whose condition counts are looked for.
struct Count<'a> {
    function: &'a Function,
    node: &'a Node,
    condition: RegionId,
    body: RegionId,
}

impl Count<'_> {
    /// For how many turns the first number is below the second, or equal to it.
    fn turns(&self, low: ValueId, high: ValueId, or_equal: bool) -> Option<Expr> {
        let ((low, up), (high, down)) = (self.changes(low)?, self.changes(high)?);
        let step = up - down;
        if step <= 0 {
            return None;
        }
        let distance = high - low + i64::from(or_equal);
        Some(distance.ceil_div(&Expr::from(step)).max(&Expr::ZERO))
    }

    /// A number of the condition before the first turn, and what each turn adds to it.
    fn changes(&self, value: ValueId) -> Option<(Expr, i64)> {
        let regions = &self.function.regions;
        let Some(number) = regions[self.condition].parameters.iter().position(|&own| own == value)
        else {
            return Some((whole(self.function, value)?, 0));
        };
        let start = whole(self.function, self.node.operands[number])?;
        let (own, next) =
            (regions[self.body].parameters[number], regions[self.body].results[number]);
        if next == own {
            return Some((start, 0));
        }
        let (id, _) = self.function.producer(next)?;
        let map = &self.function.nodes[id];
        let step = |place: usize| whole(self.function, map.operands[place])?.as_constant();
        match map.op {
            Op::Map { function: F::Add, .. } if map.operands[0] == own => Some((start, step(1)?)),
            Op::Map { function: F::Add, .. } if map.operands[1] == own => Some((start, step(0)?)),
            Op::Map { function: F::Sub, .. } if map.operands[0] == own => Some((start, -step(1)?)),
            _ => None,
        }
    }
}

/// An integer that is known.
fn whole(function: &Function, value: ValueId) -> Option<Expr> {
    let (id, _) = function.producer(value)?;
    let node = &function.nodes[id];
    match &node.op {
        Op::Literal(tensor) if tensor.dtype().is_integer() && tensor.shape().is_empty() => {
            i64::try_from(tensor.get_scalar(0).as_i128()).ok().map(Expr::from)
        }
        Op::Dimension(expr) => Some(expr.clone()),
        Op::Map { function: F::Cast, dtype } if dtype.is_integer() => {
            whole(function, node.operands[0])
        }
        _ => None,
    }
}
