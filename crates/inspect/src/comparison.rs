//! This compiler and another engine on the same inputs: each output, or each value of the model,
//! and where they part, which of the two is off.
//!
//! Two engines that are right round otherwise: they form sums in other orders, and fuse other
//! operations. So elements are equal within [`Tolerance::default`], as `diff` has it, and within
//! [`OF_ANY_ENGINE`], for which a small probability may come out as 0. Through many
//! layers roundings add up to more than that, and how much more the model alone decides. So where
//! elements are not equal, both values are judged as `verify` judges ours: against the model
//! evaluated in f64, by how far rounding takes the evaluator's own f32. Strings are equal or not.
//!
//! That tells which engine is off, as long as the two mean the same by each operator: the evaluator
//! reads the model as the compiler does. So that it is the peer that is off is a finding of its own
//! where the peer without its optimisation agrees; elsewhere the text says what it rests on.
//!
//! By nodes, the model is cut out of its file as `diff` does it, all of its nodes at once, with
//! every value for an output; both engines run that.

use std::cell::OnceCell;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use base::Result;
use tensor::{Deviation, TemporaryFolder, Tensor, Tolerance, Value};
use tilewright::compiled::{DecodedModel, Source, compile_source};
use tilewright::{Executable, Options};

use crate::difference::{nothing, of_part, part};
use crate::peer::{Peer, PeerRun, not_written};
use crate::verify::{Reference, VERIFY_OPERATIONS, reference, wrong_beside};

/// What any engine may be off by: two steps of f32 at 1, which is where sigmoids and softmaxes that
/// come out near 0 are formed. The tests of ONNX grant about as much.
const OF_ANY_ENGINE: f64 = 2.0 * f32::EPSILON as f64;

/// Rows of values that differ which are printed of a comparison by nodes.
const MOST_ROWS: usize = 16;

/// Where this and a peer agree, and where they do not.
#[derive(Clone, Debug)]
pub struct PeerReport {
    /// The peer and its version.
    pub peer: String,
    /// In the order of the outputs; by nodes, of the nodes in the file.
    pub rows: Vec<PeerRow>,
    /// Whether the rows are the values of all nodes, not of outputs.
    pub by_nodes: bool,
}

/// A tensor that both gave.
#[derive(Clone, Debug)]
pub struct PeerRow {
    /// The node that gives it, as a place in the model; none of an output.
    pub node: Option<String>,
    /// Its name; of what is in a list, with its place there.
    pub name: String,
    /// Element type and shape, as this gives it.
    pub ty: String,
    /// How the elements differ; none where no two elements belong together.
    pub deviation: Option<Deviation>,
    /// What is to be made of it.
    pub verdict: PeerVerdict,
}

/// Whether two engines agree about a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerVerdict {
    /// The elements are equal, but for other orders of sums.
    Equal,
    /// They are numbers drawn at random, of the same type and shape.
    Drawn,
    /// They are not, but both are as near to the model in f64 as rounding explains.
    Rounded(PeerDifference),
    /// They are as near as two compiles are; the evaluator does not tell more, for this reason.
    Near(String),
    /// The peer is off, this is not.
    PeerOff {
        /// How far.
        errors: PeerDifference,
        /// Whether the peer without its optimisation agrees with this.
        is_confirmed: bool,
    },
    /// This is off, the peer is not.
    OwnOff(PeerDifference),
    /// Both are off.
    BothOff(PeerDifference),
    /// They differ; why it is not known which is right.
    Unjudged(String),
}

/// How far both are from the model in f64: the norm of the difference over the norm of the
/// reference; of strings 1 where they differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeerDifference {
    /// Of this.
    pub own: f64,
    /// Of the peer.
    pub peer: f64,
    /// The most that rounding explains; infinite of integers, which are not judged by it.
    pub most: f64,
}

impl PeerVerdict {
    /// Whether they do.
    #[must_use]
    pub fn is_good(&self) -> bool {
        match self {
            PeerVerdict::Equal | PeerVerdict::Drawn => true,
            PeerVerdict::Rounded(_) | PeerVerdict::Near(_) => true,
            PeerVerdict::PeerOff { .. } | PeerVerdict::OwnOff(_) => false,
            PeerVerdict::BothOff(_) | PeerVerdict::Unjudged(_) => false,
        }
    }

    /// One word, for programs that read it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            PeerVerdict::Equal => "equal",
            PeerVerdict::Drawn => "drawn",
            PeerVerdict::Rounded(_) => "rounded",
            PeerVerdict::Near(_) => "near",
            PeerVerdict::PeerOff { .. } => "peer off",
            PeerVerdict::OwnOff(_) => "own off",
            PeerVerdict::BothOff(_) => "both off",
            PeerVerdict::Unjudged(_) => "unjudged",
        }
    }

    /// In words, of a peer by its name.
    fn text(&self, peer: &str) -> String {
        let errors = |errors: &PeerDifference| match errors.most.is_finite() {
            true => format!(
                "from the model in f64, {peer} is off by {:.1e}, this by {:.1e}; rounding explains \
                 {:.1e}",
                errors.peer, errors.own, errors.most
            ),
            false => "as the model is evaluated in f64".to_owned(),
        };
        match self {
            PeerVerdict::Equal => "equal".to_owned(),
            PeerVerdict::Drawn => "drawn at random, of the same type".to_owned(),
            PeerVerdict::Rounded(found) => format!("equal but for rounding: {}", errors(found)),
            PeerVerdict::Near(why) => format!("equal but for rounding, as far as is known: {why}"),
            PeerVerdict::PeerOff { errors: found, is_confirmed: true } => format!(
                "differs: {peer} is off, not this; without its optimisation it agrees with this; \
                 {}",
                errors(found)
            ),
            PeerVerdict::PeerOff { errors: found, is_confirmed: false } => format!(
                "differs: {peer} is off, not this, as far as both mean the same by the operators; \
                 {}",
                errors(found)
            ),
            PeerVerdict::OwnOff(found) => {
                format!("differs: this is off, not {peer}; {}", errors(found))
            }
            PeerVerdict::BothOff(found) => {
                let nearer = match found.own.partial_cmp(&found.peer) {
                    Some(std::cmp::Ordering::Less) => ", this less",
                    Some(std::cmp::Ordering::Greater) => ", this more",
                    Some(std::cmp::Ordering::Equal) | None => "",
                };
                format!("differs: both are off{nearer}; {}", errors(found))
            }
            PeerVerdict::Unjudged(why) => format!("differs; which is right is not known: {why}"),
        }
    }
}

impl PeerRow {
    fn text(&self, peer: &str) -> String {
        let what = match &self.node {
            Some(node) => format!("{node}: value `{}`", self.name),
            None => format!("output {}", self.name),
        };
        let mut text = format!("{what}: {}: ", self.ty);
        if let Some(Deviation { max_abs, max_rel, type_error: None, .. }) = self.deviation {
            let _ =
                write!(text, "largest difference {max_abs:.1e} absolute, {max_rel:.1e} relative: ");
        }
        text += &self.verdict.text(peer);
        let first = self.deviation.as_ref().and_then(|it| it.first_mismatch.as_ref());
        if let (Some(first), false) = (first, self.verdict.is_good()) {
            let (position, own, theirs) = (&first.position, &first.actual, &first.expected);
            let _ = write!(text, "; first at {position:?}: {own} here, {theirs} there");
        }
        text
    }
}

impl PeerReport {
    /// Whether they agree about everything.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.rows.iter().all(|row| row.verdict.is_good())
    }

    /// As text: a row an output; by nodes those that differ first, or all if it is `verbose`.
    #[must_use]
    pub fn text(&self, verbose: bool) -> String {
        let mut text = String::new();
        let is_shown = |row: &&PeerRow| verbose || !self.by_nodes || !row.verdict.is_good();
        let most = if verbose || !self.by_nodes { usize::MAX } else { MOST_ROWS };
        let shown: Vec<&PeerRow> = self.rows.iter().filter(is_shown).collect();
        for row in shown.iter().take(most) {
            let _ = writeln!(text, "{}", row.text(&self.peer));
        }
        if shown.len() > most {
            let _ = writeln!(text, "and {} more, which `-v` prints", shown.len() - most);
        }
        let PeerReport { peer, rows, by_nodes } = self;
        let one = |singular: &'static str, plural| if rows.len() == 1 { singular } else { plural };
        let what = match by_nodes {
            true => one("value of a node", "values of nodes"),
            false => one("output", "outputs"),
        };
        let _ = write!(text, "{} {what} compared with {peer}: ", rows.len());
        let mut others = rows.iter().filter(|row| !row.verdict.is_good());
        let Some(first) = others.next() else { return text + "no difference\n" };
        let count = 1 + others.count();
        let _ = write!(text, "{count} differ{}", if count == 1 { "s" } else { "" });
        if let Some(node) = &first.node {
            let _ = write!(text, ", first `{}` of {node}", first.name);
        }
        text.push('\n');
        text
    }
}

/// Runs a model with both on these inputs, one value for each of the model's, and compares the
/// outputs, or, `by_nodes`, the value of each node. `progress` hears what is at hand.
///
/// # PeerDifference
/// What is wrong with the model, its inputs or the options; faults while running; those of the
/// peer: `TW0406`, `TW0407`; `TW0602` if no element is there to be compared.
pub fn compare(
    model: &Path,
    options: &Options,
    inputs: &[Value],
    peer: &Peer,
    by_nodes: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<PeerReport> {
    let folder = TemporaryFolder::new()?;
    let subject = match by_nodes {
        true => Subject::of_nodes(model, options, inputs, folder.path())?,
        false => Subject::of_outputs(model, options)?,
    };
    progress("this");
    let executable = compile_source(subject.source, &subject.options)?;
    let own = executable.run_values(inputs)?;
    progress("onnxruntime");
    let run = |optimised| peer.run(&subject.file, inputs, own.len(), optimised);
    let PeerRun { name, outputs } = run(!by_nodes)?;
    let judge =
        Judge { executable: &executable, inputs, reference: OnceCell::new(), name: &subject.names };
    progress("the comparison");
    let mut rows = judge.rows(&own, &outputs);
    let is_peer_off = |row: &PeerRow| matches!(row.verdict, PeerVerdict::PeerOff { .. });
    if !by_nodes && rows.iter().any(is_peer_off) {
        progress("onnxruntime without optimisation");
        // What it refuses to run so confirms nothing.
        let again = run(false).map(|again| judge.rows(&own, &again.outputs)).unwrap_or_default();
        for (row, again) in rows.iter_mut().zip(&again) {
            if let PeerVerdict::PeerOff { is_confirmed, .. } = &mut row.verdict {
                *is_confirmed = row.name == again.name && again.verdict.is_good();
            }
        }
    }
    let has_elements = |row: &PeerRow| match &row.deviation {
        Some(deviation) => deviation.elements > 0 || deviation.type_error.is_some(),
        None => !row.verdict.is_good(),
    };
    if !rows.iter().any(has_elements) {
        let names: Vec<String> = subject.names.into_iter().map(|(_, name)| name).collect();
        return Err(nothing(&names));
    }
    Ok(PeerReport { peer: name, rows, by_nodes })
}

/// What both run.
struct Subject {
    source: Source,
    options: Options,
    /// The same for the peer.
    file: PathBuf,
    /// For each output its name and the node that it is of.
    names: Vec<(Option<String>, String)>,
}

impl Subject {
    fn of_outputs(model: &Path, options: &Options) -> Result<Subject> {
        let whole = DecodedModel::read(model, &options.limits)?;
        let names = whole.outputs().into_iter().map(|name| (None, name)).collect();
        let (source, options) = (Source::from(whole), options.clone());
        Ok(Subject { source, options, file: model.to_owned(), names })
    }

    fn of_nodes(
        model: &Path,
        options: &Options,
        inputs: &[Value],
        folder: &Path,
    ) -> Result<Subject> {
        let whole = DecodedModel::read(model, &options.limits)?;
        let ports = whole.info().inputs.into_iter().map(|port| port.name);
        let inputs: Vec<(String, Value)> = ports.zip(inputs.iter().cloned()).collect();
        let nodes = 0..whole.node_count();
        let of_node = |node: usize| {
            let place = whole.place(node);
            whole.gives(node).map(move |name| (Some(place.clone()), name.to_owned()))
        };
        let names: Vec<(Option<String>, String)> = nodes.clone().flat_map(of_node).collect();
        let outputs: Vec<String> = names.iter().map(|(_, name)| name.clone()).collect();
        let excerpt = whole.excerpt(&nodes.collect(), &inputs, &outputs)?;
        let file = folder.join("model.onnx");
        fs::write(&file, excerpt.encode()).map_err(|error| not_written(&file, &error))?;
        Ok(Subject { source: part(&excerpt), options: of_part(options), file, names })
    }
}

/// Compares what two engines gave.
struct Judge<'a> {
    executable: &'a Executable,
    inputs: &'a [Value],
    /// The model in f64, made where it is first asked for; why there is none, if there is not.
    reference: OnceCell<std::result::Result<Reference, String>>,
    name: &'a [(Option<String>, String)],
}

impl Judge<'_> {
    fn rows(&self, own: &[Value], theirs: &[Value]) -> Vec<PeerRow> {
        let mut rows = Vec::new();
        let mut number = 0;
        for ((own, theirs), (node, name)) in own.iter().zip(theirs).zip(self.name) {
            let row = |name, ty, deviation, verdict| {
                let node = node.clone();
                PeerRow { node, name, ty, deviation, verdict }
            };
            match own.pairs(&made_as(theirs.clone(), own), name) {
                Err(how) => {
                    let verdict = PeerVerdict::Unjudged(how);
                    rows.push(row(name.clone(), kind_of(own).to_owned(), None, verdict));
                }
                Ok(pairs) if pairs.is_empty() => {
                    let ty = format!("{}, empty", kind_of(own));
                    rows.push(row(name.clone(), ty, None, PeerVerdict::Equal));
                }
                Ok(pairs) => {
                    // Of a list of maps, the keys are a component, too, which is in front.
                    let first = number + usize::from(matches!(own, Value::Maps(..)));
                    for (at, (name, own, theirs)) in pairs.into_iter().enumerate() {
                        let tolerance =
                            Tolerance { absolute: OF_ANY_ENGINE, ..Tolerance::default() };
                        let deviation = tolerance.compare(&own, &theirs);
                        let verdict = self.verdict(first + at, &own, &theirs, &deviation);
                        let ty = format!("{}{:?}", own.dtype(), own.shape());
                        rows.push(row(name, ty, Some(deviation), verdict));
                    }
                }
            }
            let components = Value::components_of(std::slice::from_ref(own));
            number += Value::tensors_of(&components).len();
        }
        rows
    }

    /// What is to be made of a tensor by its number among all.
    fn verdict(
        &self,
        number: usize,
        own: &Tensor,
        theirs: &Tensor,
        deviation: &Deviation,
    ) -> PeerVerdict {
        if self.executable.draws() && deviation.type_error.is_none() {
            return PeerVerdict::Drawn;
        }
        if deviation.passed() {
            return PeerVerdict::Equal;
        }
        if deviation.type_error.is_some() {
            let ty = |tensor: &Tensor| format!("{}{:?}", tensor.dtype(), tensor.shape());
            let why = format!("it is {} here, {} there", ty(own), ty(theirs));
            return PeerVerdict::Unjudged(why);
        }
        let reference = self
            .reference
            .get_or_init(|| reference(self.executable, self.inputs, VERIFY_OPERATIONS));
        let reference = match reference {
            Ok(reference) => reference,
            Err(why) => {
                let options = self.executable.options();
                let is_near =
                    own.dtype().is_float() && wrong_beside(theirs, own, options).is_none();
                let verdict = if is_near { PeerVerdict::Near } else { PeerVerdict::Unjudged };
                return verdict(why.clone());
            }
        };
        let (own_error, most, own_is_off) = reference.result(number, own);
        let (peer_error, _, peer_is_off) = reference.result(number, theirs);
        let errors = PeerDifference { own: own_error, peer: peer_error, most };
        match (own_is_off.is_some(), peer_is_off.is_some()) {
            (false, false) => PeerVerdict::Rounded(errors),
            (false, true) => PeerVerdict::PeerOff { errors, is_confirmed: false },
            (true, false) => PeerVerdict::OwnOff(errors),
            (true, true) => PeerVerdict::BothOff(errors),
        }
    }
}

/// What a peer gave, in the form in which this gives it: the peer does not tell an optional value
/// that is there from what it holds, nor lists of no maps from other empty lists.
fn made_as(theirs: Value, own: &Value) -> Value {
    match (theirs, own) {
        (theirs @ Value::Optional(_), Value::Optional(_)) => theirs,
        (theirs, Value::Optional(Some(own))) => {
            Value::Optional(Some(Box::new(made_as(theirs, own))))
        }
        (theirs, Value::Optional(None)) => Value::Optional(Some(Box::new(theirs))),
        (Value::Sequence(theirs), Value::Maps(keys, numbers)) if theirs.is_empty() => {
            let none = Tensor::from_scalars(numbers.dtype(), &[0, keys.len()], &[]);
            Value::Maps(keys.clone(), none)
        }
        (Value::Sequence(theirs), Value::Sequence(own)) => {
            let mut own = own.iter();
            let made = |value| match own.next() {
                Some(own) => made_as(value, own),
                None => value,
            };
            Value::Sequence(theirs.into_iter().map(made).collect())
        }
        (theirs, _) => theirs,
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Tensor(_) => "a tensor",
        Value::Sequence(_) => "a sequence",
        Value::Optional(_) => "an optional value",
        Value::Maps(..) => "maps",
        Value::Map(..) => "a map",
    }
}

#[cfg(test)]
mod tests {
    use tensor::Keys;

    use super::*;

    #[test]
    fn the_one_that_is_off_is_named() {
        let text = |verdict: &PeerVerdict| verdict.text("it");
        let errors = PeerDifference { own: 0.5, peer: 1e-7, most: 1e-5 };
        let (own, both) = (PeerVerdict::OwnOff(errors), PeerVerdict::BothOff(errors));
        assert!(text(&own).starts_with("differs: this is off, not it; from the model in f64"));
        assert!(text(&both).starts_with("differs: both are off, this more; "));
        assert!(!own.is_good() && !both.is_good() && PeerVerdict::Rounded(errors).is_good());
        let errors = PeerDifference { most: f64::INFINITY, ..errors };
        let peer = PeerVerdict::PeerOff { errors, is_confirmed: true };
        assert!(text(&peer).ends_with("agrees with this; as the model is evaluated in f64"));
    }

    #[test]
    fn what_a_peer_does_not_tell_is_taken_as_it_is_here() {
        let tensor = || Value::from(Tensor::from_slice(&[1], &[1.0_f32]));
        let some = |value| Value::Optional(Some(Box::new(value)));
        let maps = Value::Maps(Keys::Integers(vec![7]), Tensor::from_slice::<f32>(&[0, 1], &[]));
        let (none, empty) = (Value::Optional(None), Value::Sequence(Vec::new()));
        let pairs = [
            (tensor(), some(tensor())),
            (none.clone(), none.clone()),
            (empty.clone(), some(empty.clone())),
            (empty, maps),
            (Value::Sequence(vec![tensor()]), Value::Sequence(vec![some(tensor())])),
        ];
        for (theirs, own) in pairs {
            assert_eq!(made_as(theirs, &own).structure(), own.structure());
        }
        assert_ne!(made_as(tensor(), &none).structure(), none.structure());
        assert_ne!(made_as(none, &tensor()).structure(), tensor().structure());
    }
}
