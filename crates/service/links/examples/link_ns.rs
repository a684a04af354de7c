//! What a message over a link costs, with its reply: `link_ns [WINDOW [MESSAGE_BYTES [REPLY_BYTES [COUNT]]]]`.
//!
//! One thread plays both members, so that the cost is that of both ends and of the system's loopback, and other programs on
//! the machine change little. WINDOW messages are kept under way: 1600 are those of 50 connections with 32 requests each.

use drover_base::{Cpu, Ns};
use drover_links::{
    AcceptorOptions, LinkAcceptor, LinkHandler, LinkReply, Links, LinksOptions, MemberIdentity, PeerAddr,
    Source,
};
use drover_mem::NativeCpu;
use drover_net::{Output, PendingReply};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// Answers with bytes of one length, and counts replies.
struct Echo {
    reply_bytes: usize,
    served: u64,
    replies: u64,
}

impl LinkHandler for Echo {
    type Hint = ();
    const NO_HINT: () = ();

    fn serve(&mut self, _: Source, message: &[u8], (): (), reply: &mut Output) {
        black_box(message);
        self.served += 1;
        reply.space(self.reply_bytes).fill(b'r');
    }

    fn fill(&mut self, _: PendingReply, reply: LinkReply<'_>) {
        assert!(matches!(black_box(reply), LinkReply::Bytes(_)));
        self.replies += 1;
    }

    fn unsent(&mut self, _: usize, _: PendingReply, _: &[u8]) {
        panic!("the link broke");
    }
}

fn member(name: &str, peer: Option<SocketAddr>) -> (Links, LinkAcceptor) {
    let identity = Arc::new(MemberIdentity {
        service: "bench".into(),
        member: name.into(),
        secret: [1; 32],
    });
    let find = move |_| {
        Some(PeerAddr {
            name: "server".into(),
            addr: peer?,
        })
    };
    let links = Links::new(identity.clone(), LinksOptions::default(), Box::new(find)).expect("descriptors");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let inboxes = vec![links.inbox()];
    let acceptor = LinkAcceptor::start(listener, identity, inboxes, |_| {}, AcceptorOptions::default());
    (links, acceptor.expect("a thread"))
}

fn thread_time() -> Ns {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Ns(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

fn main() {
    let arg = |nth, usual| {
        std::env::args()
            .nth(nth)
            .map_or(usual, |arg| arg.parse().expect("a number"))
    };
    let (window, message_bytes, reply_bytes) = (arg(1, 1600), arg(2, 60), arg(3, 60));
    let count = arg(4, 2_000_000) as u64;
    let (mut server, acceptor) = member("server", None);
    let (mut client, _acceptor) = member("client", Some(acceptor.addr()));
    let echo = || Echo {
        reply_bytes,
        served: 0,
        replies: 0,
    };
    let (mut serving, mut asking) = (echo(), echo());
    let (cpu, message) = (NativeCpu::new(0), vec![b'm'; message_bytes]);
    let route = client.route(0, 0);
    let pending = PendingReply {
        connection: 0,
        number: 0,
    };
    let (mut sent, mut steps, mut begun) = (0, 0_u64, (Ns::ZERO, Ns::ZERO));
    while asking.replies < count {
        let now = cpu.refresh();
        if asking.replies == 0 {
            begun = (now, thread_time());
        }
        let free = sent < count && sent - asking.replies < window as u64;
        while free && sent < count && sent - asking.replies < window as u64 {
            match client.send(route, pending, &[&message]) {
                Ok(()) => sent += 1,
                Err(_) => break,
            }
        }
        let _ = client.flush();
        server.step(&mut serving, now);
        let _ = server.flush();
        client.step(&mut asking, now);
        steps += 1;
    }
    let (wall, busy) = (cpu.refresh().since(begun.0), thread_time().since(begun.1));
    println!(
        "{count} messages of {message_bytes} B with replies of {reply_bytes} B, {window} under way: {:.0} ns of processor \
         time each for both ends ({:.0} ns by the clock), {:.0} messages per step",
        busy.0 as f64 / count as f64,
        wall.0 as f64 / count as f64,
        count as f64 / steps as f64
    );
}
