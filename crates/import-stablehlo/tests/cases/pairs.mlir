// Programs that check their own values: each function takes nothing and says what it expects.

func.func @products_of_pairs() {
  %a = stablehlo.constant dense<[(1.0, 2.0), (0.0, -1.0)]> : tensor<2xcomplex<f32>>
  %product = stablehlo.multiply %a, %a : tensor<2xcomplex<f32>>
  check.expect_eq_const %product, dense<[(-3.0, 4.0), (-1.0, 0.0)]> : tensor<2xcomplex<f32>>
  func.return
}

func.func @greatest_with_its_place() {
  %x = stablehlo.constant dense<[[3, 9, 2], [7, 7, 1]]> : tensor<2x3xi32>
  %places = stablehlo.iota dim = 1 : tensor<2x3xi32>
  %least = stablehlo.constant dense<-2147483648> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %best:2 = stablehlo.reduce(%x init: %least), (%places init: %zero) across dimensions = [1] : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<i32>, tensor<i32>) -> (tensor<2xi32>, tensor<2xi32>)
   reducer(%a: tensor<i32>, %b: tensor<i32>) (%i: tensor<i32>, %j: tensor<i32>)  {
    %greater = stablehlo.compare  GT, %a, %b,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %equal = stablehlo.compare  EQ, %a, %b,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %earlier = stablehlo.compare  LT, %i, %j,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %tied = stablehlo.and %equal, %earlier : tensor<i1>
    %stays = stablehlo.or %greater, %tied : tensor<i1>
    %value = stablehlo.select %greater, %a, %b : tensor<i1>, tensor<i32>
    %place = stablehlo.select %stays, %i, %j : tensor<i1>, tensor<i32>
    stablehlo.return %value, %place : tensor<i32>, tensor<i32>
  }
  check.expect_eq_const %best#0, dense<[9, 7]> : tensor<2xi32>
  check.expect_eq_const %best#1, dense<[1, 0]> : tensor<2xi32>
  func.return
}

// -----

// The generic form of all of it.

"builtin.module"() <{sym_name = "generic"}> ({
  "func.func"() <{function_type = () -> (), sym_name = "halves"}> ({
    %0 = "stablehlo.constant"() <{value = dense<"0x0000803F00000040"> : tensor<2xf32>}> : () -> tensor<2xf32>
    %1 = "stablehlo.add"(%0, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    "check.expect_eq_const"(%1) <{value = dense<[2.0, 4.0]> : tensor<2xf32>}> : (tensor<2xf32>) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
