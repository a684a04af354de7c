//! [`Calls`]: operations of an event loop. A thread of the client's own executes them; a socket says when some are done.

use crate::errors::{exception, of_connecting};
use crate::op::{Answer, Request, closed};
use crate::options::Keywords;
use drover_client::{CallError, ClientHandle, ClientThread, Condition, Effect, Op, PutOptions};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::future::Future;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Operations that the client's thread keeps for later, when its window is full.
const QUEUED_MAX: usize = 1024;

type Running = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Operations under way, for one event loop.
#[pyclass(frozen, module = "drover_kv._native")]
pub struct Calls {
    pid: u32,
    state: Mutex<State>,
    done: Arc<Done>,
    /// Readable when something is done.
    bell: UnixStream,
}

struct State {
    /// `None`: closed.
    thread: Option<(ClientThread, ClientHandle)>,
    running: BTreeMap<u64, Running>,
    next: u64,
}

/// What the client's thread has done since the loop looked.
struct Done {
    ids: Mutex<Vec<u64>>,
    ring: UnixStream,
}

/// Notes that the operation `id` is done, or has something to do.
struct Note {
    id: u64,
    done: Arc<Done>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        let mut ids = lock(&self.done.ids);
        ids.push(self.id);
        if ids.len() == 1 {
            // Full: it rings already.
            let _ = (&self.done.ring).write(&[0]);
        }
    }
}

#[pymethods]
impl Calls {
    /// Starts a thread and connects it.
    #[new]
    fn new(py: Python<'_>, addr: String, keywords: Keywords) -> PyResult<Calls> {
        let options = keywords.options(py)?;
        let thread = py.detach(|| ClientThread::connect(&addr, &options, QUEUED_MAX));
        let thread = thread.map_err(|error| of_connecting(py, error))?;
        let (bell, ring) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        ring.set_nonblocking(true)?;
        Ok(Calls {
            pid: std::process::id(),
            state: Mutex::new(State {
                thread: Some(thread),
                running: BTreeMap::new(),
                next: 0,
            }),
            done: Arc::new(Done {
                ids: Mutex::default(),
                ring,
            }),
            bell,
        })
    }

    /// Descriptor that is readable when [`take`](Calls::take) has something.
    fn fileno(&self) -> i32 {
        self.bell.as_raw_fd()
    }

    /// Starts an operation and returns its number.
    fn start(&self, py: Python<'_>, request: Request) -> PyResult<u64> {
        if self.pid != std::process::id() {
            return Err(exception(
                py,
                "Closed",
                "the client is the parent's: connect another one after fork",
            ));
        }
        let mut state = lock(&self.state);
        let Some((_, handle)) = &state.thread else {
            return Err(closed(py));
        };
        let mut running = execute(handle.clone(), request);
        let id = state.next;
        state.next += 1;
        let note = Arc::new(Note {
            id,
            done: self.done.clone(),
        });
        // It begins when it is polled. What it is ready with already is taken as anything else is.
        let waker = Waker::from(note.clone());
        if let Poll::Ready(answer) = running.as_mut().poll(&mut Context::from_waker(&waker)) {
            running = Box::pin(std::future::ready(answer));
            note.wake();
        }
        state.running.insert(id, running);
        Ok(id)
    }

    /// Takes what is done: a list of numbers and answers, or exceptions.
    fn take(&self, py: Python<'_>) -> PyResult<Vec<(u64, Py<PyAny>)>> {
        let mut bytes = [0; 64];
        while (&self.bell).read(&mut bytes).is_ok_and(|count| count > 0) {}
        let ids = std::mem::take(&mut *lock(&self.done.ids));
        let mut done = Vec::new();
        let mut state = lock(&self.state);
        for id in ids {
            let Some(running) = state.running.get_mut(&id) else {
                continue;
            };
            let waker = Waker::from(Arc::new(Note {
                id,
                done: self.done.clone(),
            }));
            if let Poll::Ready(answer) = running.as_mut().poll(&mut Context::from_waker(&waker)) {
                state.running.remove(&id);
                done.push((id, answer));
            }
        }
        drop(state);
        let object = |(id, answer): (u64, Answer)| Ok((id, answer.object_or_exception(py)?));
        done.into_iter().map(object).collect()
    }

    /// Stops the thread. Operations without an answer get their exception from [`take`](Calls::take).
    fn close(&self, py: Python<'_>) {
        let thread = lock(&self.state).thread.take();
        match self.pid == std::process::id() {
            true => py.detach(|| drop(thread)),
            // The thread is the parent's.
            false => std::mem::forget(thread),
        }
    }
}

/// The operation's future.
fn execute(handle: ClientHandle, request: Request) -> Running {
    Box::pin(async move {
        let effect = |effect: Result<Effect, CallError>| match effect {
            Ok(Effect::Done) => Answer::Done,
            Ok(Effect::NotFound) => Answer::NotFound,
            Ok(Effect::Exists) => Answer::Exists,
            Err(error) => Answer::Failed(error),
        };
        match request.op() {
            Op::Get { key } => match handle.get(key).await {
                Ok(value) => value.map_or(Answer::NotFound, Answer::Value),
                Err(error) => Answer::Failed(error),
            },
            Op::GetItem { key } => match handle.get_item(key).await {
                Ok(item) => item.map_or(Answer::NotFound, |item| {
                    Answer::Item(item.value, item.flags, item.version)
                }),
                Err(error) => Answer::Failed(error),
            },
            Op::Put {
                key,
                value,
                ttl_s,
                flags,
                condition,
                keep,
            } => {
                let options = PutOptions {
                    ttl_s,
                    flags,
                    condition,
                    keep,
                };
                effect(handle.put_with(key, value, &options).await)
            }
            Op::Delete {
                key,
                condition: Condition::Always,
            } => match handle.delete(key).await {
                Ok(true) => Answer::Done,
                Ok(false) => Answer::NotFound,
                Err(error) => Answer::Failed(error),
            },
            Op::Delete { key, condition } => effect(handle.delete_if(key, condition).await),
            Op::Touch { key, ttl_s } => match handle.touch(key, ttl_s).await {
                Ok(true) => Answer::Done,
                Ok(false) => Answer::NotFound,
                Err(error) => Answer::Failed(error),
            },
        }
    })
}
