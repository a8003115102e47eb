//! Property tests: random expressions against a naive evaluator in 128 bits.

use base::Id;
use proptest::prelude::*;

use crate::tests::{NAMES, parse, print};
use crate::{Atom, Expr, Memo, Range, SymbolId, proves_less_equal, proves_less_than};

/// An expression as written.
#[derive(Clone, Debug)]
enum Tree {
    Constant(i64),
    Symbol(usize),
    Binary(Operation, Box<Tree>, Box<Tree>),
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Add,
    Sub,
    Mul,
    Div,
    Ceil,
    Mod,
    Min,
    Max,
}

impl Tree {
    fn build(&self) -> Expr {
        match self {
            Tree::Constant(value) => Expr::constant(*value),
            Tree::Symbol(index) => Expr::symbol(SymbolId::new(*index)),
            Tree::Binary(operation, a, b) => {
                let (a, b) = (a.build(), b.build());
                match operation {
                    Operation::Add => a + b,
                    Operation::Sub => a - b,
                    Operation::Mul => a * b,
                    Operation::Div => a.floor_div(&b),
                    Operation::Ceil => a.ceil_div(&b),
                    Operation::Mod => a.modulo(&b),
                    Operation::Min => Expr::min(&a, &b),
                    Operation::Max => Expr::max(&a, &b),
                }
            }
        }
    }

    /// `None` where a divisor is zero.
    fn evaluate(&self, values: &[i64]) -> Option<i128> {
        Some(match self {
            Tree::Constant(value) => i128::from(*value),
            Tree::Symbol(index) => i128::from(values[*index]),
            Tree::Binary(operation, a, b) => {
                let (a, b) = (a.evaluate(values)?, b.evaluate(values)?);
                let floor = |a: i128, b: i128| {
                    let quotient = a.checked_div(b)?;
                    Some(quotient - i128::from(quotient * b != a && (a < 0) != (b < 0)))
                };
                match operation {
                    Operation::Add => a + b,
                    Operation::Sub => a - b,
                    Operation::Mul => a * b,
                    Operation::Div => floor(a, b)?,
                    Operation::Ceil => -floor(-a, b)?,
                    Operation::Mod => a - b * floor(a, b)?,
                    Operation::Min => a.min(b),
                    Operation::Max => a.max(b),
                }
            }
        })
    }
}

fn leaf() -> impl Strategy<Value = Tree> {
    prop_oneof![
        (-20..20i64).prop_map(Tree::Constant),
        prop_oneof![Just(1i64), Just(2), Just(4), Just(8), Just(16)].prop_map(Tree::Constant),
        (0..5usize).prop_map(Tree::Symbol),
        (0..5usize).prop_map(Tree::Symbol),
    ]
}

fn binary(operation: Operation, a: Tree, b: Tree) -> Tree {
    Tree::Binary(operation, Box::new(a), Box::new(b))
}

/// What schedules make of loop indices: `x = a*s + b*t + c` divided by a small number, its
/// remainder, and both put together again as `k*n*(x div n) + l*(x mod n)`, most often `l = k`; or
/// what is left of the quotient by another number instead of that.
fn index() -> impl Strategy<Value = Tree> {
    use Operation::*;
    let small = || prop::sample::select(vec![1i64, 2, 3, 4, 8, 16, -1]);
    let number = Tree::Constant;
    let scaled = move |a, symbol| binary(Mul, Tree::Symbol(symbol), number(a));
    ((small(), small(), -4..4i64), (0..5usize, 0..5usize), small(), (small(), small()), 0..7usize)
        .prop_map(move |((a, b, c), (s, t), n, (k, l), shape)| {
            let x = binary(Add, binary(Add, scaled(a, s), scaled(b, t)), number(c));
            let mut divided = binary(Div, x.clone(), number(n));
            if shape == 6 {
                let further = binary(Add, divided, Tree::Symbol(t));
                divided = binary(Mod, further, number(a));
            }
            let rest = binary(Mod, x, number(n));
            match shape {
                0 => divided,
                1 => rest,
                _ => {
                    let l = if shape == 2 { l } else { k };
                    let divided = binary(Mul, divided, number(k * n));
                    binary(Add, divided, binary(Mul, rest, number(l)))
                }
            }
        })
}

/// Products have a leaf on the right, so that coefficients stay far from the ends of `i64`.
fn tree() -> impl Strategy<Value = Tree> {
    use Operation::*;
    prop_oneof![2 => leaf(), 1 => index()].prop_recursive(4, 24, 2, move |inner| {
        let any_of = prop::sample::select(vec![Add, Add, Sub, Div, Ceil, Mod, Min, Max]);
        let by_leaf = prop::sample::select(vec![Mul, Mul, Div, Mod]);
        prop_oneof![
            (any_of, inner.clone(), inner.clone()).prop_map(move |(o, a, b)| binary(o, a, b)),
            (by_leaf, inner, leaf()).prop_map(move |(o, a, b)| binary(o, a, b)),
        ]
    })
}

/// The ranges of `i`, `j`, `k`, `n` and `m`.
const RANGES: [Range; 6] = [
    Range::extent(16),
    Range::extent(4),
    Range::new(-50, 50),
    Range::new(1, 20),
    Range::at_least(1),
    Range::ALL,
];

fn ranges(symbol: SymbolId) -> Range {
    RANGES[symbol.index()]
}

fn values() -> impl Strategy<Value = Vec<i64>> {
    (0..16i64, 0..4i64, -50..=50i64, 1..=20i64, 1..100i64)
        .prop_map(|(i, j, k, n, m)| vec![i, j, k, n, m])
}

fn value_of(expr: &Expr, values: &[i64]) -> Option<i128> {
    expr.evaluate(&|symbol| values.get(symbol.index()).copied()).map(i128::from)
}

/// Checks the invariants stated at the head of `expr.rs`.
fn assert_canonical(expr: &Expr) {
    let factors = |index: usize| &expr.terms[index].factors;
    for index in 1..expr.terms.len() {
        assert!(factors(index - 1).cmp(factors(index)).is_lt(), "{expr:?} is sorted");
    }
    for term in expr.terms() {
        assert!(term.coefficient() != 0 && !term.factors().is_empty());
        assert!(term.factors().is_sorted_by(|a, b| a.structural_cmp(b).is_le()));
        for (a, b) in term.factors().iter().filter_map(Atom::operands) {
            assert_canonical(a);
            assert_canonical(b);
        }
    }
    assert_eq!(expr.substitute(&mut |symbol| Some(symbol.into())), *expr, "folding again");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn canonical_form_keeps_the_value(tree in tree(), values in values()) {
        let expr = tree.build();
        assert_canonical(&expr);
        if let Some(expected) = tree.evaluate(&values) {
            prop_assert_eq!(value_of(&expr, &values), Some(expected), "{:?}", expr);
        }
    }

    #[test]
    fn simplification_keeps_the_value(tree in tree(), values in values()) {
        let expr = tree.build();
        let simplified = expr.simplify(&ranges);
        assert_canonical(&simplified);
        if let Some(expected) = tree.evaluate(&values) {
            prop_assert_eq!(value_of(&simplified, &values), Some(expected),
                "{:?} became {:?}", expr, simplified);
            let bounds = expr.bounds(&ranges);
            prop_assert!(bounds.contains(expected as i64), "{:?} in {:?}", expr, bounds);
        }
    }

    #[test]
    fn pieces_are_what_is_met_one_by_one(tree in tree(), symbol in 0..5usize, from in -9..9i64) {
        let expr = tree.build();
        let value = |at: i64| {
            let mut values = [0; 5];
            values[symbol] = at;
            tree.evaluate(&values)?;
            value_of(&expr, &values)
        };
        let mut at = from;
        while at < from + 64 {
            let Some(piece) = expr.piece(SymbolId::new(symbol), at) else { break };
            prop_assert!(piece.until > at, "{:?}", expr);
            for later in at..piece.until.min(from + 64) {
                let found = piece.value + piece.slope * (later - at);
                let expected = value(later);
                prop_assert!(expected.is_none_or(|it| it == i128::from(found)),
                    "{:?} at {}, by {:?}", expr, later, piece);
            }
            at = piece.until;
        }
    }

    #[test]
    fn what_is_simple_stays(tree in tree()) {
        let simplified = tree.build().simplify(&ranges);
        for expr in [tree.build(), simplified] {
            if expr.is_simple(&ranges) {
                prop_assert_eq!(expr.rewritten(&ranges), expr);
            }
        }
    }

    #[test]
    fn what_is_remembered_is_what_is_found(trees in prop::collection::vec(tree(), 1..24)) {
        let mut memo = Memo::new();
        for (tree, constant) in trees.iter().flat_map(|tree| [(tree, 0), (tree, 7)]) {
            let expr = tree.build() + constant;
            let mut rewritten = expr.clone();
            memo.rewrite(&mut rewritten, |terms| {
                (!terms.is_simple(&ranges)).then(|| terms.simplify(&ranges))
            });
            prop_assert_eq!(rewritten, expr.simplify(&ranges));
        }
    }

    #[test]
    fn substitution_keeps_the_value(
        tree in tree(),
        replacement in tree(),
        index in 0..5usize,
        values in values(),
    ) {
        let (expr, put) = (tree.build(), replacement.build());
        let symbol = SymbolId::new(index);
        let result = expr.substitute(&mut |other| (other == symbol).then(|| put.clone()));
        assert_canonical(&result);
        let Some(inner) = replacement.evaluate(&values) else { return Ok(()) };
        let mut inside = values.clone();
        inside[index] = inner as i64;
        // Numbers may grow beyond `i64` here; only those that stay are compared.
        if let Some(expected) = tree.evaluate(&inside).filter(|v| v.abs() < 1 << 40)
            && !result.is_saturated()
        {
            prop_assert_eq!(value_of(&result, &values), Some(expected), "{:?}", result);
        }
    }

    #[test]
    fn renaming_is_substitution(tree in tree(), shift in 1..5usize, swaps in any::<bool>()) {
        let name = |symbol: SymbolId| match swaps {
            true => SymbolId::new(4 - symbol.index()),
            false => SymbolId::new((symbol.index() + shift) % 5),
        };
        let (expr, mut renamed) = (tree.build(), tree.build());
        renamed.rename(&name);
        assert_canonical(&renamed);
        prop_assert_eq!(renamed, expr.substitute(&mut |symbol| Some(Expr::symbol(name(symbol)))));
    }

    #[test]
    fn text_round_trips(tree in tree()) {
        let expr = tree.build();
        let text = print(&expr);
        let read = parse(&text);
        prop_assert_eq!(print(&read), text);
        prop_assert_eq!(read, expr);
    }

    #[test]
    fn proofs_hold(a in tree(), b in tree(), values in values()) {
        let (x, y) = (a.build(), b.build());
        if let (Some(a), Some(b)) = (a.evaluate(&values), b.evaluate(&values)) {
            prop_assert!(a < b || !proves_less_than(&x, &y, &ranges), "{:?} < {:?}", x, y);
            prop_assert!(a <= b || !proves_less_equal(&x, &y, &ranges), "{:?} <= {:?}", x, y);
        }
    }

    #[test]
    fn answers_agree_with_values(tree in tree(), values in values(), n in 1..20i64) {
        let expr = tree.build();
        let Some(value) = tree.evaluate(&values) else { return Ok(()) };
        prop_assert!(!expr.divisible_by(n) || value % i128::from(n) == 0, "{:?}", expr);
        let symbols = expr.symbols();
        for symbol in (0..NAMES.len()).map(SymbolId::new) {
            prop_assert_eq!(expr.contains(symbol), symbols.contains(&symbol));
            if let Some(coefficient) = expr.linear_coefficient(symbol) {
                let rest = expr.without(symbol);
                prop_assert!(!rest.contains(symbol));
                prop_assert_eq!(rest + &(Expr::symbol(symbol) * coefficient), expr.clone());
            }
        }
    }

    #[test]
    fn ring_laws(a in tree(), b in tree(), c in leaf()) {
        let (a, b, c) = (a.build(), b.build(), c.build());
        prop_assert_eq!(&a + &b, &b + &a);
        prop_assert_eq!(&a - &b + &b, a.clone());
        prop_assert_eq!((&a + &b) * &c, &a * &c + &b * &c);
    }

    #[test]
    fn extremes_do_not_panic(
        values in prop::collection::vec(
            prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(i64::MIN + 1), any::<i64>(), -2..3i64],
            8,
        ),
    ) {
        let symbol = |index: usize| Expr::symbol(SymbolId::new(index));
        let linear =
            |at: usize| symbol(0) * values[at] + symbol(1) * values[at + 1] + values[at + 2];
        let (a, b) = (linear(0), linear(3));
        let any = |_| Range::new(values[6].min(values[7]), values[6].max(values[7]));
        for b in [b, Expr::constant(values[3])] {
            for expr in [
                &a + &b, &a - &b, &a * &b, a.floor_div(&b), a.modulo(&b), a.ceil_div(&b),
                Expr::min(&a, &b), Expr::max(&a, &b),
            ] {
                let _ = (expr.simplify(&any), expr.bounds(&any), expr.known_divisor());
                let _ = expr.evaluate(&|_| Some(values[6]));
                let _ = (proves_less_than(&expr, &a, &any), proves_less_equal(&b, &expr, &any));
                prop_assert_eq!(print(&parse(&print(&expr))), print(&expr));
            }
        }
    }

    #[test]
    fn ranges_are_sound(
        (a, b) in (any::<i64>(), any::<i64>()),
        (c, d) in (-9..9i64, -9..9i64),
        (s, t) in (0..=4i64, 0..=4i64),
    ) {
        let large = Range::new(a.min(b), a.max(b));
        let small = Range::new(c.min(d), c.max(d));
        // A value a quarter of the way along, and so on.
        let inside = |range: Range, part: i64| {
            let width = i128::from(range.max) - i128::from(range.min);
            i128::from(range.min) + width * i128::from(part) / 4
        };
        for (x, y) in [(large, small), (small, large), (small, small), (large, large)] {
            let (p, q) = (inside(x, s), inside(y, t));
            let holds = |range: Range, value: i128| {
                (range.min == i64::MIN || i128::from(range.min) <= value)
                    && (range.max == i64::MAX || value <= i128::from(range.max))
            };
            prop_assert!(holds(x.plus(y), p + q));
            prop_assert!(holds(x.times(y), p * q));
            prop_assert!(y.as_constant().is_none_or(|y| holds(x.scaled(y), p * q)));
            prop_assert!(holds(x.min_with(y), p.min(q)) && holds(x.max_with(y), p.max(q)));
            if q != 0 {
                let quotient = p.div_euclid(q) - i128::from(q < 0 && p.rem_euclid(q) != 0);
                prop_assert!(holds(x.floor_div(y), quotient), "{x:?} div {y:?}");
                prop_assert!(holds(x.modulo(y), p - q * quotient), "{x:?} mod {y:?}");
            }
        }
    }
}
