//! Pieces of C expressions that know how strongly they bind.

/// How strongly an expression's outermost operator binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Strength {
    /// Comparisons, bitwise operators, `?:`: always in parentheses within another expression.
    Loose,
    /// `+` and `-`.
    Sum,
    /// `*` and `/`.
    Product,
    /// A sign or a cast.
    Unary,
    /// Names, calls, elements, what is in parentheses.
    Primary,
}

/// An expression.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    pub(crate) text: String,
    pub(crate) strength: Strength,
}

impl Code {
    pub(crate) fn new(text: impl Into<String>, strength: Strength) -> Code {
        Code { text: text.into(), strength }
    }

    /// A name, a call or an element.
    pub(crate) fn primary(text: impl Into<String>) -> Code {
        Code::new(text, Strength::Primary)
    }

    /// A number, which may have a sign.
    pub(crate) fn number(text: String) -> Code {
        let strength = if text.starts_with('-') { Strength::Unary } else { Strength::Primary };
        Code { text, strength }
    }

    /// The text, in parentheses where it binds less than that.
    pub(crate) fn at(&self, least: Strength) -> String {
        match self.strength < least {
            true => format!("({})", self.text),
            false => self.text.clone(),
        }
    }

    /// `function(arguments)`.
    pub(crate) fn call(function: &str, arguments: &[Code]) -> Code {
        let texts: Vec<&str> = arguments.iter().map(|code| code.text.as_str()).collect();
        Code::primary(format!("{function}({})", texts.join(", ")))
    }

    /// `(type)value`.
    pub(crate) fn cast(ty: &str, value: &Code) -> Code {
        Code::new(format!("({ty}){}", value.at(Strength::Primary)), Strength::Unary)
    }

    /// `left sign right`, grouped from the left.
    pub(crate) fn infix(left: &Code, sign: &str, right: &Code, strength: Strength) -> Code {
        let above = match strength {
            Strength::Sum => Strength::Product,
            Strength::Product => Strength::Unary,
            _ => Strength::Primary,
        };
        let least = if strength == Strength::Loose { Strength::Sum } else { strength };
        let right = match strength {
            Strength::Loose => right.at(Strength::Sum),
            _ => right.at(above),
        };
        Code::new(format!("{} {sign} {right}", left.at(least)), strength)
    }

    /// `condition ? value : otherwise`.
    pub(crate) fn choice(condition: &str, value: &Code, otherwise: &Code) -> Code {
        let (value, otherwise) = (value.at(Strength::Sum), otherwise.at(Strength::Sum));
        Code::new(format!("{condition} ? {value} : {otherwise}"), Strength::Loose)
    }
}
