//! Which shard owns a key changes: clients go where the newest map sends them, and a map that stays wrong is an error.

use drover_base::{Actor, Cpu, KeyHasher, Ns, Progress};
use drover_control::{ControlStream, Dial, Frame, LocalListener, Message};
use drover_kv::{
    Completion, ConnectOptions, KvClient, Op, Outcome, PartitionMap, Refusal, ServiceClient, Shard,
};
use drover_kv_rfp::control::{NewMap, Welcome};
use drover_kv_rfp::server::{Server, ServerStats};
use drover_kv_rfp::{JakiroVariant, Rfp, ServerReplyVariant, Variant};
use drover_testkit::beds::providers::{Loopback, Shm, Sim};
use drover_testkit::beds::{Cluster, Ground, connected, shard_options};
use drover_testkit::kv_conformance::BedOptions;
use drover_verbs::{Context, Device, Provider};
use std::cell::RefCell;
use std::rc::Rc;

const SHARDS: usize = 2;
const KEYS: u8 = 12;

type Client<P, V> = <Rfp<V> as drover_kv::System>::Client<P>;

fn map(epoch: u64, owners: &[u16]) -> PartitionMap {
    PartitionMap::new(epoch, owners.to_vec()).expect("a sound map")
}

/// Where shards run, and one core for clients.
trait Stage {
    type P: Provider;

    fn new() -> Self;
    fn device(&self) -> <Self::P as Provider>::Device;
    fn ctx(&self) -> Rc<<Self::P as Provider>::Context>;
    fn spawn(
        &mut self,
        ctx: Rc<<Self::P as Provider>::Context>,
        actor: Box<dyn Actor<<Self::P as Provider>::Cpu>>,
    );
    fn step(&mut self);
}

type CoreActor<P> = (Rc<<P as Provider>::Context>, Box<dyn Actor<<P as Provider>::Cpu>>);

/// In this thread.
struct Here<G: Ground> {
    actors: Vec<CoreActor<G::P>>,
    device: <G::P as Provider>::Device,
    ctx: Rc<<G::P as Provider>::Context>,
}

impl<G: Ground> Stage for Here<G> {
    type P = G::P;

    fn new() -> Here<G> {
        let device = G::open(&BedOptions::default());
        Here {
            actors: Vec::new(),
            ctx: Rc::new(device.context().expect("a context")),
            device,
        }
    }

    fn device(&self) -> <G::P as Provider>::Device {
        self.device.clone()
    }

    fn ctx(&self) -> Rc<<G::P as Provider>::Context> {
        self.ctx.clone()
    }

    fn spawn(
        &mut self,
        ctx: Rc<<G::P as Provider>::Context>,
        actor: Box<dyn Actor<<G::P as Provider>::Cpu>>,
    ) {
        self.actors.push((ctx, actor));
    }

    fn step(&mut self) {
        self.ctx.cpu().refresh();
        for (ctx, actor) in &mut self.actors {
            ctx.cpu().refresh();
            actor.step(ctx.cpu());
        }
    }
}

/// On simulated machines.
impl Stage for Cluster<Sim> {
    type P = Sim;

    fn new() -> Cluster<Sim> {
        Cluster::new(&BedOptions::default())
    }

    fn device(&self) -> <Sim as Provider>::Device {
        self.server_device()
    }

    fn ctx(&self) -> Rc<<Sim as Provider>::Context> {
        self.ctx.clone()
    }

    fn spawn(&mut self, ctx: Rc<<Sim as Provider>::Context>, actor: Box<dyn Actor<<Sim as Provider>::Cpu>>) {
        self.world.spawn_on(ctx.cpu(), actor);
    }

    fn step(&mut self) {
        Cluster::step(self);
    }
}

/// What a test and a shard tell each other.
#[derive(Default)]
struct Mail {
    map: Option<PartitionMap>,
    stats: ServerStats,
}

/// A shard whose map the test changes.
struct Owner<P: Provider, V: Variant> {
    server: Server<P, V>,
    listener: LocalListener,
    mail: Rc<RefCell<Mail>>,
}

impl<P: Provider, V: Variant> Actor<P::Cpu> for Owner<P, V> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        let mut mail = self.mail.borrow_mut();
        if let Some(map) = mail.map.take() {
            let changed = self.server.change(|shard| shard.set_map(map));
            changed.expect("a newer map");
        }
        while let Some(stream) = self.listener.accept() {
            self.server.adopt(stream);
        }
        self.server.step(cpu);
        mail.stats = self.server.stats();
        // It looks for mail.
        Progress::Idle {
            wake_at: cpu.now() + Ns::from_us(1),
        }
    }
}

struct Service<T: Stage, V: Variant> {
    stage: T,
    mail: Vec<Rc<RefCell<Mail>>>,
    listeners: Vec<LocalListener>,
    variant: std::marker::PhantomData<V>,
}

impl<T: Stage, V: Variant> Service<T, V> {
    fn new() -> Service<T, V> {
        let mut stage = T::new();
        let options = BedOptions {
            partition_count: SHARDS,
            ..BedOptions::default()
        };
        let (mut mail, mut listeners) = (Vec::new(), Vec::new());
        for shard in 0..SHARDS {
            let options = shard_options::<Rfp<V>, T::P>(&options, shard);
            let server: Server<T::P, V> =
                Shard::with_options(&stage.device(), &options, &Default::default()).expect("a shard");
            let (own, listener) = (Rc::new(RefCell::default()), LocalListener::new());
            let owner = Owner {
                listener: listener.clone(),
                mail: Rc::clone(&own),
                server,
            };
            mail.push(own);
            listeners.push(listener);
            stage.spawn(owner.server.context(), Box::new(owner));
        }
        Service {
            stage,
            mail,
            listeners,
            variant: std::marker::PhantomData,
        }
    }

    fn client(&mut self) -> Client<T::P, V> {
        let dials = self.listeners.iter().map(Dial::at).collect();
        let client = ServiceClient::<T::P>::open(self.stage.ctx(), dials, &ConnectOptions::default());
        let ctx = self.stage.ctx();
        connected::<T::P, _>(client, &*ctx, || self.stage.step())
    }

    /// Shard `shard` learns of `map`.
    fn tell(&mut self, shard: usize, map: PartitionMap) {
        self.mail[shard].borrow_mut().map = Some(map);
    }

    fn stats(&self, count: impl Fn(&ServerStats) -> u64) -> u64 {
        self.mail.iter().map(|mail| count(&mail.borrow().stats)).sum()
    }

    /// Runs until everything that was submitted has ended; `done` gets the outcomes.
    fn finish(&mut self, client: &mut Client<T::P, V>, mut done: impl FnMut(u64, Outcome<'_>)) {
        let ctx = self.stage.ctx();
        for _ in 0..10_000_000 {
            client.poll(ctx.cpu(), &mut |completion: Completion<'_>| {
                done(completion.token, completion.outcome);
            });
            if client.in_flight() == 0 {
                return;
            }
            self.stage.step();
        }
        panic!("{} operations hang", client.in_flight());
    }

    fn submit(&self, client: &mut Client<T::P, V>, op: &Op<'_>, token: u64) {
        client
            .submit(self.stage.ctx().cpu(), op, token)
            .expect("space in the window");
    }

    /// Stores `value` under every key, and reads it. Long values are copied by the server in steps of their own.
    fn put_and_get(&mut self, client: &mut Client<T::P, V>, value: &[u8]) {
        for key in 0..KEYS {
            let key = &[key];
            self.submit(client, &Op::put(key, value), 0);
        }
        self.finish(client, |_, outcome| assert_eq!(outcome, Outcome::Stored));
        for key in 0..KEYS {
            self.submit(client, &Op::Get { key: &[key] }, 0);
        }
        self.finish(client, |_, outcome| assert_eq!(outcome, Outcome::Value(value)));
    }
}

/// All shards learn at once that each owns what was the other's, again and again, while operations are under way.
fn owners_change<T: Stage, V: Variant>() {
    let mut service = Service::<T, V>::new();
    let mut client = service.client();
    let mut puts = 0;
    for round in 0..40u64 {
        for key in 0..KEYS {
            let (key, value) = (&[key], &round.to_le_bytes());
            service.submit(&mut client, &Op::put(key, value), 0);
        }
        client.poll(service.stage.ctx().cpu(), &mut |_| panic!("too early"));
        let owners = if round % 2 == 0 { [1, 0] } else { [0, 1] };
        for shard in 0..SHARDS {
            service.tell(shard, map(2 + round, &owners));
        }
        service.finish(&mut client, |_, outcome| assert_eq!(outcome, Outcome::Stored));
        let value = vec![round as u8; if round % 4 == 0 { 5000 } else { 8 }];
        service.put_and_get(&mut client, &value);
        puts += 2 * u64::from(KEYS);
    }
    let elsewhere = client.calls().expect("it counts calls").elsewhere;
    assert!(elsewhere > 0);
    assert_eq!(service.stats(|stats| stats.elsewhere), elsewhere);
    assert_eq!(service.stats(|stats| stats.puts), puts, "each was executed once");
}

/// Items stay behind, so that values differ; this test looks at what was stored after each change only.
#[test]
fn rfp_operations_follow_the_map() {
    owners_change::<Here<Loopback>, JakiroVariant>();
    owners_change::<Here<Loopback>, ServerReplyVariant>();
    owners_change::<Here<Shm>, JakiroVariant>();
    owners_change::<Cluster<Sim>, JakiroVariant>();
}

/// One shard has a newer map than the other.
fn one_shard_is_behind<T: Stage>() {
    let mut service = Service::<T, JakiroVariant>::new();
    let mut client = service.client();
    service.put_and_get(&mut client, b"first");
    // Shard 0 gives all away, and shard 1 knows nothing of it.
    service.tell(0, map(2, &[1, 1]));
    service.stage.step();
    let before = service.stats(|stats| stats.elsewhere);
    for key in 0..KEYS {
        service.submit(&mut client, &Op::Get { key: &[key] }, key.into());
    }
    let mut refused = Vec::new();
    service.finish(&mut client, |key, outcome| match outcome {
        Outcome::Value(value) => assert_eq!(value, b"first"),
        outcome => {
            assert_eq!(outcome, Outcome::Refused(Refusal::Elsewhere));
            refused.push(key);
        }
    });
    let moved = refused.len() as u64;
    assert!(moved > 0 && moved < KEYS.into(), "{refused:?}");
    // Each was sent to shard 0 or not, and then to shard 1 until nobody believed it any more.
    let elsewhere = service.stats(|stats| stats.elsewhere) - before;
    assert!(
        (8 * moved..=9 * moved).contains(&elsewhere),
        "{elsewhere} times, {moved} keys"
    );
    assert_eq!(client.calls().expect("counts").elsewhere, elsewhere + before);
    // Shard 1 learns of it while the client tries.
    for key in 0..KEYS {
        let (key, value) = (&[key], b"second");
        service.submit(&mut client, &Op::put(key, value), 0);
    }
    let ctx = service.stage.ctx();
    let mut done = 0;
    let begun = ctx.cpu().refresh();
    while ctx.cpu().refresh().since(begun) < Ns::from_ms(5) {
        client.poll(ctx.cpu(), &mut |_| done += 1);
        service.stage.step();
    }
    assert_eq!(
        (done, client.in_flight()),
        (KEYS as usize - refused.len(), refused.len())
    );
    service.tell(1, map(2, &[1, 1]));
    service.finish(&mut client, |_, outcome| assert_eq!(outcome, Outcome::Stored));
    service.put_and_get(&mut client, b"third");
}

#[test]
fn rfp_a_map_that_stays_wrong_is_an_error_and_one_that_becomes_right_is_used() {
    one_shard_is_behind::<Here<Loopback>>();
    one_shard_is_behind::<Cluster<Sim>>();
}

/// The map has more partitions than there are shards, as when a few percent of the keys move.
#[test]
fn rfp_a_share_of_a_shards_keys_moves() {
    let mut service = Service::<Cluster<Sim>, JakiroVariant>::new();
    let mut client = service.client();
    let finer = map(7, &[0, 0, 0, 0, 1, 1, 0, 1]);
    (0..SHARDS).for_each(|shard| service.tell(shard, finer.clone()));
    service.stage.step();
    service.put_and_get(&mut client, b"value");
    let hasher: KeyHasher = drover_base::HashSeed::new(BedOptions::default().seed, 7).hasher();
    let owned = (0..KEYS).filter(|key| finer.owner(hasher.hash(&[*key])) == 1);
    let gets = service.mail[1].borrow().stats.gets;
    assert_eq!(gets, owned.count() as u64);
}

/// Between a client and a shard: passes frames on, and changes some.
struct Middle {
    client: ControlStream,
    server: ControlStream,
}

impl Middle {
    fn pass(&mut self, now: Ns, change: &mut dyn FnMut(Frame) -> Frame) {
        while let Ok(Some(frame)) = self.client.recv(now) {
            let _ = self.server.send(frame.kind, &frame.body, &frame.fds);
        }
        while let Ok(Some(frame)) = self.server.recv(now) {
            let frame = change(frame);
            let _ = self.client.send(frame.kind, &frame.body, &frame.fds);
        }
    }
}

/// Polls a client whose frames from the server go through `change` until there is an error.
fn error_after(change: &mut dyn FnMut(Frame) -> Frame, extra: Option<PartitionMap>) -> String {
    let mut service = Service::<Here<Loopback>, JakiroVariant>::new();
    let doors: Vec<LocalListener> = (0..SHARDS).map(|_| LocalListener::new()).collect();
    let ctx = service.stage.ctx();
    let dials = doors.iter().map(Dial::at).collect();
    let mut client: Client<Loopback, JakiroVariant> =
        ServiceClient::<Loopback>::open(ctx.clone(), dials, &ConnectOptions::default());
    let mut middles: Vec<Middle> = Vec::new();
    let mut extra = extra;
    for _ in 0..100_000 {
        for (door, listener) in doors.iter().zip(&service.listeners) {
            while let Some(client) = door.accept() {
                let server = listener.connect();
                middles.push(Middle { client, server });
            }
        }
        service.stage.step();
        let now = ctx.cpu().now();
        middles.iter_mut().for_each(|middle| middle.pass(now, change));
        client.poll(ctx.cpu(), &mut |_| {});
        if let Some(error) = client.take_error() {
            return error.to_string();
        }
        if client.is_ready()
            && let Some(map) = extra.take()
        {
            middles[0].client.send_message(&NewMap { map }).expect("space");
        }
    }
    panic!("no error");
}

/// The first frame that is a Welcome, with another map's bytes.
fn with_map(map: Vec<u8>) -> impl FnMut(Frame) -> Frame {
    move |mut frame| {
        if frame.kind == Welcome::KIND {
            // The map is the last field: epoch, number, one owner per shard.
            let bytes = 8 + 2 + 2 * SHARDS;
            frame.body.truncate(frame.body.len() - bytes);
            frame.body.extend_from_slice(&map);
        }
        frame
    }
}

fn bytes(epoch: u64, owners: &[u16]) -> Vec<u8> {
    let count = owners.len() as u16;
    let owners = owners.iter().flat_map(|owner| owner.to_le_bytes());
    let head = [&epoch.to_le_bytes()[..], &count.to_le_bytes()].concat();
    head.into_iter().chain(owners).collect()
}

#[test]
fn rfp_hostile_maps_end_the_session_with_a_word() {
    for (map, text) in [
        (bytes(1, &[]), "number of partitions cannot be 0"),
        (bytes(0, &[0, 1]), "epoch of the partition map cannot be 0"),
        (bytes(1, &[0, 2]), "partition 1 belongs to shard 2 of 2"),
    ] {
        let error = error_after(&mut with_map(map), None);
        assert!(error.ends_with(text), "{error}");
    }
    let mut unchanged = |frame| frame;
    let error = error_after(&mut unchanged, Some(map(1, &[1, 0])));
    assert!(error.ends_with("its epoch is 1, after epoch 1"), "{error}");
    let error = error_after(&mut unchanged, Some(map(9, &[1, 7])));
    assert!(error.ends_with("partition 1 belongs to shard 7 of 2"), "{error}");
}
