//! Procedures as machine code: random words against what their operators are defined as, and
//! what loops, memory and calls do.

mod support;

use backend::MachineCode;
use backend::procedure::{
    Action, LocalId, MemoryWidth, Procedure, Word, WordOperator, parse_procedures,
};
use base::Id;
use support::Loaded;
use tensor::random::Generator;
use tilewright_backend_x64::compile_procedure;

const OPERATORS: [WordOperator; 17] = [
    WordOperator::Add,
    WordOperator::Subtract,
    WordOperator::Multiply,
    WordOperator::SaturatingAdd,
    WordOperator::SaturatingMultiply,
    WordOperator::Quotient,
    WordOperator::Remainder,
    WordOperator::Minimum,
    WordOperator::Maximum,
    WordOperator::And,
    WordOperator::Or,
    WordOperator::Equal,
    WordOperator::NotEqual,
    WordOperator::Less,
    WordOperator::LessEqual,
    WordOperator::Greater,
    WordOperator::GreaterEqual,
];

/// Compiles one procedure that calls only itself, and loads it.
fn loaded(procedure: &Procedure) -> Loaded {
    let mut code = compile_procedure(procedure).unwrap_or_else(|found| panic!("{found}"));
    for (at, name) in code.references {
        assert_eq!(name, procedure.name);
        let distance = -(at as i32 + 4);
        code.bytes[at..at + 4].copy_from_slice(&distance.to_le_bytes());
    }
    let code_bytes = code.bytes.len();
    Loaded::new(&MachineCode {
        alignment: 16,
        bytes: code.bytes,
        code_bytes,
        scratch_bytes: 0,
        vcode: None,
        statements: Vec::new(),
    })
}

fn number(generator: &mut Generator) -> i64 {
    let bits = generator.bits();
    match bits % 8 {
        0 => [0, 1, -1, 2, i64::MIN, i64::MAX, 64, -8][(bits >> 8) as usize % 8],
        1 => (bits >> 3) as i64,
        2 => (bits as i64) >> 24,
        _ => ((bits >> 8) as i64 % 41) - 20,
    }
}

/// A random word of locals 3..7, and what it is for their values.
fn word(generator: &mut Generator, values: &[i64], depth: u32) -> (Word, i64) {
    let bits = generator.bits();
    if depth == 0 || bits.is_multiple_of(5) {
        let local = (bits >> 8) as usize % values.len();
        return match bits & 64 {
            0 => (Word::Local(LocalId::new(3 + local)), values[local]),
            _ => {
                let number = number(generator);
                (Word::Number(number), number)
            }
        };
    }
    let operator = OPERATORS[(bits >> 8) as usize % OPERATORS.len()];
    let (a, a_value) = word(generator, values, depth - 1);
    let (b, b_value) = word(generator, values, depth - 1);
    (Word::binary(operator, a, b), operator.apply(a_value, b_value))
}

#[test]
fn words_are_what_their_operators_say() {
    for seed in 0..300 {
        let mut generator = Generator::new(seed);
        let values: Vec<i64> = (0..7).map(|_| number(&mut generator)).collect();
        let mut procedure = Procedure::new("words", &["context", "first", "last"]);
        let buffers = Word::from(procedure.parameter(0)).load();
        let (input, output) = (buffers.clone().load(), (buffers + 8).load());
        for place in 0..values.len() {
            let local = procedure.local("value");
            let read = (input.clone() + 8 * place as i64).load();
            procedure.body.push(Action::Set(local, read));
        }
        let mut expected = Vec::new();
        for place in 0..8 {
            let (word, value) = word(&mut generator, &values, 4);
            expected.push(value);
            let at = output.clone() + 16 * place;
            let truth = Action::Store(MemoryWidth::Eight, at.clone() + 8, Word::Number(1));
            procedure.body.push(Action::If(word.clone(), vec![truth], Vec::new()));
            procedure.body.push(Action::Store(MemoryWidth::Eight, at, word));
        }
        let (mut input, mut output) = (values, vec![0i64; 16]);
        let buffers = [input.as_mut_ptr().cast(), output.as_mut_ptr().cast()];
        // SAFETY: the procedure reads 7 words of the first and writes 16 of the second.
        let result = unsafe { loaded(&procedure).run(&buffers, &mut [], 0, 1) };
        assert_eq!(result, 0);
        for (place, expected) in expected.into_iter().enumerate() {
            assert_eq!(output[2 * place], expected, "seed {seed}, word {place}");
            assert_eq!(output[2 * place + 1], i64::from(expected != 0), "seed {seed}");
        }
    }
}

fn run(text: &str, input: &mut [i64], output: &mut [i64]) -> i32 {
    let procedures = parse_procedures(text).unwrap_or_else(|found| panic!("{found}"));
    let buffers = [input.as_mut_ptr().cast(), output.as_mut_ptr().cast()];
    // SAFETY: the procedures of these tests stay within what they are given.
    unsafe { loaded(&procedures[0]).run(&buffers, &mut [], 5, 9) }
}

#[test]
fn loops_memory_and_calls() {
    let text = "procedure f(context, first, last, a, b, c, d, e) {
      area pair: 16
      area large: 20000
      if first == 5 {
        store8(&large + 19992, last)
        x = call f(0, 100, last, 1, 2 * last, 3, load8(&large + 19992), e_unused())
        return x
      }
      return 0
    }";
    // Eight arguments, two of them on the stack, and an area of several pages.
    let text = text.replace(", e_unused()", ", 7").replace(
        "return 0\n    }",
        "store8(&pair, a + 10 * b)
      store1(&pair + 8, 511)
      sum = 0
      turn = 0
      loop {
        if turn >= 10 { break }
        turn = turn + 1
        if remainder(turn, 2) == 0 { sum = sum + turn } else { sum = sum - 1 }
      }
      return load8(&pair) * 10000 + load8(&pair + 8) * 0 + load1(&pair + 8) + sum + c + d + e
    }",
    );
    let result = run(&text, &mut [], &mut []);
    let pair = 1 + 10 * 18;
    assert_eq!(result, pair * 10000 + 255 + (30 - 5) + 3 + 9 + 7);
}

#[test]
fn copies() {
    let text = "procedure f(context, first, last) {
      buffers = load8(context)
      copy(load8(buffers + 8), load8(buffers) + 8, 16)
      copy(load8(buffers + 8) + 16, load8(buffers), first - last)
      return load2(load8(buffers)) + load4(load8(buffers) + 4)
    }";
    let (mut input, mut output) = ([-1, 7, 8], [0, 0, 3]);
    assert_eq!(run(text, &mut input, &mut output), 65535 - 1);
    assert_eq!(output, [7, 8, 3]);
}
