//! Sequences and optional values as nodes, where only a run knows them.

use base::{Diagnostic, codes};
use graph::{ElementType, ListOperation, Op, TensorType, Type, ValueId};
use tensor::DType;

use crate::value::{List, Operand};
use crate::writer::{Accepted, Graph, shape_error, type_error};

impl Graph {
    /// A list of known values as a node.
    pub(crate) fn list_node(&mut self, value: &Operand) -> Accepted<ValueId> {
        let ty = value.graph_type().map_err(type_error)?;
        let (operation, values) = match value.list() {
            Some(List::Sequence(values)) => (ListOperation::Sequence, self.all_data(values)?),
            Some(List::Optional(held)) => (ListOperation::Optional, self.all_data(held)?),
            _ => return Err(type_error("a map stands for a list")),
        };
        let op = Op::List { operation, results: vec![ty] };
        Ok(self.builder.add(op, &values).map_err(shape_error)?[0])
    }

    /// What is done with lists that only a run knows. A tensor that is taken out of one has extents
    /// of its own.
    pub fn list(&mut self, operation: ListOperation, operands: &[&Operand]) -> Accepted<Operand> {
        let operands = self.all_data(operands.iter().copied())?;
        let function = self.builder.function();
        let types: Vec<Type> = operands.iter().map(|&id| function.ty(id).clone()).collect();
        let held = match types.first() {
            Some(Type::Sequence(inner) | Type::Optional(inner)) => (**inner).clone(),
            _ => return Err(type_error("a tensor stands for a list")),
        };
        let result = match operation {
            ListOperation::Length => TensorType { dtype: DType::I64, shape: [].into() }.into(),
            ListOperation::HasElement => TensorType { dtype: DType::Bool, shape: [].into() }.into(),
            ListOperation::Insert => {
                let wide = types.get(1).and_then(|ty| held.join(&ElementType::of(ty)));
                let wide = wide.ok_or_else(|| type_error("a value of another type is inserted"))?;
                Type::Sequence(Box::new(wide))
            }
            ListOperation::At | ListOperation::Element => self.taken(&held, 0)?,
            ListOperation::Concat { is_new, .. } => self.taken(&held, usize::from(is_new))?,
            _ => types[0].clone(),
        };
        let made = self.node(Op::List { operation, results: vec![result] }, &operands)?;
        self.need_extents(std::slice::from_ref(&made))?;
        Ok(made)
    }

    /// The type of an element that is taken out of a list, with more axes.
    fn taken(&mut self, held: &ElementType, more: usize) -> Accepted<Type> {
        Ok(match held {
            ElementType::Tensor { dtype, rank: Some(rank) } => {
                let shape = (0..rank + more).map(|_| self.unknown_extent()).collect();
                Type::Tensor(TensorType { dtype: *dtype, shape })
            }
            ElementType::Sequence(inner) => Type::Sequence(inner.clone()),
            ElementType::Optional(inner) => Type::Optional(inner.clone()),
            ElementType::Any | ElementType::Tensor { .. } => {
                return Err(Diagnostic::error(
                    codes::UNKNOWN_CONTENTS,
                    "the rank of what a list holds must be known to compile",
                )
                .because("kernels have loops for each axis, and the list holds tensors of any")
                .remedy("export the model with values of one rank in each list"));
            }
        })
    }
}
