//! Arbitrary bytes in the slots of both ends, for `cargo fuzz`.

use super::{Callee, CalleeOptions, Caller, CallerOptions, Format, Guarded, Layout, Next, Transfer};
use drover_base::Ns;
use drover_mem::{PageWish, Region};

const BYTES: usize = 4096;

fn layout(how: u8) -> Layout {
    Layout {
        format: [Format::V1, Format::Paper][usize::from(how & 1)],
        place_count: 2,
        rpc_count: 3,
        request_bytes: 200,
        result_bytes: 300,
    }
}

fn pages() -> Option<(Region, Region)> {
    let page = || Region::private(BYTES, PageWish::Small).ok();
    page().zip(page())
}

/// Takes arbitrary bytes as requests: what is taken fits, and a server that is told to answer does. Input: bit 0: the
/// paper's format (1 byte); then for each look whether the bytes are made a request (1 byte, bit 0) and where they go
/// otherwise (the other bits, in units of 4 bytes), their number, and the bytes.
#[doc(hidden)]
pub fn fuzz_requests(input: &[u8]) {
    let (Some((how, mut input)), Some((inbound, results))) = (input.split_first(), pages()) else {
        return;
    };
    let layout = layout(*how);
    let mut callee = Callee::<Guarded>::new(layout, CalleeOptions::default(), (1, 2));
    let mut client = Caller::<Guarded>::new(layout, CallerOptions::default(), (1, 2));
    let (mut out, mut now) = (Vec::new(), Ns(0));
    while let [how, len, rest @ ..] = input {
        let (bytes, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        input = rest;
        now += Ns::from_ms(2);
        let place = usize::from(how >> 1 & 1);
        if how & 1 != 0 && client.is_free(place) {
            let _ = client.begin(place, u16::from(how >> 2) % 3, &[bytes], Ns::MAX, &inbound);
        } else {
            inbound.copy_in(usize::from(how >> 1) * 4, bytes);
        }
        for place in 0..layout.place_count {
            match callee.take(place, &inbound, now, &mut out) {
                Ok(Some(taken)) => {
                    assert!(out.len() <= layout.request_bytes, "{} bytes", out.len());
                    assert!(usize::from(taken.rpc_id) < layout.rpc_count, "{taken:?}");
                    callee.publish(place, &[&out], Ns(0), &results, now);
                    while let Some(push) = callee.settle(&inbound) {
                        callee.pushed(push.place);
                    }
                }
                Ok(None) => {}
                // The connection ends.
                Err(_) => return,
            }
        }
        while let Some(push) = callee.look_again(&inbound, now) {
            callee.pushed(push.place);
        }
    }
}

/// Takes arbitrary bytes as results: what is accepted fits, and a call ends in time. Input: bit 0: the paper's format,
/// bit 1: results are pushed, bit 2: the bytes are made a result (1 byte); then the bytes of the slot.
#[doc(hidden)]
pub fn fuzz_results(input: &[u8]) {
    let (Some((how, bytes)), Some((requests, results))) = (input.split_first(), pages()) else {
        return;
    };
    let layout = layout(*how);
    let transfer = [Transfer::Fetch, Transfer::Reply][usize::from(how >> 1 & 1)];
    let options = CallerOptions {
        transfer,
        first_bytes: 64,
        ..CallerOptions::default()
    };
    let mut caller = Caller::<Guarded>::new(layout, options, (1, 2));
    let deadline = Ns::from_us(100);
    let begun = caller.begin(0, 1, &[b"request"], deadline, &requests);
    assert!(begun.is_ok(), "a short request fits");
    results.copy_in(0, &bytes[..bytes.len().min(layout.results_bytes())]);
    if how & 4 != 0 {
        let mut callee = Callee::<Guarded>::new(layout, CalleeOptions::default(), (1, 2));
        let taken = callee.take(0, &requests, Ns(0), &mut Vec::new());
        assert!(matches!(taken, Ok(Some(_))), "an honest client: {taken:?}");
        callee.publish(0, &[bytes], Ns(0), &results, Ns(0));
    }
    let (mut out, mut now) = (Vec::new(), Ns(0));
    let mut next = caller.sent(0);
    loop {
        next = match next {
            // A READ brings the bytes that are there.
            Next::Read { offset, len } => {
                assert!(
                    offset + len <= layout.result_stride(),
                    "{len} bytes from {offset}"
                );
                caller.landed(0, &results, now, &mut out)
            }
            Next::Done { result, .. } => {
                if let Ok(len) = result {
                    assert!(len <= out.len() && len <= layout.result_bytes, "{len} bytes");
                }
                return;
            }
            Next::Wait { .. } | Next::Nothing | Next::Late { .. } => {
                now += Ns::from_us(1);
                let mut is_late = false;
                caller.expire(now, |_| is_late = true);
                if is_late {
                    return;
                }
                caller.poll(0, &results, now, &mut out).unwrap_or(Next::Nothing)
            }
        };
    }
}
