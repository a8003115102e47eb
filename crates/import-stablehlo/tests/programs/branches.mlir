module @jit_branches attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x3xf32>, %arg1: tensor<i32>) -> (tensor<4x3xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<2> : tensor<i32>
    %0 = stablehlo.clamp %c, %arg1, %c_0 : tensor<i32>
    %1 = "stablehlo.case"(%0) ({
      %6 = stablehlo.sine %arg0 : tensor<4x3xf32>
      stablehlo.return %6 : tensor<4x3xf32>
    }, {
      %6 = stablehlo.cosine %arg0 : tensor<4x3xf32>
      stablehlo.return %6 : tensor<4x3xf32>
    }, {
      %6 = stablehlo.multiply %arg0, %arg0 : tensor<4x3xf32>
      stablehlo.return %6 : tensor<4x3xf32>
    }) : (tensor<i32>) -> tensor<4x3xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x3xf32>, tensor<f32>) -> tensor<f32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.compare GT, %2, %cst_1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %4 = stablehlo.convert %3 : (tensor<i1>) -> tensor<i32>
    %5 = "stablehlo.case"(%4) ({
      %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %6 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
      %7 = stablehlo.add %1, %6 : tensor<4x3xf32>
      stablehlo.return %7 : tensor<4x3xf32>
    }, {
      %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %6 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
      %7 = stablehlo.subtract %1, %6 : tensor<4x3xf32>
      stablehlo.return %7 : tensor<4x3xf32>
    }) : (tensor<i32>) -> tensor<4x3xf32>
    return %5 : tensor<4x3xf32>
  }
}
