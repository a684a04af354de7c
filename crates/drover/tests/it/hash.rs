//! `--hash`: the server chooses how keys are hashed, and everybody who hashes them follows.

use crate::common::{Serving, ask_memcached, drover, folder};
use crate::pool::{MemoryNode, with_nodes};
use drover_systems::System;
use std::net::TcpStream;

const KINDS: [&str; 2] = ["aes", "xxh3"];

/// Keys of a byte, a word, a block (which takes a way of its own), and longer.
fn keys() -> [String; 5] {
    [1, 8, 16, 24, 250].map(|bytes| "k".repeat(bytes))
}

/// Sets and gets each key by `ask`, which runs a client command.
fn use_keys(ask: impl Fn(&[&str]) -> (i32, String, String), whose: &str) {
    for key in keys() {
        assert_eq!(
            ask(&["set", &key, "v"]),
            (0, String::new(), String::new()),
            "{whose}"
        );
        assert_eq!(ask(&["get", &key]), (0, "v".to_owned(), String::new()), "{whose}");
    }
}

fn settings_of(server: &Serving) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.memcached_port())).expect("the port answers");
    ask_memcached(&mut stream, "stats settings\r\n")
}

#[test]
fn clients_of_every_system_follow_the_server() {
    for system in System::ALL.iter().filter(|system| system.facts().offers.service) {
        for kind in KINDS {
            let name = format!("hash-{system}-{kind}");
            let args = [
                "--system",
                &system.to_string(),
                "--hash",
                kind,
                "-t",
                "2",
                "-m",
                "64",
            ];
            let server = Serving::start(&name, &args);
            use_keys(|words| server.ask(words), &name);
            assert_eq!(server.stop(), 0, "{name}");
        }
    }
}

#[test]
fn memcached_s_clients_and_native_ones_hash_alike() {
    for kind in KINDS {
        let server = Serving::start("hash-both", &["--hash", kind, "-t", "2", "-p", "-1"]);
        let told = settings_of(&server);
        assert!(
            told.contains(&format!("STAT hash_algorithm {kind}\r\n")),
            "{told}"
        );
        let mut stream =
            TcpStream::connect(("127.0.0.1", server.memcached_port())).expect("the port answers");
        for key in keys() {
            let told = ask_memcached(&mut stream, &format!("set {key} 0 0 1\r\nv\r\n"));
            assert_eq!(told, "STORED\r\n");
            assert_eq!(server.ask(&["get", &key]), (0, "v".to_owned(), String::new()));
        }
    }
}

#[test]
fn a_server_hashes_with_aes_unless_told_otherwise() {
    let server = Serving::start("hash-default", &["-p", "-1"]);
    let told = settings_of(&server);
    assert!(told.contains("STAT hash_algorithm aes\r\n"), "{told}");
}

/// A listing of keys is in the order of buckets, so it shows where a seed has placed them.
#[test]
fn no_two_servers_place_keys_alike() {
    let listings = ["hash-one", "hash-another"].map(|name| {
        let server = Serving::start(name, &["-p", "-1"]);
        let mut stream =
            TcpStream::connect(("127.0.0.1", server.memcached_port())).expect("the port answers");
        for key in 0..100 {
            let told = ask_memcached(&mut stream, &format!("set {key} 0 0 1\r\nv\r\n"));
            assert_eq!(told, "STORED\r\n");
        }
        let listing = ask_memcached(&mut stream, "lru_crawler mgdump all\r\n");
        assert_eq!(listing.matches("mg ").count(), 100, "{listing}");
        listing
    });
    assert_ne!(listings[0], listings[1]);
}

#[test]
fn a_memory_file_of_another_hash_starts_cold() {
    let file = folder("hash-file").join("items").display().to_string();
    for (kind, said) in [
        ("aes", "cold start: it was not left by a clean stop"),
        ("aes", "warm start"),
        ("xxh3", "cold start: its keys were hashed with aes, not with xxh3"),
        ("xxh3", "warm start"),
    ] {
        let server = Serving::start("hash-file", &["-m", "8", "-e", &file, "--hash", kind]);
        assert!(server.said.contains(said), "{kind}: {}", server.said);
        assert_eq!(server.ask(&["set", "fox", "red"]).0, 0);
        assert_eq!(server.stop(), 0);
    }
}

#[test]
fn processes_of_a_pool_hash_as_its_table_says() {
    for kind in KINDS {
        let nodes = ["a", "b"].map(|node| MemoryNode::start(&format!("hash-pool-{kind}-{node}"), &[]));
        let nodes = [&nodes[0], &nodes[1]];
        let words = ["pool", "create", "--system", "race", "--hash", kind];
        let (status, _, error) = with_nodes("--nodes", &nodes, &words);
        assert_eq!((status, error.as_str()), (0, ""));
        use_keys(|words| with_nodes("--pool", &nodes, words), kind);
    }
}

#[test]
fn a_hash_that_would_have_no_effect_is_refused() {
    let refused = |words: &[&str], why: &str| {
        let (status, _, said) = drover(words, "");
        assert!(status != 0 && said.contains(why), "{words:?}: {said}");
    };
    refused(&["config", "--hash", "md5"], "--hash md5: expected aes or xxh3");
    refused(
        &["config", "--connect", "shm:x", "--hash", "aes"],
        "--hash aes: does not apply to a gateway",
    );
    refused(&["bench", "--address", "shm:x", "--hash", "aes"], "--hash");
    refused(
        &[
            "pool", "create", "--nodes", "shm:x", "--system", "other", "--hash", "xxh3",
        ],
        "--hash: not in a pool of kind other",
    );
}
