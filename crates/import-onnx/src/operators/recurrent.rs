//! RNN, GRU and LSTM: the inputs of all steps in one product, then a scan over the steps.
//!
//! A step is masked where a sequence is already over: its states stay, its output is zero. Gates
//! lie behind each other along one axis in ONNX's order: `z, r, h` for GRU, `i, o, f, c` for LSTM.

use front::{Accepted, Graph, Operand, Turn, shape_error};
use graph::IterationSpace;
use sym::Expr;
use tensor::{DType, ScalarFunction as F};

use super::Lowered;
use crate::node::{Node, attribute_error, unsupported};

/// Which of the three operators.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Rnn,
    Gru,
    Lstm,
}

impl Kind {
    fn gates(self) -> i64 {
        match self {
            Kind::Rnn => 1,
            Kind::Gru => 3,
            Kind::Lstm => 4,
        }
    }

    /// The functions of gates and states where none are given.
    fn functions(self) -> &'static [&'static str] {
        match self {
            Kind::Rnn => &["Tanh"],
            Kind::Gru => &["Sigmoid", "Tanh"],
            Kind::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}

/// An activation function with its parameters.
#[derive(Clone)]
pub(super) struct Activation {
    name: String,
    alpha: f64,
    beta: f64,
}

impl Activation {
    /// The function of a name, which takes its parameters, in order, from those given.
    pub(super) fn named(
        name: &str,
        alphas: &mut impl Iterator<Item = f32>,
        betas: &mut impl Iterator<Item = f32>,
    ) -> Accepted<Activation> {
        let name = name.to_ascii_lowercase();
        let (alpha, beta) = match name.as_str() {
            "relu" | "tanh" | "sigmoid" | "softsign" | "softplus" => (None, None),
            "leakyrelu" => (Some(0.01), None),
            "thresholdedrelu" | "elu" => (Some(1.0), None),
            "hardsigmoid" => (Some(0.2), Some(0.5)),
            "affine" | "scaledtanh" => (Some(1.0), Some(0.0)),
            _ => return Err(unsupported(format!("the activation function `{name}`"))),
        };
        let alpha = alpha.map_or(0.0, |default| f64::from(alphas.next().unwrap_or(default)));
        let beta = beta.map_or(0.0, |default| f64::from(betas.next().unwrap_or(default)));
        Ok(Activation { name, alpha, beta })
    }

    /// The function of a value.
    pub(super) fn apply(&self, graph: &mut Graph, x: &Operand) -> Accepted<Operand> {
        graph.rounded_once(x, |graph, x| self.formula(graph, x))
    }

    fn formula(&self, graph: &mut Graph, x: &Operand) -> Accepted<Operand> {
        let Activation { name, alpha, beta } = self;
        let zero = graph.number(x.dtype(), 0.0);
        match name.as_str() {
            "relu" => graph.max(x, &zero),
            "tanh" => graph.tanh(x),
            "sigmoid" => graph.sigmoid(x),
            "softplus" => graph.softplus(x),
            "softsign" => {
                let magnitude = graph.abs(x)?;
                let divisor = graph.add_number(&magnitude, 1.0)?;
                graph.div(x, &divisor)
            }
            "affine" | "hardsigmoid" => {
                let scaled = graph.mul_number(x, *alpha)?;
                let line = graph.add_number(&scaled, *beta)?;
                if name == "affine" { Ok(line) } else { graph.clamp(&line, 0.0, 1.0) }
            }
            "scaledtanh" => {
                let scaled = graph.mul_number(x, *beta)?;
                let curve = graph.tanh(&scaled)?;
                graph.mul_number(&curve, *alpha)
            }
            "thresholdedrelu" => {
                let alpha = graph.number(x.dtype(), *alpha);
                let above = graph.greater_equal(x, &alpha)?;
                graph.select(&above, x, &zero)
            }
            _ => {
                let curve = if name == "elu" { graph.map(F::Expm1, &[x])? } else { x.clone() };
                let scaled = graph.mul_number(&curve, *alpha)?;
                let negative = graph.less(x, &zero)?;
                graph.select(&negative, &scaled, x)
            }
        }
    }
}

/// All that one direction needs, as values outside of the scan.
struct Direction {
    kind: Kind,
    activations: Vec<Activation>,
    clip: Option<f64>,
    hidden: Expr,
    /// `[gates * hidden, hidden]`
    recurrence: Operand,
    /// The recurrent bias of GRU's last gate, which its reset gate may reach.
    last_bias: Option<Operand>,
    /// Weights `i, o, f` by which LSTM's gates see its cell.
    peepholes: Option<[Operand; 3]>,
    lengths: Option<Operand>,
    linear_before_reset: bool,
    couples_gates: bool,
    /// What rounds operands of products with weights.
    rounding: Option<Rounding>,
}

/// What the operands of products with weights become before, where they are quantised on the way.
pub(super) type Rounding = fn(&mut Graph, &Operand) -> Accepted<Operand>;

/// Lowers one of the three operators.
pub(super) fn recurrent(node: &Node<'_>, graph: &mut Graph, kind: Kind) -> Lowered {
    with_rounding(node, graph, kind, None)
}

/// As [`recurrent`], where inputs and states may be rounded before they meet weights.
pub(super) fn with_rounding(
    node: &Node<'_>,
    graph: &mut Graph,
    kind: Kind,
    rounding: Option<Rounding>,
) -> Lowered {
    let batch_first = node.flag("layout", false)?;
    let mut x = node.input(0)?.clone();
    if x.rank() != 3 || node.input(1)?.rank() != 3 || node.input(2)?.rank() != 3 {
        return Err(shape_error("inputs and weights must have three axes"));
    }
    // Bias, lengths, both states, peepholes.
    for (number, rank) in [(3, 2), (4, 1), (5, 3), (6, 3), (7, 2)] {
        if let Some(given) = node.optional(number).filter(|given| given.rank() != rank) {
            let found = given.rank();
            return Err(shape_error(format!("input {number} has rank {found}, not {rank}")));
        }
    }
    if batch_first {
        x = graph.transpose(&x, &[1, 0, 2])?;
    }
    if let Some(rounding) = rounding {
        x = rounding(graph, &x)?;
    }
    let directions: &[bool] =
        match node.word("direction", &["forward", "reverse", "bidirectional"])? {
            "forward" => &[false],
            "reverse" => &[true],
            _ => &[false, true],
        };
    let count = directions.len();
    graph.assume_equal(&node.input(1)?.shape()[0], &Expr::from(count))?;
    let activations = activations(node, kind, count)?;
    let mut outputs: Vec<Vec<Operand>> = Vec::new();
    for (number, &reverse) in directions.iter().enumerate() {
        let own = activations[number * kind.functions().len()..][..kind.functions().len()].to_vec();
        outputs.push(direction(node, graph, kind, &x, number, reverse, own, rounding)?);
    }
    // Results of the directions side by side: Y along axis 1, the last states along axis 0.
    let mut results = Vec::new();
    for result in 0..outputs[0].len() {
        let axis = usize::from(result == 0);
        let mut parts = Vec::new();
        for output in &outputs {
            let mut shape = output[result].shape().to_vec();
            shape.insert(axis, Expr::ONE);
            parts.push(graph.reshape(&output[result], &shape)?);
        }
        let whole = graph.concat(axis, &parts)?;
        results.push(match (batch_first, result) {
            (false, _) => whole,
            (true, 0) => graph.transpose(&whole, &[2, 0, 1, 3])?,
            (true, _) => graph.transpose(&whole, &[1, 0, 2])?,
        });
    }
    Ok(results)
}

fn activations(node: &Node<'_>, kind: Kind, directions: usize) -> Accepted<Vec<Activation>> {
    let default = || kind.functions().repeat(directions).into_iter().map(str::to_owned).collect();
    let names: Vec<String> = node.strings("activations")?.unwrap_or_else(default);
    if names.len() != kind.functions().len() * directions {
        let reason = format!("{} functions for {directions} directions", names.len());
        return Err(attribute_error("activations", reason));
    }
    let mut alphas = node.floats("activation_alpha")?.unwrap_or_default().into_iter();
    let mut betas = node.floats("activation_beta")?.unwrap_or_default().into_iter();
    names.iter().map(|name| Activation::named(name, &mut alphas, &mut betas)).collect()
}

/// A slice of a value along its first axis, without that axis.
fn at(graph: &mut Graph, value: &Operand, number: usize) -> Accepted<Operand> {
    let Some(rest) = value.shape().get(1..) else {
        return Err(shape_error("a tensor of rank 0 has no axis of directions"));
    };
    let slice = graph.slice_axis(value, 0, Expr::from(number), 1, Expr::ONE)?;
    graph.reshape(&slice, rest)
}

/// Part `number` of a value whose last axis holds parts of extent `size`.
fn part(graph: &mut Graph, value: &Operand, number: i64, size: &Expr) -> Accepted<Operand> {
    let Some(last) = value.rank().checked_sub(1) else {
        return Err(shape_error("a tensor of rank 0 has no axis of gates"));
    };
    graph.slice_axis(value, last, size * number, 1, size.clone())
}

/// `[.., n] = sum(k) x[.., k] * w[n, k]`
fn rows_product(graph: &mut Graph, x: &Operand, w: &Operand) -> Accepted<Operand> {
    let lead = x.rank() - 1;
    let mut shape = x.shape().to_vec();
    shape[lead] = w.shape()[1].clone();
    let x = graph.refine(x, &shape)?;
    let mut extents = shape[..lead].to_vec();
    extents.extend([w.shape()[0].clone(), w.shape()[1].clone()]);
    let axes: Vec<Expr> = (0..lead + 2).map(IterationSpace::axis).collect();
    let read_x = [&axes[..lead], &axes[lead + 1..]].concat();
    let operands = vec![read_x, axes[lead..].to_vec()];
    let space = IterationSpace { extents, parallel: lead + 1, operands };
    let dtype = x.dtype();
    graph.contract(space, &x, w, graph::accumulator_of(dtype), dtype)
}

/// The results of one direction: all outputs, the last output, and for LSTM the last cell.
#[expect(clippy::too_many_arguments, reason = "what all directions share, and what is its own")]
fn direction(
    node: &Node<'_>,
    graph: &mut Graph,
    kind: Kind,
    x: &Operand,
    number: usize,
    reverse: bool,
    activations: Vec<Activation>,
    rounding: Option<Rounding>,
) -> Accepted<Vec<Operand>> {
    let batch_first = node.flag("layout", false)?;
    let weights = at(graph, node.input(1)?, number)?;
    let recurrence = at(graph, node.input(2)?, number)?;
    let hidden = recurrence.shape()[1].clone();
    if node.has("hidden_size") {
        let given = node.int("hidden_size", 0)?;
        if !graph.builder.equate(&hidden, &Expr::from(given)) {
            let weights = graph.builder.text(&hidden);
            let reason = format!("it is {given}, but the weights are for states of {weights}");
            return Err(attribute_error("hidden_size", reason));
        }
    }
    let wide = &hidden * kind.gates();
    graph.assume_equal(&recurrence.shape()[0], &wide)?;
    graph.assume_equal(&weights.shape()[0], &wide)?;
    let mut inputs = rows_product(graph, x, &weights)?;
    let linear_before_reset = kind == Kind::Gru && node.flag("linear_before_reset", false)?;
    let mut last_bias = None;
    if let Some(bias) = node.optional(3) {
        let bias = at(graph, bias, number)?;
        let own = part(graph, &bias, 0, &wide)?;
        inputs = graph.add(&inputs, &own)?;
        let mut other = part(graph, &bias, 1, &wide)?;
        if linear_before_reset {
            last_bias = Some(part(graph, &other, 2, &hidden)?);
            let head = graph.slice_axis(&other, 0, Expr::ZERO, 1, &hidden * 2)?;
            let zero =
                graph.full(std::slice::from_ref(&hidden), tensor::Scalar::zero(x.dtype()))?;
            other = graph.concat(0, &[head, zero])?;
        }
        inputs = graph.add(&inputs, &other)?;
    }
    let state_shape = [x.shape()[1].clone(), hidden.clone()];
    let mut states = Vec::new();
    for index in 5..if kind == Kind::Lstm { 7 } else { 6 } {
        states.push(match node.optional(index) {
            Some(initial) => {
                let initial = match batch_first {
                    true => graph.transpose(initial, &[1, 0, 2])?,
                    false => initial.clone(),
                };
                let state = at(graph, &initial, number)?;
                graph.refine(&state, &state_shape)?
            }
            None => graph.full(&state_shape, tensor::Scalar::zero(x.dtype()))?,
        });
    }
    let lengths = node.optional(4).map(|lengths| graph.cast(lengths, DType::I64)).transpose()?;
    let peepholes = match node.optional(7) {
        Some(all) if kind == Kind::Lstm => {
            let all = at(graph, all, number)?;
            let mut peephole = |gate| part(graph, &all, gate, &hidden);
            Some([peephole(0)?, peephole(1)?, peephole(2)?])
        }
        _ => None,
    };
    let clip = node.float("clip", 0.0)?;
    let cell = Direction {
        kind,
        activations,
        clip: (clip > 0.0).then_some(clip),
        hidden,
        recurrence,
        last_bias,
        peepholes,
        lengths,
        linear_before_reset,
        couples_gates: kind == Kind::Lstm && node.flag("input_forget", false)?,
        rounding,
    };
    cell.scan(graph, &inputs, states, reverse)
}

impl Direction {
    fn scan(
        &self,
        graph: &mut Graph,
        inputs: &Operand,
        states: Vec<Operand>,
        reverse: bool,
    ) -> Accepted<Vec<Operand>> {
        let steps = inputs.shape()[0].clone();
        let outer = [&self.recurrence].into_iter().chain(&self.last_bias).chain(&self.lengths);
        let outer: Vec<&Operand> = outer.chain(self.peepholes.iter().flatten()).collect();
        let time = graph.iota(DType::I64, std::slice::from_ref(&steps), 0)?;
        let scanned = [inputs.clone(), time];
        let turn = |graph: &mut Graph, _: &Operand, states: &[Operand], slices: &[Operand]| {
            self.step(graph, states, &slices[0], &slices[1])
        };
        let mut results = graph.scan((&steps, reverse), &states, &scanned, &outer, turn)?;
        let all = results.pop();
        Ok(all.into_iter().chain(results).collect())
    }

    /// The states after a step, and its output.
    fn step(
        &self,
        graph: &mut Graph,
        states: &[Operand],
        input: &Operand,
        time: &Operand,
    ) -> Accepted<Turn> {
        let mut carried = match self.kind {
            Kind::Rnn => vec![self.rnn(graph, input, &states[0])?],
            Kind::Gru => vec![self.gru(graph, input, &states[0])?],
            Kind::Lstm => self.lstm(graph, input, &states[0], &states[1])?,
        };
        let mut output = carried[0].clone();
        if let Some(lengths) = &self.lengths {
            let runs = graph.map(F::Lt, &[time, lengths])?;
            let column = graph.reshape(&runs, &[runs.shape()[0].clone(), Expr::ONE])?;
            let zero = graph.number(output.dtype(), 0.0);
            output = graph.select(&column, &output, &zero)?;
            for (next, state) in carried.iter_mut().zip(states) {
                *next = graph.select(&column, next, state)?;
            }
        }
        Ok(Turn { carried, stacked: vec![output] })
    }

    /// An activation function of a sum, which is clipped before.
    fn activate(&self, graph: &mut Graph, which: usize, sum: &Operand) -> Accepted<Operand> {
        match self.clip {
            Some(clip) => {
                let clipped = graph.clamp(sum, -clip, clip)?;
                self.activations[which].apply(graph, &clipped)
            }
            None => self.activations[which].apply(graph, sum),
        }
    }

    /// Rows of the recurrence that belong to some gates, times the state.
    fn recur(
        &self,
        graph: &mut Graph,
        state: &Operand,
        first: i64,
        gates: i64,
    ) -> Accepted<Operand> {
        let (start, extent) = (&self.hidden * first, &self.hidden * gates);
        let rows = graph.slice_axis(&self.recurrence, 0, start, 1, extent)?;
        match self.rounding {
            Some(rounding) => {
                let rounded = rounding(graph, state)?;
                rows_product(graph, &rounded, &rows)
            }
            None => rows_product(graph, state, &rows),
        }
    }

    fn rnn(&self, graph: &mut Graph, input: &Operand, state: &Operand) -> Accepted<Operand> {
        let own = self.recur(graph, state, 0, 1)?;
        let sum = graph.add(input, &own)?;
        self.activate(graph, 0, &sum)
    }

    fn gru(&self, graph: &mut Graph, input: &Operand, state: &Operand) -> Accepted<Operand> {
        let own = self.recur(graph, state, 0, 2)?;
        let gate = |number: i64, graph: &mut Graph| {
            let from_input = part(graph, input, number, &self.hidden)?;
            let from_state = part(graph, &own, number, &self.hidden)?;
            let sum = graph.add(&from_input, &from_state)?;
            self.activate(graph, 0, &sum)
        };
        let (update, reset) = (gate(0, graph)?, gate(1, graph)?);
        let from_input = part(graph, input, 2, &self.hidden)?;
        let from_state = if self.linear_before_reset {
            let mut own = self.recur(graph, state, 2, 1)?;
            if let Some(bias) = &self.last_bias {
                own = graph.add(&own, bias)?;
            }
            graph.mul(&reset, &own)?
        } else {
            let kept = graph.mul(&reset, state)?;
            self.recur(graph, &kept, 2, 1)?
        };
        let sum = graph.add(&from_input, &from_state)?;
        let candidate = self.activate(graph, 1, &sum)?;
        // (1 - z) * candidate + z * state
        let negated = graph.neg(&update)?;
        let rest = graph.add_number(&negated, 1.0)?;
        let new = graph.mul(&rest, &candidate)?;
        let old = graph.mul(&update, state)?;
        graph.add(&new, &old)
    }

    fn lstm(
        &self,
        graph: &mut Graph,
        input: &Operand,
        state: &Operand,
        cell: &Operand,
    ) -> Accepted<Vec<Operand>> {
        let own = self.recur(graph, state, 0, 4)?;
        let sums = graph.add(input, &own)?;
        let peep =
            |graph: &mut Graph, sum: Operand, which: usize, cell: &Operand| match &self.peepholes {
                Some(peepholes) => {
                    let seen = graph.mul(&peepholes[which], cell)?;
                    graph.add(&sum, &seen)
                }
                None => Ok(sum),
            };
        let sum = part(graph, &sums, 0, &self.hidden)?;
        let sum = peep(graph, sum, 0, cell)?;
        let mut input_gate = self.activate(graph, 0, &sum)?;
        let sum = part(graph, &sums, 2, &self.hidden)?;
        let sum = peep(graph, sum, 2, cell)?;
        let forget_gate = self.activate(graph, 0, &sum)?;
        if self.couples_gates {
            let negated = graph.neg(&forget_gate)?;
            input_gate = graph.add_number(&negated, 1.0)?;
        }
        let sum = part(graph, &sums, 3, &self.hidden)?;
        let candidate = self.activate(graph, 1, &sum)?;
        let kept = graph.mul(&forget_gate, cell)?;
        let new = graph.mul(&input_gate, &candidate)?;
        let next_cell = graph.add(&kept, &new)?;
        let sum = part(graph, &sums, 1, &self.hidden)?;
        let sum = peep(graph, sum, 1, &next_cell)?;
        let output_gate = self.activate(graph, 0, &sum)?;
        let shown = self.activations[2].apply(graph, &next_cell)?;
        Ok(vec![graph.mul(&output_gate, &shown)?, next_cell])
    }
}
