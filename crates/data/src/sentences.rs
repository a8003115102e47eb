//! The diagnostics that several readers give, and lists of names in them.

use base::{Diagnostic, codes};

/// `` `a`, `b` ``
pub(crate) fn quoted<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let quoted = names.into_iter().map(|name| format!("`{}`", name.as_ref()));
    quoted.collect::<Vec<String>>().join(", ")
}

/// The refusal of a table, a text or JSON that makes no tensor.
#[cold]
#[inline(never)]
pub(crate) fn malformed(what: &str, place: &str, reason: impl Into<String>) -> Diagnostic {
    Diagnostic::error(codes::BAD_INPUT_FILE, format!("this is not {what} that can be read"))
        .at(place)
        .because(reason)
}

/// The refusal of elements or extents that an input does not take.
pub(crate) fn unfit(code: &'static str, message: String, place: &str) -> Diagnostic {
    Diagnostic::error(code, message).at(place)
}

#[cfg(test)]
pub(crate) mod tests {
    use tensor::{DType, Kind};
    use tilewright::{Port, PortExtent};

    /// A port from its text: `x: f32[n, 3]`.
    pub(crate) fn port(text: &str) -> Port {
        let (name, rest) = text.split_once(": ").expect("a name");
        let (dtype, rest) = rest.split_once('[').expect("extents");
        let extents = rest.trim_end_matches(']').split(", ").filter(|extent| !extent.is_empty());
        let extent = |text: &str| match text.parse() {
            Ok(extent) => PortExtent::Fixed(extent),
            Err(_) => PortExtent::Symbolic(text.to_owned()),
        };
        Port {
            name: name.to_owned(),
            dtype: DType::all().find(|known| known.name() == dtype),
            shape: extents.map(extent).collect(),
            kind: Kind::Tensor,
        }
    }
}
