//! Functions to text.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use base::text::{Printer, Quoted, Separated, is_identifier};
use base::{Id, LocationId, Locations, SecondaryMap};
use sym::{Expr, SymbolId};
use tensor::Tensor;

use super::attribute::AttributeWriter;
use super::{Names, assumption_text, type_text};
use crate::function::{Function, NodeId, RegionId, ValueId};

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
        Listing { function: self, numbers: self.numbers(), notes, begun: None }.function(printer);
    }

    /// The lines of the function's text, each with the place in the user's model of the node that
    /// it is of, which the text itself then leaves out.
    pub fn lines(&self) -> Vec<(String, LocationId)> {
        let (notes, numbers) = (Notes::new(), self.numbers());
        let mut printer = Printer::new();
        let begun = Some(RefCell::default());
        let mut listing = Listing { function: self, numbers, notes: &notes, begun };
        listing.function(&mut printer);
        let begun = listing.begun.map(RefCell::into_inner).unwrap_or_default();
        let text = printer.finish();
        let line = |(number, line): (usize, &str)| {
            let known = begun.partition_point(|(first, _)| *first <= number);
            let place = known.checked_sub(1).map_or(Locations::UNKNOWN, |last| begun[last].1);
            (line.to_owned(), place)
        };
        text.lines().enumerate().map(line).collect()
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

pub(crate) struct Listing<'a> {
    function: &'a Function,
    numbers: SecondaryMap<ValueId, Option<u32>>,
    notes: &'a Notes,
    /// Where nodes' places are told beside the text: the places of lines, each up to the next.
    begun: Option<RefCell<Vec<(usize, LocationId)>>>,
}

impl Listing<'_> {
    fn function(&mut self, printer: &mut Printer) {
        let function = self.function;
        printer.block(format_args!("function {}", marked_name('@', &function.name)), |printer| {
            self.head(printer);
            self.nodes(function.body, printer);
            let result = |(&value, name): (&ValueId, &String)| {
                format!("{} as {}", self.value(value), Quoted(name))
            };
            let results: Vec<String> =
                function.results().iter().zip(&function.result_names).map(result).collect();
            self.begin(Locations::UNKNOWN, printer);
            printer.line(format!("return {}", Separated(", ", &results)).trim_end());
        });
    }

    /// What follows is of a node from there.
    fn begin(&self, location: LocationId, printer: &Printer) {
        if let Some(begun) = &self.begun {
            begun.borrow_mut().push((printer.lines(), location));
        }
    }

    pub(crate) fn value(&self, value: ValueId) -> String {
        match self.numbers[value] {
            Some(number) => format!("%v{number}"),
            // Only in listings of functions that do not verify.
            None => format!("%undefined.{}", value.index()),
        }
    }

    pub(crate) fn values(&self, values: &[ValueId]) -> String {
        let values: Vec<String> = values.iter().map(|&value| self.value(value)).collect();
        Separated(", ", &values).to_string()
    }

    fn symbol(&self, symbol: SymbolId) -> String {
        self.function.symbol_name(symbol)
    }

    pub(crate) fn expr(&self, expr: &Expr) -> String {
        expr.display(&|symbol| self.symbol(symbol)).to_string()
    }

    pub(crate) fn exprs(&self, exprs: &[Expr]) -> String {
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
            let given = if function.given.contains(&id) { " given" } else { "" };
            let usual = symbol.usual.map(|usual| format!(" usual {usual}")).unwrap_or_default();
            printer.line(format_args!("symbol {name} in {}{usual}{given}", symbol.range));
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
        self.begin(node.location, printer);
        let results: Vec<String> =
            node.results.iter().map(|&value| self.definition(value)).collect();
        if !results.is_empty() {
            printer.put(format_args!("{} = ", Separated(", ", &results)));
        }
        let mut writer = AttributeWriter::new(self, &node.operands);
        node.op.print_attributes(&mut writer);
        printer.put(format!("{} {}", node.op.name(), writer.finish()).trim_end());
        for (&label, &region) in node.op.region_labels().iter().zip(&node.regions) {
            self.region(label, region, printer);
        }
        self.begin(node.location, printer);
        if self.begun.is_none() && node.location != Locations::UNKNOWN {
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
}

/// `{1.0, 2.0}`
pub fn literal_text(tensor: &Tensor) -> String {
    let elements: Vec<String> = match tensor.strings() {
        Some(strings) => strings.iter().map(|string| Quoted(string).to_string()).collect(),
        None => tensor.scalars().map(|scalar| scalar.to_string()).collect(),
    };
    format!("{{{}}}", Separated(", ", &elements))
}
