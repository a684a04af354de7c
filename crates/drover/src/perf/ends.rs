//! Ends on real cores: two threads of this process, or one of two processes.

use super::{Args, Output, failure};
use crate::exit::{self, Failure};
use drover_client::{Fabric, Job};
use drover_control::{ControlAddr, ControlListener, ControlStream};
use drover_mem::NativeCpu;
use drover_perf::SETUP_WAIT;
use drover_rt::cores::{cores, pin};
use drover_verbs::{Device, Provider};
use drover_verbs_shm::ShmDevice;
use rustix::event::{PollFd, PollFlags, poll};
use std::thread;

/// Measures over shared memory between two threads of this process, each pinned to its own core if there are two.
pub fn threads(args: &Args) -> Result<(), Failure> {
    let (here, there) = ControlStream::pair();
    let cores: Vec<usize> = cores()
        .unwrap_or_default()
        .iter()
        .map(|core| core.index)
        .collect();
    let [ours, theirs] = match cores[..] {
        [first, second, ..] => [Some(first), Some(second)],
        _ => [None, None],
    };
    let name = match (ours, theirs) {
        (Some(ours), Some(theirs)) => format!("shm, threads on cores {ours} and {theirs}"),
        _ => "shm, two threads on one core".to_string(),
    };
    let device = ShmDevice::default();
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            hold(theirs);
            serve_on::<drover_verbs_shm::Shm>(args, &device, there)
        });
        let measured = scope.spawn(|| {
            hold(ours);
            let fabric = name;
            Measure {
                args,
                stream: here,
                fabric,
            }
            .run::<drover_verbs_shm::Shm>(&device)
        });
        let measured = measured.join().expect("the client's thread ends");
        let served = serving.join().expect("the server's thread ends");
        measured.and(served)
    })
}

/// Pins the calling thread, if the system allows it.
fn hold(core: Option<usize>) {
    if let Some(core) = core {
        let _ = pin(core);
    }
}

/// Connects to the other end at `addr` and measures.
pub fn client(args: &Args, addr: &ControlAddr) -> Result<(), Failure> {
    let addr = args.device.of(addr)?;
    let opened = Fabric::towards(&addr)?;
    let stream = ControlStream::connect(&addr, SETUP_WAIT).map_err(|error| unavailable(&error))?;
    opened.run(Measure {
        args,
        stream,
        fabric: described(&opened, &addr),
    })
}

/// Waits for one client at `addr`, without a time limit, and serves its measurement.
pub fn server(args: &Args, addr: &ControlAddr) -> Result<(), Failure> {
    let addr = args.device.of(addr)?;
    let opened = Fabric::serving(&addr, ShmDevice::default())?;
    let listener = ControlListener::bind(&addr).map_err(|error| unavailable(&error))?;
    if !args.json {
        println!(
            "waiting for a client at {}: {}",
            listener.addr(),
            described(&opened, &addr)
        );
    }
    let stream = accept(&listener)?;
    opened.run(Serve { args, stream })
}

fn described(fabric: &Fabric, addr: &ControlAddr) -> String {
    let name = Fabric::name(addr);
    match fabric.choice() {
        Some(choice) => format!("{name}, {choice}"),
        None => name.to_string(),
    }
}

fn accept(listener: &ControlListener) -> Result<ControlStream, Failure> {
    let system = |error: std::io::Error| Failure::new(exit::OS_ERROR, error);
    loop {
        if let Some(stream) = listener.accept().map_err(system)? {
            return Ok(stream);
        }
        let fd = listener.fd();
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        // Check again even if interrupted.
        let _ = poll(&mut fds, None);
    }
}

fn unavailable(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(exit::UNAVAILABLE, error)
}

struct Measure<'a> {
    args: &'a Args,
    stream: ControlStream,
    fabric: String,
}

impl Job for Measure<'_> {
    type Answer = Result<(), Failure>;

    fn run<P: Provider<Cpu = NativeCpu>>(mut self, device: &P::Device) -> Result<(), Failure> {
        let plan = self.args.plan(device.caps())?;
        let ctx = device.context().map_err(|error| failure(error.into()))?;
        let mut output = Output::new(self.args, &plan, self.fabric, device.caps().mtu_bytes);
        let options = self.args.options();
        drover_perf::client::<P>(&mut self.stream, &ctx, &plan, options, &mut |row| output.row(row))
            .map_err(failure)?;
        output.finish();
        Ok(())
    }
}

struct Serve<'a> {
    args: &'a Args,
    stream: ControlStream,
}

impl Job for Serve<'_> {
    type Answer = Result<(), Failure>;

    fn run<P: Provider<Cpu = NativeCpu>>(self, device: &P::Device) -> Result<(), Failure> {
        serve_on::<P>(self.args, device, self.stream)
    }
}

fn serve_on<P: Provider>(args: &Args, device: &P::Device, mut stream: ControlStream) -> Result<(), Failure> {
    let given = args.given(device.caps());
    let ctx = device.context().map_err(|error| failure(error.into()))?;
    let served = drover_perf::server::<P>(&mut stream, &ctx, &given, args.options());
    served.map(drop).map_err(failure)
}
