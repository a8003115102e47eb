//! Running a resolved kernel: statement after statement, value after value.
//!
//! A value is the bits of an element; which type they are of is known from its node.

use std::cell::RefCell;
use std::collections::BTreeSet;

use base::{Id, codes};
use loops::visit::{touched, walk};
use loops::{
    Access, Buffer, BufferId, Comparison, Kernel, LoopKind, Scope, Stmt, SymbolKind,
    print_statement,
};
use sym::Expr;
use tensor::{DType, ScalarFunction, Tensor};

use super::memory::{Accesses, Bytes, Checked, Memory, Place, fault};
use super::resolve::{
    Action, Block, Element, Integer, Node, Resolver, Statement, Test, Update, Walk, scalar,
};
use super::{KernelOptions, Order};

/// As [`super::evaluate_kernel`].
pub(super) fn run(
    kernel: &Kernel,
    buffers: &mut [Tensor],
    symbols: &[i64],
    options: KernelOptions,
) -> Checked<()> {
    let elements = RefCell::new(Vec::new());
    let resolver = Resolver { kernel, precision: options.precision, elements };
    let body = resolver.block(&kernel.body)?;
    let mut machine = Machine {
        kernel,
        order: options.order,
        symbols: shape_symbols(kernel, symbols)?,
        memory: Vec::new(),
        place: Place::default(),
        vector_runs: 0,
        cursors: vec![None; resolver.elements.borrow().len()],
    };
    machine.memory = machine.allocate(&resolver, buffers, options)?;
    machine.block(&body, 0)
}

/// The values of symbols, by position: those of shape symbols, zero for those not yet bound.
fn shape_symbols(kernel: &Kernel, given: &[i64]) -> Checked<Vec<u64>> {
    let mut values = vec![0; kernel.symbols.len()];
    for (id, symbol) in kernel.symbols.iter() {
        let SymbolKind::Shape { position, range, .. } = &symbol.kind else { continue };
        let Some(&value) = given.get(*position as usize) else {
            let message = format!("no value was given for the symbol `{}`", symbol.name);
            return Err(fault(codes::UNBOUND_DIMENSION, message));
        };
        if !range.contains(value) {
            let message = format!("the symbol `{}` is {value}, outside of {range}", symbol.name);
            return Err(fault(codes::WRONG_SHAPE, message));
        }
        values[id.index()] = value as u64;
    }
    Ok(values)
}

struct Machine<'k, 'm> {
    kernel: &'k Kernel,
    order: Order,
    /// The bits of every symbol's value.
    symbols: Vec<u64>,
    /// Every buffer.
    memory: Vec<Memory<'m>>,
    place: Place,
    /// Vector loops run so far.
    vector_runs: u32,
    /// For each element of the kernel, where the innermost loop that runs takes it.
    cursors: Vec<Option<Cursor>>,
}

/// An element that an innermost loop walks through a buffer, all of it within the buffer.
#[derive(Clone, Copy)]
struct Cursor {
    /// The element's number in the first iteration, and by how much it grows.
    first: i64,
    step: i64,
    /// The loop's variable.
    variable: usize,
}

impl<'k, 'm> Machine<'k, 'm> {
    fn allocate(
        &self,
        resolver: &Resolver<'k>,
        buffers: &'m mut [Tensor],
        options: KernelOptions,
    ) -> Checked<Vec<Memory<'m>>> {
        let (given, wanted) = (buffers.len(), self.kernel.parameters.len());
        if given != wanted {
            let message = format!("the kernel takes {wanted} buffer(s), not {given}");
            return Err(fault(codes::WRONG_SHAPE, message));
        }
        let mut tensors: Vec<Option<&mut Tensor>> = Vec::new();
        tensors.resize_with(self.kernel.buffers.len(), || None);
        for (tensor, id) in buffers.iter_mut().zip(&self.kernel.parameters) {
            match tensors.get_mut(id.index()) {
                Some(slot) => *slot = Some(tensor),
                None => {
                    let message = format!("the parameter {id} is no buffer of the kernel");
                    return Err(fault(codes::VERIFIER_FAILED, message));
                }
            }
        }
        let [parallel, vector] = match options.check_loops {
            true => [LoopKind::Parallel, LoopKind::Vector].map(|kind| written(self.kernel, kind)),
            false => [BTreeSet::new(), BTreeSet::new()],
        };
        let mut memory = Vec::with_capacity(tensors.len());
        for ((id, buffer), tensor) in self.kernel.buffers.iter().zip(tensors) {
            let mut one = self.buffer(resolver, buffer, tensor)?;
            let elements = one.elements;
            let is_parameter = matches!(buffer.scope, Scope::Parameter(_));
            if is_parameter && parallel.contains(&id) {
                one.parallel = Some(Accesses::new(elements));
            }
            if vector.contains(&id) {
                one.vector = Some(Accesses::new(elements));
            }
            memory.push(one);
        }
        Ok(memory)
    }

    fn buffer(
        &self,
        resolver: &Resolver<'k>,
        buffer: &Buffer,
        tensor: Option<&'m mut Tensor>,
    ) -> Checked<Memory<'m>> {
        let sizes = |list: &[Expr]| -> Checked<Vec<i64>> {
            list.iter().map(|expr| self.integer(&resolver.integer(expr))).collect()
        };
        let extents = sizes(&buffer.shape)?;
        let count = extents.iter().try_fold(1i64, |count, &extent| count.checked_mul(extent));
        let dtype = resolver.precision.dtype(buffer.dtype);
        let name = &buffer.name;
        let size = count
            .and_then(|count| usize::try_from(count).ok())
            .and_then(|count| dtype.size_of_elements(count).map(|size| (count, size)));
        let Some((count, size)) = size.filter(|_| dtype != DType::String) else {
            let message = format!("%{name} cannot be held in memory");
            return Err(fault(codes::VERIFIER_FAILED, message));
        };
        let strides = match &buffer.strides {
            Some(strides) => sizes(strides)?,
            None => dense_strides(&extents),
        };
        let elements = tensor.as_ref().map_or(count, |tensor| tensor.len());
        let bytes = match (buffer.scope, tensor) {
            (Scope::Parameter(access), Some(tensor)) => {
                let fits = buffer.strides.is_some() || tensor.len() == count;
                if tensor.dtype() != dtype || !fits {
                    let message = format!("%{name} holds {count} of {dtype}, but got {tensor:?}");
                    return Err(fault(codes::WRONG_SHAPE, message));
                }
                match access {
                    Access::Read => Bytes::Read(tensor.bytes()),
                    Access::Write | Access::Update => Bytes::Write(tensor.bytes_mut()),
                }
            }
            (Scope::Scratch | Scope::Register, None) => Bytes::Own(vec![0; size]),
            _ => {
                let message = format!("%{name} must be a parameter and have the scope of one");
                return Err(fault(codes::VERIFIER_FAILED, message));
            }
        };
        let has_values = matches!(buffer.scope, Scope::Parameter(Access::Read | Access::Update));
        Ok(Memory {
            name: name.clone(),
            dtype,
            axes: extents.into_iter().zip(strides).collect(),
            bytes,
            elements,
            stored: (!has_values).then(|| vec![0; elements]),
            era: 1,
            parallel: None,
            vector: None,
        })
    }

    /// Runs a block whose first statement stands at a position in the order of the program.
    fn block(&mut self, block: &Block<'k>, start: u32) -> Checked<()> {
        for statement in &block.statements {
            let position = start.saturating_add(statement.position);
            self.statement(statement, position)
                .map_err(|fault| Box::new(fault.at(|| self.describe(statement.source))))?;
        }
        Ok(())
    }

    fn statement(&mut self, statement: &Statement<'k>, position: u32) -> Checked<()> {
        let inside = position.saturating_add(1);
        self.place.position = position;
        match &statement.action {
            Action::For { variable, extent, kind, body, walks } => {
                let extent = self.integer(extent)?;
                self.set_cursors(*variable, extent, walks);
                match kind {
                    LoopKind::Serial => self.turns(*variable, extent, body, inside, 0),
                    LoopKind::Unroll | LoopKind::Instruction(_) => {
                        self.turns(*variable, extent, body, inside, body.places)
                    }
                    LoopKind::Parallel => self.parallel(*variable, extent, body, inside),
                    LoopKind::Vector => self.vector(*variable, extent, body, inside),
                }?;
                walks.iter().for_each(|walk| self.cursors[walk.element.cursor] = None);
                Ok(())
            }
            Action::Let { symbol, range, value } => {
                let bits = self.value(value)?;
                if let Some(range) = range.filter(|range| !range.contains(bits as i64)) {
                    let message = format!("the value {} is outside of {range}", bits as i64);
                    return Err(fault(codes::INDEX_OUT_OF_RANGE, message));
                }
                self.symbols[*symbol] = bits;
                Ok(())
            }
            Action::Update { element, dtype, update } => self.update(element, *dtype, update),
            Action::If { conditions, then, otherwise } => match self.all(conditions)? {
                true => self.block(then, inside),
                false => self.block(otherwise, inside.saturating_add(then.places)),
            },
            Action::While { setup, condition, body } => loop {
                self.block(setup, inside)?;
                if self.value(condition)? == 0 {
                    return Ok(());
                }
                self.block(body, inside.saturating_add(setup.places))?;
            },
        }
    }

    /// Sets the cursors of those walks of a loop that stay within their buffers. The others find
    /// each element by its index, and fault where it lies outside, if they get there.
    fn set_cursors(&mut self, variable: usize, extent: i64, walks: &[Walk]) {
        for Walk { element, steps } in walks {
            self.symbols[variable] = 0;
            let Ok(first) = self.number(element) else { continue };
            self.symbols[variable] = extent.wrapping_sub(1) as u64;
            if extent < 1 || self.number(element).is_err() {
                continue;
            }
            let axes = self.memory[element.memory].axes.iter();
            let step = axes.zip(steps).map(|((_, stride), step)| stride * step).sum();
            self.cursors[element.cursor] = Some(Cursor { first, step, variable });
        }
    }

    /// Runs a loop's body for each value of its variable, each `step` places behind the one before.
    fn turns(
        &mut self,
        variable: usize,
        extent: i64,
        body: &Block<'k>,
        start: u32,
        step: u32,
    ) -> Checked<()> {
        let mut position = start;
        for turn in 0..extent {
            self.symbols[variable] = turn as u64;
            self.block(body, position)?;
            position = position.saturating_add(step);
        }
        Ok(())
    }

    fn parallel(
        &mut self,
        variable: usize,
        extent: i64,
        body: &Block<'k>,
        start: u32,
    ) -> Checked<()> {
        for turn in turns_in_order(extent, self.order) {
            // Scratch and registers belong to one iteration.
            for memory in &mut self.memory {
                memory.era += u32::from(matches!(memory.bytes, Bytes::Own(_)));
            }
            self.symbols[variable] = turn as u64;
            self.place.parallel = u32::try_from(turn).ok();
            self.block(body, start)?;
        }
        self.place.parallel = None;
        Ok(())
    }

    fn vector(
        &mut self,
        variable: usize,
        extent: i64,
        body: &Block<'k>,
        start: u32,
    ) -> Checked<()> {
        self.vector_runs = self.vector_runs.wrapping_add(1);
        for turn in 0..extent {
            self.symbols[variable] = turn as u64;
            self.place.vector = u32::try_from(turn).ok().map(|turn| (self.vector_runs, turn));
            self.block(body, start)?;
        }
        self.place.vector = None;
        Ok(())
    }

    fn update(&mut self, element: &Element, dtype: DType, update: &Update) -> Checked<()> {
        let (number, bits) = match update {
            Update::Store(value) => (self.element(element)?, self.value(value)?),
            Update::Reduce(reduction, value) => {
                let value = self.value(value)?;
                let (number, old) = self.old(element)?;
                let operands = [(dtype, old), (dtype, value)];
                (number, self.apply(reduction.as_function(), dtype, &operands))
            }
            Update::Fused(factors) => {
                let (a, b) = (self.value(&factors[0])?, self.value(&factors[1])?);
                let (number, old) = self.old(element)?;
                (number, self.fused(dtype, a, b, old))
            }
        };
        self.memory[element.memory].store(number, bits, &self.place)
    }

    /// An element that is to be updated, and its present value.
    fn old(&mut self, element: &Element) -> Checked<(usize, u64)> {
        let number = self.element(element)?;
        Ok((number, self.memory[element.memory].load(number, &self.place)?))
    }

    /// `a * b + c`, rounded once.
    fn fused(&self, dtype: DType, a: u64, b: u64, c: u64) -> u64 {
        match dtype {
            DType::F32 => bits_of_f32(single(a).mul_add(single(b), single(c))),
            DType::F64 => {
                bits_of_f64(f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)))
            }
            _ => {
                let operands = [(dtype, a), (dtype, b), (dtype, c)];
                self.apply(ScalarFunction::FusedMultiplyAdd, dtype, &operands)
            }
        }
    }

    fn value(&mut self, node: &Node) -> Checked<u64> {
        Ok(match node {
            Node::Constant(bits) => *bits,
            Node::Symbol(symbol) => self.symbols[*symbol],
            Node::Index(integer) => self.integer(integer)? as u64,
            Node::Load(element) => return self.load(element),
            Node::Single(function, operands) => {
                let (a, b) = (self.value(&operands[0])?, self.value(&operands[1])?);
                bits_of_f32(function(single(a), single(b)))
            }
            Node::Double(function, operands) => {
                let (a, b) = (self.value(&operands[0])?, self.value(&operands[1])?);
                bits_of_f64(function(f64::from_bits(a), f64::from_bits(b)))
            }
            Node::Apply(function, dtype, operands) => {
                let mut values = [(DType::Bool, 0); ScalarFunction::MOST_OPERANDS];
                for (value, (dtype, operand)) in values.iter_mut().zip(operands) {
                    *value = (*dtype, self.value(operand)?);
                }
                self.apply(*function, *dtype, &values[..operands.len()])
            }
            Node::Guard(conditions, values) => {
                let chosen = if self.all(conditions)? { &values[0] } else { &values[1] };
                return self.value(chosen);
            }
            Node::Fold(reduction, element, extent) => {
                let dtype = self.memory[element.memory].dtype;
                let mut values = self.row(element, *extent)?;
                while values.len() > 1 {
                    let upper = values.split_off(values.len() / 2);
                    for (low, high) in values.iter_mut().zip(upper) {
                        let operands = [(dtype, *low), (dtype, high)];
                        *low = self.apply(reduction.as_function(), dtype, &operands);
                    }
                }
                values[0]
            }
        })
    }

    /// The elements of a buffer's last axis.
    fn row(&mut self, element: &Element, extent: i64) -> Checked<Vec<u64>> {
        let first = self.number(element)?;
        let memory = &mut self.memory[element.memory];
        let load = |at| {
            let number = memory.element(first + memory.step(element.index.len(), at)?)?;
            memory.load(number, &self.place)
        };
        (0..extent).map(load).collect()
    }

    fn apply(&self, function: ScalarFunction, dtype: DType, operands: &[(DType, u64)]) -> u64 {
        let mut scalars = [scalar(DType::Bool, 0); ScalarFunction::MOST_OPERANDS];
        for (scalar_of, (dtype, bits)) in scalars.iter_mut().zip(operands) {
            *scalar_of = scalar(*dtype, *bits);
        }
        function.evaluate(dtype, &scalars[..operands.len()]).bits()
    }

    fn load(&mut self, element: &Element) -> Checked<u64> {
        let number = self.element(element)?;
        self.memory[element.memory].load(number, &self.place)
    }

    fn element(&self, element: &Element) -> Checked<usize> {
        let number = self.number(element)?;
        self.memory[element.memory].element(number)
    }

    /// The number of the first element at an index.
    #[inline]
    fn number(&self, element: &Element) -> Checked<i64> {
        if let Some(Cursor { first, step, variable }) = self.cursors[element.cursor] {
            return Ok(first + step * self.symbols[variable] as i64);
        }
        self.number_by_index(element)
    }

    fn number_by_index(&self, element: &Element) -> Checked<i64> {
        let memory = &self.memory[element.memory];
        let mut number = 0;
        for (axis, integer) in element.index.iter().enumerate() {
            number += memory.step(axis, self.integer(integer)?)?;
        }
        Ok(number)
    }

    #[inline]
    fn integer(&self, integer: &Integer) -> Checked<i64> {
        match integer {
            Integer::Affine(constant, terms) => Ok(terms.iter().fold(*constant, |sum, term| {
                sum.wrapping_add(term.0.wrapping_mul(self.symbols[term.1] as i64))
            })),
            Integer::General(expr) => {
                let value = |symbol: sym::SymbolId| {
                    self.symbols.get(symbol.index()).map(|bits| *bits as i64)
                };
                expr.evaluate(&value).ok_or_else(|| {
                    fault(codes::VERIFIER_FAILED, "an index expression has no value")
                })
            }
        }
    }

    fn all(&self, tests: &[Test]) -> Checked<bool> {
        for test in tests {
            let (left, right) = (self.integer(&test.left)?, self.integer(&test.right)?);
            let holds = match test.comparison {
                Comparison::Less => left < right,
                Comparison::LessEqual => left <= right,
                Comparison::Equal => left == right,
                Comparison::NotEqual => left != right,
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The statement's first line and the values of the loop variables, for a fault.
    fn describe(&self, stmt: &Stmt) -> String {
        let text = print_statement(self.kernel, stmt);
        let mut place = format!("`{}`", text.lines().next().unwrap_or("").trim());
        let mut separator = " where ";
        for symbol in loops::visit::statement_symbols(stmt) {
            if let Some(bits) = self.symbols.get(symbol.index()) {
                let name = self.kernel.symbol_name(symbol);
                place.push_str(&format!("{separator}{name} = {}", *bits as i64));
                separator = ", ";
            }
        }
        place
    }
}

/// The buffers that loops of a kind write to.
fn written(kernel: &Kernel, kind: LoopKind) -> BTreeSet<BufferId> {
    let mut buffers = BTreeSet::new();
    walk(&kernel.body, &mut |stmt| {
        if let Stmt::For(inner) = stmt
            && inner.kind == kind
        {
            buffers.extend(touched(&inner.body).1);
        }
    });
    buffers
}

fn dense_strides(extents: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; extents.len()];
    for axis in (1..extents.len()).rev() {
        strides[axis - 1] = strides[axis] * extents[axis];
    }
    strides
}

/// 0 to the extent in an order.
fn turns_in_order(extent: i64, order: Order) -> Vec<i64> {
    let mut turns: Vec<i64> = (0..extent).collect();
    match order {
        Order::Forward => {}
        Order::Reverse => turns.reverse(),
        Order::Shuffled(seed) => {
            // Knuth's shuffle over Marsaglia's xorshift.
            let mut state = seed | 1;
            for last in (1..turns.len()).rev() {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                turns.swap(last, (state % (last as u64 + 1)) as usize);
            }
        }
    }
    turns
}

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// The bits of a result: arithmetic gives one NaN only, as `tensor::Scalar` has it.
fn bits_of_f32(value: f32) -> u64 {
    u64::from(if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() })
}

fn bits_of_f64(value: f64) -> u64 {
    if value.is_nan() { 0x7ff8 << 48 } else { value.to_bits() }
}
