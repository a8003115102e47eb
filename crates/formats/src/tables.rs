//! Maps of one integer of 8 bits to another become tables of all that they can give.
//!
//! before: `q = cast<u8>(add(round(div(sigmoid(mul(sub(cast<f32>(x), z), s)), t)), y))`
//! after:  `q = gather(table, cast<i64>(x))`, where `table` is the same maps of 0, 1, .., 255
//!
//! `x` is a tensor of bytes, and all else that the maps read is one number for all its elements, so
//! the table depends on constants alone and is made once, in `setup`, by the same functions: it
//! holds the same bits. A chain goes as far back as one value of bytes tells all of it, also
//! through bytes in between, and becomes a table where its maps take longer than looking up does.
//!
//! Run behind format choice, so that nothing has to be moved through a table.

use std::collections::BTreeMap;

use backend::Target;
use base::{Diagnostics, Remark, SecondaryMap};
use graph::{Built, Function, NodeId, Op, Rewriter, ValueId, rebuild};
use tensor::{DType, ScalarFunction};

/// What a byte can be.
const BYTES: i64 = 256;

/// A table has to be read so many times for each time that one of its elements is made.
const LEAST_READ: i64 = 4;

/// What a value's elements depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Root {
    /// On several values, or on what is not an element of bytes at the same place.
    #[default]
    Other,
    /// On numbers that are the same for all elements and known before a run.
    Numbers,
    /// Besides, on the element of a value of bytes at the same place.
    Of(ValueId),
}

impl Root {
    fn and(self, other: Root) -> Root {
        match (self, other) {
            (Root::Numbers, root) | (root, Root::Numbers) => root,
            (one, other) if one == other => one,
            _ => Root::Other,
        }
    }
}

/// Puts tables in the place of maps where that takes less; each is a remark.
///
/// # Errors
/// An internal error if a rewritten node is ill-typed.
pub fn tables(
    function: &Function,
    target: &Target,
    remarks: &mut Vec<Remark>,
) -> base::Result<Option<Function>> {
    let roots = roots(function);
    let mut found: BTreeMap<NodeId, Chain> = BTreeMap::new();
    for &id in &function.regions[function.body].nodes {
        if let Some(chain) = Chain::of(function, &roots, id)
            && chain.cycles(function, target) > target.cycles_of_lookup()
        {
            found.insert(id, chain);
        }
    }
    if found.is_empty() {
        return Ok(None);
    }
    let mut numbers: BTreeMap<DType, ValueId> = BTreeMap::new();
    let result = rebuild(function, |rewriter, id| {
        let Some(chain) = found.get(&id) else { return Ok(None) };
        let location = rewriter.source.nodes[id].location;
        rewriter.builder.set_location(location);
        let message = "a byte made of a byte is looked up in a table".to_owned();
        remarks.push(Remark { location, message });
        Ok(Some(vec![chain.looked_up(rewriter, &mut numbers)?]))
    });
    result.map(Some).map_err(|reason| {
        Diagnostics::internal(format!("tables of bytes made an ill-typed node: {reason}"))
    })
}

/// What each value of a function's body depends on.
fn roots(function: &Function) -> SecondaryMap<ValueId, Root> {
    let constants = function.constant_values();
    let mut roots: SecondaryMap<ValueId, Root> = SecondaryMap::new();
    let own = |value: ValueId, made_of: Root| match made_of {
        Root::Other if is_bytes(function, value) => Root::Of(value),
        root => root,
    };
    for &parameter in function.parameters() {
        roots[parameter] = own(parameter, Root::Other);
    }
    for &id in &function.regions[function.body].nodes {
        let node = &function.nodes[id];
        let made_of = match &node.op {
            Op::Map { .. } => {
                let operands = node.operands.iter().map(|&operand| roots[operand]);
                operands.reduce(Root::and).unwrap_or_default()
            }
            Op::Broadcast { .. } if rank(function, node.operands[0]) == Some(0) => {
                match constants.contains(node.operands[0]) {
                    true => Root::Numbers,
                    false => Root::Other,
                }
            }
            _ => Root::Other,
        };
        for &result in &node.results {
            roots[result] = own(result, made_of);
        }
    }
    roots
}

fn rank(function: &Function, value: ValueId) -> Option<usize> {
    Some(function.ty(value).as_tensor()?.shape.len())
}

fn is_bytes(function: &Function, value: ValueId) -> bool {
    let dtype = function.ty(value).as_tensor().map(|ty| ty.dtype);
    matches!(dtype, Some(DType::U8 | DType::I8))
}

/// Maps that make a value of bytes of another.
struct Chain {
    /// The value that it begins with.
    root: ValueId,
    /// In the order of the function.
    maps: Vec<NodeId>,
}

impl Chain {
    /// The maps that lead to a node's result from the bytes that alone tell it.
    fn of(function: &Function, roots: &SecondaryMap<ValueId, Root>, id: NodeId) -> Option<Chain> {
        let node = &function.nodes[id];
        let (Op::Map { .. }, &[result]) = (&node.op, &node.results[..]) else { return None };
        let Root::Of(root) = roots[result] else { return None };
        let ty = function.ty(result).as_tensor()?;
        let extents = ty.shape.iter().map(|extent| {
            extent.usual(&|symbol| {
                function.symbols.get(symbol).map_or(sym::Range::USUAL, sym::Symbol::usual)
            })
        });
        let count = extents.fold(1, i64::saturating_mul);
        if root == result || !is_bytes(function, result) || count < LEAST_READ * BYTES {
            return None;
        }
        let (mut work, mut maps) = (vec![id], Vec::new());
        while let Some(id) = work.pop() {
            if maps.contains(&id) {
                continue;
            }
            maps.push(id);
            let operands = function.nodes[id].operands.iter();
            let made_of =
                operands.filter(|&&value| value != root && roots[value] == Root::Of(root));
            work.extend(made_of.filter_map(|&value| function.producer(value)).map(|(id, _)| id));
        }
        maps.sort_unstable();
        Some(Chain { root, maps })
    }

    /// Cycles that its maps take for a full vector of 32-bit lanes.
    fn cycles(&self, function: &Function, target: &Target) -> f64 {
        let of = |id: &NodeId| match function.nodes[*id].op {
            Op::Map { function: own, dtype } => cycles(own, dtype, target),
            _ => 0.0,
        };
        self.maps.iter().map(of).sum()
    }

    /// The bytes that the chain makes, from its table.
    fn looked_up(
        &self,
        rewriter: &mut Rewriter<'_>,
        numbers: &mut BTreeMap<DType, ValueId>,
    ) -> Built {
        let source = rewriter.source;
        let root = rewriter.get(self.root);
        let dtype = rewriter.builder.dtype(root)?;
        let all = match numbers.get(&dtype) {
            Some(&all) => all,
            None => {
                let mut bytes = rewriter.builder.iota(DType::U8, &[BYTES.into()], 0)?;
                if base::fault::is_seeded("formats.tables") {
                    bytes = rewriter.builder.map(ScalarFunction::Not, &[bytes])?;
                }
                let all = rewriter.builder.cast(bytes, dtype)?;
                numbers.insert(dtype, all);
                all
            }
        };
        let mut made: BTreeMap<ValueId, ValueId> = BTreeMap::from([(self.root, all)]);
        let mut last = all;
        for &id in &self.maps {
            let node = &source.nodes[id];
            let mut operands = Vec::new();
            for operand in &node.operands {
                operands.push(match made.get(operand) {
                    Some(&value) => value,
                    None => Self::number(rewriter, *operand)?,
                });
            }
            last = rewriter.builder.add(node.op.clone(), &operands)?[0];
            made.insert(node.results[0], last);
        }
        // The bits of a byte are its place.
        let place = rewriter.builder.cast(root, DType::U8)?;
        let place = rewriter.builder.cast(place, DType::I64)?;
        rewriter.builder.gather(last, &[0], &[place], 0, 0)
    }

    /// A number that all elements have, for each element of a table: what leads to it is made anew.
    fn number(rewriter: &mut Rewriter<'_>, value: ValueId) -> Built {
        let source = rewriter.source;
        let Some((id, _)) = source.producer(value) else { return Ok(rewriter.get(value)) };
        let node = &source.nodes[id];
        match &node.op {
            Op::Map { .. } => {
                let operands = node.operands.iter().map(|&it| Self::number(rewriter, it));
                let operands = operands.collect::<Built<Vec<ValueId>>>()?;
                Ok(rewriter.builder.add(node.op.clone(), &operands)?[0])
            }
            _ => {
                let number = rewriter.get(node.operands[0]);
                rewriter.builder.broadcast(number, [BYTES.into()], &[])
            }
        }
    }
}

/// Cycles that a scalar function takes for a full vector of 32-bit lanes.
fn cycles(function: ScalarFunction, dtype: DType, target: &Target) -> f64 {
    use ScalarFunction::{Cast, Div, Mod, Reciprocal, Rem, Sqrt};
    let machine = &target.machine;
    let one = machine.passes / f64::from(machine.fma_per_cycle);
    match function {
        Div | Sqrt | Rem | Mod | Reciprocal => machine.passes * machine.cycles_of_division,
        // Bounds, and a conversion.
        Cast if dtype.bits() < 32 => 3.0 * one,
        function if function.is_machine() => one,
        // Expanded: a polynomial, and what leads to it and from it.
        _ => 20.0 * one,
    }
}
