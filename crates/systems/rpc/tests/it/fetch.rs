//! Both ends of `fetch` over fabrics: results, verbs per call, and modes that follow the server's time.

use crate::bed::{EchoClient, EchoServer, Handler, WORK, connect, params};
use drover_base::{Actor, Cpu, Ns};
use drover_rpc::fetch::{CalleeOptions, CallerOptions, CallerStats, Mode, Transfer};
use drover_verbs::{Context, Device, Export, Provider};
use drover_verbs_shm::{Shm, ShmDevice};
use drover_verbs_sim::profile::Profile;
use drover_verbs_sim::{Sim, World, WorldOptions};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

const TRANSFERS: [Transfer; 3] = [Transfer::Auto, Transfer::Fetch, Transfer::Reply];

fn options(transfer: Transfer) -> CallerOptions {
    CallerOptions {
        transfer,
        ..CallerOptions::default()
    }
}

/// Results of all sizes up to 1,000 bytes, with a window of 8, in one thread.
fn echoes<P: Provider>(device: &P::Device) {
    for transfer in TRANSFERS {
        let context = || Rc::new(device.context().expect("a context"));
        let (there, here) = (context(), context());
        let (mut server, mut client) = connect::<P>((&there, &here), &params(8), options(transfer));
        client.count = 5_000;
        client.book.size_of = |number| number as usize * 7 % 1001;
        while client.book.seen.borrow().ended < client.count {
            here.cpu().refresh();
            client.step(here.cpu());
            there.cpu().refresh();
            server.step(there.cpu());
        }
        let seen = client.book.seen.borrow();
        assert!(seen.failed.is_empty(), "{transfer:?}: {:?}", seen.failed);
        let stats = client.client.stats();
        assert_eq!(stats.calls, client.count);
        match transfer {
            Transfer::Reply => assert_eq!((stats.pushed, stats.first_reads), (client.count, 0)),
            Transfer::Fetch => assert_eq!(stats.pushed, 0),
            Transfer::Auto => {}
        }
        assert!(stats.second_reads > 0 || transfer == Transfer::Reply);
    }
}

#[test]
fn calls_over_loopback() {
    echoes::<Loopback>(&LoopbackDevice::new());
}

#[test]
fn calls_over_shared_memory() {
    echoes::<Shm>(&ShmDevice::default());
}

/// A thread for each end: nothing is lost and nothing is torn, whatever happens at the same time. Handlers that are slow for
/// a while make modes change.
#[test]
fn calls_between_threads() {
    for transfer in TRANSFERS {
        let device = ShmDevice::default();
        let (to_client, from_server) = mpsc::channel::<[Export; 3]>();
        let (to_server, from_client) = mpsc::channel::<[Export; 2]>();
        let stop = Arc::new(AtomicBool::new(false));
        let (their_device, their_stop) = (device.clone(), stop.clone());
        let server = std::thread::spawn(move || {
            let ctx = Rc::new(their_device.context().expect("a context"));
            let callee = CalleeOptions {
                transfer,
                ..CalleeOptions::default()
            };
            let mut server = EchoServer::<Shm>::new(&ctx, &params(4), callee);
            to_client.send(server.exports()).expect("a client");
            server.attach(&from_client.recv().expect("a client"));
            let mut steps = 0u64;
            while !their_stop.load(Ordering::Relaxed) {
                ctx.cpu().refresh();
                server.step(ctx.cpu());
                steps += 1;
                // The server is away for a while, so that results are late.
                if steps % 4096 < 1024 {
                    std::thread::yield_now();
                }
            }
        });
        let ctx = Rc::new(device.context().expect("a context"));
        let theirs = from_server.recv().expect("a server");
        let mut client = EchoClient::<Shm>::new(&ctx, &params(4), options(transfer), &theirs);
        to_server.send(client.exports()).expect("a server");
        client.count = 20_000;
        client.book.size_of = |number| number as usize * 13 % 600;
        while client.book.seen.borrow().ended < client.count {
            ctx.cpu().refresh();
            client.step(ctx.cpu());
            // The two threads may have one core.
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        server.join().expect("the server");
        let seen = client.book.seen.borrow();
        assert!(seen.failed.is_empty(), "{transfer:?}: {:?}", seen.failed);
    }
}

/// Calls of one client on the machines of RFP, with a window of `places`.
struct Simulated {
    options: WorldOptions,
    places: usize,
    count: u64,
    size_of: fn(u64) -> usize,
    handler: Handler,
    transfer: Transfer,
    /// R and P are measured before the first call.
    measures: bool,
}

impl Simulated {
    fn new(count: u64, handler: Handler) -> Simulated {
        let mut options = WorldOptions::new(Profile::named("rfp").expect("built in"));
        options.costs.push((WORK.name.to_owned(), 1.0));
        Simulated {
            options,
            places: 1,
            count,
            size_of: |number| number as usize % 40,
            handler,
            transfer: Transfer::Auto,
            measures: false,
        }
    }

    /// What the client counted, the mode in the end, and the mean duration of a call.
    fn run(self) -> (CallerStats, Mode, Ns) {
        let world = World::with_options(self.options, 2, 7);
        let context = |machine| Rc::new(world.device(machine).context().expect("a context"));
        let (here, there) = (context(0), context(1));
        let caller = options(self.transfer);
        let (mut server, mut client) = connect::<Sim>((&there, &here), &params(self.places), caller);
        server.handler = self.handler;
        (client.count, client.book.size_of, client.measures) = (self.count, self.size_of, self.measures);
        let seen = client.book.seen.clone();
        let client = Rc::new(RefCell::new(client));
        world.spawn(&here, Box::new(Shared(client.clone())));
        world.spawn(&there, Box::new(server));
        let is_late = world.run_while(Ns::from_s(100), || seen.borrow().ended < self.count);
        assert!(!is_late, "calls hang");
        let seen = seen.borrow();
        assert!(seen.failed.is_empty(), "{:?}", seen.failed);
        let client = &client.borrow().client;
        (*client.stats(), client.mode(0, 1), Ns(seen.total.0 / self.count))
    }
}

/// A client that the test looks at when the simulation has ended.
struct Shared(Rc<RefCell<EchoClient<Sim>>>);

impl<C: Cpu> Actor<C> for Shared
where
    EchoClient<Sim>: Actor<C>,
{
    fn step(&mut self, cpu: &C) -> drover_base::Progress {
        self.0.borrow_mut().step(cpu)
    }
}

/// Two verbs per call, and a third where there is more than F.
#[test]
fn rfp_a_fast_call_takes_two_operations() {
    let fast = Handler {
        work: 300,
        ..Handler::default()
    };
    let calls = |count, size_of| Simulated {
        size_of,
        ..Simulated::new(count, fast)
    };
    let count = 1_000_000;
    let (stats, _, took) = calls(count, |number| number as usize % 257).run();
    let per_call = stats.operations() as f64 / count as f64;
    assert!(per_call <= 2.01, "{per_call} operations per call: {stats:?}");
    assert_eq!((stats.second_reads, stats.pushed), (0, 0));
    println!("{per_call} operations, {took} per call");
    let (stats, ..) = calls(1_000, |number| [256, 257][number as usize % 2]).run();
    assert_eq!(stats.second_reads, 500, "if and only if there is more");
}

/// A server that takes 20 us, six READs of a client that is alone: the client stops READing, and begins again when the
/// server is fast.
#[test]
fn rfp_modes_follow_the_servers_time() {
    let slow = Handler {
        work: 20_000,
        slow_calls: 200,
    };
    let (stats, mode, _) = Simulated::new(400, slow).run();
    assert_eq!((stats.switches, mode), ([1, 1], Mode::Fetch), "{stats:?}");
    assert!(stats.pushed >= 199, "{stats:?}");
    // Two slow calls were fetched, or the second one until it switched.
    assert!(stats.first_reads < 220, "{stats:?}");
    let forced = Simulated {
        transfer: Transfer::Fetch,
        ..Simulated::new(100, slow)
    };
    let (stats, ..) = forced.run();
    assert!(stats.first_reads > 400 && stats.pushed == 0, "{stats:?}");
}

/// With R and P as measured at connect, calls are fetched from a server that takes 3 us, and pushed from one that takes
/// 11 us; the mode changes at one point in between, and never back.
#[test]
fn rfp_between_three_and_eleven_microseconds_fetching_ends_once() {
    let ends_as = |us: u32| {
        let work = us * 1000;
        let calls = Simulated {
            measures: true,
            ..Simulated::new(
                300,
                Handler {
                    work,
                    ..Handler::default()
                },
            )
        };
        let (stats, mode, took) = calls.run();
        println!("{us} us: {mode:?}, {took} per call");
        assert!(
            stats.switches[0] <= 1 && stats.switches[1] == 0,
            "{us} us: {stats:?}"
        );
        mode
    };
    let modes: Vec<Mode> = (3..=11).map(ends_as).collect();
    let fetched = modes.iter().take_while(|mode| **mode == Mode::Fetch).count();
    assert!((1..modes.len()).contains(&fetched), "{modes:?}");
    assert!(
        modes[fetched..].iter().all(|mode| *mode == Mode::Reply),
        "{modes:?}"
    );
}

/// Packets are lost and lines become visible one by one: every result is right, in every mode.
#[test]
fn rfp_calls_over_a_fabric_that_loses_and_tears() {
    for transfer in TRANSFERS {
        let mut calls = Simulated {
            places: 8,
            size_of: |number| number as usize * 37 % 1001,
            transfer,
            ..Simulated::new(2_000, Handler::default())
        };
        (calls.options.loss, calls.options.torn) = (0.05, true);
        calls.options.rc.timeout = Ns::from_us(100);
        let (stats, ..) = calls.run();
        assert!(stats.sum_rejects > 0 || transfer != Transfer::Reply, "{stats:?}");
    }
}
