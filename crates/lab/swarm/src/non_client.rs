//! [`NonClient`]: a peer that connects to the server and is no client: it asks something and leaves, says nothing, or sends
//! malformed messages.

use drover_base::{Actor, Cpu, Ns, Progress};
use drover_kv_herd::control::{Format, FrontEnd, Hello, Message, PROTOCOL_VERSION};
use drover_rt::control::ControlStream;
use drover_rt::control::service::ServiceQuery;

/// Its description in the timeline, and what it sends.
type Behaviour = (&'static str, fn(&mut ControlStream));

const BEHAVIOURS: [Behaviour; 9] = [
    ("and says nothing", |_| {}),
    ("and asks what this is", |stream| {
        let _ = stream.send_message(&ServiceQuery);
    }),
    ("and asks for statistics", |stream| {
        send(stream, &Message::StatsRequest);
    }),
    ("with another version", |stream| {
        let protocol_version = PROTOCOL_VERSION + 1;
        let hello = Hello {
            protocol_version,
            ..hello()
        };
        send(stream, &Message::Hello(hello));
    }),
    ("without a word of welcome", |stream| {
        let auth = b"ajar".to_vec();
        send(stream, &Message::Hello(Hello { auth, ..hello() }));
    }),
    ("and wants what the paper had, as datagrams", |stream| {
        let (format, front_end) = (Format::P, FrontEnd::Datagrams);
        let hello = Hello {
            format,
            front_end,
            ..hello()
        };
        send(stream, &Message::Hello(hello));
    }),
    ("and begins in the middle", |stream| {
        send(stream, &Message::BulkOpen { chunk_count: 1 });
    }),
    ("and talks nonsense", |stream| {
        let frame = Message::Hello(hello()).encode();
        let _ = stream.send(frame.kind, &frame.bytes[1..], &[]);
    }),
    ("and thinks better of it", |stream| {
        send(stream, &Message::Hello(hello()));
        send(stream, &Message::Bye);
    }),
];

fn hello() -> Hello {
    Hello {
        protocol_version: PROTOCOL_VERSION,
        format: Format::D,
        front_end: FrontEnd::Slots,
        window: 1,
        slot_bytes: 64,
        crc: false,
        resume_epoch: 0,
        auth: b"open".to_vec(),
    }
}

fn send(stream: &mut ControlStream, message: &Message) {
    let frame = message.encode();
    // The server may have closed the channel.
    let _ = stream.send(frame.kind, &frame.bytes, &frame.fds);
}

/// Describes non-client number `index`.
pub fn describe(index: usize) -> &'static str {
    BEHAVIOURS[index % BEHAVIOURS.len()].0
}

/// Keeps a channel open, shows that it is alive, and has no more to say.
pub struct NonClient(Option<ControlStream>);

/// Heartbeats are answered this often.
const LOOK_EVERY: Ns = Ns::from_ms(100);

impl NonClient {
    /// Non-client number `index` at this end of a channel.
    pub fn new(mut stream: ControlStream, index: usize) -> NonClient {
        BEHAVIOURS[index % BEHAVIOURS.len()].1(&mut stream);
        NonClient(Some(stream))
    }

    /// Goes.
    pub fn leave(&mut self) {
        self.0 = None;
    }
}

impl<C: Cpu> Actor<C> for NonClient {
    fn step(&mut self, cpu: &C) -> Progress {
        if let Some(stream) = &mut self.0 {
            match stream.recv(cpu.now()) {
                Ok(Some(_)) => return Progress::Busy,
                Ok(None) => {
                    let wake_at = cpu.now() + LOOK_EVERY;
                    return Progress::Idle { wake_at };
                }
                Err(_) => self.leave(),
            }
        }
        Progress::Idle { wake_at: Ns::MAX }
    }
}
