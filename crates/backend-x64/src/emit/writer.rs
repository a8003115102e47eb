//! Code while it is written: jumps to labels and fill, whose lengths are known once all is there.
//!
//! A jump takes two bytes where its label is near and five or six where it is not; fill takes what
//! is missing to a multiple. Both depend on what stands between, and so on each other. All jumps
//! are short at first; those that do not reach become long, until all reach. A long one stays long,
//! so that this ends.

/// Code that is being written.
#[derive(Default)]
pub(super) struct CodeWriter {
    /// All but jumps and fill.
    pub(super) bytes: Vec<u8>,
    /// What stands between the bytes, each in front of the byte with this number.
    gaps: Vec<(usize, Gap)>,
    labels: Vec<Option<CodePlace>>,
}

/// What has no length while code is written.
#[derive(Clone, Copy)]
enum Gap {
    /// A jump to a label, on the condition with this number in opcodes, if on one.
    Jump { condition: Option<u8>, to: usize },
    /// Instructions that do nothing, up to a multiple of so many bytes.
    Fill(usize),
}

impl Gap {
    /// What code must be aligned to for it.
    fn alignment(self) -> usize {
        match self {
            Gap::Jump { .. } => 1,
            Gap::Fill(to) => to,
        }
    }
}

/// A place in code that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodePlace {
    byte: usize,
    /// Gaps in front of it.
    gaps: usize,
}

impl CodePlace {
    /// The place so many bytes earlier, with no gap between.
    pub(super) fn before(self, bytes: usize) -> CodePlace {
        CodePlace { byte: self.byte - bytes, ..self }
    }
}

/// Code with all its lengths.
pub(super) struct WrittenCode {
    pub(super) bytes: Vec<u8>,
    /// What its first byte must be aligned to.
    pub(super) alignment: usize,
    /// Bytes of all gaps in front of each, and of all.
    shifts: Vec<usize>,
}

impl WrittenCode {
    /// Where a place is.
    pub(super) fn offset(&self, place: CodePlace) -> usize {
        place.byte + self.shifts[place.gaps]
    }
}

impl CodeWriter {
    /// Where what is written next will be.
    pub(super) fn here(&self) -> CodePlace {
        CodePlace { byte: self.bytes.len(), gaps: self.gaps.len() }
    }

    /// A label that has no place yet.
    pub(super) fn label(&mut self) -> usize {
        self.labels.push(None);
        self.labels.len() - 1
    }

    /// Gives a label its place: here.
    pub(super) fn place(&mut self, label: usize) {
        self.labels[label] = Some(self.here());
    }

    /// A jump to a label, on the condition with this number in opcodes, if on one.
    pub(super) fn jump(&mut self, condition: Option<u8>, to: usize) {
        self.gaps.push((self.bytes.len(), Gap::Jump { condition, to }));
    }

    /// Has what comes next begin at a multiple of so many bytes.
    pub(super) fn align(&mut self, to: usize) {
        self.gaps.push((self.bytes.len(), Gap::Fill(to)));
    }

    /// All code, its jumps as short as they can be.
    ///
    /// # Errors
    /// A jump to a label without a place, which is a broken invariant.
    pub(super) fn finish(self) -> Result<WrittenCode, String> {
        let CodeWriter { bytes, gaps, labels } = self;
        let mut is_long = vec![false; gaps.len()];
        loop {
            let shifts = shifts(&gaps, &is_long);
            let offset = |place: CodePlace| place.byte + shifts[place.gaps];
            let mut is_settled = true;
            let mut written = Vec::with_capacity(bytes.len() + shifts[gaps.len()]);
            let mut done = 0;
            for (number, &(byte, gap)) in gaps.iter().enumerate() {
                written.extend_from_slice(&bytes[done..byte]);
                done = byte;
                let end = byte + shifts[number + 1];
                match gap {
                    Gap::Fill(_) => fill(&mut written, end),
                    Gap::Jump { condition, to } => {
                        let label = labels.get(to).copied().flatten();
                        let target = offset(label.ok_or("a label without a place")?);
                        let distance = target as i64 - end as i64;
                        let short = i8::try_from(distance).ok().filter(|_| !is_long[number]);
                        is_settled &= short.is_some() || is_long[number];
                        is_long[number] = short.is_none();
                        put_jump(&mut written, condition, short, distance);
                    }
                }
            }
            if is_settled {
                written.extend_from_slice(&bytes[done..]);
                let alignments = gaps.iter().map(|(_, gap)| gap.alignment());
                let alignment = alignments.max().unwrap_or(1);
                return Ok(WrittenCode { bytes: written, alignment, shifts });
            }
        }
    }
}

/// Bytes of all gaps in front of each, and of all.
fn shifts(gaps: &[(usize, Gap)], is_long: &[bool]) -> Vec<usize> {
    let mut shifts = Vec::with_capacity(gaps.len() + 1);
    let mut shift = 0;
    shifts.push(shift);
    for (&(byte, gap), &is_long) in gaps.iter().zip(is_long) {
        shift += match gap {
            Gap::Jump { .. } if !is_long => 2,
            Gap::Jump { condition: None, .. } => 5,
            Gap::Jump { .. } => 6,
            Gap::Fill(to) => (byte + shift).next_multiple_of(to) - (byte + shift),
        };
        shifts.push(shift);
    }
    shifts
}

fn put_jump(bytes: &mut Vec<u8>, condition: Option<u8>, short: Option<i8>, distance: i64) {
    match (short, condition) {
        (Some(short), condition) => {
            bytes.extend([condition.map_or(0xeb, |it| 0x70 | it), short as u8]);
        }
        (None, None) => bytes.push(0xe9),
        (None, Some(condition)) => bytes.extend([0x0f, 0x80 | condition]),
    }
    if short.is_none() {
        bytes.extend((distance as i32).to_le_bytes());
    }
}

/// Instructions that do nothing, up to an offset.
fn fill(bytes: &mut Vec<u8>, end: usize) {
    const NOPS: [&[u8]; 9] = [
        &[0x90],
        &[0x66, 0x90],
        &[0x0f, 0x1f, 0x00],
        &[0x0f, 0x1f, 0x40, 0x00],
        &[0x0f, 0x1f, 0x44, 0x00, 0x00],
        &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
        &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
        &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
        &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
    ];
    while bytes.len() < end {
        let nop = NOPS[(end - bytes.len()).min(NOPS.len()) - 1];
        bytes.extend_from_slice(nop);
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, OpKind};

    use super::*;

    /// Writes pieces of single-byte instructions, each behind its label, with a jump to another
    /// piece and fill in between; follows all jumps.
    fn check(pieces: &[(usize, usize, usize)]) -> usize {
        let mut writer = CodeWriter::default();
        let labels: Vec<usize> = pieces.iter().map(|_| writer.label()).collect();
        let mut starts = Vec::new();
        for (number, &(bytes, to, alignment)) in pieces.iter().enumerate() {
            writer.align(alignment);
            writer.place(labels[number]);
            starts.push(writer.here());
            // A `cmc` does not occur in fill.
            writer.bytes.extend(vec![0xf5; bytes]);
            let condition = (number % 2 == 0).then_some(5);
            writer.jump(condition, labels[to]);
        }
        let end = writer.here();
        let code = writer.finish().expect("all labels have places");
        let starts: Vec<usize> = starts.into_iter().map(|place| code.offset(place)).collect();
        assert_eq!(code.offset(end), code.bytes.len());
        let mut decoder = Decoder::with_ip(64, &code.bytes, 0, DecoderOptions::NONE);
        let mut jumps = pieces.iter().enumerate();
        let mut count = 0;
        while decoder.can_decode() {
            let instruction = decoder.decode();
            assert!(!instruction.is_invalid());
            if instruction.op0_kind() != OpKind::NearBranch64 {
                count += usize::from(code.bytes[instruction.ip() as usize] == 0xf5);
                continue;
            }
            let (number, &(_, to, alignment)) = jumps.next().expect("a jump a piece");
            assert_eq!(instruction.near_branch_target() as usize, starts[to]);
            assert_eq!(starts[number] % alignment, 0);
            let next = instruction.next_ip() as i64;
            let is_near = i8::try_from(starts[to] as i64 - next).is_ok();
            assert!(is_near || instruction.len() > 2);
        }
        assert!(jumps.next().is_none());
        assert_eq!(count, pieces.iter().map(|piece| piece.0).sum::<usize>());
        code.bytes.len()
    }

    #[test]
    fn jumps_reach_their_labels() {
        assert_eq!(check(&[(100, 1, 1), (24, 0, 1)]), 128);
        assert_eq!(check(&[(100, 1, 1), (25, 0, 1)]), 132);
        assert_eq!(check(&[(10, 0, 1), (127, 2, 32), (0, 0, 1)]), 32 + 127 + 2 + 6);
        // What is filled may grow where a jump becomes shorter.
        check(&[(100, 3, 1), (20, 0, 32), (3, 1, 32), (120, 0, 64), (7, 3, 1)]);
        let mut seed = 7_u64;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((seed >> 33) % below) as usize
        };
        for _ in 0..300 {
            let count = 2 + draw(12);
            let piece = |draw: &mut dyn FnMut(u64) -> usize| {
                (draw(90), draw(count as u64), [1, 1, 32, 64][draw(4)])
            };
            let pieces: Vec<_> = (0..count).map(|_| piece(&mut draw)).collect();
            check(&pieces);
        }
    }

    #[test]
    fn a_label_has_a_place() {
        let mut writer = CodeWriter::default();
        let label = writer.label();
        writer.jump(None, label);
        assert!(writer.finish().is_err());
    }
}
