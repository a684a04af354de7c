//! What all examples share: `--provider`, requests in short, and waiting with an upper bound.
//!
//! An example is generic over the provider; [`run`] is the one place that names them.
#![forbid(unsafe_code)]

pub mod counting;

use drover_base::{Cpu, Ns};
use drover_control::exchange::{End, recv_export};
use drover_control::{ControlListener, ControlStream};
use drover_kv::{Capacity, ConnectOptions, KvClient, Op, Service, Sizes, System, connect, dials};
use drover_mem::NativeCpu;
use drover_rt::StopFlag;
use drover_verbs::{
    CompletionQueue, Context, Device, Export, Opcode, Payload, Provider, SendOp, SendWr, Wc, WcStatus, WrId,
};
use drover_verbs_shm::{Shm, ShmDevice};
use std::error::Error;
use std::process::ExitCode;
use std::rc::Rc;

/// Examples pass errors up; [`run`] prints them.
pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// The upper bound of every wait: no example hangs.
pub const PATIENCE: Ns = Ns::from_s(20);

/// What an example does, on any fabric.
pub trait Example {
    /// Does it.
    fn run<P: Provider<Cpu = NativeCpu>>(device: P::Device) -> Outcome;
}

/// Runs `E` on the fabric that the command line names.
pub fn run<E: Example>() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let provider = match (words.next().as_deref(), words.next()) {
        (None, _) => "shm".to_string(),
        (Some("--provider"), Some(name)) => name,
        _ => return fail("usage: EXAMPLE [--provider shm]"),
    };
    let outcome = match provider.as_str() {
        "shm" => E::run::<Shm>(ShmDevice::default()),
        other => return fail(&format!("there is no provider {other}: shm")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::FAILURE
}

/// The `number`th request of its queue pair. One in 32 is signaled: a completion says that all requests before
/// it are done, and only then does the queue have space for more.
pub fn request(number: u64, op: SendOp, payload: Payload) -> SendWr {
    let signaled = number % 32 == 31;
    let wr_id = WrId(number);
    SendWr::new(op, payload).signaled_if(signaled, wr_id)
}

/// Runs `client` here and `server` in a thread of its own, until the client is done.
pub fn beside<T>(
    server: impl FnOnce(ControlStream, &StopFlag) -> Outcome + Send + 'static,
    client: impl FnOnce(ControlStream) -> Outcome<T>,
) -> Outcome<T> {
    // Between processes the control channel would be a Unix or TCP socket.
    let (ours, theirs) = ControlStream::pair();
    let stop = StopFlag::new();
    let server_stop = stop.clone();
    let server = std::thread::spawn(move || server(theirs, &server_stop));
    let result = client(ours);
    stop.set();
    server.join().map_err(|_| "the server panicked")??;
    result
}

/// A service of system `S` in threads of this process, and a client of it.
pub struct Served<S: System, P: Provider> {
    /// The service; it stops when dropped.
    pub service: Box<dyn Service>,
    /// The client's view of the fabric: its core and its queue pairs.
    pub ctx: Rc<P::Context>,
    /// The client.
    pub client: S::Client<P>,
}

impl<S: System, P: Provider<Cpu = NativeCpu>> Served<S, P> {
    /// Starts a service with a thread per shard and one for control channels, as `drover serve` does, and connects a
    /// client, as one in another process would.
    pub fn start(device: &P::Device) -> Outcome<Served<S, P>> {
        let sizes = Sizes {
            shard_count: 2,
            capacity: Capacity::Memory { bytes: 64 << 20 },
            value_bytes_max: 1 << 20,
            window: 16,
        };
        let path = std::env::temp_dir().join(format!("drover-{}-{}.sock", S::FACTS.name, std::process::id()));
        let listener = ControlListener::bind(&format!("unix:{}", path.display()).parse()?)?;
        let dials = dials(&S::FACTS, listener.addr(), sizes.shard_count, None);
        let service = S::start::<P>(device, &S::plan(&sizes)?, vec![listener], Box::new(|_core| {}))?;
        let ctx = Rc::new(device.context()?);
        let client = connect(&ctx, dials, &ConnectOptions::default(), PATIENCE)?;
        Ok(Served { service, ctx, client })
    }
}

/// One operation and what came of it, as text.
pub fn execute<P: Provider, C: KvClient<P>>(client: &mut C, cpu: &P::Cpu, op: &Op<'_>) -> Outcome<String> {
    client.submit(cpu, op, 0)?;
    let deadline = cpu.refresh() + PATIENCE;
    let mut answer = None;
    while answer.is_none() && cpu.refresh() < deadline {
        client.poll(cpu, &mut |done| answer = Some(format!("{:?}", done.outcome)));
    }
    answer.ok_or_else(|| "no answer came".into())
}

/// Waits for the peer to send an export.
pub fn next_export<P: Provider>(end: &End<P>, stream: &mut ControlStream) -> Outcome<Export> {
    let cpu = end.ctx.cpu();
    let deadline = cpu.refresh() + PATIENCE;
    Ok(recv_export(stream, cpu, deadline)?)
}

/// Polls until a message comes; completions of our own requests are passed over.
pub fn next_message<P: Provider>(end: &mut End<P>) -> Outcome<Wc> {
    loop {
        let wc = next_completion(end)?;
        if wc.opcode == Opcode::Recv {
            return Ok(wc);
        }
    }
}

/// Polls until a completion comes. Errors: it says that its request failed, or none came in [`PATIENCE`].
pub fn next_completion<P: Provider>(end: &mut End<P>) -> Outcome<Wc> {
    let mut wcs = [Wc::default()];
    let cpu = end.ctx.cpu();
    let deadline = cpu.refresh() + PATIENCE;
    while end.cq.poll(cpu, &mut wcs) == 0 {
        if cpu.refresh() > deadline {
            return Err("no completion came".into());
        }
        std::thread::yield_now(); // examples may share one core; services would not yield
    }
    match wcs[0].status {
        WcStatus::Success => Ok(wcs[0]),
        status => Err(format!("a request ended with {status:?}").into()),
    }
}
