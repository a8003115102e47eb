//! Random outlines: a core, movements and arithmetic before and behind it.
//!
//! All is determined by the seed and the number of the model. Extents are tiny, odd, prime, powers
//! of two and their neighbours, which is where schedules end: at the edges of tiles and vectors.

use tensor::DType;
use tensor::random::Generator;

use crate::model::ModelBuilder;
use crate::outline::{Outline, Part};
use crate::parts;

/// Models with fewer operations say little about speed; only some of those that are drawn have.
const FEW_OPERATIONS: f64 = 5e4;
/// The most elements of an input.
const MOST_ELEMENTS: i64 = 1 << 18;
/// Tries to draw what fits.
const TRIES: usize = 1000;

const PRIMES: [i64; 26] = [
    11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 61, 67, 71, 79, 89, 97, 101, 113, 127, 149,
    173, 193, 211, 257,
];

/// Element types of inputs, each as often as it should come of a hundred.
const DTYPES: [(DType, u64); 9] = [
    (DType::F32, 58),
    (DType::F16, 10),
    (DType::BF16, 8),
    (DType::F64, 7),
    (DType::I32, 4),
    (DType::I64, 4),
    (DType::I8, 3),
    (DType::U8, 3),
    (DType::Bool, 3),
];

/// A stream of choices.
pub(crate) struct Draw {
    random: Generator,
}

/// The outline with this number among those of a seed.
#[must_use]
pub fn outline(seed: u64, number: u64) -> Outline {
    let mut draw = Draw { random: Generator::new(seed << 32 | number) };
    let dtype = draw.dtype();
    let found = (0..TRIES).find_map(|_| draw.outline(dtype));
    found.unwrap_or_else(|| unreachable!("most tries give an outline"))
}

impl Draw {
    fn outline(&mut self, dtype: DType) -> Option<Outline> {
        let core = self.row(|row| row.as_core);
        let rank = *self.pick(core.ranks);
        let shape = self.shape(rank);
        let mut model = ModelBuilder::new(dtype, &shape).ok()?;
        let mut chosen = Vec::new();
        for _ in 0..self.below(3) {
            self.around(&mut model, &mut chosen);
        }
        let part = (core.draw)(self, &model)?;
        model.add(&part).ok()?;
        chosen.push(part);
        let behind = if chosen.len() == 1 { 1 + self.below(2) } else { self.below(3) };
        for _ in 0..behind {
            self.around(&mut model, &mut chosen);
        }
        let is_small = model.operations < FEW_OPERATIONS;
        if is_small && !self.chance(10) {
            return None;
        }
        Some(Outline { dtype, shape, parts: chosen })
    }

    /// Adds a part that fits, if one is found.
    fn around(&mut self, model: &mut ModelBuilder, chosen: &mut Vec<Part>) {
        for _ in 0..20 {
            let row = self.row(|row| row.around);
            let Some(part) = (row.draw)(self, model) else { continue };
            let mut with = model.clone();
            if with.add(&part).is_ok() {
                *model = with;
                return chosen.push(part);
            }
        }
    }

    /// A row of the table of parts, each as often as it is to come.
    fn row(&mut self, often: fn(&parts::Row) -> u64) -> &'static parts::Row {
        let rows: Vec<_> = parts::TABLE.iter().map(|row| (row, often(row))).collect();
        self.weighted(&rows)
    }

    fn dtype(&mut self) -> DType {
        self.weighted(&DTYPES)
    }

    /// One of several, each as often as its number says.
    fn weighted<T: Copy>(&mut self, rows: &[(T, u64)]) -> T {
        let mut place = self.below(rows.iter().map(|row| row.1).sum());
        let chosen = rows.iter().find(|row| match place.checked_sub(row.1) {
            None => true,
            Some(rest) => {
                place = rest;
                false
            }
        });
        chosen.map_or(rows[0].0, |row| row.0)
    }

    /// Extents of so many axes, the first one mostly 1.
    fn shape(&mut self, rank: usize) -> Vec<i64> {
        let mut shape: Vec<i64> = (0..rank).map(|_| self.extent()).collect();
        if rank > 2 {
            shape[0] = if self.chance(60) { 1 } else { 1 + self.below(4) as i64 };
        }
        while shape.iter().product::<i64>() > MOST_ELEMENTS {
            let axis = self.below(rank as u64) as usize;
            shape[axis] = (shape[axis] / 2).max(1) + i64::from(self.chance(20));
        }
        shape
    }

    /// An extent: tiny, odd, prime, a power of two or beside one, a multiple of eight, any.
    pub(crate) fn extent(&mut self) -> i64 {
        match self.below(11) {
            0 | 1 => 1 + self.below(8) as i64,
            2 | 3 => 1 + 2 * self.below(50) as i64,
            4 | 5 => *self.pick(&PRIMES),
            6 | 7 => (8 << self.below(6)) + self.below(3) as i64 - 1,
            8 => 1 + self.below(64) as i64,
            _ => 8 * (1 + self.below(16) as i64),
        }
    }

    /// A number below a bound that is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound.max(1))
    }

    /// A number from one to another, both included.
    pub(crate) fn between(&mut self, least: i64, most: i64) -> i64 {
        least + self.below((most - least + 1).max(1) as u64) as i64
    }

    /// Whether something that happens so often of a hundred does.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    ///
    /// # Panics
    /// Of none.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}
