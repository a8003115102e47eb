//! Lowerings with one store of kernels share those that compute the same, and are what they are
//! without it.

use std::collections::BTreeMap;
use std::sync::Arc;

use backend::Target;
use base::{FunctionId, Id};
use graph::{FunctionBuilder, TensorType, Type};
use lower::{KernelStore, LowerOptions, Lowered, Role};
use module::Module;
use strategies::StrategyOptions;
use tensor::{DType, ScalarFunction};

/// The hyperbolic tangent of some elements, the exponential of four.
fn lowered(count: usize, store: Option<Arc<KernelStore>>) -> (Module, Lowered) {
    let mut builder = FunctionBuilder::new("f");
    let ty = |count: usize| TensorType { dtype: DType::F32, shape: vec![count.into()].into() };
    let x = builder.parameter("x", Type::Tensor(ty(count)));
    let y = builder.parameter("y", Type::Tensor(ty(4)));
    let a = builder.map(ScalarFunction::Tanh, &[x]).expect("a map");
    let b = builder.map(ScalarFunction::Exp, &[y]).expect("a map");
    let function = builder.finish(vec![("a".to_owned(), a), ("b".to_owned(), b)]);
    let mut module = Module::default();
    module.functions.push(Arc::new(function));
    let role = Role::Main { inputs: 2, constants: Vec::new() };
    let strategies = StrategyOptions::default();
    let options = LowerOptions { store, strategies, ..LowerOptions::new(role) };
    let target = Target::named("x86-64-v4").expect("a target");
    let lowered =
        lower::lower(&mut module, FunctionId::new(0), &BTreeMap::new(), &target, &options);
    (module, lowered.expect("it lowers"))
}

#[test]
fn what_does_not_depend_on_an_extent_is_shared() {
    let store = Arc::new(KernelStore::default());
    let (_, first) = lowered(5, Some(store.clone()));
    let (module, second) = lowered(7, Some(store));
    let stored = |lowered: &Lowered, number: usize| {
        lowered.kernels[number].stored.clone().expect("there is a store")
    };
    assert!(Arc::ptr_eq(&stored(&first, 1), &stored(&second, 1)));
    assert!(!Arc::ptr_eq(&stored(&first, 0), &stored(&second, 0)));
    let (without, _) = lowered(7, None);
    assert_eq!(module.kernels, without.kernels);
}

#[test]
fn a_store_holds_on_to_nothing() {
    let store = Arc::new(KernelStore::default());
    let (_, first) = lowered(5, Some(store.clone()));
    let kept = Arc::downgrade(first.kernels[1].stored.as_ref().expect("there is a store"));
    assert!(kept.upgrade().is_some());
    drop(first);
    assert!(kept.upgrade().is_none());
}

/// While two hold it, and until the last of them is gone.
#[test]
fn a_store_that_is_held_keeps_what_is_added() {
    let store = Arc::new(KernelStore::default());
    let holds = [store.hold(), store.hold()];
    let (_, first) = lowered(5, Some(store.clone()));
    let kept = Arc::downgrade(first.kernels[1].stored.as_ref().expect("there is a store"));
    drop(first);
    let [one, other] = holds;
    drop(one);
    let (_, second) = lowered(7, Some(store.clone()));
    let again = second.kernels[1].stored.clone().expect("there is a store");
    assert!(kept.upgrade().is_some_and(|kept| Arc::ptr_eq(&kept, &again)));
    drop((second, again, other));
    assert!(kept.upgrade().is_none());
}
