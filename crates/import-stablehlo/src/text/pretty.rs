//! The forms of operations that printers prefer. Most are operands, words and `name = attribute` in
//! any order, then types; what is of another form has a function of its own.

use super::Parsed;
use super::operation::{OperationText, Parser};
use crate::syntax::{Attribute, Attributes, ValueType};

/// What the generic form calls an attribute that an operation's own form calls otherwise.
const NAMES: &[(&str, &str, &str)] = &[
    ("broadcast_in_dim", "dims", "broadcast_dimensions"),
    ("dynamic_broadcast_in_dim", "dims", "broadcast_dimensions"),
    ("transpose", "dims", "permutation"),
    ("reverse", "dims", "dimensions"),
    ("concatenate", "dim", "dimension"),
    ("iota", "dim", "iota_dimension"),
    ("dynamic_iota", "dim", "iota_dimension"),
    ("get_dimension_size", "dim", "dimension"),
    ("set_dimension_size", "dim", "dimension"),
    ("pad", "low", "edge_padding_low"),
    ("pad", "high", "edge_padding_high"),
    ("pad", "interior", "interior_padding"),
    ("dynamic_slice", "sizes", "slice_sizes"),
    ("dot", "precision", "precision_config"),
    ("dot_general", "precision", "precision_config"),
    ("fft", "type", "fft_type"),
    ("fft", "length", "fft_length"),
    ("rng", "distribution", "rng_distribution"),
    ("rng_bit_generator", "algorithm", "rng_algorithm"),
];

/// What a window of a convolution is told, and what the generic form calls it.
const WINDOW: &[(&str, &str)] = &[
    ("stride", "window_strides"),
    ("pad", "padding"),
    ("lhs_dilate", "lhs_dilation"),
    ("rhs_dilate", "rhs_dilation"),
    ("reverse", "window_reversal"),
];

/// The operations of two operands, in any order, that a reduction may apply.
const APPLIED: &[&str] = &["add", "and", "maximum", "minimum", "multiply", "or", "xor"];

impl<'t> Parser<'t> {
    /// An operation behind its name.
    pub(super) fn pretty(&mut self, name: &'t str) -> Parsed<OperationText> {
        let full = match name {
            "return" | "call" => format!("func.{name}"),
            _ => name.to_owned(),
        };
        let mut text = OperationText { name: full, ..OperationText::default() };
        match name {
            "stablehlo.constant" | "chlo.constant" => self.constant(&mut text)?,
            "stablehlo.reduce" => self.reduce(&mut text)?,
            "stablehlo.while" => self.repeat(&mut text)?,
            "chlo.scan" => self.scan(&mut text)?,
            "stablehlo.convolution" => self.convolution(&mut text)?,
            _ => {
                let has_types = self.parts(&mut text)?;
                if has_types {
                    self.result_types(&mut text)?;
                }
            }
        }
        Ok(text)
    }

    fn constant(&mut self, text: &mut OperationText) -> Parsed<()> {
        if self.cursor.eat("(") {
            self.cursor.expect(")")?;
        }
        text.attributes = self.properties()?;
        if self.cursor.eat("{") {
            text.attributes.extend(self.cursor.attributes_until("}")?);
        }
        if self.cursor.eat(":") {
            text.results = self.cursor.types()?;
            return Ok(());
        }
        let begin = self.cursor.here();
        let value = self.cursor.attribute()?;
        let Attribute::Elements(elements) = &value else {
            self.cursor.back_to(begin);
            return self.cursor.fault("the elements of a constant are expected");
        };
        let shape = elements.shape.iter().map(|&extent| Some(extent)).collect();
        let element = elements.element.clone();
        text.results = vec![ValueType::Tensor(crate::syntax::TensorType { shape, element })];
        text.attributes.push(("value".to_owned(), value));
        if self.cursor.eat("->") {
            // Quantised constants have a type of their own.
            text.results = self.cursor.types()?;
        }
        Ok(())
    }

    /// Operands, words and attributes as far as they go; whether types follow.
    fn parts(&mut self, text: &mut OperationText) -> Parsed<bool> {
        let own = text.name.rsplit('.').next().unwrap_or_default().to_owned();
        let mut words: Vec<&'t str> = Vec::new();
        let (mut first, mut is_behind_operand) = (true, false);
        let has_types = loop {
            let is_behind = std::mem::take(&mut is_behind_operand);
            match self.cursor.peek() {
                b':' => {
                    self.cursor.expect(":")?;
                    break true;
                }
                b',' if !first => self.cursor.expect(",")?,
                b'%' => {
                    // A line may end without types; the next then begins with results.
                    let before = self.cursor.here();
                    if self.begins_operation()? {
                        break false;
                    }
                    self.cursor.back_to(before);
                    let operand = self.operand()?;
                    text.operands.push(operand);
                    if self.cursor.peek() == b'[' {
                        self.brackets(&own, text)?;
                    }
                    is_behind_operand = true;
                }
                b'<' if self.cursor.sees("<{") => {
                    let properties = self.properties()?;
                    text.attributes.extend(properties);
                }
                b'{' => {
                    self.cursor.expect("{")?;
                    text.attributes.extend(self.cursor.attributes_until("}")?);
                }
                b'(' | b')' => self.cursor.take_one(),
                b'@' => {
                    let symbol = Attribute::Symbol(self.cursor.symbol()?);
                    let name = if own == "custom_call" { "call_target_name" } else { "callee" };
                    text.attributes.push((name.to_owned(), symbol));
                }
                b'"' => {
                    let name = Attribute::Text(self.cursor.string()?);
                    text.attributes.push(("name".to_owned(), name));
                }
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                    let word = self.cursor.peek_word();
                    if word == "loc" || word.contains('.') {
                        break false;
                    }
                    if word == "dense" {
                        text.attributes.push(("value".to_owned(), self.cursor.attribute()?));
                        if self.cursor.eat("{") {
                            text.attributes.extend(self.cursor.attributes_until("}")?);
                        }
                        break false;
                    }
                    if word == "return" || word == "call" {
                        break false;
                    }
                    self.cursor.word();
                    match self.cursor.eat("=") {
                        true if is_behind => {
                            return self.cursor.fault(format!("`,` is expected before `{word}`"));
                        }
                        true => self.named_attribute(&own, word, text)?,
                        false => words.push(word),
                    }
                }
                _ => break false,
            }
            first = false;
        };
        if own == "compare" {
            for (word, name) in words.iter().zip(["comparison_direction", "compare_type"]) {
                text.attributes.push((name.to_owned(), Attribute::Word((*word).to_owned())));
            }
        }
        Ok(has_types)
    }

    /// Whether names and `=` or `:` follow: the results of an operation.
    fn begins_operation(&mut self) -> Parsed<bool> {
        self.cursor.expect("%")?;
        self.cursor.suffix()?;
        if self.cursor.byte() == b':' {
            self.cursor.take_one();
            if self.cursor.byte().is_ascii_digit() {
                return Ok(true);
            }
        }
        while self.cursor.eat(",") {
            if !self.cursor.eat("%") {
                return Ok(false);
            }
            self.cursor.suffix()?;
        }
        Ok(self.cursor.sees("=") && !self.cursor.sees("=="))
    }

    fn named_attribute(&mut self, own: &str, word: &str, text: &mut OperationText) -> Parsed<()> {
        let mut value = self.cursor.attribute()?;
        // `[0] x [1]`: of both operands.
        if matches!(value, Attribute::List(_)) && self.cursor.eat("x") {
            value = Attribute::List(vec![value, self.cursor.attribute()?]);
        }
        if own == "reduce_precision" && word == "format" {
            let word = if let Attribute::Word(word) = &value { word } else { "" };
            let format = word.strip_prefix('e').and_then(|it| it.split_once('m'));
            let bits = format.and_then(|(e, m)| Some((e.parse().ok()?, m.parse().ok()?)));
            let Some((exponent, mantissa)): Option<(i32, i32)> = bits else {
                return self.cursor.fault("a format is written as `e5m10`");
            };
            for (name, bits) in [("exponent_bits", exponent), ("mantissa_bits", mantissa)] {
                text.attributes.push((name.to_owned(), Attribute::Integer(bits.into())));
            }
            return Ok(());
        }
        let row = NAMES.iter().find(|row| row.0 == own && row.1 == word);
        let name = row.map_or(word, |row| row.2);
        text.attributes.push((name.to_owned(), value));
        Ok(())
    }

    /// `[1:4:2, 0:3]` behind the operand of a slice, or the number of a part of a tuple.
    fn brackets(&mut self, own: &str, text: &mut OperationText) -> Parsed<()> {
        self.cursor.expect("[")?;
        let mut lists = [Vec::new(), Vec::new(), Vec::new()];
        while !self.cursor.sees("]") {
            let mut numbers = [0, 0, 1];
            numbers[0] = self.cursor.integer()?;
            for number in &mut numbers[1..] {
                if self.cursor.eat(":") {
                    *number = self.cursor.integer()?;
                }
            }
            for (list, number) in lists.iter_mut().zip(numbers) {
                list.push(Attribute::Integer(number.into()));
            }
            if !self.cursor.eat(",") {
                break;
            }
        }
        self.cursor.expect("]")?;
        if own == "get_tuple_element" {
            let index = lists[0].pop().unwrap_or(Attribute::Unit);
            text.attributes.push(("index".to_owned(), index));
            return Ok(());
        }
        for (list, name) in lists.into_iter().zip(["start_indices", "limit_indices", "strides"]) {
            text.attributes.push((name.to_owned(), Attribute::List(list)));
        }
        Ok(())
    }

    /// The types behind the colon. Where there is no arrow they are those of the results, but for a
    /// selection, whose condition has one, too.
    fn result_types(&mut self, text: &mut OperationText) -> Parsed<()> {
        let is_listed = self.cursor.peek() == b'(';
        let mut types = vec![self.cursor.value_type_list()?];
        while self.cursor.eat(",") {
            types.push(self.cursor.value_type_list()?);
        }
        let mut types: Vec<ValueType> = types.into_iter().flatten().collect();
        if self.cursor.eat("->") {
            text.results = self.cursor.types()?;
            return self.has_types(text, &types);
        }
        if let (true, [ValueType::Function(operands, results)]) = (is_listed, &types[..]) {
            text.results = results.clone();
            return self.has_types(text, operands);
        }
        let own = text.name.rsplit('.').next().unwrap_or_default();
        if own == "select" && types.len() > 2
            || own == "optimization_barrier" && types.len() != text.operands.len()
        {
            let count = types.len();
            return self.cursor.fault(format!("`{own}` has not {count} types"));
        }
        text.results = match own {
            "select" => types.pop().into_iter().collect(),
            "return" => Vec::new(),
            _ if text.name.starts_with("check.") => Vec::new(),
            _ => types,
        };
        Ok(())
    }

    /// Refuses operands that are not of these types.
    fn has_types(&self, text: &OperationText, types: &[ValueType]) -> Parsed<()> {
        let given = text.operands.len();
        if given != types.len() {
            let (name, types) = (&text.name, types.len());
            return self.cursor.fault(format!("{given} operands of `{name}` have {types} types"));
        }
        let is_same = |(ty, &operand): (&ValueType, &usize)| self.type_of(operand) == ty;
        match types.iter().zip(&text.operands).all(is_same) {
            true => Ok(()),
            false => {
                let reason =
                    format!("an operand of `{}` has another type than its value", text.name);
                self.cursor.fault(reason)
            }
        }
    }

    /// `(%x init: %a), (%y init: %b) applies stablehlo.add across dimensions = [0] : types`, or
    /// `across dimensions = [0] : types reducer(%a: t, %b: t) (%c: t, %d: t) { ... }`
    fn reduce(&mut self, text: &mut OperationText) -> Parsed<()> {
        let (mut values, mut initial) = (Vec::new(), Vec::new());
        loop {
            self.cursor.expect("(")?;
            values.push(self.operand()?);
            self.cursor.expect("init")?;
            self.cursor.expect(":")?;
            initial.push(self.operand()?);
            self.cursor.expect(")")?;
            if !self.cursor.eat(",") {
                break;
            }
        }
        text.operands = [values, initial.clone()].concat();
        let place = self.cursor.here();
        let applied = match self.cursor.eat("applies") {
            true => {
                let name = self.cursor.expect_word()?;
                let own = name.strip_prefix("stablehlo.").unwrap_or_default();
                if !APPLIED.contains(&own) {
                    let reason = format!("`{name}` is not applied to pairs in any order");
                    return self.cursor.fault(reason);
                }
                Some(name)
            }
            false => None,
        };
        self.cursor.expect("across")?;
        self.cursor.expect("dimensions")?;
        self.cursor.expect("=")?;
        let axes = self.cursor.attribute()?;
        text.attributes.push(("dimensions".to_owned(), axes));
        if self.cursor.eat("{") {
            text.attributes.extend(self.cursor.attributes_until("}")?);
        }
        self.cursor.expect(":")?;
        self.result_types(text)?;
        if let Some(name) = applied {
            // The body as it stands for.
            let ty = self.type_of(initial[0]).clone();
            let block = self.applied(name, ty, place)?;
            text.regions.push(block);
            return Ok(());
        }
        self.cursor.expect("reducer")?;
        let (mut left, mut right) = (Vec::new(), Vec::new());
        while self.cursor.eat("(") {
            for side in [&mut left, &mut right] {
                self.cursor.expect("%")?;
                let name = self.cursor.suffix()?;
                self.cursor.expect(":")?;
                side.push((name, self.cursor.value_type()?));
                self.cursor.location()?;
                self.cursor.eat(",");
            }
            self.cursor.expect(")")?;
        }
        left.extend(right);
        let block = self.region_with(left)?;
        text.regions.push(block);
        Ok(())
    }

    /// `(%a = %x, %b = %y) : types attributes {...} cond { ... } do { ... }`
    fn repeat(&mut self, text: &mut OperationText) -> Parsed<()> {
        let mut names = Vec::new();
        self.cursor.expect("(")?;
        while !self.cursor.sees(")") {
            self.cursor.expect("%")?;
            names.push(self.cursor.suffix()?);
            self.cursor.expect("=")?;
            let operand = self.operand()?;
            text.operands.push(operand);
            if !self.cursor.eat(",") {
                break;
            }
        }
        self.cursor.expect(")")?;
        if self.cursor.eat(":") {
            self.result_types(text)?;
        }
        if text.results.len() != names.len() {
            return self.cursor.fault("a loop has as many types as values");
        }
        if self.cursor.eat("attributes") {
            self.cursor.expect("{")?;
            text.attributes.extend(self.cursor.attributes_until("}")?);
        }
        let parameters: Vec<(&'t str, ValueType)> =
            names.into_iter().zip(text.results.iter().cloned()).collect();
        self.cursor.expect("cond")?;
        let condition = self.region_with(parameters.clone())?;
        self.cursor.expect("do")?;
        let body = self.region_with(parameters)?;
        text.regions = vec![condition, body];
        Ok(())
    }

    /// `(%x) inits(%a) dimension=0 attributes {...} { ... } : types`
    fn scan(&mut self, text: &mut OperationText) -> Parsed<()> {
        let mut counts = Vec::new();
        for word in ["", "inits"] {
            self.cursor.expect(word)?;
            self.cursor.expect("(")?;
            let before = text.operands.len();
            while !self.cursor.sees(")") {
                let operand = self.operand()?;
                text.operands.push(operand);
                if !self.cursor.eat(",") {
                    break;
                }
            }
            self.cursor.expect(")")?;
            counts.push(Attribute::Integer((text.operands.len() - before) as i128));
        }
        text.attributes.push(("operandSegmentSizes".to_owned(), Attribute::List(counts)));
        self.cursor.expect("dimension")?;
        self.cursor.expect("=")?;
        let axis = self.cursor.integer()?;
        text.attributes.push(("dimension".to_owned(), Attribute::Integer(axis.into())));
        if self.cursor.eat("attributes") {
            self.cursor.expect("{")?;
            text.attributes.extend(self.cursor.attributes_until("}")?);
        }
        let body = self.region()?;
        text.regions.push(body);
        self.cursor.expect(":")?;
        self.result_types(text)
    }

    /// `(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], ...} {...}`
    fn convolution(&mut self, text: &mut OperationText) -> Parsed<()> {
        self.cursor.expect("(")?;
        let x = self.operand()?;
        self.cursor.expect(",")?;
        let w = self.operand()?;
        text.operands = vec![x, w];
        self.cursor.expect(")")?;
        self.cursor.expect("dim_numbers")?;
        self.cursor.expect("=")?;
        let axes = self.cursor.convolution_axes()?;
        text.attributes.push(("dimension_numbers".to_owned(), Attribute::Record(axes)));
        self.cursor.expect(",")?;
        self.cursor.expect("window")?;
        self.cursor.expect("=")?;
        self.cursor.expect("{")?;
        for (name, value) in self.cursor.attributes_until("}")? {
            let Some((_, own)) = WINDOW.iter().find(|row| row.0 == name) else {
                return self.cursor.fault(format!("a window has no `{name}`"));
            };
            if let ("pad", Attribute::List(pairs)) = (&*name, &value) {
                let is_pair = |it: &Attribute| it.integers().is_some_and(|it| it.len() == 2);
                if !pairs.iter().all(is_pair) {
                    return self.cursor.fault("padding is told in pairs");
                }
            }
            text.attributes.push(((*own).to_owned(), value));
        }
        if self.cursor.eat("{") {
            text.attributes.extend(self.cursor.attributes_until("}")?);
        }
        self.cursor.expect(":")?;
        self.result_types(text)
    }

    /// A block that applies an operation of two operands.
    fn applied(&mut self, name: &str, ty: ValueType, place: usize) -> Parsed<crate::syntax::Block> {
        let a = self.define("", vec![ty.clone(), ty.clone(), ty])?;
        let operation = |name: &str, operands: Vec<usize>, results: Vec<usize>| {
            let attributes = Attributes::new();
            let (name, location) = (name.to_owned(), None);
            let regions = Vec::new();
            crate::syntax::Operation {
                name,
                operands,
                results,
                attributes,
                regions,
                place,
                location,
            }
        };
        Ok(crate::syntax::Block {
            parameters: vec![a, a + 1],
            operations: vec![
                operation(name, vec![a, a + 1], vec![a + 2]),
                operation("stablehlo.return", vec![a + 2], Vec::new()),
            ],
        })
    }
}
