//! The functions that generated code calls: the rows of the scalar function table which are no
//! operator of C, conversions, access to packed elements. Only what is used is written, each once,
//! before what uses it.
//!
//! Names begin with `tw_` and end with the element types: `tw_add_i32`, `tw_i32_of_f32`. Every
//! helper is a static function of C99 that needs nothing but `<stdint.h>` and `<stddef.h>`.
//!
//! Relies on two's complement integers, IEEE 754 floats computed in their own precision, and
//! arithmetic shifts of negative numbers, which all compilers for present machines have.

mod convert;
mod float;
mod instruction;
mod integer;
mod memory;
mod region;
mod short_float;

pub(crate) use instruction::PairHelper;

use std::collections::BTreeSet;

use tensor::{DType, ScalarFunction};

/// The helpers needed so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Helpers {
    /// Names that are defined, or just being defined.
    known: BTreeSet<String>,
    /// Definitions, each behind those that it needs.
    texts: Vec<String>,
    /// Whether sums of products round once everywhere, or only where the machine does so itself.
    pub(crate) exact_sums: bool,
}

impl Helpers {
    pub(crate) fn new(exact_sums: bool) -> Helpers {
        Helpers { exact_sums, ..Helpers::default() }
    }

    /// The definitions, with an empty line behind each.
    pub(crate) fn finish(self) -> String {
        self.texts.iter().map(|text| format!("{}\n\n", text.trim_end())).collect()
    }

    /// The name; the first time, the definition is added. It may ask for other helpers.
    fn define(&mut self, name: String, text: impl FnOnce(&mut Helpers, &str) -> String) -> String {
        if self.known.insert(name.clone()) {
            let text = text(self, &name);
            self.texts.push(text);
        }
        name
    }

    /// The helper for a function of integers or of `float` and `double`; `None` where C has an
    /// operator for it.
    pub(crate) fn function(&mut self, function: ScalarFunction, dtype: DType) -> Option<String> {
        match dtype {
            DType::F32 | DType::F64 => self.float_function(function, dtype),
            _ => self.integer_function(function, dtype),
        }
    }

    /// The smaller of two.
    pub(crate) fn minimum(&mut self, dtype: DType) -> String {
        self.extremum("min", "<", dtype)
    }

    /// The larger of two.
    pub(crate) fn maximum(&mut self, dtype: DType) -> String {
        self.extremum("max", ">", dtype)
    }
}

/// The bits of a C integer type: `float`'s or `double`'s.
fn bits_type(dtype: DType) -> &'static str {
    if dtype == DType::F64 { "uint64_t" } else { "uint32_t" }
}
