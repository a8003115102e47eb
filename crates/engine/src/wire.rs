//! Numbers, texts and lists in a section.
//!
//! Numbers take 8 bytes, bytes and texts their length first. A decoder believes nothing: lengths
//! are compared with what is left, and tags with what there is.

/// A section that does not decode, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage(pub String);

impl Damage {
    /// With this reason.
    #[cold]
    #[inline(never)]
    pub fn new(reason: impl Into<String>) -> Damage {
        Damage(reason.into())
    }
}

/// A section that is written.
#[derive(Clone, Debug, Default)]
pub struct Encoder(Vec<u8>);

impl Encoder {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Encoder {
        Encoder::default()
    }

    /// What has been written.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    /// A number.
    pub fn number(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A number with a sign.
    pub fn integer(&mut self, value: i64) {
        self.number(value as u64);
    }

    /// Whether something holds.
    pub fn flag(&mut self, value: bool) {
        self.number(value.into());
    }

    /// Bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// A text.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// How many there are, and each.
    pub fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
        mut each: impl FnMut(&mut Encoder, T),
    ) {
        let items = items.into_iter();
        self.number(items.len() as u64);
        items.for_each(|item| each(self, item));
    }

    /// Whether there is one, and the one.
    pub fn option<T>(&mut self, item: Option<T>, each: impl FnOnce(&mut Encoder, T)) {
        self.flag(item.is_some());
        if let Some(item) = item {
            each(self, item);
        }
    }
}

/// A section that is read.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// At the beginning of a section.
    #[must_use]
    pub fn new(section: &'a [u8]) -> Decoder<'a> {
        Decoder { rest: section }
    }

    /// Whether all has been read.
    ///
    /// # Errors
    /// Bytes that are left.
    pub fn end(&self) -> Result<(), Damage> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(Damage::new(format!("{left} bytes are left behind the end"))),
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Damage> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| {
            Damage::new(format!("{count} bytes are wanted where {} are left", self.rest.len()))
        })?;
        self.rest = rest;
        Ok(taken)
    }

    /// A number.
    ///
    /// # Errors
    /// Too few bytes.
    pub fn number(&mut self) -> Result<u64, Damage> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(bytes))
    }

    /// A number of at most so many bits as a place in memory has.
    ///
    /// # Errors
    /// Too few bytes; a larger number.
    pub fn size(&mut self) -> Result<usize, Damage> {
        let number = self.number()?;
        usize::try_from(number).map_err(|_| Damage::new(format!("{number} is too large")))
    }

    /// A number that is less than `end`.
    ///
    /// # Errors
    /// Too few bytes; another number.
    pub fn place(&mut self, end: usize) -> Result<usize, Damage> {
        let number = self.size()?;
        match number < end {
            true => Ok(number),
            false => Err(Damage::new(format!("there is no {number} among {end}"))),
        }
    }

    /// A number with a sign.
    ///
    /// # Errors
    /// Too few bytes.
    pub fn integer(&mut self) -> Result<i64, Damage> {
        Ok(self.number()? as i64)
    }

    /// Whether something holds.
    ///
    /// # Errors
    /// Too few bytes; what is neither.
    pub fn flag(&mut self) -> Result<bool, Damage> {
        Ok(self.place(2)? == 1)
    }

    /// Bytes.
    ///
    /// # Errors
    /// Too few of them.
    pub fn bytes(&mut self) -> Result<&'a [u8], Damage> {
        let count = self.size()?;
        self.take(count)
    }

    /// A text.
    ///
    /// # Errors
    /// Too few bytes; what is no text.
    pub fn text(&mut self) -> Result<&'a str, Damage> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| Damage::new("a text is not UTF-8"))
    }

    /// As many as there are.
    ///
    /// # Errors
    /// More than there can be, since each takes 8 bytes at least; those of one.
    pub fn list<T, C: FromIterator<T>>(
        &mut self,
        mut each: impl FnMut(&mut Decoder<'a>) -> Result<T, Damage>,
    ) -> Result<C, Damage> {
        let count = self.count()?;
        (0..count).map(|_| each(self)).collect()
    }

    /// How many things follow, each of which takes 8 bytes at least: what a list begins with.
    ///
    /// # Errors
    /// More than there can be.
    pub fn count(&mut self) -> Result<usize, Damage> {
        let count = self.size()?;
        if count > self.rest.len() / 8 {
            let left = self.rest.len();
            return Err(Damage::new(format!("{count} things are said to lie in {left} bytes")));
        }
        Ok(count)
    }

    /// One or none.
    ///
    /// # Errors
    /// Too few bytes; those of the one.
    pub fn option<T>(
        &mut self,
        each: impl FnOnce(&mut Decoder<'a>) -> Result<T, Damage>,
    ) -> Result<Option<T>, Damage> {
        match self.flag()? {
            true => each(self).map(Some),
            false => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut encoder = Encoder::new();
        encoder.text("größe");
        encoder.list([1_i64, -2], Encoder::integer);
        encoder.option(Some(7), Encoder::number);
        encoder.option(None, Encoder::number);
        encoder.flag(true);
        let section = encoder.finish();
        let mut decoder = Decoder::new(&section);
        assert_eq!(decoder.text(), Ok("größe"));
        assert_eq!(decoder.list(Decoder::integer), Ok(vec![1, -2]));
        assert_eq!(decoder.option(Decoder::number), Ok(Some(7)));
        assert_eq!(decoder.option(Decoder::number), Ok(None));
        assert_eq!(decoder.flag(), Ok(true));
        assert_eq!(decoder.end(), Ok(()));
        assert!(decoder.number().is_err());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut encoder = Encoder::new();
        encoder.number(u64::MAX);
        let section = encoder.finish();
        assert!(Decoder::new(&section).bytes().is_err());
        assert!(Decoder::new(&section).flag().is_err());
        assert!(Decoder::new(&section).place(5).is_err());
        assert!(Decoder::new(&section).list::<u64, Vec<u64>>(Decoder::number).is_err());
        assert!(Decoder::new(&section).end().is_err());
    }
}
