//! [`Reception`]: who comes in at the one address of a service is asked which shard it wants, and passed on.

use crate::threads::Mail;
use drover_base::Ns;
use drover_kv::{Facts, stats_text};
use drover_rt::acceptor::{ConnId, ControlHandler, Peers};
use drover_rt::control::service::{SelectShard, ServiceInfo, ServiceQuery, StatsQuery, StatsReply as Text};
use drover_rt::control::{Frame, Message, refusal};
use drover_rt::{MailError, Mailer};
use drover_verbs::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Shards that have not answered a question by then are not waited for.
const PATIENCE: Ns = Ns::from_s(5);

/// A shard's thread as others see it.
pub(super) struct Door {
    pub(super) mailer: Mailer<Mail>,
    /// Clients that the shard has.
    pub(super) clients: Arc<AtomicUsize>,
}

/// The handler of the control thread.
pub(super) struct Reception {
    facts: &'static Facts,
    doors: Arc<[Door]>,
    clients_max: usize,
    /// Ends the control thread's wait when a shard has answered.
    bell: Option<Waker>,
    questions: Vec<Asked>,
}

/// A question that shards have not all answered yet.
struct Asked {
    conn: ConnId,
    answers: Answers,
    until: Option<Ns>,
}

/// What shards answer.
pub(super) struct Answers {
    receiver: Receiver<(usize, Vec<u64>)>,
    counters: Vec<Option<Vec<u64>>>,
}

impl Answers {
    /// Asks all shards; `bell` is rung with each answer.
    pub(super) fn ask(doors: &[Door], bell: Option<&Waker>) -> Answers {
        let (sender, receiver) = channel();
        for (index, door) in doors.iter().enumerate() {
            let answer = Reply {
                index,
                sender: sender.clone(),
                bell: bell.cloned(),
            };
            // A shard that is gone or whose queue is full does not answer: the caller gives up.
            let _ = door.mailer.send(Mail::StatsQuery(answer));
        }
        Answers {
            receiver,
            counters: vec![None; doors.len()],
        }
    }

    /// All answers, once they are there.
    pub(super) fn complete(&mut self) -> Option<Vec<Vec<u64>>> {
        for (index, counters) in self.receiver.try_iter() {
            self.counters[index] = Some(counters);
        }
        self.counters.iter().cloned().collect()
    }

    /// Shards that have not answered.
    pub(super) fn missing(&self) -> Vec<usize> {
        let missing = |(index, counters): (usize, &Option<Vec<u64>>)| counters.is_none().then_some(index);
        self.counters.iter().enumerate().filter_map(missing).collect()
    }

    /// Waits for the next one, at most so long; false: none came.
    pub(super) fn wait(&mut self, time: std::time::Duration) -> bool {
        let got = self.receiver.recv_timeout(time);
        let Ok((index, counters)) = got else { return false };
        self.counters[index] = Some(counters);
        true
    }
}

/// Where one shard's answer goes.
pub(super) struct Reply {
    index: usize,
    sender: Sender<(usize, Vec<u64>)>,
    bell: Option<Waker>,
}

impl Reply {
    /// Answers.
    pub(super) fn reply(self, counters: Vec<u64>) {
        // The caller may have stopped waiting.
        let _ = self.sender.send((self.index, counters));
        if let Some(bell) = self.bell {
            bell.wake();
        }
    }
}

impl Reception {
    pub(super) fn new(facts: &'static Facts, doors: Arc<[Door]>, clients_max: usize) -> Reception {
        Reception {
            facts,
            doors,
            clients_max,
            bell: None,
            questions: Vec::new(),
        }
    }

    pub(super) fn ring(&mut self, bell: Waker) {
        self.bell = Some(bell);
    }

    fn visit(&mut self, peers: &mut Peers, conn: ConnId, visit: SelectShard) {
        let Some(door) = self.doors.get(usize::from(visit.shard)) else {
            let text = format!(
                "there is no shard {}: there are {}",
                visit.shard,
                self.doors.len()
            );
            return peers.refuse(conn, refusal::BAD_MESSAGE, &text);
        };
        // Relaxed: a limit, which two that come at the same time may both just pass.
        if door.clients.load(Ordering::Relaxed) >= self.clients_max {
            let text = format!("the server has {} clients, its limit (-c)", self.clients_max);
            return peers.refuse(conn, refusal::TOO_MANY_CONNECTIONS, &text);
        }
        let Some(stream) = peers.take(conn) else { return };
        if let Err(MailError::Full(Mail::Adopt(stream)) | MailError::Closed(Mail::Adopt(stream))) =
            door.mailer.send(Mail::Adopt(stream))
        {
            stream.refuse(refusal::TOO_MANY_CONNECTIONS, "the shard is busy: try again");
        }
    }
}

impl ControlHandler for Reception {
    fn on_frame(&mut self, peers: &mut Peers, conn: ConnId, frame: Frame) {
        let known = match frame.kind {
            ServiceQuery::KIND => {
                let announcement = ServiceInfo {
                    system: self.facts.name.to_owned(),
                    shard_count: self.doors.len() as u16,
                };
                peers.send_message(conn, &announcement).is_ok()
            }
            SelectShard::KIND => match frame.decode::<SelectShard>() {
                Ok(visit) => return self.visit(peers, conn, visit),
                Err(_) => false,
            },
            StatsQuery::KIND => {
                self.questions.push(Asked {
                    conn,
                    answers: Answers::ask(&self.doors, self.bell.as_ref()),
                    until: None,
                });
                true
            }
            _ => false,
        };
        if !known {
            let text = format!(
                "this is a service of {}: a client must say which of its {} shards it wants",
                self.facts.name,
                self.doors.len()
            );
            peers.refuse(conn, refusal::BAD_MESSAGE, &text);
        }
    }

    fn on_tick(&mut self, peers: &mut Peers, now: Ns) {
        let facts = self.facts;
        self.questions.retain_mut(|asked| {
            if let Some(counters) = asked.answers.complete() {
                let text = stats_text(facts.name, facts.counters, &counters);
                // It may have gone meanwhile.
                let _ = peers.send_message(asked.conn, &Text { text });
                return false;
            }
            let is_late = now >= *asked.until.get_or_insert(now + PATIENCE);
            if is_late {
                let text = format!("no answer from shards {:?}", asked.answers.missing());
                peers.refuse(asked.conn, refusal::SHUTTING_DOWN, &text);
            }
            !is_late
        });
    }
}
