//! Values in tuples, arrays and vectors.

use crate::value::TracedValue;

/// One value or several of them, in an order.
pub trait ValueTree: Sized {
    /// All values in it.
    fn leaves(&self) -> Vec<TracedValue>;

    /// The same form with other values, as many as [`Self::leaves`] has.
    #[must_use]
    fn rebuilt(&self, leaves: &mut dyn Iterator<Item = TracedValue>) -> Self;
}

impl ValueTree for TracedValue {
    fn leaves(&self) -> Vec<TracedValue> {
        vec![self.clone()]
    }

    fn rebuilt(&self, leaves: &mut dyn Iterator<Item = TracedValue>) -> Self {
        leaves.next().unwrap_or_else(|| self.clone())
    }
}

impl<T: ValueTree> ValueTree for Vec<T> {
    fn leaves(&self) -> Vec<TracedValue> {
        self.iter().flat_map(ValueTree::leaves).collect()
    }

    fn rebuilt(&self, leaves: &mut dyn Iterator<Item = TracedValue>) -> Self {
        self.iter().map(|tree| tree.rebuilt(leaves)).collect()
    }
}

impl<T: ValueTree, const N: usize> ValueTree for [T; N] {
    fn leaves(&self) -> Vec<TracedValue> {
        self.iter().flat_map(ValueTree::leaves).collect()
    }

    fn rebuilt(&self, leaves: &mut dyn Iterator<Item = TracedValue>) -> Self {
        self.each_ref().map(|tree| tree.rebuilt(leaves))
    }
}

macro_rules! tuples {
    ($(($($name:ident $number:tt),*);)*) => {$(
        impl<$($name: ValueTree),*> ValueTree for ($($name,)*) {
            fn leaves(&self) -> Vec<TracedValue> {
                #[allow(unused_mut, reason = "the empty tuple has none")]
                let mut leaves = Vec::new();
                $(leaves.extend(self.$number.leaves());)*
                leaves
            }

            #[allow(unused_variables, reason = "the empty tuple has none")]
            #[allow(clippy::unused_unit, reason = "the empty tuple is one")]
            fn rebuilt(&self, leaves: &mut dyn Iterator<Item = TracedValue>) -> Self {
                ($(self.$number.rebuilt(leaves),)*)
            }
        }
    )*};
}

tuples! {
    ();
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
}
