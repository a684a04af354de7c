//! [`Flushes`]: the flushes that a client was asked for, which a task of each session executes.

use crate::race::Race;
use drover_base::Ns;
use drover_kv::{Completion, Outcome, Refusal, Token};
use drover_rt::TaskCx;
use drover_verbs::Provider;
use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// A flush that was asked for.
#[derive(Clone, Copy)]
struct Flush {
    delay_s: u32,
    token: Token,
    deadline: Ns,
}

/// What a client and the task that flushes for it exchange. A flush that a session did not end is begun anew by the next one.
#[derive(Default)]
pub(super) struct Flushes {
    waiting: RefCell<Vec<Flush>>,
    ended: RefCell<Vec<(Token, bool)>>,
    waker: RefCell<Option<Waker>>,
}

impl Flushes {
    pub(super) fn ask(&self, delay_s: u32, token: Token, deadline: Ns) {
        let flush = Flush {
            delay_s,
            token,
            deadline,
        };
        self.waiting.borrow_mut().push(flush);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// The task of a session. Never ends.
    pub(super) async fn run<P: Provider>(&self, cx: &TaskCx<P>, race: &Race<P>) {
        loop {
            let next = poll_fn(|task| {
                *self.waker.borrow_mut() = Some(task.waker().clone());
                match self.waiting.borrow().first() {
                    Some(next) => Poll::Ready(next.delay_s),
                    None => Poll::Pending,
                }
            });
            let delay_s = next.await;
            // One for all that are alike and have been asked for by now.
            let tokens: Vec<Token> = {
                let waiting = self.waiting.borrow();
                let alike = waiting.iter().take_while(|flush| flush.delay_s == delay_s);
                alike.map(|flush| flush.token).collect()
            };
            let done = race.flush(cx, delay_s).await;
            if let Err(error) = &done {
                tracing::warn!(%error, "flushing a pool");
            }
            // Those that have been given up are gone.
            self.waiting.borrow_mut().retain(|flush| {
                let is_over = tokens.contains(&flush.token);
                if is_over {
                    self.ended.borrow_mut().push((flush.token, done.is_ok()));
                }
                !is_over
            });
        }
    }

    /// Reports what has ended, or is over its deadline; returns the number reported.
    pub(super) fn report(&self, now: Ns, sink: &mut impl FnMut(Completion<'_>)) -> usize {
        let mut ended = self.ended.borrow_mut();
        self.waiting.borrow_mut().retain(|flush| {
            let is_late = flush.deadline <= now;
            if is_late {
                ended.push((flush.token, false));
            }
            !is_late
        });
        let count = ended.len();
        for (token, is_done) in ended.drain(..) {
            let outcome = match is_done {
                true => Outcome::Deleted,
                false => Outcome::Refused(Refusal::Unavailable),
            };
            sink(Completion { token, outcome });
        }
        count
    }
}
