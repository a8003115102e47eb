//! Which values become bytes, and which nodes compute with them.
//!
//! A product takes bytes for what it multiplies. What a convolution gives becomes bytes, too,
//! unless it is an output of the model: behind clamps and, for products without a bias of their
//! own, the constant added, as far as no other node reads what stands between. What a product of
//! matrices gives becomes bytes only where another product reads it: engines have such products
//! with floats for results, and sums of what was added over many layers lose most by rounding. From
//! there bytes pass through the operators that have a role, as long as all that they read are
//! bytes. ONNX Runtime looks for the same forms.

use std::collections::{BTreeMap, BTreeSet};

use base::nearest::nearest;
use base::{Diagnostic, Result, codes};
use tensor::DType;
use tilewright::compiled::proto::NodeProto;

use crate::draft::Draft;
use crate::operators::{Role, role};

/// A node that multiplies, and what it is called.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// The node's name, or that of its result where it has none.
    pub(crate) name: String,
    pub(crate) operator: String,
    /// What it gives, behind what is part of it.
    pub(crate) result: String,
}

/// A product of bytes.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub(crate) node: usize,
    pub(crate) axis: i64,
    pub(crate) has_bias: bool,
    /// Whether its second operand is a constant.
    pub(crate) has_weight: bool,
    pub(crate) layer: Layer,
}

/// What is to become of a model.
#[derive(Default)]
pub(crate) struct Plan {
    /// The values that become bytes, each with the one whose range it has: itself, or what it is
    /// a movement of.
    pub(crate) bytes: BTreeMap<String, String>,
    pub(crate) products: Vec<Product>,
    /// Clamps that are part of what they read, by node.
    pub(crate) clamps: Vec<usize>,
}

/// What a layer is called in reports and on the command line.
pub(crate) fn name_of(node: &NodeProto) -> String {
    match node.name.as_str() {
        "" => node.output.first().cloned().unwrap_or_default(),
        name => name.to_owned(),
    }
}

/// The nodes whose constant operand can be a weight of bytes.
pub(crate) fn layers(draft: &Draft) -> Vec<String> {
    let is_layer = |node: &&NodeProto| matches!(role(node), Some(Role::Product { .. }));
    draft.nodes().iter().filter(is_layer).map(name_of).collect()
}

/// Checks that layers have all of these names.
pub(crate) fn check_names(draft: &Draft, names: &BTreeSet<String>) -> Result<()> {
    let known = layers(draft);
    let mut found = base::Diagnostics::new();
    for name in names.iter().filter(|name| !known.contains(name)) {
        let remedy = match nearest(name, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "the report lists all layers".to_owned(),
        };
        found.push(
            Diagnostic::error(codes::UNKNOWN_LAYER, format!("no layer is called `{name}`"))
                .at(name.clone())
                .because("layers are nodes that multiply; one without a name has its result's")
                .remedy(remedy),
        );
    }
    found.or_ok(())
}

/// Plans a model, of whose values these are known to be floats.
pub(crate) fn plan(
    draft: &Draft,
    floats: &BTreeSet<String>,
    keep_float: &BTreeSet<String>,
) -> Result<Plan> {
    let planner = Planner { draft, floats, readers: draft.readers(), outputs: draft.outputs() };
    let mut plan = Plan::default();
    for (number, node) in draft.nodes().iter().enumerate() {
        match role(node) {
            Some(Role::Product { axis, has_bias }) if !keep_float.contains(&name_of(node)) => {
                planner.product(&mut plan, (number, node), axis, has_bias)?;
            }
            Some(Role::Map) => planner.map(&mut plan, node)?,
            Some(Role::Clamp) if !plan.clamps.contains(&number) => {
                planner.map(&mut plan, node)?;
            }
            Some(Role::Movement) => planner.movement(&mut plan, node),
            _ => {}
        }
    }
    Ok(plan)
}

struct Planner<'a> {
    draft: &'a Draft,
    floats: &'a BTreeSet<String>,
    readers: BTreeMap<String, Vec<usize>>,
    outputs: BTreeSet<String>,
}

impl Planner<'_> {
    fn product(
        &self,
        plan: &mut Plan,
        (number, node): (usize, &NodeProto),
        axis: i64,
        has_bias: bool,
    ) -> Result<()> {
        let [data, by, ..] = &node.input[..] else { return Ok(()) };
        let weight = self.draft.floats(by)?;
        let is_value = |name: &str| self.floats.contains(name);
        // A vector has no axis of results.
        let fits = weight.as_ref().map_or(is_value(by), |weight| weight.shape().len() >= 2);
        if !is_value(data) || !fits || self.draft.is_dequantised(data) {
            return Ok(());
        }
        mark(plan, data);
        if weight.is_none() {
            mark(plan, by);
        }
        let result = self.end(plan, &node.output[0], !has_bias)?;
        let is_matrix = matches!(node.op_type.as_str(), "MatMul" | "Gemm");
        if !is_matrix && !self.outputs.contains(&result) && is_value(&result) {
            mark(plan, &result);
        }
        let operator = node.op_type.clone();
        let layer = Layer { name: name_of(node), operator, result };
        let has_weight = weight.is_some();
        plan.products.push(Product { node: number, axis, has_bias, has_weight, layer });
        Ok(())
    }

    /// What stands behind a value that only a clamp reads, or a sum with a constant.
    fn end(&self, plan: &mut Plan, name: &str, takes_sums: bool) -> Result<String> {
        let mut end = name.to_owned();
        let mut takes_sums = takes_sums;
        while let Some([reader]) = self.readers.get(&end).map(Vec::as_slice) {
            let node = &self.draft.nodes()[*reader];
            let is_clamp = role(node) == Some(Role::Clamp);
            let is_sum = takes_sums && node.op_type == "Add" && role(node) == Some(Role::Map);
            if self.outputs.contains(&end) || !(is_clamp || is_sum) {
                break;
            }
            let mut others = node.input.iter().filter(|name| !name.is_empty() && **name != end);
            let all_known = others.try_fold(true, |known, name| {
                Ok::<bool, base::Diagnostics>(known && self.draft.floats(name)?.is_some())
            })?;
            if !all_known || !self.floats.contains(&node.output[0]) {
                break;
            }
            takes_sums = false;
            if is_clamp {
                plan.clamps.push(*reader);
            }
            end.clone_from(&node.output[0]);
            if is_clamp {
                break;
            }
        }
        Ok(end)
    }

    fn map(&self, plan: &mut Plan, node: &NodeProto) -> Result<()> {
        let result = &node.output[0];
        if plan.bytes.contains_key(result) || !self.floats.contains(result) {
            return Ok(());
        }
        let mut bytes = 0;
        for name in node.input.iter().filter(|name| !name.is_empty()) {
            if plan.bytes.contains_key(name) {
                bytes += 1;
            } else if self.draft.constant(name)?.is_none() {
                return Ok(());
            }
        }
        if bytes == 0 {
            return Ok(());
        }
        let end = self.end(plan, result, false)?;
        if !self.outputs.contains(&end) {
            mark(plan, &end);
        }
        Ok(())
    }

    fn movement(&self, plan: &mut Plan, node: &NodeProto) {
        let result = &node.output[0];
        let is_only = node.output[1..].iter().all(String::is_empty);
        let Some(root) = plan.bytes.get(&node.input[0]).cloned() else { return };
        if is_only && self.floats.contains(result) && !self.outputs.contains(result) {
            plan.bytes.insert(result.clone(), root);
        }
    }
}

fn mark(plan: &mut Plan, name: &str) {
    plan.bytes.entry(name.to_owned()).or_insert_with(|| name.to_owned());
}

/// The values of a draft that may become bytes, as far as names tell: those whose elements and
/// ranges a run has to show.
pub(crate) fn candidates(draft: &Draft) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for node in draft.nodes().iter().filter(|node| role(node).is_some()) {
        let data = match role(node) {
            Some(Role::Product { .. }) => &node.input[..node.input.len().min(2)],
            _ => &node.input[..1],
        };
        names.extend(data.iter().chain(&node.output[..1]).cloned());
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Whether a type is that of values that become bytes.
pub(crate) fn is_float(dtype: DType) -> bool {
    dtype == DType::F32
}
