//! Programs for several devices: `devices/collectives.bc` is what JAX 0.10.2 hands to a plugin of
//! two devices, a `shard_map` whose body sums in a loop, gathers, permutes, scatters sums,
//! exchanges and branches by the device's number; `XLA` holds what XLA computed of it.

use base::Limits;
use front::ImportOptions;
use import_stablehlo::{PortSplit, StablehloProgram};
use tensor::Tensor;

const XLA: [&[f32]; 6] = [
    &[53.0, 80.0, 55.0, 82.0],
    &[1.0, 2.0, 3.0, 4.0, 2.0, 3.0, 4.0, 5.0],
    &[0.0, 0.0, 1.0, 2.0],
    &[3.0, 5.0, 7.0, 9.0],
    &[1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0],
    &[0.0, 1.0, 6.0, 8.0],
];

fn evaluated(program: &StablehloProgram, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
    let imported = program.import(&ImportOptions::default()).map_err(|found| found.to_string())?;
    let module = &imported.module;
    let function = module.functions.values().next().ok_or("there is no function")?;
    graph::verify(function).map_err(|found| format!("{found:?}"))?;
    let constant = |id| module.constants[id].tensor.clone();
    let precision = eval::EvaluationPrecision::Declared;
    let results = eval::graph::evaluate(function, &constant, inputs, precision);
    results.map_err(|found| format!("{found:?}"))
}

#[test]
fn devices_tell_each_other_what_xla_has_them_tell() {
    let bytes = include_bytes!("devices/collectives.bc");
    let program = StablehloProgram::read(&bytes.to_vec().into(), &Limits::default());
    let program = program.expect("a program");
    let outputs = evaluated(&program, &[Tensor::from_vec(&[4], vec![1.0_f32, 2.0, 3.0, 4.0])]);
    let outputs = outputs.expect("it evaluates");
    for (output, wanted) in outputs.iter().zip(XLA) {
        assert_eq!(output.to_vec::<f32>().expect("floats"), wanted);
    }
    assert_eq!(outputs.len(), XLA.len());
}

/// A program in the generic form, of two devices; its body and its groups are told apart.
fn text(groups: &str, input: &str) -> String {
    format!(
        "\"builtin.module\"() ({{
  \"sdy.mesh\"() <{{mesh = #sdy.mesh<[\"x\"=2, \"y\"=2]>, sym_name = \"m\"}}> : () -> ()
  \"func.func\"() <{{arg_attrs = [{{{input}}}], function_type = (tensor<4xf32>) -> tensor<4xf32>,
      sym_name = \"main\"}}> ({{
  ^bb0(%0: tensor<4xf32>):
    %1 = \"sdy.manual_computation\"(%0) <{{
        in_shardings = #sdy.sharding_per_value<[<@m, [{{\"x\"}}]>]>,
        manual_axes = #sdy<manual_axes{{\"x\", \"y\"}}>,
        out_shardings = #sdy.sharding_per_value<[<@m, [{{\"x\"}}]>]>}}> ({{
    ^bb0(%2: tensor<2xf32>):
      %3 = \"stablehlo.all_reduce\"(%2) <{{replica_groups = dense<{groups}> : tensor<2x2xi64>}}> ({{
      ^bb0(%4: tensor<f32>, %5: tensor<f32>):
        %6 = \"stablehlo.maximum\"(%4, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        \"stablehlo.return\"(%6) : (tensor<f32>) -> ()
      }}) : (tensor<2xf32>) -> tensor<2xf32>
      \"sdy.return\"(%3) : (tensor<2xf32>) -> ()
    }}) : (tensor<4xf32>) -> tensor<4xf32>
    \"func.return\"(%1) : (tensor<4xf32>) -> ()
  }}) : () -> ()
}}) : () -> ()"
    )
}

fn read(text: String) -> StablehloProgram {
    StablehloProgram::read(&text.into_bytes().into(), &Limits::default()).expect("a program")
}

#[test]
fn groups_are_kept_apart() {
    let input = [Tensor::from_vec(&[4], vec![1.0_f32, 9.0, 3.0, 4.0])];
    // Along `x` the halves meet; along `y` all have the same half.
    for (groups, wanted) in
        [("[[0, 2], [1, 3]]", [3.0, 9.0, 3.0, 9.0]), ("[[0, 1], [2, 3]]", [1.0, 9.0, 3.0, 4.0])]
    {
        let outputs = evaluated(&read(text(groups, "")), &input).expect("it evaluates");
        assert_eq!(outputs[0].to_vec::<f32>().expect("floats"), wanted, "{groups}");
    }
    let refused = evaluated(&read(text("[[0, 7], [1, 3]]", "")), &input);
    assert!(refused.is_err_and(|found| found.contains("there is no device 7")));
}

#[test]
fn splits_of_ports_are_told() {
    let attribute = "sdy.sharding = #sdy.sharding<@m, [{\"y\"}]>";
    let program = read(text("[[0, 2], [1, 3]]", attribute));
    let (inputs, outputs) = program.splits(4).expect("they fit");
    let places = vec![vec![0], vec![1], vec![0], vec![1]];
    assert_eq!(inputs, [PortSplit { counts: vec![2], places }]);
    assert_eq!(outputs, [PortSplit { counts: vec![1], places: vec![vec![0]; 4] }]);
    assert!(program.splits(2).is_err(), "the mesh has more devices");
}
