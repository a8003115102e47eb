//! Bits of an integer that were taken apart and are put together where they were.
//!
//! before: `or(and(shr(x, 0), 15), shl(and(shr(x, 4), 15), 4))` of unsigned bytes
//! after:  `x`

use loops::visit::walk_values_mut;
use loops::{Kernel, ScalarExpr, Stmt};
use tensor::{DType, ScalarFunction};

/// Some bits of an integer, which may have been moved.
struct Bits<'e> {
    source: &'e ScalarExpr,
    /// The places up by which they were moved.
    up: i64,
    /// Those of the result that are of the source; all others are 0.
    kept: u64,
}

/// Has each integer of a block that consists of all bits of another be that.
pub(super) fn put_together(block: &mut [Stmt], kernel: &Kernel) {
    walk_values_mut(block, &mut |value| {
        if let Some(source) = whole(value, kernel) {
            *value = source.clone();
        }
    });
}

/// The integer that a value consists of, if it puts all bits of one together again.
pub(super) fn whole<'e>(value: &'e ScalarExpr, kernel: &Kernel) -> Option<&'e ScalarExpr> {
    let ScalarExpr::Apply { function: ScalarFunction::Or, dtype, .. } = value else { return None };
    let found = bits(value, kernel)?;
    let is_all = found.up == 0 && found.kept == all(*dtype)?;
    (is_all && found.source.dtype(kernel) == Some(*dtype)).then_some(found.source)
}

/// All bits of an integer of at most 32 bits.
fn all(dtype: DType) -> Option<u64> {
    let fits = dtype.is_integer() && dtype.bits() <= 32;
    fits.then(|| (1 << dtype.bits()) - 1)
}

fn bits<'e>(value: &'e ScalarExpr, kernel: &Kernel) -> Option<Bits<'e>> {
    let ScalarExpr::Apply { function, dtype, arguments } = value else {
        return Some(Bits { source: value, up: 0, kept: all(value.dtype(kernel)?)? });
    };
    let all = all(*dtype)?;
    let first = bits(arguments.first()?, kernel)?;
    let by = |most: u64| constant(arguments.get(1)?).filter(|&by| by <= most);
    match function {
        ScalarFunction::And => Some(Bits { kept: first.kept & by(all)?, ..first }),
        ScalarFunction::Shr if !dtype.is_signed_integer() => {
            let by = by(31)?;
            Some(Bits { up: first.up - by as i64, kept: first.kept >> by, ..first })
        }
        ScalarFunction::Shl => {
            let by = by(31)?;
            Some(Bits { up: first.up + by as i64, kept: first.kept << by & all, ..first })
        }
        // Numbers that both types have.
        ScalarFunction::Cast => {
            let sign = if dtype.is_signed_integer() { all ^ all >> 1 } else { 0 };
            let from = arguments[0].dtype(kernel)?;
            let alike = from.bits() == dtype.bits() && first.kept & sign == 0;
            let positive = !from.is_signed_integer() || first.kept & (all ^ all >> 1) == 0;
            (alike && positive).then_some(first)
        }
        ScalarFunction::Or => {
            let second = bits(arguments.get(1)?, kernel)?;
            let alike = first.source == second.source && first.up == second.up;
            alike.then_some(Bits { kept: first.kept | second.kept, ..first })
        }
        _ => None,
    }
}

fn constant(value: &ScalarExpr) -> Option<u64> {
    let ScalarExpr::Constant(scalar) = value else { return None };
    let number = scalar.as_f64();
    (number >= 0.0 && number <= f64::from(u32::MAX)).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::whole;

    /// What is stored of bytes `a` and `b`, and the bytes that it is, if it is some.
    fn check(value: &str, wanted: Option<&str>) {
        let text = |value: &str| {
            format!(
                "kernel @bits(%a: read u8[4], %b: read u8[4], %c: write u8[4]) {{
                   for i < 4 {{ %c[i] = {value} }}
                 }}"
            )
        };
        let parsed = |value: &str| loops::parse(&text(value)).expect("a kernel");
        let stored = |kernel: &loops::Kernel| {
            let mut found = None;
            loops::visit::walk(&kernel.body, &mut |stmt| {
                if let loops::Stmt::Store { value, .. } = stmt {
                    found = Some(value.clone());
                }
            });
            found.expect("a store")
        };
        let kernel = parsed(value);
        let wanted = wanted.map(|wanted| stored(&parsed(wanted)));
        assert_eq!(whole(&stored(&kernel), &kernel), wanted.as_ref(), "{value}");
    }

    #[test]
    fn bits_that_go_back_are_what_they_were() {
        let low = "and(shr(%a[i], 0u8), 15u8)";
        let high = "shl(and(shr(%a[i], 4u8), 15u8), 4u8)";
        check(&format!("or({low}, {high})"), Some("%a[i]"));
        check(&format!("or({high}, {low})"), Some("%a[i]"));
        let signed = format!("or(cast<u8>(cast<i8>({low})), {high})");
        check(&signed, Some("%a[i]"));
        check("or(and(%a[i], 240u8), and(%a[i], 31u8))", Some("%a[i]"));
    }

    #[test]
    fn other_bits_stay() {
        let low = "and(%a[i], 15u8)";
        for other in [
            // Of another byte, in another place, too few.
            "shl(and(shr(%b[i], 4u8), 15u8), 4u8)",
            "and(shr(%a[i], 4u8), 15u8)",
            "shl(and(shr(%a[i], 4u8), 7u8), 4u8)",
            "shl(and(shr(%a[3 - i], 4u8), 15u8), 4u8)",
            "shl(%a[i], 4u8)",
        ] {
            check(&format!("or({low}, {other})"), None);
        }
        check("and(%a[i], 255u8)", None);
        check("or(cast<u8>(cast<i8>(%a[i])), 0u8)", None);
    }
}
