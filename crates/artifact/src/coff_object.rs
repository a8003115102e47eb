//! Objects of COFF for x86-64, which linkers of Windows take.
//!
//! Sections are code and data; what code says of data are relocations of the code (the distance
//! from behind four bytes), and there are no others. No symbol is undefined. Calls are those of
//! System V, as headers and modules say; the time in the header is 0.
//!
//! Source: Microsoft's PE format, "COFF file header" to "COFF string table".

use crate::elf::Bytes;
use crate::image::{Image, Section};
use crate::object::ObjectFile;

const HEADER_BYTES: u64 = 20;
const SECTION_BYTES: u64 = 40;
/// An x86-64 processor.
const MACHINE: u16 = 0x8664;
/// Code that is run and read, and data that is read, both at multiples of 64.
const TEXT_FLAGS: u32 = 0x6070_0020;
const RDATA_FLAGS: u32 = 0x4070_0040;
/// More relocations than the header of a section counts: the first one counts them.
const MANY_RELOCATIONS: u32 = 0x0100_0000;
/// The distance to a symbol from behind four bytes.
const RELATIVE: u16 = 4;
/// Kinds of symbols.
const EXTERNAL: u8 = 2;
const STATIC: u8 = 3;
const FUNCTION: u16 = 0x20;
/// Symbols of the sections stand first, each with a description behind it.
const SECTION_SYMBOLS: u32 = 4;

/// Lays an object out. `references` are places in the code where the distance to a symbol of
/// data belongs.
///
/// # Errors
/// The bytes of code and data, where they are more than its numbers hold.
pub(crate) fn coff_object<'a>(
    image: &'a Image,
    references: &[(usize, usize)],
) -> Result<ObjectFile<'a>, u64> {
    let code_bytes = image.code.len() as u64;
    let data_at = (HEADER_BYTES + 2 * SECTION_BYTES + code_bytes).next_multiple_of(64);
    let back_at = data_at + image.data_bytes();
    let mut back = Bytes::default();
    let many = references.len() >= 0xffff;
    let relocations = references.len() as u64 + u64::from(many);
    if many {
        relocation(&mut back, relocations as u32, 0, 0);
    }
    for &(at, symbol) in references {
        relocation(&mut back, at as u32, SECTION_SYMBOLS + symbol as u32, RELATIVE);
    }
    let symbols_at = back_at + back.0.len() as u64;
    let mut names = vec![0; 4];
    let sections = [(".text", code_bytes, relocations), (".rdata", image.data_bytes(), 0)];
    for (number, (name, bytes, relocations)) in sections.into_iter().enumerate() {
        let section = number as u16 + 1;
        symbol(&mut back, &mut names, (name, STATIC, 1), (section, 0, 0));
        back.u32(bytes as u32);
        back.u16(relocations.min(0xffff) as u16);
        back.0.extend([0; 12]);
    }
    for it in &image.symbols {
        let kind = if it.is_exported { EXTERNAL } else { STATIC };
        let (section, function) = match it.section {
            Section::Code => (1, FUNCTION),
            Section::Data => (2, 0),
        };
        let place = (section, it.offset as u32, function);
        symbol(&mut back, &mut names, (&it.name, kind, 0), place);
    }
    let names_bytes = names.len() as u32;
    names[..4].copy_from_slice(&names_bytes.to_le_bytes());
    back.0.extend(names);
    let whole = back_at + back.0.len() as u64;
    if u32::try_from(whole).is_err() || i32::try_from(code_bytes + image.data_bytes()).is_err() {
        return Err(code_bytes + image.data_bytes());
    }
    let mut header = Bytes::default();
    header.u16(MACHINE);
    header.u16(2);
    header.u32(0);
    header.u32(symbols_at as u32);
    header.u32(SECTION_SYMBOLS + image.symbols.len() as u32);
    header.u32(0);
    let places = [HEADER_BYTES + 2 * SECTION_BYTES, data_at];
    for ((name, bytes, relocations), at) in sections.into_iter().zip(places) {
        let flags = match name {
            ".text" if many => TEXT_FLAGS | MANY_RELOCATIONS,
            ".text" => TEXT_FLAGS,
            _ => RDATA_FLAGS,
        };
        header.0.extend(short_name(name));
        let relocations_at = if relocations == 0 { 0 } else { back_at };
        for word in [0, 0, bytes, at, relocations_at, 0] {
            header.u32(word as u32);
        }
        header.u16(relocations.min(0xffff) as u16);
        header.u16(0);
        header.u32(flags);
    }
    Ok(ObjectFile { image, header: header.0, data_at, back: back.0, back_at })
}

/// A relocation: where it is, to which symbol, of which kind.
fn relocation(back: &mut Bytes, at: u32, symbol: u32, kind: u16) {
    back.u32(at);
    back.u32(symbol);
    back.u16(kind);
}

fn short_name(name: &str) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

/// A symbol: its name, kind and how many descriptions follow; its section, place and type.
fn symbol(
    back: &mut Bytes,
    names: &mut Vec<u8>,
    (name, kind, descriptions): (&str, u8, u8),
    (section, value, ty): (u16, u32, u16),
) {
    if name.len() <= 8 {
        back.0.extend(short_name(name));
    } else {
        back.u32(0);
        back.u32(names.len() as u32);
        names.extend(name.bytes());
        names.push(0);
    }
    back.u32(value);
    back.u16(section);
    back.u16(ty);
    back.0.extend([kind, descriptions]);
}
