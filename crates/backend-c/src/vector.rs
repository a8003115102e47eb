//! Vector loops by the intrinsics of cores with Helium, four lanes of 32 bits at a time.
//!
//! Elements of 8 and 16 bits are extended as they are loaded, and cut as they are stored. What has
//! no vector form here (divisions, comparisons, conditions) leaves its loop to scalar code, which
//! stands beside the intrinsics in any case, for compilers without them.
//!
//! Relies on conversions of floats that saturate and make zero of NaN, as the scalar function table
//! wants them.

use std::collections::BTreeSet;

use loops::{BufferId, Kernel, Loop, ScalarExpr, Scope, Stmt};
use sym::{Expr, SymbolId};
use tensor::{DType, Reduction, ScalarFunction};

use crate::code::{Code, Strength};
use crate::helpers::Helpers;
use crate::value::{Rounded, ValueContext, strides};

/// Lanes of 32 bits in a vector.
pub(crate) const LANES: i64 = 4;

/// A value in all lanes: one for all of them, or a vector.
enum Lanes {
    Same(Code),
    Each(String),
}

/// A place in a vector loop.
pub(crate) struct VectorContext<'a, 'b> {
    pub(crate) scalar: &'a ValueContext<'b>,
    pub(crate) kernel: &'a Kernel,
    pub(crate) variable: SymbolId,
    /// Buffers that other statements take element by element.
    pub(crate) single_sums: &'a BTreeSet<BufferId>,
    /// The element of the first lane, where it is a constant; else the variable counts lanes.
    pub(crate) first: Option<i64>,
}

/// Whether a loop may be run in vectors: its statements store elements or add to them.
pub(crate) fn is_suited(inner: &Loop) -> bool {
    let is_plain = |stmt: &Stmt| matches!(stmt, Stmt::Store { .. } | Stmt::Reduce { .. });
    let whole = inner.extent.as_constant().is_some_and(|extent| extent % LANES == 0);
    whole && !inner.body.is_empty() && inner.body.iter().all(is_plain)
}

impl VectorContext<'_, '_> {
    /// A statement, for the lanes from the first on; none where it has no vector form.
    pub(crate) fn statement(&self, helpers: &mut Helpers, stmt: &Stmt) -> Option<String> {
        match stmt {
            Stmt::Store { buffer, index, value } => {
                let value = self.stored_value(helpers, value)?;
                self.store(helpers, *buffer, index, value)
            }
            Stmt::Reduce { buffer, index, reduction, value } => {
                let dtype = self.kernel.buffers[*buffer].dtype;
                let old = match self.load(helpers, *buffer, index)? {
                    Lanes::Each(old) => old,
                    Lanes::Same(_) => return None,
                };
                let new = self.reduced(helpers, dtype, old, *reduction, value)?;
                self.store(helpers, *buffer, index, Lanes::Each(new))
            }
            _ => None,
        }
    }

    /// A value of which the low bits of each lane are stored.
    fn stored_value(&self, helpers: &mut Helpers, value: &ScalarExpr) -> Option<Lanes> {
        use ScalarFunction as F;
        let ScalarExpr::Apply { function, dtype, arguments } = value else {
            return self.value(helpers, value);
        };
        let is_short = dtype.is_integer() && dtype.bits() <= 16;
        match (function, &arguments[..]) {
            _ if !self.varies(value) => self.value(helpers, value),
            (F::Cast, [inner]) => self.cast(helpers, *dtype, inner, true),
            (F::Bitcast, [inner]) if is_short => self.stored_value(helpers, inner),
            (F::Xor, [inner, bits @ ScalarExpr::Constant(_)]) if is_short => {
                let inner = vector(self.stored_value(helpers, inner)?, DType::I32)?;
                let bits = vector(Lanes::Same(self.scalar.value(helpers, bits)), DType::I32)?;
                Some(Lanes::Each(format!("veorq_s32({inner}, {bits})")))
            }
            _ => self.value(helpers, value),
        }
    }

    fn reduced(
        &self,
        helpers: &mut Helpers,
        dtype: DType,
        old: String,
        reduction: Reduction,
        value: &ScalarExpr,
    ) -> Option<String> {
        let letter = letter(dtype)?;
        if let ScalarExpr::Apply { function: ScalarFunction::Mul, arguments, .. } = value
            && reduction == Reduction::Sum
            && matches!(dtype, DType::I32 | DType::F32)
        {
            let [a, b] = [0, 1].map(|number| self.value(helpers, &arguments[number]));
            let name = if dtype == DType::F32 { "vfmaq" } else { "vmlaq" };
            return match (a?, b?) {
                (Lanes::Each(a), Lanes::Same(b)) | (Lanes::Same(b), Lanes::Each(a)) => {
                    Some(format!("{name}_n_{letter}({old}, {a}, {})", b.text))
                }
                (Lanes::Each(a), Lanes::Each(b)) if dtype == DType::F32 => {
                    Some(format!("vfmaq_f32({old}, {a}, {b})"))
                }
                (Lanes::Each(a), Lanes::Each(b)) => {
                    Some(format!("vaddq_s32({old}, vmulq_s32({a}, {b}))"))
                }
                (Lanes::Same(_), Lanes::Same(_)) => None,
            };
        }
        let value = self.value(helpers, value)?;
        let value = vector(value, dtype)?;
        let name = match (reduction, dtype.is_float()) {
            (Reduction::Sum, _) if matches!(dtype, DType::I32 | DType::F32) => "vaddq",
            (Reduction::Max, false) => "vmaxq",
            (Reduction::Min, false) => "vminq",
            _ => return None,
        };
        Some(format!("{name}_{letter}({old}, {value})"))
    }

    /// A value; none where it has no vector form.
    fn value(&self, helpers: &mut Helpers, value: &ScalarExpr) -> Option<Lanes> {
        use ScalarFunction as F;
        if !self.varies(value) {
            return Some(Lanes::Same(self.scalar.value(helpers, value)));
        }
        let (function, dtype, arguments) = match value {
            ScalarExpr::Load { buffer, index } => return self.load(helpers, *buffer, index),
            ScalarExpr::Apply { function, dtype, arguments } => (*function, *dtype, arguments),
            _ => return None,
        };
        if function == F::Cast {
            return self.cast(helpers, dtype, &arguments[0], false);
        }
        if function == F::Round && dtype == DType::F32 {
            let value = self.value(helpers, &arguments[0])?;
            return Some(Lanes::Each(format!("vrndnq_f32({})", vector(value, dtype)?)));
        }
        if !matches!(dtype, DType::I32 | DType::F32) {
            return None;
        }
        let letter = letter(dtype)?;
        let operands = arguments.iter().map(|argument| self.value(helpers, argument));
        let mut operands = operands.collect::<Option<Vec<Lanes>>>()?.into_iter();
        let (a, b) = (operands.next()?, operands.next()?);
        if function == F::FusedMultiplyAdd && dtype == DType::F32 {
            let sum = vector(operands.next()?, dtype)?;
            return Some(Lanes::Each(match (a, b) {
                (Lanes::Each(a), Lanes::Same(b)) | (Lanes::Same(b), Lanes::Each(a)) => {
                    format!("vfmaq_n_f32({sum}, {a}, {})", b.text)
                }
                (a, b) => {
                    format!("vfmaq_f32({sum}, {}, {})", vector(a, dtype)?, vector(b, dtype)?)
                }
            }));
        }
        let name = match function {
            F::Add => "vaddq",
            F::Sub => "vsubq",
            F::Mul => "vmulq",
            _ => return None,
        };
        Some(Lanes::Each(match (a, b) {
            (Lanes::Each(a), Lanes::Same(b)) => format!("{name}_n_{letter}({a}, {})", b.text),
            (a, b) => format!("{name}_{letter}({}, {})", vector(a, dtype)?, vector(b, dtype)?),
        }))
    }

    /// A conversion; of one that is only stored the high bits of lanes do not matter.
    fn cast(
        &self,
        helpers: &mut Helpers,
        dtype: DType,
        value: &ScalarExpr,
        is_stored: bool,
    ) -> Option<Lanes> {
        let from = self.scalar.dtype(value);
        let is_short = |dtype: DType| matches!(dtype, DType::I8 | DType::U8 | DType::I16);
        if let Some(rounded) = Rounded::of(self.scalar, dtype, value) {
            let own = vector(self.value(helpers, rounded.value)?, DType::F32)?;
            let mut own = format!("vrndnq_f32({own})");
            if let Some(offset) = rounded.offset {
                let offset = self.scalar.value(helpers, offset);
                own = format!("vaddq_n_f32({own}, {})", offset.text);
            }
            return Some(Lanes::Each(saturated(dtype, &own, is_stored)?));
        }
        let own = self.value(helpers, value)?;
        match (from, dtype) {
            (_, DType::I32) if is_short(from) => Some(Lanes::Each(vector(own, from)?)),
            (_, DType::F32) if is_short(from) || from == DType::I32 => {
                Some(Lanes::Each(format!("vcvtq_f32_s32({})", vector(own, from)?)))
            }
            (DType::F32, _) if is_short(dtype) => {
                Some(Lanes::Each(saturated(dtype, &vector(own, from)?, is_stored)?))
            }
            _ => None,
        }
    }

    fn load(&self, helpers: &mut Helpers, buffer: BufferId, index: &[Expr]) -> Option<Lanes> {
        let number = self.number(buffer, index);
        if !number.contains(self.variable) {
            return None;
        }
        let data = &self.kernel.buffers[buffer];
        if self.single_sums.contains(&buffer) {
            let first = self.first.filter(|_| data.dtype == DType::I32)?;
            let element = |lane: i64| {
                let number = number.substitute(&mut |symbol: SymbolId| {
                    (symbol == self.variable).then(|| Expr::constant(first + lane))
                });
                let number = self.scalar.element_number(helpers, buffer, &number);
                format!("{}[{number}]", self.scalar.buffer_name(buffer))
            };
            let elements: Vec<String> = (0..LANES).map(element).collect();
            return Some(Lanes::Each(format!("tw_i32x4_of({})", elements.join(", "))));
        }
        let place = self.place(helpers, buffer, &number)?;
        Some(Lanes::Each(match data.dtype {
            DType::I8 => format!("vldrbq_s32({place})"),
            DType::U8 => format!("vreinterpretq_s32_u32(vldrbq_u32({place}))"),
            DType::I16 => format!("vldrhq_s32({place})"),
            DType::I32 => format!("*(const tw_i32x4 *)({place})"),
            DType::F32 => format!("*(const tw_f32x4 *)({place})"),
            _ => return None,
        }))
    }

    fn store(
        &self,
        helpers: &mut Helpers,
        buffer: BufferId,
        index: &[Expr],
        value: Lanes,
    ) -> Option<String> {
        let number = self.number(buffer, index);
        let place = self.place(helpers, buffer, &number)?;
        let dtype = self.kernel.buffers[buffer].dtype;
        let value = vector(value, dtype)?;
        Some(match dtype {
            DType::I8 => format!("vstrbq_s32({place}, {value});"),
            DType::U8 => format!("vstrbq_u32({place}, vreinterpretq_u32_s32({value}));"),
            DType::I16 => format!("vstrhq_s32({place}, {value});"),
            DType::I32 => format!("*(tw_i32x4 *)({place}) = {value};"),
            DType::F32 => format!("*(tw_f32x4 *)({place}) = {value};"),
            _ => return None,
        })
    }

    /// The number of the element of the variable's lane.
    fn number(&self, buffer: BufferId, index: &[Expr]) -> Expr {
        strides(self.kernel, buffer).iter().zip(index).map(|(stride, index)| index * stride).sum()
    }

    /// Where the first lane's element lies, if the others lie behind it.
    fn place(&self, helpers: &mut Helpers, buffer: BufferId, number: &Expr) -> Option<String> {
        let by_ones = number.linear_coefficient(self.variable) == Some(1);
        let is_own = matches!(
            self.kernel.buffers[buffer].scope,
            Scope::Parameter(_) | Scope::Register | Scope::Scratch
        );
        (by_ones && is_own).then_some(())?;
        let number = match self.first {
            Some(first) => number.substitute(&mut |symbol: SymbolId| {
                (symbol == self.variable).then(|| Expr::constant(first))
            }),
            None => number.clone(),
        };
        let array = self.scalar.buffer_name(buffer);
        Some(format!("&{array}[{}]", self.scalar.element_number(helpers, buffer, &number)))
    }

    /// Whether lanes have values of their own.
    fn varies(&self, value: &ScalarExpr) -> bool {
        let mut varies = false;
        value.walk(&mut |value| match value {
            ScalarExpr::Symbol(symbol) => varies |= *symbol == self.variable,
            ScalarExpr::Fold { .. } => varies = true,
            value => {
                value.each_expression(&mut |expr| varies |= expr.contains(self.variable));
            }
        });
        varies
    }
}

/// What intrinsics for a type end in.
fn letter(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::F32 => Some("f32"),
        DType::I32 | DType::I8 | DType::I16 => Some("s32"),
        _ => None,
    }
}

/// A value as a vector.
fn vector(value: Lanes, dtype: DType) -> Option<String> {
    Some(match value {
        Lanes::Each(text) => text,
        Lanes::Same(code) if dtype == DType::F32 => format!("vdupq_n_f32({})", code.text),
        Lanes::Same(code) if letter(dtype).is_some() => {
            format!("vdupq_n_s32({})", code.at(Strength::Sum))
        }
        Lanes::Same(_) => return None,
    })
}

/// Floats as short integers; of those that are only stored in the low bits of each lane.
fn saturated(dtype: DType, value: &str, is_stored: bool) -> Option<String> {
    if !is_stored {
        let (low, high) = dtype.integer_range()?;
        let whole = format!("vcvtq_s32_f32({value})");
        return Some(format!(
            "vminq_s32(vmaxq_s32({whole}, vdupq_n_s32({low})), vdupq_n_s32({high}))"
        ));
    }
    let name = match dtype {
        DType::I8 => "tw_i8_of_f32x4",
        DType::U8 => "tw_u8_of_f32x4",
        DType::I16 => "tw_i16_of_f32x4",
        _ => return None,
    };
    Some(format!("{name}({value})"))
}
