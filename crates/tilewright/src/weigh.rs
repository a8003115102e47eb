//! What a function should take, for choices that are made before it is lowered.

use std::cell::RefCell;
use std::sync::Arc;

use backend::Target;
use base::timing::Phases;
use formats::Machines;
use graph::Function;
use lower::{KernelStore, Role, StoredKernel};
use module::Module;

use crate::options::Options;
use crate::pipeline::optimise;
use crate::specialisation::{LoweredFunction, Request};

/// What an extent counts as that is not known.
const UNKNOWN: i64 = 64;

/// Weighs functions of one model. What they share is lowered once.
pub(crate) struct Weigher<'a> {
    module: &'a Module,
    options: Options,
    /// What the function is for, and what decides for all targets of its architecture.
    targets: [Target; 2],
    /// Kernels for each, and what keeps them there.
    stores: [Arc<KernelStore>; 2],
    stored: RefCell<Vec<Arc<StoredKernel>>>,
}

impl Weigher<'_> {
    pub(crate) fn new<'a>(
        module: &'a Module,
        options: &Options,
        target: &'a Target,
    ) -> Weigher<'a> {
        // The same for any number of threads; its phases are those of who weighs.
        let options = Options { threads: Some(1), phases: Phases::default(), ..options.clone() };
        let targets = [target.clone(), target.deciding()];
        Weigher { module, options, targets, stores: Default::default(), stored: RefCell::default() }
    }

    /// Nanoseconds of a run on one thread; none where it cannot be lowered by itself.
    pub(crate) fn nanoseconds(&self, function: Function, machines: Machines) -> Option<f64> {
        let number = usize::from(machines == Machines::All);
        let (target, store) = (&self.targets[number], &self.stores[number]);
        let mut function = Arc::new(function);
        optimise(&mut function, &self.options).ok()?;
        let inputs = function.parameters().len();
        let main = graph_opt::cut(Arc::unwrap_or_clone(function)).main;
        let symbols = main.symbols.iter().map(|(symbol, _)| (symbol, UNKNOWN)).collect();
        // Where constants would lie makes no difference.
        let constants = vec![0; main.parameters().len() - inputs];
        let lowered = LoweredFunction::new(Request {
            module: self.module,
            function: &Arc::new(main),
            symbols: &symbols,
            role: Role::Main { inputs, constants },
            target,
            options: &self.options,
            given: None,
            store: Some(store),
        });
        let lowered = lowered.ok()?.lowered;
        let stored = lowered.kernels.iter().filter_map(|info| info.stored.clone());
        self.stored.borrow_mut().extend(stored);
        Some(lowered.predicted_ns(target))
    }
}
