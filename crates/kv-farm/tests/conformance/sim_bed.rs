//! [`SimBed`]: the shards of a FaRM-KV service on virtual cores of one machine, clients on a core of another, and a modelled
//! network between them.

use crate::bed::server_options;
use crate::rooms::Simulated;
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_kv::KvClient;
use drover_kv_farm::client::{ClientOptions, Dial, FarmClient};
use drover_kv_farm::logic::Miss;
use drover_kv_farm::server::{Server, ServerOptions};
use drover_rt::control::Desk;
use drover_sim::VirtualCpu;
use drover_testkit::kv_conformance::{Bed, BedOptions};
use drover_verbs::{Context, Device, Provider};
use drover_verbs_sim::profile::Profile;
use drover_verbs_sim::{World, WorldOptions};
use std::rc::Rc;

/// Machines of the room.
const SERVER: usize = 0;
const CLIENTS: usize = 1;

/// A shard that lets in whoever knocks.
struct Open<P: Provider> {
    server: Server<P>,
    desk: Desk,
}

impl<P: Provider<Cpu = VirtualCpu>> Actor<VirtualCpu> for Open<P> {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        while let Some(stream) = self.desk.accept() {
            self.server.adopt(stream);
        }
        self.server.step(cpu)
    }
}

pub struct SimBed<P: Simulated> {
    /// Declared before the world: clients' handles go first.
    ctx: Rc<P::Context>,
    pub world: World,
    options: BedOptions,
    shards: Vec<ServerOptions>,
    desks: Vec<Desk>,
}

impl<P: Simulated> SimBed<P> {
    /// Shards that are set up as `shards` say.
    pub fn with_shards(options: &BedOptions, shards: Vec<ServerOptions>) -> SimBed<P> {
        // A value of a megabyte is copied in one step.
        let mut world_options = WorldOptions {
            step_cap: Ns::from_ms(1),
            ..WorldOptions::new(Profile::named("apt").expect("a profile"))
        };
        P::trouble(&mut world_options, options);
        let world = World::with_options(world_options, 2, options.seed);
        let device = P::open(&world, CLIENTS, options);
        let bed = SimBed {
            ctx: Rc::new(device.context().expect("a context")),
            world,
            options: options.clone(),
            desks: shards.iter().map(|_| Desk::new()).collect(),
            shards,
        };
        bed.start_servers();
        bed
    }

    fn start_servers(&self) {
        let device = P::open(&self.world, SERVER, &self.options);
        for (options, desk) in self.shards.iter().zip(&self.desks) {
            let server = Server::<P>::new(&device, options).expect("a server");
            let (ctx, desk) = (server.context(), desk.clone());
            self.world.spawn_on(ctx.cpu(), Box::new(Open { server, desk }));
        }
    }

    /// A client that does `miss` when it finds nothing.
    pub fn client(&mut self, miss: Miss) -> FarmClient<P> {
        let options = ClientOptions {
            window: self.options.window,
            miss,
            ..ClientOptions::default()
        };
        let dials = self.desks.iter().map(Dial::at).collect();
        let mut client = FarmClient::new(self.ctx.clone(), dials, options);
        for _ in 0..1_000_000 {
            self.ctx.cpu().refresh();
            client.poll(self.ctx.cpu(), &mut |_| {});
            if client.is_ready() {
                return client;
            }
            self.step();
        }
        panic!("no connection: {:?}", client.take_error());
    }
}

impl<P: Simulated> Bed for SimBed<P> {
    type P = P;
    type Client = FarmClient<P>;

    fn start(options: &BedOptions) -> SimBed<P> {
        let shards = (0..options.partition_count).map(|shard| server_options(options, shard));
        SimBed::with_shards(options, shards.collect())
    }

    fn connect(&mut self) -> FarmClient<P> {
        self.client(Miss::Confirmed)
    }

    fn cpu(&self) -> &VirtualCpu {
        self.ctx.cpu()
    }

    fn step(&mut self) {
        // The clients' core may be ahead of the room by what it charged.
        let until = self.ctx.cpu().refresh().max(self.world.now() + Ns::from_us(1));
        self.world.run_until(until);
        self.ctx.cpu().refresh();
    }

    fn crash_and_restart(&mut self) -> bool {
        self.world.crash(SERVER);
        self.desks.iter().for_each(Desk::clear);
        self.world.restart(SERVER);
        self.start_servers();
        true
    }

    fn pass_seconds(&mut self, seconds: u64) {
        self.world.run_for(Ns::from_s(seconds));
        self.step();
    }
}
