//! Programs: compiled, and run on buffers.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tilewright::compiled::{PortSplit, Source, compile_source};
use tilewright::{
    DType, Diagnostics, Executable, Options, Port, PortExtent, Tensor, Update,
    catch_internal_errors,
};

use crate::boundary::{Handle, Start};
use crate::buffer::{Buffer, Contents, Spare, deleted};
use crate::client::{Client, Device, MEMORY_KIND};
use crate::compile_options::{CompileOptions, assignment_message};
use crate::element::ElementForm;
use crate::event::Promise;
use crate::failure::{Code, Failure, Outcome};
use crate::shards::{Part, ShardingTable, cut, put, sharding_message};

/// A run that takes less is done where it is called: to hand it to the queue would take longer.
const SHORT_RUN: Duration = Duration::from_micros(400);

/// Bytes of outputs whose memory is kept for the next run: shorter ones are had at once, and of
/// longer ones a second one may be more than there is room for.
const SPARED: RangeInclusive<usize> = 64 << 10..=32 << 20;

/// A program that was compiled, and the devices that it is for.
pub(crate) struct LoadedProgram {
    client: Arc<Client>,
    pub(crate) name: String,
    /// What tells it from other programs.
    pub(crate) fingerprint: String,
    /// The options that it was compiled with, as they were given.
    pub(crate) options: Vec<u8>,
    /// Which devices it is for, as a message.
    pub(crate) assignment: Vec<u8>,
    pub(crate) replicas: usize,
    pub(crate) partitions: usize,
    pub(crate) devices: Vec<Handle<Device>>,
    device_numbers: Vec<usize>,
    pub(crate) output_tables: OutputTables,
    pub(crate) input_shardings: ShardingTable,
    pub(crate) output_shardings: ShardingTable,
    executable: Arc<Loaded>,
    is_deleted: AtomicBool,
}

/// What callers are told of the outputs, as they want it.
pub(crate) struct OutputTables {
    pub(crate) types: Vec<u32>,
    pub(crate) extents: Vec<i64>,
    pub(crate) ranks: Vec<usize>,
    pub(crate) memory_kinds: Vec<Start<u8>>,
    pub(crate) memory_kind_sizes: Vec<usize>,
}

/// An input or output.
struct Value {
    form: ElementForm,
    /// Of what a device holds, without the axis of complex pairs.
    extents: Arc<[i64]>,
    /// Bytes of what a device holds.
    bytes: usize,
    /// The shape of the whole, as the program computes it.
    shape: Vec<usize>,
    /// Into how many parts each axis is cut.
    counts: Vec<usize>,
    /// Which part each device holds.
    places: Vec<Vec<usize>>,
    /// Of an input that may be donated: the output that takes its place, if one is said to.
    donation: Option<Option<usize>>,
}

/// What runs.
struct Loaded {
    executable: Executable,
    inputs: Vec<Value>,
    outputs: Vec<Value>,
    /// Shapes of inputs whose elements an update has, by the inputs' numbers.
    shapes: Vec<Option<Tensor>>,
    /// Memory of outputs for the next run, by their numbers.
    spares: Vec<Option<Arc<Spare>>>,
    /// How long the last run took, in nanoseconds; none has run yet at the greatest number.
    last_run: AtomicU64,
}

/// Buffers of what a run gives, those of each device in turn, and the event of its end where it has
/// not ended well already.
pub(crate) type RunOutputs = (Vec<Buffer>, Option<Arc<Promise<()>>>);

/// An argument of a run: its elements, and the output that takes their place.
struct Argument {
    contents: Arc<Contents>,
    updated: Option<usize>,
}

impl LoadedProgram {
    /// Compiles a program for devices of a client.
    ///
    /// # Errors
    /// Programs and options that are refused, with the diagnostics' text.
    pub(crate) fn compile(
        client: Arc<Client>,
        code: &[u8],
        format: &str,
        (options, options_message): (&CompileOptions, &[u8]),
    ) -> Outcome<LoadedProgram> {
        if format != "mlir" {
            let message = format!("programs of the format `{format}` are not read; send `mlir`");
            return Err(Failure::new(Code::Unimplemented, message));
        }
        let device_numbers = devices_of(&client, options)?;
        let compiled = on_deep_stack(|| compile(code, device_numbers.len()))?;
        let Compiled { executable, name, inputs, outputs } = compiled;
        let output_tables = OutputTables::of(&outputs);
        let splits = |values: &[Value]| -> Vec<Vec<u8>> {
            values.iter().map(|value| sharding_message(&value.counts, &value.places)).collect()
        };
        let input_shardings = ShardingTable::of(splits(&inputs));
        // No outputs are a tuple of none, which is whole on all devices.
        let output_splits = if outputs.is_empty() { vec![Vec::new()] } else { splits(&outputs) };
        let output_shardings = ShardingTable::of(output_splits);
        let topology = &client.topology;
        let devices = device_numbers.iter().map(|&it| Handle::lend(&topology.devices[it]));
        let is_alone = device_numbers.len() == 1;
        let shapes = inputs.iter().map(|value| {
            let donation = value.donation.flatten().filter(|_| is_alone);
            donation.and_then(|_| Tensor::try_zeros(value.form.dtype, &value.shape))
        });
        let shapes = shapes.collect();
        let is_spared = |value: &Value| is_alone && SPARED.contains(&value.bytes);
        let spares =
            outputs.iter().map(|value| is_spared(value).then(Arc::<Spare>::default)).collect();
        let last_run = AtomicU64::new(u64::MAX);
        Ok(LoadedProgram {
            name,
            fingerprint: fingerprint(code),
            options: options_message.to_vec(),
            assignment: assignment_message(&device_numbers),
            replicas: options.replicas,
            partitions: options.partitions,
            devices: devices.collect(),
            device_numbers,
            output_tables,
            input_shardings,
            output_shardings,
            executable: Arc::new(Loaded { executable, inputs, outputs, shapes, spares, last_run }),
            is_deleted: AtomicBool::new(false),
            client,
        })
    }

    pub(crate) fn delete(&self) {
        self.is_deleted.store(true, Ordering::Release);
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.is_deleted.load(Ordering::Acquire)
    }

    /// Bytes of code, inputs, outputs, donated inputs, and memory of a run.
    pub(crate) fn memory(&self) -> [usize; 5] {
        let statistics = self.executable.executable.statistics();
        let sum = |values: &[Value]| values.iter().map(|value| value.bytes).sum();
        let Loaded { inputs, outputs, .. } = &*self.executable;
        let donated = inputs.iter().filter(|value| matches!(value.donation, Some(Some(_))));
        let donated = donated.map(|value| value.bytes).sum();
        let (code, arena) = (statistics.code_bytes, statistics.arena_bytes);
        [code, sum(inputs), sum(outputs), donated, arena]
    }

    /// Runs it on its devices, each with buffers of its own; the outputs are there at once, those
    /// of one device behind those of another, their elements later. The event, if one is wanted, is
    /// kept when the run has ended; there is none where it has ended well already.
    ///
    /// # Errors
    /// Buffers that do not fit, or are no more; then nothing has run and nothing is donated.
    pub(crate) fn execute(
        &self,
        arguments: &[&[Handle<Buffer>]],
        not_donated: &[i64],
        device: Option<usize>,
        is_event_wanted: bool,
    ) -> Outcome<RunOutputs> {
        if self.is_deleted() {
            let message = format!("the program `{}` has been deleted", self.name);
            return Err(Failure::new(Code::FailedPrecondition, message));
        }
        let (given, wanted) = (arguments.len(), self.device_numbers.len());
        if given != wanted {
            let message = format!("buffers of {given} devices are given for {wanted}");
            return Err(Failure::new(Code::InvalidArgument, message));
        }
        let arguments = self.arguments(arguments, not_donated)?;
        let is_ready = || arguments.iter().all(|it| it.contents.tensor.is_kept());
        let is_short =
            self.executable.last_run.load(Ordering::Relaxed) < SHORT_RUN.as_nanos() as u64;
        if is_short && self.client.queue.is_idle() && is_ready() {
            return Ok(match self.executable.timed(arguments, wanted) {
                Ok(tensors) => {
                    let mut tensors = tensors.into_iter();
                    let mut next = || tensors.next().ok_or_else(an_output_is_missing);
                    (self.new_buffers(device, || Promise::of(next())), None)
                }
                Err(failure) => {
                    let event = Arc::new(Promise::of(Err(failure.clone())));
                    (self.new_buffers(device, || Promise::of(Err(failure.clone()))), Some(event))
                }
            });
        }
        let buffers = self.new_buffers(device, Promise::open);
        let results = buffers.iter().map(Buffer::contents).collect::<Outcome<Vec<_>>>()?;
        let event = is_event_wanted.then(|| Arc::new(Promise::open()));
        let (executable, told) = (self.executable.clone(), event.clone());
        self.client.queue.push(move || executable.run(arguments, wanted, &results, told));
        Ok((buffers, event))
    }

    /// Buffers for the outputs, of each device in turn.
    fn new_buffers(
        &self,
        device: Option<usize>,
        mut elements: impl FnMut() -> Promise<Tensor>,
    ) -> Vec<Buffer> {
        let outputs = &self.executable.outputs;
        let mut buffers = Vec::with_capacity(self.device_numbers.len() * outputs.len());
        for &number in &self.device_numbers {
            let device = device.unwrap_or(number);
            let usage = &self.client.topology.devices[device].usage;
            for (value, spare) in outputs.iter().zip(&self.executable.spares) {
                let contents = Contents::new(elements(), value.bytes, usage, spare.clone());
                let form = (value.form, value.extents.clone());
                buffers.push(Buffer::new(self.client.clone(), device, form, contents));
            }
        }
        buffers
    }

    /// Checks the arguments of a run, those of each device in turn, and takes those that are
    /// donated from their buffers.
    fn arguments(
        &self,
        given: &[&[Handle<Buffer>]],
        not_donated: &[i64],
    ) -> Outcome<Vec<Argument>> {
        let refuse = |message: String| Failure::new(Code::InvalidArgument, message);
        let inputs = &self.executable.inputs;
        let mut all = Vec::with_capacity(given.len() * inputs.len());
        let mut donated: Vec<&Buffer> = Vec::new();
        for list in given {
            if list.len() != inputs.len() {
                let (given, wanted) = (list.len(), inputs.len());
                return Err(refuse(format!("{given} buffers are given for {wanted} inputs")));
            }
            for (number, (handle, input)) in list.iter().zip(inputs).enumerate() {
                let buffer = handle.get()?;
                if (buffer.form, &buffer.extents) != (input.form, &input.extents) {
                    let (found, wanted) = (&buffer.extents, &input.extents);
                    return Err(refuse(format!(
                        "buffer {number} has elements of type {} and the extents {found:?}, where \
                         {} and {wanted:?} are wanted",
                        buffer.form.dtype, input.form.dtype
                    )));
                }
                let mut argument = Argument { contents: buffer.contents()?, updated: None };
                if let Some(output) = input.donation
                    && !not_donated.contains(&(number as i64))
                {
                    donated.push(buffer);
                    argument.updated = output;
                }
                all.push(argument);
            }
        }
        for buffer in &donated {
            let is_it = |other: &&Handle<Buffer>| {
                other.get().is_ok_and(|other| std::ptr::eq(other, *buffer))
            };
            if given.iter().copied().flatten().filter(is_it).count() > 1 {
                let message = "a buffer that is donated is given for another input, too";
                return Err(refuse(message.to_owned()));
            }
        }
        for buffer in donated {
            _ = buffer.donate();
        }
        Ok(all)
    }
}

impl Loaded {
    /// Runs for so many devices, and has the results be there: those of each device in turn.
    fn run(
        &self,
        arguments: Vec<Argument>,
        devices: usize,
        results: &[Arc<Contents>],
        ended: Option<Arc<Promise<()>>>,
    ) {
        let outcome = match self.timed(arguments, devices) {
            Ok(tensors) => {
                let pairs = results.iter().zip(tensors);
                pairs.for_each(|(result, tensor)| result.tensor.keep(Ok(tensor)));
                Ok(())
            }
            Err(failure) => {
                results.iter().for_each(|result| result.tensor.keep(Err(failure.clone())));
                Err(failure)
            }
        };
        if let Some(ended) = ended {
            ended.keep(outcome);
        }
    }

    /// The results of each device in turn; how long that takes is noted.
    fn timed(&self, arguments: Vec<Argument>, devices: usize) -> Outcome<Vec<Tensor>> {
        let begin = Instant::now();
        let found = catch_internal_errors(|| Ok(self.compute(arguments, devices)));
        self.last_run.store(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
        found.map_err(Failure::from).and_then(|outcome| outcome)
    }

    fn compute(&self, arguments: Vec<Argument>, devices: usize) -> Outcome<Vec<Tensor>> {
        if devices == 1 {
            return self.compute_alone(arguments);
        }
        let count = self.inputs.len();
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for (number, input) in self.inputs.iter().enumerate() {
            let part = |device: usize| arguments[device * count + number].contents.tensor.wait();
            if input.counts.iter().all(|&count| count == 1) {
                inputs.push(part(0)?);
                continue;
            }
            let mut whole =
                Tensor::try_zeros(input.form.dtype, &input.shape).ok_or_else(too_little_memory)?;
            for (device, place) in input.places.iter().enumerate() {
                if !input.places[..device].contains(place) {
                    let place = Part { counts: &input.counts, place };
                    put(&mut whole, &part(device)?, place);
                }
            }
            inputs.push(whole);
        }
        drop(arguments);
        let whole = self.executable.run(&inputs)?;
        let mut results = Vec::with_capacity(devices * whole.len());
        for device in 0..devices {
            for (tensor, output) in whole.iter().zip(&self.outputs) {
                let place = Part { counts: &output.counts, place: &output.places[device] };
                results.push(match output.counts.iter().all(|&count| count == 1) {
                    true => tensor.clone(),
                    false => cut(tensor, place).ok_or_else(too_little_memory)?,
                });
            }
        }
        Ok(results)
    }

    /// The results of the only device.
    fn compute_alone(&self, arguments: Vec<Argument>) -> Outcome<Vec<Tensor>> {
        let mut inputs = Vec::with_capacity(arguments.len());
        let mut updated: Vec<(usize, usize, Tensor)> = Vec::new();
        for (number, Argument { contents, updated: output }) in arguments.into_iter().enumerate() {
            let update = output.and_then(|output| Some((output, self.shapes[number].clone()?)));
            let Some((output, shape)) = update else {
                inputs.push(contents.tensor.wait()?);
                continue;
            };
            // Held by nobody else, its elements can be written to where they are.
            let own = Arc::try_unwrap(contents);
            let tensor = match &own {
                Ok(own) => own.tensor.replace(Err(deleted())).unwrap_or_else(|| Err(deleted()))?,
                Err(shared) => shared.tensor.wait()?,
            };
            inputs.push(shape);
            updated.push((number, output, tensor));
        }
        if updated.is_empty() {
            return self.compute_into_spares(&inputs);
        }
        let mut updates: Vec<Update<'_>> = Vec::new();
        for (input, output, tensor) in &mut updated {
            let memory = tensor.bytes_mut();
            updates.push(Update { input: *input, output: Some(*output), memory });
        }
        let mut results = self.executable.run_updating(&inputs, &mut updates)?;
        for (_, output, tensor) in updated {
            results[output] = Some(tensor);
        }
        let all = results.into_iter().collect::<Option<Vec<Tensor>>>();
        all.ok_or_else(an_output_is_missing)
    }
}

impl Loaded {
    /// The results, in memory of earlier ones where there is some.
    fn compute_into_spares(&self, inputs: &[Tensor]) -> Outcome<Vec<Tensor>> {
        let spares = || self.spares.iter().map(|spare| spare.as_ref().and_then(|it| it.take()));
        if self.spares.iter().all(Option::is_none) {
            return Ok(self.executable.run(inputs)?);
        }
        let zeros = |value: &Value| Tensor::try_zeros(value.form.dtype, &value.shape);
        let outputs =
            spares().zip(&self.outputs).map(|(spare, value)| spare.or_else(|| zeros(value)));
        let mut outputs = outputs.collect::<Option<Vec<Tensor>>>().ok_or_else(too_little_memory)?;
        self.executable.run_into(inputs, &mut outputs)?;
        Ok(outputs)
    }
}

fn an_output_is_missing() -> Failure {
    Failure::from(Diagnostics::internal("an output is missing"))
}

fn too_little_memory() -> Failure {
    Failure::new(Code::ResourceExhausted, "there is too little memory for a value")
}

/// The stack of a thread that compiles, in bytes.
const COMPILE_STACK: usize = 64 << 20;

/// Compiles on a thread of its own: programs nest as deep as limits allow, and the stacks of
/// callers' threads are theirs to choose.
fn on_deep_stack<T: Send>(compile: impl FnOnce() -> Result<T, Diagnostics> + Send) -> Outcome<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("tilewright-compile".to_owned());
        let compile = || catch_internal_errors(compile);
        let running = thread.stack_size(COMPILE_STACK).spawn_scoped(scope, compile);
        let running = running.map_err(|error| {
            Failure::new(Code::ResourceExhausted, format!("the system gives no thread: {error}"))
        })?;
        let ended = running.join();
        ended
            .unwrap_or_else(|_| Err(Diagnostics::internal("a compile ended")))
            .map_err(Failure::from)
    })
}

/// A program before it is given devices.
struct Compiled {
    executable: Executable,
    name: String,
    inputs: Vec<Value>,
    outputs: Vec<Value>,
}

fn compile(code: &[u8], devices: usize) -> Result<Compiled, Diagnostics> {
    let mut options = Options::default();
    let source = Source::of_bytes(code.to_vec(), &options.limits)?;
    let Source::Stablehlo(program) = &source else {
        return Err(Diagnostics::internal("the program is of another format"));
    };
    let program = program.clone();
    let (inputs, outputs) = source.declared(&options)?;
    let (complex_inputs, complex_outputs) = program.complex_ports()?;
    let (input_splits, output_splits) = program.splits(devices)?;
    let donations = program.donations()?;
    let values = |ports: &[Port], complex: Vec<bool>, splits: Vec<PortSplit>| {
        let ports = ports.iter().zip(complex).zip(splits);
        let value = |((port, is_complex), split)| value(port, is_complex, split);
        ports.map(value).collect::<Result<Vec<Value>, Diagnostics>>()
    };
    let mut input_values = values(&inputs, complex_inputs, input_splits)?;
    let output_values = values(&outputs, complex_outputs, output_splits)?;
    for ((input, value), donation) in inputs.iter().zip(&mut input_values).zip(donations) {
        let fits = |other: &&Port| (other.dtype, &other.shape) == (input.dtype, &input.shape);
        value.donation = donation.map(|output| {
            let other = outputs.get(output?).filter(fits)?;
            options.updates.insert(other.name.clone(), input.name.clone());
            output
        });
    }
    let name = program.name().to_owned();
    let executable = compile_source(source, &options)?;
    Ok(Compiled { executable, name, inputs: input_values, outputs: output_values })
}

fn value(port: &Port, is_complex: bool, split: PortSplit) -> Result<Value, Diagnostics> {
    let refuse = |reason: &str| {
        Diagnostics::internal(format!("`{}` cannot be a buffer: {reason}", port.name))
    };
    let dtype = port.dtype.filter(|&dtype| dtype != DType::String);
    let dtype = dtype.ok_or_else(|| refuse("its elements are of no type that buffers have"))?;
    let extent = |extent: &PortExtent| match extent {
        PortExtent::Fixed(extent) => Some(*extent),
        _ => None,
    };
    let shape: Option<Vec<usize>> = port.shape.iter().map(extent).collect();
    let shape = shape.ok_or_else(|| refuse("its extents are free"))?;
    let form = ElementForm { dtype, is_complex };
    let PortSplit { counts, places } = split;
    let is_whole = counts.iter().all(|&count| count == 1);
    if !is_whole && form.is_packed() {
        return Err(refuse("its elements share bytes, and it is cut into parts"));
    }
    let mut own: Vec<usize> = shape.clone();
    for (extent, &count) in own.iter_mut().zip(&counts) {
        if *extent % count != 0 {
            return Err(refuse("it is cut into parts that are not equal"));
        }
        *extent /= count;
    }
    let elements = own.iter().product::<usize>();
    let bytes = dtype.size_of_elements(elements).ok_or_else(|| refuse("it is too large"))?;
    if is_complex {
        own.pop();
    }
    let extents = own.iter().map(|&extent| extent as i64).collect();
    Ok(Value { form, extents, bytes, shape, counts, places, donation: None })
}

/// The numbers of the devices that a program is for.
fn devices_of(client: &Client, options: &CompileOptions) -> Outcome<Vec<usize>> {
    let CompileOptions { replicas, partitions, devices } = options;
    if *replicas > 1 {
        let message = format!(
            "the program is for {replicas} replicas, which compute apart from each other; give one \
             replica with partitions, as `jax.shard_map` and `jax.pmap` do"
        );
        return Err(Failure::new(Code::Unimplemented, message));
    }
    let count = *partitions as i64;
    let in_order: Vec<i64> = (0..count).collect();
    let numbers = if devices.is_empty() { &in_order } else { devices };
    if numbers.len() != *partitions {
        let (given, wanted) = (numbers.len(), partitions);
        let message = format!("{given} devices are given for {wanted} partitions");
        return Err(Failure::new(Code::InvalidArgument, message));
    }
    numbers.iter().map(|&number| Ok(client.topology.device(number)?.number)).collect()
}

impl OutputTables {
    fn of(outputs: &[Value]) -> OutputTables {
        let kind = crate::boundary::List::text(MEMORY_KIND).start();
        OutputTables {
            types: outputs.iter().map(|value| value.form.number()).collect(),
            extents: outputs.iter().flat_map(|value| value.extents.to_vec()).collect(),
            ranks: outputs.iter().map(|value| value.extents.len()).collect(),
            memory_kinds: vec![kind; outputs.len()],
            memory_kind_sizes: vec![MEMORY_KIND.len(); outputs.len()],
        }
    }
}

/// A number that tells programs apart, as FNV-1a makes it of their bytes, and their length.
fn fingerprint(code: &[u8]) -> String {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mix = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    format!("{:016x}{:08x}", code.iter().fold(BASIS, mix), code.len())
}
