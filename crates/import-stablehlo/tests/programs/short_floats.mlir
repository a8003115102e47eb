module @jit_short_floats attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x4xf32>, %arg1: tensor<4x3xf32>) -> (tensor<3x3xf32> {jax.result_info = "result[0]"}, tensor<3x4xf32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.convert %arg0 : (tensor<3x4xf32>) -> tensor<3x4xbf16>
    %1 = stablehlo.convert %arg1 : (tensor<4x3xf32>) -> tensor<4x3xbf16>
    %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4xbf16>, tensor<4x3xbf16>) -> tensor<3x3xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<3x4xbf16>
    %4 = stablehlo.add %0, %3 : tensor<3x4xbf16>
    %5 = stablehlo.convert %4 : (tensor<3x4xbf16>) -> tensor<3x4xf16>
    %6 = stablehlo.convert %5 : (tensor<3x4xf16>) -> tensor<3x4xf32>
    return %2, %6 : tensor<3x3xf32>, tensor<3x4xf32>
  }
}
