//! Who reads a value, and who does last.

use base::SecondaryMap;
use smallvec::SmallVec;

use crate::function::{Function, NodeId, RegionId, ValueId};

/// Where a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// Operand of this number of a node.
    Operand(NodeId, usize),
    /// Result of this number of a region.
    Result(RegionId, usize),
}

/// Who reads each value, in order; most values have one reader.
pub type Users = SecondaryMap<ValueId, SmallVec<[User; 1]>>;

impl Function {
    /// Who reads each value, in order.
    pub fn users(&self) -> Users {
        let mut users = Users::new();
        users.reserve(self.values.len());
        for node in self.nodes_in_order() {
            for (number, &operand) in self.nodes[node].operands.iter().enumerate() {
                users[operand].push(User::Operand(node, number));
            }
        }
        for region in self.regions_in_order() {
            for (number, &result) in self.regions[region].results.iter().enumerate() {
                users[result].push(User::Result(region, number));
            }
        }
        users
    }

    /// For each node the values of its region that nothing reads behind it, the node's own among
    /// them; results of the region stay.
    pub fn last_uses(&self) -> SecondaryMap<NodeId, Vec<ValueId>> {
        let mut dead: SecondaryMap<NodeId, Vec<ValueId>> = SecondaryMap::new();
        for region in self.regions_in_order() {
            let data = &self.regions[region];
            let mut last: SecondaryMap<ValueId, Option<NodeId>> = SecondaryMap::new();
            let mut order = data.parameters.clone();
            for &node in &data.nodes {
                for value in self.reads(node) {
                    last[value] = Some(node);
                }
                for &value in &self.nodes[node].results {
                    last[value] = Some(node);
                    order.push(value);
                }
            }
            for value in order.into_iter().filter(|value| !data.results.contains(value)) {
                if let Some(node) = last[value] {
                    dead[node].push(value);
                }
            }
        }
        dead
    }
}
