//! The owner's side of a hand-over: answers to the control thread of the next owner.

use crate::requests::{self, Ask, Moving};
use crate::shared::Shared;
use drover_base::Ns;
use drover_cluster::HandoverRequest;
use drover_links::ControlLink;
use drover_mem::NativeCpu;
use std::io;
use std::sync::Arc;
use std::thread::Builder;

/// Longest wait for replies that wait for copies, at a barrier: with that for the round, less than the next owner waits for the barrier.
/// *(our choice)*
const HELD_MAX: Ns = Ns::from_ms(800);
/// Time after which a thread that serves a link looks whether the member has ended.
const LOOK_EVERY: Ns = Ns::from_ms(500);

/// Answers what other members ask this one's control thread; for any thread that has such a message. Cheap to clone.
#[derive(Clone)]
pub struct ControlHandler {
    shared: Arc<Shared>,
}

impl ControlHandler {
    pub(crate) fn new(shared: Arc<Shared>) -> ControlHandler {
        ControlHandler { shared }
    }

    /// Answers the messages of a link until it ends or this member does, on a thread of its own: links to the control thread are few. Does
    /// not wait. For [`LinkAcceptor`](drover_links::LinkAcceptor).
    pub fn serve(&self, mut link: ControlLink) {
        let handler = self.clone();
        let body = move || {
            if let Err(error) = handler.serve_all(&mut link) {
                tracing::debug!(member = link.member(), %error, "a link to the control thread has ended");
            }
        };
        if let Err(error) = Builder::new().name("control link".to_string()).spawn(body) {
            tracing::warn!(%error, "no thread for a link to the control thread");
        }
    }

    fn serve_all(&self, link: &mut ControlLink) -> io::Result<()> {
        while self.shared.state().ends.is_none() {
            let Some(message) = link.receive(LOOK_EVERY)? else {
                continue;
            };
            let Some(reply) = self.answer(message) else {
                tracing::warn!(member = link.member(), "malformed message to the control thread");
                return Ok(());
            };
            link.reply(&reply)?;
        }
        Ok(())
    }

    /// The reply to a message. `None`: it is malformed, and its connection should be closed. Waits for a round of every core, for up to
    /// a second.
    pub fn answer(&self, message: &[u8]) -> Option<Vec<u8>> {
        let (ask, moves) = requests::decode(message, self.shared.shards.shard_count())?;
        Some(match ask {
            Ask::Begin => self.agree(&moves, drover_cluster::Ask::Page { cursor: 0 }),
            Ask::Freeze => self.agree(&moves, drover_cluster::Ask::Barrier),
            Ask::Noted => {
                let mut state = self.shared.state();
                state.outgoing.take(&moves, &self.shared.shards)
            }
        })
    }

    /// Notes or freezes the shards for which the request is right, and waits until every core does; after a freeze also until no reply waits for
    /// the keeper of a copy.
    fn agree(&self, moves: &[Moving], ask: drover_cluster::Ask) -> Vec<u8> {
        let mut state = self.shared.state();
        let mut agreed = Vec::with_capacity(moves.len());
        for &(shard, tenure) in moves {
            let request = HandoverRequest { shard, tenure, ask };
            let is_right = state.contents.is_held(shard) && state.agent.answer(&request);
            if is_right && ask != drover_cluster::Ask::Barrier {
                state.outgoing.begin((shard, tenure), &self.shared.shards);
            }
            agreed.push(u8::from(is_right));
        }
        state.publish();
        drop(state);
        let cpu = NativeCpu::new(0);
        let mut is_heeded = self.shared.pass_rounds(&cpu);
        if ask == drover_cluster::Ask::Barrier {
            // What was executed before has been answered, or will never be: the next owner has it all.
            is_heeded = is_heeded && self.shared.pass_holds(&cpu, HELD_MAX);
        }
        // Frozen shards stay frozen if a core stands still: the next owner has the moves cancelled.
        if !is_heeded {
            agreed.fill(0);
        }
        agreed
    }
}
