//! How values are split among devices: the shardings of the dialect `sdy`, by their texts.
//!
//! A mesh arranges devices along named axes; a sharding names, for each axis of a tensor, the axes
//! of a mesh along which it is cut, the outermost first. What is cut along none is whole on every
//! device.

use base::{Diagnostic, codes};
use front::Accepted;

use crate::syntax::{Attribute, Attributes, Program};
use crate::text::{Cursor, Parsed};

/// An arrangement of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mesh {
    /// Names and extents, outermost first.
    axes: Vec<(String, usize)>,
    /// The devices' numbers, row by row; empty where they stand in order.
    order: Vec<usize>,
}

/// A part of a mesh's axis: `size` neighbouring blocks within each of `before` blocks of it.
#[derive(Clone, Debug)]
struct MeshAxis {
    name: String,
    /// None for the whole axis.
    part: Option<(usize, usize)>,
}

/// How a tensor is split.
#[derive(Clone, Debug)]
pub(crate) struct Sharding {
    pub(crate) mesh: Mesh,
    axes: Vec<Vec<MeshAxis>>,
}

/// How the values of a port are split among devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSplit {
    /// Into how many parts each axis is cut.
    pub counts: Vec<usize>,
    /// Of each device, which part along each axis it holds.
    pub places: Vec<Vec<usize>>,
}

impl PortSplit {
    /// Whole on so many devices.
    pub(crate) fn whole(rank: usize, devices: usize) -> PortSplit {
        PortSplit { counts: vec![1; rank], places: vec![vec![0; rank]; devices] }
    }
}

impl Mesh {
    pub(crate) fn devices(&self) -> usize {
        self.axes.iter().map(|(_, extent)| extent).product()
    }

    /// The mesh without its arrangement: so many devices in order.
    pub(crate) fn line(devices: usize) -> Mesh {
        Mesh { axes: vec![(String::new(), devices)], order: Vec::new() }
    }

    /// Where a device stands along an axis, and the axis's extent.
    fn coordinate(&self, device: usize, name: &str) -> Option<(usize, usize)> {
        let place = match self.order.is_empty() {
            true => device,
            false => self.order.iter().position(|&other| other == device)?,
        };
        let mut inside = self.devices();
        for (own, extent) in &self.axes {
            inside /= extent;
            if own == name {
                return Some((place / inside % extent, *extent));
            }
        }
        None
    }

    /// The devices that stand first along all axes but these, and for each device the place among
    /// them of the one that stands where it does along these.
    pub(crate) fn along(&self, axes: &[String]) -> (Vec<usize>, Vec<usize>) {
        let coordinates = |device: usize| -> Vec<usize> {
            let along = self.axes.iter().filter(|(name, _)| axes.contains(name));
            along.map(|(name, _)| self.coordinate(device, name).map_or(0, |it| it.0)).collect()
        };
        let is_first = |device: &usize| {
            let others = self.axes.iter().filter(|(name, _)| !axes.contains(name));
            others.into_iter().all(|(name, _)| {
                self.coordinate(*device, name).is_none_or(|(coordinate, _)| coordinate == 0)
            })
        };
        let members: Vec<usize> = (0..self.devices()).filter(is_first).collect();
        let alike = |device: usize| {
            let own = coordinates(device);
            members.iter().position(|&member| coordinates(member) == own).unwrap_or(0)
        };
        let places = (0..self.devices()).map(alike).collect();
        (members, places)
    }
}

impl Sharding {
    pub(crate) fn rank(&self) -> usize {
        self.axes.len()
    }

    /// Along each axis of the tensor the part that a device holds, and how many there are, as far
    /// as these axes of the mesh cut it; all of them if none are given.
    pub(crate) fn places(&self, device: usize, along: Option<&[String]>) -> Vec<(usize, usize)> {
        let place = |axes: &Vec<MeshAxis>| {
            let mut found = (0, 1);
            for MeshAxis { name, part } in axes {
                if along.is_some_and(|along| !along.contains(name)) {
                    continue;
                }
                let Some((coordinate, extent)) = self.mesh.coordinate(device, name) else {
                    continue;
                };
                let (before, size) = part.unwrap_or((1, extent));
                let inside = extent / (before * size).max(1);
                let digit = coordinate / inside.max(1) % size.max(1);
                found = (found.0 * size + digit, found.1 * size);
            }
            found
        };
        self.axes.iter().map(place).collect()
    }

    /// As callers see it, for so many devices.
    fn split(&self, devices: usize) -> PortSplit {
        let places: Vec<Vec<(usize, usize)>> =
            (0..devices).map(|device| self.places(device, None)).collect();
        let counts = places.first().map_or(Vec::new(), |it| it.iter().map(|it| it.1).collect());
        let places = places.iter().map(|it| it.iter().map(|it| it.0).collect()).collect();
        PortSplit { counts, places }
    }
}

/// How a port is split that has these attributes.
pub(crate) fn port_split(
    program: &Program,
    attributes: Option<&Attributes>,
    rank: usize,
    devices: usize,
) -> Accepted<PortSplit> {
    let text = attributes.and_then(|it| Attribute::of(it, "sdy.sharding")?.word());
    let Some(text) = text else { return Ok(PortSplit::whole(rank, devices)) };
    let sharding = read(program, text, |reader| reader.sharding())?;
    let fits = sharding.rank() == rank && sharding.mesh.devices() <= devices;
    if !fits {
        return Err(refused(text, "it is of another rank, or of more devices than there are"));
    }
    match sharding.mesh.devices() == devices {
        true => Ok(sharding.split(devices)),
        false => Ok(PortSplit::whole(rank, devices)),
    }
}

/// The shardings of several values: `#sdy.sharding_per_value<[<@mesh, [{"x"}]>]>`.
pub(crate) fn per_value(program: &Program, text: &str) -> Accepted<Vec<Sharding>> {
    read(program, text, |reader| {
        let mut found = Vec::new();
        reader.cursor.expect("[")?;
        while !reader.cursor.sees("]") {
            reader.cursor.expect("<")?;
            found.push(reader.sharding()?);
            if !reader.cursor.eat(",") {
                break;
            }
        }
        reader.cursor.expect("]")?;
        Ok(found)
    })
}

/// The names of axes: `#sdy<manual_axes{"x", "y"}>`.
pub(crate) fn axis_names(program: &Program, text: &str) -> Accepted<Vec<String>> {
    read(program, text, |reader| {
        reader.cursor.word();
        let mut names = Vec::new();
        reader.cursor.expect("{")?;
        while !reader.cursor.sees("}") {
            names.push(reader.cursor.string()?);
            if !reader.cursor.eat(",") {
                break;
            }
        }
        Ok(names)
    })
}

/// Reads an attribute's text, the name and bracket in front passed over.
fn read<'t, T>(
    program: &'t Program,
    text: &'t str,
    read: impl FnOnce(&mut Reader<'t>) -> Parsed<T>,
) -> Accepted<T> {
    let inside = match text.split_once('<') {
        Some((front, inside)) if front.starts_with('#') || front.is_empty() => inside,
        _ => text,
    };
    let mut reader = Reader { program, cursor: Cursor::new(inside) };
    read(&mut reader).map_err(|fault| refused(text, &fault.reason))
}

fn refused(text: &str, reason: &str) -> Diagnostic {
    let text: String = text.chars().take(80).collect();
    Diagnostic::error(codes::BAD_ATTRIBUTE, format!("the sharding `{text}` is not as it must be"))
        .because(reason)
        .remedy("write the program anew")
}

struct Reader<'t> {
    program: &'t Program,
    cursor: Cursor<'t>,
}

impl Reader<'_> {
    /// `["x"=2, "y"=4], device_ids=[1, 0]>`, the bracket in front read already.
    fn mesh(&mut self) -> Parsed<Mesh> {
        let (mut axes, mut order) = (Vec::new(), Vec::new());
        self.cursor.expect("[")?;
        while !self.cursor.sees("]") {
            let name = self.cursor.string()?;
            self.cursor.expect("=")?;
            axes.push((name, self.count()?));
            if !self.cursor.eat(",") {
                break;
            }
        }
        self.cursor.expect("]")?;
        if self.cursor.eat(",") {
            self.cursor.expect("device_ids")?;
            self.cursor.expect("=")?;
            self.cursor.expect("[")?;
            while !self.cursor.sees("]") {
                order.push(self.count()?);
                if !self.cursor.eat(",") {
                    break;
                }
            }
            self.cursor.expect("]")?;
        }
        self.cursor.expect(">")?;
        Ok(Mesh { axes, order })
    }

    fn count(&mut self) -> Parsed<usize> {
        let number = self.cursor.integer()?;
        match usize::try_from(number).ok().filter(|number| *number < 1 << 20) {
            Some(number) => Ok(number),
            None => self.cursor.fault(format!("{number} is no number of devices")),
        }
    }

    /// `@mesh, [{"x", "y":(1)2}, {}]>`, the bracket in front read already.
    fn sharding(&mut self) -> Parsed<Sharding> {
        let mesh = if self.cursor.peek() == b'@' {
            let name = self.cursor.symbol()?;
            let Some(text) = self.program.meshes.get(&name) else {
                return self.cursor.fault(format!("there is no mesh `@{name}`"));
            };
            let inside = text.split_once('<').map_or("", |(_, inside)| inside);
            Reader { program: self.program, cursor: Cursor::new(inside) }.mesh()?
        } else {
            self.cursor.expect("mesh")?;
            self.cursor.expect("<")?;
            self.mesh()?
        };
        self.cursor.expect(",")?;
        self.cursor.expect("[")?;
        let mut axes = Vec::new();
        while !self.cursor.sees("]") {
            self.cursor.expect("{")?;
            let mut own = Vec::new();
            while !self.cursor.sees("}") {
                if !self.cursor.eat("?") {
                    own.push(self.mesh_axis()?);
                }
                if !self.cursor.eat(",") {
                    break;
                }
            }
            self.cursor.expect("}")?;
            // A priority of how it spreads means nothing here.
            self.cursor.word();
            axes.push(own);
            if !self.cursor.eat(",") {
                break;
            }
        }
        self.cursor.expect("]")?;
        self.cursor.skip_balanced()?;
        Ok(Sharding { mesh, axes })
    }

    /// `"x"`, or `"x":(2)4`
    fn mesh_axis(&mut self) -> Parsed<MeshAxis> {
        let name = self.cursor.string()?;
        if !self.cursor.eat(":") {
            return Ok(MeshAxis { name, part: None });
        }
        self.cursor.expect("(")?;
        let before = self.count()?;
        self.cursor.expect(")")?;
        Ok(MeshAxis { name, part: Some((before, self.count()?)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Program {
        let mut program = Program::default();
        program.meshes.insert("m".to_owned(), "#sdy.mesh<[\"x\"=2, \"y\"=4]>".to_owned());
        program
            .meshes
            .insert("turned".to_owned(), "#sdy.mesh<[\"x\"=2], device_ids=[1, 0]>".to_owned());
        program
    }

    #[test]
    fn parts_of_axes_are_told() {
        let program = program();
        let text = "#sdy.sharding<@m, [{\"y\", \"x\"}, {\"x\":(1)2, ?}p1, {}]>";
        let sharding = read(&program, text, |it| it.sharding()).expect("it is one");
        // Device 5 stands at x = 1, y = 1.
        assert_eq!(sharding.places(5, None), [(3, 8), (1, 2), (0, 1)]);
        assert_eq!(sharding.places(5, Some(&["x".to_owned()])), [(1, 2), (1, 2), (0, 1)]);
        let half = read(&program, "#sdy.sharding<@m, [{\"y\":(2)2}]>", |it| it.sharding());
        assert_eq!(half.expect("it is one").places(3, None), [(1, 2)]);
        let turned = read(&program, "<@turned, [{\"x\"}]>", |it| it.sharding()).expect("it is one");
        assert_eq!([turned.places(0, None), turned.places(1, None)], [[(1, 2)], [(0, 2)]]);
    }

    #[test]
    fn members_stand_along_axes() {
        let program = program();
        let mesh = per_value(&program, "#sdy.sharding_per_value<[<@m, [{}]>, <@m, []>]>");
        let mesh = mesh.expect("there are two").remove(0).mesh;
        let (members, places) = mesh.along(&["y".to_owned()]);
        assert_eq!(members, [0, 1, 2, 3]);
        assert_eq!(places, [0, 1, 2, 3, 0, 1, 2, 3]);
        let names = axis_names(&program, "#sdy<manual_axes{\"x\", \"y\"}>").expect("there are two");
        assert_eq!(names, ["x", "y"]);
    }

    #[test]
    fn what_is_malformed_is_refused() {
        let program = program();
        for text in ["#sdy.sharding<@none, [{}]>", "#sdy.sharding<@m, [{\"x\"", "<>", ""] {
            assert!(read(&program, text, |it| it.sharding()).is_err(), "{text}");
        }
    }
}
