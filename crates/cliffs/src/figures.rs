//! What was measured of a model, and what of it is a finding.

use serde_json::{Value, json};

/// A kernel takes so long, in microseconds, or it says nothing.
pub(crate) const LEAST_KERNEL: f64 = 5.0;
/// Runs below this, in microseconds, are all alike: what is taken off a peer's call is as long.
pub(crate) const LEAST_RUN: f64 = 2.0;
/// How many times the better peer's time a model takes that is a finding, and one that is worse.
pub(crate) const BEHIND: f64 = 1.5;
pub(crate) const FAR_BEHIND: f64 = 5.0;
/// How many times its prediction a kernel takes that is a finding, and one that is as predicted.
pub(crate) const SLOW: f64 = 4.0;
pub(crate) const AS_PREDICTED: f64 = 1.5;

/// Why a peer's time says nothing of a model in f64 or of integers of 64 bits.
pub(crate) const IN_FEWER_BITS: &str = "computes 64 bits in fewer";

/// A model's figures. Times are in microseconds, the least of several repeats.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// A run.
    pub run: f64,
    /// To compile it, in milliseconds.
    pub compile_ms: f64,
    /// A run of each peer, its call overhead taken off, or why there is none.
    pub peers: Vec<(String, Result<f64, String>)>,
    /// Its kernels in the order of the program.
    pub kernels: Vec<KernelFigures>,
    /// How far its output is from that of the peer it is nearest to, in the norm.
    pub deviation: Option<f64>,
    /// How, if that is too far.
    pub wrong: Option<String>,
    /// What the compiler broke of its own, in which case nothing else is known.
    pub broken: Option<String>,
}

/// A kernel's figures.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelFigures {
    /// Its name.
    pub name: String,
    /// The time of one turn of it, in microseconds.
    pub time: f64,
    /// The time that the cost model expects of one.
    pub predicted: f64,
    /// The time that the measured ceilings leave over its time.
    pub roofline: f64,
}

impl KernelFigures {
    /// Whether it takes long enough to say something.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.time >= LEAST_KERNEL
    }

    /// Its time over its prediction.
    #[must_use]
    pub fn excess(&self) -> f64 {
        self.time / self.predicted.max(1e-3)
    }
}

/// What may be wrong with a model's speed, or with the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// A peer is faster.
    Behind,
    /// A kernel takes longer than predicted.
    Slow,
    /// The peers compute something else.
    Wrong,
    /// The compiler breaks one of its own invariants.
    Broken,
}

impl Finding {
    /// All of them.
    pub const ALL: [Finding; 4] = [Finding::Broken, Finding::Wrong, Finding::Behind, Finding::Slow];

    /// Its word in names of files.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Finding::Behind => "behind",
            Finding::Slow => "slow",
            Finding::Wrong => "wrong",
            Finding::Broken => "broken",
        }
    }

    /// How much of it a model shows, and from where on it is one: a ratio.
    #[must_use]
    pub fn of(self, figures: &Figures) -> (f64, f64) {
        match self {
            Finding::Behind => (figures.ratio().map_or(0.0, |(ratio, _)| ratio), BEHIND),
            Finding::Slow => (figures.slowest().map_or(0.0, KernelFigures::excess), SLOW),
            Finding::Wrong => (f64::from(u8::from(figures.wrong.is_some())), 0.5),
            Finding::Broken => (f64::from(u8::from(figures.broken.is_some())), 0.5),
        }
    }

    /// Whether a model shows it.
    #[must_use]
    pub fn is_in(self, figures: &Figures) -> bool {
        let (found, bound) = self.of(figures);
        found > bound
    }
}

impl Figures {
    /// Our time over the better peer's, and its name.
    #[must_use]
    pub fn ratio(&self) -> Option<(f64, &str)> {
        let times = self.peers.iter().filter_map(|(name, time)| Some((*time.as_ref().ok()?, name)));
        let (best, name) = times.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((self.run.max(LEAST_RUN) / best.max(LEAST_RUN), name))
    }

    /// The kernel that exceeds its prediction most, of those that count.
    #[must_use]
    pub fn slowest(&self) -> Option<&KernelFigures> {
        let counted = self.kernels.iter().filter(|kernel| kernel.counts());
        counted.max_by(|a, b| a.excess().total_cmp(&b.excess()))
    }

    /// One line. Why a peer has no time is in the results alone: it names files of this machine.
    #[must_use]
    pub fn line(&self) -> String {
        if let Some(how) = &self.broken {
            return format!("BROKEN: {how}");
        }
        let peer = |(name, time): &(String, Result<f64, String>)| match time {
            Ok(time) => format!("{name} {time:.1} us"),
            Err(_) => format!("{name} none"),
        };
        let peers: Vec<String> = self.peers.iter().map(peer).collect();
        let mut line = format!("{:.1} us, {}", self.run, peers.join(", "));
        if let Some(kernel) = self.slowest() {
            let KernelFigures { name, time, predicted, roofline } = kernel;
            line += &format!(
                "; {name} {time:.1} us of {predicted:.1} predicted, {:.0} % of the roofline",
                100.0 * roofline,
            );
        }
        if let Some(how) = &self.wrong {
            line += &format!("; WRONG: {how}");
        }
        line
    }

    /// As JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let peer = |(name, time): &(String, Result<f64, String>)| match time {
            Ok(time) => json!([name, time]),
            Err(reason) => json!([name, reason]),
        };
        let kernel = |it: &KernelFigures| json!([it.name, it.time, it.predicted, it.roofline]);
        json!({
            "run": self.run,
            "compile_ms": self.compile_ms,
            "peers": self.peers.iter().map(peer).collect::<Vec<_>>(),
            "kernels": self.kernels.iter().map(kernel).collect::<Vec<_>>(),
            "deviation": self.deviation,
            "wrong": self.wrong,
            "broken": self.broken,
        })
    }

    /// What [`Figures::to_json`] gave.
    #[must_use]
    pub fn of_json(value: &Value) -> Option<Figures> {
        let peer = |value: &Value| {
            let time = match &value[1] {
                Value::String(reason) => Err(reason.clone()),
                time => Ok(time.as_f64()?),
            };
            Some((value[0].as_str()?.to_owned(), time))
        };
        let kernel = |value: &Value| {
            Some(KernelFigures {
                name: value[0].as_str()?.to_owned(),
                time: value[1].as_f64()?,
                predicted: value[2].as_f64()?,
                roofline: value[3].as_f64()?,
            })
        };
        Some(Figures {
            run: value["run"].as_f64()?,
            compile_ms: value["compile_ms"].as_f64()?,
            peers: value["peers"].as_array()?.iter().map(peer).collect::<Option<_>>()?,
            kernels: value["kernels"].as_array()?.iter().map(kernel).collect::<Option<_>>()?,
            deviation: value["deviation"].as_f64(),
            wrong: value["wrong"].as_str().map(str::to_owned),
            broken: value["broken"].as_str().map(str::to_owned),
        })
    }
}
