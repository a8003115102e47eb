//! An order of a program's steps in which less memory is taken at once.
//!
//! Steps that touch a slot keep their order where one of them writes it, and so do those that write
//! outputs and those that read inputs, which a caller may have put in the same memory. Among the
//! orders that are left a beam search looks for one whose largest live set is small. (Finding the
//! least is NP-complete: R. Sethi, "Complete register allocation problems", 1975.)

use std::collections::BTreeMap;

use program::{Place, Program, SlotId, Step};

use crate::place::aligned;

/// The most steps of a program that is looked at.
const STEPS: usize = 128;

/// Beginnings of orders that are looked at further, of each length.
const BEAM: usize = 48;

/// What a step touches: slots, and whether it writes them.
type Touched = BTreeMap<SlotId, bool>;

/// The beginning of an order.
#[derive(Clone, Debug)]
struct Beginning {
    /// The steps in it, as bits.
    done: u128,
    order: Vec<usize>,
    /// Bytes that are live behind it, and the most within it.
    live: i64,
    most: i64,
}

/// The numbers of the program's steps in an order whose largest live set is smaller than that of
/// the order at hand; none where none is found, where steps hold others or set symbols, where
/// outputs are updated, or where there are very many.
#[must_use]
pub fn frugal_order(program: &Program) -> Option<Vec<usize>> {
    let steps = &program.steps;
    if steps.len() > STEPS || !program.updated.is_empty() {
        return None;
    }
    let touched: Vec<Touched> = steps.iter().map(touched_by).collect::<Option<_>>()?;
    let search = Search::of(program, &touched);
    let given: Vec<usize> = (0..steps.len()).collect();
    let as_it_is = given.iter().fold(Beginning::none(), |state, &step| search.with(&state, step));
    let best = search.best()?;
    (best.most < as_it_is.most).then_some(best.order)
}

/// The slots that a step touches; none of one that holds other steps.
fn touched_by(step: &Step) -> Option<Touched> {
    let mut touched = Touched::new();
    let mut touch = |slot: SlotId, writes: bool| *touched.entry(slot).or_default() |= writes;
    match step {
        Step::Run(run) => {
            run.arguments.iter().for_each(|it| touch(it.address.slot, it.writes));
        }
        Step::Copy { source, destination, .. } => {
            touch(source.slot, false);
            touch(destination.slot, true);
        }
        Step::Move(moved) => {
            touch(moved.source.slot, false);
            touch(moved.destination.slot, true);
        }
        _ => return None,
    }
    Some(touched)
}

impl Beginning {
    fn none() -> Beginning {
        Beginning { done: 0, order: Vec::new(), live: 0, most: 0 }
    }
}

struct Search<'a> {
    touched: &'a [Touched],
    /// Of each step the earlier ones that must come before it, as bits.
    before: Vec<u128>,
    /// Of slots of the arena their bytes, and the steps that touch them, as bits.
    slots: BTreeMap<SlotId, (i64, u128)>,
}

impl Search<'_> {
    fn of<'a>(program: &Program, touched: &'a [Touched]) -> Search<'a> {
        let mut slots: BTreeMap<SlotId, (i64, u128)> = BTreeMap::new();
        for (number, own) in touched.iter().enumerate() {
            for &slot in own.keys() {
                let data = &program.slots[slot];
                if let (Place::Arena(_), Some(bytes)) = (&data.place, data.bytes.as_constant()) {
                    slots.entry(slot).or_insert((aligned(bytes), 0)).1 |= 1 << number;
                }
            }
        }
        let ports = |own: &Touched| {
            let is = |input: bool| {
                own.iter().any(|(&slot, &writes)| match program.slots[slot].place {
                    Place::Input(_) => input,
                    Place::Output(_) => !input && writes,
                    _ => false,
                })
            };
            (is(true), is(false))
        };
        let must_wait = |earlier: &Touched, later: &Touched| {
            let ((reads, writes), (then_reads, then_writes)) = (ports(earlier), ports(later));
            let meets = |(slot, writes): (&SlotId, &bool)| {
                later.get(slot).is_some_and(|then_writes| *writes || *then_writes)
            };
            reads && then_writes || writes && then_reads || earlier.iter().any(meets)
        };
        let before = |number: usize| {
            let earlier = (0..number).filter(|&other| must_wait(&touched[other], &touched[number]));
            earlier.fold(0, |bits, other| bits | 1 << other)
        };
        let before = (0..touched.len()).map(before).collect();
        Search { touched, before, slots }
    }

    /// A beginning and one more step.
    fn with(&self, state: &Beginning, step: usize) -> Beginning {
        let mut next = state.clone();
        next.done |= 1 << step;
        next.order.push(step);
        let of_arena = || self.touched[step].keys().filter_map(|slot| self.slots.get(slot));
        let begun = of_arena().filter(|(_, steps)| steps & state.done == 0);
        next.live += begun.map(|(bytes, _)| bytes).sum::<i64>();
        next.most = next.most.max(next.live);
        let ended = of_arena().filter(|(_, steps)| steps & !next.done == 0);
        next.live -= ended.map(|(bytes, _)| bytes).sum::<i64>();
        next
    }

    /// The whole order with the smallest live set that the beam comes to.
    fn best(&self) -> Option<Beginning> {
        let mut states = vec![Beginning::none()];
        for _ in 0..self.touched.len() {
            let mut found: BTreeMap<u128, Beginning> = BTreeMap::new();
            for state in &states {
                let ready = (0..self.touched.len()).filter(|&step| {
                    state.done >> step & 1 == 0 && self.before[step] & !state.done == 0
                });
                for next in ready.map(|step| self.with(state, step)) {
                    match found.get(&next.done) {
                        Some(known) if known.most <= next.most => {}
                        _ => drop(found.insert(next.done, next)),
                    }
                }
            }
            states = found.into_values().collect();
            states.sort_by(|a, b| (a.most, a.live, &a.order).cmp(&(b.most, b.live, &b.order)));
            states.truncate(BEAM);
        }
        states.into_iter().next()
    }
}

#[cfg(test)]
mod tests {
    use super::frugal_order;

    /// Copies from a slot to another, one after the other.
    fn order(slots: &str, copies: &[(&str, &str)]) -> Option<Vec<usize>> {
        let copy = |(from, to): &(&str, &str)| format!("  copy 8 from %{from} to %{to}\n");
        let steps: String = copies.iter().map(copy).collect();
        let text = format!("program @main() arena 0 {{\n{slots}{steps}}}\n");
        frugal_order(&program::parse(&text).expect("a program"))
    }

    /// Two large values, of each of which a small one is made.
    const BRANCHES: &str = "  %x: 8 at input 0\n  %y: 8 at output 0\n  %a: 4096 at arena 0\n  \
        %b: 4096 at arena 0\n  %c: 8 at arena 0\n  %d: 8 at arena 0\n  %e: 8 at arena 0\n";

    #[test]
    fn one_branch_after_the_other() {
        let copies =
            [("x", "a"), ("x", "b"), ("a", "c"), ("b", "d"), ("c", "e"), ("d", "e"), ("e", "y")];
        let found = order(BRANCHES, &copies).expect("a better order");
        let place = |step: usize| found.iter().position(|it| *it == step);
        assert!(place(2) < place(1) || place(3) < place(0), "{found:?}");
        // Who writes a slot stays in front of who writes it next, and reads it.
        assert!(place(4) < place(5) && place(5) < place(6), "{found:?}");
        assert!(place(0) < place(2) && place(1) < place(3), "{found:?}");
    }

    #[test]
    fn what_is_best_stays() {
        let copies = [("x", "a"), ("a", "c"), ("x", "b"), ("b", "d"), ("c", "d"), ("d", "y")];
        assert_eq!(order(BRANCHES, &copies), None);
    }

    #[test]
    fn inputs_are_read_before_outputs_are_written() {
        let copies = [("x", "a"), ("x", "b"), ("a", "y"), ("b", "c")];
        assert_eq!(order(BRANCHES, &copies), Some(vec![1, 3, 0, 2]));
        // Without the second input it would be better to write the output first.
        let copies = [("x", "a"), ("x", "b"), ("b", "c"), ("x", "c"), ("a", "y")];
        let found = order(BRANCHES, &copies).expect("a better order");
        assert_eq!(found.last(), Some(&4));
    }
}
