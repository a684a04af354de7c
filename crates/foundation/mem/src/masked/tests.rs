use super::*;
use proptest::prelude::*;

fn region(bytes: usize) -> MaskedRegion {
    MaskedRegion::private(bytes, PageWish::Small).expect("memory")
}

#[test]
fn every_offset_is_inside() {
    let m = region(128);
    m.store(u64::MAX, 5);
    assert_eq!((m.load(120), m.load(127), m.load(120 + 128)), (5, 5, 5));
    m.place(0).store(MaskedRef::REACH, 6);
    assert_eq!(m.load(0), 6, "what is out of reach is masked into it");
    let b = BoundedRegion::private(72, PageWish::Small).expect("memory");
    b.store(64, 7);
    b.store(72, 8);
    assert_eq!((b.load(71), b.load(0), b.load(u64::MAX)), (7, 8, 8));
}

#[test]
fn a_line_is_copied_whole_wherever_the_place_is_in_it() {
    let m = region(128);
    (0..16).for_each(|i| m.store(8 * i, 0x0101 * (i + 1)));
    for offset in [64, 72, 127, 64 + 128] {
        let mut line = [0; LINE_BYTES];
        m.place(offset).copy_line_out(&mut line);
        let want: Vec<u8> = (8..16u64)
            .flat_map(|i| (0x0101 * (i + 1)).to_le_bytes())
            .collect();
        assert_eq!(line.as_slice(), want);
    }
}

#[test]
fn words_are_moved_down_over_themselves() {
    let m = region(256);
    (0..16).for_each(|i| m.store(8 * i, i + 1));
    m.place(24).move_words(m.place(8), 64);
    let got: Vec<u64> = (0..16).map(|i| m.load(8 * i)).collect();
    assert_eq!(got, [1, 4, 5, 6, 7, 8, 9, 10, 11, 10, 11, 12, 13, 14, 15, 16]);
}

#[test]
#[should_panic(expected = "leaves the mapping")]
fn moved_words_stay_inside_the_mapping() {
    let m = region(128);
    m.place(0).move_words(m.place(120), 4096);
}

#[test]
#[should_panic(expected = "leaves the mapping")]
fn a_copy_stays_inside_the_mapping() {
    region(128).place(120).copy_in_padded(0, &[1; 4096]);
}

#[test]
#[should_panic(expected = "of a region of")]
fn a_region_without_reach_is_refused() {
    MaskedRegion::new(Region::private(4096, PageWish::Small).expect("memory"), 0, 4096);
}

/// Longest comparison tested; shorter under Miri, which is slow.
const LEN_END: usize = if cfg!(miri) { 40 } else { 700 };

proptest! {
    #[test]
    fn pieces_go_where_they_are_told_and_nowhere_else(at in 0usize..20, len in 0..LEN_END, seed in any::<u8>()) {
        let m = region(1024);
        let place = m.place(8);
        let mut want = vec![0xee; 1024 - 8];
        place.copy_in(0, &want);
        for (i, byte) in want[at..at + len].iter_mut().enumerate() {
            *byte = (i as u8).wrapping_mul(37) ^ seed;
        }
        place.copy_in(at, &want[at..at + len]);
        let mut got = vec![0; 1024 - 8];
        place.copy_out(0, &mut got);
        prop_assert_eq!(got, want);
        prop_assert_eq!(m.load(0), 0);
    }

    #[test]
    fn padded_copies_round_trip(offset in 0u64..20, len in 0..LEN_END, seed in any::<u8>()) {
        let m = region(1024);
        for at in (0..1024).step_by(8) {
            m.store(at, u64::MAX);
        }
        let bytes: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(37) ^ seed).collect();
        let place = m.place(offset * 8);
        place.copy_in_padded(8, &bytes);
        let mut out = vec![0; len];
        place.copy_out(8, &mut out);
        prop_assert_eq!(&out, &bytes);
        prop_assert_eq!(place.equals(8, &bytes), len <= MaskedRef::REACH - 8);
        let mut padded = vec![9; crate::round_up(len, 8)];
        place.copy_out(8, &mut padded);
        prop_assert!(padded[len..].iter().all(|&b| b == 0));
        prop_assert_eq!(m.load(offset * 8), u64::MAX);
        prop_assert_eq!(m.load(offset * 8 + 8 + padded.len() as u64), u64::MAX);
        for at in 0..len {
            let mut other = bytes.clone();
            other[at] ^= 1;
            prop_assert!(!place.equals(8, &other));
        }
    }
}
