//! A core of a member: a thread with a partition, which executes what its inbox brings.

use super::Flaw;
use super::copies::{CopyLinks, CopyReply};
use drover_base::{Cpu, HashSeed, KeyHash, Ns};
use drover_cluster::{ServedShards, Verdict};
use drover_links::{LinkHandler, LinkInbox, LinkReply, Links, LinksOptions, MemberIdentity, Source};
use drover_mem::{NativeCpu, PageWish, entropy};
use drover_memcached::replicas::Hold;
use drover_memcached::{
    Core, Executor, MemberCounters, NoHooks, Server, Settings, SingleCore, Source as MessageSource,
};
use drover_net::{Output, PendingReply};
use drover_store::{ExtraPut, Hint, Key, Mode, Partition, PartitionOptions};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::time::Duration;

/// Seed of the service's hash.
pub const SEED: HashSeed = HashSeed::new(1, 2);
/// Bytes of items per bucket, which has space for eight.
const BUCKET_SHARE: usize = 1 << 10;
/// Longest time between two rounds.
const ROUND: Duration = Duration::from_micros(200);
/// Requests that are decided about together before any is executed, as a real core does.
const BATCH: usize = 8;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    Get,
    Put { value: u64, flags: u32, ttl_s: u32 },
    Delete,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Value(Option<Found>),
    Stored,
    Deleted(bool),
    Elsewhere,
}

/// What a client sees of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    pub value: u64,
    pub flags: u32,
    pub cas: u64,
    pub expires: bool,
}

/// What comes to a core.
pub enum Job {
    /// A message of a hand-over.
    Message(Vec<u8>, Sender<Vec<u8>>),
    /// A message about copies.
    Copies(Vec<u8>, CopyReply),
    /// As that, from the core's own member.
    OwnCopies(Vec<u8>, Sender<Vec<u8>>),
    /// A client's request.
    Request {
        key: Vec<u8>,
        op: Op,
        answer: SyncSender<Answer>,
    },
}

pub struct TestCore {
    pub index: usize,
    pub shards: Arc<ServedShards>,
    pub flaw: Option<Flaw>,
    /// Memory for items.
    pub log_bytes: usize,
    pub inbox: Receiver<Job>,
    /// With links: as which member, and who wants their inbox.
    pub linked: Option<(Arc<MemberIdentity>, Sender<LinkInbox>)>,
    /// With replicas: the ways to the keepers of copies.
    pub copies: Option<CopyLinks>,
    pub stop: Arc<AtomicBool>,
}

/// Replies that have not left yet.
type Answers = Vec<(SyncSender<Answer>, Answer)>;

impl TestCore {
    pub fn run(mut self) {
        let options = PartitionOptions {
            mode: Mode::Store,
            log_bytes: self.log_bytes,
            bucket_count: self.log_bytes / BUCKET_SHARE,
            pages: PageWish::Small,
            ..PartitionOptions::default()
        };
        let mut partition: Partition = Partition::create(&options).expect("memory");
        let cpu = NativeCpu::new(1);
        let mut core = match &self.copies {
            None => Core::default(),
            Some(_) => Core::of_member(
                self.shards.clone(),
                self.index,
                Arc::new(MemberCounters::default()),
            )
            .with_replicas(entropy()),
        };
        let mut copies = self.copies.take();
        let mut answers = Answers::new();
        let settings = Settings {
            bucket_count: (self.log_bytes / BUCKET_SHARE) as u64,
            ..Settings::default()
        };
        let server = Server::new(SEED.hasher(), 1_700_000_000, 1, settings, Box::new(NoHooks));
        let mut waiting = VecDeque::new();
        let mut links = self.linked.as_ref().map(|(identity, wanted)| {
            let links = Links::new(identity.clone(), LinksOptions::default(), Box::new(|_| None));
            let links = links.expect("descriptors");
            wanted.send(links.inbox()).expect("it is waited for");
            links
        });
        while !self.stop.load(Ordering::Relaxed) {
            self.shards.begin_round(self.index);
            if let Some(links) = &mut links {
                let now = cpu.refresh();
                let mut executor = Executor {
                    partition: &mut partition,
                    cpu: &cpu,
                    now_s: second(now),
                    core: &mut core,
                    server: &server,
                    router: &mut SingleCore,
                };
                links.step(&mut Handler(&mut executor), now);
                // This core does not sleep long anyway.
                let _ = links.flush();
            }
            if let Some(copies) = &mut copies {
                let now = cpu.refresh();
                let mut executor = Executor {
                    partition: &mut partition,
                    cpu: &cpu,
                    now_s: second(now),
                    core: &mut core,
                    server: &server,
                    router: &mut SingleCore,
                };
                waiting.extend(self.inbox.try_iter());
                take_copies(&mut waiting, &mut executor);
                let ended: Vec<_> = copies.ended.try_iter().collect();
                for (pending, reply) in ended {
                    executor.take_copy_reply(pending, reply.as_deref());
                }
                self.settle(executor.step_copies(copies), &mut answers);
                if self.shards.is_held(self.index) {
                    std::thread::park_timeout(ROUND / 4);
                    continue;
                }
            }
            if waiting.is_empty() {
                match self.inbox.recv_timeout(ROUND) {
                    Ok(job) => waiting.push_back(job),
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            waiting.extend(self.inbox.try_iter());
            let now = cpu.refresh();
            let mut executor = Executor {
                partition: &mut partition,
                cpu: &cpu,
                now_s: second(now),
                core: &mut core,
                server: &server,
                router: &mut SingleCore,
            };
            let batch = waiting.drain(..waiting.len().min(BATCH));
            let decided: Vec<_> = batch.map(|job| (self.decide(&job, now), job)).collect();
            // A core may serve messages between its decisions and what they are about: that is what rounds are for.
            let early = if self.flaw == Some(Flaw::RoundsCountForNothing) {
                5
            } else {
                1
            };
            for _ in 0..early {
                if self.flaw == Some(Flaw::RoundsCountForNothing) {
                    std::thread::park_timeout(ROUND);
                    self.shards.begin_round(self.index);
                }
                for job in self.inbox.try_iter() {
                    match job {
                        Job::Request { .. } => waiting.push_back(job),
                        job => self.execute(Verdict::Nowhere, job, &mut executor, &mut answers),
                    }
                }
            }
            for (verdict, job) in decided {
                self.execute(verdict, job, &mut executor, &mut answers);
            }
            let hold = match &mut copies {
                Some(copies) => executor.step_copies(copies),
                None => Hold::Free,
            };
            self.settle(hold, &mut answers);
        }
    }

    /// Lets replies wait, leave, or never leave.
    fn settle(&self, hold: Hold, answers: &mut Answers) {
        let is_early = self.flaw == Some(Flaw::RepliesLeaveEarly);
        match hold {
            Hold::Void if !is_early => answers.clear(),
            Hold::Held if !is_early => {}
            _ => answers.drain(..).for_each(|(to, answer)| _ = to.send(answer)),
        }
    }

    fn decide(&self, job: &Job, now: Ns) -> Verdict {
        let Job::Request { key, op, .. } = job else {
            return Verdict::Serve;
        };
        let hash = SEED.hasher().hash(key);
        let verdict = self.shards.verdict(hash, now);
        if let Verdict::ServeNoted(shard) = verdict
            && *op != Op::Get
        {
            self.shards.note(self.index, shard, hash, key);
        }
        verdict
    }

    fn execute(
        &self,
        verdict: Verdict,
        job: Job,
        executor: &mut Executor<'_, NativeCpu>,
        answers: &mut Answers,
    ) {
        match job {
            Job::Message(message, reply) => {
                _ = reply.send(serve(executor, MessageSource::Link(0), &message));
            }
            Job::Copies(message, reply) => reply.send(serve(executor, MessageSource::Copies, &message)),
            Job::OwnCopies(message, reply) => {
                _ = reply.send(serve(executor, MessageSource::Copies, &message));
            }
            Job::Request { key, op, answer } => {
                let serves = matches!(verdict, Verdict::Serve | Verdict::ServeNoted(_));
                let said = if serves {
                    apply(executor, &key, &op)
                } else {
                    Answer::Elsewhere
                };
                answers.push((answer, said));
            }
        }
    }
}

/// Executes what is about copies, which waits for nothing.
fn take_copies(waiting: &mut VecDeque<Job>, executor: &mut Executor<'_, NativeCpu>) {
    for _ in 0..waiting.len() {
        match waiting.pop_front() {
            Some(Job::Copies(message, reply)) => {
                reply.send(serve(executor, MessageSource::Copies, &message));
            }
            Some(Job::OwnCopies(message, reply)) => {
                _ = reply.send(serve(executor, MessageSource::Copies, &message));
            }
            other => waiting.extend(other),
        }
    }
}

fn serve(executor: &mut Executor<'_, NativeCpu>, source: MessageSource, message: &[u8]) -> Vec<u8> {
    let mut output = Output::new(1, usize::MAX);
    executor.set_source(source);
    executor.serve(message, Hint::NONE, &mut output);
    bytes_of(&mut output)
}

/// Executes what comes over links.
struct Handler<'h, 'd>(&'h mut Executor<'d, NativeCpu>);

impl LinkHandler for Handler<'_, '_> {
    type Hint = ();
    const NO_HINT: () = ();

    fn serve(&mut self, _: Source, message: &[u8], (): (), reply: &mut Output) {
        self.0.serve(message, Hint::NONE, reply);
    }

    fn fill(&mut self, _: PendingReply, _: LinkReply<'_>) {
        panic!("these cores send nothing");
    }

    fn unsent(&mut self, _: usize, _: PendingReply, _: &[u8]) {
        panic!("these cores send nothing");
    }
}

/// Seconds since the start, at least 1.
fn second(now: Ns) -> u32 {
    1 + (now.0 / 1_000_000_000) as u32
}

fn apply(executor: &mut Executor<'_, NativeCpu>, key: &[u8], op: &Op) -> Answer {
    let hash: KeyHash = SEED.hasher().hash(key);
    let (key, cpu, now_s) = (Key { hash, bytes: key }, executor.cpu, executor.now_s);
    match *op {
        Op::Get => Answer::Value(executor.partition.get(cpu, key, now_s).map(|item| {
            let mut value = [0; 8];
            item.copy_value(&mut value);
            Found {
                value: u64::from_le_bytes(value),
                flags: item.flags(),
                cas: item.cas(),
                expires: item.expire_s() != 0,
            }
        })),
        Op::Put { value, flags, ttl_s } => {
            let put = ExtraPut {
                value: &[&value.to_le_bytes()],
                flags,
                expire_s: if ttl_s == 0 { 0 } else { now_s + ttl_s },
                ..ExtraPut::default()
            };
            executor.partition.put_extra(cpu, key, &put, now_s);
            Answer::Stored
        }
        Op::Delete => Answer::Deleted(executor.partition.delete(cpu, key, now_s)),
    }
}

fn bytes_of(output: &mut Output) -> Vec<u8> {
    let mut bytes = Vec::new();
    while output.ready_bytes() > 0 {
        let mut slices = [IoSlice::new(&[]); 8];
        let count = output.slices(&mut slices);
        let before = bytes.len();
        slices[..count]
            .iter()
            .for_each(|slice| bytes.extend_from_slice(slice));
        output.wrote(bytes.len() - before);
    }
    bytes
}
