module @jit_hessian attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<4x5xf32>, %arg2: tensor<5x1xf32>) -> (tensor<4x4xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.iota dim = 0 : tensor<4x4xi32>
    %1 = stablehlo.iota dim = 1 : tensor<4x4xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x4xi32>
    %3 = stablehlo.add %0, %2 : tensor<4x4xi32>
    %4 = stablehlo.compare EQ, %3, %1, SIGNED : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi1>
    %5 = stablehlo.convert %4 : (tensor<4x4xi1>) -> tensor<4x4xf32>
    %6 = stablehlo.slice %5 [0:4, 0:4] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %7 = stablehlo.convert %6 : tensor<4x4xf32>
    %8 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4xf32>, tensor<4x5xf32>) -> tensor<5xf32>
    %9 = stablehlo.dot_general %7, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x4xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %10 = stablehlo.tanh %8 : tensor<5xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [1] : (tensor<5xf32>) -> tensor<1x5xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<1x5xf32>) -> tensor<4x5xf32>
    %13 = stablehlo.multiply %9, %12 : tensor<4x5xf32>
    %14 = stablehlo.add %9, %13 : tensor<4x5xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<5xf32>
    %16 = stablehlo.subtract %15, %10 : tensor<5xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [1] : (tensor<5xf32>) -> tensor<1x5xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<1x5xf32>) -> tensor<4x5xf32>
    %19 = stablehlo.multiply %14, %18 : tensor<4x5xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<5xf32>
    %21 = stablehlo.subtract %20, %10 : tensor<5xf32>
    %22 = stablehlo.negate %19 : tensor<4x5xf32>
    %23 = stablehlo.iota dim = 0 : tensor<1x1xi32>
    %24 = stablehlo.iota dim = 1 : tensor<1x1xi32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %25 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<1x1xi32>
    %26 = stablehlo.add %23, %25 : tensor<1x1xi32>
    %27 = stablehlo.compare EQ, %26, %24, SIGNED : (tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<1x1xi1>
    %28 = stablehlo.convert %27 : (tensor<1x1xi1>) -> tensor<1x1xf32>
    %29 = stablehlo.slice %28 [0:1, 0:1] : (tensor<1x1xf32>) -> tensor<1x1xf32>
    %30 = stablehlo.reshape %29 : (tensor<1x1xf32>) -> tensor<1xf32>
    %31 = stablehlo.convert %30 : tensor<1xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %33 = stablehlo.dot_general %32, %arg2, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x1xf32>, tensor<5x1xf32>) -> tensor<1x5xf32>
    %34 = stablehlo.broadcast_in_dim %21, dims = [1] : (tensor<5xf32>) -> tensor<1x5xf32>
    %35 = stablehlo.broadcast_in_dim %22, dims = [0, 2] : (tensor<4x5xf32>) -> tensor<4x1x5xf32>
    %36 = stablehlo.multiply %33, %34 : tensor<1x5xf32>
    %37 = stablehlo.broadcast_in_dim %33, dims = [1, 2] : (tensor<1x5xf32>) -> tensor<1x1x5xf32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2] : (tensor<1x1x5xf32>) -> tensor<4x1x5xf32>
    %39 = stablehlo.multiply %38, %35 : tensor<4x1x5xf32>
    %40 = stablehlo.broadcast_in_dim %10, dims = [1] : (tensor<5xf32>) -> tensor<1x5xf32>
    %41 = stablehlo.broadcast_in_dim %19, dims = [0, 2] : (tensor<4x5xf32>) -> tensor<4x1x5xf32>
    %42 = stablehlo.broadcast_in_dim %40, dims = [1, 2] : (tensor<1x5xf32>) -> tensor<1x1x5xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2] : (tensor<1x1x5xf32>) -> tensor<4x1x5xf32>
    %44 = stablehlo.multiply %39, %43 : tensor<4x1x5xf32>
    %45 = stablehlo.broadcast_in_dim %36, dims = [1, 2] : (tensor<1x5xf32>) -> tensor<1x1x5xf32>
    %46 = stablehlo.broadcast_in_dim %45, dims = [0, 1, 2] : (tensor<1x1x5xf32>) -> tensor<4x1x5xf32>
    %47 = stablehlo.multiply %46, %41 : tensor<4x1x5xf32>
    %48 = stablehlo.add %44, %47 : tensor<4x1x5xf32>
    %49 = stablehlo.add %39, %48 : tensor<4x1x5xf32>
    %50 = stablehlo.dot_general %49, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x1x5xf32>, tensor<4x5xf32>) -> tensor<4x1x4xf32>
    %51 = stablehlo.slice %50 [0:4, 0:1, 0:4] : (tensor<4x1x4xf32>) -> tensor<4x1x4xf32>
    %52 = stablehlo.reshape %51 : (tensor<4x1x4xf32>) -> tensor<4x4xf32>
    %53 = stablehlo.transpose %52, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %54 = stablehlo.slice %53 [0:4, 0:4] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %54 : tensor<4x4xf32>
  }
}
