//! An object that is laid out, whatever its form: a header, code, data, and what is behind them.

use std::io::{self, Write};

use crate::elf::zeros;
use crate::image::Image;

/// An object, laid out: the code of the image behind the header, its data, tables; zeros between.
pub(crate) struct ObjectFile<'a> {
    pub(crate) image: &'a Image,
    pub(crate) header: Vec<u8>,
    pub(crate) data_at: u64,
    pub(crate) back: Vec<u8>,
    pub(crate) back_at: u64,
}

impl ObjectFile<'_> {
    /// The bytes of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.back_at + self.back.len() as u64
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Those of the writer.
    pub(crate) fn write(&self, file: &mut dyn Write) -> io::Result<()> {
        file.write_all(&self.header)?;
        file.write_all(&self.image.code)?;
        zeros(file, self.data_at - (self.header.len() + self.image.code.len()) as u64)?;
        self.image.write_data(file)?;
        zeros(file, self.back_at - self.data_at - self.image.data_bytes())?;
        file.write_all(&self.back)
    }
}
