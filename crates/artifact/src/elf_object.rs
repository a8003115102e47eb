//! Objects of ELF for x86-64, and static libraries of one object.
//!
//! Sections are code and data; what code says of data are relocations of the code (the distance
//! from behind four bytes), and there are no others. No symbol is undefined. Local symbols bear the
//! names of kernels, for profilers.
//!
//! Source: System V ABI, chapter 4, and its supplement for AMD64; the archive format of System V.

use std::io::{self, Write};

use crate::elf::{ALLOCATED, Bytes, EXECUTABLE, NameTable, SYMBOL_BYTES, SectionTable, put_symbol};
use crate::image::{Image, Section};
use crate::object::ObjectFile;

const HEADER_BYTES: u64 = 64;
/// Numbers of sections, in order.
const TEXT: u16 = 1;
const RODATA: u16 = 2;
const SECTIONS: u16 = 8;

/// The distance to a symbol, in four bytes.
const PC32: u64 = 2;

impl<'a> ObjectFile<'a> {
    /// Lays an object of ELF out. `references` are places in the code where the distance to a
    /// symbol of data belongs.
    pub(crate) fn of_elf(image: &'a Image, references: &[(usize, usize)]) -> ObjectFile<'a> {
        let code_bytes = image.code.len() as u64;
        let data_at = (HEADER_BYTES + code_bytes).next_multiple_of(64);
        let data_bytes = image.data_bytes();
        let back_at = (data_at + data_bytes).next_multiple_of(8);
        let mut names = NameTable::new();
        let mut symbols = Bytes::default();
        put_symbol(&mut symbols, 0, 0, 0, 0, 0);
        // The symbol of the section of data, to which distances are told.
        put_symbol(&mut symbols, 0, 3, RODATA, 0, 0);
        let of_kind =
            |exported: bool| image.symbols.iter().filter(move |it| it.is_exported == exported);
        for symbol in of_kind(false).chain(of_kind(true)) {
            let name = names.add(&symbol.name);
            let (section, kind) = match symbol.section {
                Section::Code => (TEXT, 2),
                Section::Data => (RODATA, 1),
            };
            let info = u8::from(symbol.is_exported) << 4 | kind;
            put_symbol(&mut symbols, name, info, section, symbol.offset, symbol.bytes);
        }
        let locals = of_kind(false).count() as u32 + 2;
        let mut relocations = Bytes::default();
        for &(at, symbol) in references {
            relocations.u64(at as u64);
            relocations.u64(1 << 32 | PC32);
            // The distance counts from the four bytes themselves.
            relocations.u64(image.symbols[symbol].offset.wrapping_sub(4));
        }
        let mut back = symbols.0;
        let symbols_bytes = back.len() as u64;
        let relocations_at = back_at + symbols_bytes;
        back.extend(&relocations.0);
        let names_at = back_at + back.len() as u64;
        back.extend(&names.0);
        let mut sections = SectionTable::of_object();
        let code = (HEADER_BYTES, code_bytes);
        sections.add(".text", 1, ALLOCATED | EXECUTABLE, code, (0, 0), (64, 0));
        sections.add(".rodata", 1, ALLOCATED, (data_at, data_bytes), (0, 0), (64, 0));
        // It is here to say that stacks need not be executable.
        sections.add(".note.GNU-stack", 1, 0, (back_at, 0), (0, 0), (1, 0));
        let table = (back_at, symbols_bytes);
        sections.add(".symtab", 2, 0, table, (5, locals), (8, SYMBOL_BYTES));
        sections.add(".strtab", 3, 0, (names_at, names.0.len() as u64), (0, 0), (1, 0));
        let table = (relocations_at, relocations.0.len() as u64);
        sections.add(".rela.text", 4, 0x40, table, (4, u32::from(TEXT)), (8, 24));
        let (tables, sections_at) = sections.finish(back_at + back.len() as u64);
        back.extend(tables);
        let mut header = Bytes::default();
        header.0.extend([0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        header.u16(1);
        header.u16(62);
        header.u32(1);
        header.u64(0);
        header.u64(0);
        header.u64(sections_at);
        header.u32(0);
        for half in [64, 0, 0, 64, SECTIONS, SECTIONS - 1] {
            header.u16(half);
        }
        ObjectFile { image, header: header.0, data_at, back, back_at }
    }

    /// Writes a static library whose only member is the object, under a name of at most 15 bytes.
    ///
    /// # Errors
    /// Those of the writer.
    pub(crate) fn write_static_library(
        &self,
        member: &str,
        file: &mut dyn Write,
    ) -> io::Result<()> {
        let exported: Vec<&str> = self
            .image
            .symbols
            .iter()
            .filter(|symbol| symbol.is_exported)
            .map(|symbol| &symbol.name[..])
            .collect();
        let names: usize = exported.iter().map(|name| name.len() + 1).sum();
        let index_bytes = 4 + 4 * exported.len() + names;
        let member_at = 8 + 60 + index_bytes.next_multiple_of(2);
        file.write_all(b"!<arch>\n")?;
        member_header(file, "/", index_bytes as u64)?;
        file.write_all(&(exported.len() as u32).to_be_bytes())?;
        for _ in &exported {
            file.write_all(&(member_at as u32).to_be_bytes())?;
        }
        for name in exported {
            file.write_all(name.as_bytes())?;
            file.write_all(&[0])?;
        }
        if index_bytes % 2 == 1 {
            file.write_all(b"\n")?;
        }
        member_header(file, &format!("{member}/"), self.bytes())?;
        self.write(file)?;
        if self.bytes() % 2 == 1 {
            file.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// The header of a member: without a date, nobody's, with the usual rights.
fn member_header(file: &mut dyn Write, name: &str, bytes: u64) -> io::Result<()> {
    writeln!(file, "{name:<16}{:<12}{:<6}{:<6}{:<8}{bytes:<10}`", 0, 0, 0, 644)
}
