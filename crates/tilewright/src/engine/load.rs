//! From an engine file to an executable.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use base::text::Parser;
use base::{
    ConstantId, Diagnostic, FunctionId, Id, IntoTree, KernelId, Limits, Locations, Remark, Result,
    codes,
};
use engine::{Damage, Decoder, EngineFile};
use front::Facts;
use graph::{Function, TensorType};
use lower::Role;
use module::{Constant, Module};
use program::Program;
use runtime::{Code, KernelCode, StatePool};
use sym::{Expr, Range, SymbolId};
use tensor::{DType, Tensor};

use super::constants::LoadedConstants;
use super::describe::{Manifest, read_port};
use super::{EngineSource, section};
use crate::cache::{Cache, SegmentFacts, Shapes};
use crate::compile::compile_source;
use crate::constants::Constants;
use crate::executable::Executable;
use crate::jit;
use crate::late::LateValue;
use crate::options::{Activations, KeyValues, Options, Precision, TargetChoice};
use crate::pipeline::FrontHalf;
use crate::plan::Plan;
use crate::sharing::Sharing;
use crate::source::Source;
use crate::specialisation::{
    LoweredFunction, Ranges, Request, ScopedFunction, Scopes, Specialisation,
};
use crate::variant::{Model, Variant};

type Decoded<T> = std::result::Result<T, Damage>;

impl Executable {
    /// Makes an executable of an engine file, which [`Executable::save`] has written: the file is
    /// mapped, its code and tables are checked, nothing is compiled. Of the options those count
    /// that are about runs: threads and limits.
    ///
    /// # Errors
    /// `TW0302` for a file that cannot be read, `TW0303` for one that is no engine file or not as
    /// it was written, `TW0304` for one of another version, `TW0402` for one whose instructions
    /// this machine has not.
    pub fn load(path: impl AsRef<Path>, options: &Options) -> Result<Executable> {
        let source = EngineSource::open(path)?;
        load(Arc::new(source), options)
    }
}

impl EngineSource {
    /// Maps an engine file and reads what it is.
    ///
    /// # Errors
    /// As [`Executable::load`].
    pub fn open(path: impl AsRef<Path>) -> Result<EngineSource> {
        EngineSource::of(EngineFile::open(path)?)
    }

    /// Reads what an engine is.
    ///
    /// # Errors
    /// As [`Executable::load`].
    pub(crate) fn of(file: EngineFile) -> Result<EngineSource> {
        let manifest = Manifest::decode(&file.section(section::MANIFEST)?)?;
        Ok(EngineSource { file, manifest, origin: None })
    }

    /// The model, where the engine holds it, or it is there.
    ///
    /// # Errors
    /// A model that does not decode; an engine of code.
    pub(crate) fn model(&self, limits: &Limits) -> Result<Source> {
        if let Some(origin) = &self.origin {
            return Source::read(origin, limits);
        }
        let model = self.file.optional_section(section::MODEL).ok_or_else(|| {
            Diagnostic::error(codes::NOT_IN_ENGINE, "an engine file does not hold the model")
                .because("what runs need has been kept of it: code, and what is made of weights")
                .remedy("do this with the model file that the engine was compiled from")
        })?;
        Source::of_bytes(model, limits)
    }

    /// The options of what is made of an engine on this machine, where these are given.
    ///
    /// # Errors
    /// `TW0402` for instructions that this machine has not; `TW0304`, `TW0305` for options that ask
    /// for other code.
    pub(super) fn options_to_run(&self, given: &Options) -> Result<Options> {
        let options = self.options(given);
        let threads = Some(options.thread_count());
        let target = &self.manifest.target;
        target.check_machine(&runtime::cpu::has_feature)?;
        if let TargetChoice::Named(name) = &given.target
            && *name != target.name
        {
            let message = format!("the engine file is compiled for {}, not {name}", target.name);
            return Err(Diagnostic::error(codes::FOREIGN_ENGINE, message)
                .at(format!("--target {name}"))
                .because("the code in an engine file is for one target")
                .remedy("leave the target out, or compile the model again")
                .into());
        }
        if let Some(option) = contradiction(given, &self.manifest.options) {
            return Err(Diagnostic::error(codes::NOT_IN_ENGINE, "the engine file has other code")
                .at(option)
                .because("what it was compiled with is said when it is made, not when it is loaded")
                .remedy("leave the option out, or compile the model with it")
                .into());
        }
        Ok(Options { threads, ..options })
    }
}

/// Makes an executable of an engine.
///
/// # Errors
/// As [`Executable::load`].
pub(crate) fn load(source: Arc<EngineSource>, given: &Options) -> Result<Executable> {
    let options = source.options_to_run(given)?;
    let Manifest { target, inputs, outputs, .. } = &source.manifest;
    if source.file.optional_section(section::MODEL).is_some() {
        return compile_source(source.model(&options.limits)?, &options);
    }
    let (inputs, outputs, target) = (inputs.clone(), outputs.clone(), target.clone());
    let cache = Cache::new(usize::try_from(options.limits.cache_bytes).unwrap_or(usize::MAX));
    let loader = Loader::new(&source, options.clone())?;
    let section = source.file.section(section::VARIANT)?;
    let source = Source::Engine(source);
    let model = Model { source, options, target, store: Arc::default(), cache };
    let mut decoder = Decoder::new(&section);
    let (variant, segments) = loader.variant(&mut decoder, &outputs)?;
    decoder.end()?;
    // What all runs need is made while it is waited for the first of them.
    if let [(_, segment)] = &segments[..] {
        segment.states.prepare(model.options.thread_count())?;
    }
    for (facts, segment) in segments {
        model.cache.keep_segment(&facts, segment);
    }
    variant.keep(&model.cache);
    let (making, fixed) = (Mutex::default(), OnceLock::new());
    Ok(Executable { model, inputs, outputs, making, fixed })
}

/// An option that asks for other code than an engine was compiled to.
fn contradiction(given: &Options, own: &Options) -> Option<String> {
    let other =
        |given: &BTreeSet<String>, own: &BTreeSet<String>| given.difference(own).next().cloned();
    let extent = |(name, &extent): (&String, &i64)| {
        let fixed = own.dims.get(name).filter(|&&fixed| fixed != extent);
        fixed.map(|_| format!("--dim {name}={extent}"))
    };
    if given.precision != Precision::F32 && given.precision != own.precision {
        return Some("--precision bf16".to_owned());
    }
    if given.activations != Activations::AsGiven && given.activations != own.activations {
        return Some("--activations int8".to_owned());
    }
    if given.key_values != KeyValues::F32 && given.key_values != own.key_values {
        return Some(format!("--key-values {}", given.key_values.name()));
    }
    if given.symbolic && !own.symbolic {
        return Some("--symbolic".to_owned());
    }
    let pass = other(&given.disabled, &own.disabled).map(|name| format!("--disable {name}"));
    let literal = || other(&given.literals, &own.literals).map(|name| format!("--literal {name}"));
    pass.or_else(literal).or_else(|| given.dims.iter().find_map(extent))
}

#[derive(Clone)]
pub(super) struct Loader {
    target: backend::Target,
    options: Options,
    file: EngineFile,
    pub(super) constants: LoadedConstants,
}

/// A program with its code and the weights that it reads.
struct Unit {
    program: Arc<Program>,
    code: Arc<Code>,
    weights: BTreeMap<ConstantId, Tensor>,
}

/// What lowering starts from, where it is done again.
#[derive(Clone)]
pub(super) struct Origin {
    front: Arc<LateValue<FrontHalf>>,
    target: backend::Target,
    options: Options,
}

type Segments = Vec<(SegmentFacts<'static>, Specialisation)>;

impl Loader {
    pub(super) fn new(source: &EngineSource, options: Options) -> Result<Loader> {
        let constants = LoadedConstants::new(&source.file)?;
        let (target, file) = (source.manifest.target.clone(), source.file.clone());
        Ok(Loader { target, options, file, constants })
    }

    /// What the engine was made of, which is read when something is made of it again.
    pub(super) fn origin(&self) -> Result<Origin> {
        let (target, options) = (self.target.clone(), self.options.clone());
        Ok(Origin { front: self.front()?, target, options })
    }

    fn variant(
        &self,
        decoder: &mut Decoder<'_>,
        outputs: &[front::Port],
    ) -> Result<(Variant, Segments)> {
        let id = Variant::next_id();
        let only_segment = decoder.option(read_id)?;
        let constants = self.constants.bytes(decoder)?;
        // Each run reads all of it.
        tensor::mapped::populate(&constants);
        let absent: BTreeSet<ConstantId> = decoder.list(read_id)?;
        let offsets: Vec<u64> = decoder.list(Decoder::number)?;
        if offsets.iter().any(|&offset| offset > constants.len() as u64) {
            return Err(Damage::new("a constant lies behind its block").into());
        }
        let offsets: Arc<[u64]> = offsets.into();
        let origin = self.origin()?;
        let front = origin.front.clone();
        let mut scopes: Vec<(FunctionId, Ranges, Arc<ScopedFunction>)> = Vec::new();
        for _ in 0..decoder.count()? {
            scopes.push(self.scope(decoder, &origin, &offsets)?);
        }
        let mut segments = Segments::new();
        for _ in 0..decoder.count()? {
            segments.push(self.segment(decoder, id, &origin, &offsets, &scopes)?);
        }
        for (_, segment) in &segments {
            let needed = segment.executable().constant_bytes();
            if needed > constants.len() || segment.executable().fills_constants() {
                return Err(Damage::new("a program has another block of constants").into());
            }
        }
        let mut compiling: BTreeMap<FunctionId, Vec<_>> = BTreeMap::new();
        for (function, ranges, made) in scopes {
            compiling.entry(function).or_default().push((ranges, made));
        }
        let compiling: BTreeMap<FunctionId, Scopes> =
            compiling.into_iter().map(|(id, made)| (id, made.into_iter().collect())).into_map();
        let setup = self.setup(&origin)?;
        let of = front.clone();
        let plan = LateValue::by(move || sound(|| Ok(Plan::of(&of))));
        let variant = Variant {
            id,
            front,
            plan,
            only_segment,
            outputs: outputs.to_vec(),
            facts: Facts::default(),
            constants: Constants::Mapped(constants),
            setup,
            absent,
            compiling: Mutex::new(compiling),
        };
        Ok((variant, segments))
    }

    fn unit(&self, decoder: &mut Decoder<'_>) -> Result<Unit> {
        let program = program::parse(decoder.text()?)?;
        program::verify(&program)?;
        let kernels: Vec<(KernelId, KernelCode<'_>)> = decoder.list(|decoder| {
            let id = read_id(decoder)?;
            let (name, scratch_bytes) = (decoder.text()?, decoder.number()?);
            Ok((id, KernelCode { name, bytes: decoder.bytes()?, scratch_bytes }))
        })?;
        let code = Arc::new(Code::load(kernels)?);
        let weights = decoder.list(|decoder| {
            let id = read_id(decoder)?;
            Ok((id, self.constants.tensor(decoder)?.0))
        })?;
        if self.options.perf_map {
            code.append_perf_map().map_err(|found| found.remedy("leave `--perf-map` out"))?;
        }
        Ok(Unit { program: Arc::new(program), code, weights })
    }

    fn specialisation(
        &self,
        decoder: &mut Decoder<'_>,
        made: impl FnOnce(&Arc<Program>) -> LateValue<LoweredFunction>,
        symbols: BTreeMap<SymbolId, i64>,
        (given, why_alone): (Option<u64>, Option<String>),
    ) -> Result<Specialisation> {
        let Unit { program, code, weights } = self.unit(decoder)?;
        let outputs: Vec<(DType, Vec<usize>)> =
            decoder.list(|decoder| Ok((read_dtype(decoder)?, decoder.list(Decoder::size)?)))?;
        let values = BTreeMap::new();
        let loaded = jit::load_trusted(&program, code, &values, &self.options)?;
        check_weights(&loaded, &weights)?;
        for (&bytes, (dtype, shape)) in loaded.output_bytes().iter().zip(&outputs) {
            let own = tensor::tensor::byte_size(*dtype, shape);
            if own.is_none_or(|own| own < bytes) {
                return Err(Damage::new("an output is smaller than what is written to it").into());
            }
        }
        let (made, states) = (Arc::new(made(&program)), StatePool::new(loaded));
        Ok(Specialisation {
            made,
            program,
            weights,
            outputs,
            states,
            values,
            symbols,
            given,
            why_alone,
            sharing: OnceLock::new(),
        })
    }

    fn scope(
        &self,
        decoder: &mut Decoder<'_>,
        origin: &Origin,
        offsets: &Arc<[u64]>,
    ) -> Result<(FunctionId, Ranges, Arc<ScopedFunction>)> {
        let function: FunctionId = read_id(decoder)?;
        let ranges: Ranges = decoder.list(|decoder| {
            let symbol = read_id(decoder)?;
            Ok((symbol, Range::new(decoder.integer()?, decoder.integer()?)))
        })?;
        let usual: BTreeMap<SymbolId, i64> =
            decoder.list(|decoder| Ok((read_id(decoder)?, decoder.integer()?)))?;
        let Unit { program, code, weights } = self.unit(decoder)?;
        let mut expressions = Expressions::new(&program);
        let checks = decoder.list(|decoder| {
            Ok((expressions.read(decoder.text()?)?, expressions.read(decoder.text()?)?))
        })?;
        let operations = expressions.read(decoder.text()?)?;
        let outputs = decoder.list(|decoder| {
            let dtype = read_dtype(decoder)?;
            let shape: Vec<Expr> = decoder.list(|it| expressions.read(it.text()?))?;
            Ok(TensorType { dtype, shape: shape.into() })
        })?;
        let (origin, offsets) = (origin.clone(), offsets.clone());
        let (own, its, expected) = (program.clone(), ranges.clone(), usual.clone());
        let made = LateValue::by(move || {
            let made = || {
                let request = origin.request(function, &offsets);
                let request = Request { symbols: &expected, ..request };
                LoweredFunction::within(request, &its)
            };
            origin.same(made, &own)
        });
        let made = Arc::new(made);
        let made =
            ScopedFunction { made, program, weights, code, usual, checks, operations, outputs };
        Ok((function, ranges, Arc::new(made)))
    }

    fn segment(
        &self,
        decoder: &mut Decoder<'_>,
        variant: u64,
        origin: &Origin,
        offsets: &Arc<[u64]>,
        scopes: &[(FunctionId, Ranges, Arc<ScopedFunction>)],
    ) -> Result<(SegmentFacts<'static>, Specialisation)> {
        let function: FunctionId = read_id(decoder)?;
        let sizes: Vec<i64> = decoder.list(Decoder::integer)?;
        let shapes = decoder.list(|decoder| decoder.list(Decoder::size))?;
        let (sizes, shapes) = (Cow::Owned(sizes), Shapes::These(shapes));
        let facts = SegmentFacts { variant, function, sizes, shapes };
        let scope = decoder.option(|decoder| decoder.place(scopes.len()))?;
        let symbols: BTreeMap<SymbolId, i64> =
            decoder.list(|decoder| Ok((read_id(decoder)?, decoder.integer()?)))?;
        let given = decoder.option(Decoder::number)?;
        let why_alone = decoder.option(|decoder| decoder.text().map(str::to_owned))?;
        let sharing = OnceLock::from(Sharing::decode(decoder)?);
        if let Some(scope) = scope {
            let (_, _, scoped) = &scopes[scope];
            let given = given.unwrap_or(u64::MAX);
            let made = Specialisation::of(scoped, &symbols, given, &self.options)?;
            let made = made.ok_or_else(|| Damage::new("code does not fit its sizes"))?;
            check_weights(made.executable(), &made.weights)?;
            return Ok((facts, Specialisation { sharing, ..made }));
        }
        let (origin, offsets, its) = (origin.clone(), offsets.clone(), symbols.clone());
        let made = |program: &Arc<Program>| {
            let program = program.clone();
            LateValue::by(move || {
                let made = || {
                    let request = origin.request(function, &offsets);
                    let request = Request { symbols: &its, given, ..request };
                    LoweredFunction::new(request)
                };
                origin.same(made, &program)
            })
        };
        let made = self.specialisation(decoder, made, symbols, (given, why_alone))?;
        Ok((facts, Specialisation { sharing, ..made }))
    }

    /// `setup`, which is read when weights change, or when it is looked at.
    pub(super) fn setup(&self, origin: &Origin) -> Result<Arc<LateValue<Specialisation>>> {
        let section = self.file.section(section::SETUP)?;
        let (loader, origin) = (self.clone(), origin.clone());
        let read = move || {
            let mut decoder = Decoder::new(&section);
            let again = origin.clone();
            let made = |program: &Arc<Program>| {
                let program = program.clone();
                LateValue::by(move || again.same(|| LoweredFunction::new(again.setup()), &program))
            };
            loader.specialisation(&mut decoder, made, BTreeMap::new(), (None, None))
        };
        Ok(Arc::new(LateValue::by(move || sound(&read))))
    }

    fn front(&self) -> Result<Arc<LateValue<FrontHalf>>> {
        let section = self.file.section(section::FRONT)?;
        let constants = self.constants.clone();
        Ok(Arc::new(LateValue::by(move || sound(|| read_front(&section, &constants)))))
    }
}

impl Origin {
    fn setup(&self) -> Request<'_> {
        const NONE: &BTreeMap<SymbolId, i64> = &BTreeMap::new();
        let own = (&self.front.module, &self.front.module.functions[self.front.setup]);
        Request::new(own, NONE, Role::Setup, (&self.target, &self.options))
    }

    /// What a segment was made of, but for its symbols.
    fn request(&self, function: FunctionId, offsets: &[u64]) -> Request<'_> {
        let plan = Plan::of(&self.front);
        let role = plan.segment(function).role(offsets);
        let donated = plan.donated(function, &self.options);
        let function = &self.front.module.functions[function];
        Request { function, role, donated, ..self.setup() }
    }

    /// What was lowered again, if it is what it was when the code was made.
    fn same(
        &self,
        make: impl FnOnce() -> Result<LoweredFunction>,
        program: &Program,
    ) -> LoweredFunction {
        let made = sound(make);
        if made.program() != program {
            let found = format!("lowered again, program `{}` is another", program.name);
            base::abandon(Damage::new(found).into());
        }
        made
    }
}

/// What a part of an engine holds that is read late. The digest of the file's head fits; what does
/// not decode all the same, is made of something else, or breaks an invariant where it was made
/// before without that, is what a digest was forged for, and is told to whoever looks.
fn sound<T>(read: impl FnOnce() -> Result<T>) -> T {
    base::catch_internal_errors(read).unwrap_or_else(|found| {
        let first = found.iter().next().map(|found| found.message.clone()).unwrap_or_default();
        let is_known = found.iter().any(|found| found.code == codes::DAMAGED_ENGINE);
        let damage = || Damage::new(format!("a part of it does not decode: {first}")).into();
        base::abandon(if is_known { found } else { damage() })
    })
}

fn read_front(section: &[u8], constants: &LoadedConstants) -> Result<FrontHalf> {
    let mut decoder = Decoder::new(section);
    let mut module = Module::default();
    for _ in 0..decoder.count()? {
        let name = decoder.text()?.to_owned();
        let (tensor, _) = constants.tensor(&mut decoder)?;
        module.constants.push(Constant { name, tensor });
    }
    let count = decoder.size()?;
    let mut parser = Parser::new(decoder.text()?);
    let mut function =
        || -> Result<Function> { Ok(graph::parse_function(&mut parser, Locations::new())?) };
    let mut functions: Vec<Function> = Vec::new();
    for _ in 0..count {
        functions.push(function()?);
    }
    let (imported, main) = (Arc::new(function()?), Arc::new(function()?));
    parser.expect_end()?;
    let setup = decoder.place(count)?;
    let plan = decoder.place(count)?;
    let inputs = decoder.list(read_port)?;
    let outputs = decoder.list(read_port)?;
    let remarks: Vec<(&str, &str)> =
        decoder.list(|decoder| Ok((decoder.text()?, decoder.text()?)))?;
    decoder.end()?;
    let locations = &mut functions[plan].locations;
    let remark = |(place, message): (&str, &str)| {
        let location = locations.parse(&mut Parser::new(place))?;
        Ok(Remark { location, message: message.to_owned() })
    };
    let remarks = remarks.into_iter().map(remark).collect::<Result<Vec<Remark>>>()?;
    for function in functions {
        module.functions.push(Arc::new(function));
    }
    module::verify(&module)?;
    let (setup, plan) = (FunctionId::new(setup), FunctionId::new(plan));
    let needs = Vec::new();
    Ok(FrontHalf { module, imported, setup, main, plan, inputs, outputs, needs, remarks })
}

/// Expressions of a program's symbols, as text.
struct Expressions<'a>(BTreeMap<&'a str, SymbolId>);

impl<'a> Expressions<'a> {
    fn new(program: &'a Program) -> Expressions<'a> {
        Expressions(program.symbols.iter().map(|(id, it)| (it.name.as_str(), id)).collect())
    }

    fn read(&mut self, text: &str) -> Decoded<Expr> {
        let mut parser = Parser::new(text);
        let read = sym::parse_expr(&mut parser, &mut |name| self.0.get(name).copied());
        let read = read.and_then(|read| parser.expect_end().map(|()| read));
        read.map_err(|_| Damage::new(format!("`{text}` is no expression")))
    }
}

fn read_id<I: Id>(decoder: &mut Decoder<'_>) -> Decoded<I> {
    Ok(I::new(decoder.place(u32::MAX as usize)?))
}

fn read_dtype(decoder: &mut Decoder<'_>) -> Decoded<DType> {
    let name = decoder.text()?;
    DType::parse(name).ok_or_else(|| Damage::new(format!("there is no type `{name}`")))
}

/// That weights which a program reads are there, and large enough, is checked whenever it is run;
/// that they are there is checked here, too.
fn check_weights(
    loaded: &runtime::LoadedProgram,
    weights: &BTreeMap<ConstantId, Tensor>,
) -> Decoded<()> {
    match loaded.weights().iter().all(|id| weights.contains_key(id)) {
        true => Ok(()),
        false => Err(Damage::new("a program reads a weight that is not there")),
    }
}
