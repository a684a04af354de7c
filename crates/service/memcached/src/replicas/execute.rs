//! Execution of a message about copies on a core.

use super::changes::names;
use super::message::set_of;
use crate::Executor;
use drover_base::Cpu;
use drover_store::Sharing;

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    /// Does what a message asks for, and appends the shards that are refused. Returns the number of the reply; `None`: the message is
    /// malformed.
    pub(crate) fn serve_copies(&mut self, kind: u8, body: &[u8], refused: &mut Vec<u8>) -> Option<u64> {
        match kind {
            b'c' => self.take_copies(body, refused),
            b'i' => self.find_copied(body),
            _ => {
                let (shards, mark) = set_of(body)?;
                Some(self.core.replicas_mut()?.replicator.drained(shards, mark))
            }
        }
    }

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
