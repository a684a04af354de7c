//! [`TestNetwork`]: calls between members of one process, and clients' ways to cores.

use super::Flaw;
use super::core::Job;
use drover_member::{Call, CallTarget, ControlHandler, MemberAddress, Network};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);
/// What a call takes at least on a slow network.
const SLOW: Duration = Duration::from_millis(1);

/// What can be reached of one member.
#[derive(Clone)]
pub struct Reachable {
    pub cores: Vec<Sender<Job>>,
    pub control: Option<ControlHandler>,
}

/// Members by address.
#[derive(Default)]
pub struct TestNetwork {
    members: Mutex<BTreeMap<String, Reachable>>,
    pub flaw: Option<Flaw>,
    /// Whether calls between members take a while.
    pub is_slow: AtomicBool,
    /// Of so many messages about copies one is lost; 0: none is.
    pub copies_per_loss: AtomicU64,
    copies_sent: AtomicU64,
}

impl TestNetwork {
    pub fn with(flaw: Option<Flaw>) -> TestNetwork {
        TestNetwork {
            flaw,
            ..TestNetwork::default()
        }
    }

    pub fn set(&self, host_port: &str, reachable: Reachable) {
        let mut members = self.members.lock().expect("no panic");
        members.insert(host_port.to_string(), reachable);
    }

    pub fn remove(&self, host_port: &str) {
        self.members.lock().expect("no panic").remove(host_port);
    }

    pub fn get(&self, host_port: &str) -> Option<Reachable> {
        self.members.lock().expect("no panic").get(host_port).cloned()
    }

    /// Whether the next message about copies is lost.
    pub fn loses_copies(&self) -> bool {
        let every = self.copies_per_loss.load(Ordering::Relaxed);
        let count = self.copies_sent.fetch_add(1, Ordering::Relaxed);
        every > 0 && count.is_multiple_of(every)
    }

    /// Addresses of all members.
    pub fn addresses(&self) -> Vec<String> {
        self.members.lock().expect("no panic").keys().cloned().collect()
    }
}

/// The network as members have it.
pub struct Shared(pub Arc<TestNetwork>);

impl Network for Shared {
    fn connect(&self, _: &str, address: &MemberAddress, target: CallTarget) -> io::Result<Box<dyn Call>> {
        let found = self
            .0
            .get(&address.host_port)
            .ok_or(io::ErrorKind::ConnectionRefused)?;
        Ok(Box::new(TestCall {
            network: self.0.clone(),
            host_port: address.host_port.clone(),
            to: found,
            target,
            reply: Vec::new(),
        }))
    }
}

/// A reply of a core with this number, version 0, no flush.
fn reply_head(number: u64) -> Vec<u8> {
    [number, 0, 0]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect()
}

struct TestCall {
    network: Arc<TestNetwork>,
    host_port: String,
    to: Reachable,
    target: CallTarget,
    reply: Vec<u8>,
}

impl Call for TestCall {
    fn call(&mut self, message: &[u8]) -> io::Result<&[u8]> {
        if self.network.is_slow.load(Ordering::Relaxed) {
            std::thread::park_timeout(SLOW);
        }
        if self.network.get(&self.host_port).is_none() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        self.reply = match self.target {
            CallTarget::Control
                if message[0] == b'n' && self.network.flaw == Some(Flaw::NotedKeysNotSent) =>
            {
                Vec::new()
            }
            CallTarget::Control => {
                let control = self.to.control.as_ref().ok_or(io::ErrorKind::ConnectionRefused)?;
                control.answer(message).ok_or(io::ErrorKind::InvalidData)?
            }
            CallTarget::Core(_) if message[16] == b'z' && self.network.flaw == Some(Flaw::DiscardSkipped) => {
                // The cursor after the last one.
                reply_head(1 << 32)
            }
            CallTarget::Copies(_)
                if message[16] == b'q' && self.network.flaw == Some(Flaw::DrainCountsForNothing) =>
            {
                reply_head(1)
            }
            CallTarget::Core(index) | CallTarget::Copies(index) => {
                let (reply, answered) = channel();
                let core = &self.to.cores[usize::from(index)];
                let job = match self.target {
                    CallTarget::Copies(_) => Job::OwnCopies(message.to_vec(), reply),
                    _ => Job::Message(message.to_vec(), reply),
                };
                core.send(job).map_err(|_| io::ErrorKind::ConnectionReset)?;
                let answered = answered.recv_timeout(TIMEOUT);
                answered.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
            }
        };
        Ok(&self.reply)
    }
}
