//! Rows of the scalar function table as C expressions.

use tensor::{DType, ScalarFunction};

use crate::code::{Code, Strength};
use crate::dtype::is_short_float;
use crate::helpers::Helpers;

/// The function of some operands. A function that is none of the machine's, which kernels for a
/// back end do not have, is called by a name that nothing defines.
pub(crate) fn apply(
    helpers: &mut Helpers,
    function: ScalarFunction,
    dtype: DType,
    types: &[DType],
    operands: &[Code],
) -> Code {
    use ScalarFunction as F;
    let operand = types[0];
    match function {
        F::Select => {
            return Code::choice(&operands[0].at(Strength::Sum), &operands[1], &operands[2]);
        }
        F::Cast => return helpers.cast(operand, dtype, &operands[0]),
        F::Bitcast => return helpers.bitcast(operand, dtype, &operands[0]),
        _ => {}
    }
    if let Some(sign) = comparison(function) {
        let [a, b] = [0, 1].map(|number| helpers.as_float(types[number], &operands[number]));
        return Code::infix(&a, sign, &b, Strength::Loose);
    }
    if is_short_float(operand) {
        let wide: Vec<Code> =
            operands.iter().map(|operand_of| helpers.as_float(operand, operand_of)).collect();
        let result = apply(helpers, function, DType::F32, &[DType::F32; 3], &wide);
        return helpers.short_of_float(dtype, false, &result);
    }
    if let Some((sign, strength)) = operator(function, operand) {
        return match operands {
            [only] => Code::new(format!("{sign}{}", only.at(Strength::Primary)), strength),
            [a, b, ..] => {
                let code = Code::infix(a, sign, b, strength);
                // C computes the bits of short integers as `int`.
                match strength == Strength::Loose && dtype != DType::Bool && dtype.bits() < 32 {
                    true => helpers.wrap(dtype, &code),
                    false => code,
                }
            }
            [] => Code::primary("0"),
        };
    }
    match helpers.function(function, operand) {
        Some(name) => Code::call(&name, operands),
        None if operand.is_unsigned_integer() && function == F::Abs => operands[0].clone(),
        None => Code::call(&format!("tw_undefined_{function}"), operands),
    }
}

/// Functions that are operators of C for this type.
fn operator(function: ScalarFunction, dtype: DType) -> Option<(&'static str, Strength)> {
    use ScalarFunction as F;
    let float = dtype.is_float();
    Some(match function {
        F::Add if float => ("+", Strength::Sum),
        F::Sub if float => ("-", Strength::Sum),
        F::Mul if float => ("*", Strength::Product),
        F::Div if float => ("/", Strength::Product),
        F::Neg if float => ("-", Strength::Unary),
        F::Not if dtype == DType::Bool => ("!", Strength::Unary),
        F::And => ("&", Strength::Loose),
        F::Or => ("|", Strength::Loose),
        F::Xor => ("^", Strength::Loose),
        _ => return None,
    })
}

fn comparison(function: ScalarFunction) -> Option<&'static str> {
    use ScalarFunction as F;
    Some(match function {
        F::Eq => "==",
        F::Ne => "!=",
        F::Lt => "<",
        F::Le => "<=",
        F::Gt => ">",
        F::Ge => ">=",
        _ => return None,
    })
}
