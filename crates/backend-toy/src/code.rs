//! Scheduled kernels as code of the register machine.
//!
//! A value is computed into a register of its own; a symbol has one as long as it is bound. Index
//! expressions are arithmetic of 64-bit integers by the same rows of the scalar function table.

use base::SecondaryMap;
use loops::{
    BufferId, Comparison, Condition, Kernel, Loop, ScalarExpr, Stmt, SymbolKind, byte_size,
    constant_strides,
};
use program::Fault;
use sym::{Atom, Expr, Range, SymbolId};
use tensor::{DType, Reduction, Scalar, ScalarFunction};

use crate::machine::{Register, ToyCode, ToyInstruction};

/// Compiles a kernel of known sizes, for a program of so many symbols.
pub(crate) fn compile_kernel(kernel: &Kernel, program_symbols: usize) -> Result<ToyCode, String> {
    let mut writer = Writer {
        kernel,
        symbols: SecondaryMap::with_default(usize::MAX),
        buffers: SecondaryMap::with_default((usize::MAX, Vec::new())),
        code: ToyCode { registers: program_symbols, ..ToyCode::default() },
    };
    for (id, buffer) in kernel.buffers.iter() {
        let bytes = byte_size(buffer.dtype, &buffer.shape).as_constant();
        let (Some(strides), Some(bytes)) = (constant_strides(kernel, id), bytes) else {
            return Err(format!("the size of %{} is free", buffer.name));
        };
        let parameter = kernel.parameters.iter().position(|parameter| *parameter == id);
        let number = parameter.unwrap_or_else(|| {
            writer.code.own_bytes.push(bytes.max(0) as usize);
            kernel.parameters.len() + writer.code.own_bytes.len() - 1
        });
        writer.buffers.insert(id, (number, strides));
    }
    for (id, symbol) in kernel.symbols.iter() {
        let register = match symbol.kind {
            SymbolKind::Shape { position, .. } => position as usize,
            SymbolKind::Loop | SymbolKind::Value { .. } => writer.register(),
        };
        writer.symbols.insert(id, register);
    }
    writer.block(&kernel.body);
    Ok(writer.code)
}

struct Writer<'k> {
    kernel: &'k Kernel,
    /// The register of each symbol.
    symbols: SecondaryMap<SymbolId, Register>,
    /// The number of each buffer, and its strides.
    buffers: SecondaryMap<BufferId, (usize, Vec<i64>)>,
    code: ToyCode,
}

impl Writer<'_> {
    fn register(&mut self) -> Register {
        self.code.registers += 1;
        self.code.registers - 1
    }

    fn add(&mut self, instruction: ToyInstruction) {
        self.code.instructions.push(instruction);
    }

    /// A jump whose goal is set by [`Writer::land`].
    fn jump(&mut self, unless: Option<Register>) -> usize {
        self.add(ToyInstruction::Jump(usize::MAX, unless));
        self.code.instructions.len() - 1
    }

    /// Has a jump lead to what comes next.
    fn land(&mut self, jump: usize) {
        let here = self.code.instructions.len();
        if let ToyInstruction::Jump(to, _) = &mut self.code.instructions[jump] {
            *to = here;
        }
    }

    /// One of two sides: the first where conditions hold.
    fn either(&mut self, conditions: &[Condition], write: &mut dyn FnMut(&mut Self, usize)) {
        let condition = self.conditions(conditions);
        let to_otherwise = self.jump(Some(condition));
        write(self, 0);
        let to_end = self.jump(None);
        self.land(to_otherwise);
        write(self, 1);
        self.land(to_end);
    }

    fn block(&mut self, block: &[Stmt]) {
        block.iter().for_each(|stmt| self.statement(stmt));
    }

    fn statement(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(inner) => self.looped(inner),
            Stmt::Let { symbol, value } => self.bind(*symbol, value),
            Stmt::Store { buffer, index, value } => {
                let from = self.value(value);
                self.store(*buffer, index, from);
            }
            Stmt::Reduce { buffer, index, reduction, value } => {
                let dtype = self.kernel.buffers[*buffer].dtype;
                // Product and sum of floats round once.
                let (function, values) = match value {
                    ScalarExpr::Apply { function: ScalarFunction::Mul, arguments, .. }
                        if *reduction == Reduction::Sum && dtype.is_float() =>
                    {
                        (ScalarFunction::FusedMultiplyAdd, &arguments[..])
                    }
                    _ => (reduction.as_function(), std::slice::from_ref(value)),
                };
                let mut operands = self.values(values);
                operands.push(self.load(*buffer, index));
                let from = self.apply(function, dtype, &operands);
                self.store(*buffer, index, from);
            }
            Stmt::Prefetch { .. } => {}
            Stmt::If { conditions, then, otherwise } => {
                let sides = [then, otherwise];
                self.either(conditions, &mut |writer, side| writer.block(sides[side]));
            }
            Stmt::While { setup, condition, body } => {
                let again = self.code.instructions.len();
                self.block(setup);
                let condition = self.value(condition);
                let to_end = self.jump(Some(condition));
                self.block(body);
                self.add(ToyInstruction::Jump(again, None));
                self.land(to_end);
            }
        }
    }

    fn looped(&mut self, inner: &Loop) {
        let extent = self.index(&inner.extent);
        let variable = self.symbols[inner.variable];
        let zero = self.number(0);
        self.assign(variable, zero, DType::I64);
        let again = self.code.instructions.len();
        let goes_on = self.apply(ScalarFunction::Lt, DType::Bool, &[variable, extent]);
        let to_end = self.jump(Some(goes_on));
        self.block(&inner.body);
        let one = self.number(1);
        let next = self.apply(ScalarFunction::Add, DType::I64, &[variable, one]);
        self.assign(variable, next, DType::I64);
        self.add(ToyInstruction::Jump(again, None));
        self.land(to_end);
    }

    fn bind(&mut self, symbol: SymbolId, value: &ScalarExpr) {
        let from = self.value(value);
        let SymbolKind::Value { dtype, range } = self.kernel.symbols[symbol].kind else { return };
        let to = self.symbols[symbol];
        self.assign(to, from, dtype);
        if let Some(Range { min, max }) = range {
            for (function, limit) in [(ScalarFunction::Lt, min), (ScalarFunction::Gt, max)] {
                let limit = self.number(limit);
                let fails = self.apply(function, DType::Bool, &[to, limit]);
                let goes_on = self.jump(Some(fails));
                self.add(ToyInstruction::Stop(Fault::IndexOutOfRange.code()));
                self.land(goes_on);
            }
        }
    }

    fn values(&mut self, values: &[ScalarExpr]) -> Vec<Register> {
        values.iter().map(|value| self.value(value)).collect()
    }

    fn value(&mut self, value: &ScalarExpr) -> Register {
        match value {
            ScalarExpr::Constant(value) => self.set(*value),
            ScalarExpr::Symbol(symbol) => self.symbols[*symbol],
            ScalarExpr::Index(expr) => self.index(expr),
            ScalarExpr::Load { buffer, index } => self.load(*buffer, index),
            ScalarExpr::Apply { function, dtype, arguments } => {
                let operands = self.values(arguments);
                self.apply(*function, *dtype, &operands)
            }
            ScalarExpr::Guard { conditions, value, otherwise } => {
                let (to, sides) = (self.register(), [value, otherwise]);
                let dtype = value.dtype(self.kernel).unwrap_or(DType::I64);
                self.either(conditions, &mut |writer, side| {
                    let taken = writer.value(sides[side]);
                    writer.assign(to, taken, dtype);
                });
                to
            }
            ScalarExpr::Fold { reduction, buffer, index } => {
                let data = &self.kernel.buffers[*buffer];
                let (dtype, last) = (data.dtype, data.shape.last());
                let count = last.and_then(Expr::as_constant).unwrap_or(1);
                let element = |at: i64| self.load(*buffer, &[index, &[at.into()][..]].concat());
                let mut values: Vec<Register> = (0..count).map(element).collect();
                while values.len() > 1 {
                    let half = values.split_off(values.len() / 2);
                    let pairs = values.iter().zip(&half);
                    let function = reduction.as_function();
                    values = pairs.map(|(a, b)| self.apply(function, dtype, &[*a, *b])).collect();
                }
                values[0]
            }
        }
    }

    fn assign(&mut self, to: Register, from: Register, dtype: DType) {
        self.add(ToyInstruction::Apply(to, ScalarFunction::Cast, dtype, vec![from]));
    }

    fn apply(&mut self, function: ScalarFunction, dtype: DType, from: &[Register]) -> Register {
        let to = self.register();
        self.add(ToyInstruction::Apply(to, function, dtype, from.to_vec()));
        to
    }

    fn store(&mut self, buffer: BufferId, index: &[Expr], from: Register) {
        let at = self.place(buffer, index);
        self.add(ToyInstruction::Store(self.buffers[buffer].0, at, from));
    }

    fn load(&mut self, buffer: BufferId, index: &[Expr]) -> Register {
        let at = self.place(buffer, index);
        let (to, dtype) = (self.register(), self.kernel.buffers[buffer].dtype);
        self.add(ToyInstruction::Load(to, self.buffers[buffer].0, at, dtype));
        to
    }

    fn set(&mut self, value: Scalar) -> Register {
        let to = self.register();
        self.add(ToyInstruction::Set(to, value));
        to
    }

    fn number(&mut self, value: i64) -> Register {
        self.set(Scalar::from_i64(DType::I64, value))
    }

    /// The number of an element, counted from the first of its buffer.
    fn place(&mut self, buffer: BufferId, index: &[Expr]) -> Register {
        let strides = &self.buffers[buffer].1;
        let number: Expr = index.iter().zip(strides).map(|(index, by)| index * *by).sum();
        self.index(&number)
    }

    fn index(&mut self, expr: &Expr) -> Register {
        let mut sum = self.number(expr.constant_part());
        for term in expr.terms() {
            let mut product = self.number(term.coefficient());
            for atom in term.factors() {
                let factor = self.atom(atom);
                product = self.apply(ScalarFunction::Mul, DType::I64, &[product, factor]);
            }
            sum = self.apply(ScalarFunction::Add, DType::I64, &[sum, product]);
        }
        sum
    }

    fn atom(&mut self, atom: &Atom) -> Register {
        let (a, b) = match (atom, atom.operands()) {
            (Atom::Symbol(symbol), _) => return self.symbols[*symbol],
            (_, Some((a, b))) => (self.index(a), self.index(b)),
            (_, None) => unreachable!("all atoms but symbols have operands"),
        };
        let function = match atom {
            Atom::Min(..) => ScalarFunction::Min,
            Atom::Max(..) | Atom::Symbol(_) => ScalarFunction::Max,
            Atom::Mod(..) | Atom::FloorDiv(..) => ScalarFunction::Mod,
        };
        let result = self.apply(function, DType::I64, &[a, b]);
        match atom {
            // What is left is divided without a rest.
            Atom::FloorDiv(..) => {
                let whole = self.apply(ScalarFunction::Sub, DType::I64, &[a, result]);
                self.apply(ScalarFunction::Div, DType::I64, &[whole, b])
            }
            _ => result,
        }
    }

    fn conditions(&mut self, conditions: &[Condition]) -> Register {
        let mut all = self.set(Scalar::bool(true));
        for Condition { left, comparison, right } in conditions {
            let (left, right) = (self.index(left), self.index(right));
            let function = match comparison {
                Comparison::Less => ScalarFunction::Lt,
                Comparison::LessEqual => ScalarFunction::Le,
                Comparison::Equal => ScalarFunction::Eq,
                Comparison::NotEqual => ScalarFunction::Ne,
            };
            let holds = self.apply(function, DType::Bool, &[left, right]);
            all = self.apply(ScalarFunction::And, DType::Bool, &[all, holds]);
        }
        all
    }
}
