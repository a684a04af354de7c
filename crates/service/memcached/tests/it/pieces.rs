//! The replies do not depend on how input is cut into pieces or how little output space there is.

use crate::bed::words;
use crate::bed::{Bed, Client, settings};
use drover_memcached::{NoHooks, Settings};
use proptest::prelude::*;

/// Reply to `input` in pieces that end at `cuts`, and whether the connection closed.
fn told(input: &[u8], cuts: &[usize], output_limit: usize, requests_per_event: usize) -> (Vec<u8>, bool) {
    let settings = Settings {
        requests_per_event,
        ..settings()
    };
    let mut bed = Bed::with(settings, Box::new(NoHooks));
    let mut client = Client::with(false, output_limit);
    let mut told = Vec::new();
    let mut start = 0;
    for &cut in cuts.iter().chain([&input.len()]) {
        told.extend(bed.say(&mut client, &input[start..cut]));
        start = cut;
    }
    (told, client.is_closed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn pieces_are_answered_as_the_whole(
        commands in prop::collection::vec(words::command(), 1..40),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        output_limit in 1usize..3000,
        requests_per_event in 1usize..50,
    ) {
        let input = commands.concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
        cuts.sort_unstable();
        let whole = told(&input, &[], 1 << 20, 1000);
        let pieces = told(&input, &cuts, output_limit, requests_per_event);
        prop_assert_eq!(String::from_utf8_lossy(&whole.0), String::from_utf8_lossy(&pieces.0));
        prop_assert_eq!(whole.1, pieces.1);
    }

    #[test]
    fn any_bytes_are_answered_somehow(input in prop::collection::vec(any::<u8>(), 0..400), cut in 0usize..400) {
        told(&input, &[cut.min(input.len())], 1000, 10);
    }
}

#[test]
fn byte_by_byte() {
    let input = b"set a 0 0 3\r\nabc\r\nget a b\r\nms b 2 c\r\nhi\r\nmg b v\r\nget   a b a\r\nset a 0 0 1\r\nxyz\r\nmn\r\n";
    let cuts: Vec<usize> = (1..input.len()).collect();
    assert_eq!(told(input, &cuts, 1, 1), told(input, &[], 1 << 20, 1000));
}
