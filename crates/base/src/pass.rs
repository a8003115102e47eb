//! The pass table: a pass is a function on one IR, named in a row.
//!
//! Passes know nothing of timing, printing or verifying: [`run_passes`] calls the driver's hooks
//! before and after each. Invariant: a pass stands behind every pass it names in `after`.

use crate::codes;
use crate::diagnostic::{Diagnostic, Diagnostics, Result};
use crate::remark::Remark;

/// One row of a pass table.
pub struct PassRow<Ir> {
    /// The name users disable, print and time it by.
    pub name: &'static str,
    /// The pass.
    pub run: fn(&mut Ir, &mut PassContext) -> Result<()>,
    /// The passes that must stand earlier in the same table.
    pub after: &'static [&'static str],
}

/// What passes may read and add to, besides their IR.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PassContext {
    /// Names given with `--disable`: whole passes, or parts that a pass asks about.
    pub disabled: Vec<String>,
    /// Decisions worth explaining, in the order made.
    pub remarks: Vec<Remark>,
    /// Warnings and notes for the user; errors are returned instead.
    pub diagnostics: Diagnostics,
}

impl PassContext {
    /// Whether the user disabled this pass, or this part of one.
    pub fn is_disabled(&self, name: &str) -> bool {
        self.disabled.iter().any(|disabled| disabled == name)
    }
}

/// What the driver does around each pass: time, print, verify. By default it does nothing more.
pub trait PassHooks<Ir> {
    /// Runs a pass, once.
    fn around(&mut self, name: &'static str, pass: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let _ = name;
        pass()
    }

    /// Called after a pass has run; an error stops the pipeline.
    fn after(&mut self, name: &'static str, ir: &Ir) -> Result<()> {
        let _ = (name, ir);
        Ok(())
    }
}

/// No hooks.
impl<Ir> PassHooks<Ir> for () {}

/// Runs the passes of `table` in order, those not disabled, with the driver's hooks around each.
pub fn run_passes<Ir>(
    table: &[PassRow<Ir>],
    ir: &mut Ir,
    context: &mut PassContext,
    hooks: &mut dyn PassHooks<Ir>,
) -> Result<()> {
    check_table(table)?;
    for row in table {
        if context.is_disabled(row.name) {
            continue;
        }
        hooks.around(row.name, &mut || (row.run)(ir, context))?;
        hooks.after(row.name, ir)?;
    }
    Ok(())
}

/// Checks the order and the names of a table; each table's crate tests it.
pub fn check_table<Ir>(table: &[PassRow<Ir>]) -> Result<()> {
    let mut found = Diagnostics::new();
    for (index, row) in table.iter().enumerate() {
        let earlier = &table[..index];
        if earlier.iter().any(|other| other.name == row.name) {
            let message = format!("pass `{}` stands in the table twice", row.name);
            found.push(Diagnostic::error(codes::INTERNAL_ERROR, message));
        }
        for needed in row.after {
            if !earlier.iter().any(|other| other.name == *needed) {
                let message = format!("pass `{}` needs `{needed}` before it", row.name);
                found.push(Diagnostic::error(codes::INTERNAL_ERROR, message));
            }
        }
    }
    found.or_ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::Locations;

    fn double(ir: &mut i32, _: &mut PassContext) -> Result<()> {
        *ir *= 2;
        Ok(())
    }

    fn increment(ir: &mut i32, context: &mut PassContext) -> Result<()> {
        *ir += 1;
        context
            .remarks
            .push(Remark { location: Locations::UNKNOWN, message: "added one".to_owned() });
        Ok(())
    }

    const DOUBLE: PassRow<i32> = PassRow { name: "double", run: double, after: &[] };
    const INCREMENT: PassRow<i32> =
        PassRow { name: "increment", run: increment, after: &["double"] };

    #[derive(Default)]
    struct Seen(Vec<(&'static str, i32)>);

    impl PassHooks<i32> for Seen {
        fn after(&mut self, name: &'static str, ir: &i32) -> Result<()> {
            self.0.push((name, *ir));
            Ok(())
        }
    }

    #[test]
    fn runs_in_order_with_hooks() {
        let (mut ir, mut context, mut seen) = (3, PassContext::default(), Seen::default());
        run_passes(&[DOUBLE, INCREMENT], &mut ir, &mut context, &mut seen).unwrap();
        assert_eq!(seen.0, [("double", 6), ("increment", 7)]);
        assert_eq!(context.remarks.len(), 1);
    }

    #[test]
    fn skips_the_disabled() {
        let mut ir = 3;
        let mut context = PassContext { disabled: vec!["double".into()], ..Default::default() };
        run_passes(&[DOUBLE, INCREMENT], &mut ir, &mut context, &mut ()).unwrap();
        assert_eq!(ir, 4);
    }

    #[test]
    fn refuses_a_table_out_of_order() {
        let error = check_table(&[INCREMENT, DOUBLE, DOUBLE]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "error[TW0901]: pass `increment` needs `double` before it\n\
             error[TW0901]: pass `double` stands in the table twice"
        );
    }
}
