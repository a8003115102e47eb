//! The verifier: what must hold of every function between passes.
//!
//! - Every value is defined once, by the region or node that its definition names, and used only
//!   after that, in the same region or one around it that is open there.
//! - Every node and region stands in one place; nodes have the regions that their primitive asks
//!   for.
//! - Result types are those that `infer` gives.
//! - Symbols have one definition: the caller, an axis of a parameter's type, or a node (`Bind`, or
//!   control flow that changes extents), which comes before every use. Names of symbols,
//!   parameters and results are distinct.
//! - Assumptions name symbols that have a definition, wherever it is.

use std::collections::BTreeMap;

use base::text::Printer;
use base::{Diagnostic, Diagnostics, SecondaryMap, codes};
use sym::{Expr, SymbolId};

use crate::function::{Assumption, Definition, Function, NodeId, RegionId, Type, ValueId};
use crate::infer::infer_with_regions;
use crate::op::Op;
use crate::text::{Notes, type_text};

/// Checks a function.
///
/// # Errors
/// One diagnostic with everything found and the function's listing, in which sentences about nodes
/// stand under them.
pub fn verify(function: &Function) -> base::Result<()> {
    let mut verifier = Verifier {
        function,
        notes: Notes::new(),
        general: Vec::new(),
        visible: SecondaryMap::new(),
        known: SecondaryMap::new(),
        seen_nodes: SecondaryMap::new(),
        seen_regions: SecondaryMap::new(),
    };
    verifier.names();
    verifier.parameters();
    verifier.region(function.body);
    verifier.assumptions();
    verifier.finish()
}

struct Verifier<'a> {
    function: &'a Function,
    notes: Notes,
    /// What is wrong with no node in particular.
    general: Vec<String>,
    /// Values that may be used here.
    visible: SecondaryMap<ValueId, bool>,
    /// Symbols defined so far.
    known: SecondaryMap<SymbolId, bool>,
    seen_nodes: SecondaryMap<NodeId, bool>,
    seen_regions: SecondaryMap<RegionId, bool>,
}

impl Verifier<'_> {
    fn finish(self) -> base::Result<()> {
        if self.notes.is_empty() && self.general.is_empty() {
            return Ok(());
        }
        let mut printer = Printer::new();
        self.function.print(&mut printer, &self.notes);
        let message = format!("graph function `{}` is ill-formed", self.function.name);
        let mut diagnostic = Diagnostic::error(codes::VERIFIER_FAILED, message);
        diagnostic.reasons = self.general;
        let first = self.notes.into_iter().next();
        if let Some((node, notes)) = first {
            let location = self.function.nodes[node].location;
            diagnostic.place = Some(self.function.locations.describe(location));
            diagnostic.reasons.extend(notes);
        }
        diagnostic.reasons.push(printer.finish());
        Err(Diagnostics::from(diagnostic))
    }

    fn names(&mut self) {
        let function = self.function;
        let symbols: Vec<&String> = function.symbols.values().map(|symbol| &symbol.name).collect();
        let lists = [
            ("symbol", symbols),
            ("parameter", function.parameter_names.iter().collect()),
            ("result", function.result_names.iter().collect()),
        ];
        for (what, names) in lists {
            let mut count = BTreeMap::new();
            for name in names {
                let count = count.entry(name).or_insert(0);
                *count += 1;
                if *count == 2 {
                    self.general.push(format!("two {what}s are called `{name}`"));
                }
            }
        }
        let (parameters, results) = (function.parameters().len(), function.results().len());
        if parameters != function.parameter_names.len() || results != function.result_names.len() {
            let names = (function.parameter_names.len(), function.result_names.len());
            self.general.push(format!(
                "{parameters} parameters and {results} results, but {} and {} names",
                names.0, names.1
            ));
        }
    }

    /// The symbols that are given, and those that parameters define: which alone are an axis's
    /// extent.
    fn parameters(&mut self) {
        let function = self.function;
        for &symbol in &function.given {
            self.known[symbol] = true;
        }
        for &value in function.parameters() {
            for extent in function.ty(value).exprs() {
                if let Some(symbol) = extent.as_symbol() {
                    self.known[symbol] = true;
                }
            }
        }
        let mut problems = Vec::new();
        for &value in function.parameters() {
            problems.extend(self.unknown_symbols(function.ty(value).exprs()));
        }
        self.general.extend(problems);
    }

    /// The symbols in assumptions: those of parameters, and those that the body binds.
    fn assumptions(&mut self) {
        let exprs = self.function.assumptions.iter().flat_map(Assumption::exprs);
        let problems = self.unknown_symbols(exprs);
        self.general.extend(problems);
    }

    fn unknown_symbols<'e>(&self, exprs: impl IntoIterator<Item = &'e Expr>) -> Vec<String> {
        let symbols = exprs.into_iter().flat_map(Expr::symbols);
        let mut unknown: Vec<SymbolId> = symbols.filter(|&symbol| !self.known[symbol]).collect();
        unknown.dedup();
        let text = |symbol| {
            format!("symbol `{}` is not defined before", self.function.symbol_name(symbol))
        };
        unknown.into_iter().map(text).collect()
    }

    fn note(&mut self, node: NodeId, note: String) {
        self.notes.entry(node).or_default().push(note);
    }

    /// Makes a value usable if it says of itself what its place says.
    fn define(&mut self, value: ValueId, definition: Definition) -> Option<String> {
        let Some(data) = self.function.values.get(value) else {
            return Some(format!("{value} does not exist"));
        };
        let first = !std::mem::replace(&mut self.visible[value], true);
        let consistent = first && data.definition == definition;
        (!consistent).then(|| "a result or parameter is defined elsewhere too".to_owned())
    }

    fn region(&mut self, region: RegionId) {
        if std::mem::replace(&mut self.seen_regions[region], true) {
            self.general.push(format!("region {region} stands in two places"));
            return;
        }
        let Some(data) = self.function.regions.get(region) else {
            self.general.push(format!("region {region} does not exist"));
            return;
        };
        let mut defined = data.parameters.clone();
        for (number, &value) in data.parameters.iter().enumerate() {
            let definition = Definition::Parameter(region, number as u32);
            let problem = self.define(value, definition);
            self.general.extend(problem);
        }
        for &node in &data.nodes {
            self.node(node);
            defined.extend(self.function.nodes.get(node).into_iter().flat_map(|n| &n.results));
        }
        for &value in &data.results {
            if !self.visible[value] {
                let reason = "a result of a region or of the function is not visible at its end";
                self.general.push(reason.to_owned());
            }
        }
        // What a region defines is not seen outside.
        if region != self.function.body {
            defined.into_iter().for_each(|value| self.visible[value] = false);
        }
    }

    fn node(&mut self, id: NodeId) {
        if std::mem::replace(&mut self.seen_nodes[id], true) {
            self.general.push(format!("node {id} stands in two places"));
            return;
        }
        let function = self.function;
        let Some(node) = function.nodes.get(id) else {
            self.general.push(format!("node {id} does not exist"));
            return;
        };
        let hidden = node.operands.iter().position(|&value| !self.visible[value]);
        if let Some(number) = hidden {
            self.note(id, format!("operand {number} is not visible here"));
        }
        // Those of loops are known in their regions, too.
        let defined = function.symbols_defined_by(id);
        let is_loop = matches!(node.op, Op::While { .. } | Op::Scan { .. });
        if is_loop {
            self.define_symbols(id, &defined);
        }
        node.regions.iter().for_each(|&region| self.region(region));
        if hidden.is_none() {
            self.types(id);
        }
        if !is_loop {
            self.define_symbols(id, &defined);
        }
        for problem in self.unknown_symbols(node.op.exprs()) {
            self.note(id, problem);
        }
        if let Op::Bind { symbol, range } = &node.op
            && function.symbols.get(*symbol).is_none_or(|symbol| symbol.range != *range)
        {
            self.note(id, "the range is not that of the symbol".to_owned());
        }
        for (number, &value) in node.results.iter().enumerate() {
            let problem = self.define(value, Definition::Result(id, number as u32));
            problem.into_iter().for_each(|problem| self.note(id, problem));
        }
    }

    fn define_symbols(&mut self, id: NodeId, symbols: &[SymbolId]) {
        for &symbol in symbols {
            if std::mem::replace(&mut self.known[symbol], true) {
                let name = self.function.symbol_name(symbol);
                self.note(id, format!("symbol `{name}` is defined twice"));
            }
        }
    }

    fn types(&mut self, id: NodeId) {
        let function = self.function;
        let node = &function.nodes[id];
        let operands: Vec<&Type> = node.operands.iter().map(|&value| function.ty(value)).collect();
        let regions: Vec<_> =
            node.regions.iter().map(|&region| function.region_type(region)).collect();
        let names = |symbol| function.symbol_name(symbol);
        let inferred = match infer_with_regions(&node.op, &operands, &regions, &names) {
            Ok(inferred) => inferred,
            Err(reason) => return self.note(id, reason),
        };
        if inferred.len() != node.results.len() {
            let reason = format!("{} results for {}", node.results.len(), inferred.len());
            return self.note(id, reason);
        }
        for (number, (&value, expected)) in node.results.iter().zip(&inferred).enumerate() {
            let found = function.ty(value);
            if found != expected {
                let (found, expected) = (type_text(found, &names), type_text(expected, &names));
                self.note(id, format!("result {number} has type {found}, not {expected}"));
            }
        }
    }
}
