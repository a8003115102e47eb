//! Outputs that may lie where inputs lie: what an optimiser's step makes of its parameters.
//!
//! An output may take an input's place if the step that writes it is the only one that does, if no
//! later step reads the input, and if that step, where it reads the input, is a kernel that may be
//! given the same memory for both (`loops::may_share`). Outputs are written whole or not at all, so
//! where a program may end early, because a kernel checks what it reads, a barrier lies between the
//! last such kernel and the step.
//!
//! Relied upon: the order of a program's steps is the order of their effects; behind a barrier
//! nothing runs of a program that has ended in front of it.

use std::collections::{BTreeMap, BTreeSet};

use engine::{Damage, Decoder, Encoder};
use loops::{Kernel, Stmt, SymbolKind, may_share, visit};
use module::Module;
use program::{Argument, Place, Program, Run, SlotId, Step};
use sym::Range;

/// Which outputs of a program may lie where which inputs lie.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sharing {
    /// The last step that reads each input.
    last_reads: BTreeMap<u32, usize>,
    /// The step that alone writes each output, and the inputs whose memory it may be given for it.
    writers: BTreeMap<u32, (usize, BTreeSet<u32>)>,
}

impl Sharing {
    /// That of a program of a module.
    pub(crate) fn of(module: &Module, program: &Program) -> Sharing {
        let mut found = Sharing::default();
        let mut several = BTreeSet::new();
        // Where everything that may end the program has been done.
        let (mut may_end, mut surely_ends) = (false, 0);
        for (number, step) in program.steps.iter().enumerate() {
            let (reads, writes) = match step {
                Step::Barrier => {
                    if std::mem::take(&mut may_end) {
                        surely_ends = number;
                    }
                    continue;
                }
                Step::Run(run) => {
                    may_end |= checks_data(&module.kernels[run.kernel]);
                    let of = |wanted: fn(&Argument) -> bool| {
                        let chosen = run.arguments.iter().filter(move |it| wanted(it));
                        chosen.map(|it| it.address.slot).collect::<Vec<SlotId>>()
                    };
                    (of(|argument| argument.reads), of(|argument| argument.writes))
                }
                Step::Copy { source, destination, .. } => {
                    (vec![source.slot], vec![destination.slot])
                }
                Step::Move(moved) => (vec![moved.source.slot], vec![moved.destination.slot]),
                _ => return Sharing::default(),
            };
            for slot in reads {
                if let Place::Input(input) = program.slots[slot].place {
                    found.last_reads.insert(input, number);
                }
            }
            for slot in writes {
                let Place::Output(output) = program.slots[slot].place else { continue };
                let alike = match step {
                    Step::Run(run) => alike(&module.kernels[run.kernel], program, run, slot),
                    _ => BTreeSet::new(),
                };
                if found.writers.insert(output, (number, alike)).is_some() {
                    several.insert(output);
                }
            }
        }
        let from = if may_end { program.steps.len() } else { surely_ends };
        found.writers.retain(|output, (at, _)| *at >= from && !several.contains(output));
        found
    }

    /// Writes it down.
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        encoder.list(&self.last_reads, |encoder, (&input, &step)| {
            encoder.number(input.into());
            encoder.number(step as u64);
        });
        encoder.list(&self.writers, |encoder, (&output, (step, alike))| {
            encoder.number(output.into());
            encoder.number(*step as u64);
            encoder.list(alike, |encoder, &input| encoder.number(input.into()));
        });
    }

    /// What was written down.
    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Sharing, Damage> {
        let port = |decoder: &mut Decoder<'_>| {
            u32::try_from(decoder.number()?).map_err(|_| Damage::new("there is no such port"))
        };
        let last_reads = decoder.list(|decoder| Ok((port(decoder)?, decoder.size()?)))?;
        let writers =
            decoder.list(|decoder| Ok((port(decoder)?, (decoder.size()?, decoder.list(port)?))))?;
        Ok(Sharing { last_reads, writers })
    }

    /// Whether an output may lie where an input lies.
    pub(crate) fn allows(&self, input: usize, output: usize) -> bool {
        let (Ok(input), Ok(output)) = (u32::try_from(input), u32::try_from(output)) else {
            return false;
        };
        let Some((writer, alike)) = self.writers.get(&output) else { return false };
        match self.last_reads.get(&input) {
            Some(last) => last < writer || last == writer && alike.contains(&input),
            None => true,
        }
    }
}

/// Whether a kernel may end a run because of what it reads.
fn checks_data(kernel: &Kernel) -> bool {
    let mut found = false;
    visit::walk(&kernel.body, &mut |stmt| {
        let Stmt::Let { symbol, .. } = stmt else { return };
        if let SymbolKind::Value { range, .. } = &kernel.symbols[*symbol].kind {
            found |= range.is_some_and(|range| range != Range::ALL);
        }
    });
    found
}

/// The inputs whose memory a run of a kernel may be given for the output in this slot.
fn alike(kernel: &Kernel, program: &Program, run: &Run, slot: SlotId) -> BTreeSet<u32> {
    let starts = |argument: &Argument| argument.address.offset.is_zero();
    let parameters = || run.arguments.iter().zip(&kernel.parameters);
    let mut outputs = parameters().filter(|(argument, _)| argument.address.slot == slot);
    let (Some((argument, &written)), None) = (outputs.next(), outputs.next()) else {
        return BTreeSet::new();
    };
    if !starts(argument) {
        return BTreeSet::new();
    }
    let of = |input: u32| {
        let is_input =
            |argument: &Argument| program.slots[argument.address.slot].place == Place::Input(input);
        let mut reads = parameters().filter(|(argument, _)| is_input(argument));
        reads.all(|(argument, read)| starts(argument) && may_share(kernel, *read, written))
    };
    let inputs = run.arguments.iter().filter_map(|it| match program.slots[it.address.slot].place {
        Place::Input(input) => Some(input),
        _ => None,
    });
    inputs.filter(|&input| of(input)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNELS: &str = "\
kernel @checked(%data: read f32[8], %places: read i64[1], %out: write f32[1]) {
  let at: i64 in 0..=7 = %places[0]
  %out[0] = %data[at]
}

kernel @added(%in: read f32[8], %one: read f32[1], %out: write f32[8]) {
  for i < 8 {
    %out[i] = %in[i] + %one[0]
  }
}
";

    /// Whether output 0 may lie where input 0 lies, in a program of these steps.
    fn shares(steps: &str) -> bool {
        let program = format!(
            "program @main() arena 64 {{
  %in0: 32 at input 0
  %in1: 8 at input 1
  %out0: 32 at output 0
  %t0: 4 at arena 0
{steps}}}
"
        );
        let text = format!("{KERNELS}\n{program}");
        let module = module::parse(&text, &bytes::Bytes::new()).expect("a module");
        let program = module.programs.values().next().expect("a program");
        Sharing::of(&module, program).allows(0, 0)
    }

    #[test]
    fn what_is_written_behind_all_that_may_end_the_program_may_lie_where_inputs_lie() {
        let checked = "  run k0(read 32 at %in0, read 8 at %in1, write 4 at %t0) extent 1\n";
        let added = "  run k1(read 32 at %in0, read 4 at %t0, write 32 at %out0) extent 1\n";
        let barrier = "  barrier\n";
        let of = |steps: &[&str]| shares(&steps.concat());
        assert!(of(&[checked, barrier, added]));
        assert!(of(&[checked, barrier, barrier, added]));
        assert!(!of(&[checked, added]), "workers may do both at once");
        assert!(!of(&[barrier, added, checked]));
        assert!(!of(&[added, barrier, checked, barrier]));
        assert!(of(&[barrier, added]));
    }
}
