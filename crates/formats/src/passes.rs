//! The passes of this crate as a table: they stand between those over graphs alone, and know the
//! machine.

use std::sync::Arc;

use backend::Target;
use base::{PassContext, PassRow, Result};
use graph::Function;
use tensor::DType;

use crate::{FormatOptions, Weigh, choose, shorten};

/// The name of format choice among those of passes.
pub const FORMATS: &str = "formats";

/// The name of shorter floats among those of passes.
pub const PRECISION: &str = "precision";

/// The name of products of integers among those of passes.
const INTEGERS: &str = "integers";

/// The name of tables of bytes among those of passes.
const TABLES: &str = "tables";

/// The name of long sums among those of passes.
const LONG_SUMS: &str = "long_sums";

/// A function on its way through the passes.
pub struct Draft<'a> {
    /// The function.
    pub function: Arc<Function>,
    /// What it is compiled for.
    pub target: &'a Target,
    /// Of format choice.
    pub options: FormatOptions,
    /// The type to which operands of products are rounded, if they are.
    pub precision: Option<DType>,
    /// What functions with formats should take, to weigh them by.
    pub weigh: Option<Weigh<'a>>,
}

impl AsRef<Function> for Draft<'_> {
    fn as_ref(&self) -> &Function {
        &self.function
    }
}

impl Draft<'_> {
    fn take(&mut self) -> Function {
        let nothing = Arc::new(Function::new(""));
        Arc::unwrap_or_clone(std::mem::replace(&mut self.function, nothing))
    }
}

/// The passes, in their order.
#[must_use]
pub fn passes<'a>() -> [PassRow<Draft<'a>>; 3] {
    [
        PassRow { name: INTEGERS, run: integers, after: &[] },
        PassRow { name: PRECISION, run: precision, after: &[INTEGERS] },
        PassRow { name: FORMATS, run: formats, after: &[INTEGERS, PRECISION] },
    ]
}

/// The passes behind those and what follows them, in their order.
#[must_use]
pub fn last_passes<'a>() -> [PassRow<Draft<'a>>; 2] {
    [
        PassRow { name: TABLES, run: tables, after: &[] },
        PassRow { name: LONG_SUMS, run: long_sums, after: &[] },
    ]
}

fn integers(draft: &mut Draft<'_>, context: &mut PassContext) -> Result<()> {
    if !context.is_disabled(FORMATS) {
        let (function, remarks) = (draft.take(), &mut context.remarks);
        let chosen = crate::integers(function, draft.target, remarks)?;
        draft.function = Arc::new(chosen);
    }
    Ok(())
}

fn precision(draft: &mut Draft<'_>, context: &mut PassContext) -> Result<()> {
    let Some(dtype) = draft.precision else { return Ok(()) };
    let (function, remarks) = (&draft.function, &mut context.remarks);
    let short = shorten(function, dtype, draft.target, &draft.options, remarks)?;
    draft.function = Arc::new(short);
    Ok(())
}

fn formats(draft: &mut Draft<'_>, context: &mut PassContext) -> Result<()> {
    let (function, remarks) = (draft.take(), &mut context.remarks);
    let Draft { target, options, weigh, .. } = &*draft;
    draft.function = Arc::new(choose(function, target, options, *weigh, remarks)?);
    Ok(())
}

fn tables(draft: &mut Draft<'_>, context: &mut PassContext) -> Result<()> {
    if !context.is_disabled(FORMATS)
        && let Some(function) = crate::tables(&draft.function, draft.target, &mut context.remarks)?
    {
        draft.function = Arc::new(function);
    }
    Ok(())
}

fn long_sums(draft: &mut Draft<'_>, context: &mut PassContext) -> Result<()> {
    if let Some(function) = crate::long_sums(&draft.function, &mut context.remarks)? {
        draft.function = Arc::new(function);
    }
    Ok(())
}
