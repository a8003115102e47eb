//! Needs as they are met: which values they name, and how sizes become symbols or facts.

use base::{Diagnostic, Id, codes};
use graph::{Definition, Known, ValueId};
use sym::{Expr, Range, SymbolId};

use crate::facts::{FACT_ELEMENTS, FactKind, Need};
use crate::value::{Coded, List, Operand};
use crate::writer::{Accepted, Graph};

impl Graph {
    /// Records that something must be known of a value. If nothing can be told of it (it is
    /// computed inside of a region, or has too many elements), nothing is recorded. `reason` is the
    /// refusal with which lowering goes no further.
    pub fn need(&mut self, value: &Operand, kind: FactKind, reason: &Diagnostic) {
        if let Some(coded) = value.coded() {
            return self.need(&coded.codes.clone(), kind, reason);
        }
        let by_symbols = kind == FactKind::Shape || value.known().is_some();
        if let (false, Some(id)) = (by_symbols, value.node()) {
            return self.need_value(id, kind, reason);
        }
        let elements = value.known().into_iter().flatten().filter_map(Known::expr);
        let exprs: Vec<Expr> = match kind {
            FactKind::Shape => value.shape().to_vec(),
            _ => elements.collect(),
        };
        for symbol in exprs.iter().flat_map(Expr::symbols) {
            self.need_symbol(symbol, reason);
        }
    }

    fn need_symbol(&mut self, symbol: SymbolId, reason: &Diagnostic) {
        if let Some(&id) = self.needs.bound.get(&symbol) {
            self.need_value(id, FactKind::Value, reason);
        } else if let Some(name) = self.needs.extents.get(&symbol).cloned() {
            // The extent as a value; one that is not known here is an extent inside of a region.
            let is_outer = self.outer_values.is_none();
            if let (true, Ok(id)) = (is_outer, self.builder.dimension(Expr::symbol(symbol))) {
                self.needs.names.insert(id, name);
                self.need_value(id, FactKind::Value, reason);
            }
        } else if let Some(name) = self.builder.function().parameter_with(symbol).map(str::to_owned)
        {
            self.add_need(name, FactKind::Shape, None, reason);
        }
    }

    /// An extent of a result that only a run knows, of the node that is made next; the number
    /// itself where it is a fact.
    pub(crate) fn unknown_extent(&mut self) -> Expr {
        let name = self.outer_values.is_none().then(|| self.here.size_name());
        if let Some(fact) = name.as_ref().and_then(|name| self.size_fact(name)) {
            return fact;
        }
        let range = Range::new(0, self.limits.dimension);
        let symbol = self.builder.new_symbol("extent", range);
        if let Some(name) = name {
            self.needs.extents.insert(symbol, name);
        }
        Expr::symbol(symbol)
    }

    /// Refuses extents that only a run knows where sizes are facts.
    pub(crate) fn need_extents(&mut self, values: &[Operand]) -> Accepted<()> {
        if !self.facts.sizes || self.outer_values.is_some() {
            return Ok(());
        }
        let before = self.count_needs();
        let reason = unknown_size();
        for symbol in values.iter().flat_map(Operand::shape).flat_map(Expr::symbols) {
            self.need_symbol(symbol, &reason);
        }
        if self.count_needs() == before { Ok(()) } else { Err(reason) }
    }

    fn size_fact(&self, name: &str) -> Option<Expr> {
        let fact = self.facts.computed.get(name).filter(|fact| fact.len() == 1)?;
        Some(Expr::from(fact.get_scalar(0).as_i64()))
    }

    fn need_value(&mut self, id: ValueId, kind: FactKind, reason: &Diagnostic) {
        let function = self.builder.function();
        let elements = function.ty(id).as_tensor().map_or(0, |ty| {
            let extents = ty.shape.iter().filter_map(Expr::as_constant);
            extents.fold(1, i64::saturating_mul)
        });
        let is_inside = self.outer_values.is_some_and(|count| id.index() >= count);
        if is_inside || kind == FactKind::Value && elements > FACT_ELEMENTS as i64 {
            return;
        }
        match function.values[id].definition {
            Definition::Parameter(region, number) if region == function.body => {
                let name = function.parameter_names[number as usize].clone();
                self.add_need(name, kind, None, reason);
            }
            _ => {
                if let Some(name) = self.needs.names.get(&id).cloned() {
                    self.add_need(name, kind, Some(id), reason);
                }
            }
        }
    }

    fn add_need(&mut self, name: String, kind: FactKind, id: Option<ValueId>, reason: &Diagnostic) {
        let is_known = match kind {
            FactKind::Sizes => self.facts.sizes,
            FactKind::Type => self.facts.types.contains_key(&name),
            FactKind::Shape => self.facts.shapes.contains_key(&name),
            FactKind::Value if id.is_some() => self.facts.computed.contains_key(&name),
            FactKind::Value => self.facts.values.contains_key(&name),
        };
        let is_same = |(need, other): &(Need, Option<ValueId>)| {
            need.name == name && need.kind == kind && other.is_some() == id.is_some()
        };
        let is_there = self.needs.all.iter().any(is_same);
        if !is_known && !is_there {
            let need = Need { name, kind, result: None, reason: reason.clone() };
            self.needs.all.push((need, id));
        }
    }

    /// Records that something must be known of an input before it can be a parameter.
    pub fn need_input(&mut self, name: &str, kind: FactKind, reason: &Diagnostic) {
        self.add_need(name.to_owned(), kind, None, reason);
    }

    /// Records that sizes must be facts, where it is because some are symbols that a function is
    /// refused.
    pub fn need_sizes(&mut self, reason: &Diagnostic) {
        let is_of_shapes =
            [codes::INCONSISTENT_SHAPES, codes::UNKNOWN_CONTENTS, codes::UNSUPPORTED_OPERATOR]
                .contains(&reason.code);
        let has_sizes = !self.needs.bound.is_empty() || !self.needs.extents.is_empty();
        if is_of_shapes && has_sizes && self.needs.all.is_empty() {
            self.add_need(String::new(), FactKind::Sizes, None, reason);
        }
    }

    /// Whether what is lowered belongs to a region.
    pub fn is_in_region(&self) -> bool {
        self.outer_values.is_some()
    }

    /// How many needs there are.
    pub fn count_needs(&self) -> usize {
        self.needs.all.len()
    }

    /// Says of the needs behind the first `count` at which place of the model they were met.
    pub fn place_needs(&mut self, count: usize, place: &str) {
        for (need, _) in &mut self.needs.all[count..] {
            need.reason = need.reason.clone().or_at(|| place.to_owned());
        }
    }

    /// The needs, and the values that are the results of a function which computes them.
    pub fn take_needs(&mut self) -> (Vec<Need>, Vec<(String, ValueId)>) {
        let mut results: Vec<(String, ValueId)> = Vec::new();
        let needs = std::mem::take(&mut self.needs.all).into_iter().map(|(mut need, id)| {
            need.result = id.map(|id| {
                results.push((need.name.clone(), id));
                results.len() - 1
            });
            need
        });
        (needs.collect(), results)
    }

    /// The value of a name in the graph that is being lowered, with what is known of it.
    #[must_use]
    pub fn named(&mut self, name: &str, value: Operand) -> Operand {
        if self.outer_values.is_some() {
            return value;
        }
        match value.list() {
            Some(List::Sequence(values)) => {
                let values = values.iter().cloned().enumerate();
                let named = values.map(|(at, value)| self.named(&format!("{name}[{at}]"), value));
                return Operand::of_list(List::Sequence(named.collect()));
            }
            Some(List::Optional(Some(held))) => {
                let named = self.named(name, held.clone());
                return Operand::of_list(List::Optional(Some(named)));
            }
            Some(_) => return value,
            None => {}
        }
        if let Some(Coded { codes, texts }) = value.coded() {
            let (codes, texts) = (self.named(name, codes.clone()), texts.clone());
            return Operand::of_coded(Coded { codes, texts });
        }
        let name = self.here.value_name(name);
        if let Some(id) = value.node() {
            self.needs.names.entry(id).or_insert_with(|| name.clone());
        }
        match self.facts.computed.get(&name) {
            Some(fact) if fact.dtype() == value.dtype() && fact.shape().len() == value.rank() => {
                value.knowing(fact)
            }
            _ => value,
        }
    }

    /// A symbol for an i64 of rank 0 that is data, from 0 to `most`; the number itself where it is
    /// a fact.
    ///
    /// # Errors
    /// Where sizes are facts and this one is not known.
    pub fn bind(&mut self, value: &Operand, most: &Expr) -> Accepted<Expr> {
        if let Some([known]) = value.known()
            && let Some(expr) = known.expr()
        {
            return Ok(expr);
        }
        let id = self.data(value)?;
        if self.outer_values.is_none() {
            let name = self.here.size_name();
            if let Some(fact) = self.size_fact(&name) {
                return Ok(fact);
            }
            self.needs.names.insert(id, name);
            if self.facts.sizes {
                let reason = unknown_size();
                self.need_value(id, FactKind::Value, &reason);
                return Err(reason);
            }
        }
        let symbol = self.bound_symbol(id, most)?;
        self.needs.bound.insert(symbol, id);
        Ok(Expr::symbol(symbol))
    }
}

/// The refusal of a size that data decide, where it must be a number.
fn unknown_size() -> Diagnostic {
    Diagnostic::error(codes::UNKNOWN_CONTENTS, "a size must be known to compile")
        .because("it is computed from data, and the model is not right for all sizes")
        .remedy("run the model with its inputs given")
}
