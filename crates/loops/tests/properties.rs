//! Random kernels print, parse and print again; what `Ranges` proves holds at every point.

use base::Id;
use loops::build::*;
use loops::{
    Access, BufferId, Comparison, Condition, Kernel, LoopKind, Ranges, ScalarExpr, Scope, Stmt,
    parse,
};
use proptest::prelude::*;
use sym::{Expr, Range, SymbolId};
use tensor::random::Generator;
use tensor::{DType, Reduction, Scalar, ScalarFunction};

/// Makes kernels up: well formed as text, not necessarily within bounds.
struct Maker {
    random: Generator,
    kernel: Kernel,
    /// Symbols in scope that may stand in index expressions.
    indices: Vec<SymbolId>,
    /// Symbols in scope that are values.
    values: Vec<SymbolId>,
}

impl Maker {
    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn kernel(seed: u64) -> Kernel {
        let (kernel, indices, values) = (Kernel::new("random"), Vec::new(), Vec::new());
        let mut maker = Maker { random: Generator::new(seed), kernel, indices, values };
        let range = [Range::ALL, Range::new(1, 512), Range::at_least(-4)][maker.below(3)];
        let n = maker.kernel.add_shape("n", 3, range);
        maker.indices.push(n);
        for name in ["a", "b", "c", "a"] {
            let access = [Access::Read, Access::Write, Access::Update][maker.below(3)];
            let (dtype, shape) = maker.buffer_type();
            let id = maker.kernel.add_parameter(name, dtype, shape, access);
            if maker.below(3) == 0 {
                let rank = maker.kernel.buffers[id].shape.len();
                maker.kernel.buffers[id].strides = Some((0..rank).map(|_| maker.expr(1)).collect());
            }
        }
        for scope in [Scope::Scratch, Scope::Register] {
            let (dtype, shape) = maker.buffer_type();
            maker.kernel.add_buffer("t", dtype, shape, scope);
        }
        if maker.below(2) == 0 {
            maker.kernel.origin = vec![base::LocationId::new(3), base::LocationId::new(0)];
        }
        maker.kernel.body = maker.block(3);
        maker.kernel
    }

    fn buffer_type(&mut self) -> (DType, Vec<Expr>) {
        let types = [DType::F32, DType::F32, DType::I64, DType::Bool, DType::BF16, DType::I4];
        let dtype = types[self.below(types.len())];
        let rank = self.below(4);
        (dtype, (0..rank).map(|_| self.expr(1)).collect())
    }

    fn expr(&mut self, depth: u32) -> Expr {
        let small = self.below(9) as i64 - 2;
        if self.indices.is_empty() {
            return small.into();
        }
        let position = self.below(self.indices.len());
        let symbol = self.indices[position];
        if depth == 0 {
            return if self.below(2) == 0 { small.into() } else { symbol.into() };
        }
        let (a, b) = (self.expr(depth - 1), self.expr(depth - 1));
        let divisor = Expr::constant(self.below(5) as i64 + 1);
        match self.below(8) {
            0 => a.floor_div(&divisor),
            1 => a.modulo(&divisor),
            2 => a.min(&b),
            3 => a.max(&b),
            4 => a * &b,
            5 => a - &b,
            _ => a * small + &b,
        }
    }

    fn conditions(&mut self) -> Vec<Condition> {
        use Comparison::{Equal, Less, LessEqual, NotEqual};
        let count = 1 + self.below(2);
        let one = |maker: &mut Maker| Condition {
            left: maker.expr(1),
            comparison: [Less, LessEqual, Equal, NotEqual][maker.below(4)],
            right: maker.expr(1),
        };
        (0..count).map(|_| one(self)).collect()
    }

    fn block(&mut self, depth: u32) -> Vec<Stmt> {
        let (indices, values) = (self.indices.len(), self.values.len());
        let count = self.below(4);
        let block = (0..count).map(|_| self.statement(depth)).collect();
        self.indices.truncate(indices);
        self.values.truncate(values);
        block
    }

    fn statement(&mut self, depth: u32) -> Stmt {
        let kind = if depth == 0 { 3 + self.below(3) } else { self.below(6) };
        match kind {
            0 => {
                let kinds = [
                    LoopKind::Serial,
                    LoopKind::Parallel,
                    LoopKind::Vector,
                    LoopKind::Unroll,
                    LoopKind::Instruction("dot".into()),
                ];
                let (extent, kind) = (self.expr(1), kinds[self.below(5)].clone());
                let variable = self.kernel.add_loop_variable("i");
                self.indices.push(variable);
                let body = self.block(depth - 1);
                self.indices.retain(|symbol| *symbol != variable);
                for_loop(variable, extent, kind, body)
            }
            1 => if_else(self.conditions(), self.block(depth - 1), self.block(depth - 1)),
            2 => Stmt::While {
                setup: self.block(depth - 1),
                condition: self.value(DType::Bool, 2),
                body: self.block(depth - 1),
            },
            3 => {
                let dtype = [DType::I64, DType::F32, DType::F16][self.below(3)];
                let range = (dtype == DType::I64).then(|| Range::new(0, self.below(9) as i64));
                let value = self.value(dtype, 2);
                let symbol = self.kernel.add_value("x", dtype, range);
                self.values.push(symbol);
                if range.is_some() {
                    self.indices.push(symbol);
                }
                let_value(symbol, value)
            }
            _ => {
                let (buffer, index) = self.element();
                let dtype = self.kernel.buffers[buffer].dtype;
                let value = self.value(dtype, 3);
                let reductions: Vec<Reduction> =
                    Reduction::all().filter(|reduction| reduction.accepts(dtype)).collect();
                match self.below(2) {
                    0 => store(buffer, index, value),
                    _ => reduce(buffer, index, reductions[self.below(reductions.len())], value),
                }
            }
        }
    }

    fn element(&mut self) -> (BufferId, Vec<Expr>) {
        let buffer = BufferId::new(self.below(self.kernel.buffers.len()));
        let rank = self.kernel.buffers[buffer].shape.len();
        (buffer, (0..rank).map(|_| self.expr(2)).collect())
    }

    fn value(&mut self, dtype: DType, depth: u32) -> ScalarExpr {
        let known: Vec<SymbolId> = self.values.clone();
        let symbol =
            known.iter().find(|id| ScalarExpr::Symbol(**id).dtype(&self.kernel) == Some(dtype));
        match (self.below(if depth == 0 { 3 } else { 8 }), symbol) {
            (0, Some(symbol)) => ScalarExpr::Symbol(*symbol),
            (1, _) if dtype == DType::I64 => index(self.expr(2)),
            (2 | 3, _) => {
                let (buffer, index) = self.element();
                let value = load(buffer, index);
                if value.dtype(&self.kernel) == Some(dtype) { value } else { cast(dtype, value) }
            }
            (4, _) => {
                guard(self.conditions(), self.value(dtype, depth - 1), self.value(dtype, depth - 1))
            }
            (5 | 6, _) => self.application(dtype, depth),
            (7, _) => {
                let (buffer, mut index) = self.element();
                index.pop();
                let value = fold(Reduction::Max, buffer, index);
                if value.dtype(&self.kernel) == Some(dtype) { value } else { cast(dtype, value) }
            }
            _ => constant(Scalar::from_bits(dtype, self.random.bits())),
        }
    }

    fn application(&mut self, dtype: DType, depth: u32) -> ScalarExpr {
        use ScalarFunction::*;
        let functions = [Add, Sub, Mul, Div, Max, Exp, FusedMultiplyAdd, Select, Not, Neg];
        let function = functions[self.below(functions.len())];
        let mut operands = vec![dtype; function.arity()];
        if function == Select {
            operands[0] = DType::Bool;
        }
        if function.result_dtype(&operands, None) != Ok(dtype) {
            return constant(Scalar::one(dtype));
        }
        let arguments = operands.iter().map(|dtype| self.value(*dtype, depth - 1)).collect();
        self.kernel.apply(function, arguments)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn kernels_round_trip(seed in any::<u64>()) {
        let printed = Maker::kernel(seed).to_string();
        let parsed = parse(&printed).map_err(|errors| {
            TestCaseError::fail(format!("{errors}\n{printed}"))
        })?;
        prop_assert_eq!(parsed.to_string(), printed.clone());
        prop_assert_eq!(parse(&printed), Ok(parsed));
        // The verifier may say anything, but it must say it.
        _ = loops::verify_scheduled(&Maker::kernel(seed));
    }

    #[test]
    fn lines_are_those_of_statements(seed in any::<u64>()) {
        check_lines(&Maker::kernel(seed))?;
    }

    #[test]
    fn proofs_hold(seed in any::<u64>()) {
        check_proofs(seed);
    }
}

/// The lines are the text, and each statement has its own: the first is how it begins, and a simple
/// one has no other.
fn check_lines(kernel: &Kernel) -> Result<(), TestCaseError> {
    // Reading the text gives symbols the order that it has them in.
    let kernel = &parse(&kernel.to_string()).map_err(|it| TestCaseError::fail(it.to_string()))?;
    let lines = loops::print_lines(kernel);
    let text: String = lines.iter().map(|(line, _)| format!("{line}\n")).collect();
    prop_assert_eq!(&text, &kernel.to_string());
    let (mut statements, mut number) = (Vec::new(), 0);
    loops::visit::walk(&kernel.body, &mut |stmt| statements.push(stmt));
    for stmt in statements {
        let own = lines.iter().filter(|(_, of)| *of == Some(number));
        let own: Vec<&str> = own.map(|(line, _)| line.trim_start()).collect();
        let printed = loops::print_statement(kernel, stmt);
        prop_assert_eq!(Some(own[0]), printed.lines().next());
        let is_simple = stmt.blocks().next().is_none();
        prop_assert_eq!(own.len() == 1, is_simple);
        number += 1;
    }
    prop_assert!(lines.iter().all(|(_, of)| of.is_none_or(|of| of < number)));
    Ok(())
}

/// Three loops, random conditions, random goals: what is proved holds wherever the conditions do.
fn check_proofs(seed: u64) {
    let mut maker = Maker {
        random: Generator::new(seed),
        kernel: Kernel::new("proofs"),
        indices: Vec::new(),
        values: Vec::new(),
    };
    let mut ranges = Ranges::new(&maker.kernel);
    let mut extents: Vec<Expr> = Vec::new();
    for name in ["i", "j", "k"] {
        let symbolic = !extents.is_empty() && maker.below(2) == 0;
        let extent = if symbolic { maker.expr(1) } else { (maker.below(7) as i64).into() };
        let variable = maker.kernel.add_loop_variable(name);
        let Stmt::For(inner) = for_loop(variable, &extent, LoopKind::Serial, Vec::new()) else {
            unreachable!("`for_loop` makes loops");
        };
        ranges.enter(&inner);
        extents.push(extent);
        maker.indices.push(variable);
    }
    let conditions = maker.conditions();
    ranges.assume(&conditions);
    let indices: Vec<Expr> = (0..8).map(|_| maker.expr(2)).collect();
    let goals: Vec<Condition> = (0..4).flat_map(|_| maker.conditions()).collect();
    let mut points = vec![Vec::new()];
    for extent in &extents {
        let extended = points.iter().flat_map(|point: &Vec<i64>| {
            let extent = extent.evaluate(&|symbol| point.get(symbol.index()).copied());
            (0..extent.unwrap_or(0)).map(move |value| [&point[..], &[value]].concat())
        });
        points = extended.collect();
    }
    let holds = |condition: &Condition, point: &[i64]| {
        let value = |expr: &Expr| expr.evaluate(&|symbol| point.get(symbol.index()).copied());
        let (Some(left), Some(right)) = (value(&condition.left), value(&condition.right)) else {
            return true;
        };
        match condition.comparison {
            Comparison::Less => left < right,
            Comparison::LessEqual => left <= right,
            Comparison::Equal => left == right,
            Comparison::NotEqual => left != right,
        }
    };
    points.retain(|point| conditions.iter().all(|condition| holds(condition, point)));
    for point in &points {
        assert!(!ranges.unreachable(), "{point:?} is reached");
        for goal in &goals {
            assert!(!ranges.prove(goal) || holds(goal, point), "{goal:?} at {point:?}");
        }
        for index in &indices {
            let value = index.evaluate(&|symbol| point.get(symbol.index()).copied());
            let Some(value) = value else { continue };
            assert!(ranges.bounds(index).contains(value), "{index:?} at {point:?}");
            for extent in [1, 3, 8, 20] {
                let inside = (0..extent).contains(&value);
                let proved = ranges.prove_within(index, &Expr::constant(extent));
                assert!(!proved || inside, "{index:?} within {extent} at {point:?}");
            }
        }
    }
}
