//! Three members in three network namespaces are one service.

use super::bed::{Bed, CLUSTER};
use super::process::until;
use crate::common::{ask_memcached, drover};
use drover_testkit::network::in_a_network;

/// Enough for each member to own some.
const KEYS: usize = 60;

#[test]
fn a_key_set_through_one_member_is_read_through_the_others() {
    let test = "deployed::three_members::a_key_set_through_one_member_is_read_through_the_others";
    in_a_network(test, || {
        let bed = Bed::start("three", &[]);
        until("all three own shards", || {
            let (_, status, _) = drover(&["cluster", "status", "--cluster", CLUSTER, "--json"], "");
            bed.names().iter().all(|name| owned(&status, name) > 0)
        });
        let streams = || {
            bed.members
                .iter()
                .map(|member| member.connect().expect("it listens"))
        };
        let mut streams: Vec<_> = streams().collect();
        for key in 0..KEYS {
            let by = key % streams.len();
            let said = ask_memcached(&mut streams[by], &format!("set key-{key} 7 0 2\r\n{key:02}\r\n"));
            assert_eq!(said, "STORED\r\n", "key-{key}");
        }
        for key in 0..KEYS {
            let expected = format!("VALUE key-{key} 7 2\r\n{key:02}\r\nEND\r\n");
            for stream in &mut streams {
                assert_eq!(ask_memcached(stream, &format!("get key-{key}\r\n")), expected);
            }
        }
        // Native clients: what they write, memcached's read, and the other way round.
        for key in 0..6 {
            let (name, value) = (format!("key-{key}"), format!("{key:02}"));
            let read = drover(&["get", &name, "--server", CLUSTER], "");
            assert_eq!((read.0, read.1.trim_end()), (0, &*value), "{}", read.2);
            let native = format!("native-{key}");
            assert_eq!(drover(&["set", &native, "it", "--server", CLUSTER], "").0, 0);
            let said = ask_memcached(&mut streams[0], &format!("get {native}\r\n"));
            assert!(said.ends_with("\r\nit\r\nEND\r\n"), "{said}");
        }
    });
}

/// Number of shards that `cluster status --json` says the member owns; 0 if it does not say.
fn owned(status: &str, name: &str) -> u64 {
    let status: serde_json::Value = serde_json::from_str(status).unwrap_or_default();
    let members = status["members"].as_array().cloned().unwrap_or_default();
    let member = members.iter().find(|member| member["name"] == name);
    member
        .and_then(|member| member["shards"].as_u64())
        .unwrap_or_default()
}
