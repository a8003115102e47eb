//! What plans do with sequences and optional values.

use base::Diagnostic;
use base::codes::UNSUPPORTED_TYPE;
use graph::{ElementType, ListOperation, NodeId, Type, ValueId};
use program::Fault;
use sym::Expr;
use tensor::DType;

use super::PlanWriter;
use crate::CPort;
use crate::text::list_letters;

impl PlanWriter<'_> {
    pub(super) fn list(&mut self, operation: ListOperation, id: NodeId) -> base::Result<()> {
        let function = self.function;
        let (operands, result) = (&function.nodes[id].operands, function.nodes[id].results[0]);
        let name = self.value(result);
        // Behind what makes a list of values come a list and what is done with it.
        let list = operands.first().map(|&list| self.value(list)).unwrap_or_default();
        let count = format!("{list}.extents[0]");
        let place = |operand: usize, end: &str, otherwise: String| match operands.get(operand) {
            Some(&place) => format!("tw_place(&{list}, &{}, {end})", self.value(place)),
            None => otherwise,
        };
        let call = match operation {
            ListOperation::Sequence | ListOperation::Optional => {
                self.list_of(&name, operands);
                return Ok(());
            }
            ListOperation::Length => {
                self.make(&name, DType::I64, 0);
                self.line(format!("*(int64_t *)tw_memory(&{name}) = {count};"));
                return Ok(());
            }
            ListOperation::HasElement => {
                self.make(&name, DType::Bool, 0);
                self.line(format!("*(unsigned char *)tw_memory(&{name}) = {count} > 0;"));
                return Ok(());
            }
            ListOperation::Insert => {
                let (place, value) =
                    (place(2, &format!("{count} + 1"), count.clone()), operands[1]);
                let value = self.value(value);
                format!("tw_insert(&region, &{name}, &{list}, &{value}, {place})")
            }
            ListOperation::Erase => {
                let place = place(1, &count, format!("{count} - 1"));
                format!("tw_erase(&region, &{name}, &{list}, {place})")
            }
            ListOperation::At | ListOperation::Element => {
                let place = place(1, &count, format!("{count} - 1"));
                format!("tw_at(&{name}, &{list}, {place})")
            }
            ListOperation::Concat { axis, is_new } => {
                let (bits, is_new) = (self.dtype(result).bits(), i32::from(is_new));
                format!("tw_join(&region, &{name}, &{list}, {axis}, {is_new}, {bits})")
            }
        };
        self.line(format!("fault = {call};"));
        self.line("if (fault != 0) return fault;");
        self.taken(id, result);
        Ok(())
    }

    /// An input that is a list: what the caller tells of it is checked, and copied but for the
    /// elements of tensors.
    pub(super) fn given_list(
        &mut self,
        number: usize,
        value: ValueId,
        port: &CPort,
    ) -> base::Result<()> {
        let element = ElementType::of(self.function.ty(value));
        let &ElementType::Tensor { dtype, rank: Some(rank) } = held_in(&element) else {
            let message = format!("input `{}` holds tensors of any rank", port.name);
            return Err(Diagnostic::error(UNSUPPORTED_TYPE, message)
                .at("the model's inputs")
                .because("a tensor of C code has a known number of axes")
                .remedy("export the model with the shapes of what the input holds")
                .into());
        };
        let (name, bits, letters) = (self.value(value), dtype.bits(), list_letters(&port.kind));
        let given = format!("(const tw_value *)in[{number}]");
        let arguments = format!("&region, &{name}, {given}, \"{letters}\", {bits}, {rank}");
        self.line(format!("fault = tw_given({arguments});"));
        self.line("if (fault != 0) return fault;");
        Ok(())
    }

    /// A list of values.
    fn list_of(&mut self, name: &str, values: &[ValueId]) {
        let (count, fault) = (values.len(), Fault::TooLittleMemory.code());
        self.line("{");
        self.printer.indent();
        self.line(format!("tw_value *const held = tw_list(&region, &{name}, {count});"));
        self.line(format!("if (held == NULL) return {fault};"));
        for (number, &value) in values.iter().enumerate() {
            self.line(format!("held[{number}] = {};", self.value(value)));
        }
        self.printer.dedent();
        self.line("}");
    }

    /// The extents of a tensor that was taken out of a list: symbols that the node defines, and
    /// what the type says of the others.
    fn taken(&mut self, id: NodeId, value: ValueId) {
        let function = self.function;
        let Some(ty) = function.ty(value).as_tensor() else { return };
        let (name, fault) = (self.value(value), Fault::SizeOutOfRange.code());
        self.line(format!("if ({name}.axes != {}) return {fault};", ty.shape.len()));
        self.bind_extents(id, &[value]);
        let defined = function.symbols_defined_by(id);
        for (axis, extent) in ty.shape.iter().enumerate() {
            let is_same = |other: &Expr| other == extent;
            let is_once = ty.shape.iter().filter(|other| is_same(other)).count() == 1;
            if is_once && extent.as_symbol().is_some_and(|symbol| defined.contains(&symbol)) {
                continue;
            }
            let expected = self.expression(extent);
            self.line(format!("if ({name}.extents[{axis}] != {expected}) return {fault};"));
        }
    }
}

/// What a list holds in the end, which is no list.
fn held_in(element: &ElementType) -> &ElementType {
    match element {
        ElementType::Sequence(held) | ElementType::Optional(held) => held_in(held),
        ElementType::Any | ElementType::Tensor { .. } => element,
    }
}

/// The axes that a value takes room for: its own, or those of the tensors in it.
pub(super) fn most_axes(ty: &Type) -> usize {
    match held_in(&ElementType::of(ty)) {
        ElementType::Tensor { rank, .. } => rank.unwrap_or(0),
        _ => 0,
    }
}
