//! Naive kernels with extents to choose, and what a kernel makes of random inputs.

use eval::{KernelOptions, Order, evaluate_kernel};
use loops::{Kernel, Scope};
use strategies::{Naive, Producer, ProducerKind};
use tensor::Tensor;

/// A kernel that is all one opaque producer if it is marked so by its name, else nests of maps and
/// sums.
pub(crate) fn naive(kernel: Kernel) -> Naive {
    let kind = match kernel.name.starts_with("opaque") {
        true => ProducerKind::Opaque,
        false => ProducerKind::Pointwise,
    };
    let producers = vec![Producer { buffer: String::new(), kind, nests: Vec::new() }];
    Naive { kernel, producers, once: false }
}

/// Random inputs of a kernel, and zeros for what it writes.
pub(crate) fn arguments(kernel: &Kernel, seed: u64) -> Vec<Tensor> {
    let of_buffer = |(position, id): (u64, &loops::BufferId)| {
        let buffer = &kernel.buffers[*id];
        let extents = buffer.shape.iter().map(|extent| extent.as_constant().unwrap_or(1) as usize);
        let count: usize = match &buffer.strides {
            None => extents.product(),
            Some(strides) => {
                let strides = strides.iter().map(|stride| stride.as_constant().unwrap_or(1));
                1 + extents.zip(strides).map(|(e, s)| (e - 1) * s as usize).sum::<usize>()
            }
        };
        match buffer.scope {
            Scope::Parameter(loops::Access::Write) => Tensor::zeros(buffer.dtype, &[count]),
            _ => tensor::random::random(buffer.dtype, &[count], seed + position),
        }
    };
    (0..).zip(&kernel.parameters).map(of_buffer).collect()
}

/// What the kernel makes of random inputs, by the evaluator.
pub(crate) fn outputs(kernel: &Kernel) -> Result<Vec<Tensor>, String> {
    let mut buffers = arguments(kernel, 1);
    let options = KernelOptions { order: Order::Shuffled(7), ..KernelOptions::default() };
    evaluate_kernel(kernel, &mut buffers, &[], options)
        .map_err(|fault| format!("{fault:?}\n{kernel}"))?;
    Ok(buffers)
}

/// Kernels with extents `A`, `B`, `C` and panels of `P`; `Q` panels hold `B` columns.
pub(crate) const KERNELS: [&str; 16] = [
    "kernel @product(%a: read f32[A, C], %b: read f32[Q, C, P], %d: read f32[B],
      %c: write f32[A, B]) {
      %acc: scratch f32[A, B]
      for x0 < A { for y0 < B { %acc[x0, y0] = 0.0 } }
      for x1 < A { for y1 < B { for k < C {
        %acc[x1, y1] += %a[x1, k] * %b[(y1) div P, k, (y1) mod P]
      } } }
      for x < A { for y < B { %c[x, y] = max(%acc[x, y] + %d[y], 0.0) } }
    }",
    "kernel @plain_product(%a: read f32[C, A], %b: read f32[C, B], %c: write f32[A, B]) {
      %acc: scratch f32[A, B]
      for x0 < A { for y0 < B { %acc[x0, y0] = 0.0 } }
      for x1 < A { for y1 < B { for k < C { %acc[x1, y1] += %a[k, x1] * %b[k, y1] } } }
      for x < A { for y < B { %c[x, y] = %acc[x, y] } }
    }",
    "kernel @in_place(%a: read f32[A, C], %b: read f32[C, B], %c: update f32[A, B]) {
      %acc: scratch f32[A, B]
      for x0 < A { for y0 < B { %acc[x0, y0] = 0.0 } }
      for x1 < A { for y1 < B { for k < C { %acc[x1, y1] += %a[x1, k] * %b[k, y1] } } }
      for x < A { for y < B { %c[x, y] = %c[x, y] + %acc[x, y] } }
    }",
    "kernel @convolution(%x: read f32[A + 2, A + 1, C], %w: read f32[Q, C, 3, 2, P],
      %y: write f32[A, A, B]) {
      %acc: scratch f32[A, A, B]
      for x0 < A { for y0 < A { for z0 < B { %acc[x0, y0, z0] = 0.0 } } }
      for x1 < A { for y1 < A { for z1 < B { for k < C { for u < 3 { for v < 2 {
        %acc[x1, y1, z1] += %x[x1 + u, y1 + v, k] * %w[(z1) div P, k, u, v, (z1) mod P]
      } } } } } }
      for x < A { for y < A { for z < B { %y[x, y, z] = %acc[x, y, z] } } }
    }",
    "kernel @depthwise(%x: read f32[2*A + 1, 2*A + 1, B], %w: read f32[3, 3, B],
      %y: write f32[A, A, B]) {
      %acc: scratch f32[A, A, B]
      for x0 < A { for y0 < A { for z0 < B { %acc[x0, y0, z0] = 0.0 } } }
      for x1 < A { for y1 < A { for z1 < B { for u < 3 { for v < 3 {
        %acc[x1, y1, z1] += %x[2*x1 + u, 2*y1 + v, z1] * %w[u, v, z1]
      } } } } }
      for x < A { for y < A { for z < B { %y[x, y, z] = %acc[x, y, z] } } }
    }",
    "kernel @depthwise_of_bytes(%x: read u8[A + 2, A + 2, B], %w: read f32[3, 3, B],
      %y: write f32[A, A, B]) {
      %acc: scratch f32[A, A, B]
      for x0 < A { for y0 < A { for z0 < B { %acc[x0, y0, z0] = 0.0 } } }
      for x1 < A { for y1 < A { for z1 < B { for u < 3 { for v < 3 {
        %acc[x1, y1, z1] += cast<f32>(%x[x1 + u, y1 + v, z1]) * %w[u, v, z1]
      } } } } }
      for x < A { for y < A { for z < B { %y[x, y, z] = %acc[x, y, z] } } }
    }",
    "kernel @steps_of_bytes(%x: read i8[2*A + 3, 2*A + 4, B], %w: read f32[5, 5, B],
      %y: write f32[A, A, B]) {
      %acc: scratch f32[A, A, B]
      for x0 < A { for y0 < A { for z0 < B { %acc[x0, y0, z0] = 0.0 } } }
      for x1 < A { for y1 < A { for z1 < B { for u < 5 { for v < 5 {
        %acc[x1, y1, z1] += cast<f32>(%x[2*x1 + u, 2*y1 + v, z1]) * %w[u, v, z1]
      } } } } }
      for x < A { for y < A { for z < B { %y[x, y, z] = %acc[x, y, z] * 0.5 } } }
    }",
    "kernel @means(%x: read f32[A, C, B], %y: write f32[A, B]) {
      %acc: scratch f32[A, B]
      for x0 < A { for y0 < B { %acc[x0, y0] = 0.0 } }
      for x1 < A { for y1 < B { for k < C { %acc[x1, y1] += %x[x1, k, y1] } } }
      for x < A { for y < B { %y[x, y] = %acc[x, y] * 0.5 } }
    }",
    "kernel @centre(%x: read f32[A, B], %y: write f32[A, B]) {
      %partial: scratch f32[A, 16]
      %sum: scratch f32[A]
      for x0 < A { for l0 < 16 { %partial[x0, l0] = 0.0 } }
      for x1 < A { for k < (B + 15) div 16 { for l1 < 16 {
        if 16*k + l1 < B { %partial[x1, l1] += %x[x1, 16*k + l1] }
      } } }
      for x2 < A { %sum[x2] = fold(sum, %partial[x2]) }
      for x < A { for y < B { %y[x, y] = %x[x, y] - %sum[x] } }
    }",
    "kernel @attention(%q: read f32[A, 2, C], %k: read f32[2, Q, C, P], %v: read f32[B, 2, C],
      %y: write f32[A, 2, C]) {
      %acc: scratch f32[2, A, B]
      %row: scratch f32[2, A, B]
      %partial: scratch f32[2, A, 16]
      %n: scratch f32[2, A]
      %p: scratch f32[2, A, B]
      %out: scratch f32[A, 2, C]
      for h0 < 2 { for x0 < A { for y0 < B { %acc[h0, x0, y0] = 0.0 } } }
      for h1 < 2 { for x1 < A { for y1 < B { for k < C {
        %acc[h1, x1, y1] += %q[x1, h1, k] * %k[h1, (y1) div P, k, (y1) mod P]
      } } } }
      for h2 < 2 { for x2 < A { for y2 < B { %row[h2, x2, y2] = abs(%acc[h2, x2, y2]) } } }
      for h3 < 2 { for x3 < A { for l3 < 16 { %partial[h3, x3, l3] = 0.0 } } }
      for h4 < 2 { for x4 < A { for k4 < (B + 15) div 16 { for l4 < 16 {
        if 16*k4 + l4 < B { %partial[h4, x4, l4] += %row[h4, x4, 16*k4 + l4] }
      } } } }
      for h5 < 2 { for x5 < A { %n[h5, x5] = fold(sum, %partial[h5, x5]) } }
      for h6 < 2 { for x6 < A { for y6 < B {
        %p[h6, x6, y6] = %row[h6, x6, y6] * %n[h6, x6]
      } } }
      for x7 < A { for h7 < 2 { for z7 < C { %out[x7, h7, z7] = 0.0 } } }
      for x8 < A { for h8 < 2 { for z8 < C { for k8 < B {
        %out[x8, h8, z8] += %p[h8, x8, k8] * %v[k8, h8, z8]
      } } } }
      for x < A { for h < 2 { for z < C { %y[x, h, z] = %out[x, h, z] } } }
    }",
    "kernel @columns(%x: read f32[A, B], %y: write f32[A, B]) {
      %top: scratch f32[B]
      %sum: scratch f32[B]
      for y0 < B { %top[y0] = -inf }
      for y1 < B { for k < A { %top[y1] max= %x[k, y1] } }
      for y2 < B { %sum[y2] = 0.0 }
      for y3 < B { for k3 < A { %sum[y3] += %x[k3, y3] - %top[y3] } }
      for x < A { for y < B { %y[x, y] = (%x[x, y] - %top[y]) * %sum[y] } }
    }",
    "kernel @map(%x: read f32[A, B, C], %b: read f32[C], %y: write f32[A, B, C]) {
      for x < A { for y < B { for z < C { %y[x, y, z] = max(%x[x, y, z] * %b[z], 0.0) } } }
    }",
    "kernel @short_rows(%x: read f32[A, B, C], %z: read f32[A, B, C + 3],
      %y: write f32[A, B, C] strides [B*(C + 2), C + 2, 1]) {
      for x < A { for y < B { for z < C {
        %y[x, y, z] = max(%x[x, y, z] * %z[x, y, z + 1], 0.5) * %x[x, y, z]
      } } }
    }",
    "kernel @transpose(%x: read f32[A, B, C], %y: write f32[C, A, B]) {
      for x < C { for y < A { for z < B { %y[x, y, z] = %x[y, z, x] } } }
    }",
    "kernel @pad(%x: read f32[A, B, C], %y: write f32[A + 2, B + 3, C]) {
      for x < A + 2 { for y < B + 3 { for z < C {
        %y[x, y, z] = guard(1 <= x, x < A + 1, 2 <= y, y < B + 2 ? %x[x - 1, y - 2, z] : 0.0)
      } } }
    }",
    "kernel @grouped(%a: read f32[A, 12, 4], %b: read f32[4, P], %y: write f32[A, P]) {
      %acc: scratch f32[A, P]
      for i0 < A { for j0 < P { %acc[i0, j0] = 0.0 } }
      for i < A { for j < P { for k < 4 {
        %acc[i, j] += %a[i, (j) div 4, k] * %b[k, j]
      } } }
      for x < A { for z < P { %y[x, z] = max(%acc[x, z], 0.0) } }
    }",
];

pub(crate) fn instance(structure: usize, extents: [i64; 3], panel: i64) -> Kernel {
    let [a, b, c] = extents;
    let values = [("A", a), ("B", b), ("C", c), ("P", panel), ("Q", (b + panel - 1) / panel)];
    with_values(KERNELS[structure], &values)
}

/// A kernel's text with numbers for its capital letters.
pub(crate) fn with_values(kernel: &str, values: &[(&str, i64)]) -> Kernel {
    let mut text = String::new();
    let mut word = String::new();
    for char in kernel.chars().chain([' ']) {
        if char.is_alphanumeric() || char == '_' {
            word.push(char);
            continue;
        }
        match values.iter().find(|(name, _)| *name == word) {
            Some((_, value)) => text += &value.to_string(),
            None => text += &word,
        }
        word.clear();
        text.push(char);
    }
    loops::parse(&text).unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

/// Sums of many terms: of a product, and of windows. `R` rows, `C` columns in panels of `P`, of
/// which there are `Q`, `D` terms a window; and a product whose second operand has fewer axes than
/// the sum; and one that is not packed.
pub(crate) const DEEP: [&str; 4] = [
    "kernel @deep(%a: read f32[R, D], %b: read f32[Q, D, P], %y: write f32[R, C]) {
      %acc: scratch f32[R, C]
      for i0 < R { for j0 < C { %acc[i0, j0] = 0.0 } }
      for i < R { for j < C { for k < D { %acc[i, j] += %a[i, k] * %b[(j) div P, k, (j) mod P] } } }
      for x < R { for z < C { %y[x, z] = max(%acc[x, z], 0.0) } }
    }",
    "kernel @windows(%a: read f32[5, W, D], %b: read f32[Q, 3, 3, D, P], %y: write f32[3, R, C]) {
      %acc: scratch f32[3, R, C]
      for h0 < 3 { for i0 < R { for j0 < C { %acc[h0, i0, j0] = 0.0 } } }
      for h < 3 { for i < R { for j < C { for u < 3 { for v < 3 { for k < D {
        %acc[h, i, j] += %a[h + u, i + v, k] * %b[(j) div P, u, v, k, (j) mod P]
      } } } } } }
      for g < 3 { for x < R { for z < C { %y[g, x, z] = %acc[g, x, z] + 1.0 } } }
    }",
    "kernel @repeated(%a: read f32[R, D, 6], %b: read f32[Q, D, P], %y: write f32[R, C]) {
      %acc: scratch f32[R, C]
      for i0 < R { for j0 < C { %acc[i0, j0] = 0.0 } }
      for i < R { for j < C { for k < D { for l < 6 {
        %acc[i, j] += %a[i, k, l] * %b[(j) div P, k, (j) mod P]
      } } } }
      for x < R { for z < C { %y[x, z] = %acc[x, z] } }
    }",
    "kernel @strips(%a: read f32[R, D], %b: read f32[D, C], %y: write f32[R, C]) {
      %acc: scratch f32[R, C]
      for i0 < R { for j0 < C { %acc[i0, j0] = 0.0 } }
      for i < R { for j < C { for k < D { %acc[i, j] += %a[i, k] * %b[k, j] } } }
      for x < R { for z < C { %y[x, z] = %acc[x, z] } }
    }",
];
