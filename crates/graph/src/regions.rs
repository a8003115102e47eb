//! Regions: what they read from around them, a region as a function, copies of a region.

use std::collections::BTreeMap;

use base::IdSet;

use crate::builder::{Built, FunctionBuilder};
use crate::function::{Function, NodeId, Region, RegionId, ValueId};

impl Function {
    /// The values from around regions that are read in them or in regions inside them, each once,
    /// sorted.
    pub fn captures(&self, regions: &[RegionId]) -> Vec<ValueId> {
        let (mut read, mut defined) = (Vec::new(), IdSet::new());
        let mut work = regions.to_vec();
        while let Some(region) = work.pop() {
            let region = &self.regions[region];
            defined.extend(&region.parameters);
            read.extend(&region.results);
            for &node in &region.nodes {
                let node = &self.nodes[node];
                read.extend(&node.operands);
                defined.extend(&node.results);
                work.extend(&node.regions);
            }
        }
        read.retain(|&value| !defined.contains(value));
        read.sort_unstable();
        read.dedup();
        read
    }

    /// What a node reads: its operands, then what its regions capture.
    pub fn reads(&self, node: NodeId) -> Vec<ValueId> {
        let node = &self.nodes[node];
        let mut values = node.operands.to_vec();
        values.extend(self.captures(&node.regions));
        values
    }

    /// A region as a function of its own: its parameters are the region's, then what the region
    /// captures, which is told, too.
    pub fn region_function(&self, region: RegionId) -> (Function, Vec<ValueId>) {
        let captured = self.captures(&[region]);
        let Region { mut parameters, nodes, results } = self.regions[region].clone();
        parameters.extend(&captured);
        let names = |letter: char, count: usize| -> Vec<String> {
            (0..count).map(|number| format!("{letter}{number}")).collect()
        };
        let (parameter_names, result_names) =
            (names('p', parameters.len()), names('r', results.len()));
        let name = format!("{}_{region}", self.name);
        let part = self.part_with(Region { parameters, nodes, results });
        (Function { name, parameter_names, result_names, ..part }, captured)
    }
}

impl FunctionBuilder {
    /// Adds a copy of a region's nodes, which reads these values in the place of the region's
    /// parameters, and what the region captures as it is. Returns the copy's results.
    pub fn copy_region(&mut self, region: RegionId, parameters: &[ValueId]) -> Built<Vec<ValueId>> {
        self.copy_into(region, parameters, &mut BTreeMap::new())
    }

    fn copy_into(
        &mut self,
        region: RegionId,
        parameters: &[ValueId],
        copies: &mut BTreeMap<ValueId, ValueId>,
    ) -> Built<Vec<ValueId>> {
        let source = self.function().regions[region].clone();
        copies.extend(source.parameters.iter().copied().zip(parameters.iter().copied()));
        let new = |copies: &BTreeMap<ValueId, ValueId>, old: &[ValueId]| -> Vec<ValueId> {
            old.iter().map(|value| copies.get(value).copied().unwrap_or(*value)).collect()
        };
        for node in source.nodes {
            let node = self.function().nodes[node].clone();
            let mut regions = Vec::new();
            for &inner in &node.regions {
                let types = self.function().region_type(inner).parameters;
                let parameters = self.begin_region(&types);
                let results = self.copy_into(inner, &parameters, copies)?;
                regions.push(self.end_region(&results));
            }
            let operands = new(copies, &node.operands);
            let results = self.add_with_regions(node.op, &operands, &regions)?;
            copies.extend(node.results.iter().copied().zip(results));
        }
        Ok(new(copies, &source.results))
    }
}
