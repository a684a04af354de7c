//! A proxy between native clients and their server that sees every frame of the control channels, and may change it.

use crate::campaigns::bed::wait;
use drover_base::{Cpu, Ns};
use drover_control::{ControlAddr, ControlListener, ControlStream, Frame};
use drover_mem::NativeCpu;
use std::path::Path;
use std::time::Duration;

/// Time between two looks at the channels.
const PAUSE: Duration = Duration::from_micros(50);

/// Says a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaker {
    Client,
    Server,
}

/// Starts a proxy at `path`, in a thread that never ends, to the server at `server`. `each` gets the number of the session and all its
/// frames before they go on, and returns how often to send each.
pub fn start(
    path: &Path,
    server: &str,
    mut each: impl FnMut(u64, Speaker, &mut Frame) -> usize + Send + 'static,
) {
    let addr: ControlAddr = format!("unix:{}", path.display()).parse().expect("a path");
    let server: ControlAddr = server.parse().expect("an address");
    let listener = ControlListener::bind(&addr).expect("a path of our own");
    let cpu = NativeCpu::new(1);
    std::thread::spawn(move || {
        let (mut sessions, mut count) = (Vec::new(), 0);
        loop {
            if let Ok(Some(client)) = listener.accept()
                && let Ok(server) = ControlStream::connect(&server, Ns::from_s(10))
            {
                sessions.push((count, client, server));
                count += 1;
            }
            let now = cpu.refresh();
            sessions.retain_mut(|(session, client, server)| {
                pass(now, client, server, |frame| {
                    each(*session, Speaker::Client, frame)
                }) && pass(now, server, client, |frame| {
                    each(*session, Speaker::Server, frame)
                })
            });
            wait(PAUSE);
        }
    });
}

/// Passes the frames that are there; false: one end has hung up.
fn pass(
    now: Ns,
    from: &mut ControlStream,
    to: &mut ControlStream,
    mut each: impl FnMut(&mut Frame) -> usize,
) -> bool {
    loop {
        match from.recv(now) {
            Err(_) => return false,
            Ok(None) => return true,
            Ok(Some(mut frame)) => {
                for _ in 0..each(&mut frame) {
                    // Its end is noticed when it is heard.
                    let _ = to.send(frame.kind, &frame.body, &frame.fds);
                }
            }
        }
    }
}
