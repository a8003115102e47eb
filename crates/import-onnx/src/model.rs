//! From a decoded model to a module: its inputs, its graph, its outputs.

use std::collections::BTreeSet;
use std::mem::discriminant;
use std::sync::Arc;

use base::nearest::nearest;
use base::{Diagnostic, Diagnostics, codes};
use front::{Accepted, Facts, Graph, ImportOptions, Imported, Operand, type_error};
use module::Module;
use tensor::Kind;

use crate::external::ExternalData;
use crate::importer::{Importer, too_many_nodes};
use crate::inputs;
use crate::names::{self, Functions, defined_twice};
use crate::operators;
use crate::proto::{GraphProto, ModelProto, TypeValue, ValueInfoProto};
use crate::survey::{self, Survey};

/// The results of the function with their names.
type NamedResults = Vec<(String, graph::ValueId)>;

/// Imports a decoded model, or what computes the facts that it needs.
pub(crate) fn import(
    model: &ModelProto,
    external: ExternalData,
    options: &ImportOptions,
    facts: &Facts,
) -> base::Result<Imported> {
    let functions = names::functions(model);
    let (body, mut importer) = begin(model, &functions, external, options, facts)?;
    let imported = importer.body(body, options);
    if let Some(reason) = imported.as_ref().err().and_then(|found| found.iter().next()) {
        importer.graph.need_sizes(reason);
    }
    let (needs, computed) = importer.graph.take_needs();
    let (results, inputs, outputs) = match imported {
        Ok(_) if !needs.is_empty() => (computed, Vec::new(), Vec::new()),
        Ok(imported) => imported,
        // What is wrong may be that something is not known.
        Err(_) if !needs.is_empty() && computed.is_empty() => {
            importer.graph = Graph::new("main", options.limits.clone());
            Default::default()
        }
        Err(found) => {
            // An operator met inside a branch is reported with all others of the model.
            let is_unsupported = |found: &Diagnostic| found.code == codes::UNSUPPORTED_OPERATOR;
            if found.iter().any(is_unsupported) {
                Survey::of(body, &functions, &importer.opsets).check_all()?;
            }
            return Err(found);
        }
    };
    let mut module = Module::default();
    module.functions.push(Arc::new(importer.graph.builder.finish(results)));
    module.constants = importer.graph.constants;
    Ok(Imported { module, inputs, outputs, needs })
}

/// An import of a model that is about to begin; also the model's graph.
fn begin<'m>(
    model: &'m ModelProto,
    functions: &'m Functions<'m>,
    external: ExternalData,
    options: &ImportOptions,
    facts: &Facts,
) -> base::Result<(&'m GraphProto, Importer<'m>)> {
    let opsets = survey::check_form(model)?;
    let body = model.body();
    if body.node.len() > options.limits.nodes {
        return Err(too_many_nodes(options.limits.nodes).into());
    }
    Survey::of(body, functions, &opsets).check()?;
    check_literals(body, options)?;
    let mut importer = Importer::new(functions, opsets, external, options, operators::lower);
    importer.graph.facts = facts.clone();
    Ok((body, importer))
}

/// Refuses names of literals that no constant of the model has.
fn check_literals(body: &GraphProto, options: &ImportOptions) -> base::Result<()> {
    if options.literals.is_empty() {
        return Ok(());
    }
    let mut names = BTreeSet::new();
    for graph in body.all() {
        let sparse = graph.sparse_initializer.iter().filter_map(|sparse| sparse.values.as_ref());
        names.extend(graph.initializer.iter().chain(sparse).map(|tensor| tensor.name.as_str()));
    }
    let unknown = options.literals.iter().filter(|name| !names.contains(name.as_str()));
    let unknown = unknown.map(|name| {
        Diagnostic::error(codes::UNDEFINED_NAME, format!("no constant is named `{name}`"))
            .at(format!("--literal {name}"))
            .because("only constants that the file stores by name can be made literals")
            .remedy(match nearest(name, names.iter().copied()) {
                Some(near) => format!("use `--literal {near}`, or the name of another constant"),
                None => "use the name of one of the model's initializers".to_owned(),
            })
    });
    unknown.collect::<Diagnostics>().or_ok(())
}

impl Importer<'_> {
    /// Lowers the model's graph and returns its results, and what its inputs and outputs are.
    fn body(
        &mut self,
        body: &GraphProto,
        options: &ImportOptions,
    ) -> base::Result<(NamedResults, Vec<Kind>, Vec<Kind>)> {
        let wanted = inputs::without_default(body);
        let values = inputs::add_parameters(&wanted, options, &mut self.graph)?;
        let kinds = values.iter().map(kind).collect::<Accepted<_>>()?;
        for (input, value) in wanted.iter().zip(values) {
            self.define(input.name.as_str().into(), value)?;
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
        if self.graph.count_needs() > 0 {
            return Ok(Default::default());
        }
        let (mut results, mut output_kinds) = (Vec::new(), Vec::new());
        for (value, output) in outputs.iter().zip(&body.output) {
            self.check_output(output, value)?;
            let kind = kind(value)?;
            for (name, component) in
                kind.component_names(&output.name).into_iter().zip(value.components())
            {
                results.push((name, self.graph.data(&component)?));
            }
            output_kinds.push(kind);
        }
        Ok((results, kinds, output_kinds))
    }

    /// Refuses an output that is not what is declared.
    fn check_output(&self, output: &ValueInfoProto, value: &Operand) -> Accepted<()> {
        // An output without a type is what it is.
        let Some(ty) = &output.r#type else { return Ok(()) };
        let (declared, computed) = (inputs::declared(output), kind(value)?);
        let is_declared = match (&ty.value, &computed) {
            (Some(TypeValue::Tensor(tensor)), Kind::Tensor) => {
                crate::data_type::data_type(tensor.elem_type.into())? == value.dtype()
            }
            (_, Kind::Tensor) => false,
            _ => discriminant(&declared.kind) == discriminant(&computed),
        };
        if is_declared {
            return Ok(());
        }
        let computed = match computed {
            Kind::Tensor => value.dtype().to_string(),
            Kind::Sequence(_) => "a sequence".to_owned(),
            Kind::Optional(_) => "an optional value".to_owned(),
            Kind::Maps | Kind::Map => "maps".to_owned(),
        };
        Err(Diagnostic::error(codes::UNSUPPORTED_TYPE, "an output is not of the declared type")
            .at(format!("output \"{}\"", output.name))
            .because(format!("it is declared as `{declared}` and computed as {computed}"))
            .remedy("check the model with the tool that exported it, or export it again"))
    }
}

/// What a value is to callers.
fn kind(value: &Operand) -> Accepted<Kind> {
    value.kind().map_err(type_error)
}
