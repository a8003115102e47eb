//! The graph of a program as a trace.
//!
//! What a node computes of sizes alone leaves nothing behind, since sizes are expressions; what it
//! writes in place becomes a version ([`super::memory`]); graphs that a node calls once are written
//! out where it stands. An output that is a number is a tensor without axes.

use std::collections::HashMap;

use base::Diagnostic;
use base::limits::exceeded;
use front::Accepted;
use serde_json::Value as Json;
use sym::Expr;
use tensor::{DType, Tensor, dense_strides};

use super::archive::Tensors;
use super::memory::{Effect, Versions, effect};
use super::schema::{Reader, element_of, refused, unsupported_type};
use super::sizes::Sizes;
use super::structure::leaf_names;
use crate::operators::unsupported_operator;
use crate::trace::{AtenTrace, Declared, TraceArgument, TraceNode, TraceResult};

/// Nodes that compute nothing: they check what types and ranges of sizes say already.
const CHECKS: &[&str] = &[
    "aten._assert_scalar.default",
    "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
];

/// A trace being written.
pub(super) struct Writer<'j> {
    trace: AtenTrace,
    weights: Vec<Tensor>,
    tensors: Tensors,
    versions: Versions,
    sizes: Sizes,
    /// Sizes that have names, by these.
    named_sizes: HashMap<String, Expr>,
    /// How many symbols inputs tell.
    known_symbols: Vec<bool>,
    /// Parameters, buffers and inputs by their names in the graph, with those in the module.
    states: Vec<(&'j str, &'j str)>,
    /// What comes behind the module's outputs.
    written: Vec<TraceResult>,
    most_nodes: usize,
}

/// A graph within the program: its declarations, and what stands before its names in the trace.
struct Scope<'j> {
    values: Reader<'j>,
    sizes: Reader<'j>,
    prefix: String,
}

impl Scope<'_> {
    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn declared(&self, name: &str, sizes: &mut Sizes) -> Accepted<Declared> {
        let at = |found: Diagnostic| found.or_at(|| format!("value `{name}`"));
        let meta = self.values.optional(name);
        let meta = meta.and_then(|it| it.ok_or_else(|| refused("it has no declaration")));
        meta.and_then(|meta| declared(&meta, sizes)).map_err(at)
    }
}

/// The type of a value.
fn declared(meta: &Reader<'_>, sizes: &mut Sizes) -> Accepted<Declared> {
    const STRIDED: i64 = 7;
    if meta.field("layout")?.integer()? != STRIDED {
        return Err(unsupported_type("a tensor is not dense"));
    }
    let device = meta.field("device")?.field("type")?.text()?;
    if device != "cpu" {
        return Err(unsupported_type(&format!("a tensor is on the device `{device}`"))
            .remedy("move it: `torch.export.passes.move_to_device_pass(program, 'cpu')`"));
    }
    let (dtype, is_complex) = element_of(meta.field("dtype")?.integer()?)?;
    let mut read = |name| -> Accepted<Vec<Expr>> {
        meta.field(name)?.items()?.map(|it| sizes.size(&it)).collect()
    };
    let (shape, strides) = (read("sizes")?, read("strides")?);
    let constants =
        |exprs: &[Expr]| exprs.iter().map(Expr::as_constant).collect::<Option<Vec<_>>>();
    let counts = |numbers: &[i64]| {
        numbers.iter().map(|&it| usize::try_from(it).ok()).collect::<Option<Vec<_>>>()
    };
    let known = constants(&shape).zip(constants(&strides)).filter(|(extents, strides)| {
        let extents = counts(extents).filter(|it| tensor::tensor::element_count(it).is_some());
        let dense = extents.map(|extents| (dense_strides(&extents), extents));
        extents_differ(dense, strides)
    });
    Ok(Declared { dtype, is_complex, shape, strides: known.map(|(_, strides)| strides) })
}

/// Whether elements lie elsewhere than these strides, of these extents, would have them.
fn extents_differ(dense: Option<(Vec<usize>, Vec<usize>)>, strides: &[i64]) -> bool {
    dense.is_some_and(|(dense, extents)| {
        !extents.contains(&0)
            && dense.len() == strides.len()
            && (dense.iter().zip(&extents).zip(strides)).any(|((&dense, &extent), &stride)| {
                extent > 1 && i64::try_from(dense) != Ok(stride)
            })
    })
}

impl<'j> Writer<'j> {
    /// The trace of a program, and its weights.
    pub(super) fn write(
        program: &'j Json,
        tensors: Tensors,
        most_nodes: usize,
    ) -> Accepted<(AtenTrace, Vec<Tensor>)> {
        let program = Reader::new(program, "the program");
        let mut writer = Writer {
            trace: AtenTrace::default(),
            weights: Vec::new(),
            tensors,
            versions: Versions::default(),
            sizes: Sizes::new(program.optional("range_constraints")?)?,
            named_sizes: HashMap::new(),
            known_symbols: Vec::new(),
            states: Vec::new(),
            written: Vec::new(),
            most_nodes,
        };
        let module = program.field("graph_module")?;
        let (graph, signature) = (module.field("graph")?, module.field("signature")?);
        let scope = writer.scope(&graph, String::new())?;
        for spec in signature.field("input_specs")?.items()? {
            writer.input(&spec, &scope)?;
        }
        writer.lengths()?;
        writer.nodes(&graph, &scope)?;
        let names = writer.result_names(&module, &signature)?;
        for (spec, name) in signature.field("output_specs")?.items()?.zip(names) {
            writer.output(&spec, name, &scope)?;
        }
        writer.written_states()?;
        writer.trace.symbols = writer.sizes.symbols;
        if let Some(place) = (0..writer.trace.symbols.len())
            .find(|&place| writer.known_symbols.get(place) != Some(&true))
        {
            let name = &writer.trace.symbols[place].name;
            return Err(unsupported_type(&format!("no input has the size `{name}` for an extent")));
        }
        Ok((writer.trace, writer.weights))
    }

    fn scope(&mut self, graph: &Reader<'j>, prefix: String) -> Accepted<Scope<'j>> {
        let (values, sizes) = (graph.field("tensor_values")?, graph.field("sym_int_values")?);
        let scope = Scope { values, sizes, prefix };
        for (name, size) in scope.sizes.entries()? {
            // What is not known while compiling is refused where something asks for it.
            if let Ok(size) = self.sizes.size(&size) {
                self.named_sizes.insert(scope.name(name), size);
            }
        }
        Ok(scope)
    }

    // --- inputs ---

    fn input(&mut self, spec: &Reader<'j>, scope: &Scope<'j>) -> Accepted<()> {
        let (case, spec) = spec.case()?;
        let tensor = |field| -> Accepted<(&'j str, &'j str)> {
            Ok((spec.field("arg")?.field("name")?.text()?, spec.field(field)?.text()?))
        };
        let (name, own) = match case {
            "user_input" => return self.user_input(&spec.field("arg")?, scope),
            "parameter" => tensor("parameter_name")?,
            "buffer" => tensor("buffer_name")?,
            "tensor_constant" => tensor("tensor_constant_name")?,
            // Values of Python that are the same in each run, and marks of an order.
            "constant_input" | "token" => return Ok(()),
            _ => return Err(unsupported_type(&format!("an input is a `{case}`"))),
        };
        let at = |found: Diagnostic| found.or_at(|| format!("tensor `{own}`"));
        let declared = scope.declared(name, &mut self.sizes).map_err(at)?;
        let tensor = self.tensors.get(own).cloned();
        let tensor = tensor.ok_or_else(|| at(refused("the file does not hold its elements")))?;
        self.versions.define(name)?;
        self.states.push((name, own));
        self.trace.weights.push((name.to_owned(), declared));
        self.weights.push(tensor);
        Ok(())
    }

    fn user_input(&mut self, argument: &Reader<'j>, scope: &Scope<'j>) -> Accepted<()> {
        match argument.case()? {
            ("as_tensor", tensor) => {
                let name = tensor.field("name")?.text()?;
                let declared = scope.declared(name, &mut self.sizes)?;
                self.versions.define(name)?;
                for symbol in declared.shape.iter().filter_map(Expr::as_symbol) {
                    self.know(base::Id::index(symbol));
                }
                self.states.push((name, name));
                self.trace.inputs.push((name.to_owned(), declared));
                Ok(())
            }
            // A size; if no tensor has it, it comes as the length of one.
            ("as_sym_int", _)
            | ("as_int" | "as_none" | "as_bool" | "as_float" | "as_string", _) => Ok(()),
            (case, _) => Err(unsupported_type(&format!("an input is given by `{case}`"))),
        }
    }

    fn know(&mut self, symbol: usize) {
        if self.known_symbols.len() <= symbol {
            self.known_symbols.resize(symbol + 1, false);
        }
        self.known_symbols[symbol] = true;
    }

    /// Inputs for sizes that are given as numbers, and that no tensor has: their lengths.
    fn lengths(&mut self) -> Accepted<()> {
        for place in 0..self.sizes.symbols.len() {
            if self.known_symbols.get(place) == Some(&true) {
                continue;
            }
            let size = Expr::symbol(<sym::SymbolId as base::Id>::new(place));
            let mut given = self.named_sizes.iter().filter(|(_, own)| **own == size);
            let Some(name) = given.by_ref().map(|(name, _)| name.clone()).min() else { continue };
            let declared = Declared {
                dtype: DType::Bool,
                is_complex: false,
                shape: vec![size],
                strides: None,
            };
            self.versions.define(&name)?;
            self.trace.inputs.push((name, declared));
            self.know(place);
        }
        Ok(())
    }

    // --- nodes ---

    fn nodes(&mut self, graph: &Reader<'j>, scope: &Scope<'j>) -> Accepted<()> {
        for node in graph.field("nodes")?.items()? {
            let target = node.field("target")?.text()?;
            let operator = target.strip_prefix("torch.ops.").unwrap_or(target);
            let name = self.node_name(&node, scope)?;
            self.node(&node, operator, &name, scope)
                .map_err(|found| found.or_at(|| format!("node \"{name}\" ({operator})")))?;
            if self.trace.calls.len() > self.most_nodes {
                let most = self.most_nodes;
                let message = format!("the model has more than {most} nodes");
                return Err(exceeded("nodes", base::limits::more_than(most as u64), message)
                    .because("graphs that nodes call are written out"));
            }
        }
        Ok(())
    }

    /// What a node is called: by its name, or the first of its results.
    fn node_name(&self, node: &Reader<'j>, scope: &Scope<'j>) -> Accepted<String> {
        let own = node.optional("name")?.map(|name| name.text()).transpose()?;
        let mut results = Vec::new();
        if own.is_none() {
            for output in node.field("outputs")?.items()? {
                results.extend(output_names(&output)?);
            }
        }
        Ok(scope.name(own.or_else(|| results.into_iter().flatten().next()).unwrap_or("")))
    }

    fn node(
        &mut self,
        node: &Reader<'j>,
        operator: &str,
        name: &str,
        scope: &Scope<'j>,
    ) -> Accepted<()> {
        if CHECKS.contains(&operator) {
            return Ok(());
        }
        let (mut results, mut is_list) = (Vec::new(), false);
        for output in node.field("outputs")?.items()? {
            is_list |= matches!(output.case()?, ("as_tensors", _));
            results.extend(output_names(&output)?);
        }
        let has_tensors = results.iter().any(Option::is_some);
        if !has_tensors && !results.is_empty() {
            // Numbers that follow from sizes.
            return Ok(());
        }
        if let Some(rest) = operator.strip_prefix("higher_order.") {
            return self.inline(node, rest, &results, scope);
        }
        if !has_tensors {
            return Err(unsupported_operator(operator));
        }
        let (mut arguments, mut named) = (Vec::new(), Vec::new());
        for given in node.field("inputs")?.items()? {
            const BY_PLACE: i64 = 1;
            let argument = self.argument(&given.field("arg")?, scope)?;
            let kind = given.optional("kind")?.map(|kind| kind.integer()).transpose()?;
            match kind == Some(BY_PLACE) && named.is_empty() {
                true => arguments.push(argument),
                false => named.push((given.field("name")?.text()?.to_owned(), argument)),
            }
        }
        let first = self.first_tensor(node, scope)?;
        let effect = effect(operator);
        let operator = match &effect {
            Effect::Write(functional) | Effect::Turn(functional) => functional.clone(),
            Effect::Fresh | Effect::View => operator.to_owned(),
        };
        let type_of = |result: &Option<&str>| {
            result.map(|name| scope.declared(name, &mut self.sizes)).transpose()
        };
        let types = results.iter().map(type_of).collect::<Accepted<Vec<_>>>()?;
        let results: Vec<Option<String>> =
            results.into_iter().map(|it| it.map(|name| scope.name(name))).collect();
        let mut behind = Vec::new();
        for result in results.iter().flatten() {
            match (&effect, &first) {
                (Effect::View, Some(first)) => self.versions.define_view(result, first)?,
                (Effect::Write(_), Some(first)) => {
                    behind.extend(self.versions.write(result, first)?);
                }
                (Effect::Turn(_), Some(first)) => self.versions.turn(result, first)?,
                (Effect::Write(_) | Effect::Turn(_), None) => {
                    return Err(refused("it writes to nothing"));
                }
                (Effect::Fresh, _) | (Effect::View, None) => self.versions.define(result)?,
            }
        }
        let call = |name: String, is_list, types| TraceNode {
            name,
            types,
            is_list,
            operator,
            arguments,
            named,
        };
        if let ([Some(result)], false) = (&results[..], is_list) {
            let call = call(result.clone(), false, types);
            if let (Effect::View, Some(first)) = (&effect, &first) {
                let own = first.strip_prefix(&scope.prefix).unwrap_or(first);
                let whole = scope.declared(own, &mut self.sizes)?;
                self.versions.note_slice(result, &call, whole)?;
            }
            self.trace.calls.push(call);
            self.trace.calls.extend(behind);
            return Ok(());
        }
        // Results of one node are taken from it one by one.
        let all = match self.versions.has(name) {
            true => format!("results of {name}"),
            false => name.to_owned(),
        };
        self.versions.define(&all)?;
        self.trace.calls.push(call(all.clone(), true, types.clone()));
        for (place, (result, ty)) in results.into_iter().zip(types).enumerate() {
            let Some(result) = result else { continue };
            let arguments =
                vec![TraceArgument::Value(all.clone()), TraceArgument::Integer(Expr::from(place))];
            self.trace.calls.push(TraceNode {
                name: result,
                types: vec![ty],
                is_list: false,
                operator: "getitem".to_owned(),
                arguments,
                named: Vec::new(),
            });
        }
        Ok(())
    }

    /// The name of the first argument, where it is a tensor or a list of tensors.
    fn first_tensor(&self, node: &Reader<'j>, scope: &Scope<'j>) -> Accepted<Option<String>> {
        let Some(first) = node.field("inputs")?.items()?.next() else { return Ok(None) };
        Ok(match first.field("arg")?.case()? {
            ("as_tensor", tensor) => Some(scope.name(tensor.field("name")?.text()?)),
            ("as_tensors", tensors) => match tensors.items()?.next() {
                Some(tensor) => Some(scope.name(tensor.field("name")?.text()?)),
                None => None,
            },
            _ => None,
        })
    }

    /// Writes out the graph that a node calls once, as it is.
    fn inline(
        &mut self,
        node: &Reader<'j>,
        operator: &str,
        results: &[Option<&'j str>],
        scope: &Scope<'j>,
    ) -> Accepted<()> {
        let given: Vec<Reader<'j>> = node
            .field("inputs")?
            .items()?
            .map(|given| given.field("arg"))
            .collect::<Accepted<_>>()?;
        let graph = given.iter().position(|it| matches!(it.case(), Ok(("as_graph", _))));
        let is_off = match (operator, graph) {
            // With or without gradients, the values are the same.
            ("wrap_with_set_grad_enabled", Some(_)) => true,
            // `device_type, dtype, enabled, cache_enabled, graph, ..`
            ("wrap_with_autocast", Some(place)) => {
                let enabled = given.get(2).filter(|_| place > 2).map(Reader::case).transpose()?;
                matches!(enabled, Some(("as_bool", flag)) if !flag.flag()?)
            }
            _ => false,
        };
        let Some(place) = graph.filter(|_| is_off) else {
            return Err(unsupported_operator(&format!("higher_order.{operator}")));
        };
        let (_, called) = given[place].case()?;
        let (own, graph) = (called.field("name")?.text()?, called.field("graph")?);
        let number = self.trace.calls.len();
        let inner = self.scope(&graph, format!("{}{own}.{number}.", scope.prefix))?;
        let parameters = graph.field("inputs")?.items()?;
        for (parameter, argument) in parameters.zip(&given[place + 1..]) {
            match (parameter.case()?, argument.case()?) {
                (("as_tensor", parameter), ("as_tensor", argument)) => {
                    let argument = scope.name(argument.field("name")?.text()?);
                    let parameter = inner.name(parameter.field("name")?.text()?);
                    self.versions.rename(&parameter, &argument)?;
                }
                // Sizes are expressions on both sides.
                (("as_sym_int", _), _) => {}
                ((case, _), _) => {
                    return Err(unsupported_type(&format!("a graph's input is a `{case}`")));
                }
            }
        }
        self.nodes(&graph, &inner)?;
        let mut returned = Vec::new();
        for output in graph.field("outputs")?.items()? {
            returned.extend(output_names(&output)?);
        }
        for (result, returned) in results.iter().zip(returned) {
            if let (Some(result), Some(returned)) = (result, returned) {
                self.versions.rename(&scope.name(result), &inner.name(returned))?;
            }
        }
        Ok(())
    }

    // --- arguments ---

    fn value(&self, tensor: &Reader<'j>, scope: &Scope<'j>) -> Accepted<TraceArgument> {
        let name = scope.name(tensor.field("name")?.text()?);
        self.versions.read(&name).map(|value| TraceArgument::Value(value.to_owned()))
    }

    /// An integer that is a number or has a name.
    fn named_size(&self, size: &Reader<'j>, scope: &Scope<'j>) -> Accepted<Expr> {
        match size.case()? {
            ("as_int", number) => Ok(number.integer()?.into()),
            ("as_name", name) => {
                let name = name.text()?;
                let found = self.named_sizes.get(&scope.name(name)).cloned();
                found.ok_or_else(|| unsupported_type(&format!("the size `{name}` is not known")))
            }
            (case, _) => Err(refused(format!("a size is given by `{case}`"))),
        }
    }

    fn argument(&self, argument: &Reader<'j>, scope: &Scope<'j>) -> Accepted<TraceArgument> {
        use TraceArgument as A;
        let (case, value) = argument.case()?;
        let list = |read: &dyn Fn(&Reader<'j>) -> Accepted<A>| {
            value.items()?.map(|it| read(&it)).collect::<Accepted<Vec<A>>>().map(A::List)
        };
        let optional = |it: &Reader<'j>| match it.case()? {
            ("as_tensor", tensor) => self.value(&tensor, scope),
            ("as_none", _) => Ok(A::None),
            (case, _) => Err(refused(format!("a tensor is given by `{case}`"))),
        };
        let number = |it: &Reader<'j>| match it.case()? {
            ("as_float", number) => number.float().map(A::Float),
            ("as_bool", flag) => flag.flag().map(A::Bool),
            _ => Err(unsupported_type("a number that follows from sizes is an argument")),
        };
        Ok(match case {
            // A layout or a format says how elements lie, which is ours to choose.
            "as_none" | "as_memory_format" | "as_layout" => A::None,
            "as_device" => match value.field("type")?.text()? {
                "cpu" => A::None,
                device => return Err(unsupported_type(&format!("a tensor is on `{device}`"))),
            },
            "as_tensor" => self.value(&value, scope)?,
            "as_tensors" => list(&|it| self.value(it, scope))?,
            "as_optional_tensor" => optional(&value)?,
            "as_optional_tensors" => list(&optional)?,
            "as_int" => A::Integer(value.integer()?.into()),
            "as_ints" => list(&|it| it.integer().map(|it| A::Integer(it.into())))?,
            "as_sym_int" => A::Integer(self.named_size(&value, scope)?),
            "as_sym_ints" => list(&|it| self.named_size(it, scope).map(A::Integer))?,
            "as_float" => A::Float(value.float()?),
            "as_floats" => list(&|it| it.float().map(A::Float))?,
            "as_sym_float" | "as_sym_bool" => number(&value)?,
            "as_sym_floats" | "as_sym_bools" => list(&number)?,
            "as_bool" => A::Bool(value.flag()?),
            "as_bools" => list(&|it| it.flag().map(A::Bool))?,
            "as_string" => A::Text(value.text()?.to_owned()),
            "as_strings" => list(&|it| Ok(A::Text(it.text()?.to_owned())))?,
            "as_scalar_type" => A::DType(element_of(value.integer()?)?.0),
            "as_complex" => {
                A::Complex(value.field("real")?.float()?, value.field("imag")?.float()?)
            }
            _ => return Err(unsupported_type(&format!("an argument is given by `{case}`"))),
        })
    }

    // --- outputs ---

    /// A name for each output; those that a module does not return have one later.
    fn result_names(
        &self,
        module: &Reader<'j>,
        signature: &Reader<'j>,
    ) -> Accepted<Vec<Option<String>>> {
        let mut are_returned = Vec::new();
        for spec in signature.field("output_specs")?.items()? {
            are_returned.push(matches!(spec.case()?.0, "user_output" | "loss_output"));
        }
        let count = are_returned.iter().filter(|it| **it).count();
        let root = match module.optional("module_call_graph")? {
            Some(entries) => entries.items()?.next(),
            None => None,
        };
        let signature = root.map(|root| root.optional("signature")).transpose()?.flatten();
        let structure = signature.map(|it| it.optional("out_spec")).transpose()?.flatten();
        let fields = module.optional("treespec_namedtuple_fields")?;
        let names = structure.map(|it| it.text()).transpose()?;
        let names = names.and_then(|text| leaf_names(text, fields.map(|it| it.json()), count));
        let names =
            names.unwrap_or_else(|| (0..count).map(|place| format!("result{place}")).collect());
        let mut names = names.into_iter();
        let name = |is_returned: bool| if is_returned { names.next() } else { None };
        Ok(are_returned.into_iter().map(name).collect())
    }

    fn output(
        &mut self,
        spec: &Reader<'j>,
        name: Option<String>,
        scope: &Scope<'j>,
    ) -> Accepted<()> {
        let (case, spec) = spec.case()?;
        let argument = spec.field("arg")?;
        let written = |field| -> Accepted<String> { Ok(spec.field(field)?.text()?.to_owned()) };
        let name = match case {
            "user_output" => return self.returned(&argument, name.unwrap_or_default(), scope),
            "loss_output" => {
                let value = scope.name(argument.field("name")?.text()?);
                let result = self.result(&value, name.unwrap_or_default())?;
                self.trace.results.push(result);
                return Ok(());
            }
            "buffer_mutation" => written("buffer_name")?,
            "parameter_mutation" => written("parameter_name")?,
            "user_input_mutation" => written("user_input_name")?,
            "gradient_to_parameter" => format!("gradient of {}", written("parameter_name")?),
            "gradient_to_user_input" => format!("gradient of {}", written("user_input_name")?),
            "token" => return Ok(()),
            _ => return Err(unsupported_type(&format!("an output is a `{case}`"))),
        };
        let value = scope.name(argument.field("name")?.text()?);
        let result = self.result(&value, name)?;
        self.written.push(result);
        Ok(())
    }

    fn result(&self, value: &str, name: String) -> Accepted<TraceResult> {
        let at = |found: Diagnostic| found.or_at(|| format!("output `{name}`"));
        let value = self.versions.read(value).map_err(at)?.to_owned();
        Ok(TraceResult { value, name: Some(name) })
    }

    /// An output of the module.
    fn returned(&mut self, argument: &Reader<'j>, name: String, scope: &Scope<'j>) -> Accepted<()> {
        let at = |found: Diagnostic| found.or_at(|| format!("output `{name}`"));
        let (dtype, number) = match argument.case()? {
            ("as_tensor", tensor) => {
                let value = scope.name(tensor.field("name")?.text()?);
                let result = self.result(&value, name)?;
                self.trace.results.push(result);
                return Ok(());
            }
            ("as_none", _) => return Ok(()),
            ("as_sym_int", size) => {
                let size = self.named_size(&size, scope).map_err(at)?;
                (DType::I64, TraceArgument::Integer(size))
            }
            ("as_int", number) => (DType::I64, TraceArgument::Integer(number.integer()?.into())),
            ("as_float", number) => (DType::F64, TraceArgument::Float(number.float()?)),
            ("as_bool", flag) => (DType::Bool, TraceArgument::Bool(flag.flag()?)),
            (case, _) => return Err(at(unsupported_type(&format!("it is given by `{case}`")))),
        };
        let value = format!("number {}", self.trace.results.len());
        self.trace.calls.push(TraceNode {
            name: value.clone(),
            types: vec![Some(Declared {
                dtype,
                is_complex: false,
                shape: Vec::new(),
                strides: None,
            })],
            is_list: false,
            operator: "aten.scalar_tensor.default".to_owned(),
            arguments: vec![number],
            named: Vec::new(),
        });
        self.trace.results.push(TraceResult { value, name: Some(name) });
        Ok(())
    }

    /// What nodes have written to, and no output is: its new values come last.
    fn written_states(&mut self) -> Accepted<()> {
        for (name, own) in std::mem::take(&mut self.states) {
            let at = |found: Diagnostic| found.or_at(|| format!("tensor `{own}`"));
            let is_there = self.written.iter().any(|it| it.name.as_deref() == Some(own));
            if self.versions.read(name).map_err(at)? != name && !is_there {
                let result = self.result(name, own.to_owned())?;
                self.written.push(result);
            }
        }
        self.trace.results.append(&mut self.written);
        Ok(())
    }
}

/// The names of what an output of a node or a graph gives; none of what is no tensor.
fn output_names<'j>(output: &Reader<'j>) -> Accepted<Vec<Option<&'j str>>> {
    let name = |tensor: Reader<'j>| tensor.field("name")?.text();
    Ok(match output.case()? {
        ("as_tensor", tensor) => vec![Some(name(tensor)?)],
        ("as_tensors", tensors) => {
            tensors.items()?.map(|it| name(it).map(Some)).collect::<Accepted<_>>()?
        }
        ("as_optional_tensor", tensor) => output_names(&tensor)?,
        ("as_optional_tensors", tensors) => {
            let mut names = Vec::new();
            for tensor in tensors.items()? {
                names.extend(output_names(&tensor)?);
            }
            names
        }
        _ => vec![None],
    })
}
