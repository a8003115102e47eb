//! Kernels that differ in constants alone as one function that takes these as arguments, where code
//! is dear.
//!
//! Constants of places in memory and extents of loops are marked where they are written. Kernels
//! whose texts are the same but for what is marked may share a function: a constant that differs
//! becomes a parameter, or a multiple of one and a constant, where it is that for all of them. The
//! function with the constants of a kernel is the kernel's own text, so it computes the same.

use std::collections::BTreeMap;

use backend::Isa;
use base::{IntoTree, KernelId};

use crate::kernel::{KernelCode, KernelText, Parameter};

/// What stands around a marked constant; no text of C has them.
const MARKS: [char; 2] = ['\u{1}', '\u{2}'];

/// The most parameters that constants become.
const MOST_PARAMETERS: usize = 8;

/// Statements that a kernel must have for each parameter, at least: passing one is code, too.
const STATEMENTS_A_PARAMETER: usize = 2;

/// Statements that a kernel must have besides.
const STATEMENTS: usize = 4;

/// A constant in a text, marked.
pub(crate) fn marked(value: u64) -> String {
    let [begin, end] = MARKS;
    format!("{begin}{value}{end}")
}

/// A text without its marked constants, and these.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Template {
    /// What stands in front of each constant, and behind the last.
    pieces: Vec<String>,
    constants: Vec<u64>,
}

impl Template {
    fn of(text: &str) -> Template {
        let [begin, end] = MARKS;
        let mut parts = text.split(begin);
        let mut template =
            Template { pieces: vec![parts.next().unwrap_or("").to_owned()], constants: vec![] };
        for part in parts {
            let (constant, piece) = part.split_once(end).unwrap_or((part, ""));
            template.constants.push(constant.parse().unwrap_or(0));
            template.pieces.push(piece.to_owned());
        }
        template
    }

    /// The text with something in the place of each constant.
    fn filled(&self, mut constant: impl FnMut(usize) -> String) -> String {
        let mut text = self.pieces[0].clone();
        for (number, piece) in self.pieces[1..].iter().enumerate() {
            text.push_str(&constant(number));
            text.push_str(piece);
        }
        text
    }

    fn statements(&self) -> usize {
        self.pieces.iter().map(|piece| piece.matches(';').count()).sum()
    }
}

/// What a constant is in all kernels of a group.
enum Place {
    Same(u64),
    /// A parameter by its number, times a factor, plus a term.
    Parameter(usize, i128, i128),
}

/// Kernels of one function: the values that each constant has in them, one a kernel.
#[derive(Clone, Debug, Default)]
struct Group {
    kernels: Vec<KernelId>,
    columns: Vec<Vec<u64>>,
}

impl Group {
    fn with(&self, kernel: KernelId, constants: &[u64]) -> Group {
        let mut group = self.clone();
        group.kernels.push(kernel);
        group.columns.resize(constants.len(), Vec::new());
        group.columns.iter_mut().zip(constants).for_each(|(column, &value)| column.push(value));
        group
    }

    /// The values of the parameters, one a kernel each, and what each constant is.
    fn places(&self) -> (Vec<Vec<u64>>, Vec<Place>) {
        let differs = |column: &Vec<u64>| column.iter().any(|value| *value != column[0]);
        let mut candidates: Vec<&Vec<u64>> =
            self.columns.iter().filter(|column| differs(column)).collect();
        candidates.sort_unstable();
        candidates.dedup();
        let mut parameters: Vec<Vec<u64>> = Vec::new();
        for column in candidates {
            if parameters.iter().all(|parameter| multiple(column, parameter).is_none()) {
                parameters.push(column.clone());
            }
        }
        let place = |column: &Vec<u64>| {
            if !differs(column) {
                return Place::Same(column[0]);
            }
            let own = |(number, parameter): (usize, &Vec<u64>)| {
                multiple(column, parameter).map(|(by, plus)| Place::Parameter(number, by, plus))
            };
            let exact = parameters.iter().position(|parameter| parameter == column);
            let exact = exact.map(|number| Place::Parameter(number, 1, 0));
            let found = exact.or_else(|| parameters.iter().enumerate().find_map(own));
            found.unwrap_or(Place::Same(column[0]))
        };
        let places = self.columns.iter().map(place).collect();
        (parameters, places)
    }
}

/// The factor and the term that make each value of a column of that of a parameter, if there are
/// such; the factor is at least 1 and the term not negative, so that no value is less than either.
fn multiple(column: &[u64], parameter: &[u64]) -> Option<(i128, i128)> {
    let pairs = || column.iter().zip(parameter).map(|(a, b)| (i128::from(*a), i128::from(*b)));
    let (first, own) = pairs().next()?;
    let (other, different) = pairs().find(|(_, parameter)| *parameter != own)?;
    let by = (other - first) / (different - own);
    let plus = first - by * own;
    let is_so = by >= 1 && plus >= 0 && pairs().all(|(value, of)| value == by * of + plus);
    is_so.then_some((by, plus))
}

/// The functions that kernels become: each its own, or, where code is dear, one for those that
/// differ in constants alone.
pub(crate) fn functions(
    texts: BTreeMap<KernelId, KernelText>,
    is_code_dear: bool,
) -> BTreeMap<KernelId, KernelCode> {
    let templates: BTreeMap<KernelId, Template> =
        texts.iter().map(|(id, text)| (*id, Template::of(&text.body))).into_map();
    let mut groups: Vec<Group> = Vec::new();
    for (&id, template) in &templates {
        let joined = groups.iter_mut().find_map(|group| {
            let leader = *group.kernels.first().filter(|_| is_code_dear)?;
            let is_same = templates[&leader].pieces == template.pieces
                && is_like(&texts[&leader], &texts[&id]);
            let joined = is_same.then(|| group.with(id, &template.constants))?;
            let parameters = joined.places().0.len();
            let pays = template.statements() >= STATEMENTS + STATEMENTS_A_PARAMETER * parameters;
            (parameters <= MOST_PARAMETERS && pays).then_some((group, joined))
        });
        match joined {
            Some((group, joined)) => *group = joined,
            None => groups.push(Group::default().with(id, &template.constants)),
        }
    }
    let mut codes = BTreeMap::new();
    for group in groups {
        let (parameters, places) = group.places();
        let Some(&leader) = group.kernels.first() else { continue };
        let text = definition(&group, &texts, &templates[&leader], &places, parameters.len());
        for (number, &id) in group.kernels.iter().enumerate() {
            let KernelText { returns_fault, symbols, scratch_bytes, .. } = texts[&id].clone();
            let name = texts[&leader].name.clone();
            let text = if id == leader { text.clone() } else { String::new() };
            let constants = parameters.iter().map(|values| values[number]).collect();
            codes.insert(
                id,
                KernelCode { name, text, returns_fault, symbols, scratch_bytes, constants },
            );
        }
    }
    codes
}

/// About how many bytes of instructions the functions become, by their calls and elements and by
/// their loops: weights that come within a quarter of what GCC 12 makes at `-O2` of the models of
/// MLPerf Tiny on a Cortex-M7, and a little farther off on a Cortex-M55.
pub(crate) fn code_bytes(kernels: &[&KernelCode], isa: Isa) -> Option<u64> {
    let (each, looped) = match isa {
        Isa::ArmDsp => (8, 40),
        Isa::ArmHelium => (4, 60),
        _ => return None,
    };
    // Beside intrinsics stands the same for compilers without them.
    let mut is_beside = false;
    let mut count = 0;
    for line in kernels.iter().flat_map(|code| code.text.lines()) {
        match line.trim_start() {
            "#else" => is_beside = true,
            "#endif" => is_beside = false,
            line if !is_beside && !line.starts_with("/*") => {
                let begins = |(before, sign): (char, char)| {
                    sign == '[' || sign == '(' && (before.is_alphanumeric() || before == '_')
                };
                let pairs = line.chars().zip(line.chars().skip(1));
                count += each * pairs.filter(|pair| begins(*pair)).count() as u64;
                count += looped * u64::from(line.starts_with("for ("));
            }
            _ => {}
        }
    }
    Some(count)
}

/// Whether two functions take and return the same.
fn is_like(a: &KernelText, b: &KernelText) -> bool {
    let types = |text: &KernelText| -> Vec<(String, String)> {
        text.parameters.iter().map(|it| (it.ty.clone(), it.name.clone())).collect()
    };
    a.returns_fault == b.returns_fault && types(a) == types(b)
}

/// The definition of the function of a group.
fn definition(
    group: &Group,
    texts: &BTreeMap<KernelId, KernelText>,
    template: &Template,
    places: &[Place],
    count: usize,
) -> String {
    let all = || group.kernels.iter().map(|id| &texts[id]);
    let own = &texts[&group.kernels[0]];
    let parameters = own.parameters.iter().enumerate().map(|(number, parameter)| {
        let is_unshared = all().all(|text| text.parameters[number].is_unshared);
        Parameter { is_unshared, ..parameter.clone() }.text()
    });
    let name = |number: usize| format!("tw_constant_{number}");
    let constants = (0..count).map(|number| format!("ptrdiff_t {}", name(number)));
    let parameters: Vec<String> = parameters.chain(constants).collect();
    let parameters = if parameters.is_empty() { "void".to_owned() } else { parameters.join(", ") };
    let body = template.filled(|number| match places[number] {
        Place::Same(value) => value.to_string(),
        Place::Parameter(number, 1, 0) => name(number),
        Place::Parameter(number, by, 0) => format!("({by} * {})", name(number)),
        Place::Parameter(number, 1, plus) => format!("({} + {plus})", name(number)),
        Place::Parameter(number, by, plus) => format!("({by} * {} + {plus})", name(number)),
    });
    let result = if own.returns_fault { "int" } else { "void" };
    let headlines: Vec<&str> = all().map(|text| text.headline.as_str()).collect();
    format!(
        "/* {} */\nstatic {result} {}({parameters})\n{{\n{body}}}\n",
        headlines.join("; "),
        own.name
    )
}
