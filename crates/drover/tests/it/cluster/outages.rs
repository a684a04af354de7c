//! Goal: `--on-registry-loss` chooses what an outage of etcd means, and nothing is lost when etcd is back with its data.

use super::bed::{Client, Service};

/// Enough for each member to own some.
const KEYS: usize = 40;

/// Asks for all keys at once, since a request for a key without a member waits. Returns the keys that have a value, and the number of
/// those that no member serves.
fn ask_all(client: &mut Client) -> (Vec<usize>, usize) {
    let text: String = (0..KEYS).map(|key| format!("mg key{key} k v\r\n")).collect();
    let said = client.ask(&text);
    let words = || said.split_ascii_whitespace();
    let found = words().filter_map(|word| word.strip_prefix("kkey")?.parse().ok());
    let unserved = said
        .matches("SERVER_ERROR drover: no member serves this key now")
        .count();
    (found.collect(), unserved)
}

#[test]
fn a_member_serves_on_without_etcd_if_it_is_told_to() {
    let Some(mut service) = Service::new("outage") else {
        return;
    };
    let serves = service.start(1, &["--on-registry-loss", "serve"]);
    let stops = service.start(2, &[]);
    service.settled(2);
    let mut client = service.client(1);
    client.set_all(KEYS, "a");
    service.etcd.kill();
    while !stops
        .metrics()
        .contains("\ndrover_cluster_lease_left_seconds 0\n")
    {}
    assert!(!serves.metrics().contains("\ndrover_cluster_lease_left_seconds "));
    let (found, unserved) = ask_all(&mut client);
    assert_eq!(found.len() + unserved, KEYS);
    assert!(!found.is_empty() && unserved > 0, "{found:?}");
    for key in &found {
        assert_eq!(client.ask(&format!("ms key{key} 1\r\nb\r\n")), "HD\r\n");
    }
    // etcd counts leases anew when it starts, so both members are still those that it knows.
    service.etcd.restart();
    service.settled(2);
    let (all, _) = ask_all(&mut client);
    assert_eq!(all, (0..KEYS).collect::<Vec<_>>());
    for key in &found {
        assert_eq!(client.ask(&format!("mg key{key} v\r\n")), "VA 1\r\nb\r\n");
    }
    for member in [serves, stops] {
        assert_eq!(member.stop(), 0);
    }
}
