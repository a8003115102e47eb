//! Loops that are marked as instructions: each row of `backend`'s table, in random surroundings,
//! computes the evaluator's bits on every target that has it, and is refused by the others.
//!
//! `X64_CASES=100000` runs longer.

mod support;

use backend::{Instruction, Target, check_instructions};
use loops::{Access, Kernel, Scope, Stmt};
use proptest::prelude::*;
use support::{Exact, agree, small_buffers, targets};
use tensor::{DType, Tensor};

fn parse(text: &str) -> Kernel {
    loops::parse(text).unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

/// Types of an instruction's operands and of its sum, and how many elements a lane takes.
fn outline(row: &Instruction) -> (Vec<DType>, DType, i64) {
    let buffers = || row.lane.buffers.values();
    let reads = buffers().filter(|buffer| buffer.scope == Scope::Parameter(Access::Read));
    let sum = buffers().find(|buffer| buffer.scope == Scope::Parameter(Access::Update));
    let Some(Stmt::For(looped)) = row.lane.body.first() else { panic!("no loop: {}", row.lane) };
    let count = looped.extent.as_constant().expect("a constant");
    (reads.map(|buffer| buffer.dtype).collect(), sum.expect("a sum").dtype, count)
}

/// What surrounds an instruction.
#[derive(Clone, Debug)]
struct Surroundings {
    rows: i64,
    columns: i64,
    terms: i64,
    /// Elements between rows of the first operand, beyond what is summed.
    gap: i64,
    /// Terms are written out.
    written_out: bool,
    /// The operands change places, as factors, and as what stands still.
    swapped: [bool; 2],
    /// Sums are in memory, not in registers.
    in_memory: bool,
    /// Only so many columns are added to, the others hidden by a condition.
    guarded: Option<i64>,
    /// Elements of unsigned bytes are fields of what lies in memory: so many bits from one to the
    /// next, and those that are kept.
    field: Option<(u8, u8)>,
    /// They are what a table has in the place of those.
    table: Option<[u32; 4]>,
    /// They are joined with some bits of what lies in memory, moved up by so many.
    joined: Option<(u8, u8)>,
}

/// A product of a matrix by packed columns.
fn kernel(row: &Instruction, around: &Surroundings) -> Kernel {
    let (operands, sum, n) = outline(row);
    let Surroundings { rows, columns, terms, gap, .. } = *around;
    let [still, moving] = match around.swapped[0] {
        true => [operands[1], operands[0]],
        false => [operands[0], operands[1]],
    };
    let (at, zero) = match sum.is_float() {
        true => (format!("{} - e", n - 1), "0.0".to_owned()),
        false => ("e".to_owned(), format!("0{sum}")),
    };
    let length = terms * n;
    let (stride, name) = (length + gap, row.name());
    let field = |mut element: String, dtype: DType| {
        if dtype != DType::U8 {
            return element;
        }
        let memory = element.clone();
        if let Some((step, kept)) = around.field {
            element =
                format!("and(xor(shr({element}, {step}u8 * cast<u8>(index(h))), 5u8), {kept}u8)");
        }
        if let Some([a, b, c, d]) = around.table {
            let words = format!("{a}u32, {b}u32, {c}u32, {d}u32");
            element = format!("xor(lookup({element}, {words}), 2u8)");
        }
        if let Some((by, kept)) = around.joined {
            element = format!("or({element}, and(shl({memory}, {by}u8), {kept}u8))");
        }
        element
    };
    let one = format!("cast<{sum}>({})", field(format!("%a[t, r1, {n}*k + {at}]"), still));
    let two = format!("cast<{sum}>({})", field(format!("%b[k, c1, {at}]"), moving));
    let value = if around.swapped[1] { format!("{two} * {one}") } else { format!("{one} * {two}") };
    let update = format!("for e < {n} as {name} {{ %acc[r1, c1] += {value} }}");
    let update = match around.guarded {
        Some(most) => format!("if c1 + t < {most} {{ {update} }}"),
        None => update,
    };
    let terms_are = if around.written_out { "unroll" } else { "" };
    let scope = if around.in_memory { "scratch" } else { "register" };
    parse(&format!(
        "kernel @product(
           %a: read {still}[3, {rows}, {length}] strides [{rows} * {stride}, {stride}, 1],
           %b: read {moving}[{terms}, {columns}, {n}],
           %c: write {sum}[3, {rows}, {columns}]
         ) {{
           %acc: {scope} {sum}[{rows}, {columns}]
           for t < 3 parallel {{
             for r < {rows} unroll {{ for c < {columns} vector {{ %acc[r, c] = {zero} }} }}
             for k < {terms} {terms_are} {{ for h < 2 unroll {{
               for r1 < {rows} unroll {{ for c1 < {columns} vector {{ {update} }} }}
             }} }}
             for r2 < {rows} unroll {{ for c2 < {columns} vector {{
               %c[t, r2, c2] = %acc[r2, c2]
             }} }}
           }}
         }}"
    ))
}

fn surroundings() -> impl Strategy<Value = Surroundings> {
    let extents = ((1..5i64, 1..40i64, 1..6i64, 0..5i64), any::<bool>());
    let guarded = prop::option::weighted(0.3, 0..40i64);
    let field = prop::option::weighted(0.5, (0..9u8, any::<u8>()));
    let table = prop::option::weighted(0.4, any::<[u32; 4]>());
    let joined = prop::option::weighted(0.4, (0..9u8, any::<u8>()));
    let loads = (field, table, joined);
    (extents, any::<[bool; 2]>(), any::<bool>(), guarded, loads).prop_map(
        |(extents, swapped, in_memory, guarded, (field, table, joined))| {
            let ((rows, columns, terms, gap), written_out) = extents;
            Surroundings {
                rows,
                columns,
                terms,
                gap,
                written_out,
                swapped,
                in_memory,
                guarded,
                field,
                table,
                joined,
            }
        },
    )
}

/// The instructions that some processor of this architecture has.
fn rows() -> Vec<&'static Instruction> {
    let has = |row: &&Instruction| targets().any(|target| row.cost(target.isa).is_some());
    Instruction::all().iter().filter(has).collect()
}

fn cases() -> u32 {
    std::env::var("X64_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]
    #[test]
    fn marked_loops_compute_the_bits_of_loops(
        row in 0..rows().len(), around in surroundings(), seed in any::<u64>(),
    ) {
        let kernel = kernel(rows()[row], &around);
        agree(&kernel, &small_buffers(&kernel, &[], seed), &[], Exact::Bits);
    }
}

#[test]
fn integers_at_the_ends_of_their_ranges() {
    let around = Surroundings {
        rows: 2,
        columns: 20,
        terms: 3,
        gap: 0,
        written_out: false,
        swapped: [false; 2],
        in_memory: false,
        guarded: None,
        field: None,
        table: None,
        joined: None,
    };
    // Sums of bytes of few bits are joined while they fit: so many that they do not.
    let kept = (1..=8).map(|bits| Some((0, u8::MAX >> (8 - bits))));
    let fields = kept.map(|field| Surroundings { field, terms: 40, written_out: true, ..around });
    // Numbers out of a table are as large as its entries.
    let tables = [0x1818_1818, 0x7d7d_7d7d, 0xfdfd_fdfd_u32].map(|word| Surroundings {
        table: Some([word; 4]),
        terms: 40,
        written_out: true,
        ..around
    });
    // Bits above those of a field: sums are as large as both together.
    let joined = [0x10, 0x30, 0xf0].map(|kept| Surroundings {
        field: Some((0, 15)),
        joined: Some((4, kept)),
        terms: 40,
        written_out: true,
        ..around
    });
    let all = [around.clone()].into_iter().chain(fields).chain(tables).chain(joined);
    let all: Vec<Surroundings> = all.collect();
    let integers = rows().into_iter().filter(|row| outline(row).1.is_integer());
    for (row, around) in integers.flat_map(|row| all.iter().map(move |around| (row, around))) {
        let kernel = kernel(row, around);
        for ends in [[false, false], [false, true], [true, false], [true, true]] {
            let mut buffers = small_buffers(&kernel, &[], 1);
            for (buffer, highest) in buffers.iter_mut().zip(ends) {
                let dtype = buffer.dtype();
                let (low, high) = dtype.integer_range().expect("integers");
                let end = if highest { high } else { low };
                let end = tensor::Scalar::from_i64(dtype, end as i64);
                *buffer = Tensor::from_scalars(dtype, &[buffer.len()], &vec![end; buffer.len()]);
            }
            agree(&kernel, &buffers, &[], Exact::Bits);
        }
    }
}

#[test]
fn targets_without_an_instruction_refuse_it() {
    let around = Surroundings {
        rows: 1,
        columns: 16,
        terms: 2,
        gap: 0,
        written_out: false,
        swapped: [false; 2],
        in_memory: false,
        guarded: None,
        field: None,
        table: None,
        joined: None,
    };
    let mut refused = 0;
    for row in Instruction::all() {
        let kernel = kernel(row, &around);
        for target in targets() {
            let has = row.cost(target.isa).is_some();
            assert_eq!(check_instructions(&kernel, &target).is_ok(), has, "{}", row.name());
            let compiled = tilewright_backend_x64::compile_with(
                &kernel,
                &target,
                tilewright_backend_x64::X64Options::default(),
            );
            match compiled {
                Ok(_) => assert!(has, "{} on {}", row.name(), target.name),
                Err(error) => {
                    assert!(!has, "{} on {}: {error}", row.name(), target.name);
                    let reason = format!("the target has no instruction `{}`", row.name());
                    assert!(error.to_string().contains(&reason), "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_loop_that_is_no_such_instruction_is_refused() {
    let target = Target::named("x86-64-v4-bf16").expect("a row");
    let kernel = parse(
        "kernel @product(%a: read bf16[2], %b: read bf16[16, 2], %c: update f32[16]) {
           for j < 16 vector { for e < 2 as dot_bf16_2 {
             %c[j] += cast<f32>(%a[e]) * cast<f32>(%b[j, e])
           } }
         }",
    );
    let options = tilewright_backend_x64::X64Options::default();
    let compiled = tilewright_backend_x64::compile_with(&kernel, &target, options);
    let Err(error) = compiled else { panic!("it is compiled") };
    let reason = "`dot_bf16_2` meets its elements in another order";
    assert!(error.to_string().contains(reason), "{error}");
}
