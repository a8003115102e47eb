//! What is written is read, and what is not as it was written is refused.

use bytes::Bytes;
use engine::{EngineDraft, EngineFile};

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
