//! Tests of the whole crate, in the text form.

use base::Id;
use base::text::Parser;

use crate::{Expr, Range, SymbolId, parse_expr, parse_range};

pub(crate) const NAMES: [&str; 6] = ["i", "j", "k", "n", "m", "batch size"];

pub(crate) fn name(symbol: SymbolId) -> &'static str {
    NAMES[symbol.index()]
}

pub(crate) fn parse(text: &str) -> Expr {
    let mut parser = Parser::new(text);
    let resolve = |name: &str| NAMES.iter().position(|known| *known == name).map(SymbolId::new);
    let expr = parse_expr(&mut parser, &mut { resolve }).unwrap_or_else(|e| panic!("{e}"));
    parser.expect_end().unwrap_or_else(|e| panic!("{e}"));
    expr
}

pub(crate) fn print(expr: &Expr) -> String {
    expr.display(&name).to_string()
}

/// i in 0..16, j in 0..4, k anything, n and m at least 1.
fn ranges(symbol: SymbolId) -> Range {
    match name(symbol) {
        "i" => Range::extent(16),
        "j" => Range::extent(4),
        "k" => Range::ALL,
        _ => Range::at_least(1),
    }
}

/// The canonical form of `text` prints as `expected`, and reads back equal.
#[track_caller]
fn check(text: &str, expected: &str) {
    let expr = parse(text);
    assert_eq!(print(&expr), expected, "of {text}");
    assert_eq!(parse(expected), expr);
}

/// Simplified in `ranges`.
#[track_caller]
fn check_simplify(text: &str, expected: &str) {
    assert_eq!(print(&parse(text).simplify(&ranges)), expected, "of {text}");
}

#[test]
fn polynomials() {
    check("j + 4*i - 1 - j + j", "4*i + j - 1");
    check("(i + 1)*(i - 1)", "i*i - 1");
    check("-i - -3", "-i + 3");
    check("i*0 - 0", "0");
    check("n*m*2 - m*n", "n*m");
    check("\"batch size\"*3", "3*\"batch size\"");
    check("-9223372036854775808 + i", "i + -9223372036854775808");
}

#[test]
fn quotients_and_remainders() {
    check("(16*i + j) div 16", "i + (j) div 16");
    check("(16*i + j) mod 16", "(j) mod 16");
    check("(i + 19) div 16", "(i + 3) div 16 + 1");
    check("(4*i + 3) div 16", "(i) div 4");
    check("(4*i + 3) mod 16", "4*((i) mod 4) + 3");
    check("(i div 4) div 3", "(i) div 12");
    check("(i div 4 + 1) div 3", "(i + 4) div 12");
    check("(i mod 12 + j) mod 4", "(i + j) mod 4");
    check("(i mod 6) mod 4", "((i) mod 6) mod 4");
    check("i div -4", "(-i) div 4");
    check("i mod -4", "-((-i) mod 4)");
    check("-7 div 2 + 0*i", "-4");
    check("-7 mod 3", "2");
    check("i div 0", "(i) div 0");
    check("i*n div n", "i");
    check("(i*n + j) div n", "i + (j) div n");
    check("(i*n + j) mod n", "(j) mod n");
    check("((i + n)*(j + 2)) div (n + i)", "j + 2");
    check("(4*i) mod (6*n)", "2*((2*i) mod (3*n))");
    check("i div (-n)", "(-i) div n");
    check("(i - 1) div 16 - i", "-i + (i + 15) div 16 - 1");
}

#[test]
fn extrema() {
    check("min(i, i + 1)", "i");
    check("(i + min(102, 32*j)) div 2", "(i) div 2 + min(51, 16*j)");
    check("(i + 3*max(10, 4*j)) div 6", "(i) div 6 + max(5, 2*j)");
    check("(i + min(102, 32*j) + 3) mod 2", "(i + 1) mod 2");
    check("(i + min(101, 32*j)) mod 2", "(i + min(101, 32*j)) mod 2");
    check("max(3, min(5, 4))", "4");
    check("min(min(j, i), min(i + 1, k))", "min(min(i, j), k)");
    check("max(min(i, j), max(2, j))", "max(max(2, j), min(i, j))");
    check("max(0, max(0, n - 2) - 1)", "max(0, n - 3)");
}

#[test]
fn ceil_div_rounds_up() {
    assert_eq!(print(&parse("i").ceil_div(&parse("16"))), "(i + 15) div 16");
    assert_eq!(print(&parse("16*i + 1").ceil_div(&parse("16"))), "i + 1");
    assert_eq!(print(&parse("i").ceil_div(&parse("n"))), "-((-i) div n)");
}

#[test]
fn simplifies_by_range() {
    check_simplify("(16*k + i) div 16", "k");
    check_simplify("(16*k + i) mod 16", "i");
    check_simplify("(4*k + j) div 16", "(k) div 4");
    check_simplify("(4*k + j) mod 16", "j + 4*((k) mod 4)");
    check_simplify("min(i, 15) + max(j, 3)", "i + 3");
    check_simplify("min(i, n)", "min(i, n)");
    check_simplify("16*(k div 16) + k mod 16", "k");
    check_simplify("4*n*(k div 4) + n*(k mod 4)", "k*n");
    check_simplify("790*(k div 790) + 10*((k div 10) mod 79) + k mod 10", "k");
    check_simplify("790*(k div 790) + 10*((k mod 790) div 10) + k mod 10", "k");
    check_simplify("10*((k mod 790) div 10) + k mod 10", "(k) mod 790");
    check_simplify("10*((k mod 795) div 10) + k mod 10", "10*(((k) mod 795) div 10) + (k) mod 10");
    check_simplify("10*((k div 10) mod 79) + k mod 10", "(k) mod 790");
    check_simplify("20*((k div 10 + n) mod 79) + 2*(k mod 10)", "2*((k + 10*n) mod 790)");
    check_simplify("(k div n) div m", "(k) div (n*m)");
    check_simplify("(k div n) div 4 + (k div 4) div n", "2*((k) div (4*n))");
    check_simplify("n*m*(k div (n*m)) + n*((k div n) mod m) + k mod n", "k");
    check_simplify(
        "j*n*((m + 3) div 4)*(k div (n*((m + 3) div 4))) + j*n*((k div n) mod ((m + 3) div 4))",
        "j*n*((k) div n)",
    );
    check_simplify("(i + 16) div 16 + (j - 4) div 4", "0");
    check_simplify("(n - 1) div n", "0");
    check_simplify("(n - 1) mod n", "n - 1");
}

#[test]
fn does_not_simplify_beyond_the_range() {
    check_simplify("(4*k + j + 1) div 16", "(j + 4*k + 1) div 16");
    check_simplify("(i + 1) div 16", "(i + 1) div 16");
    check_simplify("(i div n) div k", "((i) div n) div k");
    check_simplify(
        "n*m*(k div (n*m)) + m*((k div n) mod m)",
        "m*(((k) div n) mod m) + n*m*((k) div (n*m))",
    );
    check_simplify("10*((k div 5) mod 79) + k mod 10", "(k) mod 10 + 10*(((k) div 5) mod 79)");
    check_simplify("min(i, 14)", "min(14, i)");
    check_simplify("16*(k div 16) + 2*(k mod 16)", "16*((k) div 16) + 2*((k) mod 16)");
    let divisor = Range::new(20, 30);
    assert_eq!(Range::new(5, 19).modulo(divisor), Range::new(5, 19));
    assert_eq!(Range::new(5, 20).modulo(divisor), Range::new(0, 20));
}

#[test]
fn proves() {
    let less = |a, b| crate::proves_less_than(&parse(a), &parse(b), &ranges);
    let less_equal = |a, b| crate::proves_less_equal(&parse(a), &parse(b), &ranges);
    assert!(less("i", "16") && !less("i", "15"));
    assert!(less_equal("i", "15"));
    assert!(less("4*i + j", "64") && !less("4*i + j", "63"));
    assert!(less("min(k, 7)", "8") && less_equal("min(k, n)", "n") && !less("min(k, n)", "n"));
    assert!(less_equal("16*(k div 16)", "k") && less("k", "16*(k div 16) + 16"));
    assert!(!less("16*(k div 16)", "k"));
    assert!(less_equal("n", "16*((n + 15) div 16)"));
    assert!(less_equal("n", "max(m, n)") && less("k mod n", "n"));
}

#[test]
fn ranges_as_text() {
    for (range, text) in [
        (Range::new(1, 512), "1..=512"),
        (Range::new(-3, -1), "-3..=-1"),
        (Range::at_least(1), "1.."),
        (Range::new(i64::MIN, 7), "..=7"),
        (Range::ALL, ".."),
    ] {
        assert_eq!(range.to_string(), text);
        assert_eq!(parse_range(&mut Parser::new(text)), Ok(range));
    }
}

#[test]
fn depth_is_that_of_operations_inside_each_other() {
    let n = Expr::symbol(SymbolId::new(0));
    let [two, three] = [2, 3].map(Expr::from);
    assert!(!(&n + &two).is_nested_deeper(0));
    let half = n.floor_div(&two);
    assert!(half.is_nested_deeper(0) && !half.is_nested_deeper(1));
    let twice = (&half + &n).modulo(&three);
    assert!(twice.is_nested_deeper(1) && !twice.is_nested_deeper(2));
}
