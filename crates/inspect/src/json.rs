//! Reports as JSON: what scripts, the explorer page and other languages read of them.
//!
//! The keys are stable; more may come.

use serde_json::{Value, json};
use tilewright::compiled::KernelInfo;

use crate::comparison::{PeerReport, PeerRow, PeerVerdict};
use crate::explain::{Explanation, ExplanationRow};
use crate::measure::Measurement;

impl Explanation {
    /// The explanation as one object; `rows` in the order of the run.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "target": self.target,
            "threads": self.threads,
            "rows": self.rows.iter().map(ExplanationRow::json).collect::<Vec<Value>>(),
            "total_us": self.total_us,
            "explained_us": self.explained_us(),
            "gflops": self.ceilings.flops_per_ns,
            "gigabytes_per_second": self.ceilings.bytes_per_ns,
            "formats": self.formats,
            "arena_bytes": self.arena_bytes,
            "scratch_bytes": self.scratch_bytes,
            "arena_formula": self.arena_formula,
            "why_alone": self.why_alone,
            "largest_live_set": self.largest_live_set,
            "to_try": self.suggestions(),
        })
    }
}

impl ExplanationRow {
    fn json(&self) -> Value {
        let info = self.info.as_ref();
        let list = |of: fn(&KernelInfo) -> &[String]| info.map(of).unwrap_or_default();
        let count = |of: fn(&KernelInfo) -> u64| info.map_or(0, of);
        json!({
            "kernel": self.kernel,
            "segment": self.segment,
            "step": self.step,
            "turns": self.turns,
            "nodes": list(|it| &it.nodes),
            "fused": list(|it| &it.fused),
            "not_fused": list(|it| &it.not_fused),
            "schedule": list(|it| &it.scheduled),
            "flops": count(|it| it.flops),
            "bytes": count(|it| it.bytes),
            "prior_bytes": count(|it| it.prior_bytes),
            "time_us": self.time_us,
            "predicted_us": self.predicted_us,
            "roofline": self.roofline,
            "slow": self.is_slow(),
        })
    }
}

impl Measurement {
    /// What was measured as one object.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "model": self.model,
            "target": self.target,
            "threads": self.threads,
            "compile_ms": self.compile_ms,
            "first_run_ms": self.first_run_ms,
            "median_ms": self.median_ms,
            "min_ms": self.min_ms,
            "p95_ms": self.p95_ms,
            "runs": self.runs,
            "kernels": self.statistics.kernels,
            "code_bytes": self.statistics.code_bytes,
            "constant_bytes": self.statistics.constant_bytes,
            "arena_bytes": self.statistics.arena_bytes,
            "peak_rss_bytes": self.peak_rss_bytes,
        })
    }
}

impl PeerReport {
    /// The report as one object.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "peer": self.peer,
            "passed": self.passed(),
            "rows": self.rows.iter().map(PeerRow::json).collect::<Vec<Value>>(),
        })
    }
}

impl PeerRow {
    fn json(&self) -> Value {
        let deviation = self.deviation.as_ref().filter(|it| it.type_error.is_none());
        let errors = match &self.verdict {
            PeerVerdict::Rounded(errors) | PeerVerdict::OwnOff(errors) => Some(errors),
            PeerVerdict::BothOff(errors) | PeerVerdict::PeerOff { errors, .. } => Some(errors),
            PeerVerdict::Equal | PeerVerdict::Drawn => None,
            PeerVerdict::Near(_) | PeerVerdict::Unjudged(_) => None,
        };
        json!({
            "node": self.node,
            "name": self.name,
            "type": self.ty,
            "max_abs": deviation.map(|it| it.max_abs),
            "max_rel": deviation.map(|it| it.max_rel),
            "verdict": self.verdict.word(),
            "own_error": errors.map(|it| it.own),
            "peer_error": errors.map(|it| it.peer),
        })
    }
}
