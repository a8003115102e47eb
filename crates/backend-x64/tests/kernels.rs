//! Kernels of many shapes, compiled for every target, against the evaluator.

mod support;

use support::{Exact, agree, check, check_with, parse};
use tensor::{DType, Tensor};

#[test]
fn elementwise_of_every_length() {
    for extent in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100, 129, 257] {
        check(&format!(
            "kernel @axpy(%x: read f32[{extent}], %y: update f32[{extent}]) {{
               for i < {extent} vector {{ %y[i] = %x[i] * 2.5 + %y[i] }}
             }}"
        ));
        check(&format!(
            "kernel @mixed(%x: read f64[{extent}], %b: read u8[{extent}],
               %y: write f32[{extent}]) {{
               for i < {extent} vector {{ %y[i] = cast<f32>(%x[i]) + cast<f32>(%b[i]) }}
             }}"
        ));
    }
}

/// What a statement computes is told to be its own, and what a loop takes the loop's.
#[test]
fn instructions_tell_their_statements() {
    let kernel = parse(
        "kernel @two(%x: read f32[80], %y: write f32[80], %z: write f32[80]) {
           for i < 10 {
             for j < 8 vector {
               %y[8*i + j] = %x[8*i + j] * 2.5
               %z[8*i + j] = %x[8*i + j] - 1.5
             }
           }
         }",
    );
    let target = backend::Target::named("x86-64-v3").expect("a target");
    let told = tilewright_backend_x64::instructions(&kernel, &target).expect("it compiles");
    let of = |word: &str| {
        let found = told.iter().filter(|it| it.text.starts_with(word));
        let mut numbers: Vec<Option<u32>> = found.map(|it| it.statement).collect();
        numbers.dedup();
        numbers
    };
    assert_eq!(of("vmulps"), [Some(2)]);
    assert_eq!(of("vsubps"), [Some(3)]);
    assert_eq!(of("j"), [Some(0)]);
    assert_eq!(of("ret"), [None]);
}

#[test]
fn conditions_that_are_the_same_in_all_lanes() {
    check(
        "kernel @tail(%a: read f32[30], %c: write f32[30]) {
           for i < 2 {
             for j < 16 vector {
               %c[j + min(14, 16*i)] =
                 guard(min(14, 16*i) + j < 20, (i) mod 2 == 0 ? %a[j + min(14, 16*i)] : 0.5)
             }
           }
         }",
    );
}

/// Pairs that are taken apart; those that are multiplied at once are tested in `instructions.rs`.
#[test]
fn products_of_pairs_with_tails() {
    let shapes = [(6, 16), (3, 32), (4, 20), (2, 7), (1, 33)];
    let types = [("bf16", "f32", "0.0"), ("i16", "i32", "0i32")];
    for ((rows, columns), (short, long, zero)) in
        shapes.into_iter().flat_map(|shape| types.map(|types| (shape, types)))
    {
        check(&format!(
            "kernel @product(%a: read {short}[3, {rows}, 10], %b: read {short}[5, {columns}, 2],
               %c: write {long}[3, {rows}, {columns}]) {{
               %acc: register {long}[{rows}, {columns}]
               for t < 3 parallel {{
                 for r < {rows} unroll {{ for c < {columns} vector {{ %acc[r, c] = {zero} }} }}
                 for k < 5 {{
                   for r1 < {rows} unroll {{ for e < 2 unroll {{ for c1 < {columns} vector {{
                     %acc[r1, c1] +=
                       cast<{long}>(%a[t, r1, 2*k - e + 1]) * cast<{long}>(%b[k, c1, -e + 1])
                   }} }} }}
                 }}
                 for r2 < {rows} unroll {{ for c2 < {columns} vector {{
                   %c[t, r2, c2] = %acc[r2, c2]
                 }} }}
               }}
             }}"
        ));
    }
}

#[test]
fn a_product_with_tails_in_all_axes() {
    for (rows, columns) in [(6, 16), (12, 32), (5, 20), (3, 7), (1, 33)] {
        check(&format!(
            "kernel @product(%a: read f32[3, {rows}, 9], %b: read f32[9, {columns}],
               %bias: read f32[{columns}], %c: write f32[3, {rows}, {columns}]) {{
               %acc: register f32[{rows}, {columns}]
               for t < 3 parallel {{
                 for r < {rows} unroll {{ for c < {columns} vector {{ %acc[r, c] = 0.0 }} }}
                 for k < 9 {{
                   for r1 < {rows} unroll {{ for c1 < {columns} vector {{
                     %acc[r1, c1] += %a[t, r1, k] * %b[k, c1]
                   }} }}
                 }}
                 for r2 < {rows} unroll {{ for c2 < {columns} vector {{
                   %c[t, r2, c2] = max(%acc[r2, c2] + %bias[c2], 0.0)
                 }} }}
               }}
             }}"
        ));
    }
}

#[test]
fn transposes_of_every_type_and_size() {
    for dtype in ["f32", "f64", "i64", "bf16", "f16", "i8", "u16", "bool"] {
        for (rows, columns) in [
            (16, 16),
            (8, 8),
            (3, 16),
            (16, 5),
            (20, 37),
            (1, 9),
            (33, 3),
            (32, 32),
            (16, 32),
            (24, 16),
            (32, 8),
        ] {
            check(&format!(
                "kernel @transpose(%x: read {dtype}[2, {rows}, {columns}],
                   %y: write {dtype}[2, {columns}, {rows}]) {{
                   for b < 2 parallel {{ for c < {columns} unroll {{ for r < {rows} vector {{
                     %y[b, c, r] = %x[b, r, c]
                   }} }} }}
                 }}"
            ));
        }
    }
    let sizes =
        [(16, 16), (8, 8), (3, 16), (16, 5), (20, 37), (48, 4), (37, 4), (37, 2), (7, 2), (33, 3)];
    for dtype in ["f32", "f64", "bf16", "f16", "i8", "u16", "bool"] {
        for (rows, columns) in sizes {
            check(&format!(
                "kernel @back(%x: read {dtype}[2, {columns}, {rows}], %s: read f32[{rows}],
                   %y: write {dtype}[2, {rows}, {columns}], %z: write f32[{rows}, {columns}]) {{
                   for b < 2 {{ for c < {columns} unroll {{ for r < {rows} vector {{
                     %y[b, r, c] = %x[b, c, r]
                     %z[r, c] = %s[r] * 2.0
                   }} }} }}
                 }}"
            ));
        }
    }
    for (dtype, run) in [("u8", 4), ("i8", 4), ("u16", 2), ("f16", 2), ("u8", 2), ("u8", 3)] {
        for (rows, columns) in [(4, 4), (16, 4), (8, 8), (12, 8), (4, 8), (6, 4), (8, 12), (5, 3)] {
            check(&format!(
                "kernel @runs(%x: read {dtype}[2, {rows}, {}],
                   %y: write {dtype}[2, {columns}, {rows}, {run}]) {{
                   for b < 2 {{ for c < {columns} unroll {{ for r < {rows} unroll {{
                     for k < {run} vector {{ %y[b, c, r, k] = %x[b, r, {run}*c + k + 2] }}
                   }} }} }}
                 }}",
                run * columns + 3
            ));
        }
    }
    for columns in [4, 16, 21] {
        check(&format!(
            "kernel @padded(%x: read f32[3, {columns}], %s: read f32[3, {columns}],
               %y: write bf16[{columns}, 4], %z: write f64[{columns}, 4]) {{
               for c < {columns} unroll {{ for r < 4 vector {{
                 %y[c, r] = cast<bf16>(guard(r < 3 ? %x[r, c] * %s[r, c] : 0.0))
                 %z[c, r] = cast<f64>(guard(r < 3, c < 7 ? %s[r, c] : 1.0))
               }} }}
             }}"
        ));
        check(&format!(
            "kernel @halves(%x: update f32[8, {columns}], %y: update f32[{columns}, 8]) {{
               for t < 2 {{ for c < {columns} unroll {{
                 for r < 8 vector {{ %y[c, r] = %x[r, c] + %y[c, r] }}
                 for r1 < 8 vector {{ %x[r1, c] = %y[c, r1] }}
               }} }}
             }}"
        ));
        check(&format!(
            "kernel @overlap(%x: read f32[{columns}, 16], %y: update f32[200],
               %z: update f32[16, {columns}]) {{
               for c < {columns} unroll {{
                 for r < 16 vector {{ %y[3*r + c] = %x[c, r] }}
                 for r1 < 16 vector {{ %z[r1, c] = %x[c, r1] }}
                 for r2 < 16 vector {{ %z[r2, c] = %z[r2, c] + %x[c, r2] }}
               }}
             }}"
        ));
    }
}

#[test]
fn guards() {
    check(
        "kernel @shifted(%x: read f32[20], %y: write f32[20]) {
           for i < 20 vector {
             %y[i] = guard(1 <= i ? %x[i - 1] : 0.5) + guard(i + 3 < 20 ? %x[i + 3] : -1.0)
           }
         }",
    );
    check(
        "kernel @padded(%x: read f32[6, 20], %y: write f32[6, 20]) {
           for r < 6 parallel {
             for i < 20 vector {
               %y[r, i] = guard(1 <= r ? %x[r - 1, i] : 0.0)
                 + guard(r + 1 < 6, 2 <= i ? %x[r + 1, i - 2] : 3.0)
             }
           }
         }",
    );
    check(
        "kernel @ragged(%x: read f32[13, 50], %y: update f32[13, 50]) {
           for r < 13 {
             for i < 50 vector {
               if i + 2 * r < 40 { %y[r, i] = %x[r, i] * 2.0 } else { %y[r, i] = 1.0 }
               if r < 5 { %y[r, i] += %x[r, i] }
             }
           }
         }",
    );
    check(
        "kernel @guarded_broadcast(%x: read f32[9], %s: read f32[4], %y: write f32[9]) {
           for r < 9 {
             %y[r] = guard(r < 4 ? %s[r] : %x[r]) + guard(2 <= r ? %x[r - 2] * 2.0 : 7.0)
           }
         }",
    );
    check(
        "kernel @narrow(%x: read i8[30], %y: write i16[30]) {
           for i < 30 vector {
             %y[i] = cast<i16>(guard(i < 11 ? %x[i + 4] : 7i8)) + guard(i == 12 ? 100i16 : 0i16)
           }
         }",
    );
}

#[test]
fn elements_that_serve_several_lanes() {
    for dtype in ["f32", "i32", "u32", "f64", "bf16", "f16", "i8", "u16", "bool"] {
        for extent in [1, 7, 8, 15, 16, 17, 32, 40] {
            for (count, apart) in [(2, 1), (4, 3), (4, 4), (8, 8), (4, 9)] {
                let whole = apart * (extent / count) + 2;
                check(&format!(
                    "kernel @spread(%x: read {dtype}[{whole}], %y: write {dtype}[{extent}]) {{
                       for i < {extent} vector {{ %y[i] = %x[{apart} * ((i) div {count}) + 1] }}
                     }}"
                ));
                check(&format!(
                    "kernel @some(%x: read {dtype}[{whole}], %y: update {dtype}[5, {extent}]) {{
                       for r < 5 {{
                         for i < {extent} vector {{
                           if i + {count} * r < {extent} {{
                             %y[r, i] = %x[{apart} * ((i) div {count})]
                           }}
                         }}
                       }}
                     }}"
                ));
            }
        }
    }
}

#[test]
fn every_second_element_of_every_length() {
    for dtype in ["f32", "i32", "u32", "f64", "i64", "bf16", "f16", "i8", "u16", "bool"] {
        for extent in [1, 2, 7, 8, 9, 13, 16, 17, 24, 33, 40, 64] {
            let whole = 2 * extent - 1;
            check(&format!(
                "kernel @second(%x: read {dtype}[{whole}], %y: write {dtype}[{extent}]) {{
                   for i < {extent} vector {{ %y[i] = %x[2*i] }}
                 }}"
            ));
            check(&format!(
                "kernel @phases(%x: read {dtype}[3, {extent}, 2],
                   %y: write {dtype}[3, 2, {extent}]) {{
                   for c < 3 {{
                     for p < 2 unroll {{ for i < {extent} vector {{ %y[c, p, i] = %x[c, i, p] }} }}
                   }}
                 }}"
            ));
            check(&format!(
                "kernel @guarded(%x: read {dtype}[{whole}], %y: update {dtype}[{extent}]) {{
                   for i < {extent} vector {{ if i < 11 {{ %y[i] = %x[2*i] }} }}
                 }}"
            ));
        }
    }
    for extent in [1, 2, 7, 8, 9, 13, 16, 17, 24, 33, 40, 64] {
        for edge in [1, 2, 9] {
            let (framed, last) = (extent + edge + 1, extent - 1);
            check(&format!(
                "kernel @framed(%x: read f32[{extent}, 2], %y: write f32[2, {framed}]) {{
                   for p < 2 {{
                     for i < {framed} vector {{
                       %y[p, i] = guard(0 <= i - {edge}, i - {edge} <= {last} ?
                         %x[i - {edge}, p] : 0.5)
                     }}
                   }}
                 }}"
            ));
        }
    }
}

#[test]
fn elements_backwards_of_every_length() {
    for dtype in ["f32", "i32", "u32", "f64", "i64", "bf16", "f16", "i8", "u16", "bool"] {
        for extent in [1, 2, 3, 4, 7, 8, 9, 13, 16, 17, 24, 33, 40, 64] {
            let last = extent - 1;
            check(&format!(
                "kernel @mirrored(%x: read {dtype}[3, {extent}], %y: write {dtype}[3, {extent}]) {{
                   for c < 3 {{ for i < {extent} vector {{ %y[c, i] = %x[c, {last} - i] }} }}
                 }}"
            ));
            check(&format!(
                "kernel @guarded(%x: read {dtype}[{extent}], %y: update {dtype}[5, {extent}]) {{
                   for r < 5 {{
                     for i < {extent} vector {{
                       if i < 11 {{ if i + 7 * r < {extent} {{ %y[r, i] = %x[{last} - i] }} }}
                     }}
                   }}
                 }}"
            ));
            check(&format!(
                "kernel @framed(%x: read {dtype}[{extent}], %y: write {dtype}[{extent}]) {{
                   for i < {extent} vector {{
                     %y[i] = guard(3 <= i ? %x[{last} + 3 - i] : %x[i])
                   }}
                 }}"
            ));
        }
    }
}

/// Where it is known which lanes are on, and where it is not.
#[test]
fn elements_at_equal_distances_of_every_length() {
    for dtype in ["f32", "u32", "f64", "i64", "f16", "u8"] {
        for extent in [2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 31] {
            check(&format!(
                "kernel @thirds(%x: read {dtype}[2, {extent}, 3],
                   %y: write {dtype}[2, 3, {extent}]) {{
                   for c < 2 {{
                     for p < 3 {{ for i < {extent} vector {{ %y[c, p, i] = %x[c, i, p] }} }}
                   }}
                 }}"
            ));
            check(&format!(
                "kernel @inner(%x: read {dtype}[{extent}, 3], %y: update {dtype}[3, {extent}]) {{
                   for p < 3 {{
                     for i < {extent} vector {{
                       %y[p, i] = guard(1 <= i, i < 11 ? %x[i - 1, 1] : %y[p, i])
                     }}
                   }}
                 }}"
            ));
            check(&format!(
                "kernel @moving(%x: read {dtype}[{extent}, 3], %y: update {dtype}[3, {extent}]) {{
                   for p < 3 {{
                     for i < {extent} vector {{
                       %y[p, i] = guard(p <= i ? %x[i - p, 1] : %y[p, i])
                     }}
                   }}
                 }}"
            ));
        }
    }
}

#[test]
fn gathers_and_scatters() {
    for dtype in ["f32", "f64", "i64", "i8", "u16", "bf16", "f16", "bool"] {
        check(&format!(
            "kernel @transposed(%x: read {dtype}[21, 6], %y: write {dtype}[6, 21]) {{
               for c < 6 {{ for r < 21 vector {{ %y[c, r] = %x[r, c] }} }}
             }}"
        ));
        check(&format!(
            "kernel @scattered(%x: read {dtype}[21, 6], %y: write {dtype}[6, 21]) {{
               for r < 21 {{ for c < 6 vector {{ %y[c, r] = %x[r, c] }} }}
             }}"
        ));
        check(&format!(
            "kernel @reversed(%x: read {dtype}[37], %y: write {dtype}[37]) {{
               for i < 37 vector {{ %y[i] = %x[36 - i] }}
             }}"
        ));
        check(&format!(
            "kernel @unpacked(%x: read {dtype}[5, 8, 3], %y: write {dtype}[120]) {{
               for i < 120 vector {{
                 %y[i] = %x[i mod 5, (i div 5) mod 8, i div 40]
               }}
             }}"
        ));
    }
    check(
        "kernel @masked_gather(%x: read f32[40, 3], %y: update f32[40]) {
           for i < 40 vector { %y[i] = guard(i < 33 ? %x[i + 7, 1] : 2.0) }
         }",
    );
}

#[test]
fn loops_and_branches() {
    check(
        "kernel @prefix(%x: read f32[50], %y: write f32[50]) {
           %s: register f32[1]
           %s[0] = 0.0
           for i < 50 {
             %s[0] += %x[i]
             if i == 20 { %s[0] = 1.0 } else { %y[i] = %s[0] }
             if i == 20 { %y[i] = -4.0 }
           }
         }",
    );
    check(
        "kernel @row_max(%x: read f32[7, 45], %y: write f32[7, 45]) {
           %m: register f32[8]
           for r < 7 parallel {
             for a < 8 vector { %m[a] = -inf }
             for k < 5 { for b < 8 vector { %m[b] max= %x[r, k * 8 + b] } }
             let top: f32 = max(fold(max, %m[]), 1.0)
             for i < 45 vector { %y[r, i] = %x[r, i] / top }
           }
         }",
    );
    check(
        "kernel @halving(%x: read i64[9], %y: write i64[9]) {
           %n: register i64[1]
           %c: register i64[1]
           for i < 9 {
             %n[0] = abs(%x[i])
             %c[0] = 0
             while { } holds gt(%n[0], 0) {
               %n[0] = %n[0] / 2
               %c[0] += 1
             }
             %y[i] = %c[0]
           }
         }",
    );
    check(
        "kernel @scratch(%x: read f32[10, 40], %y: write f32[10, 40]) {
           %t: scratch f32[40]
           %u: scratch i8[3]
           for r < 10 parallel {
             for i < 40 vector { %t[i] = %x[r, i] * %x[r, i] }
             %u[2] = 5i8
             for j < 40 vector { %y[r, j] = %t[39 - j] + cast<f32>(%u[2]) }
           }
         }",
    );
}

#[test]
fn index_arithmetic() {
    check(
        "kernel @blocks(%x: read f32[1000], %y: write f32[1000]) {
           for i < 1000 {
             %y[i] = %x[(i div 7) * 7 + 6 - min(i mod 7, 6)
               - max(0, (i div 7) * 7 + 6 - min(i mod 7, 6) - 999)]
           }
         }",
    );
    check(
        "kernel @indices(%y: write i64[70], %z: write f32[70]) {
           for i < 70 vector {
             %y[i] = index(i * 3 - 5)
             %z[i] = cast<f32>(index(i div 9)) + cast<f32>(index(i mod 9)) * 0.5
           }
         }",
    );
    check(
        "kernel @negative(%y: write i64[40]) {
           for i < 40 { %y[i] = index((i - 20) div 3) * 100 + index((i - 20) mod 3) }
         }",
    );
    check(
        "kernel @uniform_by_blocks(%x: read f32[4], %y: write f32[64]) {
           for i < 64 vector { %y[i] = %x[i div 16] }
         }",
    );
}

#[test]
fn shape_symbols() {
    for n in [1, 2, 9, 64] {
        check_with(
            "kernel @symbolic(n: shape 0 in 1..=64, %x: read f32[n, 16], %y: write f32[n, 16]) {
               for i < n parallel { for j < 16 vector { %y[i, j] = %x[n - 1 - i, j] + 1.0 } }
             }",
            &[n],
        );
        check_with(
            "kernel @sum(n: shape 0 in 0..=64, %x: read f32[n], %y: write f32[1]) {
               %s: register f32[1]
               %s[0] = 0.0
               for i < n { %s[0] += %x[i] }
               %y[0] = %s[0]
             }",
            &[n],
        );
        check_with(
            "kernel @copied(n: shape 0 in 1..=64, %x: read f32[3, n], %y: write f32[3, n]) {
               %t: scratch f32[n]
               %u: scratch f32[n]
               for i < 3 parallel {
                 for j < n { %t[j] = %x[i, j] %u[n - 1 - j] = %x[i, j] }
                 for k < n { %y[i, k] = %t[n - 1 - k] - %u[k] }
               }
             }",
            &[n],
        );
        // Whole parts, of which there may be none, and a tail, which there need not be.
        // Whole parts, of which there may be none, and a tail, which there need not be: of few more
        // than a part, what is known inside of either loop says much of `n`.
        for most in [40, 24] {
            check_with(
                &format!(
                    "kernel @parts(
                       n: shape 0 in 1..={most}, %x: read f32[n, 4], %y: write f32[3, n, 2],
                     ) {{
                       for i < 3 parallel {{
                         for j < n div 20 {{
                           for k < 20 unroll {{
                             for l < 2 vector {{ %y[i, 20*j + k, l] = %x[20*j + k, i + l] }}
                           }}
                         }}
                         for t < (n + 19) div 20 - n div 20 {{
                           for k2 < 20 unroll {{
                             if 20*t + k2 + 20*(n div 20) < n {{
                               for l2 < 2 vector {{
                                 %y[i, 20*t + k2 + 20*(n div 20), l2] =
                                   %x[20*t + k2 + 20*(n div 20), i + l2]
                               }}
                             }}
                           }}
                         }}
                       }}
                     }}"
                ),
                &[n.min(most)],
            );
        }
        check_with(
            "kernel @strided(n: shape 0 in 1..=64, %x: read f32[5, n], %y: write f32[n, 5]) {
               for i < n { for j < 5 vector { %y[i, j] = %x[j, i] } }
             }",
            &[n],
        );
    }
}

#[test]
fn strided_views() {
    check(
        "kernel @view(%x: read f32[4, 12] strides [40, 1], %y: write f32[4, 12] strides [1, 8]) {
           for i < 4 { for j < 12 vector { %y[i, j] = %x[i, j] } }
         }",
    );
}

/// `let` with a range: indices from data, within and out of it.
/// Runs that are copied whole, of every length. The last row is written first, so that what is
/// written behind a row is found in the next one.
#[test]
fn runs_of_narrow_elements() {
    for dtype in ["u8", "i8", "bool", "i16", "f16", "bf16"] {
        for extent in [2, 3, 7, 8, 11, 16, 20, 31, 33, 63, 64, 100, 129, 256] {
            let row = extent + 5;
            check(&format!(
                "kernel @copy(%x: read {dtype}[4, {extent}] strides [{row}, 1], %at: read i64[3],
                   %y: write {dtype}[3, {extent}]) {{
                   for i < 3 {{ for j < {extent} vector {{
                     let t: i64 in 0..=1 = %at[i]
                     %y[2 - i, j] = %x[i + t, j]
                   }} }}
                 }}"
            ));
        }
    }
}

/// Elements combined bit by bit as they are in memory, with one that is the same for a run, of
/// whole runs and of some whose end a condition leaves out.
#[test]
fn bits_of_narrow_elements() {
    for dtype in ["u8", "i8", "bool", "i16", "u16"] {
        for extent in [2, 7, 20, 63, 64, 100, 129, 256] {
            let wide = extent + 1;
            for value in [
                "not(%x[i, j])",
                "and(not(%x[i, j]), %same[i])",
                "or(xor(%x[i, j], %z[i, j]), not(%same[2]))",
                "xor(%same[0], and(%z[i, j + 1], %x[i + 1, j]))",
            ] {
                check(&format!(
                    "kernel @bits(%x: read {dtype}[4, {extent}], %z: read {dtype}[3, {wide}],
                       %same: read {dtype}[3], %y: write {dtype}[3, {extent}]) {{
                       for i < 3 {{ for j < {extent} vector {{ %y[i, j] = {value} }} }}
                     }}"
                ));
            }
            let all = 3 * extent - 1;
            check(&format!(
                "kernel @ends(%x: read {dtype}[{all}], %z: read {dtype}[{all}],
                   %y: write {dtype}[{all}]) {{
                   for i < 3 {{ for j < {extent} vector {{
                     if {extent}*i + j < {all} {{
                       %y[{extent}*i + j] = and(%x[{extent}*i + j], not(%z[{extent}*i + j]))
                     }}
                   }} }}
                 }}"
            ));
        }
    }
}

/// Neighbours of which some are of the next row, wherever that begins.
#[test]
fn rows_that_end_within_a_vector() {
    for dtype in ["f32", "f64", "i64", "u8", "bool", "f16"] {
        for (length, lead) in [(16, 0), (17, 3), (23, 7), (40, 1), (105, 0)] {
            let stride = length + lead;
            let rows = 150 / length + 2;
            check(&format!(
                "kernel @wrapped(%x: read {dtype}[{rows}, {length}] strides [{stride}, 1],
                   %y: write {dtype}[140]) {{
                   for o < 10 {{ for i < 16 vector {{
                     if 16*o + i < 140 {{
                       %y[16*o + i] = %x[(16*o + i + 5) div {length}, (16*o + i + 5) mod {length}]
                     }}
                   }} }}
                 }}"
            ));
            check(&format!(
                "kernel @tiled(%x: read {dtype}[{length}], %y: write {dtype}[140]) {{
                   for o < 10 {{ for i < 14 vector {{
                     %y[14*o + i] = %x[(14*o + i) mod {length}]
                   }} }}
                 }}"
            ));
        }
    }
}

/// Loads that are off in all lanes, far outside of their buffer, and beside that in some.
#[test]
fn borders_on_all_sides() {
    for (dtype, none) in [("f32", "0.5"), ("f64", "0.5f64"), ("u8", "7u8"), ("i64", "3")] {
        for step in [1, 2] {
            check(&format!(
                "kernel @pad(%x: read {dtype}[5, 40], %y: write {dtype}[4000, 21]) {{
                   for i < 4000 {{ for j < 21 vector {{
                     %y[i, j] = guard(2000 <= i, i <= 2004, 1 <= j, j <= 18
                       ? %x[i - 2000, {step}*j - {step}] : {none})
                   }} }}
                 }}"
            ));
        }
    }
}

/// The tail of a row that is a part of a larger one. The last row is written first, so that what is
/// written behind a row is found in the next one.
#[test]
fn tails_of_views() {
    for dtype in ["f32", "f64", "i64", "u8", "i16", "f16", "bf16"] {
        for extent in [1, 2, 3, 5, 6, 9, 11, 13, 15, 19, 27] {
            // Its own stride makes it a view; the rows lie side by side all the same.
            check(&format!(
                "kernel @half(%x: read {dtype}[6, {extent}],
                   %y: write {dtype}[6, {extent}] strides [{extent}, 1]) {{
                   for i < 6 {{ for j < {extent} vector {{ %y[5 - i, j] = %x[i, j] + %x[i, j] }} }}
                 }}"
            ));
        }
    }
}

#[test]
fn indices_from_data() {
    let scalar = parse(
        "kernel @rows(%i: read i64[6], %x: read f32[10, 20], %y: write f32[6, 20]) {
           for r < 6 {
             let k: i64 in 0..=9 = %i[r]
             for c < 20 vector { %y[r, c] = %x[k, c] }
           }
         }",
    );
    let lanes = parse(
        "kernel @elements(%i: read i32[21], %x: read f32[10], %y: write f32[21]) {
           for c < 21 vector {
             let k: i64 in 0..=9 = cast<i64>(%i[c])
             %y[c] = %x[k]
           }
         }",
    );
    for worst in [9, 0, -1, 10] {
        let mut rows = vec![3i64; 6];
        rows[4] = worst;
        let mut elements = vec![5i32; 21];
        elements[17] = worst as i32;
        let x = tensor::random::random(DType::F32, &[200], 5);
        let short = tensor::random::random(DType::F32, &[10], 6);
        let out = |count| Tensor::zeros(DType::F32, &[count]);
        agree(&scalar, &[Tensor::from_vec(&[6], rows), x, out(120)], &[], Exact::Bits);
        agree(&lanes, &[Tensor::from_vec(&[21], elements), short, out(21)], &[], Exact::Bits);
    }
}

#[test]
fn register_buffers_of_every_kind() {
    for dtype in ["f32", "f64", "f16", "i64", "u8", "bool"] {
        check(&format!(
            "kernel @moved(%x: read {dtype}[3, 24], %y: write {dtype}[3, 24],
               %z: write {dtype}[3]) {{
               %r: register {dtype}[3, 24]
               for a < 3 unroll {{ for b < 24 vector {{ %r[a, b] = %x[a, b] }} }}
               for n < 5 {{ for c < 3 unroll {{ for d < 24 vector {{
                 %r[c, d] = max(%r[c, d], %x[c, 23 - d])
               }} }} }}
               %r[1, 5] = %x[0, 0]
               for e < 3 unroll {{
                 for f < 24 vector {{ %y[e, f] = %r[e, f] }}
                 %z[e] = %r[e, 19]
               }}
             }}"
        ));
    }
}

/// Loops over vectors that begin or end within a vector of a register buffer.
#[test]
fn parts_of_register_buffers() {
    for dtype in ["f32", "f64", "f16", "i64", "u8", "bool"] {
        for (first, count) in [(0, 12), (4, 12), (3, 20), (16, 8), (17, 7)] {
            check(&format!(
                "kernel @parts(%x: read {dtype}[24], %y: write {dtype}[24],
                   %z: write {dtype}[{count}]) {{
                   %r: register {dtype}[24]
                   for a < 24 vector {{ %r[a] = %x[a] }}
                   for b < {count} vector {{ %r[b + {first}] = %x[23 - b] }}
                   for c < {count} vector {{
                     if c < {count} - 2 {{ %r[c + {first}] = max(%x[c], %r[c + {first}]) }}
                   }}
                   for e < {count} vector {{ %z[e] = %r[e + {first}] }}
                   for f < 24 vector {{ %y[f] = %r[f] }}
                 }}"
            ));
        }
    }
}

/// Loops over wider elements, whose vectors have fewer lanes than those of a register buffer.
#[test]
fn register_buffers_read_in_fewer_lanes() {
    for (from, zero) in [("f32", "0.0"), ("i32", "0i32"), ("i8", "0i8"), ("bool", "false")] {
        for to in ["f64", "i64"] {
            for extent in [3, 8, 13, 16, 32] {
                for offset in [0, 1, 2, 4, 6] {
                    let left = (extent - offset).max(1);
                    let begin = extent - left;
                    check(&format!(
                        "kernel @parts(%x: read {from}[3, {extent}], %y: write {to}[3, {left}]) {{
                           %acc: register {from}[{extent}]
                           for r < 3 {{
                             for i < {extent} vector {{ %acc[i] = {zero} }}
                             for j < {extent} vector {{ %acc[j] = %x[r, j] }}
                             for k < {left} vector {{
                               %y[r, k] = cast<{to}>(%acc[k + {begin}])
                             }}
                           }}
                         }}"
                    ));
                }
            }
        }
    }
}

/// More live vectors than registers: the allocator spills.
#[test]
fn spills() {
    for dtype in ["f32", "f64", "bool"] {
        check(&format!(
            "kernel @spilling(%x: read {dtype}[40, 20], %y: write {dtype}[40, 20]) {{
               %r: register {dtype}[40, 20]
               for a < 40 unroll {{ for b < 20 vector {{ %r[a, b] = %x[a, b] }} }}
               for n < 3 {{ for c < 40 unroll {{ for d < 20 vector {{
                 %r[c, d] = max(%r[c, d], %x[39 - c, d])
               }} }} }}
               for e < 40 unroll {{ for f < 20 vector {{ %y[e, f] = %r[e, f] }} }}
             }}"
        ));
    }
}
