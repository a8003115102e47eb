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

// -----

// Bits of Philox as XLA has them on the CPU, where the counter's lower half runs over; that the
// upper half is the key, too, is how a state of two integers is used.

func.func @philox_of_two_integers() {
  %state = stablehlo.constant dense<[1311768467463790320, 18446744073709551614]> : tensor<2xui64>
  %next, %words = stablehlo.rng_bit_generator %state, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<6xui32>)
  check.expect_eq_const %next, dense<[1311768467463790320, 0]> : tensor<2xui64>
  check.expect_eq_const %words, dense<[3151517439, 3080049825, 2645875639, 2972309415, 1480449822, 3015399692]> : tensor<6xui32>
  %last, %pairs = stablehlo.rng_bit_generator %state, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<6xui64>)
  check.expect_eq_const %last, dense<[1311768467463790320, 1]> : tensor<2xui64>
  check.expect_eq_const %pairs, dense<[13228713271577040639, 12765971733663767479, 12951043062988922654, 4621549904384879066, 2311151477393820915, 12915309976788939262]> : tensor<6xui64>
  func.return
}

// -----

// The first row is of the first group, the others of the second, which has all that is left.

func.func @products_of_groups() {
  %a = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %b = stablehlo.constant dense<[[[1.0], [1.0]], [[10.0], [100.0]]]> : tensor<2x2x1xf32>
  %sizes = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %rows = "chlo.ragged_dot"(%a, %b, %sizes) {
    ragged_dot_dimension_numbers = #chlo.ragged_dot<
      lhs_batching_dimensions = [], rhs_batching_dimensions = [],
      lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1],
      lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>
  } : (tensor<3x2xf32>, tensor<2x2x1xf32>, tensor<2xi32>) -> tensor<3x1xf32>
  check.expect_eq_const %rows, dense<[[3.0], [430.0], [650.0]]> : tensor<3x1xf32>
  %c = stablehlo.constant dense<[[1.0], [10.0], [100.0]]> : tensor<3x1xf32>
  %sums = "chlo.ragged_dot"(%a, %c, %sizes) {
    ragged_dot_dimension_numbers = #chlo.ragged_dot<
      lhs_batching_dimensions = [], rhs_batching_dimensions = [],
      lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0],
      lhs_ragged_dimensions = [0], rhs_group_dimensions = []>
  } : (tensor<3x2xf32>, tensor<3x1xf32>, tensor<2xi32>) -> tensor<2x2x1xf32>
  check.expect_eq_const %sums, dense<[[[1.0], [2.0]], [[530.0], [640.0]]]> : tensor<2x2x1xf32>
  func.return
}

// -----

// A product in groups whose sizes differ from batch to batch: rows of the first operand are
// multiplied with the number of their group; then sums over the groups of an axis.

func.func @groups_of_each_batch() {
  %a = stablehlo.constant dense<[[[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]]]> : tensor<2x3x1xf32>
  %b = stablehlo.constant dense<[[[[10.0]], [[20.0]]], [[[30.0]], [[40.0]]]]> : tensor<2x2x1x1xf32>
  %sizes = stablehlo.constant dense<[[1, 2], [2, 0]]> : tensor<2x2xi64>
  %product = "chlo.ragged_dot"(%a, %b, %sizes) {
    ragged_dot_dimension_numbers = #chlo.ragged_dot<
      lhs_batching_dimensions = [0],
      rhs_batching_dimensions = [1],
      lhs_contracting_dimensions = [2],
      rhs_contracting_dimensions = [2],
      lhs_ragged_dimensions = [1],
      rhs_group_dimensions = [0]
    >
  } : (tensor<2x3x1xf32>, tensor<2x2x1x1xf32>, tensor<2x2xi64>) -> tensor<2x3x1xf32>
  check.expect_eq_const %product, dense<[[[10.0], [60.0], [90.0]], [[80.0], [100.0], [0.0]]]> : tensor<2x3x1xf32>
  func.return
}

func.func @sums_of_groups_of_each_batch() {
  %a = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %sizes = stablehlo.constant dense<[[1, 2], [2, 1]]> : tensor<2x2xi64>
  %sums = "chlo.ragged_dot"(%a, %a, %sizes) {
    ragged_dot_dimension_numbers = #chlo.ragged_dot<
      lhs_batching_dimensions = [0],
      rhs_batching_dimensions = [0],
      lhs_contracting_dimensions = [1],
      rhs_contracting_dimensions = [1],
      lhs_ragged_dimensions = [1],
      rhs_group_dimensions = []
    >
  } : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x2xi64>) -> tensor<2x2xf32>
  check.expect_eq_const %sums, dense<[[1.0, 41.0], [13.0, 36.0]]> : tensor<2x2xf32>
  func.return
}

// -----

// Batches of two features, normalised with what is given, and with what they have.

func.func @batches_normalised_as_told() {
  %x = stablehlo.constant dense<[[1.0, 2.0], [3.0, 6.0]]> : tensor<2x2xf32>
  %scale = stablehlo.constant dense<[2.0, 4.0]> : tensor<2xf32>
  %offset = stablehlo.constant dense<[1.0, -1.0]> : tensor<2xf32>
  %mean = stablehlo.constant dense<[1.0, 4.0]> : tensor<2xf32>
  %variance = stablehlo.constant dense<[3.0, 15.0]> : tensor<2xf32>
  %y = "stablehlo.batch_norm_inference"(%x, %scale, %offset, %mean, %variance) {epsilon = 1.0 : f32, feature_index = 1 : i64} : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  check.expect_eq_const %y, dense<[[1.0, -3.0], [3.0, 1.0]]> : tensor<2x2xf32>
  func.return
}

func.func @batches_normalised_by_themselves() {
  %x = stablehlo.constant dense<[[1.0, 3.0], [2.0, 10.0]]> : tensor<2x2xf32>
  %scale = stablehlo.constant dense<[2.0, 5.0]> : tensor<2xf32>
  %offset = stablehlo.constant dense<[1.0, -1.0]> : tensor<2xf32>
  %y:3 = "stablehlo.batch_norm_training"(%x, %scale, %offset) {epsilon = 0.0 : f32, feature_index = 0 : i64} : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>)
  check.expect_eq_const %y#0, dense<[[-1.0, 3.0], [-6.0, 4.0]]> : tensor<2x2xf32>
  check.expect_eq_const %y#1, dense<[2.0, 6.0]> : tensor<2xf32>
  check.expect_eq_const %y#2, dense<[1.0, 16.0]> : tensor<2xf32>
  func.return
}

// The slope along the second feature is that of its first element alone: half of it goes to the
// mean, and half of what is left to the variance.

func.func @slopes_of_batches() {
  %x = stablehlo.constant dense<[[1.0, 0.0], [3.0, 2.0], [1.0, 0.0], [3.0, 2.0]]> : tensor<4x2xf32>
  %scale = stablehlo.constant dense<[2.0, 4.0]> : tensor<2xf32>
  %mean = stablehlo.constant dense<[2.0, 1.0]> : tensor<2xf32>
  %variance = stablehlo.constant dense<[1.0, 1.0]> : tensor<2xf32>
  %slope = stablehlo.constant dense<[[1.0, 4.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]> : tensor<4x2xf32>
  %y:3 = "stablehlo.batch_norm_grad"(%x, %scale, %mean, %variance, %slope) {epsilon = 0.0 : f32, feature_index = 1 : i64} : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>)
  check.expect_eq_const %y#0, dense<[[0.0, 8.0], [0.0, 0.0], [0.0, -8.0], [0.0, 0.0]]> : tensor<4x2xf32>
  check.expect_eq_const %y#1, dense<[0.0, -4.0]> : tensor<2xf32>
  check.expect_eq_const %y#2, dense<[4.0, 4.0]> : tensor<2xf32>
  func.return
}

func.func @products_in_index_notation() {
  %a = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %turned = "stablehlo.unary_einsum"(%a) {einsum_config = "ij->ji"} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %product = "stablehlo.einsum"(%a, %turned) {einsum_config = "ij,jk->ik"} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  check.expect_eq_const %product, dense<[[5.0, 11.0], [11.0, 25.0]]> : tensor<2x2xf32>
  func.return
}
