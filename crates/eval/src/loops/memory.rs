//! Memory that checks every access.
//!
//! Elements are numbers of up to 64 bits in packed bytes, as tensors have them. Beside them lie,
//! where asked for: when each was stored to, and who accessed it in the parallel or vector loop
//! that runs.

use base::codes;
use tensor::DType;

use crate::EvaluationFault;

/// Faults stand behind a box, since every value on the way returns one of these.
pub(super) type Checked<T> = Result<T, Box<EvaluationFault>>;

/// A fault whose place is not known yet.
#[cold]
#[inline(never)]
pub(super) fn fault(code: &'static str, message: impl Into<String>) -> Box<EvaluationFault> {
    Box::new(EvaluationFault::new(code, message))
}

/// The bytes of a buffer.
pub(super) enum Bytes<'a> {
    /// A parameter that is only read.
    Read(&'a [u8]),
    /// A parameter that is written.
    Write(&'a mut [u8]),
    /// Scratch or register memory.
    Own(Vec<u8>),
}

/// A buffer.
pub(super) struct Memory<'a> {
    pub(super) name: String,
    pub(super) dtype: DType,
    /// Extent and stride of each axis.
    pub(super) axes: Vec<(i64, i64)>,
    pub(super) bytes: Bytes<'a>,
    /// How many elements the bytes hold.
    pub(super) elements: usize,
    /// For each element the era in which it was last stored to; `None` if all have values.
    pub(super) stored: Option<Vec<u32>>,
    /// Values stored in earlier eras are gone.
    pub(super) era: u32,
    /// Accesses in the parallel loop, and in the innermost vector loop.
    pub(super) parallel: Option<Accesses>,
    pub(super) vector: Option<Accesses>,
}

impl Memory<'_> {
    /// One axis's part in an element's number.
    #[inline]
    pub(super) fn step(&self, axis: usize, at: i64) -> Checked<i64> {
        let (extent, stride) = self.axes[axis];
        if at < 0 || at >= extent {
            let name = &self.name;
            let message =
                format!("%{name}: the index {at} along axis {axis} is outside of 0..{extent}");
            return Err(fault(codes::INTERNAL_ERROR, message));
        }
        Ok(at * stride)
    }

    /// The element of this number, if the memory holds it.
    #[inline]
    pub(super) fn element(&self, number: i64) -> Checked<usize> {
        match usize::try_from(number) {
            Ok(element) if element < self.elements => Ok(element),
            _ => {
                let message = format!("%{}: the strides lead out of the memory given", self.name);
                Err(fault(codes::INTERNAL_ERROR, message))
            }
        }
    }

    /// The bits of an element that has a value.
    #[inline]
    pub(super) fn load(&mut self, element: usize, place: &Place) -> Checked<u64> {
        if let Some(stored) = &self.stored
            && stored[element] != self.era
        {
            let message = format!("%{}: element {element} has no value yet", self.name);
            return Err(fault(codes::INTERNAL_ERROR, message));
        }
        if self.parallel.is_some() || self.vector.is_some() {
            self.note(element, place, Access::Load)?;
        }
        Ok(read(self.view(), self.dtype, element))
    }

    /// Stores the bits of an element.
    pub(super) fn store(&mut self, element: usize, bits: u64, place: &Place) -> Checked<()> {
        if let Some(stored) = &mut self.stored {
            stored[element] = self.era;
        }
        let dtype = self.dtype;
        if self.parallel.is_some() || self.vector.is_some() {
            let same = read(self.view(), dtype, element) == bits;
            self.note(element, place, Access::Store { same })?;
        }
        match &mut self.bytes {
            Bytes::Write(bytes) => write(bytes, dtype, element, bits),
            Bytes::Own(bytes) => write(bytes, dtype, element, bits),
            Bytes::Read(_) => {
                let message = format!("%{} is only read", self.name);
                return Err(fault(codes::VERIFIER_FAILED, message));
            }
        }
        Ok(())
    }

    fn view(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Read(bytes) => bytes,
            Bytes::Write(bytes) => bytes,
            Bytes::Own(bytes) => bytes,
        }
    }

    /// Remembers an access and checks it against those of other iterations.
    fn note(&mut self, element: usize, place: &Place, access: Access) -> Checked<()> {
        if let Some(accesses) = &mut self.parallel
            && let Some(iteration) = place.parallel
            && !accesses.note_independent(element, iteration, access)
        {
            return Err(self.dependence(element, "the parallel loop"));
        }
        if let Some(accesses) = &mut self.vector
            && let Some(iteration) = place.vector
            && !accesses.note(element, iteration, place.position, access.writes())
        {
            return Err(self.dependence(element, "the vector loop"));
        }
        Ok(())
    }

    fn dependence(&self, element: usize, which: &str) -> Box<EvaluationFault> {
        let name = &self.name;
        let message =
            format!("%{name}: iterations of {which} depend on each other by element {element}");
        fault(codes::INTERNAL_ERROR, message)
    }
}

/// What is done to an element.
#[derive(Clone, Copy)]
enum Access {
    Load,
    /// `same` where it holds the bits already that are stored.
    Store {
        same: bool,
    },
}

impl Access {
    fn writes(self) -> bool {
        matches!(self, Access::Store { .. })
    }
}

/// Where the program is in its parallel and vector loops.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// The iteration of the parallel loop.
    pub(super) parallel: Option<u32>,
    /// Which run of a vector loop this is, counted over all of them, and its iteration.
    pub(super) vector: Option<(u32, u32)>,
    /// The statement's place in the order of the program, unrolled loops written out.
    pub(super) position: u32,
}

/// Who accessed each element of a buffer in a loop.
///
/// Iterations of a parallel loop come in any order and do not depend on each other, but may store
/// the same bits to an element that none of them loads. Those of a vector loop come from the first
/// to the last, and may depend on each other through statements that stay in that order when each
/// statement is run for all iterations before the next one: a later iteration's access must stand
/// behind an earlier iteration's in the program, or, where it is a store and the other a load, not
/// before it.
pub(super) struct Accesses {
    cells: Vec<Cell>,
}

#[derive(Clone, Copy, Default)]
struct Cell {
    /// The run of the loop and the iteration of the last access; runs count from 1.
    last: (u32, u32),
    /// The greatest positions, plus 1, of loads and stores by iterations before the last.
    before: [u32; 2],
    /// The same by the last iteration.
    here: [u32; 2],
}

impl Accesses {
    pub(super) fn new(elements: usize) -> Accesses {
        Accesses { cells: vec![Cell::default(); elements] }
    }

    /// Notes an access in a vector loop; whether it is in order.
    fn note(&mut self, element: usize, iteration: (u32, u32), position: u32, writes: bool) -> bool {
        let [loads, stores] = self.advance(element, iteration, position, writes);
        stores <= position && (!writes || loads <= position + 1)
    }

    /// Notes an access in a parallel loop; whether no other iteration minds.
    fn note_independent(&mut self, element: usize, iteration: u32, access: Access) -> bool {
        let [loads, stores] = self.advance(element, (0, iteration), 0, access.writes());
        match access {
            Access::Load => stores == 0,
            Access::Store { same } => loads == 0 && (stores == 0 || same),
        }
    }

    /// Notes an access and returns what earlier iterations did.
    fn advance(
        &mut self,
        element: usize,
        iteration: (u32, u32),
        position: u32,
        writes: bool,
    ) -> [u32; 2] {
        let cell = &mut self.cells[element];
        let iteration = (iteration.0 + 1, iteration.1);
        if cell.last.0 != iteration.0 {
            *cell = Cell { last: iteration, ..Cell::default() };
        } else if cell.last != iteration {
            let before = [0, 1].map(|kind| cell.before[kind].max(cell.here[kind]));
            *cell = Cell { last: iteration, before, here: [0, 0] };
        }
        let here = &mut cell.here[usize::from(writes)];
        *here = (*here).max(position + 1);
        cell.before
    }
}

/// The type of most elements comes first.
#[inline]
fn read(bytes: &[u8], dtype: DType, element: usize) -> u64 {
    if dtype == DType::F32 {
        return u32::from_le_bytes(chunk(bytes, element)).into();
    }
    match dtype.bits() {
        64 => u64::from_le_bytes(chunk(bytes, element)),
        32 => u32::from_le_bytes(chunk(bytes, element)).into(),
        16 => u16::from_le_bytes(chunk(bytes, element)).into(),
        8 if dtype == DType::Bool => u64::from(bytes[element] != 0),
        8 => bytes[element].into(),
        bits => {
            let per_byte = dtype.per_byte();
            let byte = bytes[element / per_byte] >> ((element % per_byte) as u32 * bits);
            u64::from(byte) & ((1 << bits) - 1)
        }
    }
}

fn chunk<const N: usize>(bytes: &[u8], element: usize) -> [u8; N] {
    let mut chunk = [0; N];
    chunk.copy_from_slice(&bytes[element * N..][..N]);
    chunk
}

#[inline]
fn write(bytes: &mut [u8], dtype: DType, element: usize, value: u64) {
    if dtype == DType::F32 {
        return bytes[element * 4..][..4].copy_from_slice(&(value as u32).to_le_bytes());
    }
    match dtype.bits() {
        64 => bytes[element * 8..][..8].copy_from_slice(&value.to_le_bytes()),
        32 => bytes[element * 4..][..4].copy_from_slice(&(value as u32).to_le_bytes()),
        16 => bytes[element * 2..][..2].copy_from_slice(&(value as u16).to_le_bytes()),
        8 => bytes[element] = value as u8,
        bits => {
            let per_byte = dtype.per_byte();
            let shift = (element % per_byte) as u32 * bits;
            let mask = ((1u8 << bits) - 1) << shift;
            let byte = &mut bytes[element / per_byte];
            *byte = *byte & !mask | (value as u8) << shift & mask;
        }
    }
}
