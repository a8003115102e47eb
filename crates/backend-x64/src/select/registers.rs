//! Register buffers: elements that are values of vcode, and folding them.
//!
//! A slot is one element, or a vector of them along the last axis where a `Vector` loop covers
//! that. A slot that has not been written holds zeros.

use loops::{BufferId, ScalarExpr};
use sym::Expr;
use tensor::Reduction;

use super::Selector;
use super::index::Binding;
use super::memory::APART;
use super::plan::Registers;
use super::value::{Carrier, Evaluated, Item, Mask, Vector, all_lanes, carrier, register_type};
use crate::vcode::{Inst, Lane, Opcode, RegisterType};

/// Where an element of a register buffer is: a slot, and the lane within it.
struct Place {
    slot: usize,
    lane: usize,
    /// Whether the vector variable runs along the slot, or along two of them from this lane on.
    covered: bool,
    /// Elements from this one to the end of its row.
    left: usize,
}

impl Selector<'_> {
    fn place(&self, buffer: BufferId, index: &[Expr]) -> base::Result<(Place, Registers)> {
        let name = &self.kernel.buffers[buffer].name;
        let Some(registers) = self.plan.registers[buffer] else {
            return Err(self.refuse(format!("`{name}` is no register buffer")));
        };
        let mut row = 0usize;
        let mut last = 0usize;
        let mut covered = false;
        let mut straight = true;
        let shape = &self.kernel.buffers[buffer].shape;
        for (axis, expr) in index.iter().enumerate() {
            if self.expr_differs_by_lane(expr) {
                covered = true;
                let step = self.vector.as_ref().map(|own| expr.linear_coefficient(own.symbol));
                straight &= axis + 1 == shape.len() && step == Some(Some(1));
            }
            let value = expr.evaluate(&|symbol| match self.bindings[symbol] {
                Binding::Constant(value) => {
                    let vector = self.vector.as_ref().filter(|vector| vector.symbol == symbol);
                    Some(value + vector.map_or(0, |vector| vector.offset))
                }
                _ => None,
            });
            let Some(value) = value.and_then(|value| usize::try_from(value).ok()) else {
                return Err(self.refuse(format!("an index of the register buffer `{name}` varies")));
            };
            if axis + 1 == shape.len() {
                last = value;
            } else {
                let extent = shape[axis].as_constant().unwrap_or(0) as usize;
                row = row * extent + value;
            }
        }
        let slot = registers.first + row * registers.slots_per_row + last / registers.lanes;
        let lane = last % registers.lanes;
        if covered && !(straight && self.vector_lanes() <= registers.lanes) {
            let reason = format!("a vector loop does not run along the register buffer `{name}`");
            return Err(self.refuse(reason));
        }
        if last / registers.lanes >= registers.slots_per_row
            || slot >= registers.first + registers.count
        {
            return Err(self.refuse(format!("an index of the register buffer `{name}` is outside")));
        }
        let extent = shape.last().and_then(Expr::as_constant).unwrap_or(1) as usize;
        Ok((Place { slot, lane, covered, left: extent.saturating_sub(last) }, registers))
    }

    /// What a slot holds.
    fn slot(&mut self, buffer: BufferId, slot: usize, lanes: usize) -> Evaluated {
        if let Some(known) = self.slots[slot] {
            return known;
        }
        match carrier(self.kernel.buffers[buffer].dtype) {
            Some(Carrier::Lane(lane)) => {
                Evaluated::Vector(Vector { item: Item::Constant(0), lane, lanes })
            }
            _ => Evaluated::Mask(Mask::Constant(0), lanes),
        }
    }

    pub(crate) fn read_register(
        &mut self,
        buffer: BufferId,
        index: &[Expr],
        lanes: usize,
    ) -> base::Result<Evaluated> {
        let (place, registers) = self.place(buffer, index)?;
        if place.covered && place.lane % lanes > 0 {
            return Ok(self.read_across(buffer, &place, &registers, lanes));
        }
        let whole = self.slot(buffer, place.slot, registers.lanes);
        if place.covered && lanes < registers.lanes {
            let part = self.lanes_of(whole);
            let part = self.some_lanes(part, place.lane, lanes);
            return Ok(self.element_of(buffer, part));
        }
        if place.covered || registers.lanes == 1 {
            return Ok(self.broadcast(whole, lanes));
        }
        let one = self.extract(whole, place.lane);
        Ok(self.broadcast(one, lanes))
    }

    pub(crate) fn write_register(
        &mut self,
        buffer: BufferId,
        index: &[Expr],
        value: Evaluated,
        lanes: usize,
    ) -> base::Result<()> {
        let (place, registers) = self.place(buffer, index)?;
        if lanes > 1 && !place.covered {
            let name = &self.kernel.buffers[buffer].name;
            return Err(self.refuse(format!("a vector loop stores to one element of `{name}`")));
        }
        if place.covered && lanes != registers.lanes {
            let message = "a loop that writes registers has lanes of its own";
            return Err(base::Diagnostics::internal(message));
        }
        let mut value = self.broadcast(value, registers.lanes);
        if place.covered && place.lane > 0 {
            self.write_across(buffer, &place, &registers, value);
            return Ok(());
        }
        let tail = self.vector.as_ref().map_or(1, |vector| vector.tail);
        let row = all_lanes(place.left.min(registers.lanes));
        if registers.lanes > 1 && !place.covered {
            let before = self.slot(buffer, place.slot, registers.lanes);
            let mask = Mask::Constant(1 << place.lane);
            value = self.blend(mask, before, value, registers.lanes);
        } else if place.covered && tail & row != row {
            // The loop ends within the vector, the row does not.
            let active = self.active_mask(registers.lanes);
            let before = self.slot(buffer, place.slot, registers.lanes);
            value = self.blend(active, before, value, registers.lanes);
        } else if let Some(exec) = self.exec {
            let before = self.slot(buffer, place.slot, registers.lanes);
            value = self.blend(exec.mask, before, value, registers.lanes);
        }
        self.slots[place.slot] = Some(value);
        Ok(())
    }

    /// A vector that begins within a slot, by way of the frame. Lanes behind the row's end hold
    /// nothing.
    fn read_across(
        &mut self,
        buffer: BufferId,
        place: &Place,
        registers: &Registers,
        lanes: usize,
    ) -> Evaluated {
        let form = self.spread(buffer, place, registers);
        let at = APART + (place.lane * form.lane.bytes()) as i32;
        let part = self.frame_vector(at, form.lane, lanes);
        self.element_of(buffer, part)
    }

    /// Stores the active lanes of a vector that begins within a slot, by way of the frame.
    fn write_across(
        &mut self,
        buffer: BufferId,
        place: &Place,
        registers: &Registers,
        value: Evaluated,
    ) {
        let lanes = registers.lanes;
        let before = self.read_across(buffer, place, registers, lanes);
        let active = self.active_mask(lanes);
        let value = self.blend(active, before, value, lanes);
        let value = self.lanes_of(value);
        let form = self.spread(buffer, place, registers);
        self.put_in_frame(value, APART + (place.lane * form.lane.bytes()) as i32);
        for (number, slot) in self.slots_across(place, registers).enumerate() {
            let at = APART + (number * lanes * form.lane.bytes()) as i32;
            let part = self.frame_vector(at, form.lane, lanes);
            self.slots[slot] = Some(self.element_of(buffer, part));
        }
    }

    /// Puts the slots that a vector reaches into the frame; returns a vector of their form.
    fn spread(&mut self, buffer: BufferId, place: &Place, registers: &Registers) -> Vector {
        let mut form = Vector { item: Item::Constant(0), lane: Lane::I32, lanes: registers.lanes };
        for (number, slot) in self.slots_across(place, registers).enumerate() {
            let value = self.slot(buffer, slot, registers.lanes);
            form = self.lanes_of(value);
            let at = APART + (number * registers.lanes * form.lane.bytes()) as i32;
            self.put_in_frame(form, at);
        }
        form
    }

    /// The slots that a vector reaches: its own, and the next unless the row ends before.
    fn slots_across(&self, place: &Place, registers: &Registers) -> std::ops::Range<usize> {
        let reaches_next = place.lane + place.left > registers.lanes;
        place.slot..place.slot + 1 + usize::from(reaches_next)
    }

    /// Elements as numbers in lanes: booleans as ones and zeros.
    fn lanes_of(&mut self, value: Evaluated) -> Vector {
        match value {
            Evaluated::Vector(vector) => vector,
            Evaluated::Mask(mask, lanes) => self.mask_as_ints(mask, lanes),
        }
    }

    /// Numbers in lanes as elements of a buffer.
    fn element_of(&mut self, buffer: BufferId, vector: Vector) -> Evaluated {
        match carrier(self.kernel.buffers[buffer].dtype) {
            Some(Carrier::Mask) => Evaluated::Mask(self.nonzero(vector), vector.lanes),
            _ => Evaluated::Vector(vector),
        }
    }

    /// One lane of a vector or mask.
    fn extract(&mut self, value: Evaluated, lane: usize) -> Evaluated {
        match value {
            Evaluated::Mask(Mask::Constant(bits), _) => {
                Evaluated::Mask(Mask::Constant(bits >> lane & 1), 1)
            }
            Evaluated::Mask(mask, lanes) => {
                let bits = self.mask_as_bits(mask, lanes);
                let shifted = self.builder.int_imm(Opcode::IntShrImm, bits, lane as i64);
                let bit = self.builder.int_imm(Opcode::IntAndImm, shifted, 1);
                Evaluated::Mask(self.uniform_mask(bit, 1), 1)
            }
            Evaluated::Vector(vector) => Evaluated::Vector(self.extract_lane(vector, lane)),
        }
    }

    /// As many lanes of a vector as are wanted, a power of two: those of which one is.
    fn some_lanes(&mut self, mut vector: Vector, mut lane: usize, lanes: usize) -> Vector {
        if let Item::Constant(_) = vector.item {
            return Vector { lanes: lanes.min(vector.lanes), ..vector };
        }
        while vector.lanes > lanes {
            let half = vector.lanes / 2;
            vector = if lane >= half { self.upper_half(vector) } else { self.lower_half(vector) };
            lane %= half;
        }
        vector
    }

    /// One lane of a vector.
    pub(crate) fn extract_lane(&mut self, mut vector: Vector, mut lane: usize) -> Vector {
        if let Item::Constant(_) = vector.item {
            return Vector { lanes: 1, ..vector };
        }
        let quarter = (16 / vector.lane.bytes()).min(vector.lanes);
        vector = self.some_lanes(vector, lane, quarter);
        lane %= quarter;
        if lane > 0 {
            let pattern = match vector.lane.bytes() {
                8 => 0b11_10_11_10,
                _ => lane as i64 * 0b01_01_01_01,
            };
            vector = self.shuffled(vector, pattern);
        }
        Vector { lanes: 1, ..vector }
    }

    fn shuffled(&mut self, vector: Vector, pattern: i64) -> Vector {
        let value = self.register(vector);
        let inst = Inst::new(Opcode::Shuffle, Lane::I32, &[value]).imm(pattern);
        let value = self.builder.emit(inst, register_type(vector.lane, vector.lanes));
        Vector { item: Item::Register(value), ..vector }
    }

    /// The upper half of the lanes.
    pub(super) fn upper_half(&mut self, vector: Vector) -> Vector {
        let lanes = vector.lanes / 2;
        let bytes = vector.lanes * vector.lane.bytes();
        if bytes <= 16 {
            let half = lanes * vector.lane.bytes();
            let pattern = if half == 8 { 0b11_10_11_10 } else { 0b01_01_01_01 };
            return Vector { lanes, ..self.shuffled(vector, pattern) };
        }
        let value = self.register(vector);
        let inst = Inst::new(Opcode::High, vector.lane, &[value]);
        let value = self.builder.emit(inst, RegisterType::vector(bytes / 2));
        Vector { item: Item::Register(value), lanes, ..vector }
    }

    /// The lower half of the lanes.
    pub(crate) fn lower_half(&mut self, vector: Vector) -> Vector {
        let lanes = vector.lanes / 2;
        let bytes = vector.lanes * vector.lane.bytes();
        if bytes <= 16 || matches!(vector.item, Item::Constant(_)) {
            return Vector { lanes, ..vector };
        }
        let value = self.register(vector);
        let inst = Inst::new(Opcode::Low, vector.lane, &[value]);
        let value = self.builder.emit(inst, RegisterType::vector(bytes / 2));
        Vector { item: Item::Register(value), lanes, ..vector }
    }

    /// The fixed tree over the last axis of a register buffer or of one in memory; of the latter
    /// for each of so many lanes, whose indices may differ.
    pub(crate) fn fold(
        &mut self,
        reduction: Reduction,
        buffer: BufferId,
        index: &[Expr],
        each: usize,
    ) -> base::Result<Evaluated> {
        let declared = &self.kernel.buffers[buffer];
        let dtype = declared.dtype;
        let extent = declared.shape.last().and_then(Expr::as_constant).unwrap_or(1).max(1) as usize;
        let mut parts = Vec::new();
        let mut lanes = each;
        if let Some(registers) = self.plan.registers[buffer] {
            if each > 1 {
                let message = "a fold of registers differs by lane";
                return Err(base::Diagnostics::internal(message));
            }
            lanes = registers.lanes.min(extent);
            for part in 0..extent.div_ceil(registers.lanes) {
                let mut at = index.to_vec();
                at.push(Expr::constant((part * registers.lanes) as i64));
                let (place, _) = self.place(buffer, &at)?;
                parts.push(self.slot(buffer, place.slot, registers.lanes));
            }
        } else {
            for element in 0..extent {
                let mut at = index.to_vec();
                at.push(Expr::constant(element as i64));
                let value = ScalarExpr::Load { buffer, index: at };
                parts.push(self.evaluate(&value, each)?);
            }
        }
        while parts.len() > 1 {
            let upper = parts.split_off(parts.len() / 2);
            for (part, other) in parts.iter_mut().zip(upper) {
                let count = part.lanes();
                *part = self.combine(reduction, dtype, *part, other, count)?;
            }
        }
        let mut whole = parts[0];
        // A buffer shorter than its vector: the lanes that count are the first ones.
        while whole.lanes() > lanes {
            whole = self.halves(whole).0;
        }
        while whole.lanes() > each {
            let count = whole.lanes() / 2;
            let (low, high) = self.halves(whole);
            // What is there first stands second: an extreme compares that with itself.
            whole = self.combine(reduction, dtype, high, low, count)?;
        }
        Ok(whole)
    }

    fn halves(&mut self, value: Evaluated) -> (Evaluated, Evaluated) {
        match value {
            Evaluated::Vector(vector) => {
                let (low, high) = (self.lower_half(vector), self.upper_half(vector));
                (Evaluated::Vector(low), Evaluated::Vector(high))
            }
            Evaluated::Mask(Mask::Constant(bits), lanes) => {
                let half = lanes / 2;
                let low = Evaluated::Mask(Mask::Constant(bits & ((1 << half) - 1)), half);
                (low, Evaluated::Mask(Mask::Constant(bits >> half), half))
            }
            Evaluated::Mask(mask, lanes) => {
                let ints = self.mask_as_ints(mask, lanes);
                let (low, high) = (self.lower_half(ints), self.upper_half(ints));
                let (low, high) = (self.nonzero(low), self.nonzero(high));
                (Evaluated::Mask(low, lanes / 2), Evaluated::Mask(high, lanes / 2))
            }
        }
    }
}
