//! The results of a seed, a line a model, in a file that a later run goes on with.
//!
//! A line says that a model is begun before it is: one that is begun and has no result has ended
//! the process, which is a result, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::figures::{Figures, Finding};
use crate::outline::Outline;

/// What became of a model.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// It was measured.
    Measured(Figures),
    /// It was refused, for a reason.
    Refused(String),
    /// It ended the process.
    Stopped,
}

/// What a finding was reduced to.
#[derive(Clone, Debug)]
pub(crate) struct Reduced {
    /// What it shows.
    pub finding: Finding,
    /// The smallest outline that shows it.
    pub outline: Outline,
    /// The outline's figures.
    pub figures: Figures,
}

/// The results so far.
pub(crate) struct Results {
    file: File,
    /// Outcomes by the number of the model.
    pub outcomes: BTreeMap<u64, Outcome>,
    /// Findings whose reduction was begun, and those that were reduced, by the number of the model
    /// and their word.
    pub(crate) begun: BTreeSet<(u64, &'static str)>,
    pub reduced: BTreeMap<(u64, &'static str), Reduced>,
}

impl Results {
    /// Those of a file, or none yet.
    ///
    /// # Errors
    /// A file that cannot be read or written, or holds something else.
    pub(crate) fn open(path: &Path, is_fresh: bool) -> Result<Results, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        if is_fresh && path.exists() {
            std::fs::remove_file(path).map_err(failed)?;
        }
        let text = if path.exists() {
            std::fs::read_to_string(path).map_err(failed)?
        } else {
            String::new()
        };
        let file = File::options().create(true).append(true).open(path).map_err(failed)?;
        let mut results = Results {
            file,
            outcomes: BTreeMap::new(),
            begun: BTreeSet::new(),
            reduced: BTreeMap::new(),
        };
        let mut begun = BTreeSet::new();
        for (number, line) in text.lines().enumerate() {
            // A line that a process did not finish says nothing.
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            let read = results.read(&line, &mut begun);
            read.ok_or_else(|| format!("{}:{}: it is no result", path.display(), number + 1))?;
        }
        for number in begun {
            results.outcomes.entry(number).or_insert(Outcome::Stopped);
        }
        Ok(results)
    }

    fn read(&mut self, line: &Value, begun: &mut BTreeSet<u64>) -> Option<()> {
        let number = line["model"].as_u64()?;
        let of_word = |word| Finding::ALL.into_iter().find(|finding| finding.word() == word);
        if let Some(word) = line["reducing"].as_str() {
            self.begun.insert((number, of_word(word)?.word()));
        } else if let Some(word) = line["reduced"].as_str() {
            let finding = of_word(word)?;
            let outline = Outline::parse(line["outline"].as_str()?).ok()?;
            let figures = Figures::of_json(&line["figures"])?;
            let reduced = Reduced { finding, outline, figures };
            self.reduced.insert((number, finding.word()), reduced);
        } else if let Some(reason) = line["refused"].as_str() {
            self.outcomes.insert(number, Outcome::Refused(reason.to_owned()));
        } else if line["figures"].is_object() {
            let figures = Figures::of_json(&line["figures"])?;
            self.outcomes.insert(number, Outcome::Measured(figures));
        } else {
            begun.insert(number);
        }
        Some(())
    }

    /// Says that a model is begun.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn begin(&mut self, number: u64) -> Result<(), String> {
        self.write(&json!({"model": number}))
    }

    /// Adds what became of a model.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn add(
        &mut self,
        number: u64,
        outline: &Outline,
        outcome: Outcome,
    ) -> Result<(), String> {
        let mut line = json!({"model": number, "outline": outline.to_string()});
        match &outcome {
            Outcome::Measured(figures) => line["figures"] = figures.to_json(),
            Outcome::Refused(reason) => line["refused"] = json!(reason),
            Outcome::Stopped => return Ok(()),
        }
        self.outcomes.insert(number, outcome);
        self.write(&line)
    }

    /// Says that a finding of a model is being reduced: where that ends the process, or the finding
    /// does not show again, it is not tried twice.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn begin_reducing(&mut self, number: u64, finding: Finding) -> Result<(), String> {
        self.begun.insert((number, finding.word()));
        self.write(&json!({"model": number, "reducing": finding.word()}))
    }

    /// Adds what a finding was reduced to.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn add_reduced(&mut self, number: u64, reduced: Reduced) -> Result<(), String> {
        let line = json!({
            "model": number,
            "reduced": reduced.finding.word(),
            "outline": reduced.outline.to_string(),
            "figures": reduced.figures.to_json(),
        });
        self.reduced.insert((number, reduced.finding.word()), reduced);
        self.write(&line)
    }

    fn write(&mut self, line: &Value) -> Result<(), String> {
        writeln!(self.file, "{line}").map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_run_goes_on() {
        let folder = testkit::Folder::new();
        let path = folder.path().join("results.jsonl");
        let outline = Outline::parse("input f32 2\n").expect("an outline");
        let figures =
            Figures { run: 3.0, peers: vec![("p".to_owned(), Ok(2.0))], ..Default::default() };
        let mut results = Results::open(&path, false).expect("opened");
        for number in 0..3 {
            results.begin(number).expect("written");
        }
        results.add(0, &outline, Outcome::Measured(figures.clone())).expect("written");
        results.add(1, &outline, Outcome::Refused("why".to_owned())).expect("written");
        let reduced = Reduced { finding: Finding::Behind, outline, figures };
        results.add_reduced(0, reduced).expect("written");
        let results = Results::open(&path, false).expect("opened");
        let of = |number| results.outcomes.get(&number);
        let measured =
            matches!(of(0), Some(Outcome::Measured(it)) if it.ratio() == Some((1.5, "p")));
        assert!(measured, "{:?}", of(0));
        assert!(matches!(of(1), Some(Outcome::Refused(reason)) if reason == "why"));
        assert!(matches!(of(2), Some(Outcome::Stopped)), "it was begun, and has no result");
        assert!(of(3).is_none());
        assert_eq!(results.reduced[&(0, "behind")].outline.to_string(), "input f32 2\n");
        assert!(Results::open(&path, true).expect("opened").outcomes.is_empty());
    }
}
