//! What a windowed contraction should cost, directly and by minimal filtering, from the target row
//! alone; of targets that should give the same bits, from the same row.
//!
//! Both are the larger of arithmetic and of the constants read once from memory. Minimal filtering
//! adds the transforms, and the traffic of `V` and `M`, which are written and read once each, from
//! the smallest cache that holds both; of a filter that is computed at run time also its transform
//! and the traffic of `U`. Extents that are not known yet count as [`UNKNOWN`].

use backend::Target;
use backend::tile::div_ceil;
use sym::Expr;

use super::cook_toom::{MOST_PRODUCTS, Transforms};
use super::numbers::Numbers;
use super::problem::Problem;
use crate::contraction::Contraction;
use crate::panels::Products;

/// What an extent counts as that is known only while running.
const UNKNOWN: i64 = 64;

/// Minimal filtering is chosen if it takes at most this share of the time.
const PAYS: f64 = 0.9;

/// The most products of a transform where the filter is computed in each run, as where a model is
/// trained. With six a sum of 64 channels errs twice as much as one chain of all its terms, with
/// four two thirds as much. Gradients jump where an error changes the sign in front of a `relu`.
const MOST_PRODUCTS_ANEW: i64 = 4;

/// What forms that leave a window as it is have to save beside others: they take longer than
/// predicted.
const HALFWAY: f64 = 1.1;

/// The share of the time that products of bf16 take: half, if panels and rows came as fast as they
/// are multiplied.
const SHORT: f64 = 0.6;

/// What filters may grow by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PriceOfGrowth {
    /// What a byte has to save, in nanoseconds a run.
    pub(super) of_byte: f64,
    /// Bytes that all of them, and so any, may grow by.
    pub(super) most: f64,
}

impl PriceOfGrowth {
    /// Nanoseconds that so many bytes have to save.
    fn of(self, bytes: f64) -> f64 {
        self.of_byte * bytes
    }
}

/// What was chosen.
pub(super) struct Choice {
    /// Outputs of a tile along each window.
    pub(super) outputs: Vec<i64>,
    /// Whether it should be faster than the direct sum.
    pub(super) pays: bool,
    /// Both predictions, for a reader.
    pub(super) message: String,
}

/// The sizes of a contraction.
struct Sizes {
    /// Results along each window.
    spatial: Vec<i64>,
    taps: Vec<i64>,
    dilations: Vec<i64>,
    /// Points of the result's axes that both operands, the data alone and the filter alone read,
    /// windows left out.
    shared: i64,
    rows: i64,
    columns: i64,
    /// Terms of each sum but for the taps.
    depth: i64,
    /// Whether the filter is transformed in each run.
    filters_anew: bool,
    numbers: Numbers,
}

/// What minimal filtering is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direct {
    /// The direct sum of products of f32.
    Long,
    /// That of products of bf16: half the bytes, and twice the products a cycle.
    Short,
}

/// The forms that a contraction may take.
pub(super) struct Forms {
    /// Nanoseconds of the direct sum.
    direct: f64,
    /// Bytes of the filter as it is.
    filter_bytes: f64,
    /// Whether the filter is transformed in each run, so that no constant grows.
    filters_anew: bool,
    filtered: Vec<Form>,
    windows: usize,
}

/// A number of outputs along each window, and what it costs.
struct Form {
    outputs: Vec<i64>,
    nanoseconds: f64,
    /// Bytes of the transformed filter.
    bytes: f64,
}

impl Forms {
    /// All of them, with their costs: of floats by the row that decides for a target, of integers,
    /// which have the same bits in any form, by its own.
    pub(super) fn of(contraction: &Contraction, problem: &Problem, target: &Target) -> Forms {
        let sizes = Sizes::of(contraction, problem);
        let deciding;
        let target = match sizes.numbers {
            Numbers::Floats => {
                deciding = target.deciding();
                &deciding
            }
            Numbers::Integers(_) => target,
        };
        let form = |outputs: Vec<i64>| {
            let (nanoseconds, bytes) = filtered(&sizes, &outputs, target);
            Form { outputs, nanoseconds, bytes }
        };
        Forms {
            direct: direct(&sizes, target),
            filter_bytes: sizes.filter_bytes(),
            filters_anew: sizes.filters_anew,
            filtered: candidates(&sizes, target).into_iter().map(form).collect(),
            windows: sizes.taps.len(),
        }
    }

    /// Bytes that the filter grows by in a form.
    fn growth(&self, form: &Form) -> f64 {
        if self.filters_anew {
            return 0.0;
        }
        (form.bytes - self.filter_bytes).max(0.0)
    }

    /// The cheapest form by minimal filtering with its bytes paid for, of those that pay if any
    /// does, and whether it pays.
    fn cheapest(&self, against: Direct, price: PriceOfGrowth) -> Option<(&Form, bool)> {
        let priced = |form: &Form| form.nanoseconds + price.of(self.growth(form));
        let pays = |form: &Form| {
            self.growth(form) <= price.most && priced(form) <= self.directly(against) * PAYS
        };
        let halfway = |form: &Form| if form.outputs.contains(&1) { HALFWAY } else { 1.0 };
        let rank = |form: &Form| (!pays(form), priced(form) * halfway(form));
        let by_rank = |one: &&Form, two: &&Form| {
            let (one, two) = (rank(one), rank(two));
            one.0.cmp(&two.0).then(one.1.total_cmp(&two.1))
        };
        let best = self.filtered.iter().min_by(by_rank)?;
        Some((best, pays(best)))
    }

    /// Nanoseconds of what minimal filtering is compared with.
    fn directly(&self, against: Direct) -> f64 {
        self.direct * if against == Direct::Short { SHORT } else { 1.0 }
    }

    /// Bytes that the filter grows by at a price.
    pub(super) fn growth_at(&self, price: PriceOfGrowth) -> f64 {
        match self.cheapest(Direct::Long, price) {
            Some((form, true)) => self.growth(form),
            _ => 0.0,
        }
    }

    /// The cheapest outputs a tile, and whether they pay.
    pub(super) fn choose(&self, against: Direct, price: PriceOfGrowth) -> Choice {
        let Some((form, pays)) = self.cheapest(against, price) else {
            let message =
                "no winograd: its integers fit no transforms, or are not multiplied in pairs";
            return Choice {
                outputs: vec![1; self.windows],
                pays: false,
                message: message.to_owned(),
            };
        };
        let names: Vec<String> = form.outputs.iter().map(i64::to_string).collect();
        let message = format!(
            "{}winograd F({}): predicted {:.1} us, and {:.1} MB of filter for {:.1}; \
             directly {:.1} us",
            if pays { "" } else { "no " },
            names.join("x"),
            form.nanoseconds / 1e3,
            form.bytes / 1e6,
            self.filter_bytes / 1e6,
            self.directly(against) / 1e3,
        );
        Choice { outputs: form.outputs.clone(), pays, message }
    }
}

impl Sizes {
    fn of(contraction: &Contraction, problem: &Problem) -> Sizes {
        let space = &contraction.space;
        let number = |extent: &Expr| extent.as_constant().unwrap_or(UNKNOWN);
        let windows = &problem.windows;
        let mut sizes = Sizes {
            spatial: windows.iter().map(|w| number(&space.extents[w.spatial])).collect(),
            taps: windows.iter().map(|window| window.taps).collect(),
            dilations: windows.iter().map(|window| window.dilation).collect(),
            shared: 1,
            rows: 1,
            columns: 1,
            depth: 1,
            filters_anew: !contraction.operands[1 - problem.data].constant,
            numbers: problem.numbers,
        };
        for (axis, extent) in space.extents.iter().enumerate() {
            if windows.iter().any(|window| window.spatial == axis || window.tap == axis) {
                continue;
            }
            let reads = [problem.data, 1 - problem.data].map(|own| contraction.reads(own, axis));
            let count = match reads {
                _ if axis >= space.parallel => &mut sizes.depth,
                [true, true] => &mut sizes.shared,
                [true, false] => &mut sizes.rows,
                [false, _] => &mut sizes.columns,
            };
            *count *= number(extent);
        }
        sizes
    }

    /// Bytes of the filter.
    fn filter_bytes(&self) -> f64 {
        let taps: i64 = self.taps.iter().product();
        (self.shared * self.depth * taps * self.columns * self.numbers.operand_bytes()) as f64
    }

    /// Cycles of so many products of so many rows, of sums of so many terms.
    fn products(&self, target: &Target, rows: i64, depth: i64, count: i64) -> f64 {
        let (instruction, at_once) = match self.numbers.instruction(target) {
            Some((cost, terms)) => (Some(cost), terms),
            None => (None, 1),
        };
        let (columns, depth) = (self.columns, div_ceil(depth, at_once));
        Products { rows, columns, depth, count, bytes: 4, instruction }.cycles(target)
    }

    /// The transforms of the windows that are cut into so many outputs each, with these and with
    /// their taps; none where there are none, or they do not fit the numbers.
    fn cut(&self, outputs: &[i64]) -> Option<Vec<(&'static Transforms, i64, i64)>> {
        let windows = outputs.iter().copied().zip(self.taps.iter().copied());
        let cut = windows.filter(|(outputs, _)| *outputs > 1);
        let of = |(outputs, taps)| Some((self.numbers.transforms(outputs, taps)?, outputs, taps));
        let found: Vec<_> = cut.map(of).collect::<Option<_>>()?;
        let transforms: Vec<&Transforms> = found.iter().map(|(own, ..)| *own).collect();
        self.numbers.allow(&transforms).then_some(found)
    }
}

/// All numbers of outputs along each window that are worth a thought: 1 leaves it as it is.
fn candidates(sizes: &Sizes, target: &Target) -> Vec<Vec<i64>> {
    if sizes.numbers != Numbers::Floats && sizes.numbers.instruction(target).is_none() {
        return Vec::new();
    }
    let mut all = vec![Vec::new()];
    for (at, &taps) in sizes.taps.iter().enumerate() {
        let of_phase = div_ceil(sizes.spatial[at], sizes.dilations[at]);
        let products = if sizes.filters_anew { MOST_PRODUCTS_ANEW } else { MOST_PRODUCTS };
        let most = (products + 1 - taps).min(of_phase.max(2)).max(1);
        let longer = |found: &Vec<i64>| {
            let found = found.clone();
            (1..=most).map(move |outputs| [&found[..], &[outputs]].concat())
        };
        all = all.iter().flat_map(longer).collect();
    }
    all.retain(|outputs| outputs.iter().any(|outputs| *outputs > 1));
    all.retain(|outputs| sizes.cut(outputs).is_some());
    all
}

fn direct(sizes: &Sizes, target: &Target) -> f64 {
    let taps: i64 = sizes.taps.iter().product();
    let (last, others) = sizes.spatial.split_last().expect("there is a window");
    let count = others.iter().product::<i64>() * sizes.rows * sizes.shared;
    let cycles = sizes.products(target, *last, sizes.depth * taps, count);
    (cycles / target.machine.cycles_per_ns)
        .max(sizes.filter_bytes() / target.machine.stream_bytes_per_ns)
}

/// Nanoseconds of transforms and product, and bytes of the transformed filter.
fn filtered(sizes: &Sizes, outputs: &[i64], target: &Target) -> (f64, f64) {
    // Results a whole number of dilations apart are a window's of their own.
    let tiles = |at: usize| match (sizes.spatial[at], outputs[at], sizes.dilations[at]) {
        (extent, 1, _) => extent,
        (extent, outputs, phases) => phases * div_ceil(div_ceil(extent, phases), outputs),
    };
    let rows = sizes.rows * (0..outputs.len()).map(tiles).product::<i64>();
    let Some(cut) = sizes.cut(outputs) else { return (f64::INFINITY, 0.0) };
    let points: Vec<i64> = cut.iter().map(|(_, m, r)| m + r - 1).collect();
    let entries = points.iter().product::<i64>() * sizes.shared;
    let whole = outputs.iter().zip(&sizes.taps).filter(|(outputs, _)| **outputs == 1);
    let depth = sizes.depth * whole.map(|(_, taps)| taps).product::<i64>();
    let bytes = sizes.numbers.operand_bytes();
    let constants = (entries * depth * sizes.columns * bytes) as f64;
    let arithmetic = sizes.products(target, rows, depth, entries) / target.machine.cycles_per_ns;
    let product = arithmetic.max(constants / target.machine.stream_bytes_per_ns);

    let lanes = i64::from(target.vector_bytes / 4);
    let transforms: Vec<&Transforms> = cut.iter().map(|(own, ..)| *own).collect();
    let taps: Vec<i64> = cut.iter().map(|(.., taps)| *taps).collect();
    let outputs: Vec<i64> = cut.iter().map(|(_, outputs, _)| *outputs).collect();
    let (into, out_of) = operations(&transforms, &points, &outputs);
    let vectors = |channels: i64| (rows * sizes.shared * div_ceil(channels, lanes)) as f64;
    let cycles = vectors(sizes.depth) * into + vectors(sizes.columns) * out_of;

    let bytes = (rows * entries * (sizes.depth * bytes + sizes.columns * 4)) as f64;
    let mut traffic = bytes * target.machine.cycles_to_hand_on(bytes);
    if sizes.filters_anew {
        let vectors = sizes.shared * depth * div_ceil(sizes.columns, lanes);
        traffic += vectors as f64 * of_filter(&transforms, &points, &taps);
        traffic += constants * target.machine.cycles_to_hand_on(constants);
    }
    (product + (cycles + traffic) / target.machine.cycles_per_ns, constants)
}

/// Cycles to transform one vector of a filter: a cycle a product, and a cycle a store.
fn of_filter(transforms: &[&Transforms], points: &[i64], taps: &[i64]) -> f64 {
    let entries = |at: usize| {
        let entries = transforms[at].filter.iter().flatten();
        entries.filter(|entry| !entry.is_zero()).count() as i64
    };
    let around = |at: usize| {
        // The last axis is done first.
        taps[..at].iter().product::<i64>() * points[at + 1..].iter().product::<i64>()
    };
    let along = |at: usize| (entries(at) + points[at]) * around(at);
    (0..transforms.len()).map(along).sum::<i64>() as f64
}

/// Cycles of both transforms for one vector of a tile: a cycle an operation, and a cycle a store.
fn operations(transforms: &[&Transforms], points: &[i64], outputs: &[i64]) -> (f64, f64) {
    let (mut into, mut out_of) = (points.iter().product::<i64>(), outputs.iter().product::<i64>());
    for (at, transforms) in transforms.iter().enumerate() {
        let others = |counts: &[i64]| counts.iter().product::<i64>();
        // Axes to come count as many as they have points, those that are done as they have outputs.
        let around = others(&points[..at]) * others(&points[at + 1..]);
        let [input, output] = transforms.additions;
        into += input * around;
        out_of += output * others(&outputs[..at]) * others(&points[at + 1..]);
    }
    (into as f64, out_of as f64)
}
