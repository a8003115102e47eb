//! A kernel with everything looked up: symbols and buffers as positions, every value with its type,
//! index expressions as sums of products where they are.
//!
//! Relies on the kernel having passed `loops::verify`; where it has not, some of what is broken is
//! refused here, the rest when it is run, and nothing panics.

use std::cell::RefCell;

use base::{Id, codes};
use loops::{Condition, Kernel, Loop, LoopKind, ScalarExpr, Stmt, SymbolKind, visit};
use sym::{Expr, Range};
use tensor::{DType, Reduction, Scalar, ScalarFunction};

use super::memory::{Checked, fault};
use crate::EvaluationPrecision;

/// An index expression.
#[derive(Clone)]
pub(super) enum Integer {
    /// `constant + sum of coefficient * symbol`
    Affine(i64, Vec<(i64, usize)>),
    /// Anything else.
    General(Expr),
}

/// An element of a buffer: an index along each axis, or along all but the last.
#[derive(Clone)]
pub(super) struct Element {
    pub(super) memory: usize,
    pub(super) index: Vec<Integer>,
    /// Its own number among the elements of the kernel.
    pub(super) cursor: usize,
}

/// An element whose index along each axis grows by a constant from one iteration of an innermost
/// loop to the next, so that it lies within the buffer in all of them if in the first and the last.
pub(super) struct Walk {
    pub(super) element: Element,
    /// For each axis, by how much the index grows.
    pub(super) steps: Vec<i64>,
}

/// A comparison.
pub(super) struct Test {
    pub(super) left: Integer,
    pub(super) comparison: loops::Comparison,
    pub(super) right: Integer,
}

/// A value; what it gives are the bits of an element of its type.
pub(super) enum Node {
    Constant(u64),
    /// The value of a symbol, by position.
    Symbol(usize),
    Index(Integer),
    Load(Element),
    /// The four basic operations, in the types of most kernels.
    Single(fn(f32, f32) -> f32, Box<[Node; 2]>),
    Double(fn(f64, f64) -> f64, Box<[Node; 2]>),
    /// Any function, with its result type and those of its operands.
    Apply(ScalarFunction, DType, Vec<(DType, Node)>),
    Guard(Vec<Test>, Box<[Node; 2]>),
    /// The reduction, the index but for the last axis, that axis's extent.
    Fold(Reduction, Element, i64),
}

/// What happens to an element.
pub(super) enum Update {
    Store(Node),
    Reduce(Reduction, Node),
    /// A sum that gains a product, rounded once.
    Fused(Box<[Node; 2]>),
}

/// A statement, with the one it was made from and its place in the order of the block, counted with
/// the statements inside those before it and with unrolled loops written out.
pub(super) struct Statement<'k> {
    pub(super) source: &'k Stmt,
    pub(super) position: u32,
    pub(super) action: Action<'k>,
}

/// What a statement does.
pub(super) enum Action<'k> {
    For {
        variable: usize,
        extent: Integer,
        kind: LoopKind,
        body: Block<'k>,
        /// Of an innermost loop.
        walks: Vec<Walk>,
    },
    Let {
        symbol: usize,
        range: Option<Range>,
        value: Node,
    },
    Update {
        element: Element,
        dtype: DType,
        update: Update,
    },
    If {
        conditions: Vec<Test>,
        then: Block<'k>,
        otherwise: Block<'k>,
    },
    While {
        setup: Block<'k>,
        condition: Node,
        body: Block<'k>,
    },
}

/// Statements, and how many places in the order of the program they take.
pub(super) struct Block<'k> {
    pub(super) statements: Vec<Statement<'k>>,
    pub(super) places: u32,
}

pub(super) struct Resolver<'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) precision: EvaluationPrecision,
    /// Every element resolved so far.
    pub(super) elements: RefCell<Vec<Element>>,
}

fn malformed<T>(message: impl Into<String>) -> Checked<T> {
    Err(fault(codes::VERIFIER_FAILED, message))
}

impl<'k> Resolver<'k> {
    pub(super) fn block(&self, block: &'k [Stmt]) -> Checked<Block<'k>> {
        let (mut statements, mut places) = (Vec::with_capacity(block.len()), 0u32);
        for source in block {
            let Some(action) = self.action(source)? else { continue };
            let inside = match &action {
                Action::For { body, kind, .. } if kind.is_written_out() => {
                    let turns = match source {
                        Stmt::For(inner) => inner.extent.as_constant().unwrap_or(1),
                        _ => 1,
                    };
                    body.places.saturating_mul(u32::try_from(turns).unwrap_or(u32::MAX))
                }
                Action::For { body, .. } => body.places,
                Action::If { then, otherwise, .. } => then.places.saturating_add(otherwise.places),
                Action::While { setup, body, .. } => setup.places.saturating_add(body.places),
                Action::Let { .. } | Action::Update { .. } => 0,
            };
            statements.push(Statement { source, position: places, action });
            places = places.saturating_add(inside).saturating_add(1);
        }
        Ok(Block { statements, places })
    }

    /// What a statement does; nothing, if it is a hint.
    fn action(&self, stmt: &'k Stmt) -> Checked<Option<Action<'k>>> {
        Ok(Some(match stmt {
            Stmt::For(inner) => {
                let before = self.elements.borrow().len();
                let body = self.block(&inner.body)?;
                Action::For {
                    variable: inner.variable.index(),
                    extent: self.integer(&inner.extent),
                    kind: inner.kind.clone(),
                    body,
                    walks: self.walks(inner, before),
                }
            }
            Stmt::Let { symbol, value } => {
                let Some(SymbolKind::Value { dtype, range }) =
                    self.kernel.symbols.get(*symbol).map(|symbol| &symbol.kind)
                else {
                    return malformed("`let` binds something that is no value symbol");
                };
                let value = self.value_of(*dtype, value)?;
                Action::Let { symbol: symbol.index(), range: *range, value }
            }
            Stmt::Store { buffer, index, value } => {
                let (element, declared) = self.element(*buffer, index)?;
                let update = Update::Store(self.value_of(declared, value)?);
                Action::Update { element, dtype: self.precision.dtype(declared), update }
            }
            Stmt::Reduce { buffer, index, reduction, value } => {
                let (element, declared) = self.element(*buffer, index)?;
                let update = self.reduction(declared, *reduction, value)?;
                Action::Update { element, dtype: self.precision.dtype(declared), update }
            }
            Stmt::Prefetch { .. } => return Ok(None),
            Stmt::If { conditions, then, otherwise } => Action::If {
                conditions: self.tests(conditions),
                then: self.block(then)?,
                otherwise: self.block(otherwise)?,
            },
            Stmt::While { setup, condition, body } => Action::While {
                setup: self.block(setup)?,
                condition: self.value_of(DType::Bool, condition)?,
                body: self.block(body)?,
            },
        }))
    }

    /// The walks of a loop if it is an innermost one; its elements begin at number `first`.
    fn walks(&self, inner: &Loop, first: usize) -> Vec<Walk> {
        let (mut innermost, mut bound) = (true, vec![]);
        visit::walk(&inner.body, &mut |stmt| match stmt {
            Stmt::For(_) | Stmt::While { .. } => innermost = false,
            Stmt::Let { symbol, .. } => bound.push(symbol.index()),
            _ => {}
        });
        let step = |integer: &Integer| {
            let Integer::Affine(_, terms) = integer else { return None };
            let known = terms.iter().all(|(_, symbol)| !bound.contains(symbol));
            let own = terms.iter().find(|(_, symbol)| *symbol == inner.variable.index());
            known.then_some(own.map_or(0, |(coefficient, _)| *coefficient))
        };
        let walk = |element: &Element| {
            let steps: Option<Vec<i64>> = element.index.iter().map(step).collect();
            Some(Walk { element: element.clone(), steps: steps? })
        };
        let elements = self.elements.borrow();
        let own = if innermost { &elements[first..] } else { &[] };
        own.iter().filter_map(walk).collect()
    }

    fn reduction(
        &self,
        declared: DType,
        reduction: Reduction,
        value: &ScalarExpr,
    ) -> Checked<Update> {
        if !reduction.accepts(declared) {
            return malformed(format!("`{reduction}` does not combine {declared}"));
        }
        if let ScalarExpr::Apply { function: ScalarFunction::Mul, arguments, .. } = value
            && let [left, right] = &arguments[..]
            && reduction == Reduction::Sum
            && declared.is_float()
        {
            let factors = [self.value_of(declared, left)?, self.value_of(declared, right)?];
            return Ok(Update::Fused(Box::new(factors)));
        }
        Ok(Update::Reduce(reduction, self.value_of(declared, value)?))
    }

    /// A value that must be of this declared type.
    fn value_of(&self, declared: DType, value: &ScalarExpr) -> Checked<Node> {
        let (found, node) = self.value(value)?;
        if found != declared {
            return malformed(format!("a value is of type {found}, not {declared}"));
        }
        Ok(node)
    }

    /// A value and its declared type.
    fn value(&self, value: &ScalarExpr) -> Checked<(DType, Node)> {
        Ok(match value {
            ScalarExpr::Constant(scalar) => {
                let bits = scalar.cast(self.precision.dtype(scalar.dtype())).bits();
                (scalar.dtype(), Node::Constant(bits))
            }
            ScalarExpr::Symbol(symbol) => match value.dtype(self.kernel) {
                Some(dtype) => (dtype, Node::Symbol(symbol.index())),
                None => return malformed(format!("{symbol} is no value")),
            },
            ScalarExpr::Index(expr) => (DType::I64, Node::Index(self.integer(expr))),
            ScalarExpr::Load { buffer, index } => {
                let (element, dtype) = self.element(*buffer, index)?;
                (dtype, Node::Load(element))
            }
            ScalarExpr::Apply { function, dtype, arguments } => {
                (*dtype, self.application(*function, *dtype, arguments)?)
            }
            ScalarExpr::Guard { conditions, value, otherwise } => {
                let (dtype, value) = self.value(value)?;
                let otherwise = self.value_of(dtype, otherwise)?;
                (dtype, Node::Guard(self.tests(conditions), Box::new([value, otherwise])))
            }
            ScalarExpr::Fold { reduction, buffer, index } => {
                self.fold(*reduction, *buffer, index)?
            }
        })
    }

    fn application(
        &self,
        function: ScalarFunction,
        declared: DType,
        arguments: &[ScalarExpr],
    ) -> Checked<Node> {
        let mut operands = Vec::with_capacity(arguments.len());
        for argument in arguments {
            operands.push(self.value(argument)?);
        }
        let types: Vec<DType> = operands.iter().map(|(dtype, _)| *dtype).collect();
        if let Err(message) = function.result_dtype(&types, Some(declared)) {
            return malformed(message);
        }
        let dtype = self.precision.dtype(declared);
        let changed = dtype != declared || types.iter().any(|t| self.precision.dtype(*t) != *t);
        if function == ScalarFunction::Bitcast && changed {
            return malformed(format!("the bits of {} mean nothing in f64", types[0]));
        }
        Ok(match (basic_f32(function), basic_f64(function), <[_; 2]>::try_from(operands)) {
            (Some(single), _, Ok([(_, a), (_, b)])) if dtype == DType::F32 => {
                Node::Single(single, Box::new([a, b]))
            }
            (_, Some(double), Ok([(_, a), (_, b)])) if dtype == DType::F64 => {
                Node::Double(double, Box::new([a, b]))
            }
            (_, _, Ok(operands)) => self.apply(function, dtype, operands.into()),
            (_, _, Err(operands)) => self.apply(function, dtype, operands),
        })
    }

    fn apply(&self, function: ScalarFunction, dtype: DType, operands: Vec<(DType, Node)>) -> Node {
        let computed = |(declared, node)| (self.precision.dtype(declared), node);
        Node::Apply(function, dtype, operands.into_iter().map(computed).collect())
    }

    fn fold(
        &self,
        reduction: Reduction,
        buffer: loops::BufferId,
        index: &[Expr],
    ) -> Checked<(DType, Node)> {
        let (element, dtype) = self.element_of(buffer, index, |rank| rank.wrapping_sub(1))?;
        let last = self.kernel.buffers[buffer].shape.last().and_then(Expr::as_constant);
        match last.filter(|extent| *extent > 0 && extent & (extent - 1) == 0) {
            Some(extent) if reduction.accepts(dtype) => {
                Ok((dtype, Node::Fold(reduction, element, extent)))
            }
            Some(_) => malformed(format!("`{reduction}` does not combine {dtype}")),
            None => malformed("the last axis of a folded buffer is no constant power of two"),
        }
    }

    /// An element and its declared type; `axes` says how many axes are indexed out of all.
    fn element_of(
        &self,
        buffer: loops::BufferId,
        index: &[Expr],
        axes: fn(usize) -> usize,
    ) -> Checked<(Element, DType)> {
        let Some(data) = self.kernel.buffers.get(buffer) else {
            return malformed(format!("there is no buffer {buffer}"));
        };
        if index.len() != axes(data.shape.len()) {
            return malformed(format!("%{} has another number of axes", data.name));
        }
        let index = index.iter().map(|expr| self.integer(expr)).collect();
        let mut elements = self.elements.borrow_mut();
        let element = Element { memory: buffer.index(), index, cursor: elements.len() };
        elements.push(element.clone());
        Ok((element, data.dtype))
    }

    fn element(&self, buffer: loops::BufferId, index: &[Expr]) -> Checked<(Element, DType)> {
        self.element_of(buffer, index, |rank| rank)
    }

    fn tests(&self, conditions: &[Condition]) -> Vec<Test> {
        let test = |condition: &Condition| Test {
            left: self.integer(&condition.left),
            comparison: condition.comparison,
            right: self.integer(&condition.right),
        };
        conditions.iter().map(test).collect()
    }

    pub(super) fn integer(&self, expr: &Expr) -> Integer {
        let known = |symbol| self.kernel.symbols.contains(symbol);
        let linear = |term: &sym::Term| {
            let symbol = term.as_symbol().filter(|symbol| known(*symbol))?;
            Some((term.coefficient(), symbol.index()))
        };
        match expr.terms().iter().map(linear).collect() {
            Some(terms) => Integer::Affine(expr.constant_part(), terms),
            None => Integer::General(expr.clone()),
        }
    }
}

/// The basic operations in hardware: the same bits as the scalar function table gives.
fn basic_f32(function: ScalarFunction) -> Option<fn(f32, f32) -> f32> {
    match function {
        ScalarFunction::Add => Some(|a, b| a + b),
        ScalarFunction::Sub => Some(|a, b| a - b),
        ScalarFunction::Mul => Some(|a, b| a * b),
        ScalarFunction::Div => Some(|a, b| a / b),
        _ => None,
    }
}

fn basic_f64(function: ScalarFunction) -> Option<fn(f64, f64) -> f64> {
    match function {
        ScalarFunction::Add => Some(|a, b| a + b),
        ScalarFunction::Sub => Some(|a, b| a - b),
        ScalarFunction::Mul => Some(|a, b| a * b),
        ScalarFunction::Div => Some(|a, b| a / b),
        _ => None,
    }
}

/// The scalar of a type with these bits.
pub(super) fn scalar(dtype: DType, bits: u64) -> Scalar {
    Scalar::from_bits(dtype, bits)
}
