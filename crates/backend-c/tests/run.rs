//! A whole module, `setup` and `main`, through the generated program; and what that program says to
//! files that are wrong.

mod common;

use std::process::Command;

use backend_c::{COptions, CPort, Interface};
use common::{build, run, sources};
use module::Module;
use tensor::{DType, Tensor};
use testkit::{Folder, has_c_compiler};

/// `setup` transposes one weight; `main` reads the other where `setup` copied it, and counts up to
/// a number from its input.
const MODULE: &str = "
constant @c0 \"bias\": f32[2] {0.5, -100.0}
constant @c1 \"weight\": f32[2, 3] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}

kernel @transpose(%a: read f32[2, 3], %b: write f32[3, 2]) {
  for i < 3 { for j < 2 { %b[i, j] = %a[j, i] } }
}

kernel @linear(%x: read f32[3], %w: read f32[3, 2], %bias: read f32[2], %y: write f32[2]) {
  %s: scratch f32[2000]
  for j < 2 { %s[1000 * j] = %bias[j] }
  for k < 3 { for i < 2 { %s[1000 * i] += %x[k] * %w[k, i] } }
  for o < 2 { %y[o] = max(%s[1000 * o], 0.0) }
}

kernel @pick(%n: read i64[1], %y: update f32[4]) {
  let n: i64 in 0..=3 = %n[0]
  %y[n] += 10.0
}

program @setup() arena 64 {
  %w: 24 at weight c1
  %t: 24 at arena 0
  %packed: 24 at constants 64
  run k0(read 24 at %w, write 24 at %t) extent 1
  move 4 from %t to %packed over (2 by 1 to 1, 3 by 2 to 2)
}

program @main(n in 0..=2, i in 0..) arena 64 {
  %x: 12 at input 0
  %n: 8 at input 1
  %packed: 24 at constants 64
  %bias: 8 at weight c0
  %y: 8 at arena 0
  %out: 16 at output 0
  %same: 12 at output 1
  run k1(read 12 at %x, read 24 at %packed, read 8 at %bias, write 8 at %y) extent 1
  copy 8 from %y to %out
  copy 8 from %y to %out[8]
  run k2(read 8 at %n, update 16 at %out) extent 1
  bind n = %n
  repeat i < n { copy 4 from %x[4*i] to %out }
  move 4 from %x to %same over (3 by 1 to 1)
}
";

fn model() -> (Module, Interface) {
    let module = module::parse(MODULE, &bytes::Bytes::new()).unwrap_or_else(|e| panic!("{e}"));
    module::verify(&module).unwrap_or_else(|errors| panic!("{errors}"));
    let port = |name: &str, dtype, shape: &[usize]| CPort::new(name, dtype, shape.to_vec());
    let interface = Interface {
        name: "2/tiny model".to_owned(),
        inputs: vec![port("x", DType::F32, &[1, 3]), port("n", DType::I64, &[])],
        outputs: vec![port("y", DType::F32, &[4]), port("same", DType::F32, &[1, 3])],
    };
    (module, interface)
}

fn built() -> (Folder, Interface) {
    let (module, interface) = model();
    let folder = Folder::new();
    build(folder.path(), &sources(&module, &interface, COptions::default()), &[]);
    (folder, interface)
}

#[test]
fn a_whole_model() {
    if !has_c_compiler() {
        return;
    }
    let (folder, interface) = built();
    let x = Tensor::from_vec(&[1, 3], vec![1.0f32, 2.0, 0.25]);
    for (n, expected) in [
        (0i64, [16.25f32, 0.0, 6.25, 0.0]),
        (1, [1.0, 10.0, 6.25, 0.0]),
        (2, [2.0, 0.0, 16.25, 0.0]),
    ] {
        let inputs = [x.clone(), Tensor::from_vec(&[], vec![n])];
        let outputs = run(folder.path(), &interface, &inputs);
        assert_eq!(outputs[0].to_f64_vec(), expected.map(f64::from), "n = {n}");
        assert_eq!(outputs[1], x);
    }
}

/// What the program prints, to either stream, and its exit status.
fn outcome(folder: &Folder, arguments: &[&str]) -> (String, Option<i32>) {
    let output = Command::new(folder.path().join("main"))
        .current_dir(folder.path())
        .args(arguments)
        .output();
    let output = output.expect("a program that runs");
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.code())
}

#[test]
fn faults_and_files_that_are_wrong() {
    if !has_c_compiler() {
        return;
    }
    let (folder, _) = built();
    let write = |name: &str, tensor: &Tensor| {
        tensor::npy::write(folder.path().join(name), tensor).expect("a file that can be written");
    };
    write("x.npy", &Tensor::from_vec(&[1, 3], vec![1.0f32, 2.0, 0.25]));
    write("flat.npy", &Tensor::from_vec(&[3], vec![1.0f32, 2.0, 0.25]));
    write("wide.npy", &Tensor::from_vec(&[1, 3], vec![1.0f64, 2.0, 0.25]));
    for (name, n) in [("0.npy", 0i64), ("3.npy", 3), ("4.npy", 4)] {
        write(name, &Tensor::from_vec(&[], vec![n]));
    }
    std::fs::write(folder.path().join("text.npy"), "not an array").expect("a file");
    std::fs::write(folder.path().join("short.bin"), "short").expect("a file");
    let good = "y f32[4]: 16.25 0 6.25 0\nsame f32[1, 3]: 1 2 0.25\n";
    let stopped = |fault| format!("error: the model stopped with fault {fault}, see model.h\n");
    let check = |arguments: &[&str], text: &str, status: i32| {
        let found = outcome(&folder, arguments);
        assert!(found.0.contains(text), "{arguments:?}: {} lacks {text}", found.0);
        assert_eq!(found.1, Some(status), "{arguments:?}");
    };
    check(&["weights.bin", "x.npy", "0.npy"], good, 0);
    check(&["weights.bin", "x.npy", "3.npy"], &stopped(2), 1);
    check(&["weights.bin", "x.npy", "4.npy"], &stopped(1), 1);
    check(&["weights.bin", "x.npy"], "usage:", 2);
    check(&["weights.bin", "x.npy", "0.npy", "0.npy"], "usage:", 2);
    check(&["weights.bin", "flat.npy", "0.npy"], "error: flat.npy: wrong shape", 1);
    check(&["weights.bin", "wide.npy", "0.npy"], "error: wide.npy: wrong type", 1);
    check(&["weights.bin", "text.npy", "0.npy"], "error: text.npy: is no .npy file", 1);
    check(&["weights.bin", "none.npy", "0.npy"], "error: none.npy: cannot be read", 1);
    check(&["short.bin", "x.npy", "0.npy"], "error: short.bin: the file ends early", 1);
    check(&["weights.bin", "x.npy", "0.npy", "-o", "none"], "cannot be written", 1);
}

/// A loop that the data never end stops after as many turns as are allowed; one that they end in
/// time does not.
#[test]
fn loops_that_data_end() {
    if !has_c_compiler() {
        return;
    }
    let text = "
kernel @next(%x: read i64[1], %y: write i64[1], %go: write bool[1]) {
  %y[0] = %x[0] - 1
  %go[0] = ne(0, %y[0])
}

program @setup() arena 0 {
}

program @main() arena 128 {
  %x: 8 at input 0
  %y: 8 at output 0
  %t: 8 at arena 0
  %go: 1 at arena 64
  copy 8 from %x to %t
  while { run k0(read 8 at %t, write 8 at %t, write 1 at %go) extent 1 } holds %go { barrier }
  copy 8 from %t to %y
}
";
    let module = module::parse(text, &bytes::Bytes::new()).unwrap_or_else(|e| panic!("{e}"));
    module::verify(&module).unwrap_or_else(|errors| panic!("{errors}"));
    let port = |name: &str| CPort::new(name, DType::I64, vec![1]);
    let interface =
        Interface { name: "loop".to_owned(), inputs: vec![port("x")], outputs: vec![port("y")] };
    let folder = Folder::new();
    let options = COptions { most_turns: 1000, ..COptions::default() };
    build(folder.path(), &sources(&module, &interface, options), &[]);
    for (count, text, status) in [
        (1001i64, "y i64[1]: 0\n", 0),
        (1002, "error: the model stopped with fault 3, see model.h\n", 1),
        (0, "error: the model stopped with fault 3, see model.h\n", 1),
    ] {
        let file = folder.path().join("x.npy");
        tensor::npy::write(file, &Tensor::from_vec(&[1], vec![count])).expect("a file");
        let (said, ended) = outcome(&folder, &["weights.bin", "x.npy"]);
        assert_eq!((said.as_str(), ended), (text, Some(status)), "{count}");
    }
}

/// Files hold 4-bit integers as bytes and bf16 as f32; half-precision numbers print as numbers.
#[test]
fn types_that_files_lack() {
    if !has_c_compiler() {
        return;
    }
    let text = "kernel @k(%a: read i4[3], %b: read bf16[3], %c: write i4[3], %d: write bf16[3],
        %e: write f16[3]) {
      for i < 3 { %c[i] = neg(%a[i]) %d[i] = %b[i] + %b[i] %e[i] = cast<f16>(%b[i]) }
    }";
    let kernel = loops::parse(text).unwrap_or_else(|errors| panic!("{errors}"));
    let (module, interface) = common::module_of_kernels(&[kernel]);
    let folder = Folder::new();
    build(folder.path(), &sources(&module, &interface, COptions::default()), &[]);
    let write = |name: &str, tensor: &Tensor| {
        tensor::npy::write(folder.path().join(name), tensor).expect("a file that can be written");
    };
    write("a.npy", &Tensor::from_vec(&[3], vec![1i8, -2, 7]));
    write("b.npy", &Tensor::from_vec(&[3], vec![1.5f32, -0.25, f32::INFINITY]));
    let (text, status) = outcome(&folder, &["weights.bin", "a.npy", "b.npy"]);
    let expected = "k0p2 i4[3]: -1 2 -7\nk0p3 bf16[3]: 3 -0.5 inf\nk0p4 f16[3]: 1.5 -0.25 inf\n";
    assert_eq!((text.as_str(), status), (expected, Some(0)));
}

/// Code for the values of inputs, of all kinds of types, refuses other values.
#[test]
fn values_that_the_code_is_for() {
    if !has_c_compiler() {
        return;
    }
    let text = "kernel @k(%a: read i64[2], %b: read f32[2], %c: read f64[1], %d: read bf16[2],
        %e: read u4[3], %f: read bool[2], %y: write i64[2]) {
      for i < 2 { %y[i] = %a[i] + %a[i] }
    }";
    let kernel = loops::parse(text).unwrap_or_else(|errors| panic!("{errors}"));
    let (module, mut interface) = common::module_of_kernels(&[kernel]);
    let values = [
        Tensor::from_vec(&[2], vec![i64::MIN, -3]),
        Tensor::from_vec(&[2], vec![-0.0f32, 0.1]),
        Tensor::from_vec(&[1], vec![f64::NEG_INFINITY]),
        Tensor::from_vec(&[2], vec![1.5f32, f32::INFINITY]).cast(DType::BF16),
        Tensor::from_vec(&[3], vec![1u8, 15, 0]).cast(DType::U4),
        Tensor::from_vec(&[2], vec![true, false]),
    ];
    for (port, value) in interface.inputs.iter_mut().zip(&values) {
        port.value = Some(value.clone());
    }
    let folder = Folder::new();
    build(folder.path(), &sources(&module, &interface, COptions::default()), &[]);
    let outputs = run(folder.path(), &interface, &values);
    assert_eq!(outputs[0], Tensor::from_vec(&[2], vec![0i64, -6]));
    for (number, value) in values.iter().enumerate() {
        let file = format!("input{number}.npy");
        let write = |tensor: &Tensor| tensor::npy::write(folder.path().join(&file), tensor);
        write(&Tensor::zeros(value.dtype(), value.shape())).expect("a file that can be written");
        let mut arguments = vec!["weights.bin".to_owned()];
        arguments.extend((0..values.len()).map(|number| format!("input{number}.npy")));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (said, status) = outcome(&folder, &arguments);
        assert_eq!(said, "error: the model stopped with fault 4, see model.h\n", "{number}");
        assert_eq!(status, Some(1));
        write(value).expect("a file that can be written");
    }
}
