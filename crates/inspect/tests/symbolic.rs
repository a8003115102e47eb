//! Code for many extents is explained for the extents at hand, and verified by its outputs.

#[path = "../../tilewright/tests/common/mod.rs"]
mod common;

use inspect::Explanation;
use tilewright::{DType, Executable, Options, Value};

use common::{compiled, model, runs_code};

const TEXT: &str = "
    input x: f32[rows, 8]
    constant w: f32[8, 2] {0.5, 1.0, -1.0, 2.0, 0.25, 0.5, 3.0, -2.0, 1.5, 1.0, -0.5, 0.75,
        1.0, 1.0, 2.0, 0.125}
    constant axis: i64[] {1}
    squares = Mul(x, x)
    order = CumSum(squares, axis)
    y = MatMul(order, w)
    output y: f32[rows, 2]
";

fn executable(options: Options) -> Executable {
    compiled(&model(TEXT), options)
}

fn explained(executable: &Executable, inputs: &[Value]) -> Explanation {
    inspect::explain(executable, inputs).unwrap_or_else(|found| panic!("{found}"))
}

fn operations(explanation: &Explanation) -> u64 {
    explanation.rows.iter().filter_map(|row| row.info.as_ref()).map(|info| info.flops).sum()
}

#[test]
fn figures_are_of_the_extents_at_hand() {
    if !runs_code() {
        return;
    }
    let fixed = executable(Options::default());
    let free = executable(Options::default().with_symbolic_extents());
    let mut arenas = Vec::new();
    for rows in [3, 50] {
        let inputs = [Value::from(tilewright::random(DType::F32, &[rows, 8], 1))];
        let (of_fixed, of_free) = (explained(&fixed, &inputs), explained(&free, &inputs));
        assert_eq!(operations(&of_free), operations(&of_fixed), "{rows} rows");
        assert_eq!(of_fixed.arena_formula, None);
        assert_eq!(of_free.why_alone, Vec::<String>::new());
        let formula = of_free.arena_formula.unwrap_or_default();
        assert!(formula.contains("rows"), "{formula}");
        assert!(of_free.arena_bytes >= of_free.largest_live_set);
        arenas.push(of_free.arena_bytes);
    }
    assert!(arenas[0] < arenas[1], "{arenas:?}");
}

#[test]
fn outputs_are_verified() {
    if !runs_code() {
        return;
    }
    let free = executable(Options::default().with_symbolic_extents());
    let inputs = [Value::from(tilewright::random(DType::F32, &[5, 8], 1))];
    let report = inspect::verify(&free, &inputs, u64::MAX, &mut |_, _, _| ());
    let report = report.unwrap_or_else(|found| panic!("{found}"));
    assert!(report.passed() && report.outputs.len() == 1 && !report.kernels.is_empty(), "{report}");
    let says = report.not_compared.iter().any(|it| it.kernel == "kernels for many extents");
    assert!(says, "{report}");
}
