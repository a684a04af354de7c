//! Random commands: mostly valid, some invalid.

use proptest::prelude::*;
use proptest::sample::select;

/// Few keys, so that commands often share one.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => select(vec!["a", "b", "c", "d:e", "n"]).prop_map(String::from),
        1 => "[a-z]{1,20}",
        1 => Just("k".repeat(251)),
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[0-9]{1,20}",
        3 => "[ -~]{0,40}",
        1 => Just("x\r\nget a\r\n".to_owned()),
        1 => (1usize..3000).prop_map(|len| "v".repeat(len)),
    ]
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => (0u32..50).prop_map(|n| n.to_string()),
        1 => any::<u64>().prop_map(|n| n.to_string()),
        1 => select(vec!["-1", "x", "", "+1", "4294967296"]).prop_map(String::from),
    ]
}

fn noreply() -> impl Strategy<Value = &'static str> {
    select(vec!["", "", "", " noreply", "  "])
}

fn store() -> impl Strategy<Value = String> {
    let names = select(vec!["set", "set", "add", "replace", "append", "prepend"]);
    let numbers = (number(), number(), -1i32..2, noreply());
    (names, key(), numbers, value()).prop_map(|(name, key, (flags, expiry, wrong, noreply), value)| {
        let len = value.len() as i32 + i32::from(wrong == 1 && value.len() % 7 == 0);
        format!("{name} {key} {flags} {expiry} {len}{noreply}\r\n{value}\r\n")
    })
}

fn meta() -> impl Strategy<Value = String> {
    let flag = select(vec![
        "v", "k", "t", "s", "f", "h", "l", "q", "O1", "Oabc", "N30", "T20", "T0", "R25", "I", "D5", "J7",
        "MI", "MD", "MA", "ME", "F9", "x", "T-1", "C0", "v v", "!", "b",
    ]);
    let flags = prop::collection::vec(flag, 0..5).prop_map(|flags| flags.join(" "));
    let name = select(vec!["mg", "mg", "md", "ma", "ms", "ms"]);
    (name, key(), flags, value()).prop_map(|(name, key, flags, value)| match name {
        "ms" => format!("ms {key} {} {flags}\r\n{value}\r\n", value.len()),
        _ => format!("{name} {key} {flags}\r\n"),
    })
}

/// Strategy for a command with its value, or (rarely) random bytes. Commands have no CAS numbers, which differ with the
/// number of cores.
pub fn command() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![
        4 => store(),
        4 => prop::collection::vec(key(), 1..40).prop_map(|keys| format!("get {}\r\n", keys.join(" "))),
        2 => key().prop_map(|key| format!("get {key}\r\n")),
        1 => (number(), key(), key()).prop_map(|(expiry, a, b)| format!("gat {expiry} {a} {b}\n")),
        1 => (key(), noreply()).prop_map(|(key, noreply)| format!("delete {key}{noreply}\r\n")),
        2 => (select(vec!["incr", "decr"]), select(vec!["n", "a"]), number(), noreply())
            .prop_map(|(name, key, delta, noreply)| format!("{name} {key} {delta}{noreply}\r\n")),
        1 => (key(), number(), noreply()).prop_map(|(key, expiry, noreply)| format!("touch {key} {expiry}{noreply}\r\n")),
        4 => meta(),
        1 => select(vec!["mn\r\n", "version\r\n", "flush_all\r\n", "flush_all 5 noreply\r\n", "verbosity 1\r\n", "bogus\r\n", "\r\n", "set a 0 0 1100000\r\n"])
            .prop_map(String::from),
    ];
    let garbage = prop::collection::vec(any::<u8>(), 0..50);
    prop_oneof![40 => text.prop_map(String::into_bytes), 1 => garbage]
}
