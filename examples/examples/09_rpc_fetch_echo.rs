//! An RPC whose results the client fetches: a call is a WRITE and a READ, and the server posts nothing. While the server
//! is slow, the client has results pushed. The same ends over shared memory and between two simulated machines.

use drover_base::{Actor, Cost, Cpu, Ns, Progress};
use drover_examples::Outcome;
use drover_rpc::fetch::*;
use drover_rt::{Depths, Port, Queues};
use drover_verbs::{Context, Device, Provider, QueuePair, Wc};
use drover_verbs_shm::{Shm, ShmDevice};
use drover_verbs_sim::{Sim, World, WorldOptions, profile::Profile};
use std::{cell::RefCell, rc::Rc};
const CALLS: u64 = 1_000;
const WORK: Cost = Cost::new("example.work"); // of the server's code; simulated cores take a nanosecond per unit

/// One end of the connection; how many calls it has seen, and the client's counters.
struct End<P: Provider, E> {
    queues: Queues<P>,
    end: E,
    bytes: Vec<u8>,
    seen: Rc<RefCell<(u64, CallerStats)>>,
}

impl<P: Provider> Actor<P::Cpu> for End<P, FetchServer<P>> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        let mut wcs = [Wc::default(); 8];
        (0..self.queues.poll(cpu, &mut wcs)).for_each(|nth| self.end.completed(wcs[nth].wr_id.0));
        let call = self.end.next(cpu, &mut self.bytes).expect("an honest client");
        if let Some(call) = call {
            let calls = &mut self.seen.borrow_mut().0;
            *calls += 1;
            cpu.charge(WORK, if (CALLS / 3..CALLS / 2).contains(calls) { 20_000 } else { 500 });
            self.end.reply(cpu, &call, &[b"re: ", &self.bytes]);
        }
        self.end.look_again(&mut self.queues, cpu.now());
        self.queues.post(cpu).expect("the queue has a place for each call");
        if call.is_some() { Progress::Busy } else { Progress::Idle { wake_at: self.end.next_look() } }
    }
}

impl<P: Provider> Actor<P::Cpu> for End<P, FetchClient<P>> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        let (mut wcs, now, mut seen) = ([Wc::default(); 8], cpu.now(), self.seen.borrow_mut());
        let mut ended = |result: &[u8]| seen.0 += u64::from(result == b"re: hello");
        let (queues, bytes) = (&mut self.queues, &mut self.bytes);
        let count = queues.poll(cpu, &mut wcs);
        for wc in &wcs[..count] {
            if let Some((_, Ok(len))) = self.end.completed(queues, wc.wr_id.0, now, bytes) {
                ended(&bytes[..len]);
            }
        }
        self.end.poll(queues, now, bytes, |_, result| ended(result.expect("a result")));
        if self.end.is_free(0) && seen.0 < CALLS {
            self.end.send(queues, (0, 0), &[b"hello"], now + Ns::from_s(10)).expect("it fits");
        }
        seen.1 = *self.end.stats();
        queues.post(cpu).expect("the queue has three places for each call");
        Progress::Idle { wake_at: now + Ns(100) }
    }
}

type Ends<P> = (End<P, FetchServer<P>>, End<P, FetchClient<P>>);
/// Both ends; in two processes, the exports would travel over a control channel.
fn ends<P: Provider>(there: &Rc<P::Context>, here: &Rc<P::Context>) -> Outcome<Ends<P>> {
    let layout =
        Layout { format: Format::V1, place_count: 1, rpc_count: 1, request_bytes: 9, result_bytes: 9 };
    let params = ConnParams { layout, incarnations: (1, 2), first_kind: 0 };
    let new_queues = |ctx| Queues::<P>::new(ctx, Depths::of_sends(3));
    let (mut queues, mut ours) = (new_queues(there)?, new_queues(here)?);
    let mut server = FetchServer::new(&Port::shared(there), &params, CalleeOptions::default())?;
    let (inbound, results) = server.exports()?;
    let client = FetchClient::new(here, &params, CallerOptions::default(), (&inbound, &results))?;
    server.attach(&client.export()?)?;
    queues.qp.connect(&ours.qp.export()?)?;
    ours.qp.connect(&queues.qp.export()?)?;
    let server = End { queues, end: server, bytes: Vec::new(), seen: Rc::default() };
    Ok((server, End { queues: ours, end: client, bytes: Vec::new(), seen: Rc::default() }))
}

fn main() -> Outcome {
    let device = ShmDevice::default();
    let (there, here) = (Rc::new(device.context()?), Rc::new(device.context()?));
    let (mut server, mut client) = ends::<Shm>(&there, &here)?;
    while client.seen.borrow().0 < CALLS {
        client.step(here.cpu());
        server.step(there.cpu());
    }
    println!("shm: {:?}", client.seen.borrow().1);
    let mut options = WorldOptions::new(Profile::named("rfp")?);
    options.costs.push((WORK.name.to_owned(), 1.0));
    let world = World::with_options(options, 2, 1);
    let (there, here) = (Rc::new(world.device(0).context()?), Rc::new(world.device(1).context()?));
    let (server, client) = ends::<Sim>(&there, &here)?;
    world.spawn(&there, Box::new(server));
    let seen = client.seen.clone();
    world.spawn(&here, Box::new(client));
    world.run_while(Ns::from_s(1), || seen.borrow().0 < CALLS);
    println!("sim: {:?}, {} for {CALLS} calls", seen.borrow().1, world.now());
    Ok(())
}
