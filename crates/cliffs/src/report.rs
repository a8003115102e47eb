//! The figures of all models of a seed together, as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::draw;
use crate::figures::{
    AS_PREDICTED, BEHIND, FAR_BEHIND, Figures, Finding, IN_FEWER_BITS, KernelFigures, LEAST_KERNEL,
    LEAST_RUN, SLOW,
};
use crate::results::{Outcome, Results};

/// So many of the worst are listed.
const WORST: usize = 20;

/// The report on the models of a seed.
#[must_use]
pub(crate) fn report(results: &Results, seed: u64) -> String {
    let mut text = String::new();
    let figures: Vec<(u64, &Figures)> = results.outcomes.iter().filter_map(measured).collect();
    counts(&mut text, results, &figures, seed);
    peers(&mut text, &figures);
    kernels(&mut text, &figures);
    worst(&mut text, &figures, seed);
    reduced(&mut text, results);
    text
}

fn measured<'a>((number, outcome): (&u64, &'a Outcome)) -> Option<(u64, &'a Figures)> {
    match outcome {
        Outcome::Measured(figures) => Some((*number, figures)),
        _ => None,
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn counts(text: &mut String, results: &Results, figures: &[(u64, &Figures)], seed: u64) {
    let is_stopped = |it: &Outcome| matches!(it, Outcome::Stopped);
    let stopped = results.outcomes.values().filter(|it| is_stopped(it)).count();
    let count = |holds: fn(&Figures) -> bool| figures.iter().filter(|(_, it)| holds(it)).count();
    let broken = count(|it| it.broken.is_some());
    let refused = results.outcomes.len() - figures.len() - stopped;
    _ = writeln!(
        text,
        "{} models: {} measured, {refused} refused, {broken} broke the compiler, {stopped} stopped \
         the process\n  {} outputs compared, {} differ from those of every peer",
        results.outcomes.len(),
        figures.len() - broken,
        count(|it| it.deviation.is_some()),
        count(|it| it.wrong.is_some()),
    );
    for (number, _) in results.outcomes.iter().filter(|(_, outcome)| is_stopped(outcome)) {
        _ = writeln!(text, "  stopped: model {number} of seed {seed}");
    }
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for outcome in results.outcomes.values() {
        if let Outcome::Refused(reason) = outcome {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    for (reason, count) in reasons {
        _ = writeln!(text, "  refused {count}: {reason}");
    }
}

fn peers(text: &mut String, figures: &[(u64, &Figures)]) {
    let mut ratios: Vec<f64> = figures.iter().filter_map(|(_, it)| Some(it.ratio()?.0)).collect();
    ratios.sort_by(f64::total_cmp);
    if ratios.is_empty() {
        _ = writeln!(text, "peers: SKIPPED: no model ran in another engine");
        return;
    }
    let mean = (ratios.iter().map(|it| it.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let above = |bound: f64| ratios.iter().filter(|&&it| it > bound).count();
    _ = writeln!(
        text,
        "beside the better peer, {} models (times below {LEAST_RUN} us are taken as that):\n  \
         geometric mean {:.3} in our favour; median {:.3} of its time\n  \
         above {FAR_BEHIND}x: {} ({:.2} %); above {BEHIND}x: {} ({:.2} %); above 1x: {} ({:.2} %); \
         worst {:.2}x",
        ratios.len(),
        1.0 / mean,
        ratios[ratios.len() / 2],
        above(FAR_BEHIND),
        percent(above(FAR_BEHIND), ratios.len()),
        above(BEHIND),
        percent(above(BEHIND), ratios.len()),
        above(1.0),
        percent(above(1.0), ratios.len()),
        ratios.last().copied().unwrap_or(0.0),
    );
    let mut names: BTreeMap<&str, OfPeer> = BTreeMap::new();
    for (_, it) in figures {
        for (name, time) in &it.peers {
            let entry = names.entry(name).or_default();
            match time {
                Ok(time) => {
                    entry.models += 1;
                    entry.sum += (time.max(LEAST_RUN) / it.run.max(LEAST_RUN)).ln();
                }
                Err(reason) if reason == IN_FEWER_BITS => entry.narrow += 1,
                Err(_) => entry.refused += 1,
            }
        }
    }
    for (name, OfPeer { models, sum, refused, narrow }) in names {
        let mean = (sum / models.max(1) as f64).exp();
        _ = writeln!(
            text,
            "  {name}: {mean:.3} of {models} models; it refused {refused}, {IN_FEWER_BITS} {narrow}"
        );
    }
}

/// A peer over all models.
#[derive(Default)]
struct OfPeer {
    /// Models that it runs.
    models: usize,
    /// Of the logarithms of its times over ours.
    sum: f64,
    /// Models that it does not run.
    refused: usize,
    /// Models of 64 bits that it runs in fewer.
    narrow: usize,
}

fn kernels(text: &mut String, figures: &[(u64, &Figures)]) {
    let all = figures.iter().flat_map(|(_, it)| &it.kernels);
    let counted: Vec<&KernelFigures> = all.filter(|kernel| kernel.counts()).collect();
    let count = |holds: &dyn Fn(&KernelFigures) -> bool| {
        let count = counted.iter().filter(|kernel| holds(kernel)).count();
        format!("{count} ({:.2} %)", percent(count, counted.len()))
    };
    let mut rooflines: Vec<f64> = counted.iter().map(|kernel| kernel.roofline).collect();
    rooflines.sort_by(f64::total_cmp);
    _ = writeln!(
        text,
        "{} kernels of at least {LEAST_KERNEL} us:\n  \
         above {SLOW}x of their prediction: {}; at most {AS_PREDICTED}x: {}; \
         within {AS_PREDICTED}x either way: {}\n  median {:.1} % of the roofline",
        counted.len(),
        count(&|kernel| kernel.excess() > SLOW),
        count(&|kernel| kernel.excess() <= AS_PREDICTED),
        count(&|kernel| (1.0 / AS_PREDICTED..=AS_PREDICTED).contains(&kernel.excess())),
        100.0 * rooflines.get(rooflines.len() / 2).copied().unwrap_or(0.0),
    );
}

fn worst(text: &mut String, figures: &[(u64, &Figures)], seed: u64) {
    for finding in Finding::ALL {
        let mut found: Vec<&(u64, &Figures)> =
            figures.iter().filter(|(_, it)| finding.is_in(it)).collect();
        found.sort_by(|a, b| finding.of(b.1).0.total_cmp(&finding.of(a.1).0));
        _ = writeln!(text, "{}: {} models", finding.word(), found.len());
        for (number, it) in found.into_iter().take(WORST) {
            let outline = draw::outline(seed, *number);
            _ = writeln!(
                text,
                "  {:6.2}  model {number} of seed {seed}, {}: {}",
                finding.of(it).0,
                outline.kind(),
                it.line(),
            );
        }
    }
}

/// What findings were reduced to, those of one kind together.
fn reduced(text: &mut String, results: &Results) {
    let mut kinds: BTreeMap<(&str, String), Vec<_>> = BTreeMap::new();
    for ((_, word), reduced) in &results.reduced {
        kinds.entry((word, reduced.outline.kind())).or_default().push(reduced);
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, all)| std::cmp::Reverse(all.len()));
    _ = writeln!(text, "reduced: {} findings of {} kinds", results.reduced.len(), kinds.len());
    for ((word, kind), all) in kinds {
        let size = |it: &&&crate::results::Reduced| it.finding.of(&it.figures).0;
        let Some(most) = all.iter().max_by(|a, b| size(a).total_cmp(&size(b))) else { continue };
        _ = writeln!(text, "  {} times {word}, {kind}; most {:.2}:", all.len(), size(&most));
        _ = writeln!(text, "    {}", most.figures.line());
        for line in most.outline.to_string().lines() {
            _ = writeln!(text, "    {line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outline::Outline;

    #[test]
    fn shares_and_means_are_those_of_the_models() {
        let folder = testkit::Folder::new();
        let mut results = Results::open(&folder.path().join("results"), true).expect("opened");
        let outline = Outline::parse("input f32 2\n").expect("an outline");
        let mut add = |number, run, best| {
            let peers = vec![("a".to_owned(), Ok(best)), ("b".to_owned(), Err("no".to_owned()))];
            let kernel = |time, predicted| {
                let name = "main_map_0".to_owned();
                KernelFigures { name, time, predicted, roofline: 0.5 }
            };
            let kernels = vec![kernel(10.0, 8.0), kernel(50.0, 10.0), kernel(1.0, 0.1)];
            let figures = Figures { run, peers, kernels, ..Figures::default() };
            results.add(number, &outline, Outcome::Measured(figures)).expect("written");
        };
        add(0, 10.0, 40.0);
        add(1, 10.0, 20.0);
        add(2, 10.0, 5.0);
        add(3, 0.1, 1.9);
        results.add(4, &outline, Outcome::Refused("why".to_owned())).expect("written");
        let text = report(&results, 1);
        for line in [
            "5 models: 4 measured, 1 refused, 0 broke the compiler, 0 stopped",
            "beside the better peer, 4 models",
            // The fourth root of 4 x 2 x 1/2 x 1.
            "geometric mean 1.414 in our favour",
            "above 5x: 0 (0.00 %); above 1.5x: 1 (25.00 %)",
            "8 kernels of at least 5 us",
            "above 4x of their prediction: 4 (50.00 %); at most 1.5x: 4 (50.00 %)",
            "behind: 1 models",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
