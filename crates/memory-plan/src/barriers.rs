//! Where the program needs barriers: steps between two of them run at the same time.

use std::collections::BTreeMap;

use base::Id;
use program::{Place, Program, Step};
use sym::Expr;

use crate::touched::Touched;

/// Puts a barrier before each step that touches memory which a step since the last one writes, or
/// writes what one touches. Steps with blocks inside stand between barriers.
pub(crate) fn add_barriers(program: &Program, steps: &mut Vec<Step>) {
    let mut made: Vec<Step> = Vec::new();
    let mut since = Since::default();
    for mut step in std::mem::take(steps) {
        let own = match &mut step {
            Step::Run(_) | Step::Copy { .. } | Step::Move(_) => accesses(program, &step),
            _ => Vec::new(),
        };
        let apart = matches!(
            step,
            Step::Branch { .. } | Step::While { .. } | Step::Repeat { .. } | Step::Bind { .. }
        );
        let conflict = own.iter().any(|access| since.conflicts(access));
        if (conflict || apart) && !made.is_empty() && made.last() != Some(&Step::Barrier) {
            made.push(Step::Barrier);
            since = Since::default();
        }
        match &mut step {
            Step::Branch { then, otherwise, .. } => {
                add_barriers(program, then);
                add_barriers(program, otherwise);
            }
            Step::While { setup, body, .. } => {
                add_barriers(program, setup);
                add_barriers(program, body);
            }
            Step::Repeat { body, .. } => add_barriers(program, body),
            _ => {}
        }
        own.iter().for_each(|access| since.add(access));
        made.push(step);
        if apart {
            made.push(Step::Barrier);
            since = Since::default();
        }
    }
    if made.last() == Some(&Step::Barrier) {
        made.pop();
    }
    *steps = made;
}

/// Memory that a step touches: a region, first byte and the byte behind the last.
struct Access {
    region: (u8, u64),
    start: i64,
    end: i64,
    writes: bool,
}

/// What the steps since a barrier have touched, by region.
#[derive(Default)]
struct Since {
    read: BTreeMap<(u8, u64), Touched>,
    written: BTreeMap<(u8, u64), Touched>,
}

impl Since {
    fn conflicts(&self, access: &Access) -> bool {
        let meets = |touched: &BTreeMap<(u8, u64), Touched>| {
            touched.get(&access.region).is_some_and(|set| set.meets(access.start, access.end))
        };
        meets(&self.written) || access.writes && meets(&self.read)
    }

    fn add(&mut self, access: &Access) {
        let touched = if access.writes { &mut self.written } else { &mut self.read };
        touched.entry(access.region).or_default().insert(access.start, access.end);
    }
}

fn accesses(program: &Program, step: &Step) -> Vec<Access> {
    let access = |address: &program::Address, bytes: &Expr, writes: bool| {
        let slot = &program.slots[address.slot];
        let (region, base) = match &slot.place {
            Place::Input(number) => ((0, u64::from(*number)), Some(0)),
            Place::Output(number) => ((1, u64::from(*number)), Some(0)),
            Place::Weight(constant) => ((2, constant.index() as u64), Some(0)),
            Place::Constants(offset) => ((3, 0), offset.as_constant()),
            Place::Arena(offset) => ((4, 0), offset.as_constant()),
        };
        // An offset that moves with a loop stands for the whole slot, a free one for the region.
        let within = address.offset.as_constant().zip(bytes.as_constant());
        let (start, bytes) = match (base, within, slot.bytes.as_constant()) {
            (Some(base), Some((offset, bytes)), _) => (base + offset, bytes),
            (Some(base), None, Some(bytes)) => (base, bytes),
            _ => (0, i64::MAX),
        };
        Access { region, start, end: start + bytes, writes }
    };
    match step {
        Step::Run(run) => {
            let of = |argument: &program::Argument| {
                access(&argument.address, &argument.bytes, argument.writes)
            };
            run.arguments.iter().map(of).collect()
        }
        Step::Copy { source, destination, bytes } => {
            vec![access(source, bytes, false), access(destination, bytes, true)]
        }
        Step::Move(moved) => vec![
            access(&moved.source, &moved.source_bytes(), false),
            access(&moved.destination, &moved.destination_bytes(), true),
        ],
        _ => Vec::new(),
    }
}
