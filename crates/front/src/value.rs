//! Values under construction: what a name of the model stands for.
//!
//! Besides a node of the graph, a value may be *known*: models compute shapes with tensors, and
//! the elements of such small tensors are kept here as constants or symbolic integers. Nodes are
//! made of known values and weights only when one is used as data, at most once each.

use std::cell::OnceCell;
use std::rc::Rc;

use graph::{ElementType, Known, Shape, TensorType, Type, ValueId};
use sym::Expr;
use tensor::{DType, Kind, Scalar, Tensor};

/// The largest number of elements of a known value.
pub const KNOWN_ELEMENTS: usize = 64;

/// A constant of the model that is not known element by element.
#[derive(Debug)]
pub struct Weight {
    /// The user's name for it.
    pub name: String,
    /// Its value.
    pub tensor: Tensor,
    /// Whether passes may see the value.
    pub is_literal: bool,
}

impl Weight {
    /// Whether it holds strings, which no code computes with.
    pub fn is_strings(&self) -> bool {
        self.tensor.dtype() == DType::String
    }
}

/// What a name of the model stands for. Clones share the node. It is one pointer, since the code of
/// importers moves values at each step, and drops them wherever it may end early.
#[derive(Clone, Debug)]
pub struct Operand(Rc<Parts>);

#[derive(Debug)]
struct Parts {
    ty: TensorType,
    /// The node, once there is one; what is known of a value may be told apart from it.
    node: Rc<OnceCell<ValueId>>,
    known: Option<Rc<[Known]>>,
    weight: Option<Rc<Weight>>,
    list: Option<Rc<List>>,
    coded: Option<Rc<Coded>>,
}

/// Strings that data choose from a list.
#[derive(Clone, Debug)]
pub struct Coded {
    /// For each element its number in the list, an i64.
    pub codes: Operand,
    /// The list.
    pub texts: Texts,
}

/// A list of strings.
#[derive(Clone, Debug)]
pub enum Texts {
    /// They are known.
    Known(Rc<[String]>),
    /// A vector of the graph.
    Data(Operand),
}

/// A value that is made of others. What it is made of is known by now, so that it leaves nothing
/// behind but its tensors. Its type means nothing.
#[derive(Clone, Debug)]
pub enum List {
    /// Values behind each other.
    Sequence(Vec<Operand>),
    /// A value or none.
    Optional(Option<Operand>),
    /// Maps from the same keys, a vector, to numbers: a row of a matrix each.
    Maps(Operand, Operand),
    /// A map from the elements of one vector to those of another.
    Map(Operand, Operand),
    /// A sequence or an optional value that only a run knows, of this type.
    Data(Type),
}

impl Parts {
    fn of_type(ty: TensorType) -> Parts {
        Parts { ty, node: Rc::default(), known: None, weight: None, list: None, coded: None }
    }

    fn of_elements(dtype: DType, shape: &[usize], elements: Vec<Known>) -> Parts {
        assert_eq!(shape.iter().product::<usize>(), elements.len(), "elements of {shape:?}");
        let shape = shape.iter().map(|&extent| Expr::from(extent)).collect();
        Parts { known: Some(elements.into()), ..Parts::of_type(TensorType { dtype, shape }) }
    }

    fn of_tensor(tensor: &Tensor) -> Parts {
        let elements = tensor.scalars().map(Known::Constant).collect();
        Parts::of_elements(tensor.dtype(), tensor.shape(), elements)
    }

    fn of_constant(weight: Weight) -> Parts {
        let tensor = &weight.tensor;
        let shape = tensor.shape().iter().map(|&extent| Expr::from(extent)).collect();
        let ty = TensorType { dtype: tensor.dtype(), shape };
        Parts { weight: Some(Rc::new(weight)), ..Parts::of_type(ty) }
    }

    fn of_weight(name: String, tensor: Tensor) -> Parts {
        Parts::of_constant(Weight { name, tensor, is_literal: false })
    }

    fn of_list(list: List) -> Parts {
        let ty = TensorType { dtype: DType::Bool, shape: Shape::default() };
        Parts { list: Some(Rc::new(list)), ..Parts::of_type(ty) }
    }
}

impl Operand {
    /// A value of the graph.
    pub fn of_node(id: ValueId, ty: TensorType) -> Operand {
        Operand::of(Parts { node: Rc::new(OnceCell::from(id)), ..Parts::of_type(ty) })
    }

    fn of(parts: Parts) -> Operand {
        Operand(Rc::new(parts))
    }

    /// A value whose elements are known, without a node so far.
    ///
    /// # Panics
    /// When the number of elements is not that of the shape.
    pub fn of_known(dtype: DType, shape: &[usize], elements: Vec<Known>) -> Operand {
        Operand::of(Parts::of_elements(dtype, shape, elements))
    }

    /// A known number.
    pub fn of_scalar(scalar: Scalar) -> Operand {
        Operand::of_known(scalar.dtype(), &[], vec![Known::Constant(scalar)])
    }

    /// Known numbers.
    pub fn of_tensor(tensor: &Tensor) -> Operand {
        Operand::of(Parts::of_tensor(tensor))
    }

    /// A constant whose value passes must not see.
    pub fn of_weight(name: String, tensor: Tensor) -> Operand {
        Operand::of(Parts::of_weight(name, tensor))
    }

    /// A constant, by itself.
    pub fn of_constant(weight: Weight) -> Operand {
        Operand::of(Parts::of_constant(weight))
    }

    /// The value, known to passes if it is a constant of one element: for operands that say what
    /// an operator is, as attributes do, rather than what has been learned.
    #[must_use]
    pub fn as_attribute(&self) -> Operand {
        match self.weight() {
            Some(weight) if weight.tensor.len() == 1 => Operand::of_tensor(&weight.tensor),
            _ => self.clone(),
        }
    }

    /// The value with elements that are known all the same. Many are kept aside, for those who ask
    /// for numbers.
    pub fn knowing(self, tensor: &Tensor) -> Operand {
        let known = match tensor.len() <= KNOWN_ELEMENTS && tensor.dtype() != DType::String {
            true => Parts::of_tensor(tensor),
            false => Parts::of_weight(String::new(), tensor.clone()),
        };
        Operand::of(Parts { node: self.0.node.clone(), ..known })
    }

    /// A value of the graph of any type.
    pub fn of_value(id: ValueId, ty: &Type) -> Operand {
        match ty {
            Type::Tensor(ty) => Operand::of_node(id, ty.clone()),
            list => {
                let value = Parts::of_list(List::Data(list.clone()));
                Operand::of(Parts { node: Rc::new(OnceCell::from(id)), ..value })
            }
        }
    }

    /// The type that it has in the graph.
    ///
    /// # Errors
    /// A sentence on a list of values that are not alike, or a map.
    pub fn graph_type(&self) -> Result<Type, String> {
        let element = |values: &[Operand]| {
            let joined = values.iter().try_fold(ElementType::Any, |all, value| {
                let element = ElementType::of(&value.graph_type()?);
                all.join(&element).ok_or_else(|| "a list holds values of two types".to_owned())
            });
            joined.map(Box::new)
        };
        Ok(match self.list() {
            None => Type::Tensor(self.0.ty.clone()),
            Some(List::Data(ty)) => ty.clone(),
            Some(List::Sequence(values)) => Type::Sequence(element(values)?),
            Some(List::Optional(value)) => Type::Optional(element(value.as_slice())?),
            Some(List::Maps(..) | List::Map(..)) => return Err("a map stands in a list".to_owned()),
        })
    }

    /// A sequence or an optional value.
    pub fn of_list(list: List) -> Operand {
        Operand::of(Parts::of_list(list))
    }

    /// Strings by their codes; known strings where the codes are.
    pub fn of_coded(coded: Coded) -> Operand {
        let codes = coded.codes.numbers().zip(coded.codes.constant_shape());
        if let (Some((codes, shape)), Texts::Known(texts)) = (codes, &coded.texts) {
            let text = |code: &Scalar| {
                usize::try_from(code.as_i64()).ok().and_then(|code| texts.get(code).cloned())
            };
            if let Some(texts) = codes.iter().map(text).collect::<Option<Vec<String>>>() {
                return Operand::of_weight(String::new(), Tensor::from_strings(&shape, texts));
            }
        }
        let ty = TensorType { dtype: DType::String, shape: coded.codes.ty().shape.clone() };
        Operand::of(Parts { coded: Some(Rc::new(coded)), ..Parts::of_type(ty) })
    }

    /// The codes, of strings that data choose.
    pub fn coded(&self) -> Option<&Coded> {
        self.0.coded.as_deref()
    }

    /// What it is made of, if it is no tensor.
    pub fn list(&self) -> Option<&List> {
        self.0.list.as_deref()
    }

    /// What it is to callers.
    ///
    /// # Errors
    /// As [`Self::graph_type`].
    pub fn kind(&self) -> Result<Kind, String> {
        Ok(match self.list() {
            Some(List::Maps(..)) => Kind::Maps,
            Some(List::Map(..)) => Kind::Map,
            _ => ElementType::of(&self.graph_type()?).kind().0,
        })
    }

    /// What it is in a graph: of maps the keys and the numbers, of all else the value itself.
    pub fn components(&self) -> Vec<Operand> {
        match self.list() {
            Some(List::Maps(..) | List::Map(..)) => self.tensors(),
            _ => vec![self.clone()],
        }
    }

    /// The tensors that it is made of, as far as that is known, in order.
    pub fn tensors(&self) -> Vec<Operand> {
        match self.list() {
            None | Some(List::Data(_)) => vec![self.clone()],
            Some(List::Sequence(values)) => values.iter().flat_map(Operand::tensors).collect(),
            Some(List::Optional(value)) => value.iter().flat_map(Operand::tensors).collect(),
            Some(List::Maps(keys, values) | List::Map(keys, values)) => {
                vec![keys.clone(), values.clone()]
            }
        }
    }

    /// The type.
    pub fn ty(&self) -> &TensorType {
        &self.0.ty
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.0.ty.dtype
    }

    /// The shape.
    pub fn shape(&self) -> &[Expr] {
        &self.0.ty.shape
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.0.ty.shape.len()
    }

    /// The elements, where they are known.
    pub fn known(&self) -> Option<&[Known]> {
        self.0.known.as_deref()
    }

    /// The constant, where this is one that is not known element by element.
    pub fn weight(&self) -> Option<&Weight> {
        self.0.weight.as_deref()
    }

    /// The shape in numbers; only known values and weights are sure to have one.
    pub fn constant_shape(&self) -> Option<Vec<usize>> {
        constant_shape(&self.0.ty.shape)
    }

    /// The node, once there is one.
    pub fn node(&self) -> Option<ValueId> {
        self.cell().get().copied()
    }

    /// Where the node will be.
    pub(crate) fn cell(&self) -> &OnceCell<ValueId> {
        &self.0.node
    }

    /// All elements as numbers: known ones, or those of a weight. A front end asks this where a
    /// shape or the choice of an algorithm depends on them.
    pub fn numbers(&self) -> Option<Vec<Scalar>> {
        if let Some(known) = self.known() {
            return known.iter().map(Known::constant).collect();
        }
        let tensor = &self.0.weight.as_ref()?.tensor;
        (tensor.dtype() != DType::String).then(|| tensor.scalars().collect())
    }

    /// The one number that all elements of a constant are, if they are, and it is one element or
    /// integers: of a scale or zero point a part of how a model is quantised, which passes may
    /// know.
    pub fn same_for_all(&self) -> Option<Operand> {
        let numbers = self.numbers()?;
        let (first, rest) = numbers.split_first()?;
        let known = rest.is_empty() || self.dtype().is_integer();
        (known && rest.iter().all(|number| number == first)).then(|| Operand::of_scalar(*first))
    }

    /// The first of the elements that are known of which something holds.
    pub fn first_number(&self, holds: impl Fn(f64) -> bool) -> Option<f64> {
        let holds = |number: &f64| holds(*number);
        if let Some(known) = self.known() {
            return known.iter().filter_map(Known::constant).map(Scalar::as_f64).find(holds);
        }
        let tensor = &self.0.weight.as_ref()?.tensor;
        let numbers = tensor.scalars().take_while(|_| tensor.dtype() != DType::String);
        numbers.map(Scalar::as_f64).find(holds)
    }
}

/// The value of a constant of the model: known if it has one element, or few that are no floats;
/// else a weight.
pub fn constant_value(name: &str, tensor: Tensor, is_attribute: bool) -> Operand {
    let dtype = tensor.dtype();
    let few = match dtype.is_float() {
        true => is_attribute && tensor.len() <= 1,
        false => tensor.len() <= KNOWN_ELEMENTS,
    };
    if few && dtype != DType::String {
        return Operand::of_tensor(&tensor);
    }
    Operand::of_weight(name.to_owned(), tensor)
}

/// A shape in numbers.
pub fn constant_shape(shape: &[Expr]) -> Option<Vec<usize>> {
    let extent = |extent: &Expr| extent.as_constant().and_then(|n| usize::try_from(n).ok());
    shape.iter().map(extent).collect()
}
