//! Whatever bytes are in the slots: neither end panics, loops or reads beyond its memory, and what it accepts fits.

use super::pair::{NERVOUS, Pair, layout};
use crate::fetch::{CallerOptions, Format, Guarded, Transfer};
use drover_base::Ns;
use proptest::prelude::*;
use std::sync::atomic::Ordering;

fn format(is_ours: bool) -> Format {
    if is_ours { Format::V1 } else { Format::Paper }
}

proptest! {
    #[test]
    fn rfp_noise_in_a_request_slot_is_judged(bytes in proptest::collection::vec(any::<u8>(), 0..500), size in 0u32..300, at in 0usize..300, is_ours in any::<bool>()) {
        let mut pair = Pair::<Guarded>::of(format(is_ours), NERVOUS);
        let inbound = pair.memory.inbound.clone();
        inbound.copy_in(0, &bytes);
        // Likely enough to get far.
        let seq = if is_ours { 1u32 << 16 } else { 0 };
        inbound.store_u64(0, u64::from(size | 1 << 31) | u64::from(seq | 1) << 32, Ordering::Relaxed);
        inbound.copy_in(at, &[1]);
        for step in 0..20 {
            let mut out = Vec::new();
            match pair.callee.take(0, &inbound, Ns::from_us(step * 300), &mut out) {
                Ok(Some(taken)) => {
                    prop_assert!(out.len() <= 200 && taken.rpc_id < 2);
                    pair.publish(0, &out, Ns(0));
                    pair.look_again();
                }
                Ok(None) => {}
                Err(_) => break,
            }
        }
    }

    #[test]
    fn rfp_noise_in_a_result_is_judged(bytes in proptest::collection::vec(any::<u8>(), 0..1200), size in 0u32..1200, at in 0usize..1100, is_ours in any::<bool>(), is_pushed in any::<bool>()) {
        let options = CallerOptions {
            transfer: if is_pushed { Transfer::Reply } else { Transfer::Fetch },
            ..CallerOptions::default()
        };
        let mut pair = Pair::<Guarded>::new(layout(format(is_ours)), options);
        pair.begin_until(0, b"request", Ns::from_us(100));
        let memory = if is_pushed { pair.memory.pushed.clone() } else { pair.memory.results.clone() };
        memory.copy_in(0, &bytes);
        let seq = if is_ours { 1u32 << 16 } else { 0 };
        memory.store_u64(0, u64::from(size | 1 << 31) | u64::from(seq) << 32, Ordering::Relaxed);
        memory.copy_in(at, &[1]);
        while pair.ended.is_empty() {
            while !pair.wire.is_empty() {
                pair.execute();
            }
            while !pair.completions.is_empty() {
                pair.complete();
            }
            pair.poll(0);
            pair.now += Ns::from_us(1);
            pair.expire();
        }
        if let (0, Ok(result)) = &pair.ended[0] {
            prop_assert!(result.len() <= 1000);
        }
    }
}

/// A client that says that its requests are longer than a slot, are of an unknown kind, or skip a number.
#[test]
fn rfp_requests_that_no_client_sends_end_the_connection() {
    let begin = |rpc_id: u16| {
        let mut pair = Pair::<Guarded>::with(NERVOUS);
        let requests = pair.memory.requests.clone();
        let len = pair
            .caller
            .begin(0, rpc_id, &[b"request"], Ns::MAX, &requests)
            .expect("it fits");
        requests.copy_to(0, &pair.memory.inbound, 0, len);
        pair
    };
    let is_refused = |pair: &mut Pair| {
        let inbound = pair.memory.inbound.clone();
        pair.callee.take(0, &inbound, Ns(0), &mut Vec::new()).is_err()
    };
    assert!(!is_refused(&mut begin(1)));
    let mut pair = begin(1);
    pair.memory.inbound.copy_in(0, &201u32.to_le_bytes());
    pair.memory.inbound.copy_in(3, &[0x80]);
    assert!(is_refused(&mut pair), "too long");
    // The same request again.
    let mut pair = begin(1);
    let mut copy = [0; 64];
    pair.memory.inbound.copy_out(0, &mut copy);
    assert!(!is_refused(&mut pair));
    pair.publish(0, b"result", Ns(0));
    pair.memory.inbound.copy_in(0, &copy);
    assert!(is_refused(&mut pair), "the same number");
    // One number further, and with the right checksum.
    let mut pair = begin(1);
    assert!(!is_refused(&mut pair));
    pair.publish(0, b"result", Ns(0));
    let mut other = Pair::<Guarded>::with(NERVOUS);
    for _ in 1..3 {
        assert_eq!(other.call(0, b"request"), Ok(b"request".to_vec()));
    }
    other.begin(0, b"request");
    let requests = &other.memory.requests;
    requests.copy_to(0, &pair.memory.inbound, 0, copy.len());
    assert!(is_refused(&mut pair), "a number was left out");
    // Somebody else's request.
    let mut pair = begin(1);
    pair.memory.inbound.copy_in(12, &[9]);
    assert!(is_refused(&mut pair), "another incarnation");
}
