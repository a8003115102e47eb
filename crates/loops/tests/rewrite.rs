//! What the rewriting helpers make of small kernels.

use std::collections::BTreeMap;

use base::Id;
use loops::build::load;
use loops::substitute::{fresh_copy, redirect, rename, replace_loads, substitute};
use loops::visit::{free_symbols, references, touched};
use loops::{BufferId, Kernel, Stmt, parse, print_statement};
use sym::{Expr, SymbolId};
use tensor::ScalarFunction;

const TEXT: &str = "kernel @k(%a: read f32[9], %c: write f32[9]) {
  %t: scratch f32[4]
  for i < 4 {
    %t[i] = %a[i + 1]
    let x: f32 = %t[i] * %t[i]
    let s: i64 in 0..=3 = index(3 - i)
    %c[2*i] += guard(i < s ? x : fold(sum, %t[]))
  }
}";

/// Applies a rewrite to the kernel above and compares the body.
fn check(rewrite: impl FnOnce(&mut Kernel, &mut Vec<Stmt>), expected: &str) {
    let mut kernel = parse(TEXT).unwrap_or_else(|errors| panic!("{errors}"));
    let mut body = std::mem::take(&mut kernel.body);
    rewrite(&mut kernel, &mut body);
    let text: String = body.iter().map(|stmt| print_statement(&kernel, stmt)).collect();
    assert_eq!(text.trim(), expected.trim(), "\n{text}");
}

fn symbol(kernel: &Kernel, name: &str) -> SymbolId {
    let found = kernel.symbols.iter().find(|(_, symbol)| symbol.name == name);
    found.unwrap_or_else(|| panic!("no symbol {name}")).0
}

fn buffer(kernel: &Kernel, name: &str) -> BufferId {
    let found = kernel.buffers.iter().find(|(_, buffer)| buffer.name == name);
    found.unwrap_or_else(|| panic!("no buffer {name}")).0
}

#[test]
fn symbols_become_expressions() {
    check(
        |kernel, body| {
            let [i, s] = ["i", "s"].map(|name| symbol(kernel, name));
            let Stmt::For(inner) = &mut body[0] else { panic!("a loop") };
            let replaced = BTreeMap::from([(i, Expr::symbol(i) * 2 + 1), (s, 7.into())]);
            substitute(&mut inner.body, &replaced);
        },
        "for i < 4 {
  %t[2*i + 1] = %a[2*i + 2]
  let x: f32 = %t[2*i + 1] * %t[2*i + 1]
  let s: i64 in 0..=3 = index(-2*i + 2)
  %c[4*i + 2] += guard(2*i + 1 < 7 ? x : fold(sum, %t[]))
}",
    );
}

#[test]
fn copies_bind_their_own_symbols() {
    check(
        |kernel, body| {
            let copy = fresh_copy(kernel, body);
            assert_eq!(free_symbols(&copy), free_symbols(body));
            *body = fresh_copy(kernel, &copy);
        },
        "for i_2 < 4 {
  %t[i_2] = %a[i_2 + 1]
  let x_2: f32 = %t[i_2] * %t[i_2]
  let s_2: i64 in 0..=3 = index(-i_2 + 3)
  %c[2*i_2] += guard(i_2 < s_2 ? x_2 : fold(sum, %t[]))
}",
    );
}

#[test]
fn renaming_reaches_binders_and_uses() {
    check(
        |kernel, body| {
            let (x, y) = (symbol(kernel, "x"), kernel.add_value("x", tensor::DType::F32, None));
            rename(body, &|symbol| if symbol == x { y } else { symbol });
        },
        "for i < 4 {
  %t[i] = %a[i + 1]
  let x_1: f32 = %t[i] * %t[i]
  let s: i64 in 0..=3 = index(-i + 3)
  %c[2*i] += guard(i < s ? x_1 : fold(sum, %t[]))
}",
    );
}

#[test]
fn loads_become_values() {
    check(
        |kernel, body| {
            let (t, a) = (buffer(kernel, "t"), buffer(kernel, "a"));
            replace_loads(body, t, |index| {
                let value = load(a, [index[0].clone() + 1]);
                kernel.apply(ScalarFunction::Neg, vec![value])
            });
        },
        "for i < 4 {
  %t[i] = %a[i + 1]
  let x: f32 = neg(%a[i + 1]) * neg(%a[i + 1])
  let s: i64 in 0..=3 = index(-i + 3)
  %c[2*i] += guard(i < s ? x : fold(sum, %t[]))
}",
    );
}

#[test]
fn accesses_move_to_another_buffer() {
    check(
        |kernel, body| {
            let t = buffer(kernel, "t");
            let data = kernel.buffers[t].clone();
            let shape = vec![2.into(), data.shape[0].clone()];
            let wider = kernel.add_buffer("t", data.dtype, shape, data.scope);
            redirect(body, t, wider, |index| {
                let mut moved = vec![Expr::ONE];
                moved.extend_from_slice(index);
                moved
            });
            let (reads, writes) = touched(body);
            assert!(reads.contains(&wider) && writes.contains(&wider) && !reads.contains(&t));
            assert_eq!(references(body).len(), 6);
        },
        "for i < 4 {
  %t_1[1, i] = %a[i + 1]
  let x: f32 = %t_1[1, i] * %t_1[1, i]
  let s: i64 in 0..=3 = index(-i + 3)
  %c[2*i] += guard(i < s ? x : fold(sum, %t_1[1]))
}",
    );
}

#[test]
fn names_are_fresh() {
    let mut kernel = Kernel::new("names");
    let names = ["i", "i", "i_1", "for", "inf", "min", "9 lives", "", "a.b"];
    let ids = names.map(|name| kernel.add_loop_variable(name));
    let found = ids.map(|id| kernel.symbols[id].name.clone());
    assert_eq!(found, ["i", "i_1", "i_2", "for", "inf_1", "min_1", "_9_lives", "_", "a_b"]);
    assert_eq!(ids[0], SymbolId::new(0));
}
