//! Functions to text.

use std::collections::BTreeMap;
use std::fmt;

use base::text::{Printer, Quoted, Separated, is_identifier};
use base::{Id, Locations, SecondaryMap};
use sym::{Expr, SymbolId};
use tensor::Tensor;

use super::{Names, assumption_text, type_text};
use crate::function::{Function, NodeId, RegionId, ValueId};
use crate::op::{IterationSpace, Op};

/// Sentences about nodes, printed as comments under them.
pub(crate) type Notes = BTreeMap<NodeId, Vec<String>>;

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer::new();
        print(self, &mut printer);
        f.write_str(&printer.finish())
    }
}

/// Prints the function.
pub fn print(function: &Function, printer: &mut Printer) {
    function.print(printer, &Notes::new());
}

impl Function {
    /// Prints the function, and each note under its node.
    pub(crate) fn print(&self, printer: &mut Printer, notes: &Notes) {
        let mut listing = Listing { function: self, numbers: self.numbers(), notes };
        printer.block(format_args!("function {}", marked_name('@', &self.name)), |printer| {
            listing.head(printer);
            listing.nodes(self.body, printer);
            let result = |(&value, name): (&ValueId, &String)| {
                format!("{} as {}", listing.value(value), Quoted(name))
            };
            let results: Vec<String> =
                self.results().iter().zip(&self.result_names).map(result).collect();
            printer.line(format!("return {}", Separated(", ", &results)).trim_end());
        });
    }

    /// The number of each value in text: its place in order of appearance.
    fn numbers(&self) -> SecondaryMap<ValueId, Option<u32>> {
        let mut numbers = SecondaryMap::new();
        self.number_region(self.body, &mut 0, &mut numbers);
        numbers
    }

    fn number_region(
        &self,
        region: RegionId,
        count: &mut u32,
        numbers: &mut SecondaryMap<ValueId, Option<u32>>,
    ) {
        let region = &self.regions[region];
        number(&region.parameters, count, numbers);
        for &node in &region.nodes {
            let node = &self.nodes[node];
            number(&node.results, count, numbers);
            node.regions.iter().for_each(|&inner| self.number_region(inner, count, numbers));
        }
    }

    /// What text calls each value that is there: `%v12`.
    pub fn value_texts(&self) -> BTreeMap<ValueId, String> {
        let numbers = self.numbers();
        let text =
            |(value, number): (ValueId, &Option<u32>)| Some((value, format!("%v{}", (*number)?)));
        numbers.iter().filter_map(text).collect()
    }
}

fn number(values: &[ValueId], count: &mut u32, numbers: &mut SecondaryMap<ValueId, Option<u32>>) {
    for &value in values {
        numbers[value] = numbers[value].or(Some(*count));
        *count += 1;
    }
}

/// `@main`; a name that is no identifier in quotes.
pub(crate) fn marked_name(mark: char, name: &str) -> String {
    let plain = !name.is_empty() && is_identifier(&format!("_{name}"));
    if plain { format!("{mark}{name}") } else { format!("{mark}{}", Quoted(name)) }
}

struct Listing<'a> {
    function: &'a Function,
    numbers: SecondaryMap<ValueId, Option<u32>>,
    notes: &'a Notes,
}

impl Listing<'_> {
    fn value(&self, value: ValueId) -> String {
        match self.numbers[value] {
            Some(number) => format!("%v{number}"),
            // Only in listings of functions that do not verify.
            None => format!("%undefined.{}", value.index()),
        }
    }

    fn values(&self, values: &[ValueId]) -> String {
        let values: Vec<String> = values.iter().map(|&value| self.value(value)).collect();
        Separated(", ", &values).to_string()
    }

    fn symbol(&self, symbol: SymbolId) -> String {
        self.function.symbol_name(symbol)
    }

    fn expr(&self, expr: &Expr) -> String {
        expr.display(&|symbol| self.symbol(symbol)).to_string()
    }

    fn exprs(&self, exprs: &[Expr]) -> String {
        let exprs: Vec<String> = exprs.iter().map(|expr| self.expr(expr)).collect();
        format!("[{}]", Separated(", ", &exprs))
    }

    /// `%v3 "name": f32[2]`
    fn definition(&self, value: ValueId) -> String {
        let data = &self.function.values[value];
        let name = data.name.as_ref().map(|name| format!(" {}", Quoted(name))).unwrap_or_default();
        let names: Names<'_> = &|symbol| self.symbol(symbol);
        format!("{}{name}: {}", self.value(value), type_text(&data.ty, names))
    }

    fn head(&mut self, printer: &mut Printer) {
        let function = self.function;
        for (id, symbol) in function.symbols.iter() {
            let name = self.expr(&Expr::symbol(id));
            printer.line(format_args!("symbol {name} in {}", symbol.range));
        }
        for assumption in &function.assumptions {
            let text = assumption_text(assumption, &|symbol| self.symbol(symbol));
            printer.line(format_args!("assume {text}"));
        }
        for (&value, name) in function.parameters().iter().zip(&function.parameter_names) {
            let definition = self.definition(value);
            printer.line(format_args!("parameter {definition} as {}", Quoted(name)));
        }
    }

    fn nodes(&self, region: RegionId, printer: &mut Printer) {
        for &node in &self.function.regions[region].nodes {
            self.node(node, printer);
            for note in self.notes.get(&node).into_iter().flatten() {
                printer.line(format_args!("// ^ {note}"));
            }
        }
    }

    fn node(&self, id: NodeId, printer: &mut Printer) {
        let node = &self.function.nodes[id];
        let results: Vec<String> =
            node.results.iter().map(|&value| self.definition(value)).collect();
        if !results.is_empty() {
            printer.put(format_args!("{} = ", Separated(", ", &results)));
        }
        printer.put(format!("{} {}", node.op.name(), self.op(&node.op, &node.operands)).trim_end());
        for (&label, &region) in node.op.region_labels().iter().zip(&node.regions) {
            self.region(label, region, printer);
        }
        if node.location != Locations::UNKNOWN {
            printer.put(format_args!(" {}", self.function.locations.display(node.location)));
        }
        printer.line("");
    }

    fn region(&self, label: &str, region: RegionId, printer: &mut Printer) {
        let data = &self.function.regions[region];
        let parameters: Vec<String> =
            data.parameters.iter().map(|&value| self.definition(value)).collect();
        printer.put(format_args!(" {label} "));
        if !parameters.is_empty() {
            printer.put(format_args!("({}) ", Separated(", ", &parameters)));
        }
        printer.line("{");
        printer.indent();
        self.nodes(region, printer);
        printer.line(format!("yield {}", self.values(&data.results)).trim_end());
        printer.dedent();
        printer.put("}");
    }

    /// Attributes, as far as the result types do not imply them, and operands.
    fn op(&self, op: &Op, operands: &[ValueId]) -> String {
        let values = self.values(operands);
        match op {
            Op::Literal(tensor) => literal_text(tensor),
            Op::Weight { constant, .. } => format!("@{constant}"),
            Op::Iota { axis, .. } => format!("axis {axis}"),
            Op::Dimension(expr) => self.expr(expr),
            Op::Bind { symbol, range } => {
                format!("{} in {range} {values}", self.expr(&Expr::symbol(*symbol)))
            }
            Op::Map { function, .. } => format!("{function} {values}"),
            Op::Broadcast { axes, .. } => format!("axes {axes:?} {values}"),
            Op::Transpose { permutation } => format!("{permutation:?} {values}"),
            Op::Slice { starts, steps, .. } => {
                format!("starts {} steps {steps:?} {values}", self.exprs(starts))
            }
            Op::Pad { low, high, interior } => {
                let (low, high) = (self.exprs(low), self.exprs(high));
                format!("low {low} high {high} interior {interior:?} {values}")
            }
            Op::Concat { axis } => format!("axis {axis} {values}"),
            Op::Gather { axes, batch, position } => {
                format!("axes {axes:?} batch {batch} position {position} {values}")
            }
            Op::Scatter { axes, batch, position, reduction } => {
                let how = reduction.map_or("replace", |reduction| reduction.name());
                format!("{how} axes {axes:?} batch {batch} position {position} {values}")
            }
            Op::Contract { space, accumulator, .. } => {
                format!("{} accumulate {accumulator}", self.space(space, operands))
            }
            Op::Reduce { space, reduction, .. } => {
                format!("{reduction} {}", self.space(space, operands))
            }
            Op::ArgReduce { axis, greatest, last } => {
                let which = if *greatest { "greatest" } else { "least" };
                format!("{} {which} axis {axis} {values}", if *last { "last" } else { "first" })
            }
            Op::Cumulate { axis, reduction, exclusive, reverse } => {
                let exclusive = if *exclusive { " exclusive" } else { "" };
                let reverse = if *reverse { " reverse" } else { "" };
                format!("{reduction}{exclusive}{reverse} axis {axis} {values}")
            }
            Op::Sort { axis, descending } => {
                let order = if *descending { "descending" } else { "ascending" };
                format!("{order} axis {axis} {values}")
            }
            Op::Scan { trip_count, carried, reverse } => {
                let reverse = if *reverse { " reverse" } else { "" };
                format!("trips {} carried {carried}{reverse} {values}", self.expr(trip_count))
            }
            Op::Call { kernel, .. } => format!("@{kernel} {values}"),
            Op::Host { name, .. } => format!("{} {values}", Quoted(name)),
            Op::Reshape { .. }
            | Op::Bitcast { .. }
            | Op::NonZero
            | Op::RandomBits { .. }
            | Op::If
            | Op::While => values,
        }
    }

    /// `[a0: n, a1: 4 | r0: 8] %v0[a0, r0], %v1[r0, a1]`
    fn space(&self, space: &IterationSpace, operands: &[ValueId]) -> String {
        let parallel = space.parallel.min(space.extents.len());
        let name = |axis: usize| match axis.checked_sub(parallel) {
            None => format!("a{axis}"),
            Some(reduced) => format!("r{reduced}"),
        };
        let axis = |axis: usize| format!("{}: {}", name(axis), self.expr(&space.extents[axis]));
        let axes: Vec<String> = (0..space.extents.len()).map(axis).collect();
        let (result, reduced) = axes.split_at(parallel);
        let mut text = format!("[{}", Separated(", ", result));
        if !reduced.is_empty() {
            let space = if result.is_empty() { "" } else { " " };
            text.push_str(&format!("{space}| {}", Separated(", ", reduced)));
        }
        let index_names = |symbol: SymbolId| name(symbol.index());
        let read = |(&value, index): (&ValueId, &Vec<Expr>)| {
            let index: Vec<String> =
                index.iter().map(|expr| expr.display(&index_names).to_string()).collect();
            format!("{}[{}]", self.value(value), Separated(", ", &index))
        };
        let reads: Vec<String> = operands.iter().zip(&space.operands).map(read).collect();
        format!("{text}] {}", Separated(", ", &reads))
    }
}

/// `{1.0, 2.0}`
pub fn literal_text(tensor: &Tensor) -> String {
    let elements: Vec<String> = match tensor.strings() {
        Some(strings) => strings.iter().map(|string| Quoted(string).to_string()).collect(),
        None => tensor.scalars().map(|scalar| scalar.to_string()).collect(),
    };
    format!("{{{}}}", Separated(", ", &elements))
}
