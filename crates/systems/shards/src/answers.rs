//! [`Answers`]: a question to all threads of a service, and what they have answered so far.

use drover_verbs::Waker;
use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The answers of several threads to one question, collected as they arrive.
#[derive(Debug)]
pub struct Answers<T> {
    receiver: Receiver<(usize, T)>,
    answers: Vec<Option<T>>,
    taken: bool,
}

/// The means by which one thread answers a question of [`Answers::ask`].
#[derive(Debug)]
pub struct Reply<T> {
    index: usize,
    sender: Sender<(usize, T)>,
    bell: Option<Waker>,
}

/// Threads that did not answer in time, by index; none if all have answered by now, but too late.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Silent(pub Vec<usize>);

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("workers answer late");
        }
        let names: Vec<String> = self.0.iter().map(usize::to_string).collect();
        write!(f, "no answer from worker {}", names.join(", "))
    }
}

impl<T> Reply<T> {
    /// Sends the answer, and wakes the thread that asked if it gave a waker. An answer that nobody waits for is
    /// dropped.
    pub fn send(self, answer: T) {
        // The caller may have stopped waiting.
        let _ = self.sender.send((self.index, answer));
        if let Some(bell) = self.bell {
            bell.wake();
        }
    }
}

impl<T> Answers<T> {
    /// Asks `count` threads: calls `send` with the index of each thread and the [`Reply`] that it must pass on to that
    /// thread. Each answer wakes `bell`, if there is one.
    pub fn ask(count: usize, bell: Option<&Waker>, send: impl Fn(usize, Reply<T>)) -> Answers<T> {
        let (sender, receiver) = channel();
        for index in 0..count {
            let reply = Reply {
                index,
                sender: sender.clone(),
                bell: bell.cloned(),
            };
            send(index, reply);
        }
        Answers {
            receiver,
            answers: (0..count).map(|_| None).collect(),
            taken: false,
        }
    }

    /// Indices of the threads that have not answered yet. Takes in the answers that have arrived; does not block.
    pub fn missing(&mut self) -> Vec<usize> {
        for (index, answer) in self.receiver.try_iter() {
            self.answers[index] = Some(answer);
        }
        let missing = |(index, answer): (usize, &Option<T>)| answer.is_none().then_some(index);
        self.answers.iter().enumerate().filter_map(missing).collect()
    }

    /// Takes all answers, in the order of the threads; `None` if some are missing, or if they were taken before. Does
    /// not block.
    pub fn take(&mut self) -> Option<Vec<T>> {
        if self.taken || !self.missing().is_empty() {
            return None;
        }
        self.taken = true;
        Some(self.answers.drain(..).flatten().collect())
    }

    /// Blocks until all answers have arrived, at most `patience` for each, and returns them in the order of the
    /// threads.
    ///
    /// # Errors
    /// The threads that have not answered; none if the answers were [taken](Answers::take) before.
    pub fn wait(mut self, patience: Duration) -> Result<Vec<T>, Silent> {
        while !self.missing().is_empty() {
            let Ok((index, answer)) = self.receiver.recv_timeout(patience) else {
                break;
            };
            self.answers[index] = Some(answer);
        }
        self.take().ok_or_else(|| Silent(self.missing()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_in_the_order_of_the_threads() {
        let (replies, asked) = channel();
        let mut answers = Answers::ask(2, None, |_, reply| replies.send(reply).expect("a receiver"));
        let (first, second) = (asked.recv().expect("asked"), asked.recv().expect("asked"));
        second.send("b");
        assert_eq!(answers.take(), None);
        first.send("a");
        assert_eq!(answers.take(), Some(vec!["a", "b"]));
        assert_eq!(answers.take(), None, "once");
    }

    #[test]
    fn who_does_not_answer_is_named() {
        let answers = Answers::ask(3, None, |index, reply| {
            if index == 1 {
                reply.send(());
            }
        });
        assert_eq!(answers.wait(Duration::from_secs(60)), Err(Silent(vec![0, 2])));
    }
}
