//! Functions, blocks and operations; the generic form of operations.

use std::collections::HashMap;

use super::cursor::Cursor;
use super::{Parsed, TextFault};
use crate::syntax::{Attribute, Attributes, Block, Function, Operation, Program, ValueType};

/// Reads a program.
pub(crate) struct Parser<'t> {
    pub(super) cursor: Cursor<'t>,
    program: Program,
    /// Attributes by the names that the text gives them, `#name = ...`.
    aliases: HashMap<String, String>,
    scope: Scope<'t>,
}

/// The values that may be used where the text is read.
#[derive(Default)]
struct Scope<'t> {
    /// First value and number of values of a name.
    names: HashMap<&'t str, (usize, usize)>,
    /// Names in the order in which they were made, with what they stood for before.
    made: Vec<(&'t str, Option<(usize, usize)>)>,
    types: Vec<ValueType>,
}

/// An operation as it is read, its results without numbers.
#[derive(Default)]
pub(super) struct OperationText {
    pub(super) name: String,
    pub(super) operands: Vec<usize>,
    pub(super) attributes: Attributes,
    pub(super) regions: Vec<Block>,
    pub(super) results: Vec<ValueType>,
}

impl<'t> Parser<'t> {
    pub(crate) fn new(cursor: Cursor<'t>) -> Parser<'t> {
        Parser {
            cursor,
            program: Program::default(),
            aliases: HashMap::new(),
            scope: Scope::default(),
        }
    }

    /// The whole text.
    pub(crate) fn program(&mut self) -> Parsed<Program> {
        self.items("")?;
        if self.program.functions.is_empty() {
            return self.cursor.fault("there is no function");
        }
        Ok(std::mem::take(&mut self.program))
    }

    /// Modules, functions and names of attributes until the end or a closing bracket.
    fn items(&mut self, end: &str) -> Parsed<()> {
        self.cursor.open()?;
        loop {
            match self.cursor.peek() {
                0 if end.is_empty() => break,
                b'}' if end == "}" => break,
                b'#' | b'!' => {
                    self.cursor.take_one();
                    let name = self.cursor.suffix()?.to_owned();
                    self.cursor.expect("=")?;
                    let begin = self.cursor.here();
                    if self.cursor.location()?.is_none() {
                        self.cursor.attribute()?;
                    }
                    let text = self.cursor.text_between(begin, self.cursor.end());
                    self.aliases.insert(name, text.chars().take(200).collect());
                }
                b'"' => self.generic_item()?,
                _ => match self.cursor.peek_word() {
                    "module" | "builtin.module" => self.module()?,
                    "func.func" | "func" => self.function()?,
                    "sdy.mesh" => self.mesh()?,
                    _ => {
                        let found = self.cursor.found();
                        let reason =
                            format!("a module or function is expected, where {found} stands");
                        return self.cursor.fault(reason);
                    }
                },
            }
        }
        self.cursor.close();
        Ok(())
    }

    /// `sdy.mesh @mesh = <["x"=2]> {attributes}`
    fn mesh(&mut self) -> Parsed<()> {
        self.cursor.word();
        let name = self.cursor.symbol()?;
        self.cursor.expect("=")?;
        let begin = self.cursor.here();
        self.cursor.expect("<")?;
        self.cursor.skip_balanced()?;
        let text = self.cursor.text_between(begin, self.cursor.end()).to_owned();
        self.program.meshes.insert(name, text);
        if self.cursor.eat("{") {
            self.cursor.attributes_until("}")?;
        }
        self.cursor.location()?;
        Ok(())
    }

    fn module(&mut self) -> Parsed<()> {
        self.cursor.word();
        if self.cursor.peek() == b'@' {
            let name = self.cursor.symbol()?;
            if self.program.name.is_empty() {
                self.program.name = name;
            }
        }
        if self.cursor.eat("attributes") {
            self.cursor.expect("{")?;
            self.cursor.attributes_until("}")?;
        }
        self.cursor.expect("{")?;
        self.items("}")?;
        self.cursor.expect("}")?;
        self.cursor.location()?;
        Ok(())
    }

    /// A module or a function in the generic form.
    fn generic_item(&mut self) -> Parsed<()> {
        let at = self.cursor.here();
        let name = self.cursor.string()?;
        self.cursor.expect("(")?;
        self.cursor.expect(")")?;
        let mut attributes = self.properties()?;
        match name.as_str() {
            "builtin.module" => {
                self.cursor.expect("(")?;
                self.cursor.expect("{")?;
                if self.cursor.eat("^") {
                    self.cursor.suffix()?;
                    self.cursor.expect(":")?;
                }
                self.items("}")?;
                self.cursor.expect("}")?;
                self.cursor.expect(")")?;
                if self.cursor.eat("{") {
                    self.cursor.attributes_until("}")?;
                }
                if let Some(Attribute::Text(name)) = Attribute::of(&attributes, "sym_name") {
                    self.program.name = name.clone();
                }
            }
            "sdy.mesh" => {
                if self.cursor.eat("{") {
                    self.cursor.attributes_until("}")?;
                }
                self.program.add_mesh(&attributes);
            }
            "func.func" => {
                self.begin_function();
                self.cursor.expect("(")?;
                let body = self.region()?;
                self.cursor.expect(")")?;
                if self.cursor.eat("{") {
                    attributes.extend(self.cursor.attributes_until("}")?);
                }
                let function = Function::of_attributes(&attributes, body, at);
                let function = function.map_err(|reason| TextFault { at, reason })?;
                self.end_function(function)?;
            }
            other => return self.cursor.fault(format!("`{other}` stands outside of functions")),
        }
        self.cursor.expect(":")?;
        self.cursor.types_in_parentheses()?;
        self.cursor.expect("->")?;
        self.cursor.types()?;
        self.cursor.location()?;
        Ok(())
    }

    fn begin_function(&mut self) {
        self.scope = Scope::default();
    }

    fn end_function(&mut self, mut function: Function) -> Parsed<()> {
        function.values = std::mem::take(&mut self.scope.types);
        let at = function.place;
        self.program.push(function).map_err(|reason| TextFault { at, reason })
    }

    fn function(&mut self) -> Parsed<()> {
        let place = self.cursor.here();
        self.cursor.word();
        self.begin_function();
        let mut is_private = false;
        while let word @ ("public" | "private" | "nested") = self.cursor.peek_word() {
            is_private = word == "private";
            self.cursor.word();
        }
        let name = self.cursor.symbol()?;
        self.cursor.expect("(")?;
        let mut parameters = Vec::new();
        let (mut parameter_names, mut parameter_attributes) = (Vec::new(), Vec::new());
        while !self.cursor.sees(")") {
            if self.cursor.peek() == b'%' {
                self.cursor.take_one();
                let name = self.cursor.suffix()?;
                self.cursor.expect(":")?;
                let ty = self.cursor.value_type()?;
                parameters.push(self.define(name, vec![ty])?);
                parameter_names.push(name.to_owned());
            } else {
                self.cursor.value_type()?;
            }
            parameter_attributes.push(match self.cursor.eat("{") {
                true => self.cursor.attributes_until("}")?,
                false => Attributes::new(),
            });
            self.cursor.location()?;
            if !self.cursor.eat(",") {
                break;
            }
        }
        self.cursor.expect(")")?;
        let (mut results, mut result_attributes) = (Vec::new(), Vec::new());
        if self.cursor.eat("->") {
            if self.cursor.eat("(") {
                while !self.cursor.sees(")") {
                    results.push(self.cursor.value_type()?);
                    result_attributes.push(match self.cursor.eat("{") {
                        true => self.cursor.attributes_until("}")?,
                        false => Attributes::new(),
                    });
                    if !self.cursor.eat(",") {
                        break;
                    }
                }
                self.cursor.expect(")")?;
            } else {
                results.push(self.cursor.value_type()?);
                result_attributes.push(Attributes::new());
            }
        }
        if self.cursor.eat("attributes") {
            self.cursor.expect("{")?;
            self.cursor.attributes_until("}")?;
        }
        if self.cursor.peek() != b'{' {
            return Err(TextFault { at: place, reason: format!("function `{name}` has no body") });
        }
        let mut body = self.region()?;
        body.parameters.clone_from(&parameters);
        self.cursor.location()?;
        self.end_function(Function {
            name,
            is_private,
            parameters,
            parameter_names,
            parameter_attributes,
            results,
            result_attributes,
            body,
            values: Vec::new(),
            place,
        })
    }

    // --- values ---

    /// Makes values of a name; the number of the first.
    pub(super) fn define(&mut self, name: &'t str, types: Vec<ValueType>) -> Parsed<usize> {
        let first = self.scope.types.len();
        let before = self.scope.names.insert(name, (first, types.len()));
        self.scope.made.push((name, before));
        self.scope.types.extend(types);
        Ok(first)
    }

    /// The number of a value that is used.
    pub(super) fn operand(&mut self) -> Parsed<usize> {
        let at = self.cursor.here();
        self.cursor.expect("%")?;
        let name = self.cursor.suffix()?;
        let mut number = 0;
        if self.cursor.byte() == b'#' {
            self.cursor.take_one();
            let digits = self.cursor.take_while(|byte| byte.is_ascii_digit());
            number = digits.parse().unwrap_or(usize::MAX);
        }
        match self.scope.names.get(name) {
            Some((first, count)) if number < *count => Ok(first + number),
            Some((_, count)) => {
                let reason = format!("`%{name}` has {count} values, and none of number {number}");
                Err(TextFault { at, reason })
            }
            None => {
                Err(TextFault { at, reason: format!("there is no value `%{name}` at this place") })
            }
        }
    }

    pub(super) fn type_of(&self, value: usize) -> &ValueType {
        &self.scope.types[value]
    }

    // --- blocks ---

    /// `{ operations }` or `{ ^name(parameters): operations }`
    pub(super) fn region(&mut self) -> Parsed<Block> {
        self.region_with(Vec::new())
    }

    /// As [`Self::region`], with parameters that stood before.
    pub(super) fn region_with(&mut self, before: Vec<(&'t str, ValueType)>) -> Parsed<Block> {
        self.cursor.expect("{")?;
        self.cursor.open()?;
        let outer = self.scope.made.len();
        let mut block = Block::default();
        for (name, ty) in before {
            block.parameters.push(self.define(name, vec![ty])?);
        }
        if self.cursor.eat("^") {
            self.cursor.suffix()?;
            if self.cursor.eat("(") {
                while !self.cursor.sees(")") {
                    self.cursor.expect("%")?;
                    let name = self.cursor.suffix()?;
                    self.cursor.expect(":")?;
                    let ty = self.cursor.value_type()?;
                    block.parameters.push(self.define(name, vec![ty])?);
                    self.cursor.location()?;
                    if !self.cursor.eat(",") {
                        break;
                    }
                }
                self.cursor.expect(")")?;
            }
            self.cursor.expect(":")?;
        }
        while !self.cursor.sees("}") {
            if self.cursor.peek() == b'^' {
                return self.cursor.fault("a region has several blocks");
            }
            let operation = self.operation()?;
            block.operations.push(operation);
        }
        self.cursor.expect("}")?;
        self.cursor.close();
        for (name, before) in self.scope.made.drain(outer..).rev() {
            match before {
                Some(before) => self.scope.names.insert(name, before),
                None => self.scope.names.remove(name),
            };
        }
        Ok(block)
    }

    // --- operations ---

    fn operation(&mut self) -> Parsed<Operation> {
        let mut names: Vec<(&'t str, usize)> = Vec::new();
        let place = self.cursor.here();
        if self.cursor.peek() == b'%' {
            loop {
                self.cursor.expect("%")?;
                let name = self.cursor.suffix()?;
                let count = match self.cursor.eat(":") {
                    true => self.cursor.integer()?,
                    false => 1,
                };
                let count =
                    usize::try_from(count).ok().filter(|count| (1..1 << 16).contains(count));
                let Some(count) = count else {
                    return self.cursor.fault("a name stands for too few results, or too many");
                };
                names.push((name, count));
                if !self.cursor.eat(",") {
                    break;
                }
            }
            self.cursor.expect("=")?;
        }
        let at = self.cursor.here();
        let text = match self.cursor.peek() {
            b'"' => self.generic()?,
            _ => {
                let name = self.cursor.expect_word()?;
                self.pretty(name)?
            }
        };
        let location = self.cursor.location()?.map(|location| match location.strip_prefix('#') {
            Some(name) => self.aliases.get(name).cloned().unwrap_or(location),
            None => location,
        });
        let OperationText { name, operands, attributes, regions, results: types } = text;
        let named: usize = names.iter().map(|(_, count)| count).sum();
        if named != types.len() && !names.is_empty() {
            let reason = format!("{named} results of `{name}` are named; it has {}", types.len());
            return Err(TextFault { at, reason });
        }
        let mut results = Vec::new();
        let mut types = types.into_iter();
        for (name, count) in names {
            let own: Vec<ValueType> = types.by_ref().take(count).collect();
            let first = self.define(name, own)?;
            results.extend(first..first + count);
        }
        for ty in types {
            results.push(self.scope.types.len());
            self.scope.types.push(ty);
        }
        Ok(Operation {
            name,
            operands,
            results,
            attributes,
            regions,
            place: place.max(at),
            location,
        })
    }

    /// `<{...}>`, if it is next.
    pub(super) fn properties(&mut self) -> Parsed<Attributes> {
        if !self.cursor.eat("<{") {
            return Ok(Attributes::new());
        }
        let attributes = self.cursor.attributes_until("}")?;
        self.cursor.expect(">")?;
        Ok(attributes)
    }

    /// `"name"(%a, %b) <{properties}> ({ region }, { region }) {attributes} : (types) -> types`
    fn generic(&mut self) -> Parsed<OperationText> {
        let name = self.cursor.string()?;
        self.cursor.expect("(")?;
        let mut operands = Vec::new();
        while !self.cursor.sees(")") {
            operands.push(self.operand()?);
            if !self.cursor.eat(",") {
                break;
            }
        }
        self.cursor.expect(")")?;
        let mut attributes = self.properties()?;
        let mut regions = Vec::new();
        if self.cursor.eat("(") {
            loop {
                regions.push(self.region()?);
                if !self.cursor.eat(",") {
                    break;
                }
            }
            self.cursor.expect(")")?;
        }
        if self.cursor.eat("{") {
            attributes.extend(self.cursor.attributes_until("}")?);
        }
        self.cursor.expect(":")?;
        let at = self.cursor.here();
        let types = self.cursor.types_in_parentheses()?;
        if types.len() != operands.len() {
            let (types, operands) = (types.len(), operands.len());
            let reason = format!("{operands} operands of `{name}` have {types} types");
            return Err(TextFault { at, reason });
        }
        for (ty, &operand) in types.iter().zip(&operands) {
            if self.type_of(operand) != ty {
                let reason = format!("an operand of `{name}` has another type than its value");
                return Err(TextFault { at, reason });
            }
        }
        self.cursor.expect("->")?;
        let results = self.cursor.types()?;
        Ok(OperationText { name, operands, attributes, regions, results })
    }
}
