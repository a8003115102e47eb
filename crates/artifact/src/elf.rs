//! Shared libraries of ELF for x86-64, written without a linker.
//!
//! Code reaches data relative to itself and no address stands in data, so there are no relocations,
//! and nothing is undefined. Three segments are loaded: what is only read (headers, symbols, data),
//! code, and the table for the dynamic linker, which is read-only once that has read it. Section
//! headers are there for linkers (`ld -l`) and debuggers; the local symbols are for profilers.
//!
//! Source: System V ABI, chapters 4 and 5, and its supplement for AMD64.

use std::io::{self, Write};

use crate::image::{Image, Section};

const PAGE: u64 = 4096;
/// A huge page. A segment that begins at a multiple of one, in the file as in memory, is mapped in
/// such where the system keeps the file in them.
const HUGE_PAGE: u64 = 2 << 20;
const HEADER_BYTES: u64 = 64;
const SEGMENT_BYTES: u64 = 56;
pub(crate) const SYMBOL_BYTES: u64 = 24;
/// Kinds of segments.
const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const NOTE: u32 = 4;
const GNU_STACK: u32 = 0x6474_e551;
const GNU_RELRO: u32 = 0x6474_e552;
/// Rights.
const READ: u32 = 4;
const WRITE: u32 = 2;
const EXECUTE: u32 = 1;

/// Bytes of a row of the table of sections.
const SECTION_BYTES: usize = 64;
/// Rows of the table for the dynamic linker.
const DYNAMIC_ROWS: usize = 7;
/// Numbers of sections, in order.
const RODATA: u16 = 5;
const TEXT: u16 = 6;
const SECTIONS: u16 = 11;

/// A shared library, laid out.
pub(crate) struct SharedLibrary<'a> {
    image: &'a Image,
    /// All from the start of the file to the data.
    front: Vec<u8>,
    /// The code, distances to data settled.
    code: Vec<u8>,
    /// All behind the code.
    back: Vec<u8>,
    data_at: u64,
    code_at: u64,
    back_at: u64,
}

/// Bytes that grow to what a file holds.
#[derive(Default)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Bytes {
    pub(crate) fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn align(&mut self, to: usize) {
        let end = self.0.len().next_multiple_of(to);
        self.0.resize(end, 0);
    }

    /// A row of the table of segments; `bytes` are those in the file, then those in memory.
    /// `at` is where it is in the file, then its address.
    fn segment(
        &mut self,
        kind: u32,
        rights: u32,
        at: (u64, u64),
        bytes: (u64, u64),
        alignment: u64,
    ) {
        self.u32(kind);
        self.u32(rights);
        for word in [at.0, at.1, at.1, bytes.0, bytes.1, alignment] {
            self.u64(word);
        }
    }
}

/// Names behind each other, each ended by 0; the first is empty.
pub(crate) struct NameTable(pub(crate) Vec<u8>);

impl NameTable {
    pub(crate) fn new() -> NameTable {
        NameTable(vec![0])
    }

    pub(crate) fn add(&mut self, name: &str) -> u32 {
        let at = self.0.len() as u32;
        self.0.extend(name.bytes());
        self.0.push(0);
        at
    }
}

/// What memory a section takes: [`SectionTable::add`].
pub(crate) const ALLOCATED: u64 = 2;
pub(crate) const WRITABLE: u64 = 1;
pub(crate) const EXECUTABLE: u64 = 4;

/// The table of sections, and their names.
pub(crate) struct SectionTable {
    names: NameTable,
    rows: Bytes,
    /// Whether sections have addresses.
    is_loaded: bool,
    /// How far the addresses of what is added are from its places in the file.
    shift: u64,
}

impl SectionTable {
    /// That of a file that is loaded.
    pub(crate) fn new() -> SectionTable {
        let rows = Bytes(vec![0; SECTION_BYTES]);
        SectionTable { names: NameTable::new(), rows, is_loaded: true, shift: 0 }
    }

    /// That of a file that is to be linked.
    pub(crate) fn of_object() -> SectionTable {
        SectionTable { is_loaded: false, ..SectionTable::new() }
    }

    /// Adds a section: its kind and flags; where it is in the file, and its bytes; the sections
    /// that it has to do with; its alignment, and the bytes of an entry.
    pub(crate) fn add(
        &mut self,
        name: &str,
        kind: u32,
        flags: u64,
        (at, bytes): (u64, u64),
        (link, info): (u32, u32),
        (alignment, entry): (u64, u64),
    ) {
        let address = if self.is_loaded && flags & ALLOCATED != 0 { at + self.shift } else { 0 };
        self.rows.u32(self.names.add(name));
        self.rows.u32(kind);
        for word in [flags, address, at, bytes] {
            self.rows.u64(word);
        }
        self.rows.u32(link);
        self.rows.u32(info);
        self.rows.u64(alignment);
        self.rows.u64(entry);
    }

    /// The names of sections and the table, which begin at a place in the file; where the table
    /// does. The section of names is the last.
    pub(crate) fn finish(mut self, at: u64) -> (Vec<u8>, u64) {
        const OWN: &str = ".shstrtab";
        let bytes = (self.names.0.len() + OWN.len() + 1) as u64;
        self.add(OWN, 3, 0, (at, bytes), (0, 0), (1, 0));
        let mut all = self.names.0;
        let table_at = (at + bytes).next_multiple_of(8);
        all.resize((table_at - at) as usize, 0);
        all.extend(self.rows.0);
        (all, table_at)
    }
}

/// The hash of a name in the table of symbols.
fn hash_of(name: &str) -> u32 {
    name.bytes().fold(0, |hash: u32, byte| {
        let hash = hash.wrapping_shl(4).wrapping_add(u32::from(byte));
        let high = hash & 0xf000_0000;
        (hash ^ high >> 24) & !high
    })
}

impl<'a> SharedLibrary<'a> {
    /// Lays a library out. `references` are places in the code where the distance to a symbol of
    /// data belongs; `name` is what programs that are linked with it ask for.
    ///
    /// # Errors
    /// The number of bytes that code and data take, where no distance goes so far.
    pub(crate) fn new(
        image: &'a Image,
        references: &[(usize, usize)],
        name: &str,
    ) -> Result<SharedLibrary<'a>, u64> {
        let exported: Vec<usize> =
            (0..image.symbols.len()).filter(|&it| image.symbols[it].is_exported).collect();
        let count = exported.len() as u64 + 1;
        let mut dynamic_names = NameTable::new();
        let own_name = dynamic_names.add(name);
        let name_of: Vec<u32> =
            exported.iter().map(|&it| dynamic_names.add(&image.symbols[it].name)).collect();
        let segments = 7;
        let note_at = HEADER_BYTES + segments * SEGMENT_BYTES;
        let note = note(image);
        let symbols_at = (note_at + note.len() as u64).next_multiple_of(8);
        let names_at = symbols_at + count * SYMBOL_BYTES;
        let hash_at = (names_at + dynamic_names.0.len() as u64).next_multiple_of(8);
        let buckets = count.next_power_of_two() as u32;
        let hash_bytes = 4 * (2 + u64::from(buckets) + count);
        let data_at = (hash_at + hash_bytes).next_multiple_of(64);
        let data_bytes = image.data_bytes();
        // Segments follow each other closely in the file; each begins on a page of its own, so that
        // the page where two meet is mapped twice, with the rights of each.
        let code_at = (data_at + data_bytes).next_multiple_of(64);
        let code_address = code_at + PAGE;
        let code_bytes = image.code.len() as u64;
        let dynamic_bytes = 16 * DYNAMIC_ROWS as u64;
        let mut dynamic_at = (code_at + code_bytes).next_multiple_of(16);
        if dynamic_at % PAGE + dynamic_bytes > PAGE {
            dynamic_at = dynamic_at.next_multiple_of(PAGE);
        }
        let dynamic_address = dynamic_at + 2 * PAGE;
        let place = |number: usize| {
            let symbol = &image.symbols[number];
            match symbol.section {
                Section::Code => code_address + symbol.offset,
                Section::Data => data_at + symbol.offset,
            }
        };
        let mut code = image.code.clone();
        for &(at, symbol) in references {
            let distance = place(symbol) as i64 - (code_address as i64 + at as i64 + 4);
            let distance = i32::try_from(distance).map_err(|_| data_bytes + code_bytes)?;
            code[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        // The table for the dynamic linker.
        let dynamic: [(u64, u64); DYNAMIC_ROWS] = [
            (14, u64::from(own_name)),
            (4, hash_at),
            (5, names_at),
            (6, symbols_at),
            (10, dynamic_names.0.len() as u64),
            (11, SYMBOL_BYTES),
            (0, 0),
        ];
        let mut back = Bytes::default();
        for (tag, value) in dynamic {
            back.u64(tag);
            back.u64(value);
        }
        // Symbols of everything, for who looks: local ones first.
        let mut local_names = NameTable::new();
        let mut all = Bytes::default();
        put_symbol(&mut all, 0, 0, 0, 0, 0);
        let of_kind = |exported: bool| {
            image.symbols.iter().enumerate().filter(move |(_, it)| it.is_exported == exported)
        };
        for (number, symbol) in of_kind(false).chain(of_kind(true)) {
            let name = local_names.add(&symbol.name);
            let (section, kind) = kind_of(symbol.section);
            let binding = u8::from(symbol.is_exported) << 4;
            put_symbol(&mut all, name, binding | kind, section, place(number), symbol.bytes);
        }
        let locals = of_kind(false).count() as u32 + 1;
        let all_at = dynamic_at + back.0.len() as u64;
        back.0.extend(&all.0);
        let local_names_at = dynamic_at + back.0.len() as u64;
        back.0.extend(&local_names.0);
        let section_names_at = dynamic_at + back.0.len() as u64;
        let (alloc, writable, executable) = (ALLOCATED, WRITABLE, EXECUTABLE);
        let of_symbols = (8, SYMBOL_BYTES);
        let mut sections = SectionTable::new();
        sections.add(".note.gnu.build-id", 7, alloc, (note_at, note.len() as u64), (0, 0), (4, 0));
        let names_bytes = dynamic_names.0.len() as u64;
        sections.add(".dynsym", 11, alloc, (symbols_at, count * SYMBOL_BYTES), (3, 1), of_symbols);
        sections.add(".dynstr", 3, alloc, (names_at, names_bytes), (0, 0), (1, 0));
        sections.add(".hash", 5, alloc, (hash_at, hash_bytes), (2, 0), (8, 4));
        sections.add(".rodata", 1, alloc, (data_at, data_bytes), (0, 0), (64, 0));
        sections.shift = PAGE;
        sections.add(".text", 1, alloc | executable, (code_at, code_bytes), (0, 0), (64, 0));
        sections.shift = 2 * PAGE;
        let dynamic = (dynamic_at, dynamic_bytes);
        sections.add(".dynamic", 6, alloc | writable, dynamic, (3, 0), (8, 16));
        sections.add(".symtab", 2, 0, (all_at, all.0.len() as u64), (9, locals), of_symbols);
        let local_names = (local_names_at, local_names.0.len() as u64);
        sections.add(".strtab", 3, 0, local_names, (0, 0), (1, 0));
        let (tables, sections_at) = sections.finish(section_names_at);
        back.0.extend(tables);

        let mut front = Bytes::default();
        front.0.extend([0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        front.u16(3);
        front.u16(62);
        front.u32(1);
        front.u64(0);
        front.u64(HEADER_BYTES);
        front.u64(sections_at);
        front.u32(0);
        for half in [64, 56, segments as u16, 64, SECTIONS, SECTIONS - 1] {
            front.u16(half);
        }
        let same = |bytes: u64| (bytes, bytes);
        let at = |place: u64| (place, place);
        // Of the table the rest of its page, too, so that all of that becomes read-only.
        let dynamic = (dynamic_at, dynamic_address);
        let page = (dynamic_bytes, PAGE - dynamic_at % PAGE);
        let read_bytes = data_at + data_bytes;
        let alignment = if read_bytes >= HUGE_PAGE { HUGE_PAGE } else { PAGE };
        front.segment(LOAD, READ, at(0), same(read_bytes), alignment);
        front.segment(LOAD, READ | EXECUTE, (code_at, code_address), same(code_bytes), PAGE);
        front.segment(LOAD, READ | WRITE, dynamic, page, PAGE);
        front.segment(DYNAMIC, READ | WRITE, dynamic, same(dynamic_bytes), 8);
        front.segment(NOTE, READ, at(note_at), same(note.len() as u64), 4);
        front.segment(GNU_STACK, READ | WRITE, at(0), (0, 0), 16);
        front.segment(GNU_RELRO, READ, dynamic, page, 1);
        front.0.extend(&note);
        front.align(8);
        put_symbol(&mut front, 0, 0, 0, 0, 0);
        for (&number, &name) in exported.iter().zip(&name_of) {
            let symbol = &image.symbols[number];
            let (section, kind) = kind_of(symbol.section);
            put_symbol(&mut front, name, 1 << 4 | kind, section, place(number), symbol.bytes);
        }
        front.0.extend(&dynamic_names.0);
        front.align(8);
        front.u32(buckets);
        front.u32(count as u32);
        let (mut first, mut next) = (vec![0; buckets as usize], vec![0u32; count as usize]);
        for (at, &number) in exported.iter().enumerate() {
            let bucket = (hash_of(&image.symbols[number].name) % buckets) as usize;
            next[at + 1] = std::mem::replace(&mut first[bucket], at as u32 + 1);
        }
        first.into_iter().chain(next).for_each(|word| front.u32(word));
        front.align(64);
        let back = back.0;
        Ok(SharedLibrary {
            image,
            front: front.0,
            code,
            back,
            data_at,
            code_at,
            back_at: dynamic_at,
        })
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Those of the writer.
    pub(crate) fn write(&self, file: &mut dyn Write) -> io::Result<()> {
        file.write_all(&self.front)?;
        self.image.write_data(file)?;
        let data_end = self.data_at + self.image.data_bytes();
        zeros(file, self.code_at - data_end)?;
        file.write_all(&self.code)?;
        zeros(file, self.back_at - self.code_at - self.code.len() as u64)?;
        file.write_all(&self.back)
    }
}

pub(crate) fn zeros(file: &mut dyn Write, count: u64) -> io::Result<()> {
    let page = [0; PAGE as usize];
    let mut left = count as usize;
    while left > 0 {
        let some = left.min(page.len());
        file.write_all(&page[..some])?;
        left -= some;
    }
    Ok(())
}

/// A note with the digest of the content.
fn note(image: &Image) -> Vec<u8> {
    let mut note = Bytes::default();
    note.u32(4);
    note.u32(16);
    note.u32(3);
    note.0.extend(b"GNU\0");
    note.0.extend(image.digest().value());
    note.0
}

/// The section of symbols, and their kind: a function or an object.
fn kind_of(section: Section) -> (u16, u8) {
    match section {
        Section::Code => (TEXT, 2),
        Section::Data => (RODATA, 1),
    }
}

/// Adds a row of a table of symbols.
pub(crate) fn put_symbol(bytes: &mut Bytes, name: u32, info: u8, section: u16, at: u64, size: u64) {
    bytes.u32(name);
    bytes.0.extend([info, 0]);
    bytes.u16(section);
    bytes.u64(at);
    bytes.u64(size);
}
