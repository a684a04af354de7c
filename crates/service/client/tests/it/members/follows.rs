//! Clients ask the member that has the key, and follow it.

use super::bed::{SHARDS, TestService, keys, shard_of, unused_address};
use drover_client::{
    AsyncClient, CallError, Client, ClientThread, Effect, Op, Options, Outcome, PutOptions, Refusal,
};

#[test]
fn each_key_is_asked_for_where_it_is() {
    let mut service = TestService::new(&["a", "b", "c"]);
    service.give(3..6, 1);
    service.give(6..8, 2);
    let mut client = service.client();
    for key in keys() {
        client.set(&key, &key).expect("stored");
    }
    let mut other = service.client();
    for key in keys() {
        assert_eq!(other.get(&key), Ok(Some(key.clone())));
        // Members that are asked alone say what is not theirs.
        let mut of_a = Client::connect(&service.members[0].addr).expect("a session");
        match of_a.get(&key) {
            Ok(value) => assert_eq!((value, shard_of(&key) < 3), (Some(key.clone()), true)),
            Err(CallError::Refused(Refusal::NotServed(_))) => assert!(shard_of(&key) >= 3),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn every_operation_works_across_members() {
    let mut service = TestService::new(&["a", "b"]);
    service.give(4..8, 1);
    let mut client = service.client();
    let long = vec![7; 40_000];
    for key in keys().iter().take(20) {
        client.put(key, &long, 60).expect("stored");
        assert_eq!(client.get(key), Ok(Some(long.clone())));
        let options = PutOptions {
            flags: 5,
            ..PutOptions::default()
        };
        assert_eq!(client.put_with(key, b"short", &options), Ok(Effect::Done));
        let item = client.get_item(key).expect("answered").expect("there");
        assert_eq!((&item.value[..], item.flags), (&b"short"[..], 5));
        assert_eq!(client.touch(key, 100), Ok(true));
        assert_eq!(client.delete(key), Ok(true));
        assert_eq!(client.get(key), Ok(None));
    }
    let all = keys();
    let wanted: Vec<&[u8]> = all.iter().map(|key| &key[..]).collect();
    let mut missing = 0;
    client
        .get_many(&wanted, |_, value| missing += usize::from(value.is_none()))
        .expect("read");
    assert_eq!(missing, all.len());
}

#[test]
fn clients_follow_their_keys_to_other_members() {
    let mut service = TestService::new(&["a", "b", "c", "d"]);
    let mut client = service.client();
    client.set(b"k", b"at a").expect("stored");
    for to in 1..4 {
        service.give(0..SHARDS, to);
        // The client hears of the map after a member has refused it, or before.
        assert_eq!(client.get(b"k"), Ok(None), "it was given away without its items");
        client.set(b"k", b"here").expect("stored");
        assert_eq!(client.get(b"k"), Ok(Some(b"here".to_vec())));
    }
}

#[test]
fn a_client_with_an_old_map_finds_members_that_came_later() {
    let mut service = TestService::new(&["a"]);
    let mut client = service.client();
    client.set(b"k", b"v").expect("stored");
    for name in ["b", "c", "d"] {
        service.add(name, &[&unused_address()]);
        let newest = service.members.len() - 1;
        service.start(newest);
        service.give(0..SHARDS, newest);
        let gone = service.members.len() - 2;
        service.remove(gone);
        service.members[gone].stop();
    }
    assert_eq!(client.get(b"k"), Ok(None));
    client.set(b"k", b"v").expect("stored");
    assert_eq!(client.get(b"k"), Ok(Some(b"v".to_vec())));
}

#[test]
fn operations_wait_while_nobody_serves_their_shard() {
    let service = TestService::new(&["a"]);
    let mut client = service.pipeline();
    service.members[0].set_serving(false);
    client.submit(&Op::put(b"k", b"v"), 7).expect("taken");
    while service.members[0].refusals() < 3 {
        client.wait_for(drover_client::Ns::from_ms(1), &mut |done| panic!("{done:?}"));
    }
    service.members[0].set_serving(true);
    let mut outcome = None;
    client.wait(&mut |done| outcome = Some(done.outcome == Outcome::Stored));
    assert_eq!(outcome, Some(true));
}

/// Operations of one client on one key, many of them under way, while its shard is served and not served in turns.
#[test]
fn operations_on_one_key_keep_their_order() {
    let service = TestService::new(&["a"]);
    let mut client = service.pipeline();
    let (mut written, mut submitted, mut completed) = (0u64, 0u64, 0u64);
    let mut want = Vec::new();
    let mut is_serving = true;
    while completed < 4000 {
        if completed.is_multiple_of(97) {
            is_serving = !is_serving || completed == 0;
            service.members[0].set_serving(is_serving);
        }
        while submitted < 4000 && submitted < completed + 32 {
            let is_put = submitted.is_multiple_of(3);
            let value = (written + u64::from(is_put)).to_le_bytes();
            let op = match is_put {
                true => Op::put(b"k", &value),
                false => Op::Get { key: b"k" },
            };
            client.submit(&op, submitted).expect("taken");
            written += u64::from(is_put);
            want.push((!is_put).then_some(value));
            submitted += 1;
        }
        let before = completed;
        client.poll(&mut |done| {
            if let Some(value) = want[done.token as usize] {
                assert_eq!(done.outcome, Outcome::Value(&value), "operation {}", done.token);
            } else {
                assert_eq!(done.outcome, Outcome::Stored);
            }
            completed += 1;
        });
        if completed == before && !is_serving {
            is_serving = true;
            service.members[0].set_serving(true);
        }
        if completed == before {
            client.wait_for(drover_client::Ns::from_ms(1), &mut |done| {
                if let Some(value) = want[done.token as usize] {
                    assert_eq!(done.outcome, Outcome::Value(&value), "operation {}", done.token);
                }
                completed += 1;
            });
        }
    }
}

#[test]
fn futures_and_threads_of_clients_work_too() {
    let mut service = TestService::new(&["a", "b"]);
    service.give(4..8, 1);
    let client = AsyncClient::from(service.connected(&Options::default()).expect("members"));
    client
        .block_on(async {
            for key in keys() {
                client.put(&key, b"v", 0).await?;
            }
            client.get(b"key-7").await
        })
        .map(|value| assert_eq!(value, Some(b"v".to_vec())))
        .expect("all of it");
    let registry = service.registry.clone();
    let connect = move || {
        Ok(drover_client::connect_through(
            Box::new(registry),
            &Options::default(),
        )?)
    };
    let (thread, handle) = ClientThread::start(8, connect).expect("a session");
    assert_eq!(handle.wait(handle.get(b"key-8")), Ok(Some(b"v".to_vec())));
    drop(thread);
}
