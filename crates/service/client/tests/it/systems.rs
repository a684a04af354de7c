//! Every system of the table, reached by address: blocking, async, and with its own thread.

use drover_base::Ns;
use drover_client::{
    AsyncClient, CallError, Client, ClientThread, Condition, Effect, Error, Item, Op, Options, Pipeline,
    PutOptions, ResultTransfer, SubmitError,
};
use drover_control::ControlListener;
use drover_kv::{Capacity, Service, Sizes, SystemJob};
use drover_systems::System;
use drover_verbs_shm::{Shm, ShmDevice};

/// A small server of one system at its own Unix socket.
struct Start(String);

impl SystemJob for Start {
    type Answer = Box<dyn Service>;

    fn run<S: drover_kv::System>(self) -> Box<dyn Service> {
        let sizes = Sizes {
            shard_count: 2,
            capacity: Capacity::Memory { bytes: 4 << 20 },
            value_bytes_max: 64 << 10,
            window: 16,
        };
        let plan = S::plan(&sizes).expect("enough memory");
        let listener = ControlListener::bind(&self.0.parse().expect("an address")).expect("a free address");
        S::start::<Shm>(&ShmDevice::default(), &plan, vec![listener], Box::new(|_| {})).expect("a service")
    }
}

fn with_each(test: fn(&str)) {
    for system in System::ALL {
        let path =
            std::env::temp_dir().join(format!("drover-client-{system}-{}-{test:p}", std::process::id()));
        let addr = format!("unix:{}", path.display());
        let service = system.run(Start(addr.clone()));
        test(&addr);
        service.stop();
    }
}

#[test]
fn a_client_finds_the_system_by_the_address() {
    with_each(|addr| {
        let mut client = Client::connect(addr).expect("a session");
        assert_eq!(client.get(b"k"), Ok(None));
        client.set(b"k", b"value").expect("stored");
        assert_eq!(client.get(b"k"), Ok(Some(b"value".to_vec())));
        let long = vec![7; 40_000];
        client.put(b"long", &long, 60).expect("stored");
        assert_eq!(client.get(b"long"), Ok(Some(long)));
        assert_eq!((client.delete(b"k"), client.delete(b"k")), (Ok(true), Ok(false)));
        assert_eq!(client.get(b""), Err(CallError::Submit(SubmitError::BadKey)));
        let keys: Vec<[u8; 2]> = (0..300u16).map(u16::to_le_bytes).collect();
        for key in &keys[..200] {
            client.set(key, key).expect("stored");
        }
        let wanted: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let mut found = 0;
        client
            .get_many(&wanted, |i, value| {
                assert_eq!(value, (i < 200).then_some(&keys[i][..]));
                found += usize::from(value.is_some());
            })
            .expect("read");
        assert_eq!(found, 200);
        if let Some(calls) = client.calls() {
            assert!(calls.calls > 500 && calls.operations >= calls.calls, "{calls:?}");
        }
    });
}

#[test]
fn operations_end_for_callers_that_only_poll() {
    for system in System::ALL {
        let name = format!("drover-client-polls-{system}-{}", std::process::id());
        let addr = format!("unix:{}", std::env::temp_dir().join(name).display());
        let service = system.run(Start(addr.clone()));
        let options = Options {
            call_timeout: Ns::from_ms(100),
            ..Options::default()
        };
        let mut client = Pipeline::connect(&addr, &options).expect("a session");
        service.stop();
        for token in 0..4 {
            client.submit(&Op::Get { key: b"k" }, token).expect("space");
        }
        while client.in_flight() > 0 {
            client.poll(&mut |done| assert!(done.outcome.found().is_err(), "{system}: {:?}", done.outcome));
        }
    }
}

#[test]
fn futures_and_handles_work_with_every_system() {
    with_each(|addr| {
        let options = Options {
            transfer: ResultTransfer::Reply,
            ..Options::default()
        };
        let client = AsyncClient::connect(addr, &options).expect("a session");
        client
            .block_on(async {
                client.put(b"a", b"1", 0).await?;
                let (one, two) = (client.get(b"a"), client.get(b"b"));
                assert_eq!(one.await?, Some(b"1".to_vec()));
                assert_eq!(two.await?, None);
                Ok::<(), CallError>(())
            })
            .expect("all of it");
        if let Some(calls) = client.calls() {
            assert_eq!((calls.calls, calls.pushed), (3, 3), "{calls:?}");
        }
        let (thread, handle) = ClientThread::connect(addr, &options, 8).expect("a session");
        let users: Vec<_> = (0..3u8)
            .map(|user| {
                let handle = handle.clone();
                std::thread::spawn(move || {
                    handle.wait(async {
                        handle.put(&[user], &[user], 0).await?;
                        handle.get(&[user]).await
                    })
                })
            })
            .collect();
        for (user, thread) in users.into_iter().enumerate() {
            assert_eq!(thread.join().expect("no panic"), Ok(Some(vec![user as u8])));
        }
        drop(thread);
        assert_eq!(handle.wait(handle.get(b"a")), Err(CallError::Gone));
    });
}

/// Versions, flags, conditions and touch, blocking and by futures, as far as each system offers them.
#[test]
fn items_have_versions_flags_and_conditions() {
    for system in System::ALL {
        let offers = system.facts().offers.operations;
        let path = std::env::temp_dir().join(format!("drover-client-items-{system}-{}", std::process::id()));
        let addr = format!("unix:{}", path.display());
        let service = system.run(Start(addr.clone()));
        let mut client = Client::connect(&addr).expect("a session");
        let when = |condition| PutOptions {
            condition,
            flags: if offers.flags { 7 } else { 0 },
            ..PutOptions::default()
        };
        if offers.conditions {
            let effects = [
                (Condition::IfPresent, Effect::NotFound),
                (Condition::IfAbsent, Effect::Done),
                (Condition::IfAbsent, Effect::Exists),
            ];
            for (condition, effect) in effects {
                assert_eq!(
                    client.put_with(b"k", b"one", &when(condition)),
                    Ok(effect),
                    "{system}"
                );
            }
        }
        if offers.conditions && offers.versions {
            let item = client.get_item(b"k").expect("read").expect("an item");
            let Item {
                value,
                version,
                flags,
            } = item;
            assert_eq!(
                (&value[..], flags),
                (&b"one"[..], when(Condition::Always).flags),
                "{system}"
            );
            let asynch = AsyncClient::connect(&addr, &Options::default()).expect("a session");
            asynch
                .block_on(async {
                    let options = when(Condition::IfVersion(version));
                    assert_eq!(asynch.put_with(b"k", b"two", &options).await?, Effect::Done);
                    assert_eq!(asynch.put_with(b"k", b"three", &options).await?, Effect::Exists);
                    let item = asynch.get_item(b"k").await?.expect("an item");
                    assert_eq!(item.value, b"two");
                    let old = Condition::IfVersion(version);
                    assert_eq!(asynch.delete_if(b"k", old).await?, Effect::Exists);
                    Ok::<(), CallError>(())
                })
                .expect("all of it");
            assert_eq!(client.get_item(b"none"), Ok(None), "{system}");
        }
        if offers.touch {
            client.set(b"t", b"value").expect("stored");
            assert_eq!(
                (client.touch(b"t", 60), client.touch(b"none", 60)),
                (Ok(true), Ok(false))
            );
            let (_thread, handle) = ClientThread::connect(&addr, &Options::default(), 8).expect("a session");
            assert_eq!(handle.wait(handle.touch(b"t", 0)), Ok(true));
            assert_eq!(handle.wait(handle.get(b"t")), Ok(Some(b"value".to_vec())));
        }
        service.stop();
    }
}

#[test]
fn what_is_no_service_is_an_error_at_once() {
    let bad = Client::connect("nonsense").err().expect("no address");
    assert!(matches!(bad, Error::Address(_)), "{bad:?}");
    let path = std::env::temp_dir().join(format!("drover-client-nobody-{}", std::process::id()));
    let nobody = Client::connect(&format!("unix:{}", path.display()))
        .err()
        .expect("no listener");
    assert!(matches!(nobody, Error::Connect(_)), "{nobody:?}");
}

#[test]
fn a_window_of_zero_is_one_and_a_long_secret_is_refused_here() {
    with_each(|addr| {
        let options = Options {
            window: 0,
            ..Options::default()
        };
        let mut client = Client::connect_with(addr, &options).expect("a session");
        client.set(b"k", b"value").expect("stored");
        assert_eq!(client.get(b"k"), Ok(Some(b"value".to_vec())));
        let options = Options {
            secret: vec![7; 257],
            ..Options::default()
        };
        let error = Client::connect_with(addr, &options).err().expect("too long");
        assert_eq!(
            error.to_string(),
            "the secret has 257 bytes, more than the 256 that any server accepts"
        );
    });
}
