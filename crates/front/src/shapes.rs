//! Inputs in the shapes that are known of them.

use std::collections::{BTreeMap, BTreeSet};

use base::remedies::use_instead;
use base::{Diagnostic, Diagnostics, IntoTree, Result, codes};

use crate::import::ImportOptions;
use crate::port::{Port, PortExtent};

/// Inputs in the shapes that are known of them: by the extents that the user gives by name, or by
/// shapes of inputs; `known` are shapes of components of inputs, as facts tell them.
///
/// # Errors
/// `TW0206` for a name that no dimension has, `TW0202` for one that no input has, `TW0204` for
/// shapes that are not the declared ones.
pub fn with_shapes(
    ports: Vec<Port>,
    options: &ImportOptions,
    known: &BTreeMap<String, Vec<i64>>,
) -> Result<Vec<Port>> {
    let mut bound = options.dims.clone();
    let mut found = Diagnostics::new();
    let names: BTreeSet<&str> = ports.iter().flat_map(Port::free_extents).into_set();
    for (name, extent) in options.dims.iter().filter(|(name, _)| !names.contains(name.as_str())) {
        let known: Vec<&str> = names.iter().copied().collect();
        found.push(
            Diagnostic::error(codes::UNKNOWN_DIMENSION, format!("no dimension is named `{name}`"))
                .at(format!("--dim {name}={extent}"))
                .because(match known.is_empty() {
                    true => "all dimensions of the model are fixed".to_owned(),
                    false => format!("the model's named dimensions are: {}", known.join(", ")),
                })
                .remedy(match known.is_empty() {
                    true => "leave it out".to_owned(),
                    false => use_instead(name, known, |near| format!("--dim {near}={extent}")),
                }),
        );
    }
    let inputs: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    for name in options.input_shapes.keys().filter(|name| !inputs.contains(&name.as_str())) {
        found.push(
            Diagnostic::error(codes::UNKNOWN_INPUT, format!("no input is named `{name}`"))
                .at(format!("the shape given for `{name}`"))
                .because(format!("the model's inputs are: {}", inputs.join(", ")))
                .remedy(use_instead(name, inputs.iter().copied(), str::to_owned)),
        );
    }
    let mut shaped = ports.clone();
    for port in &mut shaped {
        let components = port.kind.component_names(&port.name);
        let shapes = [&options.input_shapes, known];
        let given =
            shapes.into_iter().flat_map(|them| components.iter().filter_map(|it| them.get(it)));
        for given in given {
            let extent = |&it: &i64| usize::try_from(it).ok().map(PortExtent::Fixed);
            let outcome = match given.iter().map(extent).collect::<Option<Vec<PortExtent>>>() {
                None => Err(format!("an extent of {given:?} is negative")),
                Some(shape) if port.shape.contains(&PortExtent::Any) => {
                    port.shape = shape;
                    Ok(())
                }
                Some(_) => bind_shape(&port.shape, given, &mut bound),
            };
            if let Err(reason) = outcome {
                found.push(port.wrong_shape(given, reason));
            }
        }
    }
    for (name, extent) in bound.iter().filter(|(_, extent)| **extent < 0) {
        found.push(
            Diagnostic::error(codes::WRONG_SHAPE, format!("dimension `{name}` cannot be {extent}"))
                .at(format!("--dim {name}={extent}"))
                .because("an extent is not negative")
                .remedy("give 0 or more"),
        );
    }
    found.or_ok(shaped.into_iter().map(|port| port.with_extents(&bound)).collect())
}

/// Gives names of extents the values that they have in a shape.
///
/// # Errors
/// The axis that does not fit, and both extents.
pub(crate) fn bind_shape(
    shape: &[PortExtent],
    given: &[i64],
    bound: &mut BTreeMap<String, i64>,
) -> std::result::Result<(), String> {
    if shape.len() != given.len() {
        return Err(format!("it has {} axes, where {} are declared", given.len(), shape.len()));
    }
    for (axis, (extent, &given)) in shape.iter().zip(given).enumerate() {
        match extent {
            PortExtent::Fixed(expected) if *expected as i64 != given => {
                return Err(format!(
                    "axis {axis} has extent {given}, where {expected} is declared"
                ));
            }
            PortExtent::Symbolic(name) => {
                let expected = *bound.entry(name.clone()).or_insert(given);
                if expected != given {
                    return Err(format!(
                        "axis {axis} has extent {given}, but `{name}` is {expected} elsewhere"
                    ));
                }
            }
            PortExtent::Fixed(_) | PortExtent::Any => {}
        }
    }
    Ok(())
}
