//! Steps of the program: one run a group, with the addresses of what it reads and writes.
//!
//! A function is emitted into a frame that knows where each root value begins. Roots get slots of
//! their own, but for parameters and results, which the caller of the frame places; `memory_plan`
//! then gives the slots of the arena their offsets.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use backend::Target;
use base::{Arena, ConstantId, Diagnostics, Id, IdSet, KernelId, Locations, Remark};
use graph::{Function, NodeId, Op, Users, ValueId};
use loops::{Kernel, bytes_touched, operations, scratch_layout};
use module::{Constant, Module};
use program::{Address, Argument, Move, Place, Program, Run, Slot, SlotId, Step};
use rustc_hash::FxHashMap;
use schedule::Trace;
use strategies::{Cost, Naive};
use sym::Expr;
use tensor::{DType, Tensor};

use crate::apart::Apart;
use crate::definitions::{Class, class, class_of, class_of_node};
use crate::groups::{Fusion, Group, Grouping, Home, View, body_users, form, has_free_extents};
use crate::kernels::Library;
use crate::movement::{Movement, Source};
use crate::naive;
use crate::naive::element::splat;
use crate::naive::index::{extents, weight};
use crate::naive::outline::Outline;
use crate::updates::{self, Update};
use crate::{ConstantBlock, KernelInfo, KernelSource, LowerOptions, RegionFunction, Role};

/// Work below this many predicted nanoseconds is not worth a worker of its own.
const GRAIN_NS: f64 = 4000.0;

/// What is made while a program is emitted.
pub(crate) struct Emitter<'a> {
    pub(crate) module: &'a mut Module,
    pub(crate) target: &'a Target,
    pub(crate) options: &'a LowerOptions,
    /// What is stored in any case.
    apart: &'a Apart,
    pub(crate) program: Program,
    pub(crate) library: Library,
    /// The slot of each constant read where it is.
    pub(crate) weights: BTreeMap<ConstantId, SlotId>,
    /// The constants of the module that hold literals, by type, shape and bytes.
    pub(crate) literals: BTreeMap<(&'static str, Vec<usize>, Vec<u8>), ConstantId>,
    /// Of the functions that are emitted in the place of regions, the one at hand.
    pub(crate) region: Option<usize>,
    pub(crate) regions: Vec<RegionFunction>,
    pub(crate) kernels: Vec<KernelInfo>,
    /// What was there before the run and kernels so far have read, each with its region: it lies
    /// where they left it.
    fetched: BTreeSet<(Option<usize>, ValueId)>,
    /// The donated parameters that the program changes where they lie.
    updates: Vec<Update>,
    pub(crate) remarks: Vec<Remark>,
}

/// A function being emitted.
pub(crate) struct Frame<'a> {
    pub(crate) function: &'a Function,
    grouping: &'a Grouping,
    users: &'a Users,
    /// What depends on constants alone.
    constants: IdSet<ValueId>,
    /// Where the memory of each root value begins.
    roots: BTreeMap<ValueId, Address>,
    /// What has been made of groups, for others with the same outline.
    made: FxHashMap<Outline<'a>, Arc<Made>>,
}

/// What has been made of a group.
struct Made {
    product: Product,
    /// Where its arguments are in the group's outline.
    arguments: Vec<usize>,
}

/// What becomes of a naive kernel.
enum Product {
    Nothing,
    Movement(Movement),
    Kernel(Planned),
}

/// A kernel of the library, with what is known before it is scheduled.
struct Planned {
    id: KernelId,
    accesses: Vec<loops::Access>,
    flops: u64,
    bytes: u64,
}

/// What was emitted for a function.
pub(crate) struct Emitted {
    /// The program, offsets in the arena open.
    pub(crate) program: Program,
    /// As in [`Lowered`](crate::Lowered).
    pub(crate) kernels: Vec<KernelInfo>,
    pub(crate) regions: Vec<RegionFunction>,
    /// As in [`Lowered`](crate::Lowered).
    pub(crate) updates: Vec<Update>,
    pub(crate) remarks: Vec<Remark>,
}

/// What a function becomes.
pub(crate) struct FunctionSteps {
    pub(crate) steps: Vec<Step>,
    /// Where each result is.
    pub(crate) results: Vec<Address>,
}

impl Emitted {
    /// Of a specialised function. Kernels and literals are added to the module; `apart` and the
    /// layout of what `setup` makes are given.
    ///
    /// # Errors
    /// Those of [`lower`](crate::lower()).
    pub(crate) fn of(
        function: &Function,
        module: &mut Module,
        target: &Target,
        options: &LowerOptions,
        (apart, constants): (&Apart, &ConstantBlock),
    ) -> base::Result<Emitted> {
        let program = Program {
            name: function.name.clone(),
            symbols: match has_free_extents(function) {
                true => function.symbols.clone(),
                false => Arena::new(),
            },
            updated: BTreeSet::new(),
            slots: Arena::new(),
            arena_bytes: Expr::ZERO,
            steps: Vec::new(),
        };
        let library = Library::new(module);
        let mut emitter = Emitter {
            module,
            target,
            options,
            apart,
            program,
            library,
            weights: BTreeMap::new(),
            literals: BTreeMap::new(),
            region: None,
            regions: Vec::new(),
            kernels: Vec::new(),
            fetched: BTreeSet::new(),
            updates: Vec::new(),
            remarks: Vec::new(),
        };
        let bytes = |values: &[ValueId]| -> Vec<Expr> {
            values.iter().map(|&value| byte_count(function, value)).collect()
        };
        let parameters = emitter.parameter_slots(&bytes(function.parameters()));
        let results = emitter.result_slots(&bytes(function.results()), constants);
        emitter.program.steps = options
            .phases
            .time("groups and kernels", || {
                emitter.function(function, &parameters, &results, &options.donated)
            })?
            .steps;
        emitter.schedule()?;
        let Emitter { program, kernels, regions, updates, remarks, .. } = emitter;
        Ok(Emitted { program, kernels, regions, updates, remarks })
    }
}

impl Emitter<'_> {
    /// Steps that compute a legalised function of constant shapes, from parameters to results. Some
    /// of the parameters that are donated to results are changed where they lie. What a turn of a
    /// loop makes of the others has memory of its own, wherever it is wanted in the end.
    pub(crate) fn function(
        &mut self,
        function: &Function,
        parameters: &[Address],
        results: &[Address],
        donated: &[Update],
    ) -> base::Result<FunctionSteps> {
        let (nothing, wanted, once) = (IdSet::new(), self.options.fusion, self.runs_once());
        let mut apart = self.apart.get(&self.region).unwrap_or(&nothing).clone();
        let users = body_users(function);
        updates::apart(function, &users, donated).into_iter().for_each(|it| _ = apart.insert(it));
        let fusion = Fusion { wanted, once, target: self.target, apart: &apart };
        let mut grouping = form(function, fusion);
        let (updates, in_place, reasons) = updates::find(function, &grouping, &users, donated);
        grouping.in_place = in_place;
        let taken_over = updates::take_over(function, &mut grouping, &users);
        grouping.in_place.extend(taken_over);
        let mut results = results.to_vec();
        if self.region.is_none() {
            self.updates.clone_from(&updates);
            self.program.updated = updates.iter().map(|update| update.0 as u32).collect();
            self.remarks.extend(reasons);
            // The parameter lies where the result does.
            for &(result, parameter) in &updates {
                let place = Place::Output(result as u32);
                self.program.slots[parameters[parameter].slot].place = place;
            }
        } else {
            for &(result, parameter) in donated {
                results[result] = match updates.contains(&(result, parameter)) {
                    true => parameters[parameter].clone(),
                    false => self.temporary(&byte_count(function, function.results()[result])),
                };
            }
        }
        let roots = BTreeMap::new();
        let constants = function.constant_values();
        let (grouping, users, made) = (&grouping, &users, FxHashMap::default());
        let mut frame = Frame { function, grouping, users, constants, roots, made };
        for (&value, address) in function.parameters().iter().zip(parameters) {
            frame.roots.insert(value, address.clone());
        }
        let copies = self.place_results(&mut frame, &results);
        let mut steps = Vec::new();
        for group in grouping.groups.values() {
            self.group(&mut frame, group, &mut steps)?;
        }
        for (number, value) in copies {
            let bytes = byte_count(function, value);
            let source = self.address(&mut frame, value);
            steps.push(Step::Copy { source, destination: results[number].clone(), bytes });
        }
        self.remarks.extend(grouping.remarks.iter().cloned());
        Ok(FunctionSteps { steps, results })
    }

    /// Places roots that are results where the caller wants them; returns which results have to be
    /// copied there instead: parameters, constants, and what is wanted twice.
    fn place_results(
        &mut self,
        frame: &mut Frame<'_>,
        results: &[Address],
    ) -> Vec<(usize, ValueId)> {
        let mut copies = Vec::new();
        for (number, &value) in frame.function.results().iter().enumerate() {
            let Some(view) = frame.grouping.view(value) else { continue };
            let root = view.root;
            let whole = view.offset.is_zero()
                && byte_count(frame.function, root) == byte_count(frame.function, value);
            if whole && !frame.roots.contains_key(&root) && is_made(frame.function, root) {
                frame.roots.insert(root, results[number].clone());
            } else if !byte_count(frame.function, value).is_zero() {
                copies.push((number, value));
            }
        }
        copies
    }

    /// The steps of a group.
    fn group(
        &mut self,
        frame: &mut Frame<'_>,
        group: &Group,
        steps: &mut Vec<Step>,
    ) -> base::Result<()> {
        let Some(last) = group.stages.last() else { return Ok(()) };
        let data = &frame.function.nodes[last.node];
        match &data.op {
            _ if class_of_node(frame.function, last.node) == Class::Iteration => {}
            Op::If { .. } | Op::While { .. } | Op::Scan { .. } => {
                return self.control_flow(frame, last.node, steps);
            }
            Op::List { .. } | Op::Call { .. } | Op::Host { .. } => {
                return Err(Diagnostics::internal(format!(
                    "`{}` stands in a segment",
                    data.op.name()
                )));
            }
            _ => {}
        }
        let nothing = |&result: &ValueId| byte_count(frame.function, result).is_zero();
        if data.results.iter().all(nothing) {
            return Ok(());
        }
        let outline = Outline::of(frame.function, frame.grouping, frame.users, group);
        if let Some(made) = frame.made.get(&outline).cloned() {
            let arguments = outline.values(&made.arguments);
            if self.product(frame, group, &made.product, &arguments, steps) {
                if cfg!(debug_assertions)
                    && let Product::Kernel(planned) = &made.product
                {
                    self.check_again(frame, group, planned.id, &arguments)?;
                }
                return Ok(());
            }
        }
        let (mut naive, arguments) =
            naive::build(frame.function, frame.grouping, frame.users, group, "kernel");
        naive.once = self.runs_once();
        let movement = || naive.once.then(|| Movement::of(&naive.kernel)).flatten();
        let product = match naive.kernel.body.is_empty() {
            true => Some(Product::Nothing),
            false => movement().map(Product::Movement),
        };
        let product = product.filter(|it| self.product(frame, group, it, &arguments, steps));
        let product = match product {
            Some(product) => product,
            None => {
                let product = Product::Kernel(self.kernel(frame, group, naive)?);
                self.product(frame, group, &product, &arguments, steps);
                product
            }
        };
        if let Some(arguments) = outline.places(&arguments) {
            let made = Arc::new(Made { arguments, product });
            frame.made.entry(outline).or_insert(made);
        }
        Ok(())
    }

    /// Whether what is being emitted runs once in the life of an executable.
    fn runs_once(&self) -> bool {
        self.region.is_none() && self.options.role == Role::Setup
    }

    /// A movement as steps; none within one slot, where what is read and what is written may lie
    /// among each other.
    fn movement(
        &mut self,
        frame: &mut Frame<'_>,
        arguments: &[ValueId],
        movement: &Movement,
    ) -> Option<Vec<Step>> {
        let whole = self.address(frame, arguments[movement.destination]);
        let mut steps = Vec::new();
        for part in &movement.parts {
            let source = match &part.source {
                Source::Parameter(number, offset) => {
                    let mut source = self.address(frame, arguments[*number]);
                    source.offset += *offset;
                    source
                }
                Source::Element(scalar) => {
                    let constant = self.literal(&Tensor::scalar(*scalar));
                    let slot = self.weight_slot(constant, i64::from(movement.element).into());
                    Address { slot, offset: Expr::ZERO }
                }
            };
            let mut destination = whole.clone();
            destination.offset += part.destination_offset;
            if source.slot == destination.slot {
                return None;
            }
            let (element, axes) = (movement.element, part.axes.clone());
            steps.push(Step::Move(Move { source, destination, element, axes }));
        }
        Some(steps)
    }

    /// The kernel of a group, from its naive one.
    fn kernel(&mut self, frame: &Frame<'_>, group: &Group, naive: Naive) -> base::Result<Planned> {
        let (flops, touched) = (operations(&naive.kernel), bytes_touched(&naive.kernel));
        let weight = |expr: &Expr| naive.kernel.weight(expr);
        let flops = weight(&flops) as u64;
        let bytes = touched.values().map(weight).sum::<i64>() as u64;
        let prefix = format!("{}_{}", frame.function.name, kind_of(frame.function, group));
        let accesses = accesses(&naive.kernel);
        let id = self.library.kernel(naive, &prefix, self.module)?;
        Ok(Planned { id, accesses, flops, bytes })
    }

    /// Checks that a group's naive kernel is the one that was taken for it.
    fn check_again(
        &mut self,
        frame: &Frame<'_>,
        group: &Group,
        id: KernelId,
        arguments: &[ValueId],
    ) -> base::Result<()> {
        let (naive, own) =
            naive::build(frame.function, frame.grouping, frame.users, group, "kernel");
        assert_eq!(own, arguments, "equal outlines, other arguments");
        let again = self.library.kernel(naive, "", self.module)?;
        assert_eq!(again, id, "equal outlines, other kernels");
        Ok(())
    }

    /// Adds the steps that use what has been made for these arguments; whether they can.
    fn product(
        &mut self,
        frame: &mut Frame<'_>,
        group: &Group,
        product: &Product,
        arguments: &[ValueId],
        steps: &mut Vec<Step>,
    ) -> bool {
        match product {
            Product::Nothing => true,
            Product::Movement(movement) => {
                let moves = self.movement(frame, arguments, movement);
                let can = moves.is_some();
                steps.extend(moves.into_iter().flatten());
                can
            }
            Product::Kernel(planned) => {
                self.run(frame, group, planned, arguments, steps);
                true
            }
        }
    }

    /// A run of a kernel; how follows from its schedule.
    fn run(
        &mut self,
        frame: &mut Frame<'_>,
        group: &Group,
        planned: &Planned,
        arguments: &[ValueId],
        steps: &mut Vec<Step>,
    ) {
        let &Planned { id, ref accesses, flops, bytes } = planned;
        steps.push(Step::Run(Run {
            kernel: id,
            arguments: self.arguments(frame, accesses, arguments),
            extent: Expr::ONE,
            scratch_bytes: Expr::ZERO,
            grain: Expr::ONE,
        }));
        let nodes = group_nodes(frame, group);
        let prior_bytes = self.prior_bytes(frame, arguments);
        self.kernels.push(KernelInfo {
            kernel: id,
            name: self.module.kernels[id].name.clone(),
            nodes: nodes_of(frame.function, &nodes),
            source: KernelSource { region: self.region, nodes, arguments: arguments.to_vec() },
            extent: 1,
            scratch_bytes: 0,
            fused: group.fused.clone(),
            not_fused: group.not_fused.clone(),
            scheduled: Arc::default(),
            cost: Cost::default(),
            flops,
            bytes,
            prior_bytes: prior_bytes.min(bytes),
            naive: Arc::new(Naive { kernel: Kernel::new(""), producers: Vec::new(), once: false }),
            trace: Trace::default(),
            stored: None,
        });
    }

    /// Bytes of the arguments that were there before the run and that no kernel has read yet.
    fn prior_bytes(&mut self, frame: &Frame<'_>, arguments: &[ValueId]) -> u64 {
        let roots = arguments.iter().filter_map(|&value| Some(frame.grouping.view(value)?.root));
        let is_prior = |root: &ValueId| match frame.function.op(*root) {
            Some(_) => class_of(frame.function, *root) == Some(Class::Constant),
            None => true,
        };
        let region = self.region;
        let first = roots.filter(is_prior).filter(|&root| self.fetched.insert((region, root)));
        first.map(|root| weight(frame.function, &byte_count(frame.function, root)) as u64).sum()
    }

    /// Schedules the kernels and completes what depends on it: extents, grains, scratch memory.
    pub(crate) fn schedule(&mut self) -> base::Result<()> {
        let library = std::mem::take(&mut self.library);
        let made = library.schedule(self.module, self.target, self.options)?;
        let mut grains = BTreeMap::new();
        for info in &mut self.kernels {
            let (kernel, (made, stored)) = (&self.module.kernels[info.kernel], &made[&info.kernel]);
            info.extent = kernel.weight(&kernel.parallel_extent());
            info.scratch_bytes = kernel.weight(&scratch_layout(kernel).bytes);
            info.scheduled = made.remarks.clone();
            info.cost = made.cost;
            (info.naive, info.trace) = (made.naive.clone(), made.trace.clone());
            info.stored = stored.clone();
            let nanoseconds = info.cost.nanoseconds(self.target, 1);
            let grain = (info.extent as f64 * GRAIN_NS / nanoseconds.max(1.0)).ceil() as i64;
            grains.insert(info.kernel, grain.clamp(1, info.extent.max(1)));
        }
        let module = &*self.module;
        program::walk_mut(&mut self.program.steps, &mut |step| {
            if let Step::Run(run) = step
                && let Some(&grain) = grains.get(&run.kernel)
            {
                let kernel = &module.kernels[run.kernel];
                run.extent = kernel.parallel_extent();
                run.scratch_bytes = scratch_layout(kernel).bytes;
                run.grain = Expr::constant(grain);
            }
        });
        Ok(())
    }

    /// What a kernel that uses its parameters so is run with.
    fn arguments(
        &mut self,
        frame: &mut Frame<'_>,
        accesses: &[loops::Access],
        values: &[ValueId],
    ) -> Vec<Argument> {
        let argument = |(&value, &access): (&ValueId, &loops::Access)| Argument {
            address: self.address(frame, value),
            bytes: span(frame, value),
            writes: access != loops::Access::Read,
            reads: access != loops::Access::Write,
        };
        values.iter().zip(accesses).map(argument).collect()
    }

    // --- memory ---

    /// Where a stored value begins.
    pub(crate) fn address(&mut self, frame: &mut Frame<'_>, value: ValueId) -> Address {
        let (root, offset) = match frame.grouping.view(value) {
            // What has no elements lies where its root begins, which may have none either.
            Some(View { root, .. }) if byte_count(frame.function, value).is_zero() => {
                (*root, Expr::ZERO)
            }
            Some(View { root, offset, .. }) => {
                (*root, offset.clone() * element_bytes(frame, value))
            }
            None => panic!("{value} of function {} has no memory", frame.function.name),
        };
        let mut address = match frame.roots.get(&root) {
            Some(address) => address.clone(),
            None => {
                let slot = self.root_slot(frame, root);
                let address = Address { slot, offset: Expr::ZERO };
                frame.roots.insert(root, address.clone());
                address
            }
        };
        address.offset += &offset;
        address
    }

    fn root_slot(&mut self, frame: &Frame<'_>, root: ValueId) -> SlotId {
        let bytes = match frame.grouping.is_stored(root) {
            true => span(frame, root),
            false => byte_count(frame.function, root),
        };
        match frame.function.op(root) {
            Some(Op::Weight { constant, .. }) => self.weight_slot(*constant, bytes),
            Some(Op::Literal(tensor)) if splat(tensor).is_none() => {
                let constant = self.literal(tensor);
                self.weight_slot(constant, bytes)
            }
            _ => self.arena_slot(bytes),
        }
    }

    /// A constant of the module that holds a literal.
    fn literal(&mut self, tensor: &Tensor) -> ConstantId {
        let is_wrong = base::fault::is_seeded("lower.literals");
        let bytes = if is_wrong { Vec::new() } else { tensor.bytes().to_vec() };
        let key = (tensor.dtype().name(), tensor.shape().to_vec(), bytes);
        *self.literals.entry(key).or_insert_with(|| {
            let name = format!("literal.{}", self.module.constants.len());
            self.module.constants.push(Constant { name, tensor: tensor.clone() })
        })
    }

    fn weight_slot(&mut self, constant: ConstantId, bytes: Expr) -> SlotId {
        if let Some(&slot) = self.weights.get(&constant) {
            return slot;
        }
        let slot = self.slot(format!("w{}", constant.index()), bytes, Place::Weight(constant));
        self.weights.insert(constant, slot);
        slot
    }

    fn parameter_slots(&mut self, sizes: &[Expr]) -> Vec<Address> {
        let mut addresses = Vec::new();
        for (number, bytes) in sizes.iter().enumerate() {
            let (name, place) = match &self.options.role {
                Role::Main { inputs, constants } if number >= *inputs => {
                    let number = number - inputs;
                    let offset = Expr::constant(constants[number] as i64);
                    (format!("c{number}"), Place::Constants(offset))
                }
                _ => (format!("in{number}"), Place::Input(number as u32)),
            };
            let slot = self.slot(name, bytes.clone(), place);
            addresses.push(Address { slot, offset: Expr::ZERO });
        }
        addresses
    }

    fn result_slots(&mut self, sizes: &[Expr], constants: &ConstantBlock) -> Vec<Address> {
        let mut addresses = Vec::new();
        for (number, bytes) in sizes.iter().enumerate() {
            let (name, place) = match self.options.role {
                Role::Setup => {
                    let offset = Expr::constant(constants.offsets[number] as i64);
                    (format!("c{number}"), Place::Constants(offset))
                }
                Role::Main { .. } => (format!("out{number}"), Place::Output(number as u32)),
            };
            let slot = self.slot(name, bytes.clone(), place);
            addresses.push(Address { slot, offset: Expr::ZERO });
        }
        addresses
    }

    /// A new slot in the arena, its offset open.
    pub(crate) fn arena_slot(&mut self, bytes: Expr) -> SlotId {
        let name = format!("t{}", self.program.slots.len());
        self.slot(name, bytes, Place::Arena(Expr::ZERO))
    }

    /// A new slot.
    pub(crate) fn slot(&mut self, name: String, bytes: Expr, place: Place) -> SlotId {
        self.program.slots.push(Slot { name, bytes, place })
    }
}

/// Whether a kernel or step writes a value's memory, rather than the caller or the model's file.
fn is_made(function: &Function, root: ValueId) -> bool {
    class_of(function, root).is_some_and(|class| class != Class::Constant)
}

/// Bytes of a dense value.
pub(crate) fn byte_count(function: &Function, value: ValueId) -> Expr {
    let dtype = function.ty(value).as_tensor().map_or(DType::U8, |ty| ty.dtype);
    loops::byte_size(dtype, extents(function, value))
}

/// Bytes from a value's first element to behind its last.
fn span(frame: &Frame<'_>, value: ValueId) -> Expr {
    let shape = extents(frame.function, value);
    let Some(view) = frame.grouping.view(value) else { return Expr::ZERO };
    if view.is_dense(shape) {
        return byte_count(frame.function, value);
    }
    if shape.iter().any(Expr::is_zero) {
        return Expr::ZERO;
    }
    let steps = shape.iter().zip(&view.strides);
    let last: Expr = steps.map(|(extent, stride)| (extent.clone() - 1) * stride).sum();
    (last + 1) * element_bytes(frame, value)
}

fn element_bytes(frame: &Frame<'_>, value: ValueId) -> i64 {
    let dtype = frame.function.ty(value).as_tensor().map_or(DType::U8, |ty| ty.dtype);
    dtype.bytes().unwrap_or(1) as i64
}

/// What a kernel does with each of its parameters.
fn accesses(kernel: &Kernel) -> Vec<loops::Access> {
    let of = |&parameter| match kernel.buffers[parameter].scope {
        loops::Scope::Parameter(access) => access,
        loops::Scope::Scratch | loops::Scope::Register => loops::Access::Read,
    };
    kernel.parameters.iter().map(of).collect()
}

/// A word for what a kernel mostly does.
fn kind_of(function: &Function, group: &Group) -> &'static str {
    let rank = |op: &Op| match class(op) {
        Class::Contraction => 3,
        Class::Reduction => 2,
        Class::Statements => 1,
        _ => 0,
    };
    let ops = group.stages.iter().map(|stage| &function.nodes[stage.node].op);
    match ops.max_by_key(|op| rank(op)) {
        Some(op) => op.name(),
        None => "nothing",
    }
}

/// The nodes of a group: those with nests of their own and those substituted into them.
fn group_nodes(frame: &Frame<'_>, group: &Group) -> Vec<NodeId> {
    let mut work: Vec<NodeId> = group.stages.iter().map(|stage| stage.node).collect();
    let mut nodes = BTreeSet::new();
    while let Some(node) = work.pop() {
        if !nodes.insert(node) {
            continue;
        }
        let operands = &frame.function.nodes[node].operands;
        let inlined =
            operands.iter().filter(|&&operand| frame.grouping.homes[operand] == Home::Inlined);
        work.extend(inlined.filter_map(|&operand| Some(frame.function.producer(operand)?.0)));
    }
    // What depends on constants alone is shared by all who need the same constant.
    let computes = |&node: &NodeId| {
        frame.function.nodes[node].results.iter().any(|result| !frame.constants.contains(*result))
    };
    match nodes.iter().copied().filter(computes).collect::<Vec<_>>() {
        computing if !computing.is_empty() => computing,
        _ => nodes.into_iter().collect(),
    }
}

/// The user's names for nodes, each once.
fn nodes_of(function: &Function, nodes: &[NodeId]) -> Vec<String> {
    let (mut names, mut seen) = (Vec::new(), HashSet::new());
    for &node in nodes {
        let location = function.nodes[node].location;
        if location == Locations::UNKNOWN {
            continue;
        }
        for name in function.locations.names(location) {
            if seen.insert(name) {
                names.push(name.to_owned());
            }
        }
    }
    names
}
