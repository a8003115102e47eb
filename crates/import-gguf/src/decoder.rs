//! The parts that architectures are written with: embedding, norms, products, attention over what
//! is kept of the tokens before, and logits.
//!
//! A run is of the tokens of one text, or of a token of each of several: those differ in places and
//! in attention, which is of each text alone.
//!
//! Shapes are written with `t` for the tokens of a run, `w` for the width, `g` for heads of keys,
//! `d` for the size of a head, `n` for the pages of the cache.

use base::codes;
use front::{
    Accepted, Graph, Heads, KeyValues, Operand, PortExtent, Scores, attend, rotated, rows_product,
    standardize,
};
use graph::{Op, ValueId};
use sym::Expr;
use tensor::{DType, Reduction, ScalarFunction as F, Tensor};

use crate::configuration::{Configuration, Keys};
use crate::file::{ModelFile, ModelOrigin, TensorEntry, damaged};
use crate::model::PAGE_PLACES;

/// A model that is being written.
pub(crate) struct Decoder<'m> {
    pub(crate) file: &'m ModelFile,
    pub(crate) shape: &'m Configuration,
    pub(crate) graph: Graph,
    tokens: Operand,
    /// The place of each token: i64 `[t]`.
    places: Operand,
    rows: Operand,
    /// In which numbers keys and values are kept.
    key_values: KeyValues,
    /// What stands before the names of what is kept of each text.
    texts: Vec<String>,
    /// How many pages of places there are to see, as the inputs declare it.
    extent: PortExtent,
    /// How many places these are, in the graph.
    length: Expr,
    /// Cosines and sines of the tokens' angles, each `[1, 1, t, d / 2]`.
    angles: Option<(Operand, Operand)>,
    /// Keys and values as a run leaves them, by name.
    kept: Vec<(String, ValueId)>,
    /// What logits are computed of.
    hidden: Option<Operand>,
}

/// What an attention does besides what all do.
#[derive(Default)]
pub(crate) struct Variation {
    /// Whether the pairs that are rotated together are neighbours.
    pub(crate) interleaved: bool,
    /// The factor of scores, where it is not one over the root of a head's size.
    pub(crate) scale: Option<f64>,
    /// The bound that scores approach; 0 is none.
    pub(crate) cap: f64,
    /// How far back a token sees, its own place included.
    pub(crate) window: Option<i64>,
}

/// What is kept of each token in each layer.
#[derive(Clone, Copy)]
pub(crate) enum KeptPart {
    Keys,
    Values,
}

impl KeptPart {
    /// What it is called behind the layer.
    pub(crate) fn name(self) -> &'static str {
        match self {
            KeptPart::Keys => "keys",
            KeptPart::Values => "values",
        }
    }

    /// The extents of a page, as products run along them: keys `[g, d, PAGE_PLACES]`, values
    /// `[g, PAGE_PLACES, d]`.
    pub(crate) fn page(self, shape: &Configuration) -> [usize; 3] {
        let (heads, size) = (shape.key_heads as usize, shape.head as usize);
        match self {
            KeptPart::Keys => [heads, size, PAGE_PLACES],
            KeptPart::Values => [heads, PAGE_PLACES, size],
        }
    }

    /// What is kept of it in these numbers: what stands behind its name, the element type, and the
    /// extents of a page.
    pub(crate) fn tensors(
        self,
        shape: &Configuration,
        key_values: KeyValues,
    ) -> Vec<(&'static str, DType, Vec<usize>)> {
        let mut all = vec![("", key_values.dtype(), self.page(shape).to_vec())];
        if key_values == KeyValues::Int8 {
            let heads = shape.key_heads as usize;
            all.push((".scales", DType::F32, vec![heads, PAGE_PLACES]));
        }
        all
    }

    /// Which of the extents of a page the places are.
    fn places_at(self) -> usize {
        match self {
            KeptPart::Keys => 2,
            KeptPart::Values => 1,
        }
    }
}

impl<'m> Decoder<'m> {
    /// Begins a model with the inputs of these extents.
    pub(crate) fn new(
        file: &'m ModelFile,
        shape: &'m Configuration,
        mut graph: Graph,
        [tokens, position, rows]: [&[PortExtent]; 3],
        (extent, key_values, texts): (PortExtent, KeyValues, Vec<String>),
    ) -> Accepted<Decoder<'m>> {
        let tokens = graph.parameter("tokens", DType::I64, tokens)?;
        let position = graph.parameter("position", DType::I64, position)?;
        let rows = graph.parameter("rows", DType::I64, rows)?;
        let places = match texts.len() {
            1 => {
                let count = graph.iota(DType::I64, tokens.shape(), 0)?;
                graph.add(&count, &position)?
            }
            _ => position,
        };
        let length = Expr::ZERO;
        let (angles, kept, hidden) = (None, Vec::new(), None);
        Ok(Decoder {
            file,
            shape,
            graph,
            tokens,
            places,
            rows,
            key_values,
            texts,
            extent,
            length,
            angles,
            kept,
            hidden,
        })
    }

    /// The keys of the architecture.
    pub(crate) fn keys(&self) -> Keys<'m> {
        Keys { file: self.file, architecture: &self.shape.architecture }
    }

    /// Whether the file has a tensor.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.file.tensors.contains_key(name)
    }

    /// Whether pairs of neighbours are rotated together in the queries and keys of architectures
    /// like Llama: whoever writes GGUF brings them together, in safetensors they are half a head
    /// apart.
    pub(crate) fn has_neighbours(&self) -> bool {
        self.file.origin == ModelOrigin::Gguf
    }

    fn entry(&self, name: &str, shape: &[i64]) -> Accepted<&'m TensorEntry> {
        let Some(entry) = self.file.tensors.get(name) else {
            return Err(damaged(format!("the tensor \"{name}\" is missing")));
        };
        if !entry.shape.iter().map(|&extent| extent as i64).eq(shape.iter().copied()) {
            let own = &entry.shape;
            let reason = format!("its shape is {own:?}, where the keys ask for {shape:?}");
            return Err(damaged(reason).at(format!("tensor \"{name}\"")));
        }
        Ok(entry)
    }

    /// A tensor as it is stored.
    fn stored(&self, name: &str, entry: &TensorEntry) -> Accepted<Operand> {
        let (dtype, shape) = entry.format.stored(&entry.shape);
        let tensor = Tensor::from_bytes(dtype, &shape, entry.bytes.clone()).map_err(damaged)?;
        Ok(Operand::of_weight(name.to_owned(), tensor))
    }

    /// A vector, or another tensor whose rows are no blocks, in f32.
    pub(crate) fn vector(&mut self, name: &str, extent: i64) -> Accepted<Operand> {
        let entry = self.entry(name, &[extent])?;
        if entry.format.elements != 1 {
            return Err(damaged("a vector in blocks").at(format!("tensor \"{name}\"")));
        }
        let stored = self.stored(name, entry)?;
        entry.format.numbers(&mut self.graph, &stored)
    }

    fn locate(&mut self, name: &str, what: &str) {
        let location = self.graph.builder.locations().node(name.to_owned(), what.to_owned());
        self.graph.builder.set_location(location);
    }

    /// The rows of the embedding that are the tokens: `[t, w]`.
    pub(crate) fn embedding(&mut self) -> Accepted<Operand> {
        let name = "token_embd.weight";
        self.locate(name, "embedding");
        let entry = self.entry(name, &[self.shape.vocabulary, self.shape.width])?;
        let stored = self.stored(name, entry)?;
        let index = std::slice::from_ref(&self.tokens);
        let rows = self.graph.gather(&stored, &[0], index, 0, 0)?;
        entry.format.numbers(&mut self.graph, &rows)
    }

    /// `x` over the root of its mean square along the last axis, times a vector.
    pub(crate) fn norm(&mut self, x: &Operand, name: &str) -> Accepted<Operand> {
        self.norm_from(x, name, 0.0)
    }

    /// The same, of which the vector says how much more than a number it is.
    pub(crate) fn norm_from(&mut self, x: &Operand, name: &str, from: f64) -> Accepted<Operand> {
        let name = format!("{name}.weight");
        self.locate(&name, "norm");
        let last = x.rank() - 1;
        let extent = x.shape()[last].as_constant().unwrap_or(0);
        let mut weight = self.vector(&name, extent)?;
        if from != 0.0 {
            weight = self.graph.add_number(&weight, from)?;
        }
        let epsilon = self.shape.epsilon;
        let (normal, _) = front::over_root_mean_square(&mut self.graph, x, &[last], epsilon)?;
        self.graph.mul(&normal, &weight)
    }

    /// `x` with mean 0 and variance 1 along the last axis.
    pub(crate) fn standardised(&mut self, x: &Operand) -> Accepted<Operand> {
        let (normal, ..) = standardize(&mut self.graph, x, &[x.rank() - 1], self.shape.epsilon)?;
        Ok(normal)
    }

    /// The product with a matrix `[outputs, inputs]`, and its bias where the file has one.
    pub(crate) fn product(&mut self, x: &Operand, name: &str, outputs: i64) -> Accepted<Operand> {
        let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
        let inputs = x.shape()[x.rank() - 1].as_constant().unwrap_or(0);
        let entry = self.entry(&weight, &[outputs, inputs])?;
        let result = self.product_with(x, &weight, entry)?;
        if !self.has(&bias) {
            return Ok(result);
        }
        let bias = self.vector(&bias, outputs)?;
        self.graph.add(&result, &bias)
    }

    fn product_with(&mut self, x: &Operand, name: &str, entry: &TensorEntry) -> Accepted<Operand> {
        self.locate(name, "product");
        let stored = self.stored(name, entry)?;
        let numbers = entry.format.numbers(&mut self.graph, &stored)?;
        rows_product(&mut self.graph, x, &numbers)
    }

    /// The product with the matrix `[outputs, inputs]` of an expert of a layer, which has a tensor
    /// of its own or is part of one for all.
    pub(crate) fn expert_product(
        &mut self,
        x: &Operand,
        (layer, part): (i64, &str),
        (expert, count): (i64, i64),
        outputs: i64,
    ) -> Accepted<Operand> {
        let own = format!("blk.{layer}.{part}.{expert}");
        let all = format!("blk.{layer}.{part}_exps.weight");
        if !self.has(&all) {
            return self.product(x, &own, outputs);
        }
        let inputs = x.shape()[x.rank() - 1].as_constant().unwrap_or(0);
        let mut entry = self.entry(&all, &[count, outputs, inputs])?.clone();
        let size = entry.bytes.len() / count as usize;
        let from = expert as usize * size;
        entry.bytes = entry.bytes.slice(from..from + size);
        entry.shape.remove(0);
        self.product_with(x, &format!("{own}.weight"), &entry)
    }

    /// `[t, h * d]` as `[1, h, t, d]`.
    pub(crate) fn heads(&mut self, x: &Operand, heads: i64) -> Accepted<Operand> {
        let shape =
            [Expr::ONE, x.shape()[0].clone(), Expr::from(heads), Expr::from(self.shape.head)];
        let split = self.graph.reshape(x, &shape)?;
        self.graph.transpose(&split, &[0, 2, 1, 3])
    }

    /// Cosines and sines of the angles that places turn pairs by. A tensor may divide them.
    fn turns(&mut self) -> Accepted<(Operand, Operand)> {
        if let Some(angles) = &self.angles {
            return Ok(angles.clone());
        }
        let (half, size) = (self.shape.rotated / 2, self.shape.rotated as f64);
        let stretch = self.shape.stretch;
        let angle = |pair: i64| {
            let turn = (1.0 / self.shape.base.powf(2.0 * pair as f64 / size)) as f32;
            (f64::from(turn) / stretch) as f32
        };
        let turns: Vec<f32> = (0..half).map(angle).collect();
        let turns = Tensor::from_slice(&[turns.len()], &turns);
        let mut turns = Operand::of_weight("rope.turns".to_owned(), turns);
        let name = ["rope_freqs.weight", "rope_factors_short.weight"];
        if let Some(name) = name.into_iter().find(|name| self.has(name)) {
            let factors = self.vector(name, half)?;
            turns = self.graph.div(&turns, &factors)?;
        }
        self.locate("rope", "angles");
        let places = self.graph.cast(&self.places, DType::F32)?;
        let count = places.shape()[0].clone();
        let places = self.graph.reshape(&places, &[Expr::ONE, Expr::ONE, count, Expr::ONE])?;
        let angles = self.graph.mul(&places, &turns)?;
        let magnitude = self.keys().factor("rope.scaling.attn_factor")?;
        let mut of = |function: F| {
            let value = self.graph.map(function, &[&angles])?;
            if magnitude == 1.0 { Ok(value) } else { self.graph.mul_number(&value, magnitude) }
        };
        let pair = (of(F::Cos)?, of(F::Sin)?);
        self.angles = Some(pair.clone());
        Ok(pair)
    }

    /// What has been kept of a text, with rows of this run `[1, g, t, d]` at their places: its
    /// pages with an axis of one in front, and what each place is to be multiplied by.
    fn keep(
        &mut self,
        new: &Operand,
        places: &Operand,
        (text, layer, part): (usize, i64, KeptPart),
    ) -> Accepted<(Operand, Option<Operand>)> {
        let turned = self.graph.transpose(new, &[0, 2, 1, 3])?;
        let rows = self.graph.reshape(&turned, &turned.shape().to_vec()[1..])?;
        let mut rows = match self.key_values {
            KeyValues::Int8 => rounded_rows(&mut self.graph, &rows)?,
            other => vec![self.graph.cast(&rows, other.dtype())?],
        }
        .into_iter();
        let mut places_at = part.places_at();
        let mut kept = Vec::new();
        for (behind, dtype, page) in part.tensors(self.shape, self.key_values) {
            let Some(rows) = rows.next() else { break };
            let fixed = page.into_iter().map(PortExtent::Fixed);
            let extents: Vec<PortExtent> = [self.extent.clone()].into_iter().chain(fixed).collect();
            let prefix = self.texts[text].clone();
            let name = format!("{layer}.{}{behind}", part.name());
            let past = self.graph.parameter(&format!("{prefix}past.{name}"), dtype, &extents)?;
            let present = self.with_rows(&past, &rows, places, places_at)?;
            let id = self.graph.data(&present)?;
            self.kept.push((format!("{prefix}present.{name}"), id));
            self.length = &past.shape()[0] * PAGE_PLACES as i64;
            let one = [&[Expr::ONE], present.shape()].concat();
            kept.push(self.graph.reshape(&present, &one)?);
            // Behind what is kept come scales, which heads and places have.
            places_at = 1;
        }
        let mut kept = kept.into_iter();
        let Some(pages) = kept.next() else { return Err(damaged("nothing is kept")) };
        Ok((pages, kept.next()))
    }

    /// Pages with rows at their places, which are an axis of a page.
    fn with_rows(
        &mut self,
        past: &Operand,
        rows: &Operand,
        places: &Operand,
        places_at: usize,
    ) -> Accepted<Operand> {
        let axes = vec![0, 1 + places_at];
        let op = Op::Scatter { axes, batch: 0, position: 0, reduction: None };
        let size = self.graph.number(DType::I64, PAGE_PLACES as f64);
        let page = self.graph.div(places, &size)?;
        let before = self.graph.mul(&page, &size)?;
        let row = self.graph.sub(places, &before)?;
        self.graph.scatter(past, rows, &[page, row], op)
    }

    /// Attention of queries `[1, h, t, d]` over keys and values `[1, g, t, d]` and those before
    /// them: `[t, h * d]`.
    pub(crate) fn attention(
        &mut self,
        layer: i64,
        heads: Heads,
        variation: &Variation,
    ) -> Accepted<Operand> {
        self.locate(&format!("blk.{layer}.attention"), "attention");
        let Heads { mut query, mut key, value } = heads;
        for x in [&mut query, &mut key] {
            let (turns, size) = (self.turns()?, self.shape.rotated);
            *x = rotated(&mut self.graph, x, turns, size, variation.interleaved)?;
        }
        let places = self.places.clone();
        let result = if self.texts.len() == 1 {
            let heads = Heads { query, key, value };
            self.attention_of(0, layer, heads, &places, variation)?
        } else {
            let mut results = Vec::new();
            for text in 0..self.texts.len() {
                let mut own = |x: &Operand, axis: usize| {
                    self.graph.slice_axis(x, axis, Expr::from(text as i64), 1, Expr::ONE)
                };
                let heads =
                    Heads { query: own(&query, 2)?, key: own(&key, 2)?, value: own(&value, 2)? };
                let place = own(&places, 0)?;
                results.push(self.attention_of(text, layer, heads, &place, variation)?);
            }
            self.graph.concat(2, &results)?
        };
        let turned = self.graph.transpose(&result, &[0, 2, 1, 3])?;
        let count = places.shape()[0].clone();
        self.graph.reshape(&turned, &[count, Expr::from(self.shape.heads * self.shape.head)])
    }

    /// Attention of the rows of a text, rotated, at their places: `[1, h, t, d]`.
    fn attention_of(
        &mut self,
        text: usize,
        layer: i64,
        Heads { query, key, value }: Heads,
        places: &Operand,
        variation: &Variation,
    ) -> Accepted<Operand> {
        let (key, key_factors) = self.keep(&key, places, (text, layer, KeptPart::Keys))?;
        let (value, value_factors) = self.keep(&value, places, (text, layer, KeptPart::Values))?;
        let graph = &mut self.graph;
        let place = graph.iota(DType::I64, std::slice::from_ref(&self.length), 0)?;
        let own = graph.reshape(places, &[places.shape()[0].clone(), Expr::ONE])?;
        let mut allowed = graph.less_equal(&place, &own)?;
        if let Some(window) = variation.window {
            let width = graph.number(DType::I64, window as f64);
            let first = graph.sub(&own, &width)?;
            let inside = graph.greater(&place, &first)?;
            allowed = graph.and(&allowed, &inside)?;
        }
        let (allowed, cap) = (Some(allowed), variation.cap);
        let scores = Scores { key_factors, value_factors, allowed, cap, ..Scores::default() };
        let scale = variation.scale.unwrap_or_else(|| 1.0 / (self.shape.head as f64).sqrt());
        let [result, ..] = attend(graph, &Heads { query, key, value }, scale, &scores)?;
        Ok(result)
    }

    /// The rows whose logits are asked for: `[rows, w]`.
    pub(crate) fn chosen(&mut self, x: &Operand) -> Accepted<Operand> {
        self.graph.gather(x, &[0], std::slice::from_ref(&self.rows), 0, 0)
    }

    /// Logits of rows: the product with the output matrix, or the embedding where there is none.
    pub(crate) fn logits(&mut self, x: &Operand) -> Accepted<Operand> {
        self.hidden = Some(x.clone());
        let name = if self.has("output.weight") { "output" } else { "token_embd" };
        self.product(x, name, self.shape.vocabulary)
    }

    /// Ends the model.
    pub(crate) fn finish(mut self, logits: &Operand) -> Accepted<(Graph, Vec<(String, ValueId)>)> {
        let mut results = vec![("logits".to_owned(), self.graph.data(logits)?)];
        if let Some(hidden) = &self.hidden {
            results.push(("hidden".to_owned(), self.graph.data(hidden)?));
        }
        results.append(&mut self.kept);
        Ok((self.graph, results))
    }
}

/// Rows `[t, g, d]` in 8 bits, with a scale for each head of each: the greatest is 127.
fn rounded_rows(graph: &mut Graph, rows: &Operand) -> Accepted<Vec<Operand>> {
    let size = graph.map(F::Abs, &[rows])?;
    let greatest = graph.reduce_axes(&size, &[2], Reduction::Max, true)?;
    let scale = graph.mul_number(&greatest, 1.0 / 127.0)?;
    let (zero, one) = (graph.number(DType::F32, 0.0), graph.number(DType::F32, 1.0));
    let is_empty = graph.equal(&scale, &zero)?;
    let divisor = graph.select(&is_empty, &one, &scale)?;
    let quotient = graph.div(rows, &divisor)?;
    let rounded = graph.map(F::Round, &[&quotient])?;
    let numbers = graph.cast(&rounded, DType::I8)?;
    let scales = graph.reshape(&scale, &scale.shape().to_vec()[..2])?;
    Ok(vec![numbers, scales])
}

/// The refusal of an architecture that is not in the table.
pub(crate) fn unknown_architecture(name: &str, known: &[&str]) -> base::Diagnostic {
    base::Diagnostic::error(codes::UNSUPPORTED_OPERATOR, format!("the architecture \"{name}\""))
        .at("key \"general.architecture\"")
        .because(format!("these are known: {}", known.join(", ")))
        .remedy("export the model as ONNX")
}
