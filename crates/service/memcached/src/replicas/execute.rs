//! [`Job`]: execution of a message about copies on a core.

use super::changes::names;
use super::message::set_of;
use crate::Executor;
use crate::handover::Reply;
use drover_base::Cpu;
use drover_net::Output;
use drover_store::Sharing;

/// What a message asks a core to do: its kind and body.
pub(crate) struct Job<'m> {
    pub(crate) kind: u8,
    pub(crate) body: &'m [u8],
}

impl Job<'_> {
    /// Does it, and appends the reply; `None`: the message is malformed.
    #[cold]
    pub(crate) fn run<C: Cpu, S: Sharing>(
        &self,
        executor: &mut Executor<'_, C, S>,
        output: &mut Output,
    ) -> Option<()> {
        let mut refused = Vec::new();
        let number = match self.kind {
            b'c' => executor.take_copies(self.body, &mut refused)?,
            b'i' => executor.find_copied(self.body)?,
            _ => {
                let (shards, mark) = set_of(self.body)?;
                executor.core.replicas_mut()?.replicator.drained(shards, mark)
            }
        };
        let (version, flushes) = (executor.partition.last_version(), executor.core.flushes);
        output.push(&Reply::head(number, version, flushes));
        output.push(&refused);
        Some(())
    }
}

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    /// Looks for items of the shards of a body, from its cursor on, to be sent in this step or later. Returns the next cursor.
    fn find_copied(&mut self, body: &[u8]) -> Option<u64> {
        let (shards, cursor) = set_of(body)?;
        if self.core.replicas()?.replicator.is_behind() {
            return Some(cursor);
        }
        let mut found = Vec::new();
        let next = self.sweep(&shards, cursor, &mut found, |found, name, _| name.put(found));
        debug_assert!(names(&found).all(|name| name.is_to_look_up()));
        self.core.replicas_mut()?.replicator.found.append(&mut found);
        Some(next)
    }
}
