//! Where the time goes: a row a kernel run.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Instant;

use backend::Target;
use base::{KernelId, Result};
use tensor::Value;
use tilewright::Executable;
use tilewright::compiled::{KernelInfo, SegmentRun, Variant};

use crate::ceilings::Ceilings;

/// Runs that are profiled, after two that warm caches.
const PROFILED_RUNS: u32 = 20;

/// A profile of the runs of one model on inputs of one shape.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The target's name.
    pub target: String,
    /// Worker threads.
    pub threads: usize,
    /// A row for each step that takes time, in the order they are run.
    pub rows: Vec<ExplanationRow>,
    /// Microseconds of a whole run, measured around it.
    pub total_us: f64,
    /// What this machine could do meanwhile.
    pub ceilings: Ceilings,
    /// What format choice did and did not do.
    pub formats: Vec<String>,
    /// Bytes of the arena, with each worker's scratch memory.
    pub arena_bytes: u64,
    /// The most that is alive at one step, with each worker's scratch memory.
    pub largest_live_set: u64,
}

/// One step of the program.
#[derive(Clone, Debug)]
pub struct ExplanationRow {
    /// The kernel's name, or the kind of step.
    pub kernel: String,
    /// What it computes, and how it was made; none of a step that computes no node of the model.
    pub info: Option<KernelInfo>,
    /// Microseconds of a run, on average.
    pub time_us: f64,
    /// Microseconds that the cost model expects, from the target row's peak and bandwidth.
    pub predicted_us: f64,
    /// The time that the measured ceilings leave over the measured time.
    pub roofline: f64,
}

/// Runs the model with a clock around every step. Of a plan of several segments these follow each
/// other, each once for the shapes that it meets; the arena is the largest of theirs.
///
/// # Errors
/// Those of running it.
pub fn explain(executable: &Executable, inputs: &[Value]) -> Result<Explanation> {
    // Twice: what is measured has been compiled, and has its memory.
    executable.run_values(inputs)?;
    executable.run_values(inputs)?;
    let (target, threads) = (executable.target(), executable.threads());
    let mut explanation = Explanation {
        target: target.name.clone(),
        threads,
        rows: Vec::new(),
        total_us: 0.0,
        ceilings: Ceilings::measure(target, executable.options(), threads)?,
        formats: Vec::new(),
        arena_bytes: 0,
        largest_live_set: 0,
    };
    explanation.add_whole(executable, inputs)?;
    Ok(explanation)
}

impl Explanation {
    /// Microseconds that the rows account for.
    #[must_use]
    pub fn explained_us(&self) -> f64 {
        self.rows.iter().map(|row| row.time_us).sum()
    }

    /// Profiles the segments of what is compiled as a whole.
    fn add_whole(&mut self, executable: &Executable, inputs: &[Value]) -> Result<()> {
        let (variant, met) = executable.met(inputs)?;
        let front = &variant.front;
        let locations = &front.module.functions[front.plan].locations;
        let remark = |remark: &base::Remark| {
            format!("{}: {}", locations.describe(remark.location), remark.message)
        };
        for text in front.remarks.iter().map(remark) {
            if !self.formats.contains(&text) {
                self.formats.push(text);
            }
        }
        for segment in &met {
            let lowered = &segment.specialisation.lowered;
            let scratch = segment.specialisation.executable().scratch_bytes() as u64;
            let scratch = scratch * self.threads as u64;
            if lowered.arena_bytes + scratch >= self.arena_bytes {
                self.arena_bytes = lowered.arena_bytes + scratch;
                self.largest_live_set = lowered.largest_live_set + scratch;
            }
            self.add_segment(executable, &variant, segment)?;
        }
        Ok(())
    }

    /// Profiles a segment on its operands and adds its rows.
    fn add_segment(
        &mut self,
        executable: &Executable,
        variant: &Variant,
        segment: &SegmentRun,
    ) -> Result<()> {
        let SegmentRun { specialisation, operands, .. } = segment;
        let mut outputs = specialisation.new_outputs()?;
        let begin = Instant::now();
        let clock = move || begin.elapsed().as_nanos() as u64;
        let mut profile = runtime::Profile::new(specialisation.executable(), &clock);
        let mut total_ns = 0;
        for _ in 0..PROFILED_RUNS {
            specialisation.states.with(self.threads, |state| {
                let call = variant.call(specialisation, state, operands, &mut outputs)?;
                let start = Instant::now();
                call.run_profiled(&mut profile)?;
                total_ns += start.elapsed().as_nanos();
                Ok(())
            })?;
        }
        self.total_us += total_ns as f64 / f64::from(PROFILED_RUNS) / 1e3;
        // The runs of each kernel in order. A kernel that only counts for a loop has none.
        let mut infos: BTreeMap<KernelId, VecDeque<&KernelInfo>> = BTreeMap::new();
        for info in &specialisation.lowered.kernels {
            infos.entry(info.kernel).or_default().push_back(info);
        }
        for row in profile.rows() {
            let time_us = row.nanoseconds as f64 / f64::from(PROFILED_RUNS) / 1e3;
            let info = row.kernel.and_then(|id| infos.get_mut(&id)?.pop_front());
            let name = |id: KernelId| specialisation.module.kernels[id].name.clone();
            let kernel = row.kernel.map_or_else(|| "copy".to_owned(), name);
            self.rows.push(self.row(executable.target(), kernel, info, time_us));
        }
        Ok(())
    }

    fn row(
        &self,
        target: &Target,
        kernel: String,
        info: Option<&KernelInfo>,
        time_us: f64,
    ) -> ExplanationRow {
        let (flops, bytes) = info.map_or((0, 0), |info| (info.flops, info.bytes));
        let predicted_ns = (flops as f64 / (target.flops_per_ns * self.threads as f64))
            .max(bytes as f64 / target.bytes_per_ns);
        let least_us = self.ceilings.nanoseconds(flops, bytes) / 1e3;
        ExplanationRow {
            kernel,
            info: info.cloned(),
            time_us,
            predicted_us: predicted_ns / 1e3,
            roofline: least_us / time_us.max(1e-3),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {} thread(s)", self.target, self.threads)?;
        writeln!(
            f,
            "   time us      %  predicted     MFLOP       kB  % of roofline  kernel: model nodes"
        )?;
        for row in &self.rows {
            let info = row.info.as_ref();
            let (flops, bytes) = info.map_or((0, 0), |info| (info.flops, info.bytes));
            writeln!(
                f,
                "{:10.2} {:6.1} {:10.2} {:9.3} {:8.1} {:14.1}  {}: {}",
                row.time_us,
                100.0 * row.time_us / self.total_us,
                row.predicted_us,
                flops as f64 / 1e6,
                bytes as f64 / 1e3,
                100.0 * row.roofline,
                row.kernel,
                info.map(|info| info.nodes.join(", ")).unwrap_or_default(),
            )?;
            let Some(info) = info else { continue };
            let remarks: [(_, &[String]); 3] = [
                ("fused", &info.fused),
                ("not fused", &info.not_fused),
                ("schedule", &info.scheduled),
            ];
            for (what, remarks) in remarks {
                remarks.iter().try_for_each(|it| writeln!(f, "{:65}  {what}: {it}", ""))?;
            }
        }
        writeln!(
            f,
            "roofline: {:.1} GFLOP/s of f32 and {:.1} GB/s, measured",
            self.ceilings.flops_per_ns, self.ceilings.bytes_per_ns,
        )?;
        if !self.formats.is_empty() {
            writeln!(f, "formats")?;
        }
        for remark in &self.formats {
            writeln!(f, "  {remark}")?;
        }
        writeln!(
            f,
            "arena {} bytes, {:.3} of the largest live set",
            self.arena_bytes,
            self.arena_bytes as f64 / self.largest_live_set.max(1) as f64,
        )?;
        writeln!(
            f,
            "rows {:.1} us of {:.1} us ({:.1} %)",
            self.explained_us(),
            self.total_us,
            100.0 * self.explained_us() / self.total_us,
        )
    }
}
