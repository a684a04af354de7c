//! Slots that are shorter than the longest keys need: whatever does not fit is refused at once and clearly, whatever
//! does fit works, and nothing in between.

use crate::shm::pair::Pair;
use drover_base::{Actor, Cpu};
use drover_kv::{KEY_BYTES_MAX, KvClient, Op, Outcome, Refusal, SubmitError};
use drover_kv_herd::client::ClientOptions;
use drover_mem::PageWish;
use drover_store::PartitionOptions;
use drover_verbs::Context;

/// What becomes of an operation.
#[derive(PartialEq, Eq, Debug)]
enum End {
    Done,
    TooLarge,
}

/// Steps of everybody that an operation may take; a long value needs a few dozen.
const STEPS_MAX: u32 = 100_000;

fn end_of(pair: &mut Pair, op: &Op<'_>) -> End {
    pair.ctx.cpu().refresh();
    match pair.client.submit(pair.ctx.cpu(), op, 0) {
        Ok(()) => {}
        Err(SubmitError::TooLarge) => return End::TooLarge,
        Err(error) => panic!("{error}: {op:?}"),
    }
    let mut end = None;
    for _ in 0..STEPS_MAX {
        pair.ctx.cpu().refresh();
        pair.client
            .poll(pair.ctx.cpu(), &mut |completion| match completion.outcome {
                Outcome::Refused(Refusal::TooLarge) => end = Some(End::TooLarge),
                Outcome::Stored | Outcome::Value(_) | Outcome::Deleted => end = Some(End::Done),
                other => panic!("{other:?}: {op:?}"),
            });
        if let Some(end) = end {
            return end;
        }
        let control = pair.acceptor.context();
        control.cpu().refresh();
        pair.acceptor.step(control.cpu());
        pair.step_worker();
    }
    panic!("no end: {op:?}");
}

/// The rule of `ClientOptions::slot_bytes`, for every length about which there could be a doubt.
#[test]
fn keys_that_do_not_fit_are_refused_and_all_others_served() {
    for slot_bytes in [64, 128, 256, 320] {
        let partition = PartitionOptions {
            log_bytes: 1 << 18,
            bucket_count: 1 << 8,
            pages: PageWish::Small,
            ..PartitionOptions::default()
        };
        let wishes = ClientOptions {
            slot_bytes,
            ..ClientOptions::default()
        };
        let mut pair = Pair::new(partition, wishes);
        let about = |bytes: usize| [bytes - 1, bytes, bytes + 1];
        let lens = [1]
            .into_iter()
            .chain(about(slot_bytes - 40))
            .chain(about(slot_bytes - 24));
        for key_len in lens
            .chain(about(KEY_BYTES_MAX - 1))
            .filter(|&len| len <= KEY_BYTES_MAX)
        {
            let key = vec![b'k'; key_len];
            let fits = |value_len| key_len + value_len + 24 <= slot_bytes;
            let moves = key_len + 40 <= slot_bytes;
            for value_len in [0, 1, 2000] {
                let value = vec![7; value_len];
                let put = Op::put(&key, &value);
                let want = |served| if served { End::Done } else { End::TooLarge };
                let stored = end_of(&mut pair, &put);
                assert_eq!(
                    stored,
                    want(fits(value_len) || moves),
                    "PUT of {key_len} + {value_len} bytes, slots of {slot_bytes}"
                );
                if stored == End::Done {
                    assert_eq!(end_of(&mut pair, &Op::Get { key: &key }), End::Done);
                    assert_eq!(end_of(&mut pair, &Op::delete(&key)), End::Done);
                }
            }
            if !fits(0) {
                assert_eq!(end_of(&mut pair, &Op::Get { key: &key }), End::TooLarge);
                assert_eq!(end_of(&mut pair, &Op::delete(&key)), End::TooLarge);
            }
        }
        assert_eq!(pair.client.in_flight(), 0);
    }
}
