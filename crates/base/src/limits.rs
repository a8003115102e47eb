//! What is refused as too large, before memory or time is taken for it, and by which name a user
//! raises it.
//!
//! To add a limit, add a row below. Whoever refuses something for one says so with [`exceeded`],
//! which names the option.

use crate::Diagnostic;
use crate::codes::LIMIT_EXCEEDED;
use crate::nearest::nearest;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitRow {
    /// What the command line calls it.
    pub name: &'static str,
    /// What it counts.
    pub meaning: &'static str,
    /// What it is if nothing is said.
    pub default: u64,
}

macro_rules! limits {
    ($($field:ident: $type:ty = $default:expr, $name:literal, $meaning:literal;)*) => {
        /// The limits.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Limits {
            $(#[doc = $meaning] pub $field: $type,)*
        }

        impl Default for Limits {
            fn default() -> Limits {
                Limits { $($field: $default,)* }
            }
        }

        impl Limits {
            /// Every limit there is.
            pub const ROWS: &[LimitRow] =
                &[$(LimitRow {
                    name: $name,
                    meaning: $meaning,
                    default: {
                        let default: $type = $default;
                        default as u64
                    },
                }),*];

            /// Sets a limit by its name.
            ///
            /// # Errors
            /// What is wrong with the name or the value, as half a sentence.
            pub fn set(&mut self, name: &str, value: u64) -> Result<(), String> {
                match name {
                    $($name => {
                        self.$field = <$type>::try_from(value).map_err(|_| too_large(value))?;
                    })*
                    _ => return Err(unknown(name)),
                }
                Ok(())
            }
        }
    };
}

limits! {
    file_bytes: u64 = 1 << 40, "file-bytes", "Bytes of a model file.";
    decoded_bytes: u64 = 1 << 30, "decoded-bytes",
        "Memory that the decoded file may take, besides four times its size.";
    nesting: usize = 24, "nesting", "Graphs and functions inside each other.";
    nodes: usize = 1 << 18, "nodes",
        "Nodes of a model, with the bodies of functions counted at each call, of loops that are \
         written out at each turn.";
    primitives: usize = 1 << 19, "primitives",
        "Primitive operations that the nodes of a model are written as.";
    rank: usize = 32, "rank", "Axes of a tensor.";
    elements: u64 = 1 << 32, "elements", "Elements of one tensor.";
    computed_elements: u64 = 1 << 25, "computed-elements",
        "Elements of all constants that are computed while importing, bytes of strings, and values \
         of sequences, four for each.";
    iterations: u64 = 1 << 18, "iterations",
        "Turns of all interpreted loops in one run; a compile for new shapes is 64 of them.";
    turns: u64 = 1 << 24, "turns", "Turns of all compiled loops of a model in one run.";
    dimension: i64 = 1 << 20, "dimension", "Largest value of a symbolic dimension.";
    memory_bytes: u64 = 1 << 36, "memory-bytes",
        "Memory that one run takes: its inputs, its arena, what `setup` computes, and its outputs.";
    memory_ratio: u64 = 1 << 10, "memory-ratio",
        "Memory that one run takes beyond 1 GiB, for each byte of its weights and inputs.";
    cache_bytes: u64 = 1 << 29, "cache-bytes",
        "Memory for code that was compiled for other shapes, and that runs on them take.";
    random_bytes: u64 = 1 << 29, "random-bytes", "Bytes of inputs that are made up.";
    input_bytes: u64 = 1 << 28, "input-bytes",
        "Bytes of a table, text, JSON or picture file, or of standard input.";
    operations: u64 = 1 << 36, "operations",
        "Operations of one run, loops that data end counted as one turn, besides 2^26 for each \
         byte of its weights and inputs.";
}

/// Memory that any run may take, whatever its weights and inputs.
const FREE_BYTES: u64 = 1 << 30;

impl Limits {
    /// Refuses what would take more memory than a run may, `given` being the bytes of the weights
    /// and inputs of the model; `what_takes` it begins the message.
    ///
    /// # Errors
    /// `TW0112`, with the limit that is exceeded.
    pub fn check_memory(&self, total: u64, given: u64, what_takes: &str) -> Result<(), Diagnostic> {
        let Limits { memory_bytes, memory_ratio, .. } = *self;
        // A model without any may be given more, too.
        let given = given.max(1);
        let (limit, needed, reason) = if total > memory_bytes {
            ("memory-bytes", total, format!("at most {memory_bytes} are accepted"))
        } else if total > FREE_BYTES.saturating_add(given.saturating_mul(memory_ratio)) {
            let needed = (total - FREE_BYTES).div_ceil(given);
            let most = format!("{FREE_BYTES} and {memory_ratio} times that are accepted");
            ("memory-ratio", needed, format!("weights and inputs have {given}; {most}"))
        } else {
            return Ok(());
        };
        Err(exceeded(limit, needed, format!("{what_takes} {total} bytes of memory"))
            .because(reason))
    }
}

fn too_large(value: u64) -> String {
    format!("{value} is too large")
}

fn unknown(name: &str) -> String {
    let names: Vec<&str> = Limits::ROWS.iter().map(|row| row.name).collect();
    let near = nearest(name, names.iter().copied());
    let near = near.map_or_else(String::new, |near| format!("; `{near}` may be meant"));
    format!("no limit is called `{name}`{near}; the limits are {}", names.join(", "))
}

/// A limit of bytes, elements or turns beyond which it makes no difference.
const MOST_SENSIBLE: u64 = 1 << 48;

/// What to try where no more is known than that a limit is too low: with twice as much each time it
/// is soon enough.
#[must_use]
pub fn more_than(most: u64) -> u64 {
    most.saturating_mul(2).max(1)
}

/// The refusal for what exceeds the limit of a name, `needed` being the least value of it that
/// does, as far as that is known; it still needs a reason.
///
/// # Panics
/// In debug builds, if there is no such limit.
#[cold]
#[inline(never)]
pub fn exceeded(name: &str, needed: u64, message: impl Into<String>) -> Diagnostic {
    debug_assert!(Limits::ROWS.iter().any(|row| row.name == name), "no limit is called {name}");
    let remedy = match needed <= MOST_SENSIBLE {
        true => format!("raise the limit with `--limit {name}={needed}`, if the model is trusted"),
        false => "make it smaller; no machine has room or time for so much".to_owned(),
    };
    Diagnostic::error(LIMIT_EXCEEDED, message).remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_sets_a_field_of_its_own() {
        let mut all = Limits::default();
        for row in Limits::ROWS {
            let mut one = Limits::default();
            one.set(row.name, row.default + 1).expect("a name of the table");
            assert_ne!(one, Limits::default(), "{}", row.name);
            one.set(row.name, row.default).expect("the default");
            assert_eq!(one, Limits::default(), "{}", row.name);
            all.set(row.name, 7).expect("a name of the table");
        }
        assert_eq!((all.nesting, all.dimension, all.memory_bytes), (7, 7, 7));
    }

    #[test]
    fn unknown_names_and_values_are_refused() {
        let mut limits = Limits::default();
        let unknown = limits.set("size", 1).expect_err("no such limit");
        assert!(unknown.contains("`size`") && unknown.contains("file-bytes, "), "{unknown}");
        assert!(limits.set("dimension", u64::MAX).is_err());
        assert_eq!(limits, Limits::default());
    }

    #[test]
    fn a_refusal_names_the_option() {
        let refusal = exceeded("nodes", 6, "the model has more than 3 nodes").because("it is so");
        let text = refusal.to_string();
        assert!(text.contains("TW0112") && text.contains("`--limit nodes=6`"), "{text}");
    }
}
