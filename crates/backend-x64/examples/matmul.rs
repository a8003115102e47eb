//! Measures one matrix product, 1024 x 1024 x 1024 in f32, as a scheduled kernel with packed
//! operands, beside a bare loop of multiply-adds in the same run:
//! `cargo run --release -p tilewright-backend-x64 --example matmul [vcode|asm]`.

use std::time::Instant;

use backend::Target;

#[path = "../tests/support/mod.rs"]
mod support;

const SIZE: usize = 1024;

/// A product of packed panels: `a[i, k, r]` holds `rows` rows, `b[j, k, c]` `columns` columns.
fn kernel(rows: usize, columns: usize, depth: usize) -> String {
    let (height, width) = (SIZE.div_ceil(rows), SIZE.div_ceil(columns));
    format!(
        "kernel @matmul(%a: read f32[{height}, {SIZE}, {rows}], %b: read f32[{width}, {SIZE}, \
         {columns}], %c: update f32[{}, {}]) {{
  %acc: register f32[{rows}, {columns}]
  for t < {} parallel {{
    for kb < {} {{
    for i < {height} {{
      for r < {rows} unroll {{
        for c < {columns} vector {{
          %acc[r, c] = 0.0
        }}
      }}
      for k < {} {{
        for u < {depth} unroll {{
          for r1 < {rows} unroll {{
            for c1 < {columns} vector {{
              %acc[r1, c1] += %a[i, kb * {KB} + k * {depth} + u, r1]
                * %b[t, kb * {KB} + k * {depth} + u, c1]
            }}
          }}
        }}
      }}
      for r2 < {rows} unroll {{
        for c2 < {columns} vector {{
          %c[i * {rows} + r2, t * {columns} + c2] += %acc[r2, c2]
        }}
      }}
    }}
    }}
  }}
}}
",
        height * rows,
        width * columns,
        width,
        SIZE / KB,
        KB / depth,
    )
}

const KB: usize = 128;

/// Turns of the ceiling's loop, about a millisecond.
const TURNS: usize = 40_000;

/// Independent multiply-adds in registers: the machine's ceiling.
fn peak(lanes: usize) -> String {
    format!(
        "kernel @peak(%c: write f32[12, {lanes}]) {{
  %acc: register f32[12, {lanes}]
  for r < 12 unroll {{
    for c < {lanes} vector {{
      %acc[r, c] = 1.0
    }}
  }}
  for k < {TURNS} {{
    for r1 < 12 unroll {{
      for c1 < {lanes} vector {{
        %acc[r1, c1] += 0.5 * 0.25
      }}
    }}
  }}
  for r2 < 12 unroll {{
    for c2 < {lanes} vector {{
      %c[r2, c2] = %acc[r2, c2]
    }}
  }}
}}
"
    )
}

fn compile(text: &str, target: &Target, show: &str) -> support::Loaded {
    let kernel = loops::parse(text).unwrap_or_else(|error| panic!("{error}"));
    loops::verify_scheduled(&kernel).unwrap_or_else(|error| panic!("{error}"));
    let options = tilewright_backend_x64::X64Options {
        want_vcode_text: show == "vcode",
        ..Default::default()
    };
    let start = Instant::now();
    let code = tilewright_backend_x64::compile_with(&kernel, target, options.clone())
        .unwrap_or_else(|error| panic!("{error}"));
    let first = start.elapsed();
    let start = Instant::now();
    for _ in 0..20 {
        let _ = tilewright_backend_x64::compile_with(&kernel, target, options.clone());
    }
    println!(
        "{}: {} bytes of code, compiled in {first:?}, then {:?}",
        kernel.name,
        code.code_bytes,
        start.elapsed() / 20
    );
    match show {
        "vcode" => println!("{}", code.vcode.as_deref().unwrap_or_default()),
        "asm" => println!("{}", tilewright_backend_x64::disassemble(&code)),
        _ => {}
    }
    support::Loaded::new(&code)
}

fn seconds(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

fn measure(target: &Target, rows: usize, columns: usize, show: &str) {
    let ceiling = compile(&peak(target.vector_bytes as usize / 4), target, show);
    let product = compile(&kernel(rows, columns, 4), target, show);
    let (height, width) = (SIZE.div_ceil(rows), SIZE.div_ceil(columns));
    let mut a = vec![0f32; height * SIZE * rows];
    let mut b = vec![0f32; width * SIZE * columns];
    let mut c = vec![0f32; height * rows * width * columns];
    let small = |i: usize| ((i * 7919) % 13) as f32 - 6.0;
    let (left, right) =
        (|i: usize, k: usize| small(i * SIZE + k), |k: usize, j: usize| small(k * SIZE + j + 5));
    for i in 0..height * rows {
        for k in 0..SIZE {
            a[(i / rows * SIZE + k) * rows + i % rows] = left(i, k);
        }
    }
    for j in 0..width * columns {
        for k in 0..SIZE {
            b[(j / columns * SIZE + k) * columns + j % columns] = right(k, j);
        }
    }
    let buffers = [a.as_mut_ptr().cast(), b.as_mut_ptr().cast(), c.as_mut_ptr().cast::<u8>()];
    // SAFETY: the buffers have the shapes of the kernel's parameters.
    let fault = unsafe { product.run(&buffers, &mut [], 0, width as i64) };
    assert_eq!(fault, 0);
    for (i, j) in [(0, 0), (5, 17), (511, 1023), (1023, 31)] {
        let expected: f32 = (0..SIZE).map(|k| left(i, k) * right(k, j)).sum();
        assert_eq!(c[i * width * columns + j], expected, "element {i}, {j}");
    }
    let mut out = vec![0f32; 12 * 16];
    let buffer = [out.as_mut_ptr().cast::<u8>()];
    // Slices of about a millisecond, the best of each: what else runs on the machine hits few.
    let mut peak_seconds = f64::INFINITY;
    let mut panels = vec![f64::INFINITY; width];
    for _ in 0..30 {
        // SAFETY: the buffer has the shape of the kernel's parameter.
        peak_seconds = peak_seconds.min(seconds(|| unsafe {
            ceiling.run(&buffer, &mut [], 0, 1);
        }));
        for (panel, best) in panels.iter_mut().enumerate() {
            let panel = panel as i64;
            // SAFETY: the buffers have the shapes of the kernel's parameters.
            *best = best.min(seconds(|| unsafe {
                product.run(&buffers, &mut [], panel, panel + 1);
            }));
        }
    }
    let lanes = f64::from(target.vector_bytes) / 4.0;
    let best_peak = TURNS as f64 * 12.0 * lanes * 2.0 / peak_seconds / 1e9;
    let useful = 2.0 * (SIZE * SIZE * SIZE) as f64;
    let best = useful / panels.iter().sum::<f64>() / 1e9;
    println!(
        "{} {rows}x{columns}: {best:.1} GFLOP/s of {best_peak:.1}, {:.1} %",
        target.name,
        100.0 * best / best_peak
    );
}

fn main() {
    let show = std::env::args().nth(1).unwrap_or_default();
    for (name, tiles) in
        [("x86-64-v4", &[(12, 32), (14, 32), (8, 48)][..]), ("x86-64-v3", &[(6, 16), (4, 24)][..])]
    {
        let Some(target) = Target::named(name) else { continue };
        if !support::can_run(&target) {
            println!("{name}: not on this machine");
            continue;
        }
        for (rows, columns) in tiles {
            measure(&target, *rows, *columns, &show);
        }
    }
}
