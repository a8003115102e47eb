//! A run: what is kept is measured again, models of a seed are measured, findings are reduced and
//! kept, and all of it is reported.

use std::path::PathBuf;

use crate::draw;
use crate::figures::{Figures, Finding, LEAST_KERNEL};
use crate::kept;
use crate::measure::Measurer;
use crate::outline::Outline;
use crate::reduce::reduce;
use crate::report::report;
use crate::results::{Outcome, Reduced, Results};

/// Of a finding's ratio, what a smaller model must still show to be taken for the same.
const SAME: f64 = 0.7;
/// How many times the least time that counts a kernel takes in what is kept: it is to count in the
/// next run, too.
const MARGIN: f64 = 2.0;
/// Models between two lines on how far it is.
const BETWEEN_LINES: u64 = 25;

/// What a run is to do.
#[derive(Clone, Debug)]
pub struct Request {
    /// The seed of the models.
    pub seed: u64,
    /// How many there are.
    pub count: u64,
    /// Whether results so far are forgotten.
    pub is_fresh: bool,
    /// How many findings are reduced at most, the largest first.
    pub reduced: usize,
    /// Tries to reduce one.
    pub tries: usize,
    /// Where results are.
    pub results: PathBuf,
    /// Where findings are kept.
    pub kept: PathBuf,
    /// Where files lie while models are measured.
    pub folder: PathBuf,
    /// The Python of the peers.
    pub python: PathBuf,
}

/// Does it, and prints.
///
/// # Errors
/// Files that cannot be read or written, peers that stop.
pub fn run(request: &Request) -> Result<(), String> {
    let mut measurer = Measurer::new(&request.python, &request.folder)?;
    for name in ["onnxruntime", "openvino"] {
        match measurer.peers.versions.iter().find(|(found, _)| found == name) {
            Some((_, version)) => {
                println!("{name} {version}: {:.2} us a call, taken off", measurer.overheads[name]);
            }
            None => println!("{name}: SKIPPED: `{}` has no such package", request.python.display()),
        }
    }
    let mut results = Results::open(&request.results, request.is_fresh)?;
    let still = measure_kept(&mut measurer, request)?;
    measure_models(&mut measurer, &mut results, request)?;
    reduce_findings(&mut measurer, &mut results, request)?;
    println!("\nseed {}, {}", request.seed, machine());
    if let Some(ceilings) = measurer.ceilings() {
        println!(
            "ceilings of compiled code, one thread: {:.1} GFLOP/s of f32, {:.1} GB/s",
            ceilings.flops_per_ns, ceilings.bytes_per_ns
        );
    }
    println!("{still}\n{}", report(&results, request.seed));
    Ok(())
}

/// Measures what is kept again; a line on it.
fn measure_kept(measurer: &mut Measurer, request: &Request) -> Result<String, String> {
    let all = kept::read(&request.kept)?;
    let mut still = 0;
    for kept in &all {
        let name = kept.path.file_name().unwrap_or_default().to_string_lossy();
        let line = match measurer.measure(&kept.outline) {
            Ok(figures) => {
                let shows = kept.finding.is_in(&figures);
                still += usize::from(shows);
                let state = if shows { "still" } else { "mended" };
                format!("{state} {:.2}, {}", kept.finding.of(&figures).0, figures.line())
            }
            Err(reason) => format!("refused: {reason}"),
        };
        println!("kept {name}: {line}");
    }
    Ok(format!("{} findings are kept, {still} of them still show", all.len()))
}

fn measure_models(
    measurer: &mut Measurer,
    results: &mut Results,
    request: &Request,
) -> Result<(), String> {
    for number in 0..request.count {
        if results.outcomes.contains_key(&number) {
            continue;
        }
        results.begin(number)?;
        let outline = draw::outline(request.seed, number);
        let outcome = match measurer.measure(&outline) {
            Ok(figures) => Outcome::Measured(figures),
            Err(reason) => Outcome::Refused(reason),
        };
        results.add(number, &outline, outcome)?;
        if (number + 1) % BETWEEN_LINES == 0 {
            eprintln!("{} of {} models, load {}", number + 1, request.count, load());
        }
    }
    Ok(())
}

fn reduce_findings(
    measurer: &mut Measurer,
    results: &mut Results,
    request: &Request,
) -> Result<(), String> {
    let found = in_turn(results, request.reduced);
    let count = found.len();
    for (place, (number, finding)) in found.into_iter().enumerate() {
        if results.begun.contains(&(number, finding.word())) {
            continue;
        }
        results.begin_reducing(number, finding)?;
        let outline = draw::outline(request.seed, number);
        let Some(reduced) = reduce_one(measurer, &outline, finding, request.tries) else {
            eprintln!("{} of model {number} does not show again", finding.word());
            continue;
        };
        let about = format!("model {number} of seed {}; {}", request.seed, machine());
        let path = kept::keep(&request.kept, &reduced, &about)?;
        let where_to = path.map_or_else(
            || "another of its kind is kept".to_owned(),
            |path| path.display().to_string(),
        );
        eprintln!("reduced {} of {count}: {}: {where_to}", place + 1, reduced.outline.kind());
        results.add_reduced(number, reduced)?;
    }
    Ok(())
}

/// Findings of all models, so many: the largest of each sort, then the second, and so on.
fn in_turn(results: &Results, most: usize) -> Vec<(u64, Finding)> {
    let mut found = Vec::new();
    for finding in Finding::ALL {
        let shown = results.outcomes.iter().filter_map(|(&number, outcome)| match outcome {
            Outcome::Measured(figures) if finding.is_in(figures) => {
                Some((finding.of(figures).0, number))
            }
            _ => None,
        });
        let mut shown: Vec<(f64, u64)> = shown.collect();
        shown.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.extend(shown.into_iter().enumerate().map(|(place, it)| (place, it.1, finding)));
    }
    found.sort_by_key(|it| it.0);
    found.into_iter().take(most).map(|(_, number, finding)| (number, finding)).collect()
}

/// The smallest outline that shows a finding; none if it does not show again.
fn reduce_one(
    measurer: &mut Measurer,
    outline: &Outline,
    finding: Finding,
    tries: usize,
) -> Option<Reduced> {
    let first = measurer.measure(outline).ok().filter(|figures| finding.is_in(figures))?;
    let least = (SAME * finding.of(&first).0).max(finding.of(&first).1);
    let time = |figures: &Figures| figures.slowest().map_or(0.0, |kernel| kernel.time);
    let least_time = match finding {
        Finding::Slow => time(&first).min(MARGIN * LEAST_KERNEL),
        _ => 0.0,
    };
    let mut best: (Outline, Figures) = (outline.clone(), first);
    reduce(outline, tries, &mut |candidate| {
        let Ok(figures) = measurer.measure(candidate) else { return false };
        let shows = finding.of(&figures).0 > least && time(&figures) >= least_time;
        if shows {
            best = (candidate.clone(), figures);
        }
        shows
    });
    let (outline, figures) = best;
    Some(Reduced { finding, outline, figures })
}

/// The processor, and how busy the machine is.
fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    format!("{}, load average {}", name.map_or("unknown", |(_, name)| name), load())
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}
