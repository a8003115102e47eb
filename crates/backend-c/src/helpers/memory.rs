//! Elements that share bytes, and copies.

use tensor::DType;

use super::Helpers;
use crate::dtype::{is_packed, value_type};

impl Helpers {
    /// The element of this number of an array.
    pub(crate) fn load(&mut self, dtype: DType, array: &str, number: &str) -> String {
        match dtype {
            DType::Bool => format!("({array}[{number}] != 0)"),
            _ if !is_packed(dtype) => format!("{array}[{number}]"),
            _ => format!("{}({array}, {number})", self.load_packed(dtype)),
        }
    }

    /// The statement, with its `;`, that stores an element.
    pub(crate) fn store(&mut self, dtype: DType, array: &str, number: &str, value: &str) -> String {
        match is_packed(dtype) {
            false => format!("{array}[{number}] = {value};"),
            true => {
                format!("{}({array}, {number}, (uint8_t)({value}));", self.store_packed(dtype))
            }
        }
    }

    fn load_packed(&mut self, dtype: DType) -> String {
        self.define(format!("tw_load_{dtype}"), |helpers, name| {
            let (ty, bits) = (value_type(dtype), dtype.bits());
            let each = dtype.per_byte();
            let shifted = format!("(uint32_t)array[number / {each}] >> (number % {each} * {bits})");
            let value = helpers.wrap_text(dtype, &shifted);
            format!(
                "static {ty} {name}(const uint8_t *array, ptrdiff_t number)\n{{\n  \
                return {value};\n}}\n"
            )
        })
    }

    fn store_packed(&mut self, dtype: DType) -> String {
        let bits = dtype.bits();
        self.define(format!("tw_store_{bits}_bits"), |_, name| {
            let (each, mask) = (dtype.per_byte(), (1u32 << bits) - 1);
            format!(
                "static void {name}(uint8_t *array, ptrdiff_t number, uint8_t value)\n{{\n  \
                int shift = (int)(number % {each}) * {bits};\n  \
                int others = array[number / {each}] & ~({mask} << shift);\n  \
                array[number / {each}] = (uint8_t)(others | (value & {mask}) << shift);\n}}\n"
            )
        })
    }

    /// Whether bytes are the same: `(a, b, count)`.
    pub(crate) fn same(&mut self) -> String {
        self.define("tw_same".to_owned(), |_, name| {
            format!(
                "static int {name}(const void *a, const void *b, size_t count)\n{{\n  \
                const unsigned char *one = (const unsigned char *)a;\n  \
                const unsigned char *other = (const unsigned char *)b;\n  size_t i;\n  \
                for (i = 0; i < count; i++) {{\n    \
                if (one[i] != other[i]) return 0;\n  }}\n  return 1;\n}}\n"
            )
        })
    }

    /// Copies bytes: `(destination, source, count)`.
    pub(crate) fn copy(&mut self) -> String {
        self.define("tw_copy".to_owned(), |_, name| {
            format!(
                "static void {name}(void *destination, const void *source, size_t count)\n{{\n  \
                unsigned char *to = (unsigned char *)destination;\n  \
                const unsigned char *from = (const unsigned char *)source;\n  size_t i;\n  \
                for (i = 0; i < count; i++) to[i] = from[i];\n}}\n"
            )
        })
    }
}
