//! Rivals for real, where they are installed: every mode answers everything, and nothing is left behind.

use drover_base::Ns;
use drover_bench::rivals::{Kind, Mode, Rival, RivalOptions, Transport};
use drover_bench::workload::{KeyText, Mix, Popularity, Tape, TapeOptions, Values};
use drover_bench::{Client, Helper, Pace, RunOptions, Target};
use drover_kv::Op;
use std::sync::atomic::AtomicU64;

const KEYS: u32 = 2000;

fn start(kind: Kind, transport: Transport) -> Option<Rival> {
    if Rival::find(kind).is_none() {
        eprintln!("skipped: {kind} is not installed");
        return None;
    }
    let helper = Helper {
        program: env!("CARGO_BIN_EXE_bench-lab").into(),
        arguments: vec!["helper".to_owned()],
    };
    let options = RivalOptions {
        cores: drover_bench::pin::allowed_cores().expect("cores"),
        shared: false,
        item_count: u64::from(KEYS),
        item_bytes: 48,
    };
    Some(Rival::start(kind, transport, &helper, &options).expect("an installed rival starts"))
}

fn try_mode(rival: &Rival, mode: &Mode, mix: &str, loaded: u32) {
    let tape = Tape::new(&TapeOptions {
        mix: Mix::parse(mix).expect("a mix"),
        popularity: Popularity::Uniform,
        key_count: KEYS,
        entry_count: 1 << 12,
        seed: 1,
        client_index: 0,
        client_count: 1,
    });
    let keys = KeyText::new(16, u64::from(KEYS), 1).expect("a size");
    let mut client = Client::new(
        rival.client(mode).expect("connections"),
        tape,
        keys,
        Values::new(32, 32),
        0,
    );
    client
        .load(0..loaded, mode.window(), &AtomicU64::new(0))
        .expect("loading");
    let options = RunOptions {
        window: mode.window(),
        pace: Pace::Closed,
        time: Ns::from_ms(1),
        ops_min: 400,
        other_tape: false,
    };
    let counts = client.run(&options).expect("a run").counts;
    assert_eq!(
        (counts.failed, counts.corrupt),
        (0, 0),
        "{}: {counts:?}",
        mode.name
    );
    assert!(counts.ops >= 400, "{}", mode.name);
    if loaded == KEYS {
        assert_eq!(counts.hits, counts.gets, "{}: {counts:?}", mode.name);
    } else if mix == "c" {
        let rate = counts.hit_rate();
        assert!(
            (0.2..0.8).contains(&rate),
            "{}: half the keys exist, {rate}",
            mode.name
        );
    }
}

fn every_mode(kind: Kind) {
    for transport in [Transport::Unix, Transport::Tcp] {
        let Some(rival) = start(kind, transport) else {
            return;
        };
        for mode in Mode::ALL.iter().filter(|m| m.transport == transport) {
            try_mode(&rival, mode, "c", KEYS / 2);
        }
        for mode in Mode::ALL.iter().filter(|m| m.transport == transport) {
            for mix in ["a", "f"] {
                try_mode(&rival, mode, mix, KEYS);
            }
        }
    }
}

#[test]
fn memcached_answers_in_every_mode() {
    every_mode(Kind::Memcached);
}

#[test]
fn redis_answers_in_every_mode() {
    every_mode(Kind::Redis);
}

#[test]
fn a_delete_removes_the_key() {
    for kind in [Kind::Memcached, Kind::Redis] {
        let Some(rival) = start(kind, Transport::Unix) else {
            continue;
        };
        let mode = Mode::ALL.iter().find(|mode| mode.transport == Transport::Unix);
        let mut client = rival.client(mode.expect("a mode")).expect("connections");
        let put = Op::put(b"key", b"value");
        let delete = Op::delete(b"key");
        let mut outcomes = Vec::new();
        for op in [put, delete, delete] {
            client.submit(&op, 0).expect("space");
            let before = outcomes.len();
            while outcomes.len() == before {
                let polled = client.poll(true, &mut |_, outcome| outcomes.push(format!("{outcome:?}")));
                polled.expect("answers");
            }
        }
        assert_eq!(outcomes, ["Stored", "Deleted", "NotFound"], "{kind}");
    }
}

#[test]
fn a_rival_ends_with_its_owner() {
    for kind in [Kind::Memcached, Kind::Redis] {
        let Some(rival) = start(kind, Transport::Unix) else {
            continue;
        };
        let process = format!("/proc/{}", rival.pid());
        assert!(std::path::Path::new(&process).exists());
        drop(rival);
        assert!(!std::path::Path::new(&process).exists(), "{kind} is gone");
    }
}
