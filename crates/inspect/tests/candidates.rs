//! What a kernel could have been is listed, and measured with its data in caches and in memory.

#[path = "../../tilewright/tests/common/mod.rs"]
mod common;

use tilewright::{DType, Value};

use common::executable;

const POOLING: &str = "
    input x: f32[1, 4, 300, 301]
    y = MaxPool(x) {kernel_shape = [3, 3], strides = [2, 2]}
    output y: f32[1, 4, 149, 150]";

#[test]
fn points_of_a_kernel_are_listed_and_measured() {
    let Some(executable) = executable(POOLING) else { return };
    let inputs = [Value::from(tilewright::random(DType::F32, &[1, 4, 300, 301], 1))];
    let explained = inspect::explain(&executable, &inputs);
    let explained = explained.unwrap_or_else(|found| panic!("{found}"));
    let kernel = explained.rows.iter().map(|row| &row.kernel).find(|name| name.contains("reduce"));
    let kernel = kernel.unwrap_or_else(|| panic!("no kernel reduces: {explained:?}"));
    for measured in [false, true] {
        let found = inspect::candidates(&executable, &inputs, kernel, measured);
        let found = found.unwrap_or_else(|found| panic!("{found}"));
        assert!(found.rows.iter().any(|row| row.chosen), "{found}");
        for row in &found.rows {
            let is_timed = row
                .measured
                .is_some_and(|found| found.from_caches_us > 0.0 && found.from_memory_us > 0.0);
            assert_eq!(is_timed, measured && row.predicted_us.is_ok(), "{row:?}");
            assert!(!row.chosen || row.predicted_us.is_ok(), "{row:?}");
        }
        let text = found.to_string();
        let marked = text.lines().filter(|line| line.starts_with('*'));
        let numbers = |line: &str| {
            line.split_whitespace().skip(1).map_while(|word| word.parse::<f64>().ok()).count()
        };
        let wanted = if measured { 3 } else { 1 };
        assert!(marked.map(numbers).all(|count| count == wanted), "{text}");
    }
}
