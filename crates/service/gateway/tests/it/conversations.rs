//! The conversations that a server of items has: a gateway answers the same, but for those that are listed with a reason.

use crate::bed::{Bed, BedOptions, Client};
use drover_testkit::conversations::{CLASSIC, Case, MALFORMED, META, OURS, with_crlf};

/// Conversations that go another way, and why.
const OTHERWISE: &[(&str, &str)] = &[
    ("noreply everywhere", FLUSH),
    ("flush_all", FLUSH),
    ("mg and what it can tell", EXPIRY),
    ("hits and last access, before the bump", ACCESS),
    ("ms flags", EXPIRY),
    ("ma", EXPIRY),
    ("vivify: the first one wins", MARKS),
    ("recache: one is told when little time is left", MARKS),
    ("stale: invalidated items win once", MARKS),
    ("mg can touch", EXPIRY),
    ("me", ACCESS),
    ("meta commands tell CAS numbers, and take them with E", CAS),
    ("ms with an older CAS and I stores as stale", CAS),
    (
        "ma gives a number that grows out of its place the time to live that it asks for",
        EXPIRY,
    ),
    ("md x empties an item and keeps it", CAS),
    (
        "absolute expiry is held against the wall clock of the start",
        EXPIRY,
    ),
    (
        "admin commands that have nothing to do here",
        "cache_memlimit: the memory is the system's",
    ),
    ("dumps", "a client lists no keys"),
    ("watch is quiet", "watch is refused"),
];
const FLUSH: &str = "flush_all is refused: the items are others', too";
const EXPIRY: &str = "an item's expiry cannot be read";
const ACCESS: &str = "items have no time of access";
const MARKS: &str = "items have no marks";
const CAS: &str = "the system chooses versions";

/// Where the conversation goes another way; `None`: nowhere.
fn difference(case: &Case, options: &BedOptions) -> Option<String> {
    let (mut bed, mut client) = (Bed::with(options), Client::new());
    for (input, want) in case.said {
        let got = bed.say_bytes(&mut client, &with_crlf(input));
        if got != with_crlf(want) {
            return Some(format!(
                "{input:?}\n  want {want:?}\n  got  {:?}",
                String::from_utf8_lossy(&got)
            ));
        }
    }
    (client.is_closed != case.closes).then(|| format!("closed is {}", client.is_closed))
}

/// Checks the cases of one file, with answers at once and late ones.
fn hold(cases: &[Case]) {
    let mut wrong = Vec::new();
    for late in [None, Some(1), Some(2)] {
        let options = BedOptions {
            late,
            ..BedOptions::default()
        };
        for case in cases {
            let is_listed = OTHERWISE.iter().any(|(name, _)| *name == case.name);
            match difference(case, &options) {
                Some(what) if !is_listed => wrong.push(format!("{}: {what}", case.name)),
                None if is_listed => {
                    wrong.push(format!("{}: goes the same way, though it is listed", case.name))
                }
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn classic() {
    hold(CLASSIC);
}

#[test]
fn malformed() {
    hold(MALFORMED);
}

#[test]
fn meta() {
    hold(META);
}

#[test]
fn ours() {
    hold(OURS);
}
