//! Predictions beside times that were measured before: how a change of the cost model fares,
//! without measuring again.

use std::fmt::Write as _;
use std::path::Path;

use inspect::{Ceilings, explain_beneath};
use serde_json::Value;
use tilewright::{Options, compile_bytes};

use crate::figures::{AS_PREDICTED, Figures, KernelFigures};
use crate::measure::SEED;
use crate::model::{bytes, values};
use crate::outline::Outline;

/// A file of results, the times of whose kernels stand beside what is predicted of them now. A
/// line a kernel, the furthest off first, then the share that is near. Kernels that a model no
/// longer has are left out.
///
/// # Errors
/// A file that cannot be read, or holds something else.
pub fn predict(results: &Path) -> Result<String, String> {
    let failed = |reason: String| format!("{}: {reason}", results.display());
    let text = std::fs::read_to_string(results).map_err(|error| failed(error.to_string()))?;
    let (mut kernels, mut missing) = (Vec::new(), 0);
    for line in text.lines() {
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        let Some(outline) = line["outline"].as_str() else { continue };
        let Some(figures) = Figures::of_json(&line["figures"]) else { continue };
        let outline = Outline::parse(outline).map_err(failed)?;
        let Some(now) = predictions(&outline) else { continue };
        for (place, kernel) in figures.kernels.into_iter().enumerate() {
            match now.get(place).filter(|(name, _)| *name == kernel.name) {
                Some((_, predicted)) => {
                    let kernel = KernelFigures { predicted: *predicted, ..kernel };
                    kernels.push((line["model"].clone(), outline.clone(), kernel));
                }
                None => missing += 1,
            }
        }
    }
    kernels.retain(|(_, _, kernel)| kernel.counts());
    let factor = |kernel: &KernelFigures| kernel.excess().max(1.0 / kernel.excess());
    kernels.sort_by(|a, b| factor(&b.2).total_cmp(&factor(&a.2)));
    let near = kernels.iter().filter(|(_, _, kernel)| factor(kernel) <= AS_PREDICTED).count();
    let mut text = String::new();
    for (model, outline, KernelFigures { name, time, predicted, .. }) in &kernels {
        let outline = outline.to_string().trim_end().replace('\n', " | ");
        let excess = time / predicted;
        _ = writeln!(text, "{excess:.2} m{model} {name} {time:.1} of {predicted:.1} us: {outline}");
    }
    _ = writeln!(
        text,
        "{near} of {} kernels within {AS_PREDICTED}x either way; {missing} are not there any more",
        kernels.len(),
    );
    Ok(text)
}

/// Names and predicted microseconds of a model's kernels, as they run.
fn predictions(outline: &Outline) -> Option<Vec<(String, f64)>> {
    let options = Options::default().with_threads(1);
    let executable = compile_bytes(bytes(outline).ok()?, &options).ok()?;
    let inputs = [values(outline.dtype, &outline.shape, SEED, 1.0).into()];
    // Rooflines are not looked at.
    let ceilings = Ceilings { flops_per_ns: 1.0, bytes_per_ns: 1.0 };
    let rows = explain_beneath(&executable, &inputs, ceilings, 1).ok()?.rows.into_iter();
    let of_kernels = rows.filter(|row| row.info.is_some());
    Some(of_kernels.map(|row| (row.kernel, row.predicted_us / row.turns.max(1) as f64)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_were_measured_stand_beside_what_is_predicted_now() {
        let outline = Outline::parse("input f32 64,96\nmap f=Exp\n").expect("an outline");
        let now = predictions(&outline).expect("it compiles");
        let [(name, predicted)] = &now[..] else { panic!("one kernel, not {now:?}") };
        let kernel = |name: &str, time| KernelFigures {
            name: name.to_owned(),
            time,
            predicted: 1.0,
            roofline: 0.5,
        };
        let line = |number: u64, kernels| {
            let figures = Figures { kernels, ..Figures::default() }.to_json();
            serde_json::json!({
                "model": number, "outline": outline.to_string(), "figures": figures,
            })
        };
        let folder = testkit::Folder::new();
        let path = folder.path().join("results.jsonl");
        let near = predicted.max(5.0);
        let lines = [
            line(0, vec![kernel(name, near)]),
            line(1, vec![kernel(name, 40.0 * near)]),
            line(2, vec![kernel("another", near)]),
        ];
        let text = lines.map(|line| line.to_string()).join("\n");
        std::fs::write(&path, text).expect("written");
        let told = predict(&path).expect("results");
        assert!(told.starts_with(&format!("{:.2} m1 {name}", 40.0 * near / predicted)), "{told}");
        let near = usize::from(near / predicted <= AS_PREDICTED);
        let last =
            format!("{near} of 2 kernels within 1.5x either way; 1 are not there any more\n");
        assert!(told.ends_with(&last), "{told}");
        assert!(predict(&folder.path().join("none")).is_err());
    }
}
