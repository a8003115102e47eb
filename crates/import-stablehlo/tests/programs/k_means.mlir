module @jit_k_means attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<40x2xf32>, %arg1: tensor<3x2xf32>) -> (tensor<3x2xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%iterArg = %arg0, %iterArg_0 = %c, %iterArg_1 = %arg1) : tensor<40x2xf32>, tensor<i32>, tensor<3x2xf32>
    cond {
      %c_2 = stablehlo.constant dense<4> : tensor<i32>
      %1 = stablehlo.compare LT, %iterArg_0, %c_2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = func.call @closed_call(%iterArg, %iterArg_1) : (tensor<40x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
      %c_2 = stablehlo.constant dense<1> : tensor<i32>
      %2 = stablehlo.add %iterArg_0, %c_2 : tensor<i32>
      stablehlo.return %iterArg, %2, %1 : tensor<40x2xf32>, tensor<i32>, tensor<3x2xf32>
    }
    return %0#2 : tensor<3x2xf32>
  }
  func.func private @closed_call(%arg0: tensor<40x2xf32>, %arg1: tensor<3x2xf32>) -> tensor<3x2xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 2] : (tensor<40x2xf32>) -> tensor<40x1x2xf32>
    %1 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<3x2xf32>) -> tensor<1x3x2xf32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<40x1x2xf32>) -> tensor<40x3x2xf32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x3x2xf32>) -> tensor<40x3x2xf32>
    %4 = stablehlo.subtract %2, %3 : tensor<40x3x2xf32>
    %5 = stablehlo.multiply %4, %4 : tensor<40x3x2xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.reduce(%5 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<40x3x2xf32>, tensor<f32>) -> tensor<40x3xf32>
    %7 = call @argmin(%6) : (tensor<40x3xf32>) -> tensor<40xi32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x2xf32>
    %9 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<40xi32>) -> tensor<40x1xi32>
    %10 = "stablehlo.scatter"(%8, %9, %arg0) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %27 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %27 : tensor<f32>
    }) : (tensor<3x2xf32>, tensor<40x1xi32>, tensor<40x2xf32>) -> tensor<3x2xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %11 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %12 = call @clip(%7, %c_1) : (tensor<40xi32>, tensor<i32>) -> tensor<40xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %13 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<40xi32>
    %14 = stablehlo.compare LT, %12, %13, SIGNED : (tensor<40xi32>, tensor<40xi32>) -> tensor<40xi1>
    %c_3 = stablehlo.constant dense<3> : tensor<i32>
    %15 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<40xi32>
    %16 = stablehlo.add %12, %15 : tensor<40xi32>
    %17 = stablehlo.select %14, %16, %12 : tensor<40xi1>, tensor<40xi32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0] : (tensor<40xi32>) -> tensor<40x1xi32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %19 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<40xi32>
    %20 = "stablehlo.scatter"(%11, %18, %19) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<i32>, %arg3: tensor<i32>):
      %27 = stablehlo.add %arg2, %arg3 : tensor<i32>
      stablehlo.return %27 : tensor<i32>
    }) : (tensor<3xi32>, tensor<40x1xi32>, tensor<40xi32>) -> tensor<3xi32>
    %c_5 = stablehlo.constant dense<1> : tensor<i32>
    %21 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %22 = stablehlo.maximum %20, %21 : tensor<3xi32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %24 = stablehlo.convert %23 : (tensor<3x1xi32>) -> tensor<3x1xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0, 1] : (tensor<3x1xf32>) -> tensor<3x2xf32>
    %26 = stablehlo.divide %10, %25 : tensor<3x2xf32>
    return %26 : tensor<3x2xf32>
  }
  func.func private @argmin(%arg0: tensor<40x3xf32>) -> tensor<40xi32> {
    %0 = stablehlo.iota dim = 1 : tensor<40x3xi32>
    %cst = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [1] : (tensor<40x3xf32>, tensor<40x3xi32>, tensor<f32>, tensor<i32>) -> (tensor<40xf32>, tensor<40xi32>)
     reducer(%arg1: tensor<f32>, %arg3: tensor<f32>) (%arg2: tensor<i32>, %arg4: tensor<i32>)  {
      %2 = stablehlo.compare LT, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.compare LT, %arg2, %arg4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %arg1, %arg3 : tensor<i1>, tensor<f32>
      %10 = stablehlo.select %8, %arg2, %arg4 : tensor<i1>, tensor<i32>
      stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
    }
    return %1#1 : tensor<40xi32>
  }
  func.func private @clip(%arg0: tensor<40xi32>, %arg1: tensor<i32>) -> tensor<40xi32> {
    %0 = stablehlo.convert %arg1 : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<i32>) -> tensor<40xi32>
    %2 = stablehlo.maximum %1, %arg0 : tensor<40xi32>
    return %2 : tensor<40xi32>
  }
}
