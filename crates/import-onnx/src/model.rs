//! From a decoded model to a module: its inputs, its graph, its outputs.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{Diagnostic, Diagnostics, codes};
use front::{Accepted, Coded, Operand};
use graph::TensorType;
use module::Module;
use sym::Expr;
use tensor::{DType, Kind, Structure};

use crate::external::ExternalData;
use crate::importer::{Importer, Scope, too_many_nodes};
use crate::inputs::{self, Declared};
use crate::names::{self, Functions, defined_twice};
use crate::operators;
use crate::options::{ImportOptions, Imported, Wanted};
use crate::proto::{GraphProto, ModelProto, NodeProto, ValueInfoProto};
use crate::survey;

/// The results of the function with their names.
type NamedResults = Vec<(String, graph::ValueId)>;

/// When so many values of inputs have been told and more are asked for, those of all alike are: an
/// import for each would take time that grows with the square of their number.
const MANY_VALUES: usize = 16;

/// Elements of an input that is asked for with others alike.
const SMALL_INPUT: i64 = 1024;

/// Imports a decoded model, or tells what must be known of its inputs first.
pub(crate) fn import(
    model: &ModelProto,
    external: ExternalData,
    options: &ImportOptions,
) -> base::Result<Imported> {
    let functions = names::functions(model);
    let (body, mut importer) = begin(model, &functions, external, options)?;
    let imported = importer.body(body, options);
    if let Err(found) = &imported {
        // Answers given before were not enough where nothing new is asked.
        importer.asked.retain(|name, wanted| !options.tells(name, *wanted));
        if options.input_values.len() >= MANY_VALUES {
            importer.ask_alike(options);
        }
        let is_unknown = |found: &Diagnostic| found.code == codes::UNKNOWN_CONTENTS;
        let node = importer.node_here.filter(|_| found.iter().all(is_unknown));
        if !importer.asked.is_empty() || node.is_some() {
            let (inputs, reason) = (importer.asked, found.clone());
            return Ok(Imported::Asks { inputs, node, reason });
        }
    }
    let (results, outputs) = imported.map_err(|found| {
        // An operator met inside a branch is reported with all others of the model.
        let is_unsupported = |found: &Diagnostic| found.code == codes::UNSUPPORTED_OPERATOR;
        if found.iter().any(is_unsupported) {
            let all = survey::unsupported(body, &functions, &importer.opsets);
            if !all.is_empty() {
                return all;
            }
        }
        found
    })?;
    let mut module = Module::default();
    module.functions.push(Arc::new(importer.graph.builder.finish(results)));
    module.constants = importer.graph.constants;
    Ok(Imported::Module { module, outputs, strings: importer.strings })
}

/// What the names of a model's own graph stand for.
///
/// # Errors
/// As [`import`], also where more must be known of inputs.
pub(crate) fn values(
    model: &ModelProto,
    external: ExternalData,
    options: &ImportOptions,
) -> base::Result<Scope> {
    let functions = names::functions(model);
    let (body, mut importer) = begin(model, &functions, external, options)?;
    importer.body(body, options)?;
    Ok(importer.scopes.swap_remove(0))
}

/// An import of a model that is about to begin; also the model's graph.
fn begin<'m>(
    model: &'m ModelProto,
    functions: &'m Functions<'m>,
    external: ExternalData,
    options: &ImportOptions,
) -> base::Result<(&'m GraphProto, Importer<'m>)> {
    let opsets = survey::check_form(model)?;
    let Some(body) = &model.graph else {
        return Err(Diagnostic::error(codes::NOT_ONNX, "the file is not an ONNX model")
            .because("it holds no graph")
            .remedy("check that it is the model itself, and copy it again")
            .into());
    };
    if body.node.len() > options.limits.nodes {
        return Err(too_many_nodes(options.limits.nodes).into());
    }
    survey::check_top(body, functions, &opsets)?;
    check_literals(body, options)?;
    let mut importer = Importer::new(functions, opsets, external, options, operators::lower);
    if options.is_part {
        importer.graph.binds = true;
        importer.graph.random_nodes = number_of_part(body);
    }
    Ok((body, importer))
}

/// A number that tells the parts of a model apart, by the names of their outputs.
fn number_of_part(part: &GraphProto) -> u64 {
    let names = part.output.iter().flat_map(|output| output.name.bytes());
    // FNV-1a, of 32 bits.
    let add = |all: u32, byte: u8| (all ^ u32::from(byte)).wrapping_mul(16_777_619);
    names.fold(2_166_136_261, add).into()
}

/// Refuses names of literals that no constant of the model has.
fn check_literals(body: &GraphProto, options: &ImportOptions) -> base::Result<()> {
    if options.literals.is_empty() {
        return Ok(());
    }
    let mut names = BTreeSet::new();
    add_constant_names(body, &mut names);
    let unknown = options.literals.iter().filter(|name| !names.contains(name.as_str()));
    let unknown = unknown.map(|name| {
        Diagnostic::error(codes::UNDEFINED_NAME, format!("no constant is named `{name}`"))
            .at(format!("--literal {name}"))
            .because("only constants that the file stores by name can be made literals")
            .remedy("use the name of one of the model's initializers")
    });
    unknown.collect::<Diagnostics>().or_ok(())
}

/// The names of the constants of a graph and of the graphs inside its nodes.
fn add_constant_names<'m>(graph: &'m GraphProto, names: &mut BTreeSet<&'m str>) {
    names.extend(graph.initializer.iter().map(|tensor| tensor.name.as_str()));
    let sparse = graph.sparse_initializer.iter().filter_map(|sparse| sparse.values.as_ref());
    names.extend(sparse.map(|values| values.name.as_str()));
    graph
        .node
        .iter()
        .flat_map(NodeProto::inner_graphs)
        .for_each(|it| add_constant_names(it, names));
}

impl Importer<'_> {
    /// Lowers the model's graph and returns its results.
    fn body(
        &mut self,
        body: &GraphProto,
        options: &ImportOptions,
    ) -> base::Result<(NamedResults, Vec<Structure>)> {
        let mut found = Diagnostics::new();
        let mut declared: Vec<Declared> = Vec::new();
        let wanted: Vec<_> = inputs::without_default(body).into_iter().cloned().collect();
        let (parts, structures) = self.parts(&wanted, options)?;
        for input in inputs::declared(&parts) {
            match input {
                Ok(input) => declared.push(input),
                Err(diagnostic) => found.push(diagnostic),
            }
        }
        let declared = found.or_ok(declared)?;
        let unknown_rank = |input: &&Declared| {
            input.shape.is_none() && !options.input_shapes.contains_key(&input.name)
        };
        let unknown = declared.iter().filter(unknown_rank);
        self.asked.extend(unknown.map(|input| (input.name.clone(), Wanted::Shape)));
        let parameters = inputs::add_parameters(&declared, options, &mut self.graph)?;
        let mut tensors = parameters.into_iter().map(|(_, value)| value);
        for (input, structure) in wanted.iter().zip(&structures) {
            if let Some(value) = Operand::from_tensors(structure, &mut tensors) {
                self.define(input.name.as_str().into(), value)?;
            }
        }
        if body.output.is_empty() {
            return Err(Diagnostic::error(codes::NOT_ONNX, "the model has no outputs")
                .because("without outputs there is nothing to compute")
                .remedy("export the model with the outputs that are wanted")
                .into());
        }
        let mut names = BTreeSet::new();
        if let Some(again) = body.output.iter().find(|output| !names.insert(&output.name)) {
            return Err(defined_twice(&again.name).into());
        }
        let outputs = self.graph_here(body)?;
        self.node_here = None;
        let mut results = Vec::new();
        for (value, output) in outputs.iter().zip(&body.output) {
            self.check_output(output, value)?;
            let names = value.structure().names(&output.name);
            for (name, tensor) in names.into_iter().zip(value.tensors()) {
                let number = results.len() + self.strings.known.len();
                match tensor.weight().filter(|weight| weight.tensor.dtype() == DType::String) {
                    Some(weight) => {
                        self.strings.known.insert(number, weight.tensor.clone());
                    }
                    None if tensor.coded().is_some() => {
                        let Some(Coded { codes, texts }) = tensor.coded() else { continue };
                        self.strings.coded.insert(number, texts.to_vec());
                        results.push((name, self.graph.data(codes)?));
                    }
                    None if tensor.dtype() == DType::String => {
                        self.ask_behind(&tensor, Wanted::Value);
                        return Err(unknown_strings(&name).into());
                    }
                    None => results.push((name, self.graph.data(&tensor)?)),
                }
            }
        }
        Ok((results, outputs.iter().map(Operand::structure).collect()))
    }

    /// The tensors that the inputs are made of, and how; asks where that is not told.
    fn parts(
        &mut self,
        inputs: &[ValueInfoProto],
        options: &ImportOptions,
    ) -> base::Result<(Vec<ValueInfoProto>, Vec<Structure>)> {
        let (mut parts, mut structures) = (Vec::new(), Vec::new());
        let mut found = Diagnostics::new();
        for input in inputs {
            let structure = match inputs::kind_of(input) {
                Some(Kind::Tensor) | None => Structure::Tensor,
                Some(_) => match options.input_structures.get(&input.name) {
                    Some(structure) => structure.clone(),
                    None => {
                        self.asked.insert(input.name.clone(), Wanted::Structure);
                        found.push(
                            Diagnostic::error(
                                codes::UNKNOWN_CONTENTS,
                                "what the input is made of must be known to compile",
                            )
                            .at(format!("input \"{}\"", input.name))
                            .because("it is a sequence or an optional value")
                            .remedy("run the model with the input given"),
                        );
                        continue;
                    }
                },
            };
            match (&structure, inputs::parts(input, &structure)) {
                (_, Some(tensors)) => parts.extend(tensors),
                // Said of the declared type when it is read.
                (Structure::Tensor, None) => parts.push(input.clone()),
                (_, None) => found.push(
                    Diagnostic::error(codes::UNSUPPORTED_TYPE, "the input is not so declared")
                        .at(format!("input \"{}\"", input.name))
                        .because("it is made of other kinds of values")
                        .remedy("give a value of the kind that `info` shows"),
                ),
            }
            structures.push(structure);
        }
        found.or_ok((parts, structures))
    }

    /// Refuses an output whose type is not the declared one.
    fn check_output(&self, output: &ValueInfoProto, value: &Operand) -> Accepted<()> {
        // An output without a type is what it is.
        if value.list().is_some() || output.r#type.is_none() {
            return Ok(());
        }
        let declared = inputs::declared(std::slice::from_ref(output)).remove(0)?;
        let dtype = crate::data_type::data_type(declared.data_type.into())?;
        if dtype == value.dtype() {
            return Ok(());
        }
        Err(Diagnostic::error(codes::UNSUPPORTED_TYPE, "an output is not of the declared type")
            .at(format!("output \"{}\"", output.name))
            .because(format!("it is declared as {dtype} and computed as {}", value.dtype()))
            .remedy("check the model with the tool that exported it, or export it again"))
    }

    /// Asks for all small inputs of the types of which one is asked for.
    fn ask_alike(&mut self, options: &ImportOptions) {
        let function = self.graph.builder.function();
        let named = function.parameter_names.iter().zip(function.parameters());
        let typed = named.filter_map(|(name, &id)| Some((name, function.ty(id).as_tensor()?)));
        let typed: Vec<(&String, &TensorType)> = typed.collect();
        let is_asked = |name: &str| self.asked.get(name) == Some(&Wanted::Value);
        let asked: BTreeSet<DType> =
            typed.iter().filter(|(name, _)| is_asked(name)).map(|(_, ty)| ty.dtype).collect();
        let is_small = |ty: &TensorType| {
            let extents = ty.shape.iter().filter_map(Expr::as_constant);
            extents.fold(1, i64::saturating_mul) <= SMALL_INPUT
        };
        for (name, ty) in typed {
            let is_told = options.tells(name, Wanted::Value);
            if asked.contains(&ty.dtype) && is_small(ty) && !is_told {
                self.asked.entry(name.clone()).or_insert(Wanted::Value);
            }
        }
    }
}

fn unknown_strings(name: &str) -> Diagnostic {
    Diagnostic::error(codes::UNKNOWN_CONTENTS, "strings must be known to compile")
        .at(format!("output \"{name}\""))
        .because("they are those of an input")
        .remedy("run the model with its inputs given")
}
