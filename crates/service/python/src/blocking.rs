//! [`Sessions`]: one client object for all threads, with a session of its own in each.

use crate::errors::{of_call, of_connecting};
use crate::op::{Answer, Request, closed};
use crate::options::Keywords;
use drover_client::{CallError, Error, Ns, Op, Options, Pipeline, SubmitError, Token};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Time after which a thread that waits looks whether Python has a signal for it.
const SIGNALS: Ns = Ns::from_ms(100);

/// Sessions with one service, one for each thread that calls. Clients cannot move between threads, and Python's threads may not wait
/// for each other.
#[pyclass(frozen, module = "drover_kv._native")]
pub struct Sessions {
    service: Arc<Service>,
}

/// What sessions are made from.
struct Service {
    id: u64,
    addr: String,
    options: Options,
    is_closed: AtomicBool,
}

/// A thread's session.
struct Session {
    service: Arc<Service>,
    pipeline: Pipeline,
    /// Number of the session in its thread.
    number: u64,
    /// Tokens below belong to operations that nobody waits for any more.
    next: Token,
    /// An operation is under way: a signal's handler that uses the client meanwhile takes another session.
    is_busy: bool,
}

thread_local! {
    static OWN: RefCell<Own> = const { RefCell::new(Own { pid: 0, made: 0, sessions: Vec::new() }) };
}

/// The sessions of this thread.
struct Own {
    /// The process that made them.
    pid: u32,
    /// Number of sessions so far.
    made: u64,
    sessions: Vec<Session>,
}

impl Own {
    /// A session with `service` that is not busy.
    fn free(&mut self, service: &Arc<Service>) -> Result<&mut Session, Error> {
        let pid = std::process::id();
        if self.pid != pid {
            // After a fork they are the parent's: its memory and descriptors must not be touched, not even to be freed.
            std::mem::forget(std::mem::take(&mut self.sessions));
            self.pid = pid;
        }
        let is_it = |one: &Session| one.service.id == service.id && !one.is_busy;
        if let Some(at) = self.sessions.iter().position(is_it) {
            return Ok(&mut self.sessions[at]);
        }
        // Of clients that other threads have closed.
        self.sessions
            .retain(|one| one.is_busy || !one.service.is_closed.load(Ordering::Relaxed));
        let session = Session {
            service: service.clone(),
            pipeline: Pipeline::connect(&service.addr, &service.options)?,
            number: self.made,
            next: 0,
            is_busy: false,
        };
        self.made += 1;
        self.sessions.push(session);
        let last = self.sessions.len() - 1;
        Ok(&mut self.sessions[last])
    }

    /// The session of this number, which is busy.
    fn busy(&mut self, number: u64) -> &mut Session {
        let is_it = |one: &&mut Session| one.number == number;
        let session = self.sessions.iter_mut().find(is_it);
        session.expect("busy sessions are kept")
    }
}

/// A call, which may need several turns.
struct Call {
    first: Token,
    submitted: usize,
    answers: Vec<Option<Answer>>,
    missing: usize,
}

impl Call {
    /// Submits those of the operations that were not, and waits a little. Returns whether all have answers.
    fn turn<'o>(&mut self, pipeline: &mut Pipeline, op: &impl Fn(usize) -> Op<'o>) -> bool {
        loop {
            while self.submitted < self.answers.len() {
                let token = self.first + self.submitted as Token;
                match pipeline.submit(&op(self.submitted), token) {
                    Ok(()) => {}
                    Err(SubmitError::WindowFull) => break,
                    Err(error) => self.settle(self.submitted, Answer::Failed(CallError::Submit(error))),
                }
                self.submitted += 1;
            }
            if self.missing == 0 {
                return true;
            }
            let first = self.first;
            let finished = pipeline.wait_for(SIGNALS, &mut |done| {
                if let Some(index) = done.token.checked_sub(first) {
                    self.settle(index as usize, Answer::of(done.outcome));
                }
            });
            if finished == 0 {
                return false;
            }
        }
    }

    fn settle(&mut self, index: usize, answer: Answer) {
        if let Some(place @ None) = self.answers.get_mut(index) {
            *place = Some(answer);
            self.missing -= 1;
        }
    }
}

impl Sessions {
    /// Executes operations, of which many are under way at once, without the interpreter's lock.
    fn execute<'o>(
        &self,
        py: Python<'_>,
        count: usize,
        op: impl Fn(usize) -> Op<'o> + Sync,
    ) -> PyResult<impl Iterator<Item = Answer>> {
        if self.service.is_closed.load(Ordering::Relaxed) {
            return Err(closed(py));
        }
        let service = &self.service;
        let mut call = Call {
            first: 0,
            submitted: 0,
            answers: (0..count).map(|_| None).collect(),
            missing: count,
        };
        let mut number = None;
        loop {
            let turn = py.detach(|| {
                OWN.with_borrow_mut(|own| {
                    let session = match number {
                        Some(number) => own.busy(number),
                        None => {
                            let session = own.free(service)?;
                            number = Some(session.number);
                            session.is_busy = true;
                            call.first = session.next;
                            session.next += count as Token;
                            session
                        }
                    };
                    let is_done = call.turn(&mut session.pipeline, &op);
                    session.is_busy = !is_done;
                    Ok(is_done)
                })
            });
            match turn {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => return Err(of_connecting(py, error)),
            }
            // A handler may raise, and its thread does not wait for the rest then.
            if let Err(raised) = py.check_signals() {
                let number = number.expect("it has had a turn");
                OWN.with_borrow_mut(|own| own.busy(number).is_busy = false);
                return Err(raised);
            }
        }
        Ok(call.answers.into_iter().flatten())
    }
}

#[pymethods]
impl Sessions {
    /// Connects this thread.
    #[new]
    fn new(py: Python<'_>, addr: String, keywords: Keywords) -> PyResult<Sessions> {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let service = Arc::new(Service {
            // Relaxed: only the number matters.
            id: IDS.fetch_add(1, Ordering::Relaxed),
            addr,
            options: keywords.options(py)?,
            is_closed: AtomicBool::new(false),
        });
        let connected = py.detach(|| OWN.with_borrow_mut(|own| own.free(&service).map(drop)));
        connected.map_err(|error| of_connecting(py, error))?;
        Ok(Sessions { service })
    }

    /// Executes one request and returns its answer; raises what it fails with.
    fn call(&self, py: Python<'_>, request: Request) -> PyResult<Py<PyAny>> {
        let answer = self.execute(py, 1, |_| request.op())?.next();
        answer.map_or_else(|| Err(of_call(py, CallError::Gone)), |answer| answer.object(py))
    }

    /// Executes requests, many at once, and returns the list of their answers; one that fails has its exception there.
    fn calls(&self, py: Python<'_>, requests: Vec<Request>) -> PyResult<Vec<Py<PyAny>>> {
        let answers = self.execute(py, requests.len(), |i| requests[i].op())?;
        answers.map(|answer| answer.object_or_exception(py)).collect()
    }

    /// Looks up a key: its value, or `None`. As a call, without its request.
    fn get(&self, py: Python<'_>, key: PyBackedBytes) -> PyResult<Option<Py<PyAny>>> {
        let answer = self.execute(py, 1, |_| Op::Get { key: &key })?.next();
        answer.map(|answer| answer.object(py)).transpose()
    }

    /// Looks up keys: the list of their values, `None` for those that there are not. Raises the first error.
    fn get_many(&self, py: Python<'_>, keys: Vec<PyBackedBytes>) -> PyResult<Vec<Py<PyAny>>> {
        let answers = self.execute(py, keys.len(), |i| Op::Get { key: &keys[i] })?;
        answers.map(|answer| answer.object(py)).collect()
    }

    /// Ends this thread's session; those of other threads end when they next use a client, or with their thread.
    fn close(&self) {
        self.service.is_closed.store(true, Ordering::Relaxed);
        OWN.with_borrow_mut(|own| {
            let is_other = |one: &Session| one.is_busy || one.service.id != self.service.id;
            if own.pid == std::process::id() {
                own.sessions.retain(is_other);
            }
        });
    }
}
