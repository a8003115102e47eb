//! Shapes: a list of extents that copies share.
//!
//! A function has a few shapes and a great many values and nodes of each, and passes copy them all.
//! So a copy counts one more reader, and a shape without axes is no more than a null pointer.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use sym::Expr;

/// The extent of each axis.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Shape(Option<Arc<[Expr]>>);

impl Deref for Shape {
    type Target = [Expr];

    fn deref(&self) -> &[Expr] {
        self.0.as_deref().unwrap_or_default()
    }
}

/// Copies stay as they were.
impl DerefMut for Shape {
    fn deref_mut(&mut self) -> &mut [Expr] {
        match &mut self.0 {
            Some(extents) => Arc::make_mut(extents),
            None => &mut [],
        }
    }
}

impl PartialEq<[Expr]> for Shape {
    fn eq(&self, other: &[Expr]) -> bool {
        **self == *other
    }
}

impl PartialEq<&[Expr]> for Shape {
    fn eq(&self, other: &&[Expr]) -> bool {
        **self == **other
    }
}

impl PartialEq<Vec<Expr>> for Shape {
    fn eq(&self, other: &Vec<Expr>) -> bool {
        **self == **other
    }
}

impl PartialEq<Shape> for Vec<Expr> {
    fn eq(&self, other: &Shape) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl From<Vec<Expr>> for Shape {
    fn from(extents: Vec<Expr>) -> Shape {
        Shape((!extents.is_empty()).then(|| extents.into()))
    }
}

impl From<&[Expr]> for Shape {
    fn from(extents: &[Expr]) -> Shape {
        Shape((!extents.is_empty()).then(|| extents.into()))
    }
}

impl From<&Vec<Expr>> for Shape {
    fn from(extents: &Vec<Expr>) -> Shape {
        extents[..].into()
    }
}

impl From<&Shape> for Shape {
    fn from(shape: &Shape) -> Shape {
        shape.clone()
    }
}

impl<const N: usize> From<&[Expr; N]> for Shape {
    fn from(extents: &[Expr; N]) -> Shape {
        extents[..].into()
    }
}

impl<const N: usize> From<[Expr; N]> for Shape {
    fn from(extents: [Expr; N]) -> Shape {
        Shape((N > 0).then(|| extents.into()))
    }
}

impl FromIterator<Expr> for Shape {
    fn from_iter<I: IntoIterator<Item = Expr>>(extents: I) -> Shape {
        let extents: Arc<[Expr]> = extents.into_iter().collect();
        Shape((!extents.is_empty()).then_some(extents))
    }
}

impl<'a> IntoIterator for &'a Shape {
    type Item = &'a Expr;
    type IntoIter = std::slice::Iter<'a, Expr>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Shape {
    type Item = &'a mut Expr;
    type IntoIter = std::slice::IterMut<'a, Expr>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}
