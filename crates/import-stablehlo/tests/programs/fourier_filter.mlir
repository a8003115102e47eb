module @jit_fourier_filter attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x96xf32>) -> (tensor<3x96xf32> {jax.result_info = "result"}) {
    %0 = call @fft(%arg0) : (tensor<3x96xf32>) -> tensor<3x49xcomplex<f32>>
    %1 = stablehlo.iota dim = 0 : tensor<49xi32>
    %c = stablehlo.constant dense<12> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<49xi32>
    %3 = stablehlo.compare LT, %1, %2, SIGNED : (tensor<49xi32>, tensor<49xi32>) -> tensor<49xi1>
    %4 = stablehlo.convert %3 : (tensor<49xi1>) -> tensor<49xcomplex<f32>>
    %5 = stablehlo.broadcast_in_dim %4, dims = [1] : (tensor<49xcomplex<f32>>) -> tensor<1x49xcomplex<f32>>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<1x49xcomplex<f32>>) -> tensor<3x49xcomplex<f32>>
    %7 = stablehlo.multiply %0, %6 : tensor<3x49xcomplex<f32>>
    %8 = call @fft_0(%7) : (tensor<3x49xcomplex<f32>>) -> tensor<3x96xf32>
    return %8 : tensor<3x96xf32>
  }
  func.func private @fft(%arg0: tensor<3x96xf32>) -> tensor<3x49xcomplex<f32>> {
    %0 = stablehlo.fft %arg0, type = RFFT, length = [96] : (tensor<3x96xf32>) -> tensor<3x49xcomplex<f32>>
    return %0 : tensor<3x49xcomplex<f32>>
  }
  func.func private @fft_0(%arg0: tensor<3x49xcomplex<f32>>) -> tensor<3x96xf32> {
    %0 = stablehlo.fft %arg0, type = IRFFT, length = [96] : (tensor<3x49xcomplex<f32>>) -> tensor<3x96xf32>
    return %0 : tensor<3x96xf32>
  }
}
