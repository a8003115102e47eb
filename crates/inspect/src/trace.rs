//! Runs as a timeline, in the trace event format that Perfetto and speedscope read.
//!
//! The format: "Trace Event Format", Google, 2016: an array of events; those of phase `X` have a
//! beginning and a duration in microseconds, and lie inside one another by their times.

use std::ops::Range;
use std::time::Instant;

use base::Result;
use serde_json::{Value, json};
use tilewright::Executable;
use tilewright::compiled::KernelInfo;

use crate::explain::infos_of_rows;
use crate::measure::Measurement;

/// Runs that a timeline shows, after two that warm caches.
const TRACED_RUNS: usize = 10;

/// Steps of which a timeline consists at most: beyond that, runs are left out.
const MOST_EVENTS: usize = 400_000;

/// Runs the model with a clock around every step, and gives each of them as an event, behind the
/// compile and the first run that were measured.
///
/// # Errors
/// Those of running it.
pub fn trace(
    executable: &Executable,
    inputs: &[tensor::Value],
    measured: &Measurement,
) -> Result<Value> {
    executable.run_values(inputs)?;
    executable.run_values(inputs)?;
    executable.settle();
    let mut events = heads(measured);
    let (variant, met) = executable.met(inputs)?;
    let begin = Instant::now();
    let clock = move || begin.elapsed().as_nanos() as u64;
    // On the timeline runs come behind what was measured before.
    let offset_us = 1e3 * (measured.compile_ms + measured.first_run_ms);
    let at = |nanoseconds: u64| offset_us + nanoseconds as f64 / 1e3;
    for run in 0..TRACED_RUNS {
        let run_begin = clock();
        for (number, segment) in met.iter().enumerate() {
            let specialisation = &segment.specialisation;
            let mut outputs = specialisation.new_outputs()?;
            let profile = runtime::Profile::new(specialisation.executable(), &clock);
            let mut profile = profile.with_events();
            let segment_begin = clock();
            specialisation.states.with(executable.threads(), |state| {
                let operands = &segment.operands;
                let call = variant.call(specialisation, state, operands, &mut outputs)?;
                call.run_profiled(&mut profile)
            })?;
            if met.len() > 1 {
                let times = at(segment_begin)..at(clock());
                events.push(event(&format!("segment {number}"), "segment", times, json!({})));
            }
            let kernels = specialisation.infos(executable.target());
            let infos = infos_of_rows(profile.rows(), &kernels);
            let steps = profile.events().iter();
            events.extend(steps.map(|it| step(infos[it.row], at(it.begin)..at(it.end))));
        }
        events.push(event(&format!("run {run}"), "run", at(run_begin)..at(clock()), json!({})));
        if events.len() / (run + 1) * (run + 2) > MOST_EVENTS {
            break;
        }
    }
    Ok(json!({ "displayTimeUnit": "ns", "traceEvents": events }))
}

/// A step of a program: a run of a kernel of which this is known, or a copy.
fn step(info: Option<&KernelInfo>, times: Range<f64>) -> Value {
    match info {
        Some(KernelInfo { name, nodes, flops, bytes, .. }) => {
            let what = json!({ "nodes": nodes, "flops": flops, "bytes": bytes });
            event(name, "kernel", times, what)
        }
        None => event("copy", "kernel", times, json!({})),
    }
}

/// What names the rows of a timeline, and what comes before the runs.
fn heads(measured: &Measurement) -> Vec<Value> {
    let name = |what: &str, name: &str| {
        let name = json!({ "name": name });
        json!({ "ph": "M", "name": what, "pid": 1, "tid": 1, "args": name })
    };
    let (compile, first) = (1e3 * measured.compile_ms, 1e3 * measured.first_run_ms);
    let threads = format!("{} thread(s) on {}", measured.threads, measured.target);
    vec![
        name("process_name", &measured.model),
        name("thread_name", &threads),
        event("compile", "compile", 0.0..compile, json!({})),
        event("first run", "run", compile..compile + first, json!({})),
    ]
}

/// An event from one time to another, in microseconds.
fn event(name: &str, category: &str, times: Range<f64>, what: Value) -> Value {
    json!({
        "ph": "X",
        "name": name,
        "cat": category,
        "ts": times.start,
        "dur": times.end - times.start,
        "pid": 1,
        "tid": 1,
        "args": what,
    })
}
