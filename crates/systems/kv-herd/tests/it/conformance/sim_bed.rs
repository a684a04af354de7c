//! [`SimBed`]: a HERD server on virtual cores of one machine, clients on a core of another, and a modelled network
//! between them. Workers and acceptor are the ones that serve production; nobody steps them but the simulation.

use crate::conformance::bed::{client_options, server_options};
use drover_control::LocalListener;
use drover_kv::{Accepting, Offers, System};
use drover_kv_herd::Herd;
use drover_kv_herd::client::{Dial, HerdClient};
use drover_kv_herd::server::{Acceptor, Server};
use drover_testkit::beds::{Cluster, Simulated, connected};
use drover_testkit::kv_conformance::{Bed, BedOptions};
use drover_verbs::Context;

pub struct SimBed<P: Simulated> {
    cluster: Cluster<P>,
    listener: LocalListener,
}

impl<P: Simulated> SimBed<P> {
    fn start_server(&self) {
        let (world, options) = (&self.cluster.world, server_options(&self.cluster.options));
        let (acceptor, workers) =
            Server::<P>::in_pieces(&self.cluster.server_device(), &options).expect("a server");
        for worker in workers {
            let ctx = worker.context();
            world.spawn_on(ctx.cpu(), Box::new(worker));
        }
        let ctx = acceptor.context();
        let accepting = Accepting::new(acceptor, Acceptor::adopt, &self.listener);
        world.spawn_on(ctx.cpu(), Box::new(accepting));
    }
}

impl<P: Simulated> Bed for SimBed<P> {
    type P = P;
    type Client = HerdClient<P>;

    fn offers() -> Offers {
        <Herd as System>::FACTS.offers
    }

    fn start(options: &BedOptions) -> SimBed<P> {
        let bed = SimBed {
            cluster: Cluster::new(options),
            listener: LocalListener::new(),
        };
        bed.start_server();
        bed
    }

    fn connect(&mut self) -> HerdClient<P> {
        let ctx = self.cluster.ctx.clone();
        let options = client_options(&self.cluster.options);
        let client = HerdClient::new(ctx.clone(), Dial::at(&self.listener), options);
        connected::<P, _>(client, &*ctx, || self.step())
    }

    fn cpu(&self) -> &drover_sim::VirtualCpu {
        self.cluster.ctx.cpu()
    }

    fn step(&mut self) {
        self.cluster.step();
    }

    fn crash_and_restart(&mut self) -> bool {
        let listener = &self.listener;
        self.cluster.crash(|| listener.clear());
        self.start_server();
        true
    }

    fn pass_seconds(&mut self, seconds: u64) {
        self.cluster.pass_seconds(seconds);
    }
}
