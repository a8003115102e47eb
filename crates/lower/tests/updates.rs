//! Donated parameters: changed where they lie, or not, with the reason.

use backend::Target;
use graph::{Function, FunctionBuilder, Op, TensorType, Type, ValueId};
use lower::{LowerOptions, Lowered, Role};
use module::Module;
use std::collections::BTreeMap;
use std::sync::Arc;
use tensor::{DType, ScalarFunction};

/// A scatter of rows into a cache; what else is a result, `more` says.
fn function(more: impl Fn(&mut FunctionBuilder, ValueId, ValueId) -> Vec<ValueId>) -> Function {
    let mut builder = FunctionBuilder::new("main");
    let ty = |dtype: DType, shape: &[i64]| {
        let shape: Vec<sym::Expr> = shape.iter().map(|&extent| extent.into()).collect();
        Type::Tensor(TensorType { dtype, shape: shape.into() })
    };
    let past = builder.parameter("past", ty(DType::F32, &[64, 8]));
    let rows = builder.parameter("rows", ty(DType::F32, &[2, 8]));
    let places = builder.parameter("places", ty(DType::I64, &[2]));
    let op = Op::Scatter { axes: vec![0], batch: 0, position: 0, reduction: None };
    let present = builder.add(op, &[past, rows, places]).expect("a scatter")[0];
    let mut results = vec![("present".to_owned(), present)];
    for (number, value) in more(&mut builder, past, present).into_iter().enumerate() {
        results.push((format!("more{number}"), value));
    }
    builder.finish(results)
}

fn lowered(function: Function) -> (Module, Lowered) {
    let mut module = Module::default();
    let inputs = function.parameters().len();
    let id = module.functions.push(Arc::new(function));
    let role = Role::Main { inputs, constants: Vec::new() };
    let options = LowerOptions { donated: vec![(0, 0)], ..LowerOptions::new(role) };
    let target = Target::named("x86-64-v4").expect("a target");
    let made = lower::lower(&mut module, id, &BTreeMap::new(), &target, &options);
    let made = made.expect("a program");
    let program = &module.programs[made.program];
    memory_plan::check(program, &module.kernels, memory_plan::TurnOrder::Free)
        .expect("a sound plan");
    program::verify(program).expect("a sound program");
    let text = program.to_string();
    assert_eq!(program::parse(&text).expect("the text").to_string(), text);
    (module, made)
}

fn reason(made: &Lowered) -> String {
    let about = made.remarks.iter().find(|remark| remark.message.contains("changed in place"));
    about.map_or_else(String::new, |remark| remark.message.clone())
}

#[test]
fn what_nothing_else_reads_is_changed_in_place() {
    let doubled = |builder: &mut FunctionBuilder, _: ValueId, present: ValueId| {
        vec![builder.map(ScalarFunction::Add, &[present, present]).expect("a sum")]
    };
    let (module, made) = lowered(function(doubled));
    assert_eq!(made.updates, [(0, 0)]);
    let program = &module.programs[made.program];
    let text = program.to_string();
    assert!(text.contains("at output 0 updated"), "{text}");
    // 2 rows of 8 numbers are written, not 64.
    let naive = made.kernels[0].naive.kernel.to_string();
    assert!(naive.contains("update f32") && !naive.contains("< 64"), "{naive}");
}

#[test]
fn what_is_read_elsewhere_is_copied() {
    let before = |builder: &mut FunctionBuilder, past: ValueId, _: ValueId| {
        vec![builder.map(ScalarFunction::Neg, &[past]).expect("a map")]
    };
    let (_, made) = lowered(function(before));
    assert_eq!((made.updates.len(), reason(&made).contains("read elsewhere")), (0, true));
    let again = |_: &mut FunctionBuilder, past: ValueId, _: ValueId| vec![past];
    let (_, made) = lowered(function(again));
    assert_eq!((made.updates.len(), reason(&made).contains("read elsewhere")), (0, true));
    let twice = |_: &mut FunctionBuilder, _: ValueId, present: ValueId| vec![present];
    let (_, made) = lowered(function(twice));
    assert_eq!((made.updates.len(), reason(&made).contains("wanted twice")), (0, true));
}

/// Rows added up into sums, and what else is made in front and behind: the kernels of the scatter.
fn added_up(
    front: impl Fn(&mut FunctionBuilder, ValueId) -> Vec<ValueId>,
    behind: impl Fn(&mut FunctionBuilder, ValueId, ValueId) -> Vec<ValueId>,
) -> (String, String) {
    let mut builder = FunctionBuilder::new("main");
    let ty = |dtype: DType, shape: &[i64]| {
        let shape: Vec<sym::Expr> = shape.iter().map(|&extent| extent.into()).collect();
        Type::Tensor(TensorType { dtype, shape: shape.into() })
    };
    let table = builder.parameter("table", ty(DType::F32, &[64, 8, 4]));
    let rows = builder.parameter("rows", ty(DType::F32, &[2, 4, 2]));
    let places = builder.parameter("places", ty(DType::I64, &[2]));
    let sums = builder.reduce_axes(table, &[2], tensor::Reduction::Sum, DType::F32, false);
    let sums = builder.reshape(sums.expect("sums"), vec![64.into(), 4.into(), 2.into()]);
    let sums = sums.expect("sums in another shape");
    let mut results = front(&mut builder, sums);
    let reduction = Some(tensor::Reduction::Sum);
    let op = Op::Scatter { axes: vec![0], batch: 0, position: 0, reduction };
    let written = builder.add(op, &[sums, rows, places]).expect("a scatter")[0];
    results.extend(behind(&mut builder, sums, written));
    let more = results.into_iter().enumerate().map(|(at, value)| (format!("more{at}"), value));
    let results = std::iter::once(("result".to_owned(), written)).chain(more).collect();
    let (module, made) = lowered(builder.finish(results));
    let scatters = made.kernels.iter().filter(|kernel| kernel.name.contains("scatter"));
    let naive = scatters.map(|kernel| kernel.naive.kernel.to_string()).collect();
    (naive, module.programs[made.program].to_string())
}

#[test]
fn what_kernels_made_is_changed_where_it_lies() {
    let negated = |builder: &mut FunctionBuilder, value: ValueId| {
        vec![builder.map(ScalarFunction::Neg, &[value]).expect("a map")]
    };
    let (kernel, program) = added_up(|_, _| Vec::new(), |builder, _, it| negated(builder, it));
    assert!(kernel.contains("update f32") && !kernel.contains("< 64"), "{kernel}");
    // The sums lie in the output from the beginning.
    assert!(program.contains("arena 0 {"), "{program}");
    let (kernel, _) = added_up(negated, |_, _, _| Vec::new());
    assert!(kernel.contains("update f32") && !kernel.contains("< 64"), "{kernel}");
}

#[test]
fn what_kernels_made_is_copied_where_it_is_read_later() {
    let both = |builder: &mut FunctionBuilder, sums: ValueId, written: ValueId| {
        vec![builder.map(ScalarFunction::Mul, &[sums, written]).expect("a map")]
    };
    let (kernel, _) = added_up(|_, _| Vec::new(), both);
    assert!(!kernel.contains("update f32") && kernel.contains("< 64"), "{kernel}");
    let (kernel, _) = added_up(|_, sums| vec![sums], |_, _, _| Vec::new());
    assert!(!kernel.contains("update f32") && kernel.contains("< 64"), "{kernel}");
}

/// A loop that writes a row of a table each turn, of what `row` makes of the table and the turn's
/// number.
fn table_loop(
    row: impl Fn(&mut FunctionBuilder, ValueId, ValueId) -> ValueId,
    more: impl Fn(&mut FunctionBuilder, ValueId, ValueId) -> ValueId,
) -> String {
    let mut builder = FunctionBuilder::new("main");
    let ty = |dtype: DType, shape: &[i64]| {
        let shape: Vec<sym::Expr> = shape.iter().map(|&extent| extent.into()).collect();
        Type::Tensor(TensorType { dtype, shape: shape.into() })
    };
    let table = builder.parameter("table", ty(DType::F32, &[64, 8]));
    let inside = builder.begin_region(&[ty(DType::I64, &[]), ty(DType::F32, &[64, 8])]);
    let (turn, carried) = (inside[0], inside[1]);
    let place = builder.reshape(turn, vec![1.into()]).expect("a vector");
    let rows = row(&mut builder, carried, place);
    let op = Op::Scatter { axes: vec![0], batch: 0, position: 0, reduction: None };
    let written = builder.add(op, &[carried, rows, place]).expect("a scatter")[0];
    let next = more(&mut builder, carried, written);
    let body = builder.end_region(&[next]);
    let op = Op::Scan { trip_count: 64.into(), carried: 1, reverse: false };
    let result = builder.add_with_regions(op, &[table], &[body]).expect("a loop")[0];
    let mut function = builder.finish(vec![("result".to_owned(), result)]);
    function.compact();
    let (module, made) = lowered(function);
    module.programs[made.program].to_string()
}

/// The row of this place, changed.
fn changed(builder: &mut FunctionBuilder, table: ValueId, place: ValueId) -> ValueId {
    let row = builder.gather(table, &[0], &[place], 0, 0).expect("a row");
    let sums =
        builder.reduce_axes(row, &[1], tensor::Reduction::Sum, DType::F32, true).expect("sums");
    builder.map_broadcast(ScalarFunction::Add, &[row, sums]).expect("a row")
}

#[test]
fn what_a_loop_carries_is_changed_in_place() {
    let text = table_loop(changed, |_, _, written| written);
    let in_loop = text.split_once("repeat").expect("a loop").1;
    assert!(!in_loop.contains("copy"), "{text}");
}

#[test]
fn what_a_loop_reads_behind_the_write_is_copied() {
    let text = table_loop(changed, |builder, table, written| {
        builder.map(ScalarFunction::Add, &[table, written]).expect("a sum")
    });
    assert!(text.split_once("repeat").expect("a loop").1.contains("copy 2048"), "{text}");
}
