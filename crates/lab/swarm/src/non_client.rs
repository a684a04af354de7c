//! [`NonClient`]: a peer that connects to the server and is no client: it sends a query and leaves, sends nothing, or
//! sends malformed messages.

use drover_base::{Actor, Cpu, Ns, Progress};
use drover_control::ControlStream;
use drover_control::service::ServiceQuery;
use drover_kv_herd::control::{Format, FrontEnd, Hello, Message, PROTOCOL_VERSION};

/// Text for the timeline, and the messages sent.
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
        let _ = stream.send(frame.kind, &frame.body[1..], &[]);
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
    let _ = stream.send(frame.kind, &frame.body, &frame.fds);
}

/// Returns the text for the timeline about non-client number `index` (modulo the number of behaviours).
pub fn describe(index: usize) -> &'static str {
    BEHAVIOURS[index % BEHAVIOURS.len()].0
}

/// A peer that has sent its messages, keeps the channel open and answers heartbeats.
pub struct NonClient(Option<ControlStream>);

/// Interval at which heartbeats are answered.
const LOOK_EVERY: Ns = Ns::from_ms(100);

impl NonClient {
    /// Sends the messages of non-client number `index` (modulo the number of behaviours) over `stream`.
    pub fn new(mut stream: ControlStream, index: usize) -> NonClient {
        BEHAVIOURS[index % BEHAVIOURS.len()].1(&mut stream);
        NonClient(Some(stream))
    }

    /// Closes the channel.
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
