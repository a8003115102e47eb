//! Where the time goes: a row a kernel run.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Instant;

use backend::Target;
use base::{InOrder, KernelId, Result};
use runtime::{Profile, ProfileRow};
use tensor::Value;
use tilewright::Executable;
use tilewright::compiled::{KernelInfo, SegmentRun, Variant, WholeRun, run_of};

use crate::ceilings::Ceilings;

/// Runs that are profiled, after two that warm caches; the faster half of them counts.
const PROFILED_RUNS: u32 = 20;

/// Kernels that a summary names.
const LONGEST: usize = 10;

/// How many times its prediction a kernel takes that is marked.
const SLOW: f64 = 3.0;

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
    /// Bytes of scratch memory among them.
    pub scratch_bytes: u64,
    /// Those of the arena over the dimensions of the model, where code is for many extents.
    pub arena_formula: Option<String>,
    /// Where code for many extents was asked for, why some is for those at hand alone.
    pub why_alone: Vec<String>,
    /// The most that is alive at one step, with each worker's scratch memory.
    pub largest_live_set: u64,
}

/// One step of the program.
#[derive(Clone, Debug)]
pub struct ExplanationRow {
    /// The kernel's name, or the kind of step.
    pub kernel: String,
    /// The segment of the plan, counted as a run first meets them.
    pub segment: usize,
    /// The step of its program, counted as `program::walk` counts, from 0.
    pub step: usize,
    /// What it computes, and how it was made; none of a step that computes no node of the model.
    pub info: Option<KernelInfo>,
    /// How often a run of the model runs it: once, but for what stands in a loop.
    pub turns: u64,
    /// Microseconds of all its turns in a run of the model, on average.
    pub time_us: f64,
    /// Microseconds that the cost model expects of them, on the processor of the target row.
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
    explain_beneath(executable, inputs, Ceilings::of(executable)?, PROFILED_RUNS)
}

/// As [`explain`], beneath ceilings that were measured before, with times of so many runs, of which
/// the faster half counts: who explains many executables measures ceilings once, and who compares
/// many explanations of one run each has more than their mean.
///
/// # Errors
/// Those of running it.
pub fn explain_beneath(
    executable: &Executable,
    inputs: &[Value],
    ceilings: Ceilings,
    runs: u32,
) -> Result<Explanation> {
    // Twice: what is measured has been compiled, and has its memory.
    executable.run_values(inputs)?;
    executable.run_values(inputs)?;
    let (target, threads) = (executable.target(), executable.threads());
    let mut explanation = Explanation {
        target: target.name.clone(),
        threads,
        rows: Vec::new(),
        total_us: 0.0,
        ceilings,
        formats: Vec::new(),
        arena_bytes: 0,
        scratch_bytes: 0,
        arena_formula: None,
        why_alone: Vec::new(),
        largest_live_set: 0,
    };
    explanation.add_whole(executable, inputs, runs.max(1))?;
    Ok(explanation)
}

impl Explanation {
    /// Microseconds that the rows account for.
    #[must_use]
    pub fn explained_us(&self) -> f64 {
        self.rows.iter().map(|row| row.time_us).sum()
    }

    /// Profiles the segments of what is compiled as a whole.
    fn add_whole(&mut self, executable: &Executable, inputs: &[Value], runs: u32) -> Result<()> {
        let (variant, met) = executable.met(inputs)?;
        // As bench does, so that the shares of the roofline are those of a run among many.
        executable.settle();
        let front = variant.front();
        let locations = &front.module.functions[front.plan].locations;
        let remark = |remark: &base::Remark| {
            format!("{}: {}", locations.describe(remark.location), remark.message)
        };
        for text in front.remarks.iter().map(remark) {
            if !self.formats.contains(&text) {
                self.formats.push(text);
            }
        }
        for (number, segment) in met.iter().enumerate() {
            let specialisation = &segment.specialisation;
            let program = specialisation.executable();
            let scratch = program.scratch_bytes() as u64 * self.threads as u64;
            if program.arena_bytes() as u64 + scratch >= self.arena_bytes {
                self.arena_bytes = program.arena_bytes() as u64 + scratch;
                self.scratch_bytes = scratch;
                self.arena_formula = specialisation.arena_formula();
                self.largest_live_set = specialisation.largest_live_set() + scratch;
            }
            self.why_alone.extend(specialisation.why_alone().map(str::to_owned));
            self.add_segment(executable, &variant, (number, segment), runs)?;
        }
        Ok(())
    }

    /// Profiles a segment on its operands and adds its rows.
    fn add_segment(
        &mut self,
        executable: &Executable,
        variant: &Variant,
        (number, segment): (usize, &SegmentRun),
        runs: u32,
    ) -> Result<()> {
        let specialisation = &segment.specialisation;
        let profiled = profile(variant, segment, self.threads, runs)?;
        let (runs, rows) = (f64::from(profiled.runs), &profiled.rows);
        self.total_us += profiled.nanoseconds as f64 / runs / 1e3;
        let kernels = specialisation.infos(executable.target());
        let infos = infos_of_rows(rows, &kernels);
        let turns_of = |row: &ProfileRow| row.runs / u64::from(profiled.runs);
        let known =
            rows.iter().zip(&infos).filter_map(|(row, info)| Some(((*info)?, turns_of(row))));
        let program = specialisation.executable();
        let written = program.arena_bytes() + program.output_bytes().iter().sum::<usize>();
        let run = run_of(known, written as u64, executable.target(), self.threads);
        for (row, info) in rows.iter().zip(infos) {
            let time_us = row.nanoseconds as f64 / runs / 1e3;
            let name = |id: KernelId| specialisation.module().kernels[id].name.clone();
            let kernel = row.kernel.map_or_else(|| "copy".to_owned(), name);
            let turns = turns_of(row);
            let measured = Measured { place: (number, row.step), turns, time_us, run };
            self.rows.push(self.row(executable.target(), kernel, info, measured));
        }
        Ok(())
    }

    fn row(
        &self,
        target: &Target,
        kernel: String,
        info: Option<&KernelInfo>,
        Measured { place, turns, time_us, run }: Measured,
    ) -> ExplanationRow {
        let (flops, bytes) = info.map_or((0, 0), |info| (turns * info.flops, turns * info.bytes));
        let cost = info.map(|info| info.cost_in(&run, target));
        let one_turn = cost.map_or(0.0, |cost| cost.nanoseconds(target, self.threads));
        let predicted_ns = turns as f64 * one_turn;
        // Of f32, for which the ceiling is.
        let flops = flops as f64 / info.map_or(1.0, |info| info.at_once(target));
        let least_us = self.ceilings.nanoseconds(flops, bytes as f64) / 1e3;
        ExplanationRow {
            kernel,
            segment: place.0,
            step: place.1,
            info: info.cloned(),
            turns,
            time_us,
            predicted_us: predicted_ns / 1e3,
            roofline: least_us / time_us.max(1e-3),
        }
    }
}

/// Runs of a segment, added up.
struct Profiled {
    runs: u32,
    /// What they took, measured around them.
    nanoseconds: u64,
    rows: Vec<ProfileRow>,
}

/// The faster half of so many runs of a segment on its operands: what a machine does besides takes
/// its time from the others, all of it from the kernel that is at hand then.
fn profile(variant: &Variant, segment: &SegmentRun, threads: usize, runs: u32) -> Result<Profiled> {
    let SegmentRun { specialisation, operands, .. } = segment;
    let mut outputs = specialisation.new_outputs()?;
    let begin = Instant::now();
    let clock = move || begin.elapsed().as_nanos() as u64;
    let mut measured: Vec<(u64, Vec<ProfileRow>)> = Vec::new();
    for _ in 0..runs {
        let mut profile = Profile::new(specialisation.executable(), &clock);
        let nanoseconds = specialisation.states.with(threads, |state| {
            let call = variant.call(specialisation, state, operands, &mut outputs)?;
            let start = clock();
            call.run_profiled(&mut profile)?;
            Ok(clock() - start)
        })?;
        measured.push((nanoseconds, profile.rows().to_vec()));
    }
    measured.put_in_order_by_key(|(nanoseconds, _)| *nanoseconds);
    measured.truncate(measured.len().div_ceil(2));
    let mut sum = Profiled { runs: 0, nanoseconds: 0, rows: Vec::new() };
    for (nanoseconds, rows) in measured {
        (sum.runs, sum.nanoseconds) = (sum.runs + 1, sum.nanoseconds + nanoseconds);
        if sum.rows.is_empty() {
            sum.rows = rows;
            continue;
        }
        for (row, other) in sum.rows.iter_mut().zip(rows) {
            row.runs += other.runs;
            row.nanoseconds += other.nanoseconds;
        }
    }
    Ok(sum)
}

/// What is known of the kernel of each row of a profile, of those of a program: the runs of each
/// kernel come in order. A kernel that only counts for a loop has none.
pub(crate) fn infos_of_rows<'a>(
    rows: &[ProfileRow],
    kernels: &'a [KernelInfo],
) -> Vec<Option<&'a KernelInfo>> {
    let mut infos: BTreeMap<KernelId, VecDeque<&KernelInfo>> = BTreeMap::new();
    for info in kernels {
        infos.entry(info.kernel).or_default().push_back(info);
    }
    rows.iter().map(|row| row.kernel.and_then(|id| infos.get_mut(&id)?.pop_front())).collect()
}

impl ExplanationRow {
    /// Whether it takes more than three times what the cost model expects.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        self.info.is_some() && self.time_us > SLOW * self.predicted_us
    }

    /// The kernel, and the nodes of the model that it computes.
    fn title(&self) -> String {
        match self.info.as_ref().map(|info| info.nodes.join(", ")) {
            Some(nodes) if !nodes.is_empty() => format!("{}: {nodes}", self.kernel),
            _ => self.kernel.clone(),
        }
    }
}

/// What was measured of a kernel in a run.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// The segment, and the step of its program.
    place: (usize, usize),
    /// How often it was run.
    turns: u64,
    /// All of them.
    time_us: f64,
    /// The whole run, as it should be.
    run: WholeRun,
}

/// How much of an explanation its text holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListingOptions {
    /// Whether the reasons are: what was fused and what was not, how each kernel was scheduled, and
    /// what format choice did.
    pub reasons: bool,
    /// Only so many rows, the longest.
    pub top: Option<usize>,
}

struct Listing<'a> {
    explanation: &'a Explanation,
    options: ListingOptions,
}

impl Explanation {
    /// The explanation as text: a summary, then a row a kernel, the longest first.
    #[must_use]
    pub fn text(&self, options: ListingOptions) -> String {
        Listing { explanation: self, options }.to_string()
    }

    fn by_time(&self) -> Vec<&ExplanationRow> {
        let mut rows: Vec<&ExplanationRow> = self.rows.iter().collect();
        rows.put_in_order_by(|a, b| b.time_us.total_cmp(&a.time_us));
        rows
    }

    /// Of a hundred, how much of a run some of its rows take.
    fn percent<'a>(&self, rows: impl IntoIterator<Item = &'a ExplanationRow>) -> f64 {
        100.0 * rows.into_iter().map(|row| row.time_us).sum::<f64>() / self.total_us.max(1e-3)
    }

    fn summary(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.by_time();
        let least_us: f64 = rows.iter().map(|row| row.roofline * row.time_us).sum();
        writeln!(
            f,
            "{:.1} us a run on {} with {} thread(s), {:.1} % of it in {} kernel run(s) and copies",
            self.total_us,
            self.target,
            self.threads,
            100.0 * self.explained_us() / self.total_us.max(1e-3),
            rows.len(),
        )?;
        writeln!(
            f,
            "{:.1} % of the roofline: {:.1} GFLOP/s of f32 and {:.1} GB/s, measured",
            100.0 * least_us / self.total_us.max(1e-3),
            self.ceilings.flops_per_ns,
            self.ceilings.bytes_per_ns,
        )?;
        writeln!(
            f,
            "arena {} bytes, {:.3} of the largest live set",
            self.arena_bytes,
            self.arena_bytes as f64 / self.largest_live_set.max(1) as f64,
        )?;
        if let Some(formula) = &self.arena_formula {
            writeln!(f, "of it {formula} of intermediate results")?;
        }
        for reason in &self.why_alone {
            writeln!(f, "code for these extents alone: {reason}")?;
        }
        if rows.len() > LONGEST {
            let longest = rows[..LONGEST].iter().copied();
            writeln!(f, "the {LONGEST} longest, {:.1} % of the time:", self.percent(longest))?;
            for row in &rows[..LONGEST] {
                writeln!(f, "{:6.1} %  {}", self.percent([*row]), row.title())?;
            }
        }
        let suggestions = self.suggestions();
        if !suggestions.is_empty() {
            writeln!(f, "to try:")?;
        }
        suggestions.iter().try_for_each(|text| writeln!(f, "  {text}"))
    }

    /// What may make the model faster.
    pub(crate) fn suggestions(&self) -> Vec<String> {
        let mut found = Vec::new();
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        if self.threads < cores {
            found.push(format!("`--threads {cores}`: this machine has so many cores"));
        }
        let slow = || self.rows.iter().filter(|row| row.is_slow());
        if slow().next().is_some() {
            found.push(format!(
                "`-v` for how kernels were scheduled: {}, marked `!`, take {:.1} % of the time and \
                 more than {SLOW} times what is predicted",
                slow().count(),
                self.percent(slow()),
            ));
        }
        let is_bound_by_memory = |row: &&ExplanationRow| {
            let info = row.info.as_ref();
            info.is_some_and(|info| {
                let of_bytes = info.bytes as f64 / self.ceilings.bytes_per_ns;
                of_bytes > info.flops as f64 / self.ceilings.flops_per_ns && row.roofline > 0.5
            })
        };
        let bound = self.percent(self.rows.iter().filter(is_bound_by_memory));
        if bound > 50.0 {
            found.push(format!(
                "larger batches, or weights of fewer bits: {bound:.1} % of the time is that of \
                 kernels which memory keeps busy"
            ));
        }
        if self.explained_us() < 0.8 * self.total_us {
            found.push(
                "more work a run: much of the time is between kernels, where steps begin"
                    .to_owned(),
            );
        }
        found
    }
}

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Listing { explanation, options } = self;
        explanation.summary(f)?;
        writeln!(
            f,
            "   time us      %  predicted     MFLOP       kB  % of roofline  kernel: model nodes"
        )?;
        let rows = explanation.by_time();
        let shown = options.top.unwrap_or(rows.len()).min(rows.len());
        for row in &rows[..shown] {
            let info = row.info.as_ref();
            let of_turns = |one: u64| row.turns * one;
            let flops = info.map_or(0, |info| of_turns(info.flops));
            let bytes = info.map_or(0, |info| of_turns(info.bytes));
            writeln!(
                f,
                "{:10.2} {:6.1} {:10.2} {:9.3} {:8.1} {:14.1} {}{}",
                row.time_us,
                explanation.percent([*row]),
                row.predicted_us,
                flops as f64 / 1e6,
                bytes as f64 / 1e3,
                100.0 * row.roofline,
                if row.is_slow() { '!' } else { ' ' },
                row.title(),
            )?;
            let Some(info) = info.filter(|_| options.reasons) else { continue };
            let remarks: [(_, &[String]); 3] = [
                ("fused", &info.fused),
                ("not fused", &info.not_fused),
                ("schedule", &info.scheduled),
            ];
            for (what, remarks) in remarks {
                remarks.iter().try_for_each(|it| writeln!(f, "{:65}  {what}: {it}", ""))?;
            }
        }
        if shown < rows.len() {
            writeln!(f, "and {} more", rows.len() - shown)?;
        }
        if options.reasons && !explanation.formats.is_empty() {
            writeln!(f, "formats")?;
            explanation.formats.iter().try_for_each(|remark| writeln!(f, "  {remark}"))?;
        }
        Ok(())
    }
}
