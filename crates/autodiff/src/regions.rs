//! Derivatives of control flow.
//!
//! A branch's derivative is a branch that computes the taken one again and goes back through it. A
//! counted loop runs again, to stack what it carries into each turn, and then backwards: what it
//! carries are the cotangents of what the loop carried, and the sums for what it reads from around
//! it. A loop whose number of turns depends on data has no derivative here.

use graph::{Built, FunctionBuilder, Node, Op, RegionId, TensorType, Type, ValueId};
use tensor::{DType, ScalarFunction as F};

use crate::{NoDerivative, Reverse, constant, is_float};

impl Reverse<'_> {
    /// The rule of a primitive with regions.
    pub(crate) fn regions(&mut self, node: &Node, cotangents: &[Option<ValueId>]) -> Built<()> {
        match &node.op {
            Op::If { .. } => self.branch(node, cotangents),
            Op::Scan { .. } => self.scan(node, cotangents),
            op => {
                Err(format!("`{}` cannot be differentiated: how often it runs is data", op.name()))
            }
        }
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
        let mut own =
            vec![Type::Tensor(TensorType { dtype: DType::I64, shape: Vec::new().into() })];
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
    trip_count: &'a sym::Expr,
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
    let inside = |found: NoDerivative| format!("at {}: {}", found.place, found.reason);
    for &(value, cotangent) in seeds {
        if let Some(cotangent) = cotangent {
            reverse.add(value, cotangent)?;
        }
    }
    reverse.sweep(0..last).map_err(inside)?;
    sources.iter().map(|&source| reverse.result(source).map_err(inside)).collect()
}
