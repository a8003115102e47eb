module @jit_complex_products attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x4xcomplex<f32>>, %arg1: tensor<4x2xcomplex<f32>>) -> (tensor<3x2xcomplex<f32>> {jax.result_info = "result[0]"}, tensor<3x4xcomplex<f32>> {jax.result_info = "result[1]"}, tensor<4x2xf32> {jax.result_info = "result[2]"}, tensor<3x4xcomplex<f32>> {jax.result_info = "result[3]"}, tensor<3x4xcomplex<f32>> {jax.result_info = "result[4]"}, tensor<complex<f32>> {jax.result_info = "result[5]"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4xcomplex<f32>>, tensor<4x2xcomplex<f32>>) -> tensor<3x2xcomplex<f32>>
    %1 = stablehlo.exponential %arg0 : tensor<3x4xcomplex<f32>>
    %2 = stablehlo.abs %arg1 : (tensor<4x2xcomplex<f32>>) -> tensor<4x2xf32>
    %3 = stablehlo.sqrt %arg0 : tensor<3x4xcomplex<f32>>
    %cst = stablehlo.constant dense<(0.000000e+00,3.000000e+00)> : tensor<complex<f32>>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<complex<f32>>) -> tensor<3x4xcomplex<f32>>
    %5 = stablehlo.divide %arg0, %4 : tensor<3x4xcomplex<f32>>
    %6 = stablehlo.real %arg1 : (tensor<4x2xcomplex<f32>>) -> tensor<4x2xf32>
    %7 = stablehlo.imag %arg1 : (tensor<4x2xcomplex<f32>>) -> tensor<4x2xf32>
    %8 = stablehlo.negate %7 : tensor<4x2xf32>
    %9 = stablehlo.complex %6, %8 : tensor<4x2xcomplex<f32>>
    %cst_0 = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<complex<f32>>
    %10 = stablehlo.reduce(%9 init: %cst_0) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x2xcomplex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
    return %0, %1, %2, %3, %5, %10 : tensor<3x2xcomplex<f32>>, tensor<3x4xcomplex<f32>>, tensor<4x2xf32>, tensor<3x4xcomplex<f32>>, tensor<3x4xcomplex<f32>>, tensor<complex<f32>>
  }
}
