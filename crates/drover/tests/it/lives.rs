//! A key that is read after every write of another one stays in a full cache, for clients of memcached's classic and
//! meta commands, and for native ones.
//!
//! `DROVER_WRITES` is the number of writes (`cargo xtask lives`: a million).

use crate::campaigns::number;
use crate::common::Serving;
use drover_base::Ns;
use drover_client::{Client, Options};
use drover_kv::{Op, Outcome};
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::Duration;

/// Writes of an ordinary run: the cache is full several times over.
const WRITES: u64 = 60_000;
/// Writes that are sent, each with its read, before the answers are read.
const WINDOW: u64 = 64;
const HOT: &str = "key-read-often-0";
const VALUE: [u8; 1000] = [b'v'; 1000];
const HOT_VALUE: [u8; 1000] = [b'h'; 1000];
/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn key(number: u64) -> String {
    format!("key-{number:012}")
}

/// Plays all writes, each followed by a read of the hot key, against servers of one and of four threads. `connect` takes the
/// server, and returns what plays the writes of these numbers and says how many reads found the key; its first call stores
/// the key before.
fn lives_through<P: FnMut(Range<u64>) -> u64>(name: &str, connect: impl Fn(&Serving) -> P) {
    let writes = number("DROVER_WRITES").unwrap_or(WRITES);
    for threads in ["1", "4"] {
        let args = ["-m", "8", "-t", threads, "-p", "-1"];
        let serving = Serving::start(&format!("{name}-{threads}"), &args);
        let mut play = connect(&serving);
        for first in (0..writes).step_by(WINDOW as usize) {
            let some = first..writes.min(first + WINDOW);
            let want = some.end - some.start;
            assert_eq!(play(some), want, "-t {threads}: after {first} writes");
        }
        let (_, stats, _) = serving.ask(&["stats"]);
        let stat = |name: &str| -> u64 {
            let line = stats.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim().parse().ok()).expect("a number")
        };
        assert!(stat("evictions ") > writes / 2, "the cache was full: {stats}");
        assert!(stat("curr_items ") * 1024 < 8 << 20, "it was no larger: {stats}");
        assert_eq!(serving.stop(), 0);
    }
}

fn stream(serving: &Serving) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", serving.memcached_port())).expect("it listens");
    stream.set_nodelay(true).expect("a socket");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream
}

/// Plays with a text protocol: `put` and `get` make commands, and `stored` and `found` are their answers.
fn talks(
    serving: &Serving,
    put: fn(&str, &[u8]) -> Vec<u8>,
    get: String,
    stored: &'static [u8],
    found: Vec<u8>,
) -> impl FnMut(Range<u64>) -> u64 + use<> {
    let mut answers = BufReader::new(stream(serving));
    let mut read = move |request: &[u8], wanted: &[&[u8]]| {
        answers.get_mut().write_all(request).expect("space");
        let mut answer = Vec::new();
        wanted
            .iter()
            .take_while(|wanted| {
                answer.resize(wanted.len(), 0);
                answers.read_exact(&mut answer).expect("an answer in time");
                answer == **wanted
            })
            .count()
    };
    assert_eq!(read(&put(HOT, &HOT_VALUE), &[stored]), 1);
    move |numbers| {
        let (mut request, mut wanted) = (Vec::new(), Vec::new());
        for number in numbers {
            request.extend_from_slice(&put(&key(number), &VALUE));
            request.extend_from_slice(get.as_bytes());
            wanted.extend([stored, &found]);
        }
        read(&request, &wanted) as u64 / 2
    }
}

#[test]
fn a_hot_key_lives_with_classic_commands() {
    let put =
        |key: &str, value: &[u8]| [format!("set {key} 0 0 1000\r\n").as_bytes(), value, b"\r\n"].concat();
    let found = [
        format!("VALUE {HOT} 0 1000\r\n").as_bytes(),
        &HOT_VALUE,
        b"\r\nEND\r\n",
    ]
    .concat();
    lives_through("lives-classic", |serving| {
        talks(
            serving,
            put,
            format!("get {HOT}\r\n"),
            b"STORED\r\n",
            found.clone(),
        )
    });
}

#[test]
fn a_hot_key_lives_with_meta_commands() {
    let put = |key: &str, value: &[u8]| [format!("ms {key} 1000\r\n").as_bytes(), value, b"\r\n"].concat();
    let found = [&b"VA 1000\r\n"[..], &HOT_VALUE, b"\r\n"].concat();
    lives_through("lives-meta", |serving| {
        talks(serving, put, format!("mg {HOT} v\r\n"), b"HD\r\n", found.clone())
    });
}

#[test]
fn a_hot_key_lives_with_native_clients() {
    lives_through("lives-native", |serving| {
        let options = Options {
            connect_timeout: Ns::from_s(30),
            ..Options::default()
        };
        let mut client = Client::connect_with(&serving.addr, &options).expect("a server");
        client.set(HOT.as_bytes(), &HOT_VALUE).expect("stored");
        move |numbers: Range<u64>| {
            let keys: Vec<String> = numbers.map(key).collect();
            let get = Op::Get { key: HOT.as_bytes() };
            let mut ops = Vec::new();
            for key in &keys {
                let (key, value) = (key.as_bytes(), &VALUE[..]);
                ops.extend([Op::put(key, value), get]);
            }
            let mut found = 0;
            client
                .execute(&ops, |i, outcome| match outcome {
                    Outcome::Value(value) => found += u64::from(i % 2 == 1 && value == HOT_VALUE),
                    outcome => assert!(i % 2 == 1 || outcome == Outcome::Stored, "{outcome:?}"),
                })
                .expect("an answer in time");
            found
        }
    });
}
