//! [`Reception`]: asks each client that connects to the service's address for its shard, and passes the channel on.

use crate::answers::Answers;
use crate::threads::Mail;
use drover_base::{Ns, Progress};
use drover_control::acceptor::{ConnId, ControlHandler, Peers};
use drover_control::service::{SelectShard, ServiceInfo, ServiceQuery, StatsQuery, StatsReply as Text};
use drover_control::{Frame, Message, refusal};
use drover_kv::{Facts, stats_text};
use drover_rt::{MailError, Mailer};
use drover_verbs::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    bell: Waker,
    questions: Vec<Asked>,
}

/// A statistics query that some shards have not answered yet.
struct Asked {
    conn: ConnId,
    answers: Answers<Vec<u64>>,
    until: Option<Ns>,
}

/// Asks all shards for their counters; each answer wakes `bell`.
pub(super) fn ask(doors: &[Door], bell: Option<&Waker>) -> Answers<Vec<u64>> {
    Answers::ask(doors.len(), bell, |index, reply| {
        // A shard that has ended or whose queue is full does not answer: the caller's wait times out.
        let _ = doors[index].mailer.send(Mail::StatsQuery(reply));
    })
}

impl Reception {
    pub(super) fn new(
        facts: &'static Facts,
        doors: Arc<[Door]>,
        clients_max: usize,
        bell: Waker,
    ) -> Reception {
        Reception {
            facts,
            doors,
            clients_max,
            bell,
            questions: Vec::new(),
        }
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
                    answers: ask(&self.doors, Some(&self.bell)),
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

    fn on_tick(&mut self, peers: &mut Peers, now: Ns) -> Progress {
        let facts = self.facts;
        let before = self.questions.len();
        self.questions.retain_mut(|asked| {
            if let Some(counters) = asked.answers.take() {
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
        let next = self.questions.iter().filter_map(|asked| asked.until).min();
        match self.questions.len() < before {
            true => Progress::Busy,
            false => Progress::Idle {
                wake_at: next.unwrap_or(Ns::MAX),
            },
        }
    }
}
