//! Values, conditions and elements of a kernel as C expressions.

use loops::{BufferId, Comparison, Condition, Kernel, Ranges, ScalarExpr, Scope};
use sym::{Expr, SymbolId};
use tensor::{DType, ScalarFunction};

use crate::code::{Code, Strength};
use crate::dtype;
use crate::helpers::Helpers;
use crate::index::IndexContext;
use crate::scalar::apply;

/// A place in a kernel: how things are called and what is known of symbols.
pub(crate) struct ValueContext<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) symbols: &'a [String],
    pub(crate) buffers: &'a [String],
    pub(crate) ranges: &'a Ranges,
}

impl ValueContext<'_> {
    fn name(&self, symbol: SymbolId) -> String {
        self.symbols[base::Id::index(symbol)].clone()
    }

    /// What a buffer is called.
    pub(crate) fn buffer_name(&self, buffer: BufferId) -> &str {
        &self.buffers[base::Id::index(buffer)]
    }

    /// An index expression, its constants marked.
    pub(crate) fn index(&self, helpers: &mut Helpers, expr: &Expr, tight: bool) -> String {
        self.index_text(helpers, expr, tight, true)
    }

    /// The number of an element of a buffer. Constants are not marked of the numbers of registers,
    /// which are to stay constants.
    pub(crate) fn element_number(
        &self,
        helpers: &mut Helpers,
        buffer: BufferId,
        number: &Expr,
    ) -> String {
        let is_parameter = matches!(self.kernel.buffers[buffer].scope, Scope::Parameter(_));
        self.index_text(helpers, number, false, is_parameter)
    }

    fn index_text(&self, helpers: &mut Helpers, expr: &Expr, tight: bool, marks: bool) -> String {
        let context = IndexContext {
            name: &|symbol| self.name(symbol),
            range: &|symbol| self.ranges.of(symbol),
            is_place: true,
            marks,
        };
        context.text(helpers, &self.ranges.simplify(expr), tight)
    }

    /// An index expression as a value of 64 bits, which the sum itself may need.
    fn wide_index(&self, helpers: &mut Helpers, expr: &Expr) -> Code {
        let context = IndexContext {
            name: &|symbol| format!("(int64_t){}", self.name(symbol)),
            range: &|symbol| self.ranges.of(symbol),
            is_place: false,
            marks: false,
        };
        let text = context.text(helpers, &self.ranges.simplify(expr), false);
        Code::new(text, Strength::Loose)
    }

    /// The number of an element, counted from the first of the buffer; axes that the index leaves
    /// out count as 0.
    pub(crate) fn number(&self, buffer: BufferId, index: &[Expr]) -> Expr {
        strides(self.kernel, buffer).iter().zip(index).map(|(stride, index)| index * stride).sum()
    }

    /// The array and the number of an element as C.
    pub(crate) fn element(
        &self,
        helpers: &mut Helpers,
        buffer: BufferId,
        index: &[Expr],
    ) -> (String, String) {
        let number = self.number(buffer, index);
        let number = self.element_number(helpers, buffer, &number);
        (self.buffers[base::Id::index(buffer)].clone(), number)
    }

    /// A conjunction, which may stand in front of `?` or within `if`.
    pub(crate) fn conditions(&self, helpers: &mut Helpers, conditions: &[Condition]) -> String {
        let mut texts = Vec::new();
        for condition in conditions {
            let sign = match condition.comparison {
                Comparison::Less => "<",
                Comparison::LessEqual => "<=",
                Comparison::Equal => "==",
                Comparison::NotEqual => "!=",
            };
            let left = self.index(helpers, &condition.left, false);
            let right = self.index(helpers, &condition.right, false);
            texts.push(format!("{left} {sign} {right}"));
        }
        match texts.is_empty() {
            true => "1".to_owned(),
            false => texts.join(" && "),
        }
    }

    /// The type of a value; kernels that the verifier accepts have no values without.
    pub(crate) fn dtype(&self, value: &ScalarExpr) -> DType {
        value.dtype(self.kernel).unwrap_or(DType::F32)
    }

    /// A value.
    pub(crate) fn value(&self, helpers: &mut Helpers, value: &ScalarExpr) -> Code {
        match value {
            ScalarExpr::Constant(scalar) => Code::number(dtype::constant(helpers, *scalar)),
            ScalarExpr::Symbol(symbol) => Code::primary(self.name(*symbol)),
            ScalarExpr::Index(expr) => self.wide_index(helpers, expr),
            ScalarExpr::Load { buffer, index } => {
                let (array, number) = self.element(helpers, *buffer, index);
                let dtype = self.kernel.buffers[*buffer].dtype;
                Code::primary(helpers.load(dtype, &array, &number))
            }
            ScalarExpr::Apply { function: ScalarFunction::Cast, dtype, arguments }
                if let Some(rounded) = Rounded::of(self, *dtype, &arguments[0]) =>
            {
                let own = self.value(helpers, rounded.value);
                let mut value = Code::call(&helpers.round_within_short(), &[own]);
                if let Some(offset) = rounded.offset {
                    let offset = self.value(helpers, offset);
                    value = Code::infix(&value, "+", &offset, Strength::Sum);
                }
                helpers.cast(DType::F32, *dtype, &value)
            }
            ScalarExpr::Apply { function, dtype, arguments } => {
                let types: Vec<DType> = arguments.iter().map(|each| self.dtype(each)).collect();
                let operands: Vec<Code> =
                    arguments.iter().map(|argument| self.value(helpers, argument)).collect();
                apply(helpers, *function, *dtype, &types, &operands)
            }
            ScalarExpr::Guard { conditions, value, otherwise } => {
                let test = self.conditions(helpers, conditions);
                // What is known where a value stands helps to write its indices.
                let mut ranges = self.ranges.clone();
                ranges.assume(conditions);
                let inside = ValueContext { ranges: &ranges, ..*self };
                let value = inside.value(helpers, value);
                Code::choice(&test, &value, &self.value(helpers, otherwise))
            }
            ScalarExpr::Fold { reduction, buffer, index } => {
                let (array, number) = self.element(helpers, *buffer, index);
                let data = &self.kernel.buffers[*buffer];
                let extent = data.shape.last().and_then(Expr::as_constant).unwrap_or(1);
                let fold = helpers.fold(*reduction, data.dtype, extent);
                let step = strides(self.kernel, *buffer).pop().unwrap_or(Expr::ONE);
                let step = self.element_number(helpers, *buffer, &step);
                Code::primary(format!("{fold}({array}, {number}, {step})"))
            }
        }
    }
}

/// A rounded float, perhaps with a whole number added, that becomes an integer of at most 16 bits:
/// what is beyond these saturates however it is rounded.
pub(crate) struct Rounded<'a> {
    pub(crate) value: &'a ScalarExpr,
    pub(crate) offset: Option<&'a ScalarExpr>,
}

impl<'a> Rounded<'a> {
    pub(crate) fn of(
        context: &ValueContext<'_>,
        dtype: DType,
        cast: &'a ScalarExpr,
    ) -> Option<Rounded<'a>> {
        use ScalarFunction as F;
        let is_short = dtype.is_integer() && matches!(dtype.bits(), 8 | 16);
        let is_float = context.dtype(cast) == DType::F32;
        let ScalarExpr::Apply { function, arguments, .. } = cast else { return None };
        let (rounded, offset) = match (function, &arguments[..]) {
            _ if !is_short || !is_float => return None,
            (F::Round, _) => (cast, None),
            (F::Add, [rounded, offset @ ScalarExpr::Constant(scalar)])
                if scalar.as_f64().abs() <= 65536.0 =>
            {
                (rounded, Some(offset))
            }
            _ => return None,
        };
        match rounded {
            ScalarExpr::Apply { function: F::Round, arguments, .. } => {
                Some(Rounded { value: &arguments[0], offset })
            }
            _ => None,
        }
    }
}

/// Elements from one index to the next along each axis of a buffer.
pub(crate) fn strides(kernel: &Kernel, buffer: BufferId) -> Vec<Expr> {
    let data = &kernel.buffers[buffer];
    if let Some(strides) = &data.strides {
        return strides.clone();
    }
    let mut strides = vec![Expr::ONE; data.shape.len()];
    for axis in (1..strides.len()).rev() {
        strides[axis - 1] = &strides[axis] * &data.shape[axis];
    }
    strides
}
