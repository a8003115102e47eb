//! Values that runs change where they lie, and those that are copied there because something else
//! reads them: the same values both ways.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use graph::{Function, FunctionBuilder, Op, TensorType, Type};
use module::Module;
use sym::{Expr, Range};
use tensor::{DType, Reduction, ScalarFunction};
use tilewright::{Executable, ModelState, Options, Tensor, Update, compile_module, runs_here};

/// `present = past` with rows written at places, and `sums` of its columns; where `twice`, also
/// `before`, the sums of what was there.
fn cache(twice: bool) -> Function {
    let mut builder = FunctionBuilder::new("main");
    let extent = |name: &str, builder: &mut FunctionBuilder| {
        Expr::symbol(builder.symbol(name, Range::new(1, 64)))
    };
    let (n, t) = (extent("places", &mut builder), extent("rows", &mut builder));
    let ty = |dtype: DType, shape: &[Expr]| Type::Tensor(TensorType { dtype, shape: shape.into() });
    let past = builder.parameter("past", ty(DType::F32, &[n, 2.into()]));
    let rows = builder.parameter("rows", ty(DType::F32, &[t.clone(), 2.into()]));
    let places = builder.parameter("places", ty(DType::I64, &[t]));
    let op = Op::Scatter { axes: vec![0], batch: 0, position: 0, reduction: None };
    let present = builder.add(op, &[past, rows, places]).expect("a scatter")[0];
    let sum = |value, builder: &mut FunctionBuilder| {
        builder.reduce_axes(value, &[0], Reduction::Sum, DType::F32, false).expect("sums")
    };
    let sums = sum(present, &mut builder);
    let mut results = vec![("present".to_owned(), present), ("sums".to_owned(), sums)];
    if twice {
        results.push(("before".to_owned(), sum(past, &mut builder)));
    }
    builder.finish(results)
}

fn compiled(function: Function, updates: &[(&str, &str)]) -> Option<Executable> {
    if !runs_here() {
        return None;
    }
    let mut module = Module::default();
    module.functions.push(Arc::new(function));
    let options = updates.iter().fold(Options::default().with_threads(1), |options, update| {
        options.with_update(update.0, update.1)
    });
    Some(compile_module(module, &options).expect("an executable"))
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    (0..tensor.len()).map(|at| tensor.get_f64(at) as f32).collect()
}

#[test]
fn rows_are_written_where_the_cache_lies() {
    for twice in [false, true] {
        let Some(executable) = compiled(cache(twice), &[("present", "past")]) else { return };
        let extents = BTreeMap::from([("places".to_owned(), 8)]);
        let mut state = executable.new_state(&extents).expect("a state");
        state.set_extent("places", 4).expect("less");
        let run = |rows: &[f32], places: &[i64], state: &mut tilewright::ModelState| {
            let rows = Tensor::from_slice(&[places.len(), 2], rows);
            let places = Tensor::from_slice(&[places.len()], places);
            let inputs = [("rows", &rows), ("places", &places)];
            let outputs = executable.run_with_state(&inputs, state)?;
            assert!(outputs.get("present").is_none(), "it is in the state");
            Ok::<Vec<f32>, base::Diagnostics>(floats(outputs.tensor("sums")?))
        };
        assert_eq!(run(&[1.0, 2.0], &[0], &mut state).expect("sums"), [1.0, 2.0]);
        assert_eq!(run(&[3.0, 4.0, 5.0, 6.0], &[1, 2], &mut state).expect("sums"), [9.0, 12.0]);
        // What lies behind the extent of a run is kept, and seen by one that has more.
        state.set_extent("places", 8).expect("as much as there is");
        assert_eq!(run(&[7.0, 7.0], &[7], &mut state).expect("sums"), [16.0, 19.0]);
        state.set_extent("places", 2).expect("less");
        assert_eq!(run(&[0.5, 0.5], &[0], &mut state).expect("sums"), [3.5, 4.5]);
        let value = state.value("past").expect("the cache");
        assert_eq!((value.shape(), floats(&value)), (&[2, 2][..], vec![0.5, 0.5, 3.0, 4.0]));
        let found = run(&[0.0, 0.0], &[2], &mut state).expect_err("a place outside");
        assert!(found.to_string().contains("TW0501"), "{found}");
        assert!(state.set_extent("places", 9).is_err() && state.set_extent("rows", 1).is_err());
        assert_eq!(executable.statistics().compiles, 4);
    }
}

/// The caches of two callers, into which the same rows are written.
fn two_caches() -> Function {
    let mut builder = FunctionBuilder::new("main");
    let n = Expr::symbol(builder.symbol("places", Range::new(1, 64)));
    let ty = |dtype: DType, shape: &[Expr]| Type::Tensor(TensorType { dtype, shape: shape.into() });
    let rows = builder.parameter("rows", ty(DType::F32, &[Expr::ONE, 2.into()]));
    let places = builder.parameter("places", ty(DType::I64, &[Expr::ONE]));
    let mut results = Vec::new();
    for name in ["one", "two"] {
        let past = ty(DType::F32, &[n.clone(), 2.into()]);
        let past = builder.parameter(format!("{name}.past").as_str(), past);
        let op = Op::Scatter { axes: vec![0], batch: 0, position: 0, reduction: None };
        let present = builder.add(op, &[past, rows, places]).expect("a scatter")[0];
        let sums = builder.reduce_axes(present, &[0], Reduction::Sum, DType::F32, false);
        results.push((format!("{name}.present"), present));
        results.push((format!("{name}.sums"), sums.expect("sums")));
    }
    builder.finish(results)
}

#[test]
fn a_run_changes_several_states_and_states_go_from_run_to_run() {
    let updates = [("one.present", "one.past"), ("two.present", "two.past")];
    let (Some(one), Some(two)) =
        (compiled(cache(false), &[("present", "past")]), compiled(two_caches(), &updates))
    else {
        return;
    };
    let extents = BTreeMap::from([("places".to_owned(), 8)]);
    let mut states = [0, 1, 2].map(|_| one.new_state(&extents).expect("a state"));
    let rows = Tensor::from_slice(&[1, 2], &[1.0_f32, 2.0]);
    let both = |first: usize, second: usize, place: i64, states: &mut [ModelState; 3]| {
        let places = Tensor::from_slice(&[1], &[place]);
        let inputs = [("rows", &rows), ("places", &places)];
        let [a, b] = states.get_disjoint_mut([first, second]).expect("two of them");
        let outputs = two.run_with_states(&inputs, &mut [("one.", a), ("two.", b)])?;
        Ok::<_, base::Diagnostics>(
            ["one.sums", "two.sums"].map(|name| floats(outputs.tensor(name).expect("sums"))),
        )
    };
    assert_eq!(both(0, 1, 0, &mut states).expect("sums"), [[1.0, 2.0], [1.0, 2.0]]);
    assert_eq!(both(1, 2, 1, &mut states).expect("sums"), [[2.0, 4.0], [1.0, 2.0]]);
    assert_eq!(both(2, 1, 2, &mut states).expect("sums"), [[2.0, 4.0], [3.0, 6.0]]);
    // Each goes on alone, with what the runs for two have left.
    let places = Tensor::from_slice(&[1], &[3_i64]);
    for (state, wanted) in states.iter_mut().zip([2.0_f32, 4.0, 3.0]) {
        let inputs = [("rows", &rows), ("places", &places)];
        let outputs = one.run_with_state(&inputs, state).expect("sums");
        assert_eq!(floats(outputs.tensor("sums").expect("sums")), [wanted, 2.0 * wanted]);
    }
    states[0].set_extent("places", 4).expect("less");
    assert!(both(0, 1, 0, &mut states).is_err(), "their extents differ");
    states[1].set_extent("places", 4).expect("less");
    assert!(both(0, 1, 0, &mut states).is_ok());
    let inputs = [("rows", &rows), ("places", &places)];
    let [a, b, _] = &mut states;
    let foreign = two.run_with_states(&inputs, &mut [("one.", a), ("other.", b)]);
    assert!(foreign.expect_err("no such names").to_string().contains("another model"));
    let few = two.run_with_states(&inputs, &mut [("one.", &mut states[0])]);
    assert!(few.expect_err("one of two").to_string().contains("another model"));
    assert!(two.run_with_states(&inputs, &mut []).is_err());
}

#[test]
fn weights_and_their_moments_are_updated() {
    // One step of gradient descent with momentum: moment = 0.5 moment + gradient, weight -= moment.
    let mut builder = FunctionBuilder::new("main");
    let ty = Type::Tensor(TensorType { dtype: DType::F32, shape: vec![3.into()].into() });
    let [weight, moment, gradient] =
        ["weight", "moment", "gradient"].map(|name| builder.parameter(name, ty.clone()));
    let half = builder.scalar(DType::F32, 0.5);
    let kept = builder.map_broadcast(ScalarFunction::Mul, &[moment, half]).expect("a product");
    let moved = builder.map(ScalarFunction::Add, &[kept, gradient]).expect("a sum");
    let next = builder.map(ScalarFunction::Sub, &[weight, moved]).expect("a difference");
    let results = vec![("next_weight".to_owned(), next), ("next_moment".to_owned(), moved)];
    let updates = [("next_weight", "weight"), ("next_moment", "moment")];
    let Some(executable) = compiled(builder.finish(results), &updates) else { return };
    let mut state = executable.new_state(&BTreeMap::new()).expect("a state");
    let gradient = Tensor::from_slice(&[3], &[1.0_f32, 2.0, -4.0]);
    for _ in 0..2 {
        executable.run_with_state(&[("gradient", &gradient)], &mut state).expect("a step");
    }
    assert_eq!(floats(&state.value("moment").expect("moments")), [1.5, 3.0, -6.0]);
    assert_eq!(floats(&state.value("weight").expect("weights")), [-2.5, -5.0, 10.0]);
    let missing = executable.run_with_state(&[], &mut state).expect_err("no gradient");
    assert!(missing.to_string().contains("gradient"), "{missing}");
}

#[test]
fn a_run_that_a_place_outside_ends_changes_nothing() {
    // What lies at a place is added to all elements.
    let mut builder = FunctionBuilder::new("main");
    let ty = |dtype: DType, extent: i64| {
        Type::Tensor(TensorType { dtype, shape: vec![extent.into()].into() })
    };
    let weight = builder.parameter("weight", ty(DType::F32, 4));
    let places = builder.parameter("places", ty(DType::I64, 1));
    let found = builder.gather(weight, &[0], &[places], 0, 0).expect("an element");
    let next = builder.map_broadcast(ScalarFunction::Add, &[weight, found]).expect("a sum");
    let results = vec![("next_weight".to_owned(), next)];
    let updates = [("next_weight", "weight")];
    let Some(executable) = compiled(builder.finish(results), &updates) else { return };
    let given =
        |place: i64| [Tensor::from_slice(&[4], &[0.0_f32; 4]), Tensor::from_slice(&[1], &[place])];
    let mut weight: Vec<u8> = [1.0_f32, 2.0, 4.0, 8.0].map(f32::to_ne_bytes).concat();
    let mut run = |place: i64| {
        let memory = &mut weight[..];
        let mut updates = [Update { input: 0, output: Some(0), memory }];
        let outcome = executable.run_updating(&given(place), &mut updates);
        let (found, _) = weight.as_chunks::<4>();
        (outcome, found.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect::<Vec<_>>())
    };
    let (outcome, found) = run(1);
    assert!(outcome.is_ok_and(|outputs| outputs[0].is_none()));
    assert_eq!(found, [3.0, 4.0, 6.0, 10.0]);
    let (outcome, found) = run(4);
    assert!(outcome.is_err_and(|error| error.to_string().contains("TW0501")));
    assert_eq!(found, [3.0, 4.0, 6.0, 10.0]);
}

#[test]
fn names_that_the_model_does_not_have_are_refused() {
    let Some(executable) = compiled(cache(false), &[("present", "passed")]) else { return };
    let refused = executable.new_state(&BTreeMap::new()).err().expect("a refusal").to_string();
    assert!(refused.contains("`passed`"), "{refused}");
    let Some(executable) = compiled(cache(false), &[("present", "past")]) else { return };
    let (Some(other), Some(alike)) =
        (compiled(cache(true), &[]), compiled(cache(false), &[("present", "past")]))
    else {
        return;
    };
    let extents = BTreeMap::from([("places".to_owned(), 4)]);
    let mut state = executable.new_state(&extents).expect("a state");
    let rows = Tensor::from_slice(&[1, 2], &[1.0_f32, 2.0]);
    let places = Tensor::from_slice(&[1], &[0_i64]);
    let inputs = [("rows", &rows), ("places", &places)];
    let foreign = other.run_with_state(&inputs, &mut state).expect_err("another model's");
    assert!(foreign.to_string().contains("another model"), "{foreign}");
    for executable in [&executable, &alike] {
        executable.run_with_state(&inputs, &mut state).expect("a state that fits");
    }
    let refused = executable.new_state(&BTreeMap::new()).err().expect("a refusal").to_string();
    assert!(refused.contains("extents that are not given"), "{refused}");
}

/// Attention whose past and present keys are one buffer, as ONNX has it.
const ONE_BUFFER: &str = "
    input keys: f32[1, 2, places, 4]
    input rows: f32[1, 2, t, 4]
    input first: i64[1]
    present = TensorScatter(keys, rows, first) {axis = 2}
    norms = ReduceL2(present) {keepdims = 0}
    output present: f32[1, 2, places, 4]
    output norms: f32[]
";

#[test]
fn past_and_present_of_an_onnx_model_are_one_buffer() {
    if !runs_here() {
        return;
    }
    let options = Options::default().with_update("present", "keys");
    let mut model = common::model(ONE_BUFFER);
    model.opset_import.iter_mut().for_each(|set| set.version = 24);
    let executable = common::compiled(&model, options);
    let extents = BTreeMap::from([("places".to_owned(), 6)]);
    let mut state = executable.new_state(&extents).expect("a state");
    // The places are behind the heads, so a run sees all of them.
    assert!(state.set_extent("places", 4).is_err());
    let mut sum = 0.0;
    for first in 0..3_i64 {
        let numbers: Vec<f32> = (0..8).map(|number| (number + first) as f32).collect();
        sum += numbers.iter().map(|number| number * number).sum::<f32>();
        let rows = Tensor::from_slice(&[1, 2, 1, 4], &numbers);
        let first = Tensor::from_slice(&[1], &[2 * first]);
        let inputs = [("rows", &rows), ("first", &first)];
        let outputs = executable.run_with_state(&inputs, &mut state).expect("norms");
        let norm = floats(outputs.tensor("norms").expect("a tensor"))[0];
        assert!((norm - sum.sqrt()).abs() < 1e-4, "{norm}, not {}", sum.sqrt());
    }
    let keys = floats(&state.value("keys").expect("keys"));
    assert_eq!(&keys[..4], [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(&keys[24 + 16..24 + 20], [6.0, 7.0, 8.0, 9.0]);
}

#[test]
fn updates_of_what_is_not_there_or_twice_are_refused() {
    let Some(executable) = compiled(cache(false), &[]) else { return };
    let inputs = vec![Tensor::from_slice(&[1], &[0_i64]); 3];
    let refused = |places: &[(usize, Option<usize>)]| {
        let mut memory = vec![[0_u8; 8]; places.len()];
        let mut updates: Vec<Update<'_>> = (places.iter().zip(&mut memory))
            .map(|(&(input, output), memory)| Update { input, output, memory })
            .collect();
        executable.run_updating(&inputs, &mut updates).expect_err("a refusal").to_string()
    };
    let (first, second) = (Some(0), Some(1));
    let given = [&[(3, first)][..], &[(3, None)], &[(0, Some(9))], &[(0, first), (1, first)]];
    let twice = [&[(0, first), (0, second)][..], &[(0, None), (0, first)]];
    for places in given.into_iter().chain(twice) {
        assert!(refused(places).contains("TW0202"), "{places:?}");
    }
}
