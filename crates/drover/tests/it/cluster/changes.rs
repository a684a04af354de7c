//! Goal: whatever member a client asks, it gets what was stored through any other, also while members come and go as planned.

use super::bed::Service;

const KEYS: usize = 300;

#[test]
fn a_key_set_through_one_member_is_read_through_all() {
    let Some(service) = Service::new("all") else {
        return;
    };
    let members = [1, 2, 3].map(|number| service.start(number, &[]));
    let shards = service.settled(3);
    assert_eq!(
        shards.iter().map(|(_, count)| count).sum::<u64>(),
        4096,
        "{shards:?}"
    );
    assert!(
        shards.iter().all(|(_, count)| (1000..1750).contains(count)),
        "{shards:?}"
    );
    service.client(1).set_all(KEYS, "a");
    for number in [1, 2, 3] {
        service.client(number).expect_all(KEYS, "a");
    }
    let keys: Vec<String> = (0..KEYS).map(|number| format!("key{number}")).collect();
    let found = service.client(2).ask(&format!("get {}\r\n", keys.join(" ")));
    assert_eq!(
        found.matches("VALUE ").count(),
        KEYS,
        "a multiget over all members"
    );
    assert_eq!(service.client(3).ask("flush_all\r\n"), "OK\r\n");
    for number in [1, 2, 3] {
        assert_eq!(
            service.client(number).ask("get key7\r\n"),
            "END\r\n",
            "flushed at all members"
        );
    }
    for member in members {
        assert_eq!(member.stop(), 0);
    }
}

#[test]
fn planned_changes_lose_no_key() {
    let Some(service) = Service::new("planned") else {
        return;
    };
    let first = service.start(1, &[]);
    service.settled(1);
    service.client(1).set_all(KEYS, "a");
    let second = service.start(2, &[]);
    let shards = service.settled(2);
    assert!(
        shards.iter().all(|(_, count)| (1500..2600).contains(count)),
        "{shards:?}"
    );
    service.client(2).expect_all(KEYS, "a");
    service.client(2).set_all(KEYS, "b");
    let (status, text, error) = service.cluster(&["drain", "m1"]);
    assert_eq!(status, 0, "{error}");
    assert!(text.contains("m1 has no shards any more"), "{text}");
    service.client(1).expect_all(KEYS, "b");
    let (status, _, error) = service.cluster(&["drain", "m2"]);
    assert_eq!(status, 64);
    assert!(error.contains("the last member that takes shards"), "{error}");
    assert_eq!(first.stop(), 0);
    service.client(2).expect_all(KEYS, "b");
    assert_eq!(service.settled(1), [("m2".to_owned(), 4096)]);
    assert_eq!(second.stop(), 0);
}
