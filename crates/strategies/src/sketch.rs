//! Sketches: ways to schedule a kernel that leave choices open; which of them a kernel gets.
//!
//! A sketch is a space of [`Point`]s and an emitter from a point to steps. It knows a default for
//! each choice that a point leaves open, and lists the points that may be worth trying. All
//! sketches that fit are compared by one [`Cost`] of the kernels that they make. Where the first
//! that fits is near what the arithmetic and the bytes of the kernel take at least, the others are
//! not tried: they could win little, and each takes time to emit.

use backend::{Target, check_instructions};
use loops::visit::{walk, walk_values};
use loops::{Kernel, ScalarExpr, Stmt};
use schedule::{Applied, Schedule, ScheduleError, Trace};

use crate::cost::Cost;
use crate::given::{Given, Refused};
use crate::hand::Hand;
use crate::naive::{Naive, ProducerKind};
use crate::point::Point;
use crate::roofline::Roofline;
use crate::{across, ahead, blocks, borders, dots, inner, lines, map, plain, rows, tile, walks};

/// What may be asked of strategies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StrategyOptions {
    /// Take no steps but those that a back end needs: for tests, and to find faults.
    pub plain: bool,
}

/// A kernel as it is to be compiled.
#[derive(Clone, Debug)]
pub struct Scheduled {
    /// The kernel, in the scheduled form.
    pub kernel: Kernel,
    /// The steps that made it of the naive kernel.
    pub trace: Trace,
    /// Which sketch it was, and why not another.
    pub remarks: Vec<String>,
    /// What it should take.
    pub cost: Cost,
}

/// A point that was tried.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The point.
    pub point: Point,
    /// What became of it, or why it does not fit.
    pub scheduled: Result<Scheduled, String>,
}

/// A way to schedule a kernel.
struct Sketch {
    name: &'static str,
    /// Its steps at a point, and a remark on what was chosen.
    emit: fn(&mut Schedule, &Given<'_>, &Point, &Target) -> Result<String, Refused>,
    /// Names of the choices that a point may make.
    choices: &'static [&'static str],
    /// Points that may be worth trying besides its default.
    points: fn(&Given<'_>, &Target) -> Vec<Point>,
    /// Points besides its default that may take less than so many cycles, as far as the sketch
    /// knows without emitting them, best first.
    rivals: fn(&Given<'_>, &Target, f64) -> Vec<Point>,
}

/// A sketch that leaves no choice.
const fn fixed(
    name: &'static str,
    emit: fn(&mut Schedule, &Given<'_>, &Point, &Target) -> Result<String, Refused>,
) -> Sketch {
    Sketch { name, emit, choices: &[], points: |_, _| Vec::new(), rivals: |_, _, _| Vec::new() }
}

/// Sketches in the order in which they are tried. [`plain`] stands behind them: it always fits.
const SKETCHES: [Sketch; 6] = [
    Sketch {
        choices: tile::CHOICES,
        points: tile::points,
        rivals: tile::rivals,
        ..fixed(tile::NAME, tile::apply)
    },
    fixed("blocks", blocks::apply),
    Sketch { choices: dots::CHOICES, points: dots::points, ..fixed(dots::NAME, dots::apply) },
    fixed("rows", rows::apply),
    fixed("across", across::apply),
    Sketch {
        choices: map::CHOICES,
        points: map::points,
        rivals: map::rivals,
        ..fixed(map::NAME, map::apply)
    },
];

/// The one for statements of another form.
const STATEMENTS: [Sketch; 3] = [
    fixed("lines", lines::apply),
    fixed("across", across::apply),
    fixed(inner::NAME, inner::apply),
];

/// The name of what always fits.
const PLAIN: &str = "plain";

/// How many times what it takes at least a kernel may cost before other sketches are tried.
const NEAR: f64 = 2.0;

/// A point is tried beside its sketch's default if its estimate is such a part of what that takes.
const PROMISING: f64 = 0.5;

/// Points that are tried at most beside a sketch's default.
const MOST_RIVALS: usize = 2;

/// Cycles that nothing else is tried to save.
pub const LITTLE: f64 = 4000.0;

/// How much dearer a kernel counts whose turns no two workers can share.
const UNSHARED: f64 = 1.25;

/// Schedules a naive kernel for a target.
///
/// # Errors
/// When a scalar function has no expansion for its type; nothing else is an error.
pub fn schedule(
    naive: &Naive,
    target: &Target,
    options: &StrategyOptions,
) -> base::Result<Scheduled> {
    let mut remarks = Vec::new();
    let given = Given::of(naive);
    let mut fresh = None;
    let sketches = if options.plain { &[][..] } else { fitting(naive) };
    let mut best: Option<(f64, &str, Scheduled)> = None;
    let mut near = None;
    for sketch in sketches {
        let tried = attempt(&mut fresh, &given, sketch, &Point::of(sketch.name), target);
        let mut found = match tried {
            Ok(found) => found,
            Err(reason) => {
                remarks.push(format!("not {}: {reason}", sketch.name));
                continue;
            }
        };
        let near = *near.get_or_insert_with(|| {
            NEAR * Roofline::of(&naive.kernel, target).cycles(target) + LITTLE
        });
        if comparable(&found.cost) > near {
            found = best_of_rivals(&mut fresh, &given, sketch, found, target);
        }
        let cycles = comparable(&found.cost);
        if let Some((least, ..)) = &best
            && *least <= cycles
        {
            let remark = format!("{:.1} times as long", cycles / least.max(1.0));
            remarks.push(format!("not {}: it should take {remark}", sketch.name));
            continue;
        }
        if let Some((other, slower, _)) = best.take() {
            let remark = format!("{:.1} times as long", other / cycles.max(1.0));
            remarks.push(format!("not {slower}: it should take {remark}"));
        }
        best = Some((cycles, sketch.name, found));
        if cycles <= near {
            break;
        }
    }
    let mut found = match best {
        Some((.., found)) => found,
        None => plainly(naive, target)?,
    };
    remarks.append(&mut found.remarks);
    Ok(Scheduled { remarks, ..found })
}

/// A sketch's default, or what takes less of the points that promise half of it: what a sketch
/// knows without emitting a point may be blind to what makes its default dear.
fn best_of_rivals(
    fresh: &mut Option<Schedule>,
    given: &Given<'_>,
    sketch: &Sketch,
    default: Scheduled,
    target: &Target,
) -> Scheduled {
    let mut best = default;
    let rivals = (sketch.rivals)(given, target, comparable(&best.cost) * PROMISING);
    for point in rivals.into_iter().take(MOST_RIVALS) {
        let Ok(mut found) = attempt(fresh, given, sketch, &point, target) else { continue };
        let (cycles, before) = (comparable(&found.cost), comparable(&best.cost));
        if cycles < before {
            let times = before / cycles.max(1.0);
            found.remarks.push(format!("its default should take {times:.1} times as long"));
            best = found;
        }
    }
    best
}

/// A naive kernel scheduled as a point says.
///
/// # Errors
/// Why the point does not fit, as a sentence without a full stop.
pub fn schedule_at(naive: &Naive, target: &Target, point: &Point) -> Result<Scheduled, String> {
    if point.sketch == PLAIN {
        return plainly(naive, target).map_err(|error| error.to_string());
    }
    let mut all = SKETCHES.iter().chain(&STATEMENTS);
    let sketch = all.find(|sketch| sketch.name == point.sketch);
    let sketch = sketch.ok_or_else(|| format!("no sketch is called `{}`", point.sketch))?;
    let unknown = point.choices.iter().find(|(name, _)| !sketch.choices.contains(&&name[..]));
    if let Some((name, _)) = unknown {
        return Err(format!("`{}` has no choice `{name}`", sketch.name));
    }
    if !fitting(naive).iter().any(|fitting| fitting.name == sketch.name) {
        return Err("its statements are of another form".into());
    }
    attempt(&mut None, &Given::of(naive), sketch, point, target)
}

/// All points that may be worth trying for a naive kernel, with what they make of it.
#[must_use]
pub fn candidates(naive: &Naive, target: &Target) -> Vec<Candidate> {
    let given = Given::of(naive);
    let of = |sketch: &Sketch| [vec![Point::of(sketch.name)], (sketch.points)(&given, target)];
    let points = fitting(naive).iter().flat_map(of).flatten();
    let try_point = |point: Point| {
        let scheduled = schedule_at(naive, target, &point);
        Candidate { point, scheduled }
    };
    points.chain([Point::of(PLAIN)]).map(try_point).collect()
}

/// The sketches that a kernel's statements have the form for.
fn fitting(naive: &Naive) -> &'static [Sketch] {
    if is_opaque(naive) { &STATEMENTS } else { &SKETCHES }
}

/// Whether some statements are no nests.
pub(crate) fn is_opaque(naive: &Naive) -> bool {
    naive.producers.iter().any(|producer| producer.kind == ProducerKind::Opaque)
}

/// What kernels are compared by.
fn comparable(cost: &Cost) -> f64 {
    cost.cycles() * if cost.shared < 2 { UNSHARED } else { 1.0 }
}

/// Takes a sketch's steps, if they lead to a kernel in the scheduled form. `fresh` may hold a
/// schedule without steps, and does so where the sketch took none.
fn attempt(
    fresh: &mut Option<Schedule>,
    given: &Given<'_>,
    sketch: &Sketch,
    point: &Point,
    target: &Target,
) -> Result<Scheduled, Refused> {
    let mut schedule = fresh.take().unwrap_or_else(|| given.schedule());
    let remark = match (sketch.emit)(&mut schedule, given, point, target) {
        Ok(remark) => remark,
        Err(reason) => {
            *fresh = Some(schedule).filter(|schedule| given.is_untouched(schedule));
            return Err(reason);
        }
    };
    Hand::new(&mut schedule).simplify()?;
    borders::cut(&mut schedule, target);
    if needs_expansion(schedule.kernel()) {
        schedule.expand_functions().map_err(|error| error.message)?;
    }
    hoist(&mut schedule).map_err(|error| error.message)?;
    ahead::streams(&mut schedule, given, target);
    walks::ask_ahead(&mut schedule, target);
    given.verify(&schedule)?;
    check_instructions(schedule.kernel(), target)?;
    Ok(finish(schedule, format!("{}: {remark}", sketch.name), target))
}

/// The naive loops as they are, shared among workers where that is legal.
fn plainly(naive: &Naive, target: &Target) -> base::Result<Scheduled> {
    let mut schedule = Schedule::new(naive.kernel.clone());
    let remark = plain::apply(&mut schedule, naive, target);
    let internal = |error: ScheduleError| {
        base::Diagnostics::internal(format!("a kernel cannot be scheduled: {}", error.message))
    };
    if needs_expansion(schedule.kernel()) {
        schedule.expand_functions().map_err(internal)?;
    }
    hoist(&mut schedule).map_err(internal)?;
    Ok(finish(schedule, format!("{PLAIN}: {remark}"), target))
}

/// Binds what is the same in all turns of a loop before it, if a kernel binds anything.
fn hoist(schedule: &mut Schedule) -> Applied {
    let mut binds = false;
    walk(&schedule.kernel().body, &mut |stmt| binds |= matches!(stmt, Stmt::Let { .. }));
    if binds { schedule.hoist() } else { Ok(()) }
}

fn finish(schedule: Schedule, remark: String, target: &Target) -> Scheduled {
    let (kernel, trace) = schedule.into_components();
    let cost = Cost::of(&kernel, target);
    Scheduled { kernel, trace, remarks: vec![remark], cost }
}

/// Whether the kernel holds scalar functions that no target computes as they are.
pub(crate) fn needs_expansion(kernel: &Kernel) -> bool {
    let mut found = false;
    walk_values(&kernel.body, &mut |value| {
        found |= matches!(value, ScalarExpr::Apply { function, .. } if !function.is_machine());
    });
    found
}
