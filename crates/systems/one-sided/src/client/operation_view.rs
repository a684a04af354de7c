//! [`OperationView`]: a system's access to one operation: its key, its state, its READs.

use super::Reader;
use super::execution::{Execution, State};
use drover_base::KeyHash;
use drover_verbs::Provider;

/// A system's access to one operation in flight, whose session works; it borrows operation and session.
pub struct OperationView<'a, P: Provider, R: Reader<P>> {
    /// Number of the operation: the index of its place.
    pub at: usize,
    /// Session with the shard that owns the key.
    pub session: &'a mut R::Session,
    /// State that the system's [`Reader`] keeps for the operation.
    pub own: &'a mut R::GetState,
    /// The operation's key.
    pub key: &'a [u8],
    /// Hash of the operation's key.
    pub hash: KeyHash,
    pub(super) execution: &'a mut Execution<R::Wait>,
}

impl<P: Provider, R: Reader<P>> OperationView<'_, P, R> {
    /// Number of the buffer for a long value that the operation has borrowed, if any.
    #[inline]
    pub fn large(&self) -> Option<u8> {
        self.execution.large()
    }

    /// Notes that the caller has staged a READ for the operation: into buffer `large` if the record or object is long,
    /// otherwise into the operation's own buffer.
    ///
    /// # Panics
    /// If the operation already holds a buffer for a long value, or its state allows no READ, for example because it
    /// must ask the server.
    #[inline]
    pub fn reading(self, wait: R::Wait, large: Option<u8>) {
        self.execution.read(self.at, wait, large);
    }

    /// Returns which READ the operation waits for; call it when that READ has completed. Changes nothing: the caller
    /// then sets the operation's next state.
    ///
    /// # Panics
    /// If the operation has no READ in flight. READs of an ended session do not complete, because their queue pair is
    /// not polled.
    #[inline]
    pub fn read_ended(&self) -> R::Wait {
        match self.execution.state() {
            State::Reading(wait) => wait,
            state => panic!(
                "a READ has completed for operation {}, which is {state:?}",
                self.at
            ),
        }
    }
}
