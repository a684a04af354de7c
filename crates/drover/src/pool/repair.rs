//! [`Repairer`]: a node repairs by itself what dead clients left at it, if no other client does. A thread of the node's process
//! enters the node as a client, alone, through the node's own card, does what any client would do, and leaves. Requests still
//! go to the node's memory and never to its loop.

use super::{NodesArgs, check};
use crate::exit::{self, Failure};
use drover_base::Ns;
use drover_memnode::ClientId;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Time between two looks at the node's clients.
const LOOK_EVERY: Ns = Ns::from_ms(100);

/// Notes since when clients wait for repair, and begins one.
pub(super) struct Repairer {
    after: Ns,
    look_at: Ns,
    /// By the client's bits.
    waiting: BTreeMap<u32, Ns>,
    begin: SyncSender<()>,
}

impl Repairer {
    /// Starts the thread, which sleeps. `node` is the node itself; `after` is how long others have to repair.
    pub(super) fn start(node: NodesArgs, after: Ns) -> Result<Repairer, Failure> {
        // Without a place for one: the thread takes what is sent only while it sleeps.
        let (begin, begun) = sync_channel(0);
        let thread = std::thread::Builder::new().name("drover-repair".to_owned());
        // Ends with the process: who is in the middle of a repair may end at any time, as any client may.
        let started = thread.spawn(move || run(&node, &begun));
        started.map_err(|error| Failure::new(exit::OS_ERROR, error))?;
        Ok(Repairer {
            after,
            look_at: Ns::ZERO,
            waiting: BTreeMap::new(),
            begin,
        })
    }

    /// Whether it is time for another [`look`](Repairer::look).
    pub(super) fn is_due(&self, now: Ns) -> bool {
        now >= self.look_at
    }

    /// Begins a repair if one of these clients, who wait for it, has waited for long enough.
    pub(super) fn look(&mut self, now: Ns, waiting: impl Iterator<Item = ClientId>) {
        self.look_at = now + LOOK_EVERY;
        let before = std::mem::take(&mut self.waiting);
        self.waiting = waiting
            .map(|client| (client.bits(), before.get(&client.bits()).copied().unwrap_or(now)))
            .collect();
        let is_late = self.waiting.values().any(|&since| now.since(since) >= self.after);
        if is_late && self.begin.try_send(()).is_ok() {
            // Another attempt comes after as long a time.
            self.waiting.values_mut().for_each(|since| *since = now);
        }
    }
}

fn run(node: &NodesArgs, begun: &Receiver<()>) {
    while begun.recv().is_ok() {
        tracing::info!("no client repairs what others left at this node: doing it here");
        if let Err(Failure { text, .. }) = check::repair(node) {
            tracing::warn!(%text, "what dead clients left is not repaired yet");
        }
    }
}
