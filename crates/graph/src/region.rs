//! What regions read from around them, and copies of regions.

use std::collections::{BTreeMap, BTreeSet};

use base::Id;

use crate::builder::{Built, FunctionBuilder};
use crate::function::{Function, NodeId, RegionId, ValueId};

impl Function {
    /// The values from around regions that are read in them, in the order of their ids.
    #[must_use]
    pub fn captured(&self, regions: &[RegionId]) -> Vec<ValueId> {
        let (mut read, mut defined) = (BTreeSet::new(), BTreeSet::new());
        let mut work = regions.to_vec();
        while let Some(region) = work.pop() {
            let region = &self.regions[region];
            defined.extend(region.parameters.iter().copied());
            read.extend(region.results.iter().copied());
            for &node in &region.nodes {
                let node = &self.nodes[node];
                read.extend(node.operands.iter().copied());
                defined.extend(node.results.iter().copied());
                work.extend(node.regions.iter().copied());
            }
        }
        let mut outer: Vec<ValueId> = read.difference(&defined).copied().collect();
        outer.sort_by_key(|value| value.index());
        outer
    }

    /// Everything that a node reads: its operands, then what its regions capture.
    #[must_use]
    pub fn reads(&self, node: NodeId) -> Vec<ValueId> {
        let node = &self.nodes[node];
        let mut values = node.operands.to_vec();
        if !node.regions.is_empty() {
            values.extend(self.captured(&node.regions));
        }
        values
    }
}

impl FunctionBuilder {
    /// Copies what a region does to where the builder stands, and gives the copies of its results.
    /// The region is one of `source`, and the copies carry its places; without a source it is one of
    /// the function that is being built, and the copies carry the place at hand. `values` says what
    /// stands for the region's parameters and for what it captures; a value that is not in it stands
    /// for itself.
    ///
    /// # Errors
    /// Why a copy would be ill-typed.
    pub fn copy_region(
        &mut self,
        source: Option<&Function>,
        region: RegionId,
        values: &mut BTreeMap<ValueId, ValueId>,
    ) -> Built<Vec<ValueId>> {
        let new = |values: &BTreeMap<ValueId, ValueId>, old: &[ValueId]| -> Vec<ValueId> {
            old.iter().map(|value| values.get(value).copied().unwrap_or(*value)).collect()
        };
        let data = source.unwrap_or(self.function()).regions[region].clone();
        for node in data.nodes {
            let node = source.unwrap_or(self.function()).nodes[node].clone();
            let mut regions = Vec::new();
            for &inner in &node.regions {
                let function = source.unwrap_or(self.function());
                let types = function.region_type(inner).parameters;
                let old = function.regions[inner].parameters.clone();
                values.extend(old.into_iter().zip(self.begin_region(&types)));
                let results = self.copy_region(source, inner, values)?;
                regions.push(self.end_region(&results));
            }
            if source.is_some() {
                self.set_location(node.location);
            }
            let operands = new(values, &node.operands);
            let results = self.add_with_regions(node.op, &operands, &regions)?;
            values.extend(node.results.into_iter().zip(results));
        }
        Ok(new(values, &data.results))
    }
}
