//! Lists of all items, through a socket: each has every item, on however many cores the items are.

use crate::common::memcached::Memcached;
use std::collections::BTreeSet;
use std::process::Command;

const ITEMS: usize = 3_000;

/// A server with many items, and their keys.
#[track_caller]
fn filled(name: &str, threads: &str) -> (Memcached, BTreeSet<String>) {
    let server = Memcached::start(name, &["-t", threads]);
    let keys: BTreeSet<String> = (0..ITEMS).map(|number| format!("key-{number}")).collect();
    let sets = keys.iter().map(|key| format!("set {key} 0 0 1\r\nx\r\n"));
    assert_eq!(server.ask(&sets.collect::<String>()), "STORED\r\n".repeat(ITEMS));
    (server, keys)
}

/// The keys of a list's lines, each between `before` and the next space; each is there once.
fn keys_in(list: &str, before: &str) -> BTreeSet<String> {
    let lines = list.lines().filter_map(|line| line.strip_prefix(before));
    let listed: Vec<&str> = lines.filter_map(|line| line.split(' ').next()).collect();
    let keys: BTreeSet<String> = listed.iter().map(ToString::to_string).collect();
    assert_eq!(keys.len(), listed.len(), "a key is listed twice");
    keys
}

#[test]
fn every_list_has_every_item() {
    for threads in ["1", "4"] {
        let (server, keys) = filled("dumps", threads);
        for (command, before, end) in [
            ("lru_crawler metadump all", "key=", "END\r\n"),
            ("lru_crawler mgdump all", "mg ", "EN\r\n"),
            ("stats cachedump 1 0", "ITEM ", "END\r\n"),
        ] {
            let list = server.ask(&format!("{command}\r\n"));
            assert!(list.ends_with(end), "{command}: {list}");
            assert_eq!(keys_in(&list, before), keys, "{command}, {threads} threads");
        }
        let few = keys_in(&server.ask("stats cachedump 1 1000\r\n"), "ITEM ");
        assert!(few.len() == 1000 && few.is_subset(&keys), "{}", few.len());
        assert_eq!(server.serving.stop(), 0);
    }
}

#[test]
fn memcdump_lists_every_item() {
    for threads in ["1", "4"] {
        let (server, keys) = filled("memcdump", threads);
        let listed = Command::new("memcdump")
            .arg(format!("--servers=127.0.0.1:{}", server.port))
            .output();
        let Ok(listed) = listed else {
            println!("skipped: memcdump (libmemcached-tools) is not installed");
            return;
        };
        let text = String::from_utf8(listed.stdout).expect("keys are text");
        assert_eq!(keys_in(&text, ""), keys, "{threads} threads");
        assert_eq!(server.serving.stop(), 0);
    }
}

#[test]
fn lists_can_be_refused() {
    let server = Memcached::start("dumps-refused", &["-X"]);
    assert_eq!(
        server.ask("stats cachedump 1 0\r\n"),
        "CLIENT_ERROR stats cachedump not allowed\r\n"
    );
    assert_eq!(
        server.ask("lru_crawler metadump all\r\n"),
        "ERROR metadump not allowed\r\n"
    );
}
