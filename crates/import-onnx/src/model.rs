//! From a decoded model to a module: its inputs, its graph, its outputs.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{Diagnostic, Diagnostics, codes};
use front::{Accepted, Coded, FactKind, Facts, Graph, Operand, Texts};
use module::Module;
use tensor::{DType, Kind, Structure};

use crate::external::ExternalData;
use crate::importer::{Importer, too_many_nodes};
use crate::inputs::{self, Declared};
use crate::names::{self, Functions, defined_twice};
use crate::operators;
use crate::options::{ImportOptions, Imported};
use crate::proto::{GraphProto, ModelProto, ValueInfoProto};
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
    Ok(Imported { module, inputs, outputs, strings: importer.strings, needs })
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
    let Some(body) = &model.graph else {
        return Err(Diagnostic::error(codes::NOT_ONNX, "the file is not an ONNX model")
            .because("it holds no graph")
            .remedy("check that it is the model itself, and copy it again")
            .into());
    };
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
            .remedy("use the name of one of the model's initializers")
    });
    unknown.collect::<Diagnostics>().or_ok(())
}

impl Importer<'_> {
    /// Lowers the model's graph and returns its results, and how inputs and outputs are made of
    /// tensors.
    fn body(
        &mut self,
        body: &GraphProto,
        options: &ImportOptions,
    ) -> base::Result<(NamedResults, Vec<Structure>, Vec<Structure>)> {
        let wanted = inputs::without_default(body);
        let (parts, structures) = self.parts(&wanted)?;
        let parameters = inputs::add_parameters(&parts, options, &mut self.graph)?;
        let mut tensors = parameters.into_iter();
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
        if self.graph.count_needs() > 0 {
            return Ok(Default::default());
        }
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
                    None => results.push((
                        name,
                        match tensor.coded() {
                            Some(Coded { codes, texts: Texts::Known(texts) }) => {
                                self.strings.coded.insert(number, texts.to_vec());
                                self.graph.data(codes)?
                            }
                            _ => self.graph.data(&tensor)?,
                        },
                    )),
                }
            }
        }
        Ok((results, structures, outputs.iter().map(Operand::structure).collect()))
    }

    /// The tensors that the inputs are made of, and how.
    fn parts(
        &mut self,
        inputs: &[&ValueInfoProto],
    ) -> base::Result<(Vec<Declared>, Vec<Structure>)> {
        let (mut parts, mut structures) = (Vec::new(), Vec::new());
        let mut found = Diagnostics::new();
        for input in inputs {
            let structure = match inputs::kind_of(input) {
                Some(Kind::Tensor) | None => Structure::Tensor,
                Some(Kind::Map) => Structure::Map,
                Some(_) => match self.graph.facts.structures.get(&input.name) {
                    Some(structure) => structure.clone(),
                    None => {
                        let reason = Diagnostic::error(
                            codes::UNKNOWN_CONTENTS,
                            "what the input is made of must be known to compile",
                        )
                        .at(format!("input \"{}\"", input.name))
                        .because("it is a sequence or an optional value")
                        .remedy("run the model with the input given");
                        self.graph.need_input(&input.name, FactKind::Structure, &reason);
                        found.push(reason);
                        continue;
                    }
                },
            };
            match inputs::parts(input, &structure) {
                Ok(tensors) => parts.extend(tensors),
                Err(unfit) => found.push(unfit),
            }
            structures.push(structure);
        }
        inputs::name_extents(&mut parts);
        found.or_ok((parts, structures))
    }

    /// Refuses an output whose type is not the declared one.
    fn check_output(&self, output: &ValueInfoProto, value: &Operand) -> Accepted<()> {
        // An output without a type is what it is.
        if value.list().is_some() || output.r#type.is_none() {
            return Ok(());
        }
        let declared = match &inputs::parts(output, &Structure::Tensor)?[..] {
            [tensor] if tensor.list.is_none() => {
                let dtype = crate::data_type::data_type(tensor.data_type.into())?;
                if dtype == value.dtype() {
                    return Ok(());
                }
                dtype.to_string()
            }
            _ => "a list".to_owned(),
        };
        Err(Diagnostic::error(codes::UNSUPPORTED_TYPE, "an output is not of the declared type")
            .at(format!("output \"{}\"", output.name))
            .because(format!("it is declared as {declared} and computed as {}", value.dtype()))
            .remedy("check the model with the tool that exported it, or export it again"))
    }
}
