//! [`NonClient`]: a peer that connects to the server and is no client: it sends a query and leaves, sends nothing, or
//! sends malformed messages.

use super::WorkerSystem;
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_control::ControlStream;
use drover_control::service::ServiceQuery;

/// Behaviour of a peer that is no client: text for the timeline, and the function that sends the peer's messages.
pub type Behaviour = (&'static str, fn(&mut ControlStream));

/// Behaviours that every system meets.
const COMMON: [Behaviour; 2] = [
    ("and says nothing", |_| {}),
    ("and asks what this is", |stream| {
        // The server may have closed the channel.
        let _ = stream.send_message(&ServiceQuery);
    }),
];

/// Returns the behaviour of non-client number `index` (modulo the number of behaviours).
pub fn behaviour<T: WorkerSystem>(index: usize) -> Behaviour {
    let count = COMMON.len() + T::NON_CLIENTS.len();
    let mut all = COMMON.iter().chain(T::NON_CLIENTS);
    *all.nth(index % count).expect("an index below the count")
}

/// A peer that has sent its messages, keeps the channel open and answers heartbeats.
pub struct NonClient(Option<ControlStream>);

/// Interval at which heartbeats are answered.
const LOOK_EVERY: Ns = Ns::from_ms(100);

impl NonClient {
    /// Sends the messages of a non-client over `stream`.
    pub fn new(mut stream: ControlStream, (_, send): Behaviour) -> NonClient {
        send(&mut stream);
        NonClient(Some(stream))
    }

    /// Closes the channel.
    pub fn leave(&mut self) {
        self.0 = None;
    }
}

impl<C: Cpu> Actor<C> for NonClient {
    fn step(&mut self, cpu: &C) -> Progress {
        if let Some(stream) = &mut self.0 {
            match stream.recv(cpu.now()) {
                Ok(Some(_)) => return Progress::Busy,
                Ok(None) => {
                    let wake_at = cpu.now() + LOOK_EVERY;
                    return Progress::Idle { wake_at };
                }
                Err(_) => self.leave(),
            }
        }
        Progress::Idle { wake_at: Ns::MAX }
    }
}
