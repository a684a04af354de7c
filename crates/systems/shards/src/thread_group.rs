//! [`ThreadGroup`]: the threads of a service. They start together and end together, and the group reports why a thread
//! ended without being asked to.

use drover_kv::StartError;
use drover_verbs::Waker;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// The threads of a service. Dropping the group stops them and waits until they have ended.
pub struct ThreadGroup {
    threads: Vec<JoinHandle<()>>,
    stoppers: Vec<Waker>,
    /// Becomes readable when a thread has ended by itself.
    ended: PipeReader,
    end: End,
}

/// The means by which a new thread reports that it is ready, with a `T` for its starter, or why it is not. The starter
/// waits at the [`Starting`].
pub struct Hello<T>(Sender<Result<T, StartError>>);

impl<T> Hello<T> {
    /// Reports that the thread is ready, or an error. Returns false if the starter no longer waits: the thread should
    /// end.
    pub fn say(&self, ready: Result<T, StartError>) -> bool {
        self.0.send(ready).is_ok()
    }
}

/// A thread that was started and may not be ready yet. Dropping this does not stop the thread: its [`Hello::say`]
/// returns false.
#[must_use = "only `wait` reports that the thread failed to start"]
pub struct Starting<T> {
    name: String,
    said: Receiver<Result<T, StartError>>,
    /// Why there is no thread.
    refused: Option<io::Error>,
}

impl<T> Starting<T> {
    /// Blocks until the thread is ready, and returns what it reported.
    ///
    /// # Errors
    /// The error that the thread reported; [`StartError::Thread`] if it ended before it reported or could not be
    /// started.
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

/// Blocks until each thread is ready or has failed. Returns the reports of the ready ones, in order, and the first
/// error with the index of its thread. If there is an error, the caller stops the ready threads.
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
    /// Creates a group without threads.
    ///
    /// # Errors
    /// [`StartError::System`] if no pipe can be created, for example because no descriptors are left.
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

    /// Starts a thread called `name`, which runs `work`. `work` reports by its [`Hello`] when it is ready; later it
    /// returns `Ok` because it was asked to stop, or else the reason why it ends. A thread that cannot be started fails
    /// in [`Starting::wait`].
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

    /// Adds a waker that [`stop`](ThreadGroup::stop) calls to ask a thread to end. Wakers added last are called first.
    /// A thread without one is only waited for.
    pub fn stop_by(&mut self, stopper: Waker) {
        self.stoppers.push(stopper);
    }

    /// A descriptor that becomes readable when a thread has ended without being asked to.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Why the first thread that ended without being asked to did so; `None` if none has.
    pub fn why(&self) -> Option<String> {
        let why = self.end.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.clone()
    }

    /// Asks all threads to stop, and blocks until they have ended.
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
