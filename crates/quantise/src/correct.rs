//! Biases that take up what rounding shifts: the mean that the result of a layer is off by, channel
//! by channel, is taken from its bias (Nagel et al., "Data-Free Quantization Through Weight
//! Equalization and Bias Correction", 2019, with means that samples show).
//!
//! Layers are corrected in their order, each for what it is off by behind all that were corrected
//! before: what clamps make of noise has a mean, too, and goes on to where they are read. The model
//! is compiled once for that, with what is added to biases as inputs.

use std::collections::BTreeMap;

use base::Result;
use tensor::{DType, Tensor};
use tilewright::compiled::DecodedModel;
use tilewright::compiled::proto::ValueInfoProto;

use crate::calibrate::{Values, Watched};
use crate::draft::{Draft, node};
use crate::operators::{Role, role};
use crate::plan::{Product, name_of};
use crate::weights::Grid;
use crate::{LayerChoice, Maker};

/// What is added to the bias of each layer, by its name.
pub(crate) type Corrections = BTreeMap<String, Vec<f64>>;

/// A layer that can be corrected.
struct Corrected {
    layer: String,
    /// What its product gives in the float model, and before its correction in the other.
    products: [String; 2],
    /// As many axes as the product's result has from that of its channels on, all but that of
    /// extent 1.
    shape: Vec<usize>,
}

/// Sums of elements along an axis of results.
#[derive(Default)]
struct Sums {
    sums: Vec<f64>,
    rows: usize,
}

impl Sums {
    /// Adds the elements of a value, whose channels are so many axes from its last.
    fn add(&mut self, tensor: &Tensor, behind: usize) {
        let shape = tensor.shape();
        let axis = shape.len().checked_sub(behind + 1);
        let Some((axis, elements)) = axis.zip(tensor.as_slice::<f32>()) else { return };
        let grid = Grid::along(shape, axis);
        self.sums.resize(shape[axis], 0.0);
        for (at, element) in elements.iter().enumerate() {
            self.sums[grid.scale_of(at)] += f64::from(*element);
        }
        self.rows += elements.len() / shape[axis].max(1);
    }

    fn means(&self) -> Vec<f64> {
        self.sums.iter().map(|sum| sum / self.rows.max(1) as f64).collect()
    }
}

impl Maker<'_> {
    /// What is to be added to the biases of a model of a choice.
    ///
    /// # Errors
    /// Those of compiling and running both models.
    pub(crate) fn corrections(
        &self,
        products: &[Product],
        choice: &LayerChoice,
    ) -> Result<Corrections> {
        let (model, layers) = self.correctable(products, choice)?;
        let names = |which: usize| layers.iter().map(|it| it.products[which].clone()).collect();
        let options = &self.settings.options;
        let mut right: Vec<Sums> = layers.iter().map(|_| Sums::default()).collect();
        let float = Watched::new(self.float, &names(0), options)?;
        for sample in self.samples {
            let values: Values = float.values(sample)?;
            for (layer, sums) in layers.iter().zip(&mut right) {
                if let Some(value) = values.get(&layer.products[0]) {
                    sums.add(value, layer.shape.len() - 1);
                }
            }
        }
        let zeros = |layer: &Corrected| vec![0.0; layer.shape[0]];
        let mut corrections: Vec<Vec<f64>> = layers.iter().map(zeros).collect();
        let watched = Watched::new(&model, &names(1), options)?;
        for (number, layer) in layers.iter().enumerate() {
            let mut found = Sums::default();
            for sample in self.samples {
                let mut given = sample.clone();
                for (layer, by) in layers.iter().zip(&corrections) {
                    let by: Vec<f32> = by.iter().map(|&it| it as f32).collect();
                    given.push(Tensor::from_vec(&layer.shape, by).into());
                }
                if let Some(value) = watched.values(&given)?.get(&layer.products[1]) {
                    found.add(value, layer.shape.len() - 1);
                }
            }
            let means = right[number].means().into_iter().zip(found.means());
            corrections[number] = means.map(|(right, found)| right - found).collect();
        }
        Ok(layers.into_iter().map(|layer| layer.layer).zip(corrections).collect())
    }

    /// The model with an input for what is added to each product whose bias can be corrected.
    fn correctable(
        &self,
        products: &[Product],
        choice: &LayerChoice,
    ) -> Result<(DecodedModel, Vec<Corrected>)> {
        let float = Draft::of(self.float)?;
        let mut draft = Draft::of(&self.make(choice, &Corrections::new())?.model)?;
        let mut layers = Vec::new();
        for product in products {
            let of = &float.nodes()[product.node];
            let Some(weight) = float.floats(&of.input[1])? else { continue };
            if bias_of(&float, product).is_none() {
                continue;
            }
            let rank = weight.shape().len();
            let axis = if product.axis < 0 { product.axis + rank as i64 } else { product.axis };
            let mut shape = vec![weight.shape()[axis as usize]];
            if matches!(of.op_type.as_str(), "Conv" | "ConvTranspose") {
                shape.resize(rank - 1, 1);
            }
            let is_layer = |node: &&mut _| name_of(node) == product.layer.name;
            let Some(found) = draft.proto.body_mut().node.iter_mut().find(is_layer) else {
                continue;
            };
            let result = found.output[0].clone();
            let [plain, by] = ["plain", "correction"].map(|suffix| draft.fresh(&result, suffix));
            let graph = draft.proto.body_mut();
            if let Some(found) =
                graph.node.iter_mut().find(|node| name_of(node) == product.layer.name)
            {
                found.output[0].clone_from(&plain);
            }
            graph.node.push(node("Add", &[&plain, &by], &result));
            graph.input.push(ValueInfoProto::of_tensor(&by, DType::F32, &shape));
            let products = [of.output[0].clone(), plain];
            layers.push(Corrected { layer: product.layer.name.clone(), products, shape });
        }
        Ok((draft.finish(), layers))
    }
}

/// The operand that can take up a correction of a product: its bias, or the constant that alone is
/// added behind it; its node and its place.
fn bias_of(draft: &Draft, product: &Product) -> Option<(usize, usize)> {
    if product.has_bias {
        return Some((product.node, 2));
    }
    let result = &draft.nodes()[product.node].output[0];
    let readers = draft.readers();
    let [reader] = readers.get(result)?.as_slice() else { return None };
    let sum = &draft.nodes()[*reader];
    let is_sum = sum.op_type == "Add" && role(sum) == Some(Role::Map);
    is_sum.then(|| (*reader, usize::from(sum.input[0] == *result)))
}

/// Adds to the bias of a product, or to the constant that alone is added behind it; a convolution
/// gets a bias where it has none. Other products are left as they are.
///
/// # Errors
/// Constants that cannot be read.
pub(crate) fn add_to_bias(draft: &mut Draft, product: &Product, by: &[f64]) -> Result<()> {
    let Some((number, operand)) = bias_of(draft, product) else { return Ok(()) };
    let node = &draft.nodes()[number];
    let name = node.input.get(operand).filter(|name| !name.is_empty()).cloned();
    let bias = match &name {
        None => vec![0.0; by.len()],
        Some(name) => match draft.floats(name)?.filter(|bias| bias.shape() == [by.len()]) {
            Some(bias) => bias.to_f64_vec(),
            None => return Ok(()),
        },
    };
    let sums: Vec<f32> = bias.iter().zip(by).map(|(bias, by)| (bias + by) as f32).collect();
    let base = name.unwrap_or_else(|| format!("{}/bias", node.output[0]));
    let name = draft.add_constant(&base, "corrected", &Tensor::from_vec(&[by.len()], sums));
    let node = &mut draft.proto.body_mut().node[number];
    while node.input.len() <= operand {
        node.input.push(String::new());
    }
    node.input[operand] = name;
    Ok(())
}
