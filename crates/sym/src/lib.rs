//! Symbolic integers in canonical form: they serve shapes and loop indices alike.
