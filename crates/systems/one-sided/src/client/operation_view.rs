//! [`OperationView`]: what a system sees of an operation, and may say of its READs.

use super::Reader;
use super::operation::State;
use drover_base::KeyHash;
use drover_verbs::Provider;

/// An operation whose session works, as its system sees it.
pub struct OperationView<'a, P: Provider, R: Reader<P>> {
    /// Its number.
    pub at: usize,
    /// With the shard that has its key.
    pub session: &'a mut R::Session,
    /// What is the system's own.
    pub own: &'a mut R::GetState,
    /// Its key.
    pub key: &'a [u8],
    /// Of its key.
    pub hash: KeyHash,
    pub(super) large: &'a mut Option<u8>,
    pub(super) state: &'a mut State<R::Wait>,
}

impl<P: Provider, R: Reader<P>> OperationView<'_, P, R> {
    /// The buffer for a long value that it holds.
    #[inline]
    pub fn large(&self) -> Option<u8> {
        *self.large
    }

    /// A READ for it is staged, into the buffer `large` if it is long.
    ///
    /// # Panics
    /// If it holds another buffer, or nothing can be READ now: it wants to ask, say.
    #[inline]
    pub fn reading(self, wait: R::Wait, large: Option<u8>) {
        let was = *self.state;
        let may_read = matches!(
            was,
            State::Waiting | State::Reading(_) | State::WaitBuffer(_) | State::Backoff { .. } | State::Reply
        );
        assert!(
            may_read && self.large.is_none(),
            "operation {} READs {wait:?} while it is {was:?} with buffer {:?}",
            self.at,
            self.large
        );
        (*self.state, *self.large) = (State::Reading(wait), large);
    }

    /// What the READ was for that has completed. The next thing said of the operation is what it does then.
    ///
    /// # Panics
    /// If it has no READ under way: one of a session that is over does not complete, because its queue pair is not polled.
    #[inline]
    pub fn read_ended(&self) -> R::Wait {
        match *self.state {
            State::Reading(wait) => wait,
            state => panic!(
                "a READ has completed for operation {}, which is {state:?}",
                self.at
            ),
        }
    }
}
