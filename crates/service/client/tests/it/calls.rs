//! The waiting clients (blocking, async, own thread) against the real server over shared memory. The client's own
//! deadline bounds every wait.

use drover_base::{Cpu, Ns};
use drover_client::{AsyncClient, Client, ClientThread, Connected};
use drover_control::{ControlAddr, ControlListener};
use drover_kv::{
    CallError, Capacity, ConnectError, ConnectOptions, Op, Outcome, Refusal, Service, Sizes, SubmitError,
    SystemJob, connect, dials,
};
use drover_mem::NativeCpu;
use drover_systems::System;
use drover_verbs::Device;
use drover_verbs_shm::{Shm, ShmDevice};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

const PATIENCE: Ns = Ns::from_s(30);

const SHARD_COUNT: usize = 2;

/// A server of the first system of the table that a test can stop.
#[derive(Clone)]
struct TestServer {
    service: Arc<Mutex<Option<Box<dyn Service>>>>,
    addr: ControlAddr,
}

struct Start<'a>(&'a ControlAddr);

impl SystemJob for Start<'_> {
    type Answer = Box<dyn Service>;

    fn run<S: drover_kv::System>(self) -> Box<dyn Service> {
        let sizes = Sizes {
            shard_count: SHARD_COUNT,
            capacity: Capacity::Memory { bytes: 8 << 20 },
            value_bytes_max: 1 << 20,
            window: 256,
        };
        let plan = S::plan(&sizes).expect("enough memory");
        let listener = ControlListener::bind(self.0).expect("a free address");
        S::start::<Shm>(&ShmDevice::default(), &plan, vec![listener], Box::new(|_| {})).expect("a service")
    }
}

struct Connect<'a> {
    addr: &'a ControlAddr,
    options: &'a ConnectOptions,
    timeout: Ns,
}

impl SystemJob for Connect<'_> {
    type Answer = Result<Connected, ConnectError>;

    fn run<S: drover_kv::System>(self) -> Result<Connected, ConnectError> {
        let ctx = Rc::new(ShmDevice::default().context().expect("a context"));
        let dials = dials(&S::FACTS, self.addr, SHARD_COUNT, None);
        let client: S::Client<Shm> = connect(&ctx, dials, self.options, self.timeout)?;
        Ok(Connected::over(ctx, client))
    }
}

impl TestServer {
    fn new() -> TestServer {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        // Relaxed: only the number matters.
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("drover-calls-{}-{number}", std::process::id()));
        let addr = format!("unix:{}", path.display());
        let addr = addr.parse().expect("an address");
        let service = System::ALL[0].run(Start(&addr));
        TestServer {
            service: Arc::new(Mutex::new(Some(service))),
            addr,
        }
    }

    fn tear_down(&self) {
        let service = self.service.lock().expect("nobody panics here").take();
        drop(service);
    }

    fn connect(&self, options: &ConnectOptions, timeout: Ns) -> Result<Connected, ConnectError> {
        System::ALL[0].run(Connect {
            addr: &self.addr,
            options,
            timeout,
        })
    }

    fn blocking(&self, options: &ConnectOptions) -> Client {
        self.connect(options, PATIENCE).expect("a session").into()
    }

    fn asynchronous(&self) -> AsyncClient {
        self.asynchronous_with(&ConnectOptions::default())
    }

    fn asynchronous_with(&self, options: &ConnectOptions) -> AsyncClient {
        self.connect(options, PATIENCE).expect("a session").into()
    }
}

#[test]
fn one_call_one_result() {
    let server = TestServer::new();
    let mut client = server.blocking(&ConnectOptions::default());
    assert_eq!(client.get(b"k"), Ok(None));
    assert_eq!(client.put(b"k", b"value", 0), Ok(()));
    assert_eq!(client.get(b"k"), Ok(Some(b"value".to_vec())));
    assert_eq!(client.delete(b"k"), Ok(true));
    assert_eq!(client.delete(b"k"), Ok(false));
    assert_eq!(client.get(b""), Err(CallError::Submit(SubmitError::BadKey)));
    let long = vec![5; 300_000];
    assert_eq!(client.put(b"long", &long, 60), Ok(()));
    assert_eq!(client.get(b"long"), Ok(Some(long)));
}

#[test]
fn many_keys_at_once() {
    let server = TestServer::new();
    let mut client = server.blocking(&ConnectOptions::default());
    let keys: Vec<[u8; 4]> = (0..500u32).map(u32::to_le_bytes).collect();
    let puts: Vec<Op<'_>> = keys.iter().map(|key| Op::put(key, key)).collect();
    let mut stored = 0;
    client
        .execute(&puts[..400], |_, outcome| {
            stored += usize::from(outcome == Outcome::Stored)
        })
        .expect("taken");
    assert_eq!(stored, 400);
    let wanted: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let mut got = vec![None; 500];
    client
        .get_many(&wanted, |i, value| got[i] = Some(value.map(<[u8]>::to_vec)))
        .expect("read");
    for (i, value) in got.iter().enumerate() {
        let want = (i < 400).then(|| keys[i].to_vec());
        assert_eq!(value.as_ref(), Some(&want), "key {i}");
    }
}

#[test]
fn a_batch_on_one_key_is_executed_in_order() {
    let server = TestServer::new();
    let mut client = server.blocking(&ConnectOptions::default());
    let values: Vec<[u8; 1]> = (0..50).map(|i| [i]).collect();
    let mut ops = Vec::new();
    for value in &values {
        ops.push(Op::put(b"k", value));
        ops.push(Op::Get { key: b"k" });
    }
    let mut read = vec![None; ops.len()];
    let take = |i: usize, outcome: Outcome<'_>| {
        if let Outcome::Value(value) = outcome {
            read[i] = Some(value[0]);
        }
    };
    client.execute(&ops, take).expect("taken");
    assert!(
        read.iter()
            .skip(1)
            .step_by(2)
            .enumerate()
            .all(|(i, value)| *value == Some(i as u8)),
        "{read:?}"
    );
}

#[test]
fn a_call_ends_although_the_server_is_gone() {
    let server = TestServer::new();
    let mut client = server.blocking(&ConnectOptions {
        deadline: Ns::from_ms(300),
        ..ConnectOptions::default()
    });
    assert_eq!(client.put(b"k", b"v", 0), Ok(()));
    server.tear_down();
    assert_eq!(client.get(b"k"), Err(CallError::Refused(Refusal::Unavailable)));
    let unsent = client.put(b"k", b"v", 0);
    assert!(unsent.is_err(), "{unsent:?}");
}

#[test]
fn nobody_there_is_said_so() {
    let server = TestServer::new();
    server.tear_down();
    let client = server.connect(&ConnectOptions::default(), Ns::from_ms(20));
    let error = client.err().expect("nobody to connect to");
    assert!(matches!(error, ConnectError::Setup(_)), "{error:?}");
    assert!(error.to_string().contains("drover-calls"), "{error}");
}

#[test]
fn futures_of_one_thread() {
    let server = TestServer::new();
    let client = server.asynchronous();
    let work = async {
        client.put(b"a", b"1", 0).await?;
        let (one, two) = (client.get(b"a"), client.get(b"b"));
        assert_eq!(one.await?, Some(b"1".to_vec()));
        assert_eq!(two.await?, None);
        assert!(client.delete(b"a").await?);
        for i in 0..100u8 {
            client.put(&[i], &[i, i], 0).await?;
        }
        let keys: Vec<[u8; 1]> = (0..=255).map(|i| [i]).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        for (i, value) in client.get_many(&keys).await.into_iter().enumerate() {
            assert_eq!(value?, (i < 100).then(|| vec![i as u8; 2]));
        }
        Ok::<(), CallError>(())
    };
    client.block_on(work).expect("all of it");
    assert_eq!(
        client.block_on(client.get(b"")),
        Err(CallError::Submit(SubmitError::BadKey))
    );
}

/// Runs `future` as an executor does that knows only [`AsyncClient::drive`].
fn drive_until_ready<T>(client: &AsyncClient, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let clock = NativeCpu::new(0);
    let started = clock.refresh();
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return result;
        }
        client.drive();
        assert!(clock.refresh().since(started) < PATIENCE, "no result in time");
    }
}

#[test]
fn drive_alone_lets_a_deadline_pass() {
    let server = TestServer::new();
    let client = server.asynchronous_with(&ConnectOptions {
        deadline: Ns::from_ms(300),
        ..ConnectOptions::default()
    });
    assert_eq!(drive_until_ready(&client, client.put(b"k", b"v", 0)), Ok(()));
    server.tear_down();
    assert_eq!(
        drive_until_ready(&client, client.get(b"k")),
        Err(CallError::Refused(Refusal::Unavailable))
    );
}

#[test]
fn a_deadline_counts_from_the_call_after_a_pause() {
    let server = TestServer::new();
    let deadline = Ns::from_s(1);
    let client = server.asynchronous_with(&ConnectOptions {
        deadline,
        ..ConnectOptions::default()
    });
    assert_eq!(drive_until_ready(&client, client.put(b"k", b"v", 0)), Ok(()));
    let clock = NativeCpu::new(0);
    let started = clock.refresh();
    while clock.refresh().since(started) < deadline {
        std::thread::yield_now();
    }
    assert_eq!(
        drive_until_ready(&client, client.get(b"k")),
        Ok(Some(b"v".to_vec()))
    );
}

/// A dropped future leaves its operation to finish alone; its cell is used again.
#[test]
fn dropped_futures_do_no_harm() {
    let server = TestServer::new();
    let client = server.asynchronous();
    client.block_on(async {
        for i in 0..200u8 {
            let key = [i];
            drop(client.get(&key));
            let mut polled = Box::pin(client.put(&key, b"v", 0));
            std::future::poll_fn(|cx| {
                let _ = std::future::Future::poll(polled.as_mut(), cx);
                std::task::Poll::Ready(())
            })
            .await;
            drop(polled);
        }
        assert_eq!(client.put(b"last", b"v", 0).await, Ok(()));
        assert_eq!(client.get(&[199]).await, Ok(Some(b"v".to_vec())));
    });
}

#[test]
fn handles_for_any_thread() {
    let server = TestServer::new();
    let known = server.clone();
    let connect = move || Ok(known.connect(&ConnectOptions::default(), PATIENCE)?);
    let (thread, handle) = ClientThread::start(8, connect).expect("a session");
    let users: Vec<_> = (0..4u8)
        .map(|user| {
            let handle = handle.clone();
            std::thread::spawn(move || {
                handle.wait(async {
                    for i in 0..100u8 {
                        handle.put(&[user, i], &[i], 0).await?;
                        assert_eq!(handle.get(&[user, i]).await?, Some(vec![i]));
                    }
                    handle.delete(&[user, 0]).await
                })
            })
        })
        .collect();
    for user in users {
        assert_eq!(user.join().expect("no panic"), Ok(true));
    }
    drop(thread);
    assert_eq!(handle.wait(handle.get(b"k")), Err(CallError::Gone));
}

/// The client's thread sleeps while an operation waits for a dead server, instead of polling for seconds.
#[test]
fn a_client_thread_sleeps_while_it_waits() {
    let server = TestServer::new();
    let known = server.clone();
    let options = ConnectOptions {
        deadline: Ns::from_s(1),
        ..ConnectOptions::default()
    };
    let connect = move || Ok(known.connect(&options, PATIENCE)?);
    let (thread, handle) = ClientThread::start(8, connect).expect("a session");
    assert_eq!(handle.wait(handle.get(b"k")), Ok(None));
    server.tear_down();
    let before = thread.parks();
    assert!(handle.wait(handle.get(b"k")).is_err(), "nobody there");
    assert!(thread.parks() > before + 2, "one could be from before the call");
}
