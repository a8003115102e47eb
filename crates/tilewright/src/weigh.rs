//! What a function should take, for choices that are made before it is lowered.

use std::collections::BTreeMap;
use std::sync::Arc;

use backend::Target;
use base::timing::Phases;
use graph::Function;
use lower::{Hold, KernelStore, Role};
use module::Module;
use sym::SymbolId;

use crate::options::Options;
use crate::pipeline::optimise;
use crate::specialisation::{LoweredFunction, Request};

/// What an extent counts as that is not known: the least of these that a function makes sense with.
const UNKNOWN: [i64; 3] = [64, 1 << 10, 1 << 14];

/// The same where there is one input.
const UNKNOWN_OF_ONE: i64 = 1 << 10;

/// Weighs functions of one model. What they share is lowered once.
pub(crate) struct Weigher<'a> {
    module: &'a Module,
    options: Options,
    /// What decides for all targets of the architecture.
    target: Target,
    /// Kernels for it, and what keeps them there.
    store: Arc<KernelStore>,
    _hold: Hold,
}

impl Weigher<'_> {
    /// `store` has kernels for the target itself.
    pub(crate) fn new<'a>(
        module: &'a Module,
        options: &Options,
        target: &'a Target,
        store: &Arc<KernelStore>,
    ) -> Weigher<'a> {
        // The same for any number of threads; its phases are those of who weighs.
        let options = Options { threads: Some(1), phases: Phases::default(), ..options.clone() };
        let deciding = target.deciding();
        let store = if deciding == *target { store.clone() } else { Arc::default() };
        let hold = store.hold();
        Weigher { module, options, target: deciding, store, _hold: hold }
    }

    /// Nanoseconds of a run on one thread; none where it cannot be lowered by itself. Where extents
    /// are free, the geometric mean of two: of many inputs at once, and of one, as far as the first
    /// axis of a parameter counts them.
    pub(crate) fn nanoseconds(&self, function: Function) -> Option<f64> {
        let (target, store) = (&self.target, &self.store);
        let mut function = Arc::new(function);
        optimise(&mut function, &self.options).ok()?;
        let inputs = function.parameters().len();
        let main = graph_opt::cut(Arc::unwrap_or_clone(function)).main;
        // Where constants would lie makes no difference.
        let constants = vec![0; main.parameters().len() - inputs];
        let main = Arc::new(main);
        let lowered = |symbols: &BTreeMap<SymbolId, i64>| {
            let role = Role::Main { inputs, constants: constants.clone() };
            // What it takes is weighed, whatever its bits are.
            let mut bound = lower::specialise(&main, symbols).ok()?;
            optimise(&mut bound, &self.options).ok()?;
            let (own, none) = ((self.module, &bound), BTreeMap::new());
            let request = Request::new(own, &none, role, (target, &self.options));
            let lowered = LoweredFunction::new(Request {
                store: Some(store),
                keeps_kernels: true,
                ..request
            });
            Some(lowered.ok()?.lowered.predicted_ns(target))
        };
        let unknown: Vec<SymbolId> = main.symbols.iter().map(|(symbol, _)| symbol).collect();
        let all = |count: i64| unknown.iter().map(|&symbol| (symbol, count)).collect();
        let mut tried = UNKNOWN.iter().map(|&count| all(count));
        let (mut symbols, of_many): (BTreeMap<_, _>, f64) =
            tried.find_map(|symbols| lowered(&symbols).map(|taken| (symbols, taken)))?;
        let counts = main.parameters()[..inputs].iter().filter_map(|&value| {
            let first = main.ty(value).as_tensor()?.shape.first()?;
            first.as_symbol()
        });
        let counts: Vec<SymbolId> = counts.collect();
        if counts.is_empty() {
            return Some(of_many);
        }
        symbols.values_mut().for_each(|count| *count = (*count).max(UNKNOWN_OF_ONE));
        symbols.extend(counts.into_iter().map(|symbol| (symbol, 1)));
        Some(lowered(&symbols).map_or(of_many, |of_one| (of_many * of_one).sqrt()))
    }
}
