//! A proxy between native clients and their server that sees every frame of the control channels, and may change it.

use drover_base::{Cpu, Ns};
use drover_control::{ControlAddr, ControlListener, ControlStream, Frame};
use drover_mem::NativeCpu;
use std::path::Path;
use std::thread::yield_now;

/// Who says a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaker {
    Client,
    Server,
}

/// Starts a proxy at `path`, in a thread that never ends, to the server at `server`; `each` gets all frames before they go on. It
/// serves one client after the other.
pub fn start(path: &Path, server: &str, mut each: impl FnMut(Speaker, &mut Frame) + Send + 'static) {
    let addr: ControlAddr = format!("unix:{}", path.display()).parse().expect("a path");
    let server: ControlAddr = server.parse().expect("an address");
    let listener = ControlListener::bind(&addr).expect("a path of our own");
    let cpu = NativeCpu::new(1);
    std::thread::spawn(move || {
        loop {
            let Ok(Some(mut client)) = listener.accept() else {
                yield_now();
                continue;
            };
            let mut server = ControlStream::connect(&server, Ns::from_s(10)).expect("it serves");
            let mut pass = |who, from: &mut _, to: &mut _| pass(&cpu, from, to, |frame| each(who, frame));
            while pass(Speaker::Client, &mut client, &mut server)
                && pass(Speaker::Server, &mut server, &mut client)
            {
                yield_now();
            }
        }
    });
}

/// Passes the frames that are there; false: one end has hung up.
fn pass(
    cpu: &NativeCpu,
    from: &mut ControlStream,
    to: &mut ControlStream,
    mut each: impl FnMut(&mut Frame),
) -> bool {
    loop {
        match from.recv(cpu.refresh()) {
            Err(_) => return false,
            Ok(None) => return true,
            Ok(Some(mut frame)) => {
                each(&mut frame);
                if to.send(frame.kind, &frame.body, &frame.fds).is_err() {
                    return false;
                }
            }
        }
    }
}
