//! Test bed: members with one core each, in one process. One thread steps all cores and owns their clock, so that time
//! passes only when a test says so; the acceptors have threads of their own.

use drover_base::{Ns, Progress};
use drover_links::{
    AcceptorOptions, ControlLink, LinkAcceptor, LinkHandler, LinkReply, Links, LinksOptions, MemberIdentity,
    PeerAddr, Source,
};
use drover_net::{Output, PendingReply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// Rounds without anything to do before a test gives up; each waits a little.
const IDLE_ROUNDS_MAX: usize = 3_000;

/// How a message ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    Reply(Vec<u8>),
    Lost,
    Unsent(Vec<u8>),
}

/// What has happened to a member. A message `big N` is answered by N bytes, `panic` panics, any other one by `re ` and itself.
#[derive(Default)]
pub struct Events {
    /// The messages served, with their sources.
    pub served: Vec<(Source, Vec<u8>)>,
    /// How messages ended, by the number of their pending reply.
    pub ends: Vec<(u64, End)>,
    pub closed: Vec<Source>,
    /// Nothing is recorded but the number of replies.
    pub is_quiet: bool,
    pub replies: u64,
}

impl LinkHandler for Events {
    type Hint = usize;
    const NO_HINT: usize = usize::MAX;

    fn hint(&mut self, message: &[u8]) -> usize {
        message.len()
    }

    fn serve(&mut self, source: Source, message: &[u8], hint: usize, reply: &mut Output) {
        assert!(hint == usize::MAX || hint == message.len());
        if !self.is_quiet {
            self.served.push((source, message.to_vec()));
        }
        let text = std::str::from_utf8(message).unwrap_or_default();
        match text.split_once(' ') {
            Some(("big", count)) => reply.space(count.parse().expect("tests send numbers")).fill(b'x'),
            _ if text == "panic" => panic!("as the test wants"),
            _ => {
                reply.push(b"re ");
                reply.push(message);
            }
        }
    }

    fn source_closed(&mut self, source: Source) {
        self.closed.push(source);
    }

    fn fill(&mut self, pending_reply: PendingReply, reply: LinkReply<'_>) {
        self.replies += 1;
        if self.is_quiet {
            return;
        }
        let end = match reply {
            LinkReply::Bytes(bytes) => End::Reply(bytes.to_vec()),
            LinkReply::Lost { member } => {
                assert!(member.starts_with('m'));
                End::Lost
            }
        };
        self.ends.push((pending_reply.number, end));
    }

    fn unsent(&mut self, _route: usize, pending_reply: PendingReply, message: &[u8]) {
        self.ends
            .push((pending_reply.number, End::Unsent(message.to_vec())));
    }
}

/// A member.
pub struct Node {
    pub links: Links,
    pub events: Events,
    /// Not stepped while it is set.
    pub is_stopped: bool,
    _acceptor: LinkAcceptor,
}

/// All members, numbered from 0.
pub struct Bed {
    pub nodes: Vec<Option<Node>>,
    pub now: Ns,
    pub peers: Arc<Mutex<Vec<Option<PeerAddr>>>>,
    options: LinksOptions,
}

pub fn identity(member: usize) -> MemberIdentity {
    MemberIdentity {
        service: "service".into(),
        member: format!("m{member}"),
        secret: [7; 32],
    }
}

pub fn pending(number: u64) -> PendingReply {
    PendingReply {
        connection: 1,
        number,
    }
}

impl Bed {
    pub fn new(count: usize) -> Bed {
        Bed::with(count, LinksOptions::default())
    }

    pub fn with(count: usize, options: LinksOptions) -> Bed {
        let mut bed = Bed {
            nodes: (0..count).map(|_| None).collect(),
            now: Ns::from_s(1),
            peers: Arc::new(Mutex::new(vec![None; count])),
            options,
        };
        (0..count).for_each(|index| bed.start(index));
        bed
    }

    /// Starts a member that is not there.
    pub fn start(&mut self, index: usize) {
        let drop_link = |_: ControlLink| {};
        self.start_with(index, AcceptorOptions::default(), drop_link);
    }

    pub fn start_with(
        &mut self,
        index: usize,
        options: AcceptorOptions,
        control: impl FnMut(ControlLink) + Send + 'static,
    ) {
        let identity = Arc::new(identity(index));
        let peers = self.peers.clone();
        let find = move |peer: u16| peers.lock().expect("no panic")[usize::from(peer)].clone();
        let links = Links::new(identity.clone(), self.options.clone(), Box::new(find)).expect("descriptors");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let inboxes = vec![links.inbox()];
        let acceptor =
            LinkAcceptor::start(listener, identity.clone(), inboxes, control, options).expect("a thread");
        self.peers.lock().expect("no panic")[index] = Some(PeerAddr {
            name: identity.member.clone(),
            addr: acceptor.addr(),
        });
        self.nodes[index] = Some(Node {
            links,
            events: Events::default(),
            is_stopped: false,
            _acceptor: acceptor,
        });
    }

    pub fn peer(&self, index: usize) -> PeerAddr {
        self.peers.lock().expect("no panic")[index]
            .clone()
            .expect("it is there")
    }

    pub fn node(&mut self, index: usize) -> &mut Node {
        self.nodes[index].as_mut().expect("it is there")
    }

    pub fn events(&mut self, index: usize) -> &mut Events {
        &mut self.node(index).events
    }

    /// Sends from one member to another; whether it was taken.
    pub fn try_send(
        &mut self,
        from: usize,
        to: usize,
        number: u64,
        message: &[u8],
    ) -> Result<(), drover_links::SendRefused> {
        let links = &mut self.node(from).links;
        let route = links.route(to as u16, 0);
        let (start, end) = message.split_at(message.len() / 2);
        links.send(route, pending(number), &[start, end])
    }

    pub fn send(&mut self, from: usize, to: usize, number: u64, message: &[u8]) {
        self.try_send(from, to, number, message).expect("it is taken");
    }

    /// One round of all members. Returns whether any of them did something.
    pub fn round(&mut self) -> bool {
        let mut busy = false;
        for node in self.nodes.iter_mut().flatten().filter(|node| !node.is_stopped) {
            let progress = node.links.step(&mut node.events, self.now);
            busy |= node.links.flush() || progress == Progress::Busy;
        }
        busy
    }

    /// Rounds until `done`; waits for the acceptors while nothing else happens.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&mut Bed) -> bool) {
        let mut idle = 0;
        while !done(self) {
            if !self.round() && !done(self) {
                idle += 1;
                assert!(idle < IDLE_ROUNDS_MAX, "{what} did not happen");
                self.wait();
            }
        }
    }

    fn wait(&self) {
        let nodes = self.nodes.iter().flatten().filter(|node| !node.is_stopped);
        let fds = nodes.map(|node| node.links.fd());
        let mut fds: Vec<_> = fds
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let some_time = Timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        };
        let _ = poll(&mut fds, Some(&some_time));
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: Ns) {
        self.now += time;
        self.round();
    }

    /// Rounds until `count` messages of a member have ended, and takes their ends.
    pub fn ends(&mut self, index: usize, count: usize) -> Vec<(u64, End)> {
        self.until("the end of all messages", |bed| {
            bed.events(index).ends.len() >= count
        });
        std::mem::take(&mut self.events(index).ends)
    }

    /// Makes the link from one member to another.
    pub fn link(&mut self, from: usize, to: usize) {
        self.send(from, to, u64::MAX, b"hello");
        let ends = self.ends(from, 1);
        assert_eq!(ends, [(u64::MAX, End::Reply(b"re hello".to_vec()))]);
    }
}
