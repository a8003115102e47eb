module @jit_ode attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3xf32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<3xf32> {jax.result_info = "result[1]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0:2 = stablehlo.while(%iterArg = %cst, %iterArg_0 = %arg0) : tensor<f32>, tensor<3xf32>
    cond {
      %cst_1 = stablehlo.constant dense<2.000000e-01> : tensor<f32>
      %1 = stablehlo.compare LT, %iterArg, %cst_1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %cst_1 = stablehlo.constant dense<0.00999999977> : tensor<f32>
      %1 = stablehlo.add %iterArg, %cst_1 : tensor<f32>
      %2 = stablehlo.slice %iterArg_0 [1:2] : (tensor<3xf32>) -> tensor<1xf32>
      %3 = stablehlo.reshape %2 : (tensor<1xf32>) -> tensor<f32>
      %4 = stablehlo.slice %iterArg_0 [0:1] : (tensor<3xf32>) -> tensor<1xf32>
      %5 = stablehlo.reshape %4 : (tensor<1xf32>) -> tensor<f32>
      %6 = stablehlo.subtract %3, %5 : tensor<f32>
      %cst_2 = stablehlo.constant dense<1.000000e+01> : tensor<f32>
      %7 = stablehlo.multiply %cst_2, %6 : tensor<f32>
      %8 = stablehlo.slice %iterArg_0 [0:1] : (tensor<3xf32>) -> tensor<1xf32>
      %9 = stablehlo.reshape %8 : (tensor<1xf32>) -> tensor<f32>
      %10 = stablehlo.slice %iterArg_0 [2:3] : (tensor<3xf32>) -> tensor<1xf32>
      %11 = stablehlo.reshape %10 : (tensor<1xf32>) -> tensor<f32>
      %cst_3 = stablehlo.constant dense<2.800000e+01> : tensor<f32>
      %12 = stablehlo.subtract %cst_3, %11 : tensor<f32>
      %13 = stablehlo.multiply %9, %12 : tensor<f32>
      %14 = stablehlo.slice %iterArg_0 [1:2] : (tensor<3xf32>) -> tensor<1xf32>
      %15 = stablehlo.reshape %14 : (tensor<1xf32>) -> tensor<f32>
      %16 = stablehlo.subtract %13, %15 : tensor<f32>
      %17 = stablehlo.slice %iterArg_0 [0:1] : (tensor<3xf32>) -> tensor<1xf32>
      %18 = stablehlo.reshape %17 : (tensor<1xf32>) -> tensor<f32>
      %19 = stablehlo.slice %iterArg_0 [1:2] : (tensor<3xf32>) -> tensor<1xf32>
      %20 = stablehlo.reshape %19 : (tensor<1xf32>) -> tensor<f32>
      %21 = stablehlo.multiply %18, %20 : tensor<f32>
      %22 = stablehlo.slice %iterArg_0 [2:3] : (tensor<3xf32>) -> tensor<1xf32>
      %23 = stablehlo.reshape %22 : (tensor<1xf32>) -> tensor<f32>
      %cst_4 = stablehlo.constant dense<2.66666675> : tensor<f32>
      %24 = stablehlo.multiply %cst_4, %23 : tensor<f32>
      %25 = stablehlo.subtract %21, %24 : tensor<f32>
      %26 = stablehlo.broadcast_in_dim %7, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %27 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %28 = stablehlo.broadcast_in_dim %25, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %29 = stablehlo.concatenate %26, %27, %28, dim = 0 : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<3xf32>
      %cst_5 = stablehlo.constant dense<5.000000e-03> : tensor<f32>
      %30 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<3xf32>
      %31 = stablehlo.multiply %30, %29 : tensor<3xf32>
      %32 = stablehlo.add %iterArg_0, %31 : tensor<3xf32>
      %33 = stablehlo.slice %32 [1:2] : (tensor<3xf32>) -> tensor<1xf32>
      %34 = stablehlo.reshape %33 : (tensor<1xf32>) -> tensor<f32>
      %35 = stablehlo.slice %32 [0:1] : (tensor<3xf32>) -> tensor<1xf32>
      %36 = stablehlo.reshape %35 : (tensor<1xf32>) -> tensor<f32>
      %37 = stablehlo.subtract %34, %36 : tensor<f32>
      %cst_6 = stablehlo.constant dense<1.000000e+01> : tensor<f32>
      %38 = stablehlo.multiply %cst_6, %37 : tensor<f32>
      %39 = stablehlo.slice %32 [0:1] : (tensor<3xf32>) -> tensor<1xf32>
      %40 = stablehlo.reshape %39 : (tensor<1xf32>) -> tensor<f32>
      %41 = stablehlo.slice %32 [2:3] : (tensor<3xf32>) -> tensor<1xf32>
      %42 = stablehlo.reshape %41 : (tensor<1xf32>) -> tensor<f32>
      %cst_7 = stablehlo.constant dense<2.800000e+01> : tensor<f32>
      %43 = stablehlo.subtract %cst_7, %42 : tensor<f32>
      %44 = stablehlo.multiply %40, %43 : tensor<f32>
      %45 = stablehlo.slice %32 [1:2] : (tensor<3xf32>) -> tensor<1xf32>
      %46 = stablehlo.reshape %45 : (tensor<1xf32>) -> tensor<f32>
      %47 = stablehlo.subtract %44, %46 : tensor<f32>
      %48 = stablehlo.slice %32 [0:1] : (tensor<3xf32>) -> tensor<1xf32>
      %49 = stablehlo.reshape %48 : (tensor<1xf32>) -> tensor<f32>
      %50 = stablehlo.slice %32 [1:2] : (tensor<3xf32>) -> tensor<1xf32>
      %51 = stablehlo.reshape %50 : (tensor<1xf32>) -> tensor<f32>
      %52 = stablehlo.multiply %49, %51 : tensor<f32>
      %53 = stablehlo.slice %32 [2:3] : (tensor<3xf32>) -> tensor<1xf32>
      %54 = stablehlo.reshape %53 : (tensor<1xf32>) -> tensor<f32>
      %cst_8 = stablehlo.constant dense<2.66666675> : tensor<f32>
      %55 = stablehlo.multiply %cst_8, %54 : tensor<f32>
      %56 = stablehlo.subtract %52, %55 : tensor<f32>
      %57 = stablehlo.broadcast_in_dim %38, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %58 = stablehlo.broadcast_in_dim %47, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %59 = stablehlo.broadcast_in_dim %56, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %60 = stablehlo.concatenate %57, %58, %59, dim = 0 : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<3xf32>
      %cst_9 = stablehlo.constant dense<0.00999999977> : tensor<f32>
      %61 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<3xf32>
      %62 = stablehlo.multiply %61, %60 : tensor<3xf32>
      %63 = stablehlo.add %iterArg_0, %62 : tensor<3xf32>
      stablehlo.return %1, %63 : tensor<f32>, tensor<3xf32>
    }
    return %0#0, %0#1 : tensor<f32>, tensor<3xf32>
  }
}
