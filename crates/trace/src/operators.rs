//! `+ - * /` of values with values and numbers, and `-`.
//!
//! Shapes are broadcast as NumPy does. A number takes the value's element type.

use std::ops::{Add, Div, Mul, Neg, Sub};

use tensor::ScalarFunction as F;

use crate::value::TracedValue;

impl Neg for &TracedValue {
    type Output = TracedValue;

    #[track_caller]
    fn neg(self) -> TracedValue {
        self.map("negate", F::Neg)
    }
}

impl Neg for TracedValue {
    type Output = TracedValue;

    #[track_caller]
    fn neg(self) -> TracedValue {
        self.map("negate", F::Neg)
    }
}

macro_rules! operators {
    ($($operator:ident $method:ident $name:literal $function:expr;)*) => {$(
        impl $operator<&TracedValue> for &TracedValue {
            type Output = TracedValue;

            #[track_caller]
            fn $method(self, other: &TracedValue) -> TracedValue {
                self.map_with($name, $function, other)
            }
        }

        impl $operator<TracedValue> for &TracedValue {
            type Output = TracedValue;

            #[track_caller]
            fn $method(self, other: TracedValue) -> TracedValue {
                self.map_with($name, $function, &other)
            }
        }

        impl $operator<&TracedValue> for TracedValue {
            type Output = TracedValue;

            #[track_caller]
            fn $method(self, other: &TracedValue) -> TracedValue {
                self.map_with($name, $function, other)
            }
        }

        impl $operator<TracedValue> for TracedValue {
            type Output = TracedValue;

            #[track_caller]
            fn $method(self, other: TracedValue) -> TracedValue {
                self.map_with($name, $function, &other)
            }
        }

        impl $operator<f64> for &TracedValue {
            type Output = TracedValue;

            #[track_caller]
            fn $method(self, other: f64) -> TracedValue {
                self.map_with($name, $function, &self.number(other))
            }
        }

        impl $operator<f64> for TracedValue {
            type Output = TracedValue;

            #[track_caller]
            fn $method(self, other: f64) -> TracedValue {
                self.map_with($name, $function, &self.number(other))
            }
        }

        impl $operator<&TracedValue> for f64 {
            type Output = TracedValue;

            #[track_caller]
            fn $method(self, other: &TracedValue) -> TracedValue {
                other.number(self).map_with($name, $function, other)
            }
        }

        impl $operator<TracedValue> for f64 {
            type Output = TracedValue;

            #[track_caller]
            fn $method(self, other: TracedValue) -> TracedValue {
                other.number(self).map_with($name, $function, &other)
            }
        }
    )*};
}

operators! {
    Add add "add" F::Add;
    Sub sub "subtract" F::Sub;
    Mul mul "multiply" F::Mul;
    Div div "divide" F::Div;
}
