//! The paper's format: GET and PUT of 16-byte hashes, nothing else.

use crate::variants::bed::{HerdBed, Paper};
use drover_kv::{KvClient, Op, Outcome, Refusal};
use drover_testkit::kv_conformance::{Bed, BedOptions};

type Client = <HerdBed<Paper> as Bed>::Client;

/// Submits one operation and steps until it is done; hands its outcome to `take`.
fn run<T>(bed: &mut HerdBed<Paper>, client: &mut Client, op: Op<'_>, take: impl Fn(Outcome<'_>) -> T) -> T {
    client.submit(bed.cpu(), &op, 0).expect("taken");
    let mut result = None;
    for _ in 0..1_000_000 {
        client.poll(bed.cpu(), &mut |completion| {
            result = Some(take(completion.outcome))
        });
        if let Some(result) = result {
            return result;
        }
        bed.step();
    }
    panic!("{op:?} hangs");
}

#[test]
fn get_and_put_and_nothing_else() {
    let mut bed = HerdBed::<Paper>::start(&BedOptions::default());
    let mut client = bed.connect();
    for i in 0..300u32 {
        let (key, value) = (i.to_le_bytes(), vec![i as u8; 1 + i as usize * 3]);
        let put = Op::put(&key, &value);
        let get = Op::Get { key: &key };
        assert!(run(&mut bed, &mut client, get, |outcome| outcome == Outcome::NotFound));
        assert!(run(&mut bed, &mut client, put, |outcome| outcome == Outcome::Stored));
        assert!(run(&mut bed, &mut client, get, |outcome| outcome
            == Outcome::Value(&value)));
    }
    let refused = |outcome: Outcome<'_>| outcome == Outcome::Refused(Refusal::BadRequest);
    for op in [
        Op::delete(b"k"),
        Op::put(b"k", b""),
        Op::put_for(b"k", b"v", 5),
        Op::put(b"k", &[1; 1001]),
    ] {
        assert!(run(&mut bed, &mut client, op, refused), "{op:?}");
    }
    assert_eq!(client.stats().retransmits, 0);
}

/// Only the hash of a key travels, so the longest value fits beside a key of any length.
#[test]
fn the_longest_value_fits_whatever_its_key() {
    let mut bed = HerdBed::<Paper>::start(&BedOptions::default());
    let mut client = bed.connect();
    for (key, value) in [
        ([7; 16], vec![1; 984]),
        ([8; 16], vec![2; 985]),
        ([9; 16], vec![3; 1000]),
    ] {
        let put = Op::put(&key, &value);
        assert!(run(&mut bed, &mut client, put, |outcome| outcome == Outcome::Stored));
        let get = Op::Get { key: &key };
        let came_back = |outcome: Outcome<'_>| outcome == Outcome::Value(&value);
        assert!(
            run(&mut bed, &mut client, get, came_back),
            "{} bytes",
            value.len()
        );
    }
}
