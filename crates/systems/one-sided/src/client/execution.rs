//! [`Execution`]: how far an operation has come, and the rules for its next [`State`].

use drover_base::Ns;
use std::fmt::Debug;

/// Times that an operation is sent to another shard. The pauses before them double from [`REDIRECT_PAUSE`] on, so that
/// all together are a quarter of a second. *(our choice)*
const REDIRECTS_MAX: u8 = 8;
const REDIRECT_PAUSE: Ns = Ns::from_ms(1);

/// What an operation waits for. `W` is a READ of the system.
///
/// ```text
/// Free -> Waiting -> Reading -> ... -> Sending, if its request has not completed -> Free
///            |        | ^  ^ '-> Backoff (torn) -> Reading
///            |        | |  '---> WaitBuffer (long) -> Reading
///            |        v '- the server named the record
///            |      Asking -> Reply
///            ^'-> Reply (updates)
///            '----- Redirected <- Reply (the shard does not own the key)
/// ```
/// When its session is lost, an operation in any state returns to Waiting. An update that was sent is sent again with
/// its number if the next session goes on from the lost one; else it ends as indeterminate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum State<W> {
    /// The place is free.
    #[default]
    Free,
    /// A session, an earlier operation on its key, space for its request, or a buffer for its long value.
    Waiting,
    /// A READ.
    Reading(W),
    /// A buffer for a long record or object, whose remote address is known.
    WaitBuffer(W),
    /// A pause after a torn READ.
    Backoff {
        /// End of the pause.
        until: Ns,
    },
    /// The request to the server is not sent yet: it waits for space, and for a buffer if the value is long.
    Asking {
        /// Whether the value needs a buffer for long values.
        is_long: bool,
    },
    /// The server's reply.
    Reply,
    /// A newer map of partitions, or the end of a pause: the shard that was asked does not own the key.
    Redirected {
        /// End of the pause.
        until: Ns,
    },
    /// The outcome was reported; the request has not completed yet.
    Sending,
}

/// How far an operation has come: its state, its request to the server, and the buffer that it borrows.
pub(super) struct Execution<W> {
    state: State<W>,
    /// Sequence number of the request, which distinguishes its reply from replies to earlier requests of this place.
    sequence: u64,
    /// Whether the request has been posted and not completed.
    sending: bool,
    /// Whether it is an update whose request was sent over a session that was lost: it may have been executed.
    unanswered: bool,
    /// Number of shards in a row that said that they do not own the key.
    redirects: u8,
    /// The borrowed buffer for a long value.
    large: Option<u8>,
}

impl<W> Default for Execution<W> {
    fn default() -> Execution<W> {
        Execution {
            state: State::Free,
            sequence: 0,
            sending: false,
            unanswered: false,
            redirects: 0,
            large: None,
        }
    }
}

impl<W: Copy + PartialEq + Debug> Execution<W> {
    #[inline]
    pub(super) fn state(&self) -> State<W> {
        self.state
    }

    #[inline]
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The borrowed buffer for a long value.
    #[inline]
    pub(super) fn large(&self) -> Option<u8> {
        self.large
    }

    /// Whether the last request has been posted and not completed.
    #[inline]
    pub(super) fn is_sending(&self) -> bool {
        self.sending
    }

    /// Whether the operation has no outcome yet.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state, State::Free | State::Sending)
    }

    /// Whether nothing is in flight whose result may still arrive.
    pub(super) fn is_idle(&self) -> bool {
        matches!(
            self.state,
            State::Waiting
                | State::WaitBuffer(_)
                | State::Backoff { .. }
                | State::Asking { .. }
                | State::Redirected { .. }
        )
    }

    /// Begins an operation, whose first request has the number `sequence`.
    #[inline]
    pub(super) fn submit(&mut self, sequence: u64) {
        self.sequence = sequence;
        (self.unanswered, self.redirects) = (false, 0);
        self.state = State::Waiting;
    }

    /// Whether the operation is an update that may have been executed over a session that was lost.
    #[inline]
    pub(super) fn is_unanswered(&self) -> bool {
        self.unanswered
    }

    /// Records that a READ of the operation in place `at` is staged.
    ///
    /// # Panics
    /// See [`OperationView::reading`](super::OperationView::reading).
    #[inline]
    pub(super) fn read(&mut self, at: usize, wait: W, large: Option<u8>) {
        let was = self.state;
        let may_read = matches!(
            was,
            State::Waiting | State::Reading(_) | State::WaitBuffer(_) | State::Backoff { .. } | State::Reply
        );
        assert!(
            may_read && self.large.is_none(),
            "operation {at} READs {wait:?} while it is {was:?} with buffer {:?}",
            self.large
        );
        (self.state, self.large) = (State::Reading(wait), large);
    }

    /// Waits for a buffer for the long record or object that `wait` READs.
    pub(super) fn wait_for_buffer(&mut self, wait: W) {
        self.state = State::WaitBuffer(wait);
    }

    /// Pauses after a torn READ of the operation in place `at`.
    pub(super) fn back_off(&mut self, at: usize, until: Ns) {
        assert!(
            matches!(self.state, State::Reading(_)),
            "operation {at} rests after {:?}",
            self.state
        );
        self.state = State::Backoff { until };
    }

    /// Records that the request is to be sent as soon as possible.
    pub(super) fn ask(&mut self, at: usize, is_long: bool) {
        assert!(self.is_open(), "operation {at} asks while it is {:?}", self.state);
        self.state = State::Asking { is_long };
    }

    /// Gives the next request the number `sequence`: an earlier request may have been answered with the old number.
    pub(super) fn renumber(&mut self, sequence: u64) {
        self.sequence = sequence;
    }

    /// Records that the request is posted, and borrows the buffer `large`.
    #[inline]
    pub(super) fn sent(&mut self, large: Option<u8>) {
        (self.sending, self.large) = (true, large);
        self.state = State::Reply;
    }

    /// Records that the request of the operation in place `at` has completed.
    #[inline]
    pub(super) fn carried(&mut self, at: usize) {
        assert!(
            self.sending,
            "operation {at} sent nothing, and is {:?}",
            self.state
        );
        self.sending = false;
    }

    /// The sequence number of the awaited reply and the buffer for its value; `None` if no reply is awaited.
    #[inline]
    pub(super) fn awaited_reply(&self) -> Option<(u64, Option<u8>)> {
        (self.state == State::Reply).then_some((self.sequence, self.large))
    }

    /// Ends the loan of the buffer.
    #[inline]
    pub(super) fn take_large(&mut self) -> Option<u8> {
        self.large.take()
    }

    /// Forgets what a lost session took with it: the request in flight, and the buffer.
    pub(super) fn lose_session(&mut self) {
        (self.sending, self.large) = (false, None);
    }

    /// Begins the operation again.
    pub(super) fn restart(&mut self) {
        self.state = State::Waiting;
    }

    /// Waits for a session over which the update can be sent again.
    pub(super) fn restart_update(&mut self) {
        self.unanswered = true;
        self.restart();
    }

    /// Waits for a newer map of partitions, at `now`, since the shard that was asked does not own the key, and so has not
    /// executed the operation. Returns the end of the wait; `None`: the operation was sent elsewhere too often.
    pub(super) fn redirect(&mut self, now: Ns) -> Option<Ns> {
        if self.redirects >= REDIRECTS_MAX {
            return None;
        }
        let until = now + REDIRECT_PAUSE * (1 << self.redirects);
        self.redirects += 1;
        self.unanswered = false;
        self.state = State::Redirected { until };
        Some(until)
    }

    /// Records that the outcome was reported.
    #[inline]
    pub(super) fn finish(&mut self) {
        self.state = State::Sending;
    }

    /// Frees the place.
    #[inline]
    pub(super) fn vacate(&mut self) {
        self.state = State::Free;
    }
}
