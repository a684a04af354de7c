//! [`SimBed`]: a HERD server on virtual cores of one machine, clients on a core of another, and a modelled network
//! between them. Workers and acceptor are the ones that serve production; nobody steps them but the simulation.

use crate::bed::{client_options, connected, server_options};
use crate::rooms::{Room, Simulated};
use drover_kv_herd::client::{Dial, HerdClient};
use drover_kv_herd::server::Server;
use drover_room::Doorkeeper;
use drover_rt::control::Desk;
use drover_testkit::kv_conformance::{Bed, BedOptions};
use drover_verbs::Context;

pub struct SimBed<P: Simulated> {
    room: Room<P>,
    desk: Desk,
}

impl<P: Simulated> SimBed<P> {
    fn start_server(&self) {
        let (world, options) = (&self.room.world, server_options(&self.room.options));
        let (acceptor, workers) =
            Server::<P>::in_pieces(&self.room.server_device(), &options).expect("a server");
        for worker in workers {
            let ctx = worker.context();
            world.spawn_on(ctx.cpu(), Box::new(worker));
        }
        let ctx = acceptor.context();
        let doorkeeper = Doorkeeper::new(acceptor, &self.desk);
        world.spawn_on(ctx.cpu(), Box::new(doorkeeper));
    }
}

impl<P: Simulated> Bed for SimBed<P> {
    type P = P;
    type Client = HerdClient<P>;

    fn start(options: &BedOptions) -> SimBed<P> {
        let bed = SimBed {
            room: Room::new(options),
            desk: Desk::new(),
        };
        bed.start_server();
        bed
    }

    fn connect(&mut self) -> HerdClient<P> {
        let ctx = self.room.ctx.clone();
        let options = client_options(&self.room.options);
        let client = HerdClient::new(ctx.clone(), Dial::at(&self.desk), options);
        connected(client, &*ctx, || self.step())
    }

    fn cpu(&self) -> &drover_sim::VirtualCpu {
        self.room.ctx.cpu()
    }

    fn step(&mut self) {
        self.room.step();
    }

    fn crash_and_restart(&mut self) -> bool {
        let desk = &self.desk;
        self.room.crash(|| desk.clear());
        self.start_server();
        true
    }

    fn pass_seconds(&mut self, seconds: u64) {
        self.room.pass_seconds(seconds);
    }
}
