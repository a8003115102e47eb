//! Extents that nothing binds: the smallest of a row of numbers with which a model runs.
//!
//! What shapes a model takes is known for certain only where it runs: a window wants so many
//! samples, a network that halves its picture five times wants 32 rows, a state has as many rows as
//! the batch. So the model is compiled once with these extents free, and runs on random inputs, the
//! extents 1 or one number of a row, fewer of them larger than 1 first, until a run is good. A
//! shape that does not fit is mostly refused before anything is compiled for it. What is found is
//! compiled with its extents fixed, too: then branches that a run does not take must fit as well.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use base::{Diagnostics, InOrder, Result};
use tensor::Value;
use tilewright::compiled::{Source, compile_source};
use tilewright::{Executable, Options, Port, in_order};

/// Extents that are tried.
const ROW: [i64; 45] = [
    1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192,
    224, 256, 320, 384, 400, 448, 480, 512, 576, 640, 768, 896, 1024, 1536, 2048, 4096, 8192,
    16384, 32768, 65536,
];

/// The most extents of which any may be larger than 1 while others are not; of more, all are.
const MOST_APART: usize = 5;

/// The most runs that are tried.
const MOST_RUNS: usize = 2048;

/// Extents by name.
type Extents = BTreeMap<String, i64>;

/// Values for the named extents of inputs that neither the options nor the values given by name
/// bind: the smallest of a row of numbers from 1 to 65536 with which the model runs and none of its
/// outputs is empty; if there are none such, with which it runs. Empty where nothing is free.
///
/// # Errors
/// Those of the compile; if the model runs with none of these, what is said where all are 1.
pub fn smallest_extents(
    model: &Path,
    options: &Options,
    given: &BTreeMap<String, Value>,
) -> Result<Extents> {
    let source = Source::read(model, &options.limits)?;
    let ports = source.declared(options)?.0;
    let mut names: Vec<&str> = Vec::new();
    for name in ports.iter().flat_map(Port::free_extents) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return Ok(Extents::new());
    }
    let executable = compile_source(source.clone(), options)?;
    let only = executable.only_extents();
    // The first axis counts what is handed over together: one is enough for longest.
    let is_first = |name: &str| {
        ports.iter().any(|port| port.shape.first().is_some_and(|it| it.to_string() == name))
    };
    names.put_in_order_by_key(|name| is_first(name));
    let (fixed, free): (Vec<&str>, Vec<&str>) =
        names.into_iter().partition(|name| only.contains_key(*name));
    let fixed = fixed.into_iter().map(|name| (name.to_owned(), only[name])).collect();
    let search = Search { source, executable, ports: &ports, options, given, tried: 0 };
    search.smallest(&free, &fixed)
}

struct Search<'a> {
    source: Source,
    /// With all extents free.
    executable: Executable,
    ports: &'a [Port],
    options: &'a Options,
    given: &'a BTreeMap<String, Value>,
    tried: usize,
}

impl Search<'_> {
    fn smallest(mut self, free: &[&str], fixed: &Extents) -> Result<Extents> {
        let (mut refusal, mut good) = (None, None);
        for candidate in candidates(free) {
            let extents = candidate.into_iter().chain(fixed.clone()).collect();
            match self.run(&extents) {
                Ok(true) => return Ok(self.lowered(extents, free)),
                Ok(false) => _ = good.get_or_insert(extents),
                Err(found) => _ = refusal.get_or_insert(found),
            }
            if self.tried == MOST_RUNS {
                break;
            }
        }
        good.ok_or_else(|| refusal.unwrap_or_default())
    }

    /// Runs the model; whether none of its outputs is empty.
    fn run(&mut self, extents: &Extents) -> Result<bool> {
        self.tried += 1;
        let shaped = |port: &Port| port.clone().with_extents(extents);
        let ports: Vec<Port> = self.ports.iter().map(shaped).collect();
        let bytes = ports.iter().map(Port::least_bytes).fold(0, u64::saturating_add);
        if bytes > self.options.limits.random_bytes {
            return Err(Diagnostics::new());
        }
        let mut random = |number: usize, port: &Port| port.random(number as u64).map(Value::from);
        let inputs = in_order(&ports, self.given.clone(), &mut random)?;
        self.executable.run_values(&inputs)?;
        let mut options = self.options.clone();
        options.dims.extend(extents.clone());
        let outputs = compile_source(self.source.clone(), &options)?.run_values(&inputs)?;
        let is_empty = |output: &Value| output.as_tensor().is_some_and(|it| it.is_empty());
        Ok(!outputs.iter().any(is_empty))
    }

    /// The extents, each lowered by itself as far as the model still runs.
    fn lowered(&mut self, mut extents: Extents, free: &[&str]) -> Extents {
        for &name in free {
            let first = extents[name];
            for lower in ROW.into_iter().take_while(|&lower| lower < first) {
                let mut candidate = extents.clone();
                candidate.insert(name.to_owned(), lower);
                if matches!(self.run(&candidate), Ok(true)) {
                    extents = candidate;
                    break;
                }
            }
        }
        extents
    }
}

/// Extents to try: of each number of the row, first where the fewest are larger than 1.
fn candidates(free: &[&str]) -> impl Iterator<Item = Extents> {
    let all = (1_u32 << free.len().min(31)) - 1;
    let mut larger: Vec<u32> = match free.len() <= MOST_APART {
        true => (1..=all).collect(),
        false => vec![all],
    };
    // Of as many, those in front: axes that are first come behind.
    larger.put_in_order_by_key(|set| (set.count_ones(), Reverse(set.reverse_bits())));
    let ones = std::iter::once((1, 0));
    let others = ROW.into_iter().skip(1).flat_map(move |extent| {
        let sets = larger.clone();
        sets.into_iter().map(move |set| (extent, set))
    });
    ones.chain(others).map(move |(extent, set)| {
        let value = |number: usize| if set >> number.min(31) & 1 == 1 { extent } else { 1 };
        free.iter().enumerate().map(|(number, name)| ((*name).to_owned(), value(number))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_larger_extents_come_first() {
        let found: Vec<Vec<i64>> =
            candidates(&["a", "b"]).take(5).map(|it| it.into_values().collect()).collect();
        assert_eq!(found, [[1, 1], [2, 1], [1, 2], [2, 2], [3, 1]]);
    }
}
