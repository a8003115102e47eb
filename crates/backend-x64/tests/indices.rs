//! Elements at indices that are values, compiled for every target, against the evaluator.

mod support;

use support::check;

#[test]
fn elements_at_indices_that_are_values() {
    for extent in [1, 5, 8, 13, 16, 40] {
        for dtype in ["f32", "f64", "f16", "bf16", "i64", "i32", "i16", "u16", "i8", "u8", "bool"] {
            // Tables shorter than a word.
            check(&format!(
                "kernel @short(%i: read i64[{extent}], %t: read {dtype}[1, 3],
                   %y: write {dtype}[{extent}]) {{
                   for j < {extent} vector {{
                     let at: i64 in 0..=2 = min(and(%i[j], 3), 2)
                     %y[j] = %t[0, at]
                   }}
                 }}"
            ));
            // Rows that registers hold, whole and in part, and longer ones.
            for count in [3, 16, 20, 32, 33, 64, 65, 200] {
                check(&format!(
                    "kernel @look_up(%i: read i64[{extent}], %t: read {dtype}[3, {count}],
                       %y: write {dtype}[3, {extent}]) {{
                       for r < 3 {{
                         for j < {extent} vector {{
                           let at: i64 in 0..={last} = and(%i[j], {mask})
                           %y[r, j] = %t[r, at]
                         }}
                       }}
                     }}",
                    last = count - 1,
                    mask = (count + 1usize).next_power_of_two() / 2 - 1,
                ));
            }
            check(&format!(
                "kernel @sums(%i: read i64[{extent}], %t: read {dtype}[9, {extent}, 12],
                   %y: write {dtype}[{extent}]) {{
                   for j < {extent} vector {{
                     let at: i64 in 0..=3 = and(%i[j], 3)
                     let far: i64 in -1..=2 = and(%i[j], 3) - 1
                     %y[j] = %t[2*at + 1, j, 2*far + at + 2]
                   }}
                 }}"
            ));
        }
    }
}

/// Indices made of short integers have lanes of 32 bits; of bytes a table is held in registers.
#[test]
fn elements_at_short_integers() {
    for extent in [1, 8, 40, 200] {
        for (index, value, last) in [
            ("u8", "%i[j]", 255),
            ("i8", "cast<u8>(%i[j])", 255),
            ("u8", "and(%i[j], 63u8)", 63),
            ("u8", "and(%i[j], 127u8)", 127),
            ("u8", "min(%i[j], 191u8)", 191),
            ("u16", "min(%i[j], 99u16)", 99),
            ("i32", "and(%i[j], 15i32)", 299),
        ] {
            for dtype in ["u8", "i8", "bool", "f32", "i64"] {
                check(&format!(
                    "kernel @look_up(%i: read {index}[{extent}], %t: read {dtype}[2, {count}],
                       %y: write {dtype}[2, {extent}], %z: write {dtype}[{extent}]) {{
                       for r < 2 {{
                         for j < {extent} vector {{
                           let at: i64 in 0..={last} = cast<i64>({value})
                           %y[r, j] = %t[r, at]
                         }}
                       }}
                       for k < {extent} vector {{
                         if k < {extent} - 3 {{
                           let of: i64 in 0..={last} = cast<i64>({other})
                           %z[k] = %t[1, of]
                         }} else {{
                           %z[k] = %t[0, k mod 3]
                         }}
                       }}
                     }}",
                    count = last + 1,
                    other = value.replace("[j]", "[k]"),
                ));
            }
        }
    }
}

/// What else is asked of such an index is asked of all its bits.
#[test]
fn short_integers_that_are_more_than_indices() {
    for index in ["u8", "i8", "i32"] {
        check(&format!(
            "kernel @look_up(%i: read {index}[40], %t: read i64[300], %y: write i64[40],
               %z: write i64[40]) {{
               for j < 40 vector {{
                 let at: i64 in 0..=15 = cast<i64>(and(%i[j], 15{index}))
                 %y[j] = %t[at] + index((at) mod 4)
               }}
               for k < 40 vector {{
                 let of: i64 in -16..=15 = cast<i64>(%i[k])
                 %z[k] = guard(of < 7 ? %t[16 + (of) div 2] : 5i64)
               }}
             }}"
        ));
        for range in ["-3..=3", "0..=2", "1..=1", "-128..=127", "-2..=2147483647"] {
            check(&format!(
                "kernel @checked(%i: read {index}[21], %t: read f32[400],
                   %y: write f32[21]) {{
                   for j < 21 vector {{
                     if j < 20 {{
                       let at: i64 in {range} = cast<i64>(%i[j])
                       %y[j] = %t[(at + 128) mod 400]
                     }}
                   }}
                 }}"
            ));
        }
    }
}

#[test]
fn indices_that_are_values_are_checked() {
    for extent in [1, 4, 8, 11, 16, 21] {
        for range in ["0..=2", "-2..=0", "1..=1"] {
            check(&format!(
                "kernel @look_up(%i: read i64[{extent}], %t: read f32[5],
                   %y: write f32[{extent}]) {{
                   for j < {extent} vector {{
                     if j < {extent} - 1 {{
                       let at: i64 in {range} = %i[j]
                       %y[j] = %t[at + 2]
                     }}
                   }}
                 }}"
            ));
        }
    }
}

/// What lies in memory is taken apart from there, until something is written over it.
#[test]
fn indices_that_are_written_over() {
    for extent in [1, 3, 8, 13, 16, 40] {
        for (state, start, at, suffix) in [
            ("i64", "and(%i[j], 15)", "%state[k]", ""),
            ("u64", "cast<u64>(and(%i[j], 15))", "cast<i64>(%state[k])", "u64"),
            ("i32", "cast<i32>(and(%i[j], 15))", "cast<i64>(%state[k])", "i32"),
        ] {
            for dtype in ["f32", "i64", "u8"] {
                check(&format!(
                    "kernel @walk(%i: read i64[{extent}], %w: read {state}[16],
                       %t: read {dtype}[2, 16], %y: write {dtype}[2, {extent}]) {{
                       %state: scratch {state}[{extent}]
                       for j < {extent} vector {{ %state[j] = {start} }}
                       for r < 2 {{
                         for k < {extent} vector {{
                           let at: i64 in 0..=15 = {at}
                           %y[r, k] = %t[r, at]
                           %state[k] = and(%w[at], 7{suffix})
                           %y[1 - r, k] = %t[0, 15 - at]
                         }}
                       }}
                     }}"
                ));
            }
        }
    }
}
