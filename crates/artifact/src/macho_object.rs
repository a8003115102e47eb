//! Objects of Mach-O for x86-64, which linkers of macOS take.
//!
//! Sections are code and data; what code says of data are relocations of the code (the distance
//! from behind four bytes), and there are no others. No symbol is undefined. The code of functions
//! reaches that of others by fixed distances, so sections are not to be taken apart: the flag that
//! would allow that is not set. Names have an underscore in front, as those of C have there.
//!
//! Source: Apple's `mach-o/loader.h`, `mach-o/nlist.h` and `mach-o/reloc.h`.

use crate::elf::{Bytes, NameTable};
use crate::image::{Image, ImageSymbol, Section};
use crate::object::ObjectFile;
use base::InOrder;

const HEADER_BYTES: u64 = 32;
const SEGMENT_BYTES: u64 = 72;
const SECTION_BYTES: u64 = 80;
const SYMBOLS_BYTES: u64 = 24;
const ORDER_BYTES: u64 = 80;
const VERSION_BYTES: u64 = 24;
/// Kinds of commands.
const SEGMENT: u32 = 0x19;
const SYMBOLS: u32 = 0x2;
const ORDER: u32 = 0xb;
const VERSION: u32 = 0x32;
/// All rights, which segments of objects have.
const RIGHTS: u32 = 7;
/// A section of instructions alone.
const INSTRUCTIONS: u32 = 0x8000_0400;
/// macOS, from its version 11 on.
const MACOS: u32 = 1;
const LEAST_VERSION: u32 = 11 << 16;
/// A symbol that a section defines, and one that other files see.
const DEFINED: u8 = 0xe;
const EXPORTED: u8 = 1;
/// The distance from behind four bytes to a symbol, by its number.
const RELATIVE: u32 = 1 << 28 | 1 << 27 | 2 << 25 | 1 << 24;
/// So many symbols are numbered.
const MOST_SYMBOLS: usize = 1 << 24;

/// Lays an object out. `references` are places in the code where the distance to a symbol of
/// data belongs.
///
/// # Errors
/// The bytes of code and data, where they are more than its numbers hold.
pub(crate) fn macho_object<'a>(
    image: &'a Image,
    references: &[(usize, usize)],
) -> Result<ObjectFile<'a>, u64> {
    let code_bytes = image.code.len() as u64;
    let commands_bytes =
        SEGMENT_BYTES + 2 * SECTION_BYTES + VERSION_BYTES + SYMBOLS_BYTES + ORDER_BYTES;
    let code_at = HEADER_BYTES + commands_bytes;
    // Data lies as far from code in the file as in the segment.
    let data_from_code = code_bytes.next_multiple_of(64);
    let data_at = code_at + data_from_code;
    let back_at = (data_at + image.data_bytes()).next_multiple_of(8);
    // Local symbols come first.
    let mut order: Vec<usize> = (0..image.symbols.len()).collect();
    order.put_in_order_by_key(|&number| image.symbols[number].is_exported);
    let mut numbers = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, &number)| numbers[number] = place as u32);
    let mut back = Bytes::default();
    for &(at, symbol) in references {
        back.u32(at as u32);
        back.u32(numbers[symbol] | RELATIVE);
    }
    let symbols_at = back_at + back.0.len() as u64;
    let mut names = NameTable::new();
    for &number in &order {
        symbol(&mut back, &mut names, &image.symbols[number], data_from_code);
    }
    let names_at = back_at + back.0.len() as u64;
    back.0.extend(&names.0);
    back.align(8);
    let whole = back_at + back.0.len() as u64;
    let is_near = i32::try_from(data_from_code + image.data_bytes()).is_ok();
    if u32::try_from(whole).is_err() || !is_near || order.len() >= MOST_SYMBOLS {
        return Err(code_bytes + image.data_bytes());
    }
    let mut header = Bytes::default();
    for word in [0xfeed_facf, 0x0100_0007, 3, 1, 4, commands_bytes as u32, 0, 0] {
        header.u32(word);
    }
    let segment_bytes = data_from_code + image.data_bytes();
    header.u32(SEGMENT);
    header.u32((SEGMENT_BYTES + 2 * SECTION_BYTES) as u32);
    header.0.extend([0; 16]);
    for word in [0, segment_bytes, code_at, segment_bytes] {
        header.u64(word);
    }
    for word in [RIGHTS, RIGHTS, 2, 0] {
        header.u32(word);
    }
    let relocations = (back_at, references.len() as u32);
    section(&mut header, "__text", (0, code_at), code_bytes, relocations, INSTRUCTIONS);
    let place = (data_from_code, data_at);
    section(&mut header, "__const", place, image.data_bytes(), (0, 0), 0);
    for word in [VERSION, VERSION_BYTES as u32, MACOS, LEAST_VERSION, LEAST_VERSION, 0] {
        header.u32(word);
    }
    let count = order.len() as u32;
    let locals = image.symbols.iter().filter(|symbol| !symbol.is_exported).count() as u32;
    let places = [symbols_at as u32, count, names_at as u32, names.0.len() as u32];
    for word in [SYMBOLS, SYMBOLS_BYTES as u32].into_iter().chain(places) {
        header.u32(word);
    }
    let groups = [0, locals, locals, count - locals, count, 0];
    for word in [ORDER, ORDER_BYTES as u32].into_iter().chain(groups).chain([0; 12]) {
        header.u32(word);
    }
    Ok(ObjectFile { image, header: header.0, data_at, back: back.0, back_at })
}

/// A section of the segment `__TEXT`: its address and place in the file, its bytes, where its
/// relocations are and how many.
fn section(
    header: &mut Bytes,
    name: &str,
    (address, at): (u64, u64),
    bytes: u64,
    relocations: (u64, u32),
    flags: u32,
) {
    for name in [name, "__TEXT"] {
        let end = header.0.len() + 16;
        header.0.extend(name.bytes());
        header.0.resize(end, 0);
    }
    header.u64(address);
    header.u64(bytes);
    header.u32(at as u32);
    // The alignment is two to this power.
    header.u32(6);
    header.u32(if relocations.1 == 0 { 0 } else { relocations.0 as u32 });
    for word in [relocations.1, flags, 0, 0, 0] {
        header.u32(word);
    }
}

fn symbol(back: &mut Bytes, names: &mut NameTable, symbol: &ImageSymbol, data_at: u64) {
    back.u32(names.add(&format!("_{}", symbol.name)));
    let (section, at) = match symbol.section {
        Section::Code => (1, symbol.offset),
        Section::Data => (2, data_at + symbol.offset),
    };
    let exported = if symbol.is_exported { EXPORTED } else { 0 };
    back.0.extend([DEFINED | exported, section]);
    back.u16(0);
    back.u64(at);
}
