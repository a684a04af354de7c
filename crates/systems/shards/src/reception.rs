//! [`Reception`]: asks each client that connects to the service's address for its shard, and passes the channel on.

use crate::threads::Mail;
use drover_base::Ns;
use drover_control::acceptor::{ConnId, ControlHandler, Peers};
use drover_control::service::{SelectShard, ServiceInfo, ServiceQuery, StatsQuery, StatsReply as Text};
use drover_control::{Frame, Message, refusal};
use drover_kv::{Facts, stats_text};
use drover_rt::{MailError, Mailer};
use drover_verbs::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Time after which a query stops waiting for shards that have not answered.
const PATIENCE: Ns = Ns::from_s(5);

/// Handle to a shard's thread, for other threads.
pub(super) struct Door {
    pub(super) mailer: Mailer<Mail>,
    /// Number of the shard's clients.
    pub(super) clients: Arc<AtomicUsize>,
}

/// The handler of the control thread.
pub(super) struct Reception {
    facts: &'static Facts,
    doors: Arc<[Door]>,
    clients_max: usize,
    /// Wakes the control thread when a shard has answered.
    bell: Option<Waker>,
    questions: Vec<Asked>,
}

/// A statistics query that some shards have not answered yet.
struct Asked {
    conn: ConnId,
    answers: Answers,
    until: Option<Ns>,
}

/// The shards' answers to a query.
pub(super) struct Answers {
    receiver: Receiver<(usize, Vec<u64>)>,
    counters: Vec<Option<Vec<u64>>>,
}

impl Answers {
    /// Sends the query to all shards; each answer wakes `bell`.
    pub(super) fn ask(doors: &[Door], bell: Option<&Waker>) -> Answers {
        let (sender, receiver) = channel();
        for (index, door) in doors.iter().enumerate() {
            let answer = Reply {
                index,
                sender: sender.clone(),
                bell: bell.cloned(),
            };
            // A shard that has ended or whose queue is full does not answer: the caller's wait times out.
            let _ = door.mailer.send(Mail::StatsQuery(answer));
        }
        Answers {
            receiver,
            counters: vec![None; doors.len()],
        }
    }

    /// All answers; `None` if some are missing.
    pub(super) fn complete(&mut self) -> Option<Vec<Vec<u64>>> {
        for (index, counters) in self.receiver.try_iter() {
            self.counters[index] = Some(counters);
        }
        self.counters.iter().cloned().collect()
    }

    /// Indices of the shards that have not answered.
    pub(super) fn missing(&self) -> Vec<usize> {
        let missing = |(index, counters): (usize, &Option<Vec<u64>>)| counters.is_none().then_some(index);
        self.counters.iter().enumerate().filter_map(missing).collect()
    }

    /// Waits for the next answer, at most `time`; false on timeout.
    pub(super) fn wait(&mut self, time: std::time::Duration) -> bool {
        let got = self.receiver.recv_timeout(time);
        let Ok((index, counters)) = got else { return false };
        self.counters[index] = Some(counters);
        true
    }
}

/// Reply handle of one shard.
pub(super) struct Reply {
    index: usize,
    sender: Sender<(usize, Vec<u64>)>,
    bell: Option<Waker>,
}

impl Reply {
    /// Sends the answer.
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
        // Relaxed: the limit is approximate; two clients that connect at the same time may both pass it.
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
                "this is a service of {}: a client must first select one of its {} shards",
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
                // The client may have closed the channel.
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
