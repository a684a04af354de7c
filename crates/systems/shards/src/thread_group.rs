//! [`ThreadGroup`]: the threads of a service. They start together, end together, and the group says why if one ends by itself.

use drover_kv::StartError;
use drover_verbs::Waker;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// The threads of a service. They are stopped when it is dropped.
pub struct ThreadGroup {
    threads: Vec<JoinHandle<()>>,
    stoppers: Vec<Waker>,
    /// Becomes readable when a thread has ended by itself.
    ended: PipeReader,
    end: End,
}

/// Tells a starter that a thread is ready, and what it needs to know of it; or why it is not.
pub struct Hello<T>(Sender<Result<T, StartError>>);

impl<T> Hello<T> {
    /// Says it. False: the starter has given up, and the thread should end.
    pub fn say(&self, ready: Result<T, StartError>) -> bool {
        self.0.send(ready).is_ok()
    }
}

/// A thread that may not be ready yet.
#[must_use = "who does not wait does not learn of a failure"]
pub struct Starting<T> {
    name: String,
    said: Receiver<Result<T, StartError>>,
    /// Why there is no thread.
    refused: Option<io::Error>,
}

impl<T> Starting<T> {
    /// Waits until the thread is ready.
    ///
    /// # Errors
    /// What it said, that it ended before it was ready, or that the system refused another thread.
    pub fn wait(self) -> Result<T, StartError> {
        self.said.recv().unwrap_or_else(|_| {
            let early = || "it ended before it was ready".to_owned();
            Err(StartError::Thread {
                name: self.name,
                reason: self.refused.map_or_else(early, |error| error.to_string()),
            })
        })
    }
}

/// Waits until all are ready. Returns those that are, which must be told to stop if another is not, and the first error with
/// the index of its thread.
pub fn wait_for_all<T>(starting: Vec<Starting<T>>) -> (Vec<T>, Result<(), (usize, StartError)>) {
    let (mut ready, mut result) = (Vec::new(), Ok(()));
    for (index, starting) in starting.into_iter().enumerate() {
        match starting.wait() {
            Ok(one) => ready.push(one),
            Err(error) => result = result.and(Err((index, error))),
        }
    }
    (ready, result)
}

impl ThreadGroup {
    /// No threads yet.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new() -> Result<ThreadGroup, StartError> {
        let (ended, pipe) = io::pipe().map_err(|source| StartError::System { what: "pipe", source })?;
        Ok(ThreadGroup {
            threads: Vec::new(),
            stoppers: Vec::new(),
            ended,
            end: End {
                why: Arc::default(),
                pipe: Arc::new(pipe),
            },
        })
    }

    /// Starts the thread `name`. Its `work` says [hello](Hello) when it is ready; afterwards it returns `Ok` if it was asked
    /// to stop, and else why it cannot go on.
    pub fn start<T: Send + 'static>(
        &mut self,
        name: String,
        work: impl FnOnce(&Hello<T>) -> Result<(), String> + Send + 'static,
    ) -> Starting<T> {
        let (sender, said) = channel();
        let last_words = LastWords {
            end: self.end.clone(),
            why: Some(format!("{name} panicked")),
        };
        let thread = Builder::new().name(name.clone()).spawn(move || {
            let mut last_words = last_words;
            last_words.why = work(&Hello(sender)).err();
        });
        let refused = match thread {
            Ok(thread) => {
                self.threads.push(thread);
                None
            }
            Err(error) => Some(error),
        };
        Starting { name, said, refused }
    }

    /// Asks by `stopper`, too, when the group is to stop: before those that were given earlier.
    pub fn stop_by(&mut self, stopper: Waker) {
        self.stoppers.push(stopper);
    }

    /// Becomes readable when a thread has ended by itself.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Why the first thread has ended by itself, if one has.
    pub fn why(&self) -> Option<String> {
        let why = self.end.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.clone()
    }

    /// Asks all threads to stop, and waits until they have.
    pub fn stop(&mut self) {
        self.stoppers.iter().rev().for_each(Waker::wake);
        for thread in self.threads.drain(..) {
            // One that panicked has printed its message.
            let _ = thread.join();
        }
    }
}

impl Drop for ThreadGroup {
    fn drop(&mut self) {
        self.stop();
    }
}

/// How the group learns that a thread has ended by itself.
#[derive(Clone)]
struct End {
    why: Arc<Mutex<Option<String>>>,
    pipe: Arc<PipeWriter>,
}

/// Tells the group at a thread's end, also that of a panic, unless there is no reason.
struct LastWords {
    end: End,
    why: Option<String>,
}

impl Drop for LastWords {
    fn drop(&mut self) {
        let Some(reason) = self.why.take() else { return };
        let mut why = self.end.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.get_or_insert(reason);
        drop(why);
        // Nobody may be waiting at the other end.
        let _ = (&*self.end.pipe).write(&[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_rt::StopFlag;

    #[test]
    fn the_first_reason_is_kept() {
        let mut group = ThreadGroup::new().expect("a pipe");
        let start = |group: &mut ThreadGroup, why: &'static str| {
            let work = move |hello: &Hello<()>| {
                hello.say(Ok(()));
                Err(why.to_owned())
            };
            let starting = group.start(why.to_owned(), work);
            starting.wait().expect("it is ready");
            let thread = group.threads.pop().expect("just started");
            thread.join().expect("it did not panic");
        };
        assert_eq!(group.why(), None);
        start(&mut group, "first");
        start(&mut group, "second");
        assert_eq!(group.why().as_deref(), Some("first"));
    }

    #[test]
    fn a_panic_is_a_reason_and_an_asked_end_is_none() {
        let mut group = ThreadGroup::new().expect("a pipe");
        let stop = StopFlag::new();
        let flag = stop.clone();
        let work = move |hello: &Hello<()>| {
            hello.say(Ok(()));
            while !flag.is_set() {
                std::thread::yield_now();
            }
            Ok(())
        };
        let starting = group.start("obedient".to_owned(), work);
        starting.wait().expect("it is ready");
        group.stop_by(Waker::new(move || stop.set()));
        group.stop();
        assert_eq!(group.why(), None);

        let work =
            |_: &Hello<()>| -> Result<(), String> { std::panic::resume_unwind(Box::new("on purpose")) };
        let starting = group.start("doomed".to_owned(), work);
        let error = starting.wait().expect_err("it never was ready");
        assert!(
            error.to_string().contains("it ended before it was ready"),
            "{error}"
        );
        group.stop();
        assert_eq!(group.why().as_deref(), Some("doomed panicked"));
    }
}
