//! Goal: two ends of a control channel, on every carrier: frames, descriptors, heartbeats, hostile peers, addresses.

use drover_base::Ns;
use drover_control::{
    BODY_BYTES_MAX, ControlAddr, ControlError, ControlListener, ControlStream, DialError, FrameError,
    HEADER_BYTES, Header, ListenError, kind,
};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

const WAIT: Ns = Ns::from_s(10);

fn unix_pair() -> (ControlStream, ControlStream) {
    let (a, b) = UnixStream::pair().expect("socketpair");
    (
        ControlStream::from_unix(a).expect("a"),
        ControlStream::from_unix(b).expect("b"),
    )
}

fn tcp_pair() -> (ControlStream, ControlStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let a = TcpStream::connect(listener.local_addr().expect("addr")).expect("connect");
    let (b, _) = listener.accept().expect("accept");
    (
        ControlStream::from_tcp(a).expect("a"),
        ControlStream::from_tcp(b).expect("b"),
    )
}

fn pairs() -> [(ControlStream, ControlStream); 3] {
    [ControlStream::pair(), unix_pair(), tcp_pair()]
}

/// The next frame, waiting for the carrier (loopback TCP delivers a moment later).
fn next(stream: &mut ControlStream) -> Result<drover_control::Frame, ControlError> {
    for _ in 0..100 {
        if let Some(frame) = stream.recv(Ns::ZERO)? {
            return Ok(frame);
        }
        stream.wait(Ns::from_ms(100));
    }
    Err(ControlError::Timeout)
}

fn memory_file(text: &[u8]) -> Arc<OwnedFd> {
    let mut file =
        File::from(rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd"));
    file.write_all(text).expect("write");
    Arc::new(file.into())
}

#[test]
fn frames_pass_both_ways_in_order() {
    for (mut a, mut b) in pairs() {
        for i in 0..200u16 {
            a.send(kind::APPLICATION + i, &i.to_le_bytes(), &[])
                .expect("send");
        }
        b.send(99, &vec![7; BODY_BYTES_MAX], &[]).expect("send");
        for i in 0..200u16 {
            let frame = next(&mut b).expect("frame");
            assert_eq!(
                (frame.kind, frame.body),
                (kind::APPLICATION + i, i.to_le_bytes().to_vec())
            );
        }
        // The long one is more than a pipe holds: it goes out in pieces, as the reader makes space.
        let frame = loop {
            assert!(b.recv(Ns::ZERO).expect("no frame, no error").is_none());
            if let Some(frame) = a.recv(Ns::ZERO).expect("no error") {
                break frame;
            }
        };
        assert_eq!((frame.kind, frame.body.len()), (99, BODY_BYTES_MAX));
    }
}

#[test]
fn descriptors_arrive_open_and_close_on_exec() {
    for (mut a, mut b) in [ControlStream::pair(), unix_pair()] {
        let fds: Vec<_> = (0..16)
            .map(|i| memory_file(format!("file {i}").as_bytes()))
            .collect();
        a.send(20, b"before", &[]).expect("send");
        a.send(21, b"two", &fds[..2]).expect("send");
        a.send(22, b"sixteen", &fds).expect("send");
        a.send(23, b"after", &[]).expect("send");
        drop(fds);
        let counts: Vec<_> = (0..4)
            .map(|_| {
                let frame = next(&mut b).expect("frame");
                for (i, fd) in frame.fds.iter().enumerate() {
                    let mut file = File::from(fd.try_clone().expect("dup"));
                    let mut text = String::new();
                    file.rewind().expect("rewind");
                    file.read_to_string(&mut text).expect("read");
                    assert_eq!(text, format!("file {i}"));
                    let flags = rustix::io::fcntl_getfd(fd.as_fd()).expect("flags");
                    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
                }
                (frame.kind, frame.fds.len())
            })
            .collect();
        assert_eq!(counts, [(20, 0), (21, 2), (22, 16), (23, 0)]);
    }
}

#[test]
fn descriptors_over_tcp_are_refused_with_the_reason() {
    let (mut a, mut b) = tcp_pair();
    let error = a.send(20, b"", &[memory_file(b"")]).expect_err("sent");
    assert!(
        error.to_string().contains("between processes of one machine"),
        "{error}"
    );
    a.send(21, b"still open", &[]).expect("send");
    assert_eq!(next(&mut b).expect("frame").kind, 21);
}

#[test]
fn a_peer_that_goes_is_noticed_at_once_and_its_last_words_are_read() {
    for (mut a, mut b) in pairs() {
        a.send(20, b"last", &[]).expect("send");
        drop(a);
        assert_eq!(next(&mut b).expect("frame").body, b"last");
        assert!(matches!(next(&mut b), Err(ControlError::Closed)));
        assert!(b.is_closed());
        b.send(21, b"to nobody", &[]).expect("reported by recv, not here");
        assert!(matches!(b.recv(Ns::ZERO), Err(ControlError::Closed)));
    }
}

#[test]
fn a_refusal_says_why() {
    for (a, mut b) in pairs() {
        a.refuse(
            7,
            &format!("too many connections \x1b[31m{}", "\u{e9}".repeat(200)),
        );
        let Err(ControlError::Refused { code: 7, reason }) = next(&mut b) else {
            panic!("not refused");
        };
        assert!(reason.starts_with("too many connections ?[31m\u{e9}") && reason.len() <= 256);
    }
}

#[test]
fn a_silent_peer_is_given_up_and_a_live_one_is_not() {
    for (mut a, mut b) in pairs() {
        // Both look every second for a minute: pings and pongs keep both alive.
        for second in 0..60 {
            for _ in 0..3 {
                assert!(a.recv(Ns::from_s(second)).expect("a lives").is_none());
                assert!(b.recv(Ns::from_s(second)).expect("b lives").is_none());
            }
            b.wait(Ns::from_ms(1));
            a.wait(Ns::from_ms(1));
        }
        // From now on b does not look: a gives it up, but not before three looks.
        let ends: Vec<bool> = (60..65)
            .map(|second| a.recv(Ns::from_s(second)).is_err())
            .collect();
        assert_eq!(ends.iter().position(|&end| end).expect("given up"), 3, "{ends:?}");
        assert!(matches!(a.recv(Ns::from_s(65)), Err(ControlError::Closed)));
    }
}

#[test]
fn a_keeper_speaks_for_an_owner_that_is_away() {
    let (end, mut raw) = UnixStream::pair().expect("socketpair");
    raw.set_read_timeout(Some(WAIT.to_duration())).expect("timeout");
    let stream = ControlStream::from_unix(end).expect("stream");
    let keeper = stream.keeper().expect("thread");
    // It pings as it starts, although nobody calls `recv`.
    let mut header = [0; HEADER_BYTES];
    raw.read_exact(&mut header).expect("a ping");
    assert_eq!(Header::decode(&header).expect("header").kind, kind::PING);
    // It does not hold the socket open.
    drop(stream);
    assert_eq!(raw.read(&mut header).expect("end of stream"), 0);
    drop(keeper);
}

#[test]
fn a_peer_that_never_reads_is_cut_off_and_memory_is_bounded() {
    for (mut a, b) in pairs() {
        let body = vec![0; BODY_BYTES_MAX];
        let sent =
            (0..1000).position(|_| matches!(a.send(20, &body, &[]), Err(ControlError::Stalled { .. })));
        // A megabyte of ours, and whatever the system buffers (loopback TCP: some megabytes).
        assert!(sent.is_some_and(|n| n >= 16), "{sent:?}");
        assert!(a.is_closed());
        drop(b);
    }
}

#[test]
fn a_channel_that_stalls_says_how_much_waits() {
    let (mut a, b) = unix_pair();
    let fd: Arc<OwnedFd> = Arc::new(std::fs::File::open("/dev/null").expect("open").into());
    let fds = vec![fd; 200];
    let stalled = (0..1000)
        .find_map(|_| a.send(20, b"few bytes", &fds).err())
        .expect("an end");
    let ControlError::Stalled {
        queued_bytes,
        queued_fds,
    } = stalled
    else {
        panic!("{stalled}");
    };
    assert!(
        (1025..=1224).contains(&queued_fds) && queued_bytes < 1 << 10,
        "{stalled}"
    );
    drop(b);
}

#[test]
fn heartbeats_do_not_pile_up_behind_a_slow_reader() {
    let (mut a, mut b) = ControlStream::pair();
    while !a.wants_write() {
        a.send(20, &[0; 1000], &[]).expect("send");
    }
    for second in 0..3 {
        let _ = a.recv(Ns::from_s(second));
    }
    let mut frames = 0;
    while let Some(frame) = b.recv(Ns::ZERO).expect("open") {
        assert_eq!(frame.kind, 20);
        frames += 1;
    }
    assert!(frames > 50, "{frames}");
}

#[test]
fn hostile_bytes_end_the_connection_with_a_clear_error() {
    let announce = |body_bytes, fd_count| {
        Header {
            kind: 20,
            body_bytes,
            fd_count,
        }
        .encode()
        .to_vec()
    };
    let oversize = {
        let mut header = announce(0, 0);
        header[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        header
    };
    for (bytes, want) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "not a drover control channel"),
        (oversize, "at most 65536 are allowed"),
        (announce(0, 3), "announced 3 descriptors but 0 arrived"),
        (announce(10, 0), "in the middle of a frame"),
    ] {
        let (mut raw, end) = UnixStream::pair().expect("socketpair");
        let mut stream = ControlStream::from_unix(end).expect("stream");
        for byte in bytes {
            raw.write_all(&[byte]).expect("write");
            let _ = stream
                .recv(Ns::ZERO)
                .inspect_err(|error| assert!(error.to_string().contains(want), "{error}"));
            if stream.is_closed() {
                break;
            }
        }
        drop(raw);
        if !stream.is_closed() {
            let error = stream.recv(Ns::ZERO).expect_err("accepted");
            assert!(error.to_string().contains(want), "{error}");
        }
    }
}

/// Most descriptors that Linux sends at once.
const SCM_MAX_FD: usize = 253;

#[test]
fn a_flood_of_descriptors_ends_the_connection_and_leaks_none() {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
    let (raw, end) = UnixStream::pair().expect("socketpair");
    let mut stream = ControlStream::from_unix(end).expect("stream");
    let file = File::open("/dev/null").expect("open");
    let many = [file.as_fd(); SCM_MAX_FD];
    let mut space = vec![std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SCM_MAX_FD))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&many)));
    let bytes = [std::io::IoSlice::new(b"D")];
    rustix::net::sendmsg(&raw, &bytes, &mut ancillary, SendFlags::empty()).expect("send");
    assert!(matches!(
        stream.recv(Ns::ZERO),
        Err(ControlError::Frame(FrameError::LostFds))
    ));
}

#[test]
fn a_dribbling_peer_does_not_stay_alive_by_dribbling() {
    let (mut raw, end) = UnixStream::pair().expect("socketpair");
    let mut stream = ControlStream::from_unix(end).expect("stream");
    let frame = Header {
        kind: 20,
        body_bytes: 1000,
        fd_count: 0,
    }
    .encode();
    let died = (0..16).position(|i| {
        raw.write_all(&frame[i..=i]).expect("write");
        stream.recv(Ns::from_s(i as u64)).is_err()
    });
    assert_eq!(died, Some(3));
}

#[test]
fn a_flood_of_pings_does_not_capture_the_reader() {
    let (mut raw, end) = UnixStream::pair().expect("socketpair");
    let mut stream = ControlStream::from_unix(end).expect("stream");
    let ping = Header {
        kind: kind::PING,
        body_bytes: 0,
        fd_count: 0,
    }
    .encode();
    raw.write_all(&ping.repeat(500)).expect("write");
    raw.write_all(
        &Header {
            kind: 20,
            body_bytes: 0,
            fd_count: 0,
        }
        .encode(),
    )
    .expect("write");
    let turns = (0..500)
        .position(|_| stream.recv(Ns::ZERO).expect("open").is_some())
        .expect("the frame behind them");
    assert!(turns > 5, "a turn is bounded");
}

/// A directory of this test alone, removed with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("drover-control-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("directory");
        Scratch(path)
    }

    fn addr(&self) -> ControlAddr {
        format!("shm:{}", self.0.join("s.sock").display())
            .parse()
            .expect("address")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_listener_accepts_knows_its_peer_and_cleans_up() {
    let scratch = Scratch::new("accepts");
    let listener = ControlListener::bind(&scratch.addr()).expect("bind");
    assert!(listener.accept().expect("no error").is_none());
    let mut client = ControlStream::connect(&scratch.addr(), WAIT).expect("connect");
    let mut server = listener.accept().expect("accept").expect("a connection");
    let cred = server.peer_cred().expect("credentials");
    assert_eq!(
        (cred.pid, cred.uid),
        (std::process::id(), rustix::process::geteuid().as_raw())
    );
    client.send(20, b"hello", &[]).expect("send");
    assert_eq!(next(&mut server).expect("frame").body, b"hello");
    let path = scratch.0.join("s.sock");
    let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().expect("socket").permissions());
    assert_eq!(mode & 0o777, 0o700);
    drop(listener);
    assert_eq!(
        std::fs::read_dir(&scratch.0).expect("directory").count(),
        0,
        "nothing is left behind"
    );
    assert!(matches!(
        ControlStream::connect(&scratch.addr(), WAIT),
        Err(DialError::NoServer { .. })
    ));
}

#[test]
fn a_live_server_keeps_its_address() {
    let scratch = Scratch::new("live");
    let listener = ControlListener::bind(&scratch.addr()).expect("bind");
    let second = ControlListener::bind(&scratch.addr()).expect_err("two servers");
    assert!(matches!(second, ListenError::InUse { .. }), "{second}");
    ControlStream::connect(&scratch.addr(), WAIT).expect("the first still answers");
    drop(listener);
    ControlListener::bind(&scratch.addr()).expect("free again");
}

#[test]
fn a_dead_servers_socket_is_replaced_and_a_strangers_is_not() {
    let scratch = Scratch::new("dead");
    let path = scratch.0.join("s.sock");
    // What a killed server leaves: a socket file nobody listens at, and an unlocked lock file.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bind"));
    std::fs::write(scratch.0.join("s.sock.lock"), b"").expect("lock file");
    let refused = ControlStream::connect(&scratch.addr(), WAIT).expect_err("nobody there");
    assert!(matches!(refused, DialError::Refused { .. }), "{refused}");
    let listener = ControlListener::bind(&scratch.addr()).expect("replaces it");
    ControlStream::connect(&scratch.addr(), WAIT).expect("connects");
    drop(listener);
    // A live listener that knows nothing of our lock.
    let stranger = std::os::unix::net::UnixListener::bind(&path).expect("bind");
    assert!(matches!(
        ControlListener::bind(&scratch.addr()),
        Err(ListenError::InUse { .. })
    ));
    drop(stranger);
    std::fs::remove_file(&path).expect("remove");
    std::fs::write(&path, b"somebody's notes").expect("write");
    assert!(matches!(
        ControlListener::bind(&scratch.addr()),
        Err(ListenError::NotASocket { .. })
    ));
    assert!(path.exists());
}

#[test]
fn tcp_addresses_work_and_are_exclusive() {
    let any: ControlAddr = "tcp://127.0.0.1:0".parse().expect("address");
    let listener = ControlListener::bind(&any).expect("bind");
    assert!(matches!(
        ControlListener::bind(listener.addr()),
        Err(ListenError::InUse { .. })
    ));
    let mut client = ControlStream::connect(listener.addr(), WAIT).expect("connect");
    assert!(client.peer_cred().is_none() && !client.carries_fds());
    client.send(20, b"x", &[]).expect("send");
    let mut server = loop {
        if let Some(stream) = listener.accept().expect("accept") {
            break stream;
        }
        std::thread::yield_now();
    };
    assert_eq!(next(&mut server).expect("frame").kind, 20);
    let addr = listener.addr().clone();
    drop((listener, server, client));
    assert!(matches!(
        ControlStream::connect(&addr, WAIT),
        Err(DialError::Refused { .. })
    ));
}
