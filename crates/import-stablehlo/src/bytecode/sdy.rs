//! The dialect of shardings in bytecode: its attributes become what the text form writes.
//!
//! Source: Shardy's `bytecode.td` for the codes and what follows each.

use front::Accepted;

use super::attributes::Pool;
use super::reader::{Reader, damaged};
use crate::syntax::Attribute;

/// Operations with attributes, and these in the order in which they lie in files.
const ATTRIBUTES: &[(&str, &[&str])] = &[
    ("manual_computation", &["in_shardings", "manual_axes", "out_shardings"]),
    ("mesh", &["mesh", "sym_name"]),
    ("sharding_constraint", &["sharding"]),
];

/// The names of an operation's attributes.
pub(super) fn attribute_names(name: &str) -> Option<&'static [&'static str]> {
    ATTRIBUTES.iter().find(|(own, _)| *own == name).map(|(_, names)| *names)
}

impl<'b> Pool<'b> {
    /// An attribute as text; one that means nothing here keeps the place of what it is.
    // Attributes nest: what one level takes of the stack is kept small.
    #[inline(never)]
    pub(super) fn sdy_attribute(
        &mut self,
        code: u64,
        reader: &mut Reader<'b>,
    ) -> Accepted<Attribute> {
        Ok(Attribute::Word(match code {
            0 => {
                let names = self.children(reader)?;
                let names = names.iter().filter_map(Attribute::word);
                let names: Vec<String> = names.map(|name| format!("{name:?}")).collect();
                format!("#sdy<manual_axes{{{}}}>", names.join(", "))
            }
            1 => format!("{:?}={}", self.text(reader)?, reader.signed()?),
            2 => {
                let axes = self.words(reader)?;
                let order = reader.signed_list()?;
                match order.is_empty() {
                    true => format!("#sdy.mesh<[{axes}]>"),
                    false => format!("#sdy.mesh<[{axes}], device_ids={order:?}>"),
                }
            }
            3 => format!("({}){}", reader.signed()?, reader.signed()?),
            4 => {
                let name = self.text(reader)?;
                match self.optional(reader)? {
                    Some(Attribute::Word(part)) => format!("{name:?}:{part}"),
                    _ => format!("{name:?}"),
                }
            }
            5 => {
                let axes = self.words(reader)?;
                let is_closed = reader.byte()? != 0;
                reader.flagged()?;
                match (is_closed, axes.is_empty()) {
                    (true, _) => format!("{{{axes}}}"),
                    (false, true) => "{?}".to_owned(),
                    (false, false) => format!("{{{axes}, ?}}"),
                }
            }
            6 => {
                let mesh = match self.child(reader)? {
                    Attribute::Symbol(name) => format!("@{name:?}"),
                    Attribute::Word(mesh) => mesh.replacen("#sdy.", "", 1),
                    _ => return Err(damaged("a sharding has no mesh")),
                };
                format!("#sdy.sharding<{mesh}, [{}]>", self.words(reader)?)
            }
            7 => {
                let shardings = self.words(reader)?;
                let shardings = shardings.replace("#sdy.sharding<", "<");
                format!("#sdy.sharding_per_value<[{shardings}]>")
            }
            code => format!("attribute {code} of sdy"),
        }))
    }

    /// Attributes that are words, behind each other.
    fn words(&mut self, reader: &mut Reader<'b>) -> Accepted<String> {
        let mut words = Vec::new();
        for child in self.children(reader)? {
            match child {
                Attribute::Word(word) => words.push(word),
                _ => return Err(damaged("a sharding holds what is none of it")),
            }
        }
        Ok(words.join(", "))
    }
}
