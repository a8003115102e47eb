//! The operations of a program one after the other.

use std::collections::HashSet;
use std::sync::Arc;

use base::limits::{exceeded, more_than};
use base::{Diagnostic, codes};
use front::{
    Accepted, Complex, Graph, ImportOptions, Operand, Port, PortExtent, constant_value,
    shape_error, type_error,
};
use graph::{TensorType, Type};
use module::Module;
use sym::{Expr, Range};
use tensor::{DType, Tensor};

use crate::check::{Check, CheckKind};
use crate::node::{Node, Value, part_type};
use crate::operators::{self, Members};
use crate::syntax::{Block, ElementType, Elements, Function, Operation, Program, ValueType};
use crate::verify;

/// A program being lowered.
pub(crate) struct Importer<'p> {
    pub(crate) program: &'p Program,
    pub(crate) graph: Graph,
    /// How many regions and functions are being lowered inside each other.
    depth: usize,
    /// Operations that were lowered so far.
    operations: usize,
    /// Whether what is lowered is a body of scalars that runs on whole tensors.
    pub(crate) is_lifted: bool,
    /// The devices whose values are told apart, where they are.
    pub(crate) members: Option<Members>,
    /// The device for which an operation is being lowered.
    pub(crate) device: Option<usize>,
    /// What the program expects, if that is asked for, with the values.
    pub(crate) checks: Option<Vec<(CheckKind, String, Value, Value)>>,
}

/// Operations that end a block.
pub(crate) const RETURNS: &[&str] =
    &["func.return", "stablehlo.return", "chlo.return", "sdy.return"];

/// The values of a function that is being lowered.
pub(crate) type Frame = Vec<Option<Value>>;

impl AsMut<Graph> for Importer<'_> {
    fn as_mut(&mut self) -> &mut Graph {
        &mut self.graph
    }
}

/// Lowers a function of a program, with inputs as these ports say, and what the program expects.
pub(crate) fn import(
    program: &Program,
    function: &Function,
    (inputs, outputs): (&[Port], &[String]),
    options: &ImportOptions,
    has_checks: bool,
) -> Accepted<(Module, Vec<Check>)> {
    let graph = Graph::new("main", options.limits.clone());
    let checks = has_checks.then(Vec::new);
    let (depth, operations, is_lifted) = (0, 0, false);
    let (members, device) = (None, None);
    let mut importer =
        Importer { program, graph, depth, operations, is_lifted, members, device, checks };
    let mut parameters = Vec::new();
    for (&number, port) in function.parameters.iter().zip(inputs) {
        let value = importer.parameter(port, &function.values[number]);
        parameters.push(value.map_err(|it| it.or_at(|| format!("input \"{}\"", port.name)))?);
    }
    let values = importer.call(function, parameters)?;
    let mut results = Vec::new();
    for (name, value) in outputs.iter().zip(&values) {
        let value = importer.joined(value)?;
        results.push((name.clone(), importer.graph.data(&value)?));
    }
    let mut checks = Vec::new();
    for (kind, place, computed, expected) in importer.checks.take().unwrap_or_default() {
        let mut add = |value: &Value, side: &str| -> Accepted<Vec<usize>> {
            let mut numbers = Vec::new();
            for part in value.parts() {
                numbers.push(results.len());
                let name = format!("check{}.{side}", results.len());
                results.push((name, importer.graph.data(part)?));
            }
            Ok(numbers)
        };
        let (computed, expected) = (add(&computed, "computed")?, add(&expected, "expected")?);
        checks.push(Check { kind, place, computed, expected });
    }
    let mut module = Module::default();
    module.functions.push(Arc::new(importer.graph.builder.finish(results)));
    module.constants = importer.graph.constants;
    Ok((module, checks))
}

impl<'p> Importer<'p> {
    /// A value that a run is given.
    fn parameter(&mut self, port: &Port, ty: &ValueType) -> Accepted<Value> {
        let ValueType::Tensor(declared) = ty else {
            return Err(type_error("it is a tuple or token"));
        };
        let dtype = part_type(&declared.element)?;
        let most = self.graph.limits.dimension;
        let mut extents = Vec::new();
        for extent in &port.shape {
            extents.push(match extent {
                PortExtent::Fixed(extent) => Expr::from(*extent),
                PortExtent::Symbolic(name) => {
                    Expr::symbol(self.graph.builder.symbol(name, Range::new(0, most)))
                }
                PortExtent::Any => return Err(shape_error("its rank is not known")),
            });
        }
        self.graph.check_size(&extents)?;
        let ty = TensorType { dtype, shape: extents.clone().into() };
        let id = self.graph.builder.parameter(&port.name, Type::Tensor(ty.clone()));
        self.graph.builder.set_name(id, port.name.as_str());
        let value = Operand::of_node(id, ty);
        if !matches!(declared.element, ElementType::Complex(_)) {
            return Ok(Value::Tensor(value));
        }
        let axis = extents.len() - 1;
        extents.pop();
        let mut part = |number: i64| {
            let part = self.graph.slice_axis(&value, axis, Expr::from(number), 1, Expr::ONE)?;
            self.graph.reshape(&part, &extents)
        };
        Ok(Value::Complex(Complex { re: part(0)?, im: part(1)? }))
    }

    /// A result as a run gives it: complex numbers with their parts along a last axis.
    fn joined(&mut self, value: &Value) -> Accepted<Operand> {
        match value {
            Value::Tensor(value) => Ok(value.clone()),
            Value::Complex(Complex { re, im }) => {
                let shape = [re.shape(), &[Expr::ONE]].concat();
                let re = self.graph.reshape(re, &shape)?;
                let im = self.graph.reshape(im, &shape)?;
                self.graph.concat(shape.len() - 1, &[re, im])
            }
            _ => Err(type_error("a result is a tuple or token")),
        }
    }

    /// Lowers a function with these arguments; its results.
    pub(crate) fn call(
        &mut self,
        function: &'p Function,
        arguments: Vec<Value>,
    ) -> Accepted<Vec<Value>> {
        let mut frame: Frame = vec![None; function.values.len()];
        let results = self.block(function, &function.body, &mut frame, arguments)?;
        if results.len() != function.results.len() {
            let (found, wanted) = (results.len(), function.results.len());
            let reason = format!("`{}` returns {found} values of {wanted}", function.name);
            return Err(shape_error(reason));
        }
        Ok(results)
    }

    /// Lowers a block with these arguments; what it returns.
    pub(crate) fn block(
        &mut self,
        function: &'p Function,
        block: &'p Block,
        frame: &mut Frame,
        arguments: Vec<Value>,
    ) -> Accepted<Vec<Value>> {
        let most = self.graph.limits.nesting;
        if self.depth >= most {
            let message = format!("regions and functions are nested more than {most} deep");
            return Err(exceeded("nesting", more_than(most as u64), message)
                .because("their depth is limited, so that no program exhausts the stack"));
        }
        self.depth += 1;
        let results = self.block_here(function, block, frame, arguments);
        self.depth -= 1;
        results
    }

    fn block_here(
        &mut self,
        function: &'p Function,
        block: &'p Block,
        frame: &mut Frame,
        arguments: Vec<Value>,
    ) -> Accepted<Vec<Value>> {
        if arguments.len() != block.parameters.len() {
            let (given, wanted) = (arguments.len(), block.parameters.len());
            return Err(shape_error(format!("{given} values for a block of {wanted} parameters")));
        }
        for (&number, value) in block.parameters.iter().zip(arguments) {
            frame[number] = Some(value);
        }
        for operation in &block.operations {
            let operands = operation.operands.iter().map(|&number| frame[number].clone());
            let operands = operands.collect::<Option<Vec<Value>>>();
            let Some(operands) = operands else {
                return Err(
                    self.place(operation, shape_error("a value is used outside of its region"))
                );
            };
            if RETURNS.contains(&&*operation.name) {
                return Ok(operands);
            }
            let node = Node { function, operation, operands };
            let results = self.operation(&node, frame);
            let results = results.map_err(|found| self.place(operation, found))?;
            for (&number, value) in operation.results.iter().zip(results) {
                frame[number] = Some(value);
            }
        }
        Ok(Vec::new())
    }

    /// A refusal with the place of an operation.
    fn place(&self, operation: &Operation, found: Diagnostic) -> Diagnostic {
        found.or_at(|| {
            let place = self.program.place(operation.place);
            let from =
                operation.location.as_ref().map_or(String::new(), |it| format!(", from {it}"));
            format!("{place} ({}){from}", operation.name)
        })
    }

    fn operation(&mut self, node: &Node<'p>, frame: &mut Frame) -> Accepted<Vec<Value>> {
        self.operations += 1;
        let most = self.graph.limits.nodes;
        if self.operations > most {
            let message = format!("the program has more than {most} operations");
            return Err(exceeded("nodes", more_than(most as u64), message)
                .because("operations of functions count at each call"));
        }
        let name = &node.operation.name;
        let row = operators::find(name).ok_or_else(|| unsupported_operation(name))?;
        let line = self.program.line(node.operation.place);
        let location = self.graph.builder.locations().node(line, name.clone());
        self.graph.builder.set_location(location);
        verify::verify(row, node)?;
        let mut lower = |importer: &mut Self, node: &Node<'p>, frame: &mut Frame| {
            operators::lower(importer, row, node, frame)
        };
        let results = match self.for_each_device(node, frame, &mut lower)? {
            Some(results) => results,
            None => lower(self, node, frame)?,
        };
        if results.len() < node.operation.results.len() {
            let (given, wanted) = (results.len(), node.operation.results.len());
            return Err(shape_error(format!("it has {given} results, where {wanted} are named")));
        }
        let mut checked = Vec::with_capacity(results.len());
        for (&number, value) in node.operation.results.iter().zip(results) {
            checked.push(self.as_declared(value, &node.function.values[number])?);
        }
        Ok(checked)
    }

    /// A value that has the type which the text declares.
    fn as_declared(&mut self, value: Value, ty: &ValueType) -> Accepted<Value> {
        if let Value::Each(values) = value {
            let each = values.into_iter().map(|value| self.as_declared(value, ty));
            return Ok(Value::Each(each.collect::<Accepted<_>>()?));
        }
        let ValueType::Tensor(ty) = ty else {
            return match (ty, value) {
                (ValueType::Tuple(_) | ValueType::Token, value) => Ok(value),
                (_, value @ (Value::Tuple(_) | Value::Token)) => Ok(value),
                _ => Err(type_error("a tensor is declared as what is none")),
            };
        };
        let dtype = part_type(&ty.element)?;
        let is_complex = matches!(ty.element, ElementType::Complex(_));
        if is_complex != matches!(value, Value::Complex(_)) {
            return Err(type_error("complex and real numbers are mixed"));
        }
        value.each(|part| {
            if part.dtype() != dtype {
                let found = part.dtype();
                return Err(type_error(format!(
                    "the result is {found}, where {dtype} is declared"
                )));
            }
            if self.is_lifted {
                return Ok(part.clone());
            }
            if part.rank() != ty.shape.len() {
                let (found, declared) = (part.rank(), ty.shape.len());
                let reason = format!("the result has rank {found}, where {declared} is declared");
                return Err(shape_error(reason));
            }
            let extents = part.shape().iter().zip(&ty.shape);
            let shape: Vec<Expr> =
                extents.map(|(own, declared)| declared.map_or(own.clone(), Expr::from)).collect();
            self.graph.refine(part, &shape)
        })
    }

    /// The value of a constant.
    pub(crate) fn constant(&mut self, elements: &Elements, name: &str) -> Accepted<Value> {
        let extents: Vec<Expr> = elements.shape.iter().map(|&it| Expr::from(it)).collect();
        self.graph.check_size(&extents)?;
        // One number may stand for all.
        let mut part = |name: &str, values: &Tensor| {
            let value = constant_value(name, values.clone(), true);
            match values.shape() == elements.shape {
                true => Ok(value),
                false => self.graph.broadcast_to(&value, &extents[..]),
            }
        };
        let re = part(name, &elements.values)?;
        Ok(match &elements.imaginary {
            None => Value::Tensor(re),
            Some(imaginary) => {
                let im = part(&format!("{name}.im"), imaginary)?;
                Value::Complex(Complex { re, im })
            }
        })
    }

    /// Makes nodes of all values from around regions that the regions read: a node made inside of
    /// one must not be used outside of it.
    pub(crate) fn settle(&mut self, regions: &[Block], frame: &Frame) -> Accepted<()> {
        let mut used = HashSet::new();
        let mut blocks: Vec<&Block> = regions.iter().collect();
        while let Some(block) = blocks.pop() {
            for operation in &block.operations {
                used.extend(operation.operands.iter().copied());
                blocks.extend(&operation.regions);
            }
        }
        let mut used: Vec<usize> = used.into_iter().collect();
        used.sort_unstable();
        for value in used.into_iter().filter_map(|number| frame[number].as_ref()) {
            for part in value.parts() {
                self.graph.data(part)?;
            }
        }
        Ok(())
    }
}

/// The refusal of an operation that is not in the table.
pub(crate) fn unsupported_operation(name: &str) -> Diagnostic {
    Diagnostic::error(codes::UNSUPPORTED_OPERATOR, format!("operation {name} is not supported"))
        .because("it is not in the table of operations")
        .remedy(
            "write the program without it; `docs/stablehlo.md` has the operations that there are",
        )
}

/// The element type of a port: that of its parts.
pub(crate) fn port_type(ty: &ValueType) -> Option<DType> {
    match ty {
        ValueType::Tensor(ty) => part_type(&ty.element).ok(),
        _ => None,
    }
}
