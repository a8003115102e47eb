//! New weights for what has been compiled: `setup` is run again, nothing is compiled.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock, PoisonError};

use base::{Arena, ConstantId, Diagnostic, Diagnostics, Result, codes};
use front::Facts;
use module::Constant;
use tensor::Tensor;

use crate::executable::Executable;
use crate::late::LateValue;
use crate::pipeline::FrontHalf;
use crate::source::Source;
use crate::specialisation::{LoweredFunction, ScopedFunction, Scopes, Specialisation};
use crate::variant::Variant;

type Weights = Arena<ConstantId, Constant>;

impl Executable {
    /// Takes the weights of another file of the same model: computes anew what is made of them.
    /// Nothing is compiled, and runs give the bits of an executable that is compiled from that
    /// file. An executable of an engine file can be refitted so, too.
    ///
    /// # Errors
    /// A file that cannot be read; `TW0306` for one that is not the same model but for its weights,
    /// and for what is compiled anew for each run's facts; faults while computing; `TW0901` while
    /// somebody holds a variant of the model.
    pub fn refit_from(&mut self, model: impl AsRef<Path>) -> Result<()> {
        base::catch_abandoned(|| self.refit_from_file(model.as_ref()))
    }

    fn refit_from_file(&mut self, model: &Path) -> Result<()> {
        let options = &self.model.options;
        let source = Source::read(model, &options.limits)?;
        let imported = source.import(options, &Facts::default())?;
        let place = |found: Diagnostic| found.at(model.display().to_string());
        let variants = self.model.cache.variants();
        let [variant] = &variants[..] else {
            return Err(place(many_variants()).into());
        };
        if !variant.needs().is_empty() || variant.facts != Facts::default() {
            return Err(place(many_variants()).into());
        }
        let (old, new) = (&variant.front().module.constants, &imported.module.constants);
        if let Some(reason) = difference(variant.front(), imported.function(), old, new) {
            return Err(place(other_model(reason)).into());
        }
        let mut functions = variant.front().module.functions.values();
        if functions.any(|function| formats::has_narrow_elements(function)) {
            let reason = "weights of less than a byte are converted while they are compiled";
            return Err(place(other_model(reason.to_owned())).into());
        }
        let new = Arc::new(imported.module.constants);
        drop(variants);
        let held = || Diagnostics::internal("a variant is held during a refit");
        self.fixed = OnceLock::new();
        let cache = &mut self.model.cache;
        cache.change_segments(|segment| segment.refitted(&new)).ok_or_else(held)?;
        let done = cache.change_variants(|variant| variant.refit_with(options, &new));
        done.unwrap_or_else(|| Err(held()))?;
        self.model.source = source;
        Ok(())
    }
}

fn many_variants() -> Diagnostic {
    other_model("the model is imported anew for what its inputs hold".to_owned())
}

fn other_model(reason: String) -> Diagnostic {
    Diagnostic::error(codes::CANNOT_REFIT, "these weights cannot take the place of the others")
        .because(reason)
        .remedy("compile the file")
}

/// In what a model is not the same but for the elements of its weights.
fn difference(
    front: &FrontHalf,
    imported: &graph::Function,
    old: &Weights,
    new: &Weights,
) -> Option<String> {
    if old.len() != new.len() {
        return Some(format!("it has {} weights instead of {}", new.len(), old.len()));
    }
    for (old, new) in old.values().zip(new.values()) {
        let ty = |it: &Constant| (it.tensor.dtype(), it.tensor.shape().to_vec());
        if old.name != new.name || ty(old) != ty(new) {
            let (dtype, shape) = ty(old);
            return Some(format!("its weights have no `{}` of {dtype}{shape:?}", old.name));
        }
    }
    let is_same = front.imported.to_string() == imported.to_string();
    (!is_same).then(|| "its graph is another, or a small constant that code depends on".to_owned())
}

impl Variant {
    fn refit_with(&mut self, options: &crate::Options, new: &Arc<Weights>) -> Result<()> {
        // What `setup` may still compute is of the former weights.
        self.constants.bytes()?;
        let front = FrontHalf::clone(&self.front);
        let module = module::Module { constants: Weights::clone(new), ..front.module };
        self.front = Arc::new(LateValue::of(FrontHalf { module, ..front }));
        let setup = Arc::get_mut(&mut self.setup);
        let setup = setup.and_then(LateValue::made_mut);
        setup.ok_or_else(|| Diagnostics::internal("setup is held during a refit"))?.refitted(new);
        let scopes = self.compiling.get_mut().unwrap_or_else(PoisonError::into_inner);
        for own in scopes.values_mut() {
            let made = own.made().map(|(ranges, made)| (ranges.clone(), made.refitted(new)));
            *own = made.collect::<Scopes>();
        }
        self.absent.clear();
        self.refit(options)
    }
}

impl Specialisation {
    /// With these weights in the place of those that it has.
    fn refitted(&mut self, new: &Arc<Weights>) {
        replace(&mut self.weights, new);
        self.made = refitted(&self.made, new);
    }
}

impl ScopedFunction {
    fn refitted(&self, new: &Arc<Weights>) -> Arc<ScopedFunction> {
        let mut weights = self.weights.clone();
        replace(&mut weights, new);
        let made = refitted(&self.made, new);
        Arc::new(ScopedFunction { made, weights, ..self.clone() })
    }
}

fn replace(weights: &mut BTreeMap<ConstantId, Tensor>, new: &Weights) {
    for (id, weight) in weights {
        if let Some(new) = new.get(*id) {
            *weight = new.tensor.clone();
        }
    }
}

/// How something was made, of other weights.
fn refitted(
    made: &Arc<LateValue<LoweredFunction>>,
    new: &Arc<Weights>,
) -> Arc<LateValue<LoweredFunction>> {
    let (made, new) = (made.clone(), new.clone());
    Arc::new(LateValue::by(move || {
        let mut again = LoweredFunction::clone(&made);
        for (id, constant) in again.module.constants.iter_mut() {
            if let Some(new) = new.get(id) {
                *constant = new.clone();
            }
        }
        again
    }))
}
