//! What plans do with sequences and optional values.

use backend::procedure::{MemoryWidth, Word, WordOperator};
use backend_c::CPort;
use base::Diagnostic;
use base::codes::UNSUPPORTED_TYPE;
use graph::{ElementType, ListOperation, NodeId, Type, ValueId};
use program::Fault;
use sym::Expr;
use tensor::{DType, Kind};

use super::{HEAD, PlanWriter};

impl PlanWriter<'_> {
    pub(super) fn list(&mut self, operation: ListOperation, id: NodeId) -> base::Result<()> {
        let function = self.function;
        let (operands, result) = (&function.nodes[id].operands, function.nodes[id].results[0]);
        let place = self.value(result);
        let (region, each) = (Word::from(self.region), Word::Number(self.each));
        // Behind what makes a list of values come a list and what is done with it.
        let list = match operands.first() {
            Some(&list) => self.value(list),
            None => Word::Number(0),
        };
        let count = (list.clone() + HEAD).load();
        match operation {
            ListOperation::Sequence | ListOperation::Optional => {
                self.list_of(place, operands);
                return Ok(());
            }
            ListOperation::Length => {
                self.make(place.clone(), DType::I64, 0);
                self.writer.store(place.load(), count);
                return Ok(());
            }
            ListOperation::HasElement => {
                self.make(place.clone(), DType::Bool, 0);
                let has = Word::binary(WordOperator::Greater, count, 0.into());
                let store = backend::procedure::Action::Store(MemoryWidth::One, place.load(), has);
                self.writer.push(store);
                return Ok(());
            }
            ListOperation::Insert => {
                let end = count.clone() + 1;
                let at = self.place_in(&list, operands.get(2), end, count);
                let value = self.value(operands[1]);
                self.checked("insert", vec![region, place, list, value, at, each]);
            }
            ListOperation::Erase => {
                let last = count.clone() + -1;
                let at = self.place_in(&list, operands.get(1), count, last);
                self.checked("erase", vec![region, place, list, at, each]);
            }
            ListOperation::At | ListOperation::Element => {
                let last = count.clone() + -1;
                let at = self.place_in(&list, operands.get(1), count, last);
                self.checked("at", vec![place, list, at, each]);
            }
            ListOperation::Concat { axis, is_new } => {
                let numbers =
                    [axis as i64, i64::from(is_new), i64::from(self.dtype(result).bits())];
                let [axis, is_new, bits] = numbers.map(Word::Number);
                self.checked("join", vec![region, place, list, axis, is_new, bits, each]);
            }
        }
        self.taken(id, result);
        Ok(())
    }

    /// The place that an operand tells among those before an end, or the usual one.
    fn place_in(&mut self, list: &Word, given: Option<&ValueId>, end: Word, usual: Word) -> Word {
        match given {
            Some(&given) => {
                let given = self.value(given);
                self.call_plain("place", vec![list.clone(), given, end])
            }
            None => usual,
        }
    }

    /// An input that is a list: what the caller tells of it is checked, and copied but for the
    /// elements of tensors.
    pub(super) fn given_list(
        &mut self,
        given: Word,
        value: ValueId,
        port: &CPort,
    ) -> base::Result<()> {
        let element = ElementType::of(self.function.ty(value));
        let &ElementType::Tensor { dtype, rank: Some(rank) } = held_in(&element) else {
            let message = format!("input `{}` holds tensors of any rank", port.name);
            return Err(Diagnostic::error(UNSUPPORTED_TYPE, message)
                .at("the model's inputs")
                .because("a tensor of an artifact has a known number of axes")
                .remedy("export the model with the shapes of what the input holds")
                .into());
        };
        let numbers = [lists_of(&port.kind), i64::from(dtype.bits()), rank as i64, self.each];
        let [lists, bits, rank, each] = numbers.map(Word::Number);
        let (region, place) = (self.region.into(), self.value(value));
        self.checked("given", vec![region, place, given, lists, bits, rank, each]);
        Ok(())
    }

    /// A list of values.
    fn list_of(&mut self, place: Word, values: &[ValueId]) {
        let count = (values.len() as i64).into();
        let words = vec![self.region.into(), place, count, self.each.into()];
        let held = self.call_plain("list", words);
        self.writer.fault_if(held.clone().equal(0), Fault::TooLittleMemory);
        for (number, &value) in values.iter().enumerate() {
            let (to, from) = (held.clone() + self.each * number as i64, self.value(value));
            self.copy_value(to, from);
        }
    }

    /// The extents of a tensor that was taken out of a list: symbols that the node defines, and
    /// what the type says of the others.
    fn taken(&mut self, id: NodeId, value: ValueId) {
        let function = self.function;
        let Some(ty) = function.ty(value).as_tensor() else { return };
        let place = self.value(value);
        let axes = (place.clone() + 16).load();
        self.writer.fault_if(axes.not_equal(ty.shape.len() as i64), Fault::SizeOutOfRange);
        self.bind_extents(id, &[value]);
        let defined = function.symbols_defined_by(id);
        for (axis, extent) in ty.shape.iter().enumerate() {
            let is_same = |other: &Expr| other == extent;
            let is_once = ty.shape.iter().filter(|other| is_same(other)).count() == 1;
            if is_once && extent.as_symbol().is_some_and(|symbol| defined.contains(&symbol)) {
                continue;
            }
            let expected = self.expr(extent);
            let found = (place.clone() + (HEAD + 8 * axis as i64)).load();
            self.writer.fault_if(found.not_equal(expected), Fault::SizeOutOfRange);
        }
    }
}

/// The lists around the tensors of a port: digits of base 4, the outermost the lowest.
fn lists_of(kind: &Kind) -> i64 {
    match kind {
        Kind::Sequence(held) => 1 + 4 * lists_of(held),
        Kind::Optional(held) => 2 + 4 * lists_of(held),
        Kind::Tensor | Kind::Maps | Kind::Map => 0,
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
