//! What is written is read, and what is not as it was written is refused.

use bytes::Bytes;
use engine::{EngineDraft, EngineFile};
use tensor::staged::cannot_write;
use tensor::{StagedFiles, TemporaryFolder};

fn sample() -> Vec<u8> {
    let large = vec![7; 10_000];
    let mut draft = EngineDraft::new();
    draft.section(1, b"one".to_vec());
    draft.section(9, Vec::new());
    assert_eq!(draft.constant(b"ab"), 0);
    assert_eq!(draft.constant(&large), 4096);
    assert_eq!(draft.constant(b"c"), 14_144);
    let mut file = Vec::new();
    draft.write(&mut file).expect("memory takes all");
    file
}

#[test]
fn sections_and_constants_are_found_again() {
    let bytes = Bytes::from(sample());
    let file = EngineFile::of(bytes.clone()).expect("it is as it was written");
    assert_eq!(&file.section(1).expect("a section")[..], b"one");
    assert_eq!(&file.section(9).expect("a section")[..], b"");
    assert!(file.section(2).is_err());
    assert_eq!(&file.constant(0, 2).expect("a constant")[..], b"ab");
    assert_eq!(&file.constant(4096, 10_000).expect("a constant")[..], &[7; 10_000]);
    assert!(file.constant(14_144, 2).is_err());
    assert!(file.constant(usize::MAX, 2).is_err());
    file.check_constants().expect("they are as they were written");
}

#[test]
fn every_change_of_the_head_is_refused() {
    let good = sample();
    let head = good.len() - 14_145;
    for at in 0..head {
        for bit in [0, 3, 7] {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << bit;
            assert!(EngineFile::of(Bytes::from(bytes)).is_err(), "byte {at}, bit {bit}");
        }
    }
    for length in (0..good.len()).step_by(61) {
        let bytes = Bytes::from(good[..length].to_vec());
        assert!(EngineFile::of(bytes).is_err(), "{length} bytes");
    }
    let longer = [&good[..], &[0]].concat();
    assert!(EngineFile::of(Bytes::from(longer)).is_err());
}

#[test]
fn changed_constants_are_found_where_that_is_asked() {
    let mut bytes = sample();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let file = EngineFile::of(Bytes::from(bytes)).expect("the head is as it was");
    let found = file.check_constants().expect_err("a constant is another");
    assert_eq!(found.code, "TW0303");
}

/// The sample, of whose large constant some bytes are given part by part when it is written.
fn filled(parts: &[&[u8]]) -> base::Result<Vec<u8>> {
    let whole = EngineFile::of(Bytes::from(sample())).expect("it is as it was written");
    let mut draft = EngineDraft::of(&whole);
    draft.replace_constant(0, b"xy").expect("it is there");
    draft.leave_room(5_000, 6_000).expect("it is there");
    assert!(draft.write(&mut Vec::new()).is_err(), "room is left");
    let folder = TemporaryFolder::new()?;
    let path = folder.path().join("file.tw");
    let mut files = StagedFiles::new();
    let failed = |error| cannot_write(&path, &error).into();
    files.write_checked(&path, |file| {
        let fill = &mut |take: &mut dyn FnMut(&[u8]) -> base::Result<()>| {
            parts.iter().try_for_each(|part| take(part))
        };
        draft.write_filled(file, fill, &failed)
    })?;
    files.commit()?;
    Ok(std::fs::read(&path).expect("it is there"))
}

#[test]
fn room_is_filled_part_by_part() {
    let mut large = vec![7; 10_000];
    let made: Vec<u8> = (0..6_000).map(|at| at as u8).collect();
    large[904..6_904].copy_from_slice(&made);
    let mut draft = EngineDraft::new();
    draft.section(1, b"one".to_vec());
    draft.section(9, Vec::new());
    draft.constant(b"xy");
    draft.constant(&large);
    draft.constant(b"c");
    let mut wanted = Vec::new();
    draft.write(&mut wanted).expect("memory takes all");
    for cuts in [vec![], vec![1], vec![64, 64, 5_000]] {
        let mut parts = Vec::new();
        let mut start = 0;
        for end in cuts.into_iter().chain([made.len()]) {
            parts.push(&made[start..end]);
            start = end;
        }
        assert!(filled(&parts).expect("it fits") == wanted);
    }
    for misfit in [&made[1..], &[&made[..], &[0]].concat()] {
        let found = filled(&[misfit]).expect_err("it does not fit");
        assert_eq!(found[0].code, "TW0901");
    }
}
