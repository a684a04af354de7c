//! [`End`]: one of the two ends of a rule.

use super::{Chan, Check, Stop, ensure};
use drover_base::{Cpu, Ns};
use drover_verbs::{CompletionQueue, Context, Device, Export, OpenError, Provider, QpKind, Wc};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;

/// Role of an end in a rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// The end that posts the requests under test.
    Initiator,
    /// The end that those requests go to.
    Responder,
}

/// Longest wait, on the provider's own clock. Long, because a machine may be busy: only a broken provider reaches it.
const PATIENCE: Ns = Ns::from_s(10);
/// Fewest turns of a wait before it may time out, because a clock may jump.
const PATIENCE_TURNS: u64 = 200;
/// Turns without an event after which the end counts as quiet.
const QUIET_TURNS: u64 = 24;
/// Depth of the completion queues.
const CQ_DEPTH: usize = 512;

/// One of the two ends that run a rule. Owns a device handle, a context, the completion queues, and a channel to the
/// other end.
pub struct End<P: Provider> {
    pub(super) role: Role,
    pub(super) kind: QpKind,
    pub(super) can_sleep: bool,
    pub(super) device: P::Device,
    pub(super) ctx: P::Context,
    pub(super) cqs: Vec<Stashed<P>>,
    chan: Box<dyn Chan>,
}

/// A completion queue, and the completions polled from it but not requested yet.
pub(super) struct Stashed<P: Provider> {
    pub(super) cq: P::Cq,
    pub(super) stash: VecDeque<Wc>,
}

impl<P: Provider> End<P> {
    /// Creates an end over a context of `device`. `can_sleep`: the other end runs while this one is parked.
    pub(super) fn new(
        role: Role,
        kind: QpKind,
        can_sleep: bool,
        device: P::Device,
        chan: Box<dyn Chan>,
    ) -> Result<End<P>, OpenError> {
        let ctx = device.context()?;
        Ok(End {
            role,
            kind,
            can_sleep,
            device,
            ctx,
            cqs: Vec::new(),
            chan,
        })
    }

    pub(super) fn initiates(&self) -> bool {
        self.role == Role::Initiator
    }

    /// Adds a completion queue, which is polled at every turn.
    pub(super) fn add_cq(&mut self) -> Result<usize, Stop> {
        let cq = self.ctx.create_cq(CQ_DEPTH)?;
        self.cqs.push(Stashed {
            cq,
            stash: VecDeque::new(),
        });
        Ok(self.cqs.len() - 1)
    }

    /// Lets the other end act, then takes what has arrived.
    pub(super) async fn turn(&mut self) {
        yield_turn().await;
        self.ctx.cpu().refresh();
        self.poll_all();
    }

    fn poll_all(&mut self) {
        let mut wcs = [Wc::default(); 8];
        for queue in &mut self.cqs {
            loop {
                let count = queue.cq.poll(self.ctx.cpu(), &mut wcs);
                queue.stash.extend(&wcs[..count]);
                if count < wcs.len() {
                    break;
                }
            }
        }
    }

    /// Takes turns until `look` returns a result.
    pub(super) async fn until<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut(&mut End<P>) -> Result<Option<T>, Stop>,
    ) -> Result<T, Stop> {
        let start = self.ctx.cpu().refresh();
        let mut turns = 0;
        loop {
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            self.turn().await;
            turns += 1;
            let waited = self.ctx.cpu().now().since(start);
            ensure!(
                turns < PATIENCE_TURNS || waited < PATIENCE,
                "the {:?} waited {waited} for {what}",
                self.role
            );
        }
    }

    /// Sends a message to the other end.
    pub(super) fn send_export(&mut self, message: Export) -> Check {
        Ok(self.chan.send(message)?)
    }

    /// Sends bytes to the other end.
    pub(super) fn say_bytes(&mut self, bytes: &[u8]) -> Check {
        self.send_export(Export {
            bytes: bytes.to_vec(),
            fds: Vec::new(),
        })
    }

    /// Waits for a message of the other end.
    pub(super) async fn receive_export(&mut self) -> Result<Export, Stop> {
        self.until("a word of the other end", |end| Ok(end.chan.try_recv()?))
            .await
    }

    /// Waits for a message of the other end without polling completion queues, like an end that is about to sleep.
    pub(super) async fn hear_unpolled(&mut self) -> Result<Export, Stop> {
        let start = self.ctx.cpu().refresh();
        let mut turns = 0;
        loop {
            if let Some(message) = self.chan.try_recv()? {
                return Ok(message);
            }
            yield_turn().await;
            turns += 1;
            let waited = self.ctx.cpu().refresh().since(start);
            ensure!(
                turns < PATIENCE_TURNS || waited < PATIENCE,
                "the {:?} heard nothing",
                self.role
            );
        }
    }

    /// Waits until both ends are here and have polled since.
    pub(super) async fn meet(&mut self) -> Check {
        self.say_bytes(b"here")?;
        let heard = self.receive_export().await?;
        ensure!(heard.bytes == b"here", "out of step: heard {:?}", heard.bytes);
        self.turn().await;
        Ok(())
    }

    /// Takes `count` completions.
    pub(super) async fn take(&mut self, cq: usize, count: usize) -> Result<Vec<Wc>, Stop> {
        let what = format!("{count} completions");
        self.until(&what, |end| {
            let stash = &mut end.cqs[cq].stash;
            Ok((stash.len() >= count).then(|| stash.drain(..count).collect()))
        })
        .await
    }

    /// Takes the next completion.
    pub(super) async fn take_one(&mut self, cq: usize) -> Result<Wc, Stop> {
        Ok(self.take(cq, 1).await?[0])
    }

    /// Checks that no completion arrives.
    pub(super) async fn quiet(&mut self, cq: usize) -> Check {
        for _ in 0..QUIET_TURNS {
            self.turn().await;
        }
        let stash = &self.cqs[cq].stash;
        ensure!(stash.is_empty(), "unexpected completions: {stash:?}");
        Ok(())
    }
}

/// Lets the other end run.
async fn yield_turn() {
    let mut waited = false;
    poll_fn(|_| match std::mem::replace(&mut waited, true) {
        false => Poll::Pending,
        true => Poll::Ready(()),
    })
    .await;
}
