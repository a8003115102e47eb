//! The operations of a bytecode file: its functions as plain data.
//!
//! Invariants: a value is used behind where it is made, and by none outside of its region.

use base::Diagnostic;
use front::Accepted;

use super::attributes::Pool;
use super::container::{self, Container, at};
use super::reader::{Reader, damaged};
use super::{sdy, vhlo};
use crate::syntax::{Attribute, Attributes, Block, Function, Operation, Program, ValueType};
use crate::text::MOST_NESTED;

/// What an operation has, a bit each.
const ATTRIBUTES: u8 = 1;
const RESULTS: u8 = 1 << 1;
const OPERANDS: u8 = 1 << 2;
const SUCCESSORS: u8 = 1 << 3;
const REGIONS: u8 = 1 << 4;
const USE_ORDERS: u8 = 1 << 5;
const PROPERTIES: u8 = 1 << 6;

/// Reads the functions of a file.
pub(super) struct Functions<'b> {
    container: &'b Container<'b>,
    pool: Pool<'b>,
    pub(super) program: Program,
    /// The values that are seen where the file is read, by the numbers that it gives them.
    values: Vec<Option<usize>>,
    types: Vec<ValueType>,
    /// Operations that were read so far.
    count: usize,
    depth: usize,
}

/// An operation without its regions.
struct Head {
    /// Its name in the file.
    name: String,
    attributes: Attributes,
    location: Option<String>,
    results: Vec<ValueType>,
    operands: Vec<usize>,
    regions: usize,
    /// Whether its regions use no values from around.
    is_isolated: bool,
    place: usize,
}

impl<'b> Functions<'b> {
    pub(super) fn new(container: &'b Container<'b>, pool: Pool<'b>) -> Functions<'b> {
        let (values, types) = (Vec::new(), Vec::new());
        let program = Program::default();
        Functions { container, pool, program, values, types, count: 0, depth: 0 }
    }

    /// Modules and functions of a block.
    pub(super) fn items(&mut self, reader: &mut Reader<'b>) -> Accepted<()> {
        let (count, has_parameters) = reader.flagged()?;
        if has_parameters {
            return Err(damaged("a module has parameters"));
        }
        let count = reader.checked_count(count)?;
        for _ in 0..count {
            let head = self.head(reader)?;
            match head.name.as_str() {
                "builtin.module" => {
                    if let (true, Some(Attribute::Text(name))) =
                        (self.program.name.is_empty(), Attribute::of(&head.attributes, "sym_name"))
                    {
                        self.program.name = name.clone();
                    }
                    self.opened()?;
                    self.regions(&head, reader, |functions, reader| {
                        if let Some(_values) = functions.blocks(reader)? {
                            functions.items(reader)?;
                        }
                        Ok(())
                    })?;
                    self.depth -= 1;
                }
                "sdy.mesh" => self.program.add_mesh(&head.attributes),
                "vhlo.func_v1" => self.function(head, reader)?,
                other => {
                    return Err(damaged(format!("`{other}` stands outside of functions")));
                }
            }
        }
        Ok(())
    }

    fn opened(&mut self) -> Accepted<()> {
        self.depth += 1;
        match self.depth > MOST_NESTED {
            true => Err(damaged(format!("regions are nested more than {MOST_NESTED} deep"))),
            false => Ok(()),
        }
    }

    /// Reads the regions of an operation, each by this function.
    fn regions(
        &mut self,
        head: &Head,
        reader: &mut Reader<'b>,
        mut read: impl FnMut(&mut Functions<'b>, &mut Reader<'b>) -> Accepted<()>,
    ) -> Accepted<()> {
        if !head.is_isolated {
            return (0..head.regions).try_for_each(|_| read(self, reader));
        }
        // No value from around is seen inside.
        let outside = std::mem::take(&mut self.values);
        if self.container.version >= container::OWN_SECTIONS {
            let section = reader.section()?;
            if section.id != container::OPERATIONS {
                return Err(damaged("regions are no section of operations"));
            }
            let inside = &mut Reader::new(section.bytes);
            (0..head.regions).try_for_each(|_| read(self, inside))?;
        } else {
            (0..head.regions).try_for_each(|_| read(self, reader))?;
        }
        self.values = outside;
        Ok(())
    }

    fn function(&mut self, head: Head, reader: &mut Reader<'b>) -> Accepted<()> {
        let mut bodies = Vec::new();
        self.types.clear();
        self.regions(&head, reader, |functions, reader| {
            bodies.push(functions.region(reader)?);
            Ok(())
        })?;
        let Some(body) = bodies.pop() else { return Err(damaged("a function has no body")) };
        let mut function =
            Function::of_attributes(&head.attributes, body, head.place).map_err(damaged)?;
        function.values = std::mem::take(&mut self.types);
        self.program.push(function).map_err(damaged)
    }

    /// The number of values of a region, if it has a block.
    fn blocks(&mut self, reader: &mut Reader<'b>) -> Accepted<Option<usize>> {
        match reader.number()? {
            0 => Ok(None),
            1 => reader.count().map(Some),
            count => Err(damaged(format!("a region has {count} blocks, where one is read"))),
        }
    }

    fn region(&mut self, reader: &mut Reader<'b>) -> Accepted<Block> {
        let Some(count) = self.blocks(reader)? else { return Ok(Block::default()) };
        self.opened()?;
        let first = self.values.len();
        self.values.resize(first + count, None);
        let mut next = first;
        let block = self.block(reader, &mut next)?;
        self.values.truncate(first);
        self.depth -= 1;
        Ok(block)
    }

    /// Gives a value its number.
    fn define(&mut self, ty: ValueType, next: &mut usize) -> Accepted<usize> {
        let number = self.types.len();
        let Some(place) = self.values.get_mut(*next) else {
            return Err(damaged("a region has more values than it tells"));
        };
        *place = Some(number);
        *next += 1;
        self.types.push(ty);
        Ok(number)
    }

    fn block(&mut self, reader: &mut Reader<'b>, next: &mut usize) -> Accepted<Block> {
        let version = self.container.version;
        let (count, has_parameters) = reader.flagged()?;
        let count = reader.checked_count(count)?;
        let mut block = Block::default();
        if has_parameters {
            let parameters = reader.count()?;
            for _ in 0..parameters {
                let (ty, has_location) = match version >= container::SHORT_PARAMETERS {
                    true => reader.flagged()?,
                    false => (reader.number()?, true),
                };
                if has_location {
                    reader.number()?;
                }
                let ty = self.pool.value_type(ty)?;
                block.parameters.push(self.define(ty, next)?);
            }
            if version >= container::USE_ORDERS && reader.byte()? != 0 {
                skip_use_orders(reader, parameters)?;
            }
        }
        for _ in 0..count {
            let operation = self.operation(reader, next)?;
            block.operations.push(operation);
        }
        Ok(block)
    }

    fn operation(&mut self, reader: &mut Reader<'b>, next: &mut usize) -> Accepted<Operation> {
        let mut head = self.head(reader)?;
        let mut results = Vec::new();
        for ty in std::mem::take(&mut head.results) {
            results.push(self.define(ty, next)?);
        }
        let mut regions = Vec::new();
        self.regions(&head, reader, |functions, reader| {
            regions.push(functions.region(reader)?);
            Ok(())
        })?;
        let name = match head.name.strip_prefix("vhlo.") {
            Some(own) => vhlo::name_of(own),
            None => head.name,
        };
        Ok(Operation {
            attributes: vhlo::regrouped(&name, head.attributes),
            name,
            operands: head.operands,
            results,
            regions,
            place: head.place,
            location: head.location,
        })
    }

    /// An operation as far as its regions.
    fn head(&mut self, reader: &mut Reader<'b>) -> Accepted<Head> {
        let name = at(&self.container.operation_names, reader.number()?, "operation")?.clone();
        self.count += 1;
        let place = self.count;
        let head = self.head_of(reader, name.clone(), place);
        head.map_err(|found| found.or_at(|| format!("operation {place} ({name})")))
    }

    fn head_of(&mut self, reader: &mut Reader<'b>, name: String, place: usize) -> Accepted<Head> {
        let has = reader.byte()?;
        let number = reader.number()?;
        let location = self.pool.location(number)?;
        let mut attributes = Attributes::new();
        if has & ATTRIBUTES != 0 {
            let number = reader.number()?;
            match self.pool.attribute(number)? {
                Attribute::Record(record) => attributes = record,
                _ => return Err(damaged("the attributes of an operation have no names")),
            }
        }
        let names = self.attribute_names(&name)?;
        if has & PROPERTIES != 0 {
            let number = reader.number()?;
            let bytes = *at(&self.container.properties, number, "list of properties")?;
            self.properties(&name, names, Reader::new(bytes), &mut attributes)?;
        }
        let mut results = Vec::new();
        if has & RESULTS != 0 {
            for _ in 0..reader.count()? {
                let ty = reader.number()?;
                results.push(self.pool.value_type(ty)?);
            }
        }
        let mut operands = Vec::new();
        if has & OPERANDS != 0 {
            for _ in 0..reader.count()? {
                let number = reader.number()?;
                let value = at(&self.values, number, "value")?;
                let value = value.ok_or_else(|| damaged("a value is used before it is made"))?;
                operands.push(value);
            }
        }
        if has & SUCCESSORS != 0 {
            return Err(damaged("an operation goes on at blocks"));
        }
        if has & USE_ORDERS != 0 {
            skip_use_orders(reader, results.len())?;
        }
        let (regions, is_isolated) = match has & REGIONS != 0 {
            true => reader.flagged()?,
            false => (0, false),
        };
        let regions = reader.checked_count(regions)?;
        Ok(Head { name, attributes, location, results, operands, regions, is_isolated, place })
    }

    /// The names of an operation's attributes; none of one of another dialect.
    fn attribute_names(&self, name: &str) -> Accepted<Option<&'static [&'static str]>> {
        let Some(own) = name.strip_prefix("vhlo.") else {
            if let Some(own) = name.strip_prefix("sdy.") {
                return Ok(sdy::attribute_names(own));
            }
            return match name.split('.').next().unwrap_or_default() {
                dialect @ ("stablehlo" | "chlo" | "func") => Err(not_portable(dialect)),
                _ => Ok(None),
            };
        };
        vhlo::attribute_names(own).map(Some).ok_or_else(|| unknown(name, self.container.producer))
    }

    fn properties(
        &mut self,
        name: &str,
        names: Option<&'static [&'static str]>,
        mut reader: Reader<'b>,
        attributes: &mut Attributes,
    ) -> Accepted<()> {
        if name == "builtin.module" {
            for name in ["sym_name", "sym_visibility"] {
                if let (number, true) = reader.flagged()? {
                    attributes.push((name.to_owned(), self.pool.attribute(number)?));
                }
            }
            return Ok(());
        }
        for name in names.unwrap_or_default() {
            let number = reader.number()?;
            attributes.push(((*name).to_owned(), self.pool.attribute(number)?));
        }
        Ok(())
    }
}

fn not_portable(dialect: &str) -> Diagnostic {
    damaged(format!("it holds the dialect `{dialect}` itself, whose bytecode changes"))
        .remedy("write it by `serialize_portable_artifact`, or as text")
}

fn unknown(name: &str, producer: &str) -> Diagnostic {
    damaged(format!(
        "it is by {producer} and holds `{name}`, which is of no version of StableHLO up to {}",
        vhlo::NEWEST
    ))
    .remedy(format!("write the program anew, for a target version up to {}", vhlo::NEWEST))
}

/// In which order the uses of values are kept, which means nothing here.
fn skip_use_orders(reader: &mut Reader<'_>, values: usize) -> Accepted<()> {
    let count = if values > 1 { reader.count()? } else { 1 };
    for _ in 0..count {
        if values > 1 {
            reader.number()?;
        }
        let (numbers, _) = reader.flagged()?;
        for _ in 0..reader.checked_count(numbers)? {
            reader.number()?;
        }
    }
    Ok(())
}
