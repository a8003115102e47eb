//! Values of several devices: a whole put together of its parts, and cut into them; how they are
//! split, as callers are told.

use tilewright::Tensor;

use crate::boundary::{List, Start};
use crate::compile_options::write_number;

/// How values are split, each as a serialised `OpSharding`.
pub(crate) struct ShardingTable {
    pub(crate) messages: Vec<Start<u8>>,
    pub(crate) sizes: Vec<usize>,
    /// What the messages point to.
    _bytes: Vec<Vec<u8>>,
}

// Fields and kinds of `OpSharding`, by their numbers.
const KIND: u8 = 1 << 3;
const KIND_OTHER: u64 = 3;
const TILE_COUNTS: u8 = 3 << 3 | 2;
const TILE_DEVICES: u8 = 4 << 3 | 2;
const IS_REPLICATED_LAST: u8 = 6 << 3;

impl ShardingTable {
    /// Of messages.
    pub(crate) fn of(bytes: Vec<Vec<u8>>) -> ShardingTable {
        ShardingTable {
            messages: bytes.iter().map(|bytes| List::of(bytes).start()).collect(),
            sizes: bytes.iter().map(Vec::len).collect(),
            _bytes: bytes,
        }
    }
}

/// How a value is split, as a serialised `OpSharding`: into how many parts each axis is cut, and
/// which part each device holds. The message without fields says that all hold the whole.
pub(crate) fn sharding_message(counts: &[usize], places: &[Vec<usize>]) -> Vec<u8> {
    let parts: usize = counts.iter().product();
    if parts <= 1 {
        return Vec::new();
    }
    let mut devices: Vec<usize> = (0..places.len()).collect();
    devices.sort_by_key(|&device| &places[device]);
    let alike = places.len() / parts;
    let tiles = counts.iter().copied().chain((alike > 1).then_some(alike));
    let mut message = vec![KIND];
    write_number(&mut message, KIND_OTHER);
    write_list(&mut message, TILE_COUNTS, tiles);
    write_list(&mut message, TILE_DEVICES, devices.into_iter());
    if alike > 1 {
        message.extend([IS_REPLICATED_LAST, 1]);
    }
    message
}

fn write_list(message: &mut Vec<u8>, field: u8, numbers: impl Iterator<Item = usize>) {
    let mut packed = Vec::new();
    numbers.for_each(|number| write_number(&mut packed, number as u64));
    message.push(field);
    write_number(message, packed.len() as u64);
    message.extend(packed);
}

/// Which part of a value something is: into how many parts each axis is cut, and which of them.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) counts: &'a [usize],
    pub(crate) place: &'a [usize],
}

/// Runs of bytes that lie together in a part and in the whole: calls with where each begins in
/// both, and how long it is. The shape is the whole's, elements of whole bytes.
fn runs(shape: &[usize], bytes: usize, part: Part<'_>, mut run: impl FnMut(usize, usize, usize)) {
    let count = |axis: usize| part.counts.get(axis).copied().unwrap_or(1);
    let place = |axis: usize| part.place.get(axis).copied().unwrap_or(0);
    let own: Vec<usize> = (0..shape.len()).map(|axis| shape[axis] / count(axis)).collect();
    // The axes behind the last one that is cut lie together.
    let last = (0..shape.len()).rev().find(|&axis| count(axis) > 1).map_or(0, |axis| axis);
    let inside: usize = own[last..].iter().product::<usize>() * bytes;
    let total: usize = own.iter().product::<usize>() * bytes;
    let mut index = vec![0_usize; last];
    let mut at = 0;
    while at < total {
        let mut whole = 0;
        for axis in 0..shape.len() {
            let coordinate = index.get(axis).copied().unwrap_or(0) + place(axis) * own[axis];
            whole = whole * shape[axis] + coordinate;
        }
        run(at, whole * bytes, inside);
        at += inside;
        for axis in (0..last).rev() {
            index[axis] += 1;
            if index[axis] < own[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

fn element_bytes(tensor: &Tensor) -> usize {
    tensor.dtype().bits() as usize / 8
}

/// Writes a part to its place in the whole.
pub(crate) fn put(whole: &mut Tensor, part: &Tensor, place: Part<'_>) {
    let (shape, bytes) = (whole.shape().to_vec(), element_bytes(whole));
    let (target, source) = (whole.bytes_mut(), part.bytes());
    runs(&shape, bytes, place, |from, to, count| {
        target[to..to + count].copy_from_slice(&source[from..from + count]);
    });
}

/// A part of the whole, in its own memory; none if there is too little.
pub(crate) fn cut(whole: &Tensor, place: Part<'_>) -> Option<Tensor> {
    let counts = place.counts.iter().copied().chain(std::iter::repeat(1));
    let shape: Vec<usize> =
        whole.shape().iter().zip(counts).map(|(extent, count)| extent / count).collect();
    let mut part = Tensor::try_zeros(whole.dtype(), &shape)?;
    let (target, source) = (part.bytes_mut(), whole.bytes());
    runs(whole.shape(), element_bytes(whole), place, |to, from, count| {
        target[to..to + count].copy_from_slice(&source[from..from + count]);
    });
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shardings_are_messages() {
        assert!(sharding_message(&[1, 1], &[vec![0, 0], vec![0, 0]]).is_empty());
        // Devices 0 and 2 hold the first half, 1 and 3 the second.
        let places = [vec![0], vec![1], vec![0], vec![1]];
        let message = sharding_message(&[2], &places);
        assert_eq!(message, [8, 3, 26, 2, 2, 2, 34, 4, 0, 2, 1, 3, 48, 1]);
    }

    #[test]
    fn parts_are_cut_and_put_together() {
        let whole = Tensor::from_vec(&[4, 6, 2], (0..48_i32).collect());
        for counts in [[1, 1, 1], [2, 1, 1], [1, 3, 1], [4, 2, 1], [2, 3, 2]] {
            let mut made = Tensor::zeros(whole.dtype(), whole.shape());
            for number in 0..counts.iter().product::<usize>() {
                let place = [
                    number / (counts[1] * counts[2]),
                    number / counts[2] % counts[1],
                    number % counts[2],
                ];
                let place = Part { counts: &counts, place: &place };
                put(&mut made, &cut(&whole, place).expect("there is memory"), place);
            }
            assert_eq!(made.bytes(), whole.bytes(), "{counts:?}");
        }
        let place = Part { counts: &[2, 3], place: &[1, 2] };
        let part = cut(&whole, place).expect("there is memory");
        assert_eq!(part.shape(), [2, 2, 2]);
        assert_eq!(part.to_vec::<i32>().expect("integers"), [32, 33, 34, 35, 44, 45, 46, 47]);
    }
}
