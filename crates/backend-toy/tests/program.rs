//! A program of one kernel on the register machine.

use backend_toy::ToyProgram;
use tensor::Tensor;

#[test]
fn a_reduction_is_run() {
    let text = "kernel @dot(%x: read f32[8], %y: read f32[8], %z: write f32[1]) {
      %sum: register f32[1]
      %sum[0] = 0.0
      for i < 8 { if i < 5 { %sum[0] += %x[i] * %y[i mod 3 + i div 4] } }
      %z[0] = max(%sum[0], 0.0)
    }
    program @main() arena 0 {
      %x: 32 at input 0
      %y: 32 at input 1
      %z: 4 at output 0
      run k0(read 32 at %x, read 32 at %y, write 4 at %z) extent 1
    }";
    let module = module::parse(text, &bytes::Bytes::new()).expect("a module");
    let program = &module.programs[module.program("main").expect("a program")];
    let toy = ToyProgram::new(&module, program).expect("code");
    let x = Tensor::from_vec(&[8], (1..9).map(|value| value as f32).collect());
    let mut outputs = [Tensor::from_vec(&[1], vec![f32::NAN])];
    toy.run(&[x.clone(), x], &mut outputs, &mut Vec::new()).expect("a run");
    // 1 * 1 + 2 * 2 + 3 * 3 + 4 * 1 + 5 * 3
    assert_eq!(outputs[0].to_vec::<f32>().expect("floats"), [33.0]);
}
