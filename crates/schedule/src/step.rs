//! The primitive steps, as data, and their text form: one step a line.
//!
//! Loops and buffers are named by their names, which are unique within a kernel, so that a trace
//! means the same for every kernel of the same structure. What each step does, before → after, and
//! when it is legal stands in the file of `steps/` that has its name.
//!
//! Invariant: what prints parses back to the same steps. Relies on `base::text`.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use base::text::{Parser, TextError};
use loops::Scope;

/// What happens to the iterations of a split loop beyond its extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tail {
    /// There are none: the factor divides the extent.
    Exact,
    /// A condition around the body skips them.
    Guard,
    /// The last outer iteration starts early, so that some iterations run twice.
    Shift,
}

/// Where a loop is cut in two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CutAt {
    /// After so many iterations.
    Turn(i64),
    /// Of a loop over parts that need not come out even: behind the whole ones.
    Tail,
}

/// The worker's own memory that a buffer may be moved to: scratch or registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LocalScope {
    /// `Scope::Scratch`.
    Scratch,
    /// `Scope::Register`.
    Register,
}

impl From<LocalScope> for Scope {
    fn from(scope: LocalScope) -> Scope {
        match scope {
            LocalScope::Scratch => Scope::Scratch,
            LocalScope::Register => Scope::Register,
        }
    }
}

/// A walk through a buffer from one end to the other: turns of loops, counted together, each of
/// which is about so many bytes further on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Walk {
    /// The loops, outermost first.
    pub along: Vec<String>,
    /// Bytes from one turn to the next.
    pub bytes: u32,
}

/// One primitive step. `target` names the loop that the step is about; new names come from the
/// caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ScheduleStep {
    /// One loop becomes two: `outer` counts blocks of `factor` iterations of `inner`.
    Split {
        /// The loop.
        target: String,
        /// Iterations of the inner loop.
        factor: i64,
        /// Name of the outer loop.
        outer: String,
        /// Name of the inner loop.
        inner: String,
        /// What happens where the factor does not divide the extent.
        tail: Tail,
    },
    /// One loop becomes two, one after the other: iterations before `at`, and from there on.
    Cut {
        /// The loop, which keeps its name for the first iterations.
        target: String,
        /// Where they end.
        at: CutAt,
        /// Name of the second loop.
        into: String,
    },
    /// The iterations of a loop from one on have code of their own.
    Case {
        /// The loop.
        target: String,
        /// The first of these iterations.
        at: i64,
    },
    /// The named loops of a perfect nest change places.
    Reorder {
        /// The new order, outermost first.
        order: Vec<String>,
    },
    /// Two loops, one directly inside the other, become one.
    Fuse {
        /// The outer loop.
        outer: String,
        /// The inner loop.
        inner: String,
        /// Name of the new loop.
        into: String,
    },
    /// Two adjacent axes of a buffer become one.
    Flatten {
        /// The buffer.
        buffer: String,
        /// The first of the two axes.
        axis: usize,
    },
    /// An axis of a local buffer grows.
    Pad {
        /// The buffer.
        buffer: String,
        /// The axis.
        axis: usize,
        /// Its new extent.
        extent: i64,
    },
    /// A loop runs further than it has to.
    Extend {
        /// The loop.
        target: String,
        /// What its new extent is a multiple of.
        whole: i64,
    },
    /// A loop is to be written out.
    Unroll {
        /// The loop.
        target: String,
    },
    /// A loop is to be run in vectors.
    Vectorise {
        /// The loop.
        target: String,
    },
    /// A loop is to be run as an instruction that is described as loops.
    Tensorise {
        /// The loop.
        target: String,
        /// What the instruction is called.
        instruction: String,
    },
    /// The outermost loop is to be shared among workers.
    Parallelise {
        /// The loop.
        target: String,
    },
    /// The statements that compute a buffer move into a loop that uses it, which then computes only
    /// what one of its iterations needs.
    ComputeAt {
        /// The buffer.
        buffer: String,
        /// The loop.
        target: String,
    },
    /// A buffer that each iteration of a loop has for itself gets room for all of them.
    Privatise {
        /// The buffer.
        buffer: String,
        /// The loop.
        target: String,
    },
    /// A buffer that each iteration of a loop has for itself loses the axes along which one meets
    /// one element.
    Shrink {
        /// The buffer.
        buffer: String,
        /// The loop.
        target: String,
    },
    /// A loop becomes two, each with a part of its body.
    Fission {
        /// The loop.
        target: String,
        /// How many statements of the body stay.
        at: usize,
        /// Name of the second loop.
        into: String,
    },
    /// Two loops side by side become one.
    Merge {
        /// The first loop, whose name stays.
        first: String,
        /// The loop that follows it.
        second: String,
    },
    /// A buffer moves to scratch memory or to registers.
    SetScope {
        /// The buffer.
        buffer: String,
        /// Where to.
        scope: LocalScope,
    },
    /// What lies further on than what is met of a parameter is asked for.
    Prefetch {
        /// The parameter.
        buffer: String,
        /// How many bytes further on.
        bytes: u32,
        /// The walk through the buffer that loads follow, where these are no guide by themselves.
        walk: Option<Walk>,
        /// Loops around the loads whose turns share the lines, outermost first: each asks for some
        /// of them. If there are none, each vector asks for its own.
        shared: Vec<String>,
    },
    /// What a loop's body reads of a buffer is copied first, and read from the copy.
    StageRead {
        /// The buffer.
        buffer: String,
        /// The loop.
        target: String,
        /// Name of the copy.
        into: String,
        /// Where the copy lives.
        scope: LocalScope,
        /// The axes of the buffer in the order of the copy's axes; empty keeps them.
        order: Vec<usize>,
    },
    /// What a loop's body writes of a buffer is written to a copy, and copied back last.
    StageWrite {
        /// The buffer.
        buffer: String,
        /// The loop.
        target: String,
        /// Name of the copy.
        into: String,
        /// Where the copy lives.
        scope: LocalScope,
    },
    /// A buffer's readers compute its value themselves.
    Inline {
        /// The buffer.
        buffer: String,
    },
    /// Index expressions are put in their simplest form, conditions that always hold and loops of
    /// one iteration go.
    Simplify,
    /// Mathematical functions become arithmetic.
    ExpandFunctions,
    /// What is the same in all turns of a loop is bound before it.
    Hoist,
}

fn local_scope_name(scope: LocalScope) -> &'static str {
    match scope {
        LocalScope::Scratch => "scratch",
        LocalScope::Register => "register",
    }
}

fn tail_name(tail: Tail) -> &'static str {
    match tail {
        Tail::Exact => "exact",
        Tail::Guard => "guard",
        Tail::Shift => "shift",
    }
}

impl ScheduleStep {
    /// Whether all that the step may be refused for is found before it changes anything.
    pub(crate) fn is_checked_first(&self) -> bool {
        !matches!(
            self,
            ScheduleStep::StageRead { .. }
                | ScheduleStep::StageWrite { .. }
                | ScheduleStep::ExpandFunctions
        )
    }

    /// Whether it always leaves index expressions that may not be in simplest form; else it says
    /// only how a loop is run, or where a buffer is, or tells the state itself.
    pub(crate) fn writes_indices(&self) -> bool {
        !matches!(
            self,
            ScheduleStep::Simplify
                | ScheduleStep::Split { .. }
                | ScheduleStep::Fuse { .. }
                | ScheduleStep::Reorder { .. }
                | ScheduleStep::Unroll { .. }
                | ScheduleStep::Vectorise { .. }
                | ScheduleStep::Tensorise { .. }
                | ScheduleStep::Parallelise { .. }
                | ScheduleStep::SetScope { .. }
                | ScheduleStep::Prefetch { .. }
        )
    }
}

impl fmt::Display for ScheduleStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScheduleStep::Split { target, factor, outer, inner, tail } => {
                let tail = tail_name(*tail);
                write!(f, "split {target} by {factor} into {outer}, {inner} tail {tail}")
            }
            ScheduleStep::Cut { target, at: CutAt::Turn(at), into } => {
                write!(f, "cut {target} at {at} into {into}")
            }
            ScheduleStep::Case { target, at } => write!(f, "case {target} at {at}"),
            ScheduleStep::Cut { target, at: CutAt::Tail, into } => {
                write!(f, "cut {target} at tail into {into}")
            }
            ScheduleStep::Reorder { order } => write!(f, "reorder [{}]", order.join(", ")),
            ScheduleStep::Fuse { outer, inner, into } => {
                write!(f, "fuse {outer}, {inner} into {into}")
            }
            ScheduleStep::Flatten { buffer, axis } => write!(f, "flatten {buffer} axis {axis}"),
            ScheduleStep::Pad { buffer, axis, extent } => {
                write!(f, "pad {buffer} axis {axis} to {extent}")
            }
            ScheduleStep::Extend { target, whole } => write!(f, "extend {target} to whole {whole}"),
            ScheduleStep::Unroll { target } => write!(f, "unroll {target}"),
            ScheduleStep::Vectorise { target } => write!(f, "vectorise {target}"),
            ScheduleStep::Tensorise { target, instruction } => {
                write!(f, "tensorise {target} with {instruction}")
            }
            ScheduleStep::Parallelise { target } => write!(f, "parallelise {target}"),
            ScheduleStep::ComputeAt { buffer, target } => {
                write!(f, "compute_at {buffer} at {target}")
            }
            ScheduleStep::Privatise { buffer, target } => {
                write!(f, "privatise {buffer} along {target}")
            }
            ScheduleStep::Shrink { buffer, target } => write!(f, "shrink {buffer} in {target}"),
            ScheduleStep::Fission { target, at, into } => {
                write!(f, "fission {target} at {at} into {into}")
            }
            ScheduleStep::Merge { first, second } => write!(f, "merge {first}, {second}"),
            ScheduleStep::SetScope { buffer, scope } => {
                write!(f, "set_scope {buffer} {}", local_scope_name(*scope))
            }
            ScheduleStep::Prefetch { buffer, bytes, walk, shared } => {
                write!(f, "prefetch {buffer} ahead {bytes}")?;
                if let Some(Walk { along, bytes }) = walk {
                    write!(f, " by {bytes} along [{}]", along.join(", "))?;
                }
                if shared.is_empty() {
                    Ok(())
                } else {
                    write!(f, " shared [{}]", shared.join(", "))
                }
            }
            ScheduleStep::StageRead { buffer, target, into, scope, order } => {
                let scope = local_scope_name(*scope);
                write!(f, "stage_read {buffer} at {target} into {into} {scope}")?;
                let axes: Vec<String> = order.iter().map(usize::to_string).collect();
                if axes.is_empty() { Ok(()) } else { write!(f, " order [{}]", axes.join(", ")) }
            }
            ScheduleStep::StageWrite { buffer, target, into, scope } => {
                let scope = local_scope_name(*scope);
                write!(f, "stage_write {buffer} at {target} into {into} {scope}")
            }
            ScheduleStep::Inline { buffer } => write!(f, "inline {buffer}"),
            ScheduleStep::Simplify => f.write_str("simplify"),
            ScheduleStep::ExpandFunctions => f.write_str("expand_functions"),
            ScheduleStep::Hoist => f.write_str("hoist"),
        }
    }
}

/// The steps that made a kernel, shared by all who keep them. It prints one step a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace(Arc<[ScheduleStep]>);

impl From<Vec<ScheduleStep>> for Trace {
    fn from(steps: Vec<ScheduleStep>) -> Trace {
        Trace(steps.into())
    }
}

impl Deref for Trace {
    type Target = [ScheduleStep];

    fn deref(&self) -> &[ScheduleStep] {
        &self.0
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print_trace(self))
    }
}

/// Prints a trace, one step a line.
pub fn print_trace(trace: &[ScheduleStep]) -> String {
    trace.iter().map(|step| format!("{step}\n")).collect()
}

/// Parses what [`print_trace`] prints.
///
/// # Errors
/// At the first place where the text is no trace.
pub fn parse_trace(text: &str) -> Result<Vec<ScheduleStep>, TextError> {
    let mut parser = Parser::new(text);
    let mut trace = Vec::new();
    while !parser.at_end() {
        trace.push(parse_step(&mut parser)?);
    }
    Ok(trace)
}

type Parsed<T> = Result<T, TextError>;

fn name(parser: &mut Parser) -> Parsed<String> {
    parser.identifier().map(str::to_owned)
}

/// Reads `word NAME`.
fn after(parser: &mut Parser, word: &str) -> Parsed<String> {
    parser.expect_keyword(word)?;
    name(parser)
}

fn number(parser: &mut Parser) -> Parsed<usize> {
    let value = parser.unsigned()?;
    usize::try_from(value).map_err(|_| parser.error("this number is too large"))
}

/// Reads `FIRST, SECOND`.
fn pair(parser: &mut Parser) -> Parsed<(String, String)> {
    let first = name(parser)?;
    parser.expect(",")?;
    Ok((first, name(parser)?))
}

fn tail(parser: &mut Parser) -> Parsed<Tail> {
    let all = [Tail::Exact, Tail::Guard, Tail::Shift];
    let found = all.into_iter().find(|tail| parser.keyword(tail_name(*tail)));
    found.ok_or_else(|| parser.unexpected("`exact`, `guard` or `shift`"))
}

fn local_scope(parser: &mut Parser) -> Parsed<LocalScope> {
    let all = [LocalScope::Scratch, LocalScope::Register];
    let found = all.into_iter().find(|scope| parser.keyword(local_scope_name(*scope)));
    found.ok_or_else(|| parser.unexpected("`scratch` or `register`"))
}

/// Parses one step.
///
/// # Errors
/// At the first place where the text is no step.
pub fn parse_step(parser: &mut Parser) -> Parsed<ScheduleStep> {
    let position = parser.position();
    Ok(match parser.identifier()? {
        "split" => {
            let target = name(parser)?;
            parser.expect_keyword("by")?;
            let factor = parser.integer()?;
            parser.expect_keyword("into")?;
            let (outer, inner) = pair(parser)?;
            parser.expect_keyword("tail")?;
            ScheduleStep::Split { target, factor, outer, inner, tail: tail(parser)? }
        }
        "cut" => {
            let target = name(parser)?;
            parser.expect_keyword("at")?;
            let at = match parser.keyword("tail") {
                true => CutAt::Tail,
                false => CutAt::Turn(parser.integer()?),
            };
            ScheduleStep::Cut { target, at, into: after(parser, "into")? }
        }
        "case" => {
            let target = name(parser)?;
            parser.expect_keyword("at")?;
            ScheduleStep::Case { target, at: parser.integer()? }
        }
        "reorder" => ScheduleStep::Reorder { order: parser.list("[", ",", "]", name)? },
        "fuse" => {
            let (outer, inner) = pair(parser)?;
            ScheduleStep::Fuse { outer, inner, into: after(parser, "into")? }
        }
        "flatten" => {
            let buffer = name(parser)?;
            parser.expect_keyword("axis")?;
            ScheduleStep::Flatten { buffer, axis: number(parser)? }
        }
        "pad" => {
            let buffer = name(parser)?;
            parser.expect_keyword("axis")?;
            let axis = number(parser)?;
            parser.expect_keyword("to")?;
            ScheduleStep::Pad { buffer, axis, extent: parser.integer()? }
        }
        "extend" => {
            let target = name(parser)?;
            parser.expect_keyword("to")?;
            parser.expect_keyword("whole")?;
            ScheduleStep::Extend { target, whole: parser.integer()? }
        }
        "unroll" => ScheduleStep::Unroll { target: name(parser)? },
        "vectorise" => ScheduleStep::Vectorise { target: name(parser)? },
        "tensorise" => {
            ScheduleStep::Tensorise { target: name(parser)?, instruction: after(parser, "with")? }
        }
        "parallelise" => ScheduleStep::Parallelise { target: name(parser)? },
        "compute_at" => {
            ScheduleStep::ComputeAt { buffer: name(parser)?, target: after(parser, "at")? }
        }
        "privatise" => {
            ScheduleStep::Privatise { buffer: name(parser)?, target: after(parser, "along")? }
        }
        "shrink" => ScheduleStep::Shrink { buffer: name(parser)?, target: after(parser, "in")? },
        "fission" => {
            let target = name(parser)?;
            parser.expect_keyword("at")?;
            let at = number(parser)?;
            ScheduleStep::Fission { target, at, into: after(parser, "into")? }
        }
        "merge" => {
            let (first, second) = pair(parser)?;
            ScheduleStep::Merge { first, second }
        }
        "set_scope" => {
            ScheduleStep::SetScope { buffer: name(parser)?, scope: local_scope(parser)? }
        }
        "prefetch" => {
            let buffer = name(parser)?;
            parser.expect_keyword("ahead")?;
            let bytes = u32::try_from(number(parser)?);
            let bytes = bytes.map_err(|_| parser.error("too far ahead"))?;
            let walk = match parser.keyword("by") {
                true => {
                    let bytes = u32::try_from(number(parser)?);
                    let bytes = bytes.map_err(|_| parser.error("too large a step"))?;
                    parser.expect_keyword("along")?;
                    Some(Walk { along: parser.list("[", ",", "]", name)?, bytes })
                }
                false => None,
            };
            let shared = match parser.keyword("shared") {
                true => parser.list("[", ",", "]", name)?,
                false => Vec::new(),
            };
            ScheduleStep::Prefetch { buffer, bytes, walk, shared }
        }
        "stage_read" => {
            let buffer = name(parser)?;
            let target = after(parser, "at")?;
            let into = after(parser, "into")?;
            let scope = local_scope(parser)?;
            let order = match parser.keyword("order") {
                true => parser.list("[", ",", "]", number)?,
                false => Vec::new(),
            };
            ScheduleStep::StageRead { buffer, target, into, scope, order }
        }
        "stage_write" => {
            let buffer = name(parser)?;
            let target = after(parser, "at")?;
            let into = after(parser, "into")?;
            ScheduleStep::StageWrite { buffer, target, into, scope: local_scope(parser)? }
        }
        "inline" => ScheduleStep::Inline { buffer: name(parser)? },
        "simplify" => ScheduleStep::Simplify,
        "expand_functions" => ScheduleStep::ExpandFunctions,
        "hoist" => ScheduleStep::Hoist,
        _ => return Err(parser.error_at(position, "expected a step")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "\
split i by 8 into io, ii tail guard
split j by 16 into jo, ji tail exact
split k by 4 into ko, ki tail shift
cut k at 24 into k_rest
case k at 24
reorder [io, jo, k, ii, ji]
fuse io, jo into f
flatten a axis 0
pad a axis 1 to 1040
extend i to whole 32
unroll ii
vectorise ji
tensorise e with dot_bf16_2
parallelise f
compute_at acc at jo
privatise x along ji
shrink x in ji
fission i at 1 into rest
merge i, rest
set_scope acc register
stage_read b at jo into panel scratch order [1, 0]
stage_read b at jo into panel scratch
stage_write c at jo into tile register
inline t
simplify
expand_functions
hoist
";

    #[test]
    fn traces_print_and_parse() {
        let trace = parse_trace(ALL).unwrap();
        assert_eq!(print_trace(&trace), ALL);
        assert_eq!(parse_trace(&print_trace(&trace)), Ok(trace));
        for bad in ["split i", "spit i", "reorder i", "set_scope a parameter", "tensorise e"] {
            assert!(parse_trace(bad).is_err(), "{bad}");
        }
    }
}
