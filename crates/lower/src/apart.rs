//! Fusion that is taken back: where the kernel of several nodes takes far longer than they need,
//! values between them are stored after all.
//!
//! Grouping weighs fusion by rules; what comes of it shows when its kernels are scheduled. Those
//! that should take much longer than their arithmetic and their bytes are looked at again, the
//! costliest first: with all values inside in memory, then with each by itself, always by what the
//! kernels of the nodes should cost then. What saves enough is kept, and the function is emitted
//! again with these values apart, and looked at again. Where a value lives changes no bits of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use backend::Target;
use base::timing::Phases;
use base::{IdSet, InOrder, IntoTree, KernelId};
use graph::{Function, NodeId, Op, Users, ValueId};
use loops::Kernel;
use module::Module;
use strategies::{Cost, LITTLE, Naive};
use sym::Expr;

use crate::definitions::{Class, class_of_node, cost, space};
use crate::emit::{Emitted, byte_count};
use crate::groups::{Fusion, body_users, form};
use crate::naive;
use crate::naive::index::{extents, weight};
use crate::store::{Made, digest};
use crate::{KernelInfo, KernelStore, LowerOptions, RUN, Role, StoredKernel};

/// How many times what its nodes need a kernel may take before others are tried.
const POOR: f64 = 2.0;

/// Of the cycles of a function the share that is not worth a trial.
const LITTLE_SHARE: f64 = 0.01;

/// Of the cost of a kernel the share that must be saved: what costs are off by.
const SAVED: f64 = 0.25;

/// Trials for one kernel, for one whose runs were all that its function does, and for all kernels
/// of a function.
const TRIALS: usize = 24;
const TRIALS_OF_ALL: f64 = 120.0;
const ALL_TRIALS: usize = 96;

/// How often a function is emitted again at most.
const ROUNDS: usize = 3;

/// So many kernels are looked at beside each other: what one of them finds out the others do not
/// know, so that the outcome is that of one thread.
const BESIDE: usize = 4;

/// Values that are stored though they might be inlined or internal, by the region whose function
/// they are in.
pub(crate) type Apart = BTreeMap<Option<usize>, IdSet<ValueId>>;

/// Emits a function by `emit`, again where values are better apart.
///
/// # Errors
/// Those of `emit`.
pub(crate) fn emit(
    module: &mut Module,
    function: &Function,
    target: &Target,
    options: &LowerOptions,
    emit: &dyn Fn(&mut Module, &Apart, &LowerOptions) -> base::Result<Emitted>,
) -> base::Result<Emitted> {
    let (kernels, constants) = (module.kernels.len(), module.constants.len());
    let first = emit(module, &Apart::new(), options)?;
    if !options.fusion || options.role == Role::Setup || options.strategies.plain {
        return Ok(first);
    }
    let store = options.store.clone().unwrap_or_default();
    // Its phases are this one.
    let untimed = LowerOptions { phases: Phases::default(), ..options.clone() };
    let mut doubts = Doubts {
        function,
        target,
        options: &untimed,
        store: &store,
        found: BTreeMap::new(),
        stored: Vec::new(),
        left: ALL_TRIALS,
    };
    let again = LowerOptions { store: Some(store.clone()), ..options.clone() };
    let emit_again = |module: &mut Module, apart: &Apart| {
        module.kernels.renumber(&module.kernels.ids().take(kernels).collect::<Vec<_>>());
        module.constants.renumber(&module.constants.ids().take(constants).collect::<Vec<_>>());
        emit(module, apart, &again)
    };
    let cycles = |emitted: &Emitted| -> f64 {
        emitted.kernels.iter().map(|info| RUN + info.cost.cycles()).sum()
    };
    let (mut best, mut apart) = (first, Apart::new());
    // What is apart may be fused with others then.
    for _ in 0..ROUNDS {
        let mut wider = apart.clone();
        let search = || doubts.widen(&mut wider, &best, module);
        if !options.phases.time("fusion again", search)? {
            break;
        }
        let next = emit_again(module, &wider)?;
        if cycles(&next) >= cycles(&best) {
            best = emit_again(module, &apart)?;
            break;
        }
        (best, apart) = (next, wider);
    }
    if options.store.is_none() {
        best.kernels.iter_mut().for_each(|info| info.stored = None);
    }
    Ok(best)
}

/// A kernel by a digest of its content, and how many values it has inside. Were it that of another
/// one, too, values would be apart that were better inside, and compute the same.
type Key = (u64, usize);

fn key(info: &KernelInfo, inside: &[ValueId]) -> Key {
    (digest(&info.naive.kernel), inside.len())
}

/// What has been found out about the kernels of a function.
struct Doubts<'a> {
    function: &'a Function,
    target: &'a Target,
    options: &'a LowerOptions,
    /// All kernels that are made on the way, which live as long as `stored`.
    store: &'a KernelStore,
    stored: Vec<Arc<StoredKernel>>,
    /// Of each kernel that has been looked at, the places of the values inside that are better
    /// apart.
    found: BTreeMap<Key, Vec<usize>>,
    /// Trials that are left.
    left: usize,
}

impl<'a> Doubts<'a> {
    /// Adds the values inside of kernels of the function, emitted so, that are better apart;
    /// whether there are any.
    fn widen(
        &mut self,
        apart: &mut Apart,
        emitted: &Emitted,
        module: &Module,
    ) -> base::Result<bool> {
        let function = self.function;
        let in_function = |region: Option<usize>| match region {
            Some(region) => &*emitted.regions[region].function,
            None => function,
        };
        let values_inside = |info: &KernelInfo| inside(in_function(info.source.region), info);
        let poor = poor(emitted, &in_function, self.target, self.options);
        let mut constants: BTreeMap<Option<usize>, IdSet<ValueId>> = BTreeMap::new();
        // A kernel that runs several times is looked at once.
        let mut cases: Vec<Case<'_>> = Vec::new();
        for &(info, trials) in &poor {
            let inside = values_inside(info);
            let key = key(info, &inside);
            if inside.is_empty() || self.found.contains_key(&key) {
                continue;
            }
            self.found.insert(key, Vec::new());
            let around = in_function(info.source.region);
            let constants =
                constants.entry(info.source.region).or_insert_with(|| around.constant_values());
            if let Some(alone) = Alone::of(around, constants, info, &inside) {
                cases.push(Case { key, alone, cost: &info.cost, trials });
            }
        }
        if !cases.is_empty() {
            self.stored.extend(take_in(emitted, module, self.store));
        }
        for beside in cases.chunks(BESIDE) {
            self.search(beside)?;
        }
        let mut is_wider = false;
        for (info, _) in poor {
            let inside = values_inside(info);
            for &place in self.found.get(&key(info, &inside)).into_iter().flatten() {
                is_wider |= apart.entry(info.source.region).or_default().insert(inside[place]);
            }
        }
        Ok(is_wider)
    }

    /// Looks at kernels beside each other.
    fn search(&mut self, cases: &[Case<'_>]) -> base::Result<()> {
        let Doubts { target, options, store, left, .. } = *self;
        let search = |case: &Case<'_>| -> base::Result<_> {
            let mut search = Search::new(target, (options, store), case.trials.min(left));
            let found = search.places_apart(&case.alone, case.cost)?;
            Ok((case.key, found, search))
        };
        let cases = cases.iter().collect();
        for found in base::parallel::map_long(options.threads, cases, search) {
            let (key, found, search) = found?;
            self.found.insert(key, found);
            self.left = self.left.saturating_sub(search.tried);
            search.stored.iter().for_each(|made| store.put(made.clone()));
            self.stored.extend(search.stored);
        }
        Ok(())
    }
}

/// The kernels that should take much longer than their nodes need, the costliest first, each with
/// the trials that it is worth: the more its runs take of their function, the more.
fn poor<'a>(
    emitted: &'a Emitted,
    in_function: &dyn Fn(Option<usize>) -> &'a Function,
    target: &Target,
    options: &LowerOptions,
) -> Vec<(&'a KernelInfo, usize)> {
    let mut cycles: BTreeMap<Option<usize>, f64> = BTreeMap::new();
    let mut of_runs: BTreeMap<(Option<usize>, KernelId), f64> = BTreeMap::new();
    for info in &emitted.kernels {
        let region = info.source.region;
        *cycles.entry(region).or_default() += info.cost.cycles();
        *of_runs.entry((region, info.kernel)).or_default() += info.cost.cycles();
    }
    // How often a region runs is not known: its kernels are weighed within it.
    cycles.insert(None, cycles.values().sum());
    let worth = |info: &'a KernelInfo| {
        if options.doubts_fusion {
            return Some((info, TRIALS));
        }
        let region = info.source.region;
        let share = of_runs[&(region, info.kernel)] / cycles[&region];
        let least = least(in_function(region), info, target);
        let is_poor = share > LITTLE_SHARE && info.cost.cycles() > LITTLE + POOR * least;
        is_poor.then(|| (info, (share * TRIALS_OF_ALL).min(TRIALS as f64) as usize))
    };
    let mut poor: Vec<_> = emitted.kernels.iter().filter_map(worth).collect();
    poor.put_in_order_by(|(one, _), (other, _)| other.cost.cycles().total_cmp(&one.cost.cycles()));
    poor
}

/// Puts the kernels of an emitted function into a store, where they live as long as what it gives.
fn take_in(emitted: &Emitted, module: &Module, store: &KernelStore) -> Vec<Arc<StoredKernel>> {
    let mut seen = BTreeSet::new();
    let kernels = emitted.kernels.iter().filter(|info| seen.insert(info.kernel));
    let stored = kernels.map(|info| {
        let made = Made {
            naive: info.naive.clone(),
            trace: info.trace.clone(),
            remarks: info.scheduled.clone(),
            cost: info.cost,
        };
        let kernel = || store.add(made, module.kernels[info.kernel].clone());
        info.stored.clone().unwrap_or_else(kernel)
    });
    stored.collect()
}

/// Cycles that the nodes of a kernel need at least, each element computed once, each byte moved
/// once from where all of them stay.
fn least(function: &Function, info: &KernelInfo, target: &Target) -> f64 {
    let count = |extents: &[Expr]| -> f64 {
        extents.iter().map(|extent| weight(function, extent) as f64).product()
    };
    let machine = &target.machine;
    let lanes = f64::from(target.vector_bytes / 4);
    let of_node = |&node: &NodeId| {
        let data = &function.nodes[node];
        match (space(&data.op), data.results.first()) {
            (Some(space), _) => count(&space.extents) / f64::from(machine.fma_per_cycle),
            (None, Some(&result)) => {
                let instructions = f64::from(cost(&data.op)) * count(extents(function, result));
                instructions / machine.arithmetic_per_cycle
            }
            (None, None) => 0.0,
        }
    };
    let arithmetic = info.source.nodes.iter().map(of_node).sum::<f64>() * machine.passes / lanes;
    arithmetic.max(machine.cycles_to_move(info.bytes as f64))
}

/// The values inside a kernel that could be stored.
fn inside(function: &Function, info: &KernelInfo) -> Vec<ValueId> {
    let can_be_stored = |&&node: &&NodeId| match class_of_node(function, node) {
        Class::Movement => !matches!(function.nodes[node].op, Op::Broadcast { .. }),
        class => class.is_elementwise() && class != Class::Index || class.is_sum(),
    };
    let nodes = info.source.nodes.iter().filter(can_be_stored);
    let results = nodes.flat_map(|&node| &function.nodes[node].results).copied();
    let arguments = &info.source.arguments;
    results
        .filter(|value| !arguments.contains(value) && !byte_count(function, *value).is_zero())
        .collect()
}

/// A kernel's nodes as a function of their own, in which what is apart can be tried.
struct Alone {
    function: Function,
    users: Users,
    /// What stands here for the values inside the kernel, in their order.
    inside: Vec<ValueId>,
}

impl Alone {
    /// Of a kernel of a function with these constants; none where it computes what no argument
    /// needs.
    fn of(
        around: &Function,
        constants: &IdSet<ValueId>,
        info: &KernelInfo,
        inside: &[ValueId],
    ) -> Option<Alone> {
        let producer = |value: ValueId| around.producer(value).map(|(node, _)| node);
        let mut nodes: BTreeSet<NodeId> = info.source.nodes.iter().copied().into_set();
        let mut work = info.source.nodes.clone();
        while let Some(node) = work.pop() {
            let read = around.reads(node).into_iter().filter(|value| constants.contains(*value));
            work.extend(read.filter_map(producer).filter(|&node| nodes.insert(node)));
        }
        let is_made = |value: &ValueId| producer(*value).is_some_and(|node| nodes.contains(&node));
        let read = nodes.iter().flat_map(|&node| around.reads(node));
        let parameters: BTreeSet<ValueId> = read.filter(|value| !is_made(value)).into_set();
        let arguments = info.source.arguments.iter().copied();
        let results = arguments.filter(|it| is_made(it) && !constants.contains(*it)).collect();
        let is_taken = |node: NodeId| nodes.contains(&node);
        let parameters = parameters.into_iter().collect();
        let function = around.part_of(&[around.body], parameters, results, &is_taken);
        let before = around.regions[around.body].nodes.iter().filter(|&&node| is_taken(node));
        let own = &function.regions[function.body].nodes;
        if before.clone().count() != own.len() {
            return None;
        }
        let mut here: BTreeMap<ValueId, ValueId> = BTreeMap::new();
        for (&node, &own) in before.zip(own) {
            let own = function.nodes[own].results.iter().copied();
            here.extend(around.nodes[node].results.iter().copied().zip(own));
        }
        let inside = inside.iter().map(|value| here.get(value).copied()).collect::<Option<_>>()?;
        Some(Alone { users: body_users(&function), function, inside })
    }
}

/// What came of some values being apart.
struct Trial {
    cycles: f64,
    /// Of the kernel of a sum or of statements of its own that takes most: its instructions.
    alone: f64,
}

impl Trial {
    fn add(&mut self, cost: &Cost, is_heavy: bool) {
        self.cycles += cost.cycles();
        if is_heavy {
            self.alone = self.alone.max(cost.instructions);
        }
    }
}

/// A kernel that is looked at again.
struct Case<'a> {
    key: Key,
    alone: Alone,
    cost: &'a Cost,
    /// How many trials it is worth.
    trials: usize,
}

struct Search<'a> {
    target: &'a Target,
    options: &'a LowerOptions,
    store: &'a KernelStore,
    /// What this search made itself.
    own: KernelStore,
    /// The same, which would be gone from there else.
    stored: Vec<Arc<StoredKernel>>,
    /// How many trials it may take, and how many it has.
    trials: usize,
    tried: usize,
}

impl<'a> Search<'a> {
    fn new(
        target: &'a Target,
        (options, store): (&'a LowerOptions, &'a KernelStore),
        trials: usize,
    ) -> Search<'a> {
        let own = KernelStore::default();
        Search { target, options, store, own, stored: Vec::new(), trials, tried: 0 }
    }

    /// The places of those of the values inside a kernel that are better apart than all together,
    /// which costs so much.
    fn places_apart(&mut self, alone: &Alone, together: &Cost) -> base::Result<Vec<usize>> {
        let all: Vec<usize> = (0..alone.inside.len()).collect();
        let together = RUN + together.cycles();
        let worth = if self.options.doubts_fusion { 0.0 } else { SAVED * together };
        let mut best: (f64, Vec<usize>) = (together, Vec::new());
        let mut tried = BTreeSet::from([Vec::new()]);
        let mut next = vec![all.clone()];
        next.extend(all.iter().map(|&place| vec![place]));
        // From the best so far to what differs from it by one value, until nothing is better. What
        // takes most of the kernel, and as long all by itself, is not its values' fault.
        loop {
            let before = best.1.clone();
            for places in next {
                if self.tried < self.trials && tried.insert(places.clone()) {
                    self.tried += 1;
                    let Trial { cycles, alone: heaviest } = self.trial(alone, &places, best.0)?;
                    if places.len() == all.len() && heaviest > together - worth {
                        return Ok(Vec::new());
                    }
                    if cycles < best.0 || cycles <= best.0 && places.len() < best.1.len() {
                        best = (cycles, places);
                    }
                }
            }
            if best.1 == before || self.tried == self.trials {
                break;
            }
            next = all.iter().map(|&place| without_or_with(&best.1, place)).collect();
        }
        let saves = together - best.0 > worth;
        Ok(if saves { best.1 } else { Vec::new() })
    }

    /// What the kernels of some nodes should take with the values at these places apart; infinite
    /// as soon as that is more than `most`.
    fn trial(&mut self, alone: &Alone, places: &[usize], most: f64) -> base::Result<Trial> {
        let Alone { function, users, inside } = alone;
        let mut apart = IdSet::new();
        places.iter().for_each(|&place| _ = apart.insert(inside[place]));
        let fusion = Fusion { wanted: true, once: false, target: self.target, apart: &apart };
        let grouping = form(function, fusion);
        let mut trial = Trial { cycles: grouping.groups.len() as f64 * RUN, alone: 0.0 };
        let mut unknown = Vec::new();
        for group in grouping.groups.values() {
            let (naive, _) = naive::build(function, &grouping, users, group, "kernel");
            let is_heavy = group.stages.iter().any(|stage| {
                let class = class_of_node(function, stage.node);
                class == Class::Statements || class.is_sum()
            });
            match self.find(&naive.kernel) {
                Some(stored) => trial.add(&stored.made.cost, is_heavy),
                None => unknown.push((naive, is_heavy)),
            }
        }
        for (naive, is_heavy) in unknown {
            if trial.cycles > most {
                return Ok(Trial { cycles: f64::INFINITY, ..trial });
            }
            trial.add(&self.cost(naive)?, is_heavy);
        }
        Ok(trial)
    }

    /// What a kernel should take, which is made unless it has been.
    fn cost(&mut self, naive: Naive) -> base::Result<Cost> {
        if let Some(stored) = self.find(&naive.kernel) {
            return Ok(stored.made.cost);
        }
        let (kernel, made) = Made::by_strategies(naive, self.target, self.options)?;
        let cost = made.cost;
        self.stored.push(self.own.add(made, kernel));
        Ok(cost)
    }

    fn find(&self, naive: &Kernel) -> Option<Arc<StoredKernel>> {
        self.store.find(naive).or_else(|| self.own.find(naive))
    }
}

/// Places in order, this one taken out or put in.
fn without_or_with(places: &[usize], place: usize) -> Vec<usize> {
    let mut places = places.to_vec();
    match places.binary_search(&place) {
        Ok(at) => _ = places.remove(at),
        Err(at) => places.insert(at, place),
    }
    places
}
