//! Where in the user's model a thing came from.
//!
//! Every node, loop nest and step carries a [`LocationId`]; passes that merge things merge their
//! locations with [`Locations::fuse`]. Invariants: equal locations have equal ids; a fused location
//! has at least two parts and at most [`MOST_PARTS`], distinct, none of them fused or unknown;
//! [`Locations::UNKNOWN`] is there from the start. Ids are handed out in the order of first use, so
//! equal input gives equal ids.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::id::Arena;
use crate::text::{Parser, Quoted, TextError};

crate::define_id!(
    /// A location in a [`Locations`] table.
    pub LocationId,
    "l"
);

/// The most nodes that a fused location names: what is made of more is a part of the model that a
/// few of its nodes tell as well, and a table of longer and longer lists would outgrow the model.
pub const MOST_PARTS: usize = 64;

/// A place in what the user wrote.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Location {
    /// Nowhere in particular: the compiler made the thing up.
    Unknown,
    /// A node of the user's model.
    Node {
        /// The node's name; where it has none, the name of its first output.
        name: String,
        /// The operator, as the model spells it.
        operator: String,
        /// The file or source line, where the model says one.
        file: Option<String>,
    },
    /// Several nodes that became one thing; of many, the first.
    Fused(Vec<LocationId>),
}

/// All locations of a module, each once.
///
/// Passes make many copies of a table, which share it until one of them adds to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Locations {
    table: Arc<Table>,
}

#[derive(Clone, Debug, Default)]
struct Table {
    arena: Arena<LocationId, Arc<Location>>,
    /// The inverse of `arena`, by hash; where another location has the hash already, the next free
    /// number stands for it. So the table grows without a look at the locations. Looked up only,
    /// never walked, so hash order does not show.
    known: HashMap<u64, LocationId>,
    hasher: RandomState,
}

impl PartialEq for Table {
    fn eq(&self, other: &Table) -> bool {
        self.arena == other.arena
    }
}

impl Eq for Table {}

impl Default for Locations {
    fn default() -> Self {
        let mut locations = Locations { table: Arc::default() };
        locations.intern(Location::Unknown);
        locations
    }
}

impl Locations {
    /// The id of [`Location::Unknown`] in every table.
    pub const UNKNOWN: LocationId = LocationId(0);

    /// A table that knows only [`Self::UNKNOWN`].
    pub fn new() -> Self {
        Self::default()
    }

    /// The location of a node of the user's model.
    pub fn node(&mut self, name: impl Into<String>, operator: impl Into<String>) -> LocationId {
        self.intern(Location::Node { name: name.into(), operator: operator.into(), file: None })
    }

    /// The same, with the file or source line it stands in.
    pub fn node_in_file(
        &mut self,
        name: impl Into<String>,
        operator: impl Into<String>,
        file: impl Into<String>,
    ) -> LocationId {
        let (name, operator, file) = (name.into(), operator.into(), Some(file.into()));
        self.intern(Location::Node { name, operator, file })
    }

    /// The location of something made of all of `parts`, in that order, each counted once, as far
    /// as [`MOST_PARTS`] go.
    pub fn fuse(&mut self, parts: impl IntoIterator<Item = LocationId>) -> LocationId {
        let (mut nodes, mut seen) = (Vec::new(), BTreeSet::new());
        for part in parts {
            let room = MOST_PARTS - nodes.len();
            nodes.extend(self.nodes(part).filter(|&node| seen.insert(node)).take(room));
        }
        match nodes[..] {
            [] => Self::UNKNOWN,
            [only] => only,
            _ => self.intern(Location::Fused(nodes)),
        }
    }

    /// The location named `id`.
    pub fn get(&self, id: LocationId) -> &Location {
        &self.table.arena[id]
    }

    /// The node locations that `id` is made of: none if unknown, one for a node.
    pub fn nodes(&self, id: LocationId) -> impl Iterator<Item = LocationId> + '_ {
        let (single, parts) = match &*self.table.arena[id] {
            Location::Unknown => (None, &[][..]),
            Location::Node { .. } => (Some(id), &[][..]),
            Location::Fused(parts) => (None, &parts[..]),
        };
        single.into_iter().chain(parts.iter().copied())
    }

    /// The names of the nodes that `id` is made of, in order.
    pub fn names(&self, id: LocationId) -> impl Iterator<Item = &str> {
        self.nodes(id).map(|node| match &*self.table.arena[node] {
            Location::Node { name, .. } => name.as_str(),
            Location::Unknown | Location::Fused(_) => "",
        })
    }

    /// All ids, the unknown one first; parts of a fused location come before it.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = LocationId> + use<> {
        self.table.arena.ids()
    }

    /// How many locations there are.
    pub fn len(&self) -> usize {
        self.table.arena.len()
    }

    /// Never: there is always the unknown one.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// For people: `node "conv1" (Conv)`, several joined by `, `; `somewhere` if unknown.
    pub fn describe(&self, id: LocationId) -> String {
        let describe_node = |node: LocationId| match &*self.table.arena[node] {
            Location::Node { name, operator, file } => {
                let file = file.as_ref().map(|file| format!(" in {file}")).unwrap_or_default();
                format!("node {} ({operator}){file}", Quoted(name))
            }
            Location::Unknown | Location::Fused(_) => String::new(),
        };
        let nodes: Vec<String> = self.nodes(id).map(describe_node).collect();
        if nodes.is_empty() { "somewhere".to_owned() } else { nodes.join(", ") }
    }

    /// The text form, which [`parse`](Self::parse) reads: `loc("conv1", "Conv")`, with a third
    /// string for a file; `loc(fused, loc(...), loc(...))`; `loc()` if unknown.
    pub fn display(&self, id: LocationId) -> impl fmt::Display + '_ {
        LocationText { locations: self, id }
    }

    /// Reads the text form that [`display`](Self::display) prints.
    pub fn parse(&mut self, parser: &mut Parser<'_>) -> Result<LocationId, TextError> {
        parser.expect_keyword("loc")?;
        parser.expect("(")?;
        if parser.eat(")") {
            return Ok(Self::UNKNOWN);
        }
        let id = if parser.keyword("fused") {
            let mut parts = Vec::new();
            while parser.eat(",") {
                parts.push(self.parse(parser)?);
            }
            self.fuse(parts)
        } else {
            let name = parser.string()?;
            parser.expect(",")?;
            let operator = parser.string()?;
            let file = if parser.eat(",") { Some(parser.string()?) } else { None };
            self.intern(Location::Node { name, operator, file })
        };
        parser.expect(")")?;
        Ok(id)
    }

    fn intern(&mut self, location: Location) -> LocationId {
        let mut key = self.table.hasher.hash_one(&location);
        while let Some(&id) = self.table.known.get(&key) {
            if *self.table.arena[id] == location {
                return id;
            }
            key = key.wrapping_add(1);
        }
        let table = Arc::make_mut(&mut self.table);
        let id = table.arena.push(Arc::new(location));
        table.known.insert(key, id);
        id
    }
}

struct LocationText<'a> {
    locations: &'a Locations,
    id: LocationId,
}

impl fmt::Display for LocationText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.locations.table.arena[self.id] {
            Location::Unknown => f.write_str("loc()"),
            Location::Node { name, operator, file } => {
                write!(f, "loc({}, {}", Quoted(name), Quoted(operator))?;
                if let Some(file) = file {
                    write!(f, ", {}", Quoted(file))?;
                }
                f.write_str(")")
            }
            Location::Fused(parts) => {
                f.write_str("loc(fused")?;
                for &part in parts {
                    write!(f, ", {}", self.locations.display(part))?;
                }
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_locations_are_one() {
        let mut table = Locations::new();
        let conv = table.node("conv", "Conv");
        assert_eq!(table.node("conv", "Conv"), conv);
        let relu = table.node("relu", "Relu");
        let fused = table.fuse([conv, Locations::UNKNOWN, relu]);
        assert_eq!(table.fuse([fused, conv]), fused);
        assert_eq!(table.fuse([conv, conv]), conv);
        assert_eq!(table.fuse([]), Locations::UNKNOWN);
        assert_eq!(table.names(fused).collect::<Vec<_>>(), ["conv", "relu"]);
        assert_eq!(table.describe(fused), "node \"conv\" (Conv), node \"relu\" (Relu)");
    }

    #[test]
    fn of_many_parts_the_first_are_named() {
        let mut table = Locations::new();
        let nodes: Vec<_> =
            (0..2 * MOST_PARTS).map(|number| table.node(number.to_string(), "Relu")).collect();
        let all = table.fuse(nodes.iter().copied());
        assert!(table.nodes(all).eq(nodes[..MOST_PARTS].iter().copied()));
        let before = table.len();
        assert_eq!(table.fuse([all, nodes[MOST_PARTS]]), all);
        assert_eq!(table.len(), before);
    }

    #[test]
    fn text_round_trips() {
        let mut table = Locations::new();
        let conv = table.node("a \"b\"\n", "Conv");
        let relu = table.node_in_file("relu", "Relu", "model.py:3");
        let fused = table.fuse([conv, relu]);
        for id in [Locations::UNKNOWN, conv, relu, fused] {
            let text = table.display(id).to_string();
            let mut other = Locations::new();
            let read = other.parse(&mut Parser::new(&text)).unwrap();
            assert_eq!(other.display(read).to_string(), text);
            assert_eq!(table.parse(&mut Parser::new(&text)), Ok(id));
        }
    }
}
