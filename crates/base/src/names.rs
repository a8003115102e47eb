//! Ids that more than one level uses to refer to parts of a module.
//!
//! What they stand for is defined above; here are only the names, so that a graph can name a kernel
//! without knowing what one is.

crate::define_id!(
    /// A constant of a module: a weight.
    pub ConstantId,
    "c"
);
crate::define_id!(
    /// A graph function of a module.
    pub FunctionId,
    "f"
);
crate::define_id!(
    /// A kernel of a module.
    pub KernelId,
    "k"
);
crate::define_id!(
    /// A host program of a module.
    pub ProgramId,
    "p"
);
