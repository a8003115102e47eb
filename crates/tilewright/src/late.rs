//! What is made when it is first looked at.

use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

/// A value, or how to make it.
pub(crate) struct LateValue<T> {
    made: OnceLock<T>,
    make: Option<Box<dyn Fn() -> T + Send + Sync>>,
}

impl<T> LateValue<T> {
    /// A value that is there.
    pub(crate) fn of(value: T) -> LateValue<T> {
        LateValue { made: OnceLock::from(value), make: None }
    }

    /// A value that is made when it is first looked at, by whoever looks.
    pub(crate) fn by(make: impl Fn() -> T + Send + Sync + 'static) -> LateValue<T> {
        LateValue { made: OnceLock::new(), make: Some(Box::new(make)) }
    }

    /// The value, made now if it is not there.
    pub(crate) fn made_mut(&mut self) -> Option<&mut T> {
        let _ = &**self;
        self.made.get_mut()
    }

    /// The value, if it is there.
    pub(crate) fn made(&self) -> Option<&T> {
        self.made.get()
    }
}

impl<T> Deref for LateValue<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.made.get_or_init(|| match &self.make {
            Some(make) => make(),
            None => unreachable!("a value that nothing makes was there from the beginning"),
        })
    }
}

impl<T: fmt::Debug> fmt::Debug for LateValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.made() {
            Some(made) => made.fmt(f),
            None => f.write_str("not made yet"),
        }
    }
}
