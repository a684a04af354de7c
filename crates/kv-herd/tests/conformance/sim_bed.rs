//! [`SimBed`]: a HERD server on virtual cores of one machine, clients on a core of another, and a modelled network
//! between them. Workers and acceptor are the ones that serve production; nobody steps them but the simulation.

use crate::bed::{client_options, connected, server_options};
use crate::rooms::Simulated;
use drover_base::{Cpu, Ns};
use drover_kv_herd::client::{Dial, HerdClient};
use drover_kv_herd::server::Server;
use drover_room::Doorkeeper;
use drover_rt::control::Desk;
use drover_testkit::kv_conformance::{Bed, BedOptions};
use drover_verbs::{Context, Device};
use drover_verbs_sim::profile::Profile;
use drover_verbs_sim::{World, WorldOptions};
use std::rc::Rc;

/// Machines of the room.
const SERVER: usize = 0;
const CLIENTS: usize = 1;

pub struct SimBed<P: Simulated> {
    /// Declared before the world: clients' handles go first.
    ctx: Rc<P::Context>,
    world: World,
    options: BedOptions,
    desk: Desk,
}

impl<P: Simulated> SimBed<P> {
    fn start_server(&self) {
        let device = P::open(&self.world, SERVER, &self.options);
        let (acceptor, workers) =
            Server::<P>::in_pieces(&device, &server_options(&self.options)).expect("a server");
        for worker in workers {
            let ctx = worker.context();
            self.world.spawn_on(ctx.cpu(), Box::new(worker));
        }
        let ctx = acceptor.context();
        let doorkeeper = Doorkeeper::new(acceptor, &self.desk);
        self.world.spawn_on(ctx.cpu(), Box::new(doorkeeper));
    }
}

impl<P: Simulated> Bed for SimBed<P> {
    type P = P;
    type Client = HerdClient<P>;

    fn start(options: &BedOptions) -> SimBed<P> {
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
            desk: Desk::new(),
        };
        bed.start_server();
        bed
    }

    fn connect(&mut self) -> HerdClient<P> {
        let ctx = self.ctx.clone();
        let client = HerdClient::new(ctx.clone(), Dial::at(&self.desk), client_options(&self.options));
        connected(client, &*ctx, || self.step())
    }

    fn cpu(&self) -> &drover_sim::VirtualCpu {
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
        self.desk.clear();
        self.world.restart(SERVER);
        self.start_server();
        true
    }

    fn pass_seconds(&mut self, seconds: u64) {
        self.world.run_for(Ns::from_s(seconds));
        self.step();
    }
}
