//! Random kernels in the scheduled form, as back ends are given them.
//!
//! A kernel has a few inputs and, row by row, writes outputs in vector loops or outside of them:
//! machine functions of every type, guards, conditions, partial results in registers with their
//! fold. Whether a result is a zero of one sign or the other is the same on every target.

use loops::build::{
    cast, constant, fold, for_loop, guard, if_else, index, less, less_equal, let_value, load,
    reduce, store,
};
use loops::{Access, BufferId, Condition, Kernel, LoopKind, ScalarExpr, Scope, Stmt};
use sym::{Expr, Range, SymbolId};
use tensor::random::Generator;
use tensor::{DType, Reduction, Scalar, ScalarFunction};

/// The element types of kernels.
const TYPES: [DType; 13] = [
    DType::F32,
    DType::F64,
    DType::F16,
    DType::BF16,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U64,
    DType::U32,
    DType::U16,
    DType::U8,
    DType::Bool,
];

/// A kernel that grows.
struct Grower {
    kernel: Kernel,
    random: Generator,
    /// Parameters that are only read, of shape `[rows, 2 * width + 8]`.
    inputs: Vec<BufferId>,
    rows: i64,
    width: i64,
    row: SymbolId,
    /// The variable of the vector loop around, if any.
    column: Option<SymbolId>,
    /// Values in scope, with their types.
    lets: Vec<(SymbolId, DType)>,
    /// Values in scope that may index, at most 7.
    indices: Vec<SymbolId>,
    serial: usize,
}

impl Grower {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.random.below(items.len() as u64) as usize].clone()
    }

    fn name(&mut self, stem: &str) -> String {
        self.serial += 1;
        format!("{stem}{}", self.serial)
    }

    /// A place along the second axis of an input, within it.
    fn column_index(&mut self) -> Expr {
        let offset = self.below(8) as i64;
        if !self.indices.is_empty() && self.below(3) == 0 {
            let indices = self.indices.clone();
            let chosen = Expr::symbol(self.pick(&indices));
            return match self.column.filter(|_| self.below(2) == 0) {
                Some(column) => chosen + &Expr::symbol(column),
                None => chosen,
            };
        }
        let Some(column) = self.column else { return Expr::constant(offset) };
        let column = Expr::symbol(column);
        match self.below(8) {
            0 => Expr::constant(offset),
            1 => column * 2 + offset,
            2 => Expr::constant(self.width - 1) - &column,
            3 => column.floor_div(&Expr::constant(3)) + offset,
            4 => column.modulo(&Expr::constant(5)) + offset,
            _ => column + offset,
        }
    }

    fn conditions(&mut self) -> Vec<Condition> {
        let count = 1 + self.below(2);
        let mut conditions = Vec::new();
        for _ in 0..count {
            let row = Expr::symbol(self.row);
            let left = match (self.column, self.below(5)) {
                (Some(column), 0) => Expr::symbol(column),
                (Some(column), 1) => Expr::symbol(column) + row * 3,
                (Some(column), 2) => {
                    let modulus = 2 + self.below(5) as i64;
                    (Expr::symbol(column) + row * 3 + 1).modulo(&Expr::constant(modulus)) * 5
                }
                _ => row,
            };
            let limit = self.below(self.width as u64 + 4) as i64;
            conditions.push(match self.below(2) {
                0 => less(left, limit),
                _ => less_equal(limit / 2, left),
            });
        }
        conditions
    }

    fn leaf(&mut self, dtype: DType) -> ScalarExpr {
        let known: Vec<SymbolId> =
            self.lets.iter().filter(|(_, known)| *known == dtype).map(|(s, _)| *s).collect();
        if !known.is_empty() && self.below(3) == 0 {
            return ScalarExpr::Symbol(self.pick(&known));
        }
        let inputs: Vec<BufferId> = self
            .inputs
            .iter()
            .copied()
            .filter(|input| self.kernel.buffers[*input].dtype == dtype)
            .collect();
        if !inputs.is_empty() && self.below(5) > 0 {
            let input = self.pick(&inputs);
            let place = [Expr::symbol(self.row), self.column_index()];
            return load(input, place);
        }
        let number = self.below(17) as i64 - 8;
        constant(Scalar::from_f64(dtype, number as f64 / 2.0))
    }

    fn value(&mut self, dtype: DType, depth: u32) -> ScalarExpr {
        if depth == 0 {
            return self.leaf(dtype);
        }
        match self.below(8) {
            0 => {
                let from = self.pick(&TYPES);
                let value = self.value(from, depth - 1);
                if from == dtype { value } else { cast(dtype, value) }
            }
            1 => {
                let conditions = self.conditions();
                let value = self.value(dtype, depth - 1);
                guard(conditions, value, self.leaf(dtype))
            }
            2 => {
                let place = match self.column {
                    Some(column) => Expr::symbol(column) * 3 - 7,
                    None => Expr::symbol(self.row) * 3 - 7,
                };
                if dtype == DType::I64 { index(place) } else { cast(dtype, index(place)) }
            }
            _ => self.application(dtype, depth),
        }
    }

    fn application(&mut self, dtype: DType, depth: u32) -> ScalarExpr {
        let functions: Vec<ScalarFunction> = ScalarFunction::all()
            .filter(|function| function.is_machine())
            .filter(|f| !matches!(f, ScalarFunction::Cast | ScalarFunction::Bitcast))
            .collect();
        loop {
            let function = self.pick(&functions);
            let operand = match function.is_predicate() {
                true => self.pick(&TYPES),
                false => dtype,
            };
            let operands = function.operand_dtypes(operand);
            if function.result_dtype(&operands, None) != Ok(dtype) {
                continue;
            }
            let arguments = operands.iter().map(|one| self.value(*one, depth - 1)).collect();
            let value = ScalarExpr::Apply { function, dtype, arguments };
            let extreme = matches!(function, ScalarFunction::Min | ScalarFunction::Max);
            if extreme && dtype.is_float() {
                // Either zero may come out; adding one makes it positive.
                let zero = constant(Scalar::zero(dtype));
                return self.kernel.apply(ScalarFunction::Add, vec![value, zero]);
            }
            return value;
        }
    }

    /// An index computed from data.
    fn bound_index(&mut self) -> Stmt {
        let dtype = self.pick(&[DType::I64, DType::I32, DType::U8, DType::F32]);
        let value = self.value(dtype, 1);
        let wide = if dtype == DType::I64 { value } else { cast(DType::I64, value) };
        let seven = constant(Scalar::i64(7));
        let value = self.kernel.apply(ScalarFunction::And, vec![wide, seven]);
        let name = self.name("x");
        let symbol = self.kernel.add_value(&name, DType::I64, Some(Range::new(0, 7)));
        self.indices.push(symbol);
        let_value(symbol, value)
    }

    /// Statements that write a new output, in a vector loop or outside of any.
    fn statements(&mut self, depth: u32) -> Vec<Stmt> {
        let dtype = self.pick(&TYPES);
        let width = self.width;
        match self.below(4) {
            0 => {
                let shape = vec![Expr::constant(self.rows)];
                let name = self.name("s");
                let out = self.kernel.add_parameter(&name, dtype, shape, Access::Write);
                vec![store(out, [Expr::symbol(self.row)], self.value(dtype, depth))]
            }
            1 => self.reduction(depth),
            _ => {
                let shape = vec![Expr::constant(self.rows), Expr::constant(width)];
                let name = self.name("v");
                let out = self.kernel.add_parameter(&name, dtype, shape, Access::Write);
                let name = self.name("i");
                let column = self.kernel.add_loop_variable(&name);
                self.column = Some(column);
                let (known, indices) = (self.lets.len(), self.indices.len());
                let mut body = Vec::new();
                if self.below(3) == 0 {
                    body.push(self.bound_index());
                }
                if self.below(2) == 0 {
                    let dtype = self.pick(&TYPES);
                    let value = self.value(dtype, depth);
                    let name = self.name("t");
                    let symbol = self.kernel.add_value(&name, dtype, None);
                    body.push(let_value(symbol, value));
                    self.lets.push((symbol, dtype));
                }
                let place = [Expr::symbol(self.row), Expr::symbol(column)];
                let first = store(out, place.clone(), self.value(dtype, depth));
                if self.below(3) == 0 {
                    let other = store(out, place, self.value(dtype, depth));
                    body.push(if_else(self.conditions(), vec![first], vec![other]));
                } else {
                    body.push(first);
                }
                self.lets.truncate(known);
                self.indices.truncate(indices);
                self.column = None;
                vec![for_loop(column, width, LoopKind::Vector, body)]
            }
        }
    }

    /// Partial results in registers, stored as they are or not, and their fold bound to a value.
    fn reduction(&mut self, depth: u32) -> Vec<Stmt> {
        use DType::{BF16, F16, F32, F64, I32, U8};
        let dtype = self.pick(&[F32, F64, I32, U8, F16, BF16]);
        let reduction = self.pick(&[Reduction::Sum, Reduction::Product]);
        let partials = self.pick(&[4i64, 8, 16, 32]);
        let name = self.name("p");
        let shape = vec![Expr::constant(partials)];
        let registers = self.kernel.add_buffer(&name, dtype, shape, Scope::Register);
        let identity = constant(reduction.identity(dtype));
        let mut block = Vec::new();
        let name = self.name("a");
        let first = self.kernel.add_loop_variable(&name);
        block.push(for_loop(
            first,
            partials,
            LoopKind::Vector,
            vec![store(registers, [Expr::symbol(first)], identity)],
        ));
        let (name, inner) = (self.name("k"), self.name("b"));
        let turns = self.kernel.add_loop_variable(&name);
        let column = self.kernel.add_loop_variable(&inner);
        // Columns of inputs as wide as the partial results.
        let width = std::mem::replace(&mut self.width, partials);
        self.column = (2 * partials <= 2 * width).then_some(column);
        let value = self.value(dtype, depth);
        self.column = None;
        self.width = width;
        let update = reduce(registers, [Expr::symbol(column)], reduction, value);
        let inner = for_loop(column, partials, LoopKind::Vector, vec![update]);
        block.push(for_loop(turns, 3i64, LoopKind::Serial, vec![inner]));
        if self.below(2) == 0 {
            let (name, variable) = (self.name("w"), self.name("c"));
            let shape = vec![Expr::constant(self.rows), Expr::constant(partials)];
            let out = self.kernel.add_parameter(&name, dtype, shape, Access::Write);
            let column = self.kernel.add_loop_variable(&variable);
            let partial = load(registers, [Expr::symbol(column)]);
            let kept = store(out, [Expr::symbol(self.row), Expr::symbol(column)], partial);
            block.push(for_loop(column, partials, LoopKind::Vector, vec![kept]));
        }
        let name = self.name("f");
        let symbol = self.kernel.add_value(&name, dtype, None);
        let none: [Expr; 0] = [];
        block.push(let_value(symbol, fold(reduction, registers, none)));
        self.lets.push((symbol, dtype));
        block
    }
}

/// The kernel of a seed; `depth` is how deep its expressions are at most.
pub fn random_kernel(seed: u64, depth: u32) -> Kernel {
    let mut random = Generator::new(seed);
    let rows = 1 + random.below(4) as i64;
    let width = 1 + random.below(70) as i64;
    let mut kernel = Kernel::new("random");
    let row = kernel.add_loop_variable("r");
    let mut inputs = Vec::new();
    for number in 0..3 {
        let dtype = TYPES[random.below(TYPES.len() as u64) as usize];
        let shape = vec![Expr::constant(rows), Expr::constant(2 * width + 8)];
        inputs.push(kernel.add_parameter(&format!("x{number}"), dtype, shape, Access::Read));
    }
    let mut grower = Grower {
        kernel,
        random,
        inputs,
        rows,
        width,
        row,
        column: None,
        lets: Vec::new(),
        indices: Vec::new(),
        serial: 0,
    };
    let mut body = Vec::new();
    if grower.below(3) == 0 {
        body.push(grower.bound_index());
    }
    for _ in 0..1 + grower.below(3) {
        body.extend(grower.statements(depth));
    }
    let kind = grower.pick(&[LoopKind::Serial, LoopKind::Parallel, LoopKind::Unroll]);
    let mut kernel = grower.kernel;
    kernel.body = vec![for_loop(row, rows, kind, body)];
    kernel
}
