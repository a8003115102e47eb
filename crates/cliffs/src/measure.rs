//! Measures a model: ours and the peers' runs in turn, kernels beside their predictions, outputs
//! beside the peers'.
//!
//! Every time is the least of many calls in several rounds; within a round each engine has a
//! window, so that what else the machine does hits all. What looks like a finding is measured three
//! times over before it counts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use inspect::{Ceilings, explain_beneath};
use tensor::{DType, Tensor};
use tilewright::{Executable, Options, catch_internal_errors, compare, compile_bytes};

use crate::figures::{Figures, IN_FEWER_BITS, KernelFigures};
use crate::model::{bytes, values};
use crate::outline::Outline;
use crate::peers::{Loaded, Peers};
use crate::watch::Watch;

/// Seconds of a window, and rounds of a repeat.
const WINDOW: f64 = 0.003;
const ROUNDS: usize = 3;
/// Repeats of what looks like a finding.
const REPEATS: usize = 3;
/// From which ratio to the better peer, and from which excess of a kernel, a model is measured
/// again: below what is a finding, since a first measurement may be too good for a peer.
const SUSPECT_RATIO: f64 = 1.2;
const SUSPECT_EXCESS: f64 = 1.5;
/// Seconds in which the peers' call overhead is taken.
const OVERHEAD_WINDOW: f64 = 0.05;
/// Runs of a repeat in which kernels are timed, at least, and for how long.
const LEAST_PROFILES: usize = 4;
const PROFILES: Duration = Duration::from_millis(8);
/// How the codes of diagnostics begin that tell of the compiler's own mistakes.
const INTERNAL: &str = "TW09";
/// An integer of more than 32 bits.
const LONG: i64 = (1 << 40) + 5;
/// The seed of inputs.
pub(crate) const SEED: u64 = 1;

/// What measures model after model.
pub(crate) struct Measurer {
    folder: PathBuf,
    identity: PathBuf,
    options: Options,
    /// The engines that there are.
    pub peers: Peers,
    /// Microseconds of a call of each peer that does nothing.
    pub overheads: BTreeMap<String, f64>,
    /// Those that compute integers of 64 bits in fewer.
    narrow: BTreeSet<String>,
    ceilings: Option<Ceilings>,
    watch: Watch,
}

/// A model of ours, ready to run.
struct Ours {
    executable: Executable,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

impl Measurer {
    /// Measures with the peers of a Python; files lie in a folder meanwhile.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn new(python: &Path, folder: &Path) -> Result<Measurer, String> {
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let identity = folder.join("identity.onnx");
        let model = Outline { dtype: DType::F32, shape: vec![1], parts: Vec::new() };
        std::fs::write(&identity, bytes(&model)?).map_err(|error| error.to_string())?;
        let mut measurer = Measurer {
            folder: folder.to_path_buf(),
            identity,
            options: Options::default().with_threads(1),
            peers: Peers::of(python, folder),
            overheads: BTreeMap::new(),
            narrow: BTreeSet::new(),
            ceilings: None,
            watch: Watch::start(),
        };
        for (name, _) in measurer.peers.versions.clone() {
            measurer.overhead(&name, OVERHEAD_WINDOW)?;
        }
        measurer.find_narrow()?;
        Ok(measurer)
    }

    /// Finds the peers that compute integers of 64 bits in fewer, by one that needs more than 32.
    fn find_narrow(&mut self) -> Result<(), String> {
        let path = self.folder.join("integers.onnx");
        let model = Outline::parse("input i64 1\nmap f=Neg")?;
        std::fs::write(&path, bytes(&model)?).map_err(|error| error.to_string())?;
        let input = Tensor::from_vec(&[1], vec![LONG]);
        for (name, output) in self.peers.load(&path, &input) {
            let is_exact =
                |output: &Tensor| output.as_slice::<i64>().is_some_and(|own| *own == [-LONG]);
            if matches!(&output, Ok(Some(output)) if !is_exact(output)) {
                self.narrow.insert(name);
            }
        }
        Ok(())
    }

    /// What a call of a peer costs that does nothing: the least that was seen so far.
    fn overhead(&mut self, peer: &str, seconds: f64) -> Result<f64, String> {
        let time = self.peers.time(peer, seconds, Some(&self.identity))?;
        let least = self.overheads.entry(peer.to_owned()).or_insert(time);
        *least = least.min(time);
        Ok(*least)
    }

    /// Measures an outline's model.
    ///
    /// # Errors
    /// Why it cannot be made, or why it is refused.
    pub(crate) fn measure(&mut self, outline: &Outline) -> Result<Figures, String> {
        self.watch.begin();
        let figures = self.watched(outline);
        self.watch.end();
        figures
    }

    fn watched(&mut self, outline: &Outline) -> Result<Figures, String> {
        let bytes = bytes(outline)?;
        let path = self.folder.join("model.onnx");
        std::fs::write(&path, &bytes).map_err(|error| error.to_string())?;
        let start = Instant::now();
        let options = &self.options;
        let executable = catch_internal_errors(|| compile_bytes(bytes, options));
        let executable = match executable {
            Ok(executable) => executable,
            Err(found) if found.iter().any(|it| it.code.starts_with(INTERNAL)) => {
                let broken = Some(first_line(&found.to_string()));
                return Ok(Figures { broken, ..Figures::default() });
            }
            Err(found) => return Err(first_line(&found.to_string())),
        };
        let compile_ms = start.elapsed().as_secs_f64() * 1e3;
        let inputs = vec![values(outline.dtype, &outline.shape, SEED, 1.0)];
        let outputs = executable.run(&inputs).map_err(|error| first_line(&error.to_string()))?;
        let mut ours = Ours { executable, inputs, outputs };
        let mut figures = Figures { run: f64::INFINITY, compile_ms, ..Figures::default() };
        let loaded = self.peers.load(&path, &ours.inputs[0]);
        let theirs = loaded.iter().filter_map(|(_, output)| output.as_ref().ok()?.as_ref());
        let tolerance = Tolerance::of(outline);
        (figures.deviation, figures.wrong) = difference(&ours.outputs[0], theirs, tolerance);
        let time = |(name, it): (String, Loaded)| {
            let precise = |output: Option<Tensor>| match output {
                _ if outline.dtype == DType::I64 && self.narrow.contains(&name) => {
                    Err(IN_FEWER_BITS.to_owned())
                }
                Some(output) if is_rounded(&output) && !is_rounded(&ours.outputs[0]) => {
                    Err(IN_FEWER_BITS.to_owned())
                }
                _ => Ok(f64::INFINITY),
            };
            let time = it.and_then(precise);
            (name, time)
        };
        figures.peers = loaded.into_iter().map(time).collect();
        for repeat in 0..REPEATS {
            self.rounds(&mut ours, &mut figures)?;
            self.kernels(&ours, &mut figures)?;
            let ratio = figures.ratio().map_or(0.0, |(ratio, _)| ratio);
            let excess = figures.slowest().map_or(0.0, KernelFigures::excess);
            if repeat == 0 && ratio < SUSPECT_RATIO && excess < SUSPECT_EXCESS {
                break;
            }
        }
        Ok(figures)
    }

    /// A repeat of the whole model, and of the peers that have loaded it.
    fn rounds(&mut self, ours: &mut Ours, figures: &mut Figures) -> Result<(), String> {
        for _ in 0..ROUNDS {
            figures.run = figures.run.min(ours.window()?);
            for (name, least) in &mut figures.peers {
                let Ok(time) = least else { continue };
                let net = self.peers.time(name, WINDOW, None).map(|call| {
                    let overhead = self.overheads.get(name).copied().unwrap_or(0.0);
                    (call - overhead).max(0.0)
                });
                match net {
                    Ok(net) => *time = time.min(net),
                    Err(reason) => *least = Err(reason),
                }
            }
        }
        Ok(())
    }

    /// A repeat of all kernels.
    fn kernels(&mut self, ours: &Ours, figures: &mut Figures) -> Result<(), String> {
        let ceilings = match self.ceilings {
            Some(ceilings) => ceilings,
            None => Ceilings::of(&ours.executable).map_err(|error| error.to_string())?,
        };
        self.ceilings = Some(ceilings);
        let inputs: Vec<_> = ours.inputs.iter().cloned().map(Into::into).collect();
        let (begin, mut count) = (Instant::now(), 0);
        while count < LEAST_PROFILES || begin.elapsed() < PROFILES {
            let explanation = explain_beneath(&ours.executable, &inputs, ceilings, 1)
                .map_err(|error| first_line(&error.to_string()))?;
            let rows = explanation.rows.into_iter().filter(|row| row.info.is_some());
            let rows = rows.map(|row| {
                let turns = row.turns.max(1) as f64;
                // No step takes longer than the whole; its clock may have been stopped meanwhile.
                let least_us = row.roofline * row.time_us.max(1e-3);
                let time = row.time_us.min(figures.run);
                KernelFigures {
                    name: row.kernel,
                    time: time / turns,
                    predicted: row.predicted_us / turns,
                    roofline: least_us / time.max(1e-3),
                }
            });
            count += 1;
            if figures.kernels.is_empty() {
                figures.kernels = rows.collect();
                continue;
            }
            for (kernel, again) in figures.kernels.iter_mut().zip(rows) {
                if again.time < kernel.time {
                    *kernel = again;
                }
            }
        }
        Ok(())
    }

    /// The ceilings of this machine, once a model has been measured.
    #[must_use]
    pub(crate) fn ceilings(&self) -> Option<Ceilings> {
        self.ceilings
    }
}

impl Ours {
    /// Microseconds of the fastest run in a window.
    fn window(&mut self) -> Result<f64, String> {
        let (end, mut least, mut count) = (Duration::from_secs_f64(WINDOW), f64::INFINITY, 0);
        let begin = Instant::now();
        while count < 3 || begin.elapsed() < end {
            let start = Instant::now();
            let done = self.executable.run_into(&self.inputs, &mut self.outputs);
            least = least.min(start.elapsed().as_secs_f64() * 1e6);
            done.map_err(|error| first_line(&error.to_string()))?;
            count += 1;
        }
        Ok(least)
    }
}

/// Whether each of the f64 numbers is one of f32: where ours are not, they were computed in f32,
/// which is another function, with half the bytes and twice the lanes.
fn is_rounded(output: &Tensor) -> bool {
    let Some(numbers) = output.as_slice::<f64>() else { return false };
    numbers.iter().all(|&number| number.is_nan() || f64::from(number as f32) == number)
}

/// How far results may be from a peer's, by one measure or by the other.
#[derive(Clone, Copy, Debug)]
struct Tolerance {
    /// Of the norm.
    norm: f64,
    /// The share of the elements that differ.
    elements: f64,
}

impl Tolerance {
    /// What rounding at other places may make of an outline's results. Choices between what is
    /// almost alike differ in a few elements. Short floats are rounded everywhere. What is rounded
    /// to 8 bits between two parts differs by whole steps: numbers that reach 64 steps to both
    /// sides have a norm of some 25 steps an element, and a step in one of four elements is the
    /// fiftieth part of that.
    fn of(outline: &Outline) -> Tolerance {
        let in_steps = outline.parts.iter().any(|part| part.name.starts_with("quantised"));
        match outline.dtype {
            DType::F16 | DType::BF16 => Tolerance { norm: 0.05, elements: 0.1 },
            _ if in_steps => Tolerance { norm: 0.02, elements: 0.02 },
            _ => Tolerance { norm: 2e-3, elements: 0.02 },
        }
    }

    fn allows(self, norm: f64, elements: f64) -> bool {
        norm <= self.norm || elements <= self.elements
    }
}

/// How far ours is from what the nearest peer gave, in the norm; and how, if that is too far.
fn difference<'a>(
    ours: &Tensor,
    theirs: impl Iterator<Item = &'a Tensor>,
    tolerance: Tolerance,
) -> (Option<f64>, Option<String>) {
    let (mut nearest, mut found) = (None, None);
    for peer in theirs {
        let deviation = compare(ours, peer, 5e-3, 5e-3);
        if let Some(how) = deviation.type_error {
            found = Some(how);
            continue;
        }
        let share = deviation.mismatches as f64 / deviation.elements.max(1) as f64;
        let norm = deviation.relative_l2;
        if tolerance.allows(norm, share) {
            return (Some(norm), None);
        }
        nearest = Some(nearest.map_or(norm, |least: f64| least.min(norm)));
        let share = 100.0 * share;
        found = Some(format!("{share:.1} % of the elements differ, {norm:.1e} of the norm"));
    }
    (nearest, found)
}

fn first_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).take(3).collect();
    lines.join(" ").chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_in_steps_may_differ_by_some() {
        let judged = |text: &str, share: usize, by: f32| {
            let outline = Outline::parse(text).expect("an outline");
            let ours: Vec<f32> = (0..400u16).map(|at| f32::from(at % 101) - 50.0).collect();
            let theirs: Vec<f32> = { ours.iter().enumerate() }
                .map(|(at, number)| number + if at % 100 < share { by } else { 0.0 })
                .collect();
            let [ours, theirs] = [ours, theirs].map(|numbers| Tensor::from_vec(&[400], numbers));
            difference(&ours, [&theirs].into_iter(), Tolerance::of(&outline)).1
        };
        let plain = "input f32 4,8\nmap f=Exp\n";
        let in_steps = "input f32 4,8\nquantised_matmul out=3 type=u8\n";
        assert!(judged(plain, 4, 1.0).is_some());
        assert_eq!(judged(plain, 1, 1.0), None);
        assert_eq!(judged(in_steps, 4, 1.0), None);
        assert!(judged(in_steps, 4, 9.0).is_some());
        assert!(judged(in_steps, 60, 1.0).is_some());
    }
}
