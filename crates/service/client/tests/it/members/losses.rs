//! Members that are lost or cannot be reached, maps with holes, services without members: no operation hangs, and none is
//! reported to have a result that nobody knows.

use super::bed::{SHARDS, TestService, keys, shard_of, unused_address};
use drover_client::{CallError, Ns, Op, Options, Outcome, Refusal};

const SOON: Ns = Ns::from_ms(300);
const UNAVAILABLE: CallError = CallError::Refused(Refusal::Unavailable);

/// A key of this shard.
fn key_of(shard: usize) -> Vec<u8> {
    keys()
        .into_iter()
        .find(|key| shard_of(key) == shard)
        .expect("keys of all shards")
}

#[test]
fn a_lost_members_keys_are_served_by_the_next_owner() {
    let mut service = TestService::new(&["a", "b"]);
    service.give(4..8, 1);
    let mut client = service.client();
    for key in keys() {
        client.set(&key, b"v").expect("stored");
    }
    service.members[1].stop();
    assert_eq!(
        client.get(&key_of(0)),
        Ok(Some(b"v".to_vec())),
        "it is at the other member"
    );
    service.remove(1);
    service.give(4..8, 0);
    for key in keys() {
        let want = (shard_of(&key) < 4).then(|| b"v".to_vec());
        assert_eq!(client.get(&key), Ok(want));
        client.set(&key, b"new").expect("stored");
    }
}

#[test]
fn an_update_that_was_sent_to_a_member_that_is_lost_is_indeterminate_or_done_elsewhere() {
    let mut service = TestService::new(&["a", "b"]);
    let mut client = service.pipeline();
    let key = key_of(0);
    // The session is there, and requests are posted.
    client.submit(&Op::put(&key, b"1"), 0).expect("taken");
    client.wait(&mut |done| assert_eq!(done.outcome, Outcome::Stored));
    client.submit(&Op::put(&key, b"2"), 1).expect("taken");
    client.submit(&Op::Get { key: &key }, 2).expect("taken");
    service.members[0].stop();
    service.remove(0);
    service.give(0..SHARDS, 1);
    let mut put = None;
    while client.in_flight() > 0 {
        client.wait(&mut |done| match (done.token, done.outcome) {
            (1, Outcome::Stored | Outcome::Indeterminate) => put = Some(done.outcome == Outcome::Stored),
            (2, Outcome::NotFound) => {}
            (2, Outcome::Value(value)) => assert_eq!(value, b"2"),
            (_, outcome) => panic!("{outcome:?}"),
        });
    }
    assert!(put.is_some());
}

#[test]
fn a_member_that_nobody_reaches_keeps_only_its_own_keys_back() {
    let mut service = TestService::new(&["a"]);
    service.add("b", &[&unused_address()]);
    service.give(4..8, 1);
    let mut client = service.client_with(SOON);
    client.set(&key_of(0), b"v").expect("stored");
    assert_eq!(client.set(&key_of(4), b"v"), Err(UNAVAILABLE));
    assert_eq!(client.get(&key_of(4)), Err(UNAVAILABLE));
    assert_eq!(client.get(&key_of(0)), Ok(Some(b"v".to_vec())));
    service.give(4..8, 0);
    client.set(&key_of(4), b"v").expect("stored");
}

#[test]
fn the_next_address_is_tried_where_one_does_not_answer() {
    let mut service = TestService::new(&["a"]);
    service.add("b", &[&unused_address(), &unused_address()]);
    service.start(1);
    service.give(4..8, 1);
    let mut client = service.client_with(Ns::from_s(60));
    client.set(&key_of(4), b"v").expect("stored");
    assert_eq!(client.get(&key_of(4)), Ok(Some(b"v".to_vec())));
}

#[test]
fn shards_without_an_owner_are_waited_for() {
    let mut service = TestService::new(&["a", "b"]);
    service.give(4..8, 1);
    service.remove(1);
    let mut patient = service.pipeline();
    let key = key_of(4);
    patient.submit(&Op::put(&key, b"v"), 0).expect("taken");
    let mut hasty = service.client_with(SOON);
    assert_eq!(hasty.get(&key), Err(UNAVAILABLE));
    hasty.set(&key_of(0), b"v").expect("stored");
    service.give(4..8, 0);
    patient.wait(&mut |done| assert_eq!(done.outcome, Outcome::Stored));
    assert_eq!(hasty.get(&key), Ok(Some(b"v".to_vec())));
}

#[test]
fn the_last_member_may_go_and_another_come() {
    let mut service = TestService::new(&["a"]);
    let mut client = service.client_with(SOON);
    client.set(b"k", b"v").expect("stored");
    service.remove(0);
    service.members[0].stop();
    assert_eq!(client.get(b"k"), Err(UNAVAILABLE));
    let error = service
        .connected(&Options::default())
        .err()
        .expect("nobody is there");
    assert_eq!(error.to_string(), "the service has no members now");
    service.add("b", &[&unused_address()]);
    service.start(1);
    service.give(0..SHARDS, 1);
    assert_eq!(client.get(b"k"), Ok(None));
}

#[test]
fn services_that_cannot_be_used_say_why() {
    let options = Options {
        connect_timeout: SOON,
        ..Options::default()
    };
    let empty = TestService::new(&[]);
    let error = empty.connected(&options).err().expect("no members");
    assert_eq!(
        error.to_string(),
        "the service has no members yet: start one with drover serve --cluster"
    );
    let mut far = TestService::new(&[]);
    far.add("a", &["member://192.0.2.1:7?cores=1", "memcached://192.0.2.1:8"]);
    let error = far.connected(&options).err().expect("no address");
    assert_eq!(
        error.to_string(),
        "no address of member a is one for native clients on this machine: member://192.0.2.1:7?cores=1, \
         memcached://192.0.2.1:8"
    );
    for (addr, why) in [
        (
            "etcd://127.0.0.1:9/cache",
            "etcd://127.0.0.1:9/cache: etcd does not answer: ",
        ),
        ("etcd://127.0.0.1", "expected etcd://"),
    ] {
        let error = drover_client::Client::connect_with(addr, &options)
            .err()
            .expect("no etcd");
        assert!(error.to_string().starts_with(why), "{error}");
    }
}
