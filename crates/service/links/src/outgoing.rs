//! [`Outgoing`]: the end of a link that sends messages and gets replies.

use crate::dialing::{DialFailure, Dialing};
use crate::frame::{self, Next, PREFIX_BYTES, TooLong};
use crate::handler::{LinkHandler, LinkReply};
use crate::input::Input;
use crate::options::LinksOptions;
use crate::out_queue::OutQueue;
use drover_base::Ns;
use drover_net::{Event, PendingReply};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Why a link ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkFailure {
    #[error("{0}")]
    System(#[from] io::Error),
    #[error("{0}")]
    TooLong(#[from] TooLong),
    #[error("a reply that no message waits for")]
    Unasked,
    #[error("a reply to it would have {0} bytes")]
    LongReply(usize),
    #[error("it took no replies for {0}")]
    NoReader(Ns),
    #[error("it was silent for {0}")]
    Silent(Ns),
    #[error("the core was restarted")]
    Restarted,
    #[error("the peer's life has ended")]
    Retired,
    #[error("another member owns what its replies are about")]
    Void,
}

/// A message without a reply so far.
#[derive(Clone, Copy, Debug)]
struct Sent {
    pending_reply: PendingReply,
    /// Position in the queue behind its frame.
    end: u64,
    bytes: u32,
}

pub(crate) enum State {
    /// There is no link; none is made before this time.
    Closed {
        retry_at: Ns,
    },
    /// The next flush begins to make one.
    Wanted,
    Dialing(Box<Dialing>),
    Open(OwnedFd),
}

/// One route: the link to one core of one peer, made when something is sent, and made again after it broke.
pub(crate) struct Outgoing {
    pub(crate) peer: u16,
    pub(crate) core: u16,
    /// Name of the peer, once it is known.
    pub(crate) name: Box<str>,
    pub(crate) state: State,
    pub(crate) queue: OutQueue,
    /// Messages without a reply, oldest first; the last ones are not written yet.
    sent: VecDeque<Sent>,
    input: Input,
    /// Time of the last input.
    heard_at: Ns,
    /// Time of the last keep-alive.
    kept_alive_at: Ns,
    /// A message found it full since it last had space.
    pub(crate) refused: bool,
    /// It has a turn in the next step.
    pub(crate) is_queued: bool,
    /// Number of attempts that failed since the last link.
    failures: u32,
    /// The peer's life has ended.
    is_retired: bool,
}

impl Outgoing {
    pub(crate) fn new(peer: u16, core: u16) -> Outgoing {
        Outgoing {
            peer,
            core,
            name: "".into(),
            state: State::Closed { retry_at: Ns::ZERO },
            queue: OutQueue::default(),
            sent: VecDeque::new(),
            input: Input::default(),
            heard_at: Ns::ZERO,
            kept_alive_at: Ns::ZERO,
            refused: false,
            is_queued: false,
            failures: 0,
            is_retired: false,
        }
    }

    /// Ends the link once no message waits for its reply, for ever.
    pub(crate) fn retire(&mut self) {
        self.is_retired = true;
        if let State::Closed { retry_at } = &mut self.state {
            *retry_at = Ns::MAX;
        }
    }

    /// Whether a message of `bytes` bytes has space. Any has while less than half is used: otherwise a long message might wait
    /// for ever, because short ones take each space first.
    #[inline]
    pub(crate) fn has_space(&self, bytes: usize, options: &LinksOptions) -> bool {
        let fits = self.queue.len() + PREFIX_BYTES + bytes <= options.queue_bytes;
        (fits || self.is_half_empty(options)) && self.sent.len() < options.outstanding_max
    }

    fn is_half_empty(&self, options: &LinksOptions) -> bool {
        self.queue.len() < options.queue_bytes / 2
    }

    /// Whether it was full and is not any more, or is closed; true once.
    pub(crate) fn has_space_again(&mut self, options: &LinksOptions) -> bool {
        let has_space = self.is_half_empty(options) && self.sent.len() < options.outstanding_max;
        let again = self.refused && (has_space || matches!(self.state, State::Closed { .. }));
        self.refused &= !again;
        again
    }

    /// Queues a message, which has space.
    #[inline]
    pub(crate) fn push(&mut self, pending_reply: PendingReply, pieces: &[&[u8]]) {
        let bytes = self.queue.push(pieces) as u32;
        self.sent.push_back(Sent {
            pending_reply,
            end: self.queue.end(),
            bytes,
        });
    }

    /// The attempt to connect has succeeded.
    pub(crate) fn opened(&mut self, socket: OwnedFd, now: Ns) {
        self.state = State::Open(socket);
        self.input.clear();
        (self.heard_at, self.kept_alive_at) = (now, now);
        self.failures = 0;
    }

    pub(crate) fn notice(&mut self, event: &Event) {
        self.input.notice(event);
    }

    /// Reads once and hands the replies to `handler`. Returns the number of bytes read, and whether there may be more.
    pub(crate) fn read<H: LinkHandler>(
        &mut self,
        handler: &mut H,
        buffer: &mut [u8],
        options: &LinksOptions,
        now: Ns,
    ) -> Result<(usize, bool), LinkFailure> {
        let State::Open(socket) = &self.state else {
            return Ok((0, false));
        };
        let (sent, written) = (&mut self.sent, self.queue.written());
        let count = self.input.turn(socket.as_fd(), buffer, |bytes| {
            let mut used = 0;
            loop {
                match frame::next(bytes, used, options.reply_bytes_max)? {
                    Next::Body(body) => {
                        let front = sent.pop_front_if(|sent| sent.end <= written);
                        let front = front.ok_or(LinkFailure::Unasked)?;
                        used = body.end;
                        handler.fill(front.pending_reply, LinkReply::Bytes(&bytes[body]));
                    }
                    Next::KeepAlive => used += PREFIX_BYTES,
                    Next::Part => return Ok::<_, LinkFailure>(used),
                }
            }
        })?;
        if count > 0 {
            self.heard_at = now;
        }
        Ok((count, self.input.is_readable()))
    }

    /// Writes what the socket has space for. Returns the number of bytes written.
    pub(crate) fn write(&mut self) -> io::Result<u64> {
        let State::Open(socket) = &self.state else {
            return Ok(0);
        };
        let before = self.queue.written();
        if !self.queue.write(socket.as_fd())? {
            // A message that is partly written may have to come back.
            let written = self.queue.written();
            let first = self.sent.partition_point(|sent| sent.end <= written);
            let kept = self.sent.get(first).map_or(written, |sent| {
                sent.end - (PREFIX_BYTES + sent.bytes as usize) as u64
            });
            self.queue.forget_before(kept.min(written));
        }
        Ok(self.queue.written() - before)
    }

    /// Looks at the time: queues a keep-alive when one is due, and frees the memory of a link that nobody uses. A retired link ends when it
    /// waits for nothing.
    pub(crate) fn tick(&mut self, options: &LinksOptions, now: Ns) -> Result<(), LinkFailure> {
        if !matches!(self.state, State::Open(_)) {
            return Ok(());
        }
        if self.is_retired && self.sent.is_empty() {
            return Err(LinkFailure::Retired);
        }
        if now.since(self.heard_at) >= options.stall_timeout {
            return Err(LinkFailure::Silent(options.stall_timeout));
        }
        let every = Ns(options.stall_timeout.0 / 3);
        if now.since(self.heard_at.max(self.kept_alive_at)) >= every && self.queue.is_empty() {
            self.kept_alive_at = now;
            self.queue.release();
            self.input.release();
            self.sent.shrink_to_fit();
            self.queue.push_keep_alive();
        }
        Ok(())
    }

    /// Ends the link, or the attempt to make it: each message without a reply ends in `handler`. Another attempt may follow from `retry_at` on,
    /// unless the link is retired.
    pub(crate) fn close<H: LinkHandler>(&mut self, route: usize, handler: &mut H, retry_at: Ns) {
        let retry_at = if self.is_retired { Ns::MAX } else { retry_at };
        self.state = State::Closed { retry_at };
        let written = self.queue.written();
        for sent in self.sent.drain(..) {
            if sent.end <= written {
                handler.fill(sent.pending_reply, LinkReply::Lost { member: &self.name });
            } else {
                let message = self.queue.before(sent.end, sent.bytes as usize);
                handler.unsent(route, sent.pending_reply, message);
            }
        }
        self.queue.clear();
        self.input.clear();
    }

    /// Counts a failed attempt, and returns how long to wait before the next.
    pub(crate) fn failed(&mut self, options: &LinksOptions) -> Ns {
        let doubled = options.backoff_min.0.saturating_mul(1 << self.failures.min(20));
        self.failures += 1;
        Ns(doubled.min(options.backoff_max.0))
    }

    /// Whether this is the first failure since the last link: the one to log.
    pub(crate) fn is_first_failure(&self) -> bool {
        self.failures == 1
    }

    /// The attempt's failure by its time, if it lasts too long.
    pub(crate) fn overdue(&self, options: &LinksOptions, now: Ns) -> Option<DialFailure> {
        match &self.state {
            State::Dialing(dialing) if now >= dialing.until => {
                Some(DialFailure::TooLate(options.connect_timeout))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::Source;
    use drover_base::Rng;
    use drover_net::Output;
    use drover_testkit::seeds::Seeds;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    /// How messages ended: by number, with the bytes of those that came back.
    #[derive(Default)]
    struct Ends(Vec<(u64, Option<Vec<u8>>)>);

    impl LinkHandler for Ends {
        type Hint = ();
        const NO_HINT: () = ();

        fn serve(&mut self, _: Source, _: &[u8], (): (), _: &mut Output) {}

        fn fill(&mut self, pending_reply: PendingReply, _: LinkReply<'_>) {
            self.0.push((pending_reply.number, None));
        }

        fn unsent(&mut self, _: usize, pending_reply: PendingReply, message: &[u8]) {
            self.0.push((pending_reply.number, Some(message.to_vec())));
        }
    }

    #[test]
    fn messages_come_back_whole_unless_the_peer_has_all_of_them() {
        let seeds = Seeds::new(5, 50);
        println!("{seeds}");
        seeds.each(|seed| {
            let mut rng = Rng::new(seed, 0, 0);
            let (own, mut peer) = UnixStream::pair().expect("descriptors");
            let mut link = Outgoing::new(0, 0);
            link.opened(own.into(), Ns::ZERO);
            let messages: Vec<Vec<u8>> = (0..100)
                .map(|number| vec![number; rng.below(20_000) as usize])
                .collect();
            for (number, message) in (0..).zip(&messages) {
                let pending_reply = PendingReply {
                    connection: 0,
                    number,
                };
                link.push(pending_reply, &[message]);
            }
            // The socket takes some, and more when the peer has read some.
            let (mut written, mut read) = (link.write().expect("it is open"), 0);
            let enough = rng.below(900_000);
            while written < enough && !link.queue.is_empty() {
                read += peer.read(&mut vec![0; 100_000]).expect("there is something");
                written += link.write().expect("it is open");
            }
            assert!(read as u64 <= written);
            let mut ends = Ends::default();
            link.close(0, &mut ends, Ns::ZERO);
            let mut end = 0;
            for ((number, back), message) in ends.0.iter().zip(&messages) {
                end += (PREFIX_BYTES + message.len()) as u64;
                let expected = (end > written).then_some(message);
                assert!(back.as_ref() == expected, "message {number}");
            }
            assert!(ends.0.iter().map(|end| end.0).eq(0..100));
        });
    }

    #[test]
    fn a_long_message_has_space_while_less_than_half_is_used() {
        let options = LinksOptions {
            queue_bytes: 1000,
            outstanding_max: 10,
            ..LinksOptions::default()
        };
        let pending_reply = PendingReply {
            connection: 0,
            number: 0,
        };
        let mut link = Outgoing::new(0, 0);
        link.state = State::Wanted;
        let space = |link: &Outgoing| [100, 2000].map(|bytes| link.has_space(bytes, &options));
        link.push(pending_reply, &[&[0; 400]]);
        assert_eq!(space(&link), [true, true]);
        link.push(pending_reply, &[&[0; 400]]);
        assert_eq!(space(&link), [true, false]);
        link.push(pending_reply, &[&[0; 100]]);
        assert_eq!(space(&link), [false, false]);
        link.refused = true;
        assert!(!link.has_space_again(&options));
        link.queue.clear();
        assert_eq!(space(&link), [true, true]);
        assert!(link.has_space_again(&options) && !link.has_space_again(&options));
        (3..10).for_each(|_| link.push(pending_reply, &[b"m"]));
        assert_eq!(space(&link), [false, false], "as many as allowed are outstanding");
    }
}
