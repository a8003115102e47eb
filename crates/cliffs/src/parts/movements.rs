//! Parts that move elements.

use tensor::Tensor;
use tensor::random::Generator;

use super::{is_float, is_number, some_axis};
use crate::draw::Draw;
use crate::model::{ModelBuilder, Written, demand, int, ints, word};
use crate::outline::Part;

pub(super) fn draw_transpose(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let mut order: Vec<i64> = (0..model.shape.len() as i64).collect();
    if order.len() < 2 {
        return None;
    }
    for last in (1..order.len()).rev() {
        order.swap(last, draw.below(last as u64 + 1) as usize);
    }
    Some(Part::new("transpose").with("order", &order))
}

pub(super) fn transpose(model: &mut ModelBuilder, part: &Part) -> Written {
    let order = part.numbers("order")?;
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    demand(sorted.iter().copied().eq(0..model.shape.len() as i64), "it is no order of the axes")?;
    let shape = order.iter().map(|&axis| model.shape[axis as usize]).collect();
    model.then("Transpose", &[], vec![ints("perm", order)]);
    model.shape = shape;
    Ok(())
}

fn reshape(model: &mut ModelBuilder, shape: Vec<i64>) {
    let to = model.integers(&shape);
    model.then("Reshape", &[to], Vec::new());
    model.shape = shape;
}

pub(super) fn draw_merge(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let rank = model.shape.len() as i64;
    (rank > 1).then(|| Part::new("merge").with("axis", &[draw.between(0, rank - 2)]))
}

/// Makes one axis of an axis and the next.
pub(super) fn merge(model: &mut ModelBuilder, part: &Part) -> Written {
    let axis = model.axis(part.number("axis")?)?;
    demand(axis + 1 < model.shape.len(), "no axis follows")?;
    let mut shape = model.shape.clone();
    shape[axis] *= shape.remove(axis + 1);
    reshape(model, shape);
    Ok(())
}

pub(super) fn draw_split(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let axis = some_axis(draw, model)?;
    let extent = model.shape[axis];
    let factors: Vec<i64> = (2..=extent / 2).filter(|factor| extent % factor == 0).collect();
    if factors.is_empty() {
        return None;
    }
    Some(Part::new("split").with("axis", &[axis as i64]).with("inner", &[*draw.pick(&factors)]))
}

/// Makes two axes of one, of which the inner one has the extent that is given.
pub(super) fn split(model: &mut ModelBuilder, part: &Part) -> Written {
    let (axis, inner) = (model.axis(part.number("axis")?)?, part.number("inner")?);
    demand(inner > 0 && model.shape[axis] % inner == 0, "it does not divide the axis")?;
    let mut shape = model.shape.clone();
    shape[axis] /= inner;
    shape.insert(axis + 1, inner);
    reshape(model, shape);
    Ok(())
}

pub(super) fn draw_slice(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let axis = some_axis(draw, model)?;
    let extent = model.shape[axis];
    if extent < 2 {
        return None;
    }
    let begin = draw.between(0, extent / 2);
    let end = draw.between(begin + 1, extent);
    let step = *draw.pick(&[1, 1, 1, 2, 3, -1]);
    let part = Part::new("slice").with("axis", &[axis as i64]);
    Some(part.with("range", &[begin, end]).with("step", &[step]))
}

/// What lies in a range of an axis; backwards if the step is negative.
pub(super) fn slice(model: &mut ModelBuilder, part: &Part) -> Written {
    let (axis, step) = (model.axis(part.number("axis")?)?, part.number("step")?);
    let &[begin, end] = part.numbers("range")? else { return Err("a range is two".to_owned()) };
    demand(step != 0 && 0 <= begin && begin < end && end <= model.shape[axis], "out of range")?;
    // Backwards from the last element to the first; what is before the first is far below 0.
    let (from, to) = match step > 0 {
        true => (begin, end),
        false => (end - 1, if begin == 0 { i64::MIN } else { begin - 1 }),
    };
    let inputs = [[from], [to], [axis as i64], [step]].map(|it| model.integers(&it));
    model.then("Slice", &inputs, Vec::new());
    model.shape[axis] =
        (end - begin).div_euclid(step.abs()) + i64::from((end - begin).rem_euclid(step.abs()) != 0);
    Ok(())
}

pub(super) fn draw_pad(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let axis = some_axis(draw, model)?;
    let mode = *draw.pick(&["constant", "constant", "reflect", "edge"]);
    if !is_number(model.dtype) {
        return None;
    }
    let most = if mode == "reflect" { model.shape[axis] - 1 } else { 7 }.min(7);
    let amounts = [draw.between(0, most), draw.between(0, most)];
    let part = Part::new("pad").word("mode", mode).with("axis", &[axis as i64]);
    Some(part.with("amounts", &amounts))
}

pub(super) fn pad(model: &mut ModelBuilder, part: &Part) -> Written {
    let (axis, mode) = (model.axis(part.number("axis")?)?, part.text("mode")?);
    let &[before, after] = part.numbers("amounts")? else { return Err("two".to_owned()) };
    let most = if mode == "reflect" { model.shape[axis] - 1 } else { 1 << 16 };
    demand(0 <= before && before <= most && 0 <= after && after <= most, "too much or little")?;
    let rank = model.shape.len();
    let mut amounts = vec![0; 2 * rank];
    (amounts[axis], amounts[rank + axis]) = (before, after);
    let amounts = model.integers(&amounts);
    model.then("Pad", &[amounts], vec![word("mode", mode)]);
    model.shape[axis] += before + after;
    Ok(())
}

pub(super) fn draw_concat(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let axis = some_axis(draw, model)?;
    let with = *draw.pick(&["itself", "weight", "map"]);
    if with == "map" && !is_float(model.dtype) {
        return None;
    }
    let extent = [if with == "weight" { draw.extent().min(64) } else { model.shape[axis] }];
    let part = Part::new("concat").word("with", with).with("axis", &[axis as i64]);
    Some(if with == "weight" { part.with("extent", &extent) } else { part })
}

/// The value, and behind it itself, a weight, or what a map makes of it.
pub(super) fn concat(model: &mut ModelBuilder, part: &Part) -> Written {
    let axis = model.axis(part.number("axis")?)?;
    let (value, mut extent) = (model.value.clone(), model.shape[axis]);
    let other = match part.text("with")? {
        "itself" => value,
        "map" => model.node("Sigmoid", &[value], Vec::new()),
        "weight" => {
            extent = part.number("extent")?;
            demand(extent >= 1, "the weight is empty")?;
            let mut shape = model.shape.clone();
            shape[axis] = extent;
            model.weight(model.dtype, &shape, 1.0)
        }
        other => return Err(format!("there is nothing `{other}`")),
    };
    model.then("Concat", &[other], vec![int("axis", axis as i64)]);
    model.shape[axis] += extent;
    Ok(())
}

pub(super) fn draw_gather(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let axis = some_axis(draw, model)?;
    let part = Part::new("gather").with("axis", &[axis as i64]);
    Some(part.with("count", &[draw.extent().min(128)]))
}

/// Random places along an axis.
pub(super) fn gather(model: &mut ModelBuilder, part: &Part) -> Written {
    let (axis, count) = (model.axis(part.number("axis")?)?, part.number("count")?);
    demand((1..=1 << 12).contains(&count), "too many or few")?;
    let mut random = Generator::new(count as u64);
    let extent = model.shape[axis] as u64;
    let places: Vec<i64> = (0..count).map(|_| random.below(extent) as i64).collect();
    let places = model.constant(&Tensor::from_slice(&[places.len()], &places));
    model.then("Gather", &[places], vec![int("axis", axis as i64)]);
    model.shape[axis] = count;
    Ok(())
}

pub(super) fn draw_tile(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let axis = some_axis(draw, model)?;
    Some(Part::new("tile").with("axis", &[axis as i64]).with("times", &[draw.between(2, 4)]))
}

pub(super) fn tile(model: &mut ModelBuilder, part: &Part) -> Written {
    let (axis, times) = (model.axis(part.number("axis")?)?, part.number("times")?);
    demand((1..=64).contains(&times), "too many or few times")?;
    let mut repeats = vec![1; model.shape.len()];
    repeats[axis] = times;
    let repeats = model.integers(&repeats);
    model.then("Tile", &[repeats], Vec::new());
    model.shape[axis] *= times;
    Ok(())
}

pub(super) fn draw_resize(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    if !(3..=4).contains(&model.shape.len()) || !is_float(model.dtype) {
        return None;
    }
    let mode = *draw.pick(&["nearest", "linear", "linear", "cubic"]);
    let axes = model.shape.len() - 2;
    if mode == "cubic" && axes != 2 {
        return None;
    }
    let to: Vec<i64> = model.shape[2..]
        .iter()
        .map(|&extent| match draw.below(4) {
            0 | 1 => 2 * extent,
            2 => (extent / 2).max(1),
            _ => draw.extent().min(96),
        })
        .zip(&model.shape[2..])
        .map(|(to, &from)| if mode != "nearest" || is_exact(from, to) { to } else { 2 * from })
        .collect();
    Some(Part::new("resize").word("mode", mode).with("to", &to))
}

/// Whether the elements nearest below, that of an axis of so many, are the same computed in f32, as
/// other engines do: places that are whole numbers may come out a little less there.
fn is_exact(from: i64, to: i64) -> bool {
    let scale = to as f32 / from as f32;
    (0..to).all(|at| {
        let exact = at * from / to;
        let places = [at as f32 / scale, at as f32 * (from as f32 / to as f32)];
        places.iter().all(|place| place.floor() as i64 == exact)
    })
}

/// Other extents behind the first two axes, by interpolation.
pub(super) fn resize(model: &mut ModelBuilder, part: &Part) -> Written {
    let (mode, to) = (part.text("mode")?, part.numbers("to")?);
    demand(model.shape.len() == to.len() + 2 && !to.is_empty(), "it has other axes")?;
    demand(to.iter().all(|extent| (1..=512).contains(extent)), "too large or small")?;
    let shape = [&model.shape[..2], to].concat();
    let sizes = model.integers(&shape);
    let none = String::new();
    let attributes = vec![
        word("mode", mode),
        word("coordinate_transformation_mode", "asymmetric"),
        word("nearest_mode", "floor"),
    ];
    model.then("Resize", &[none.clone(), none, sizes], attributes);
    model.shape = shape;
    model.operations += 8.0 * model.count();
    Ok(())
}

pub(super) fn draw_shuffle(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let channels = *model.shape.get(1)?;
    let groups: Vec<i64> = (2..=channels / 2).filter(|groups| channels % groups == 0).collect();
    (!groups.is_empty() && model.shape.len() >= 3)
        .then(|| Part::new("shuffle").with("groups", &[*draw.pick(&groups)]))
}

/// Channels of all groups in turn.
pub(super) fn shuffle(model: &mut ModelBuilder, part: &Part) -> Written {
    let (groups, rank) = (part.number("groups")?, model.shape.len() as i64);
    demand(rank >= 2 && groups > 0 && model.shape[1] % groups == 0, "it has other channels")?;
    demand(rank < 6, "it has too many axes")?;
    let shape = model.shape.clone();
    let mut apart = shape.clone();
    apart[1] = groups;
    apart.insert(2, shape[1] / groups);
    reshape(model, apart);
    let order: Vec<i64> = [0, 2, 1].into_iter().chain(3..=rank).collect();
    model.then("Transpose", &[], vec![ints("perm", &order)]);
    reshape(model, shape);
    Ok(())
}

pub(super) fn draw_depth_to_space(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let is_back = draw.chance(50);
    let fits = |block: &i64| match (model.shape.len() == 4, is_back) {
        (false, _) => false,
        (_, false) => model.shape[1] % (block * block) == 0,
        (_, true) => model.shape[2] % block == 0 && model.shape[3] % block == 0,
    };
    let blocks: Vec<i64> = (2..5).filter(fits).collect();
    if blocks.is_empty() || !is_float(model.dtype) {
        return None;
    }
    let way = if is_back { "back" } else { "forth" };
    Some(Part::new("depth_to_space").word("way", way).with("block", &[*draw.pick(&blocks)]))
}

/// Channels to a block of pixels, or back.
pub(super) fn depth_to_space(model: &mut ModelBuilder, part: &Part) -> Written {
    let block = part.number("block")?;
    demand(model.shape.len() == 4 && (1..=8).contains(&block), "it does not fit")?;
    let (channels, area) = (model.shape[1], block * block);
    let [height, width] = [model.shape[2], model.shape[3]];
    let attribute = vec![int("blocksize", block)];
    if part.text("way")? == "forth" {
        demand(channels % area == 0, "the channels do not divide")?;
        model.then("DepthToSpace", &[], attribute);
        model.shape = vec![model.shape[0], channels / area, height * block, width * block];
    } else {
        demand(height % block == 0 && width % block == 0, "the extents do not divide")?;
        model.then("SpaceToDepth", &[], attribute);
        model.shape = vec![model.shape[0], channels * area, height / block, width / block];
    }
    Ok(())
}

pub(super) fn draw_halves(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let axis = some_axis(draw, model)?;
    (model.shape[axis] % 2 == 0 && is_float(model.dtype))
        .then(|| Part::new("halves").with("axis", &[axis as i64]))
}

/// One half of an axis times the sigmoid of the other.
pub(super) fn halves(model: &mut ModelBuilder, part: &Part) -> Written {
    let axis = model.axis(part.number("axis")?)?;
    demand(model.shape[axis] % 2 == 0, "it has no halves")?;
    let half = model.shape[axis] / 2;
    let value = model.value.clone();
    let mut piece = |range: [i64; 2]| {
        let bounds = [[range[0]], [range[1]], [axis as i64]].map(|it| model.integers(&it));
        let inputs = [std::slice::from_ref(&value), &bounds].concat();
        model.node("Slice", &inputs, Vec::new())
    };
    let (first, second) = (piece([0, half]), piece([half, 2 * half]));
    let gate = model.node("Sigmoid", &[second], Vec::new());
    model.value = model.node("Mul", &[first, gate], Vec::new());
    model.shape[axis] = half;
    model.operations += 10.0 * model.count();
    Ok(())
}

pub(super) fn draw_expand(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let axis = model.shape.iter().position(|&extent| extent == 1)?;
    Some(Part::new("expand").with("axis", &[axis as i64]).with("to", &[draw.between(2, 16)]))
}

/// An axis of extent 1, repeated.
pub(super) fn expand(model: &mut ModelBuilder, part: &Part) -> Written {
    let (axis, to) = (model.axis(part.number("axis")?)?, part.number("to")?);
    demand(model.shape[axis] == 1 && to >= 1, "it is not 1")?;
    model.shape[axis] = to;
    let shape = model.shape.clone();
    let shape = model.integers(&shape);
    model.then("Expand", &[shape], Vec::new());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_f32_misses_are_known() {
        assert!(!is_exact(39, 3) && !is_exact(80, 96));
        assert!(is_exact(101, 50));
        assert!(
            (1..=257).all(|from| is_exact(from, 2 * from) && is_exact(from, (from / 2).max(1)))
        );
    }
}
