//! [`Echo`]: the second process of the bare ring and the bare socket.
//!
//! The parent starts it through a [`Helper`]. The child's standard input is the shared memory (a memfd); its standard
//! output is a Unix socket for commands, acknowledgements and the bare socket's messages. Between sessions the child
//! sleeps in a read; it ends with its parent.

use super::ring::{self, Asker, Shape};
use super::socket;
use super::speed;
use crate::driver::since;
use crate::{Helper, pin};
use drover_base::Ns;
use drover_mem::{AllocError, LINE_BYTES, PageWish, Region, timestamp};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, ExitCode, Stdio};
use std::time::Duration;

const RING: u64 = 1;
const SOCKET: u64 = 2;
const SPEED: u64 = 3;
const ACK: u64 = 0x6f6b;

/// Checks (one per 4096 polls) after which a silent child counts as dead: some seconds.
const GIVE_UP_LOOKS: u32 = 1 << 16;

/// Interval between clock reads while a ring runs, nanoseconds.
const CLOCK_NS: u64 = 20_000;
/// Time limit of a probe, nanoseconds: on a busy machine round trips may take time slices.
const PROBE_NS_MAX: u64 = 100_000_000;

/// Reason why a measurement with the echo process ([`Echo`]) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EchoError {
    /// Shared memory could not be allocated.
    #[error(transparent)]
    Memory(#[from] AllocError),
    /// The child could not be started, ended, or did not answer a command within 10 s.
    #[error("the echo process cannot be reached: {0}")]
    Io(#[from] std::io::Error),
    /// The child has not answered a request in the ring for some seconds, or sent a wrong acknowledgement.
    #[error("the echo process went silent")]
    Silent,
}

/// Our end of a running echo process: a child that answers each 64 B with 64 B, over a ring in shared memory or a Unix
/// socket. Owns the child, the ring's memory and the socket; dropping it kills the child.
pub struct Echo {
    child: Child,
    control: UnixStream,
    region: Region,
}

impl Echo {
    /// Starts the echo process, pinned to `core`. The kernel also kills it when the calling thread ends.
    ///
    /// # Errors
    /// No shared memory, or the child could not be started.
    pub fn start(helper: &Helper, core: usize) -> Result<Echo, EchoError> {
        let region = Region::shared(ring::REGION_BYTES, PageWish::Small)?;
        let memory = region.share(true)?.expect("shared memory has a descriptor");
        let (control, theirs) = UnixStream::pair()?;
        // Every acknowledgement comes at once, and a dead child closes the socket.
        control.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut command = helper.echo();
        command
            .stdin(Stdio::from(memory))
            .stdout(Stdio::from(OwnedFd::from(theirs)));
        let child = pin::pinned(&[core], || command.spawn())??;
        Ok(Echo {
            child,
            control,
            region,
        })
    }

    /// Measures the ring for about `time` (above 0) with `window` requests in flight, clamped to 1 to
    /// [`WINDOW_MAX`](super::WINDOW_MAX), and replies of `reply_bytes` (whole lines, at most 2 MiB in flight). The calling
    /// thread is the client. Returns answered requests per second.
    ///
    /// # Errors
    /// The child failed or does not answer.
    pub fn ring_ops(&mut self, window: usize, reply_bytes: usize, time: Ns) -> Result<f64, EchoError> {
        let shape = Shape::new(window, reply_bytes.div_ceil(LINE_BYTES));
        self.ring(shape, |asker| {
            let began = timestamp();
            let (mut done, mut chunk, mut ns) = (0, 1, 0);
            while ns < time.0 {
                if !asker.exchange(chunk, GIVE_UP_LOOKS) {
                    return Err(EchoError::Silent);
                }
                done += chunk;
                let now = since(began).0;
                // Reads the clock about every 20 us, however fast or disturbed the ring is.
                chunk = if now - ns < CLOCK_NS {
                    chunk * 2
                } else {
                    (chunk / 2).max(1)
                };
                ns = now;
            }
            Ok(done as f64 * 1e9 / ns as f64)
        })
    }

    /// Measures the round trip of the ring with one request in flight, in nanoseconds: the lowest of the means of 15
    /// short bursts, so that it depends on the distance between the cores and not on other load. Takes some 50 us.
    ///
    /// # Errors
    /// The child failed or does not answer.
    pub fn probe_ns(&mut self) -> Result<f64, EchoError> {
        const BURSTS: usize = 15;
        const TRIPS: u64 = 20;
        self.ring(Shape::new(1, 1), |asker| {
            let (mut least, probe) = (f64::INFINITY, timestamp());
            for nth in 0..BURSTS {
                if nth > 0 && since(probe).0 > PROBE_NS_MAX {
                    break;
                }
                let began = timestamp();
                if !asker.exchange(TRIPS, GIVE_UP_LOOKS) {
                    return Err(EchoError::Silent);
                }
                least = least.min(since(began).0 as f64 / TRIPS as f64);
            }
            Ok(least)
        })
    }

    /// Measures round trips of 64 B there and 64 B back over the Unix socket, with both sides polling, for about
    /// `time`. Returns their median in microseconds.
    ///
    /// # Errors
    /// The child failed or does not answer.
    pub fn socket_rtt_us(&mut self, time: Ns) -> Result<f64, EchoError> {
        self.command(SOCKET, 0)?;
        let mut all = Vec::with_capacity(1 << 12);
        let session = timestamp();
        while all.is_empty() || since(session).0 < time.0 {
            let began = timestamp();
            socket::ping(self.control.as_fd())?;
            all.push(since(began).0);
        }
        socket::stop(self.control.as_fd())?;
        self.acknowledged()?;
        all.sort_unstable();
        Ok(all[all.len() / 2] as f64 / 1e3)
    }

    /// Times a fixed piece of work, about 10 us, on the calling thread's core and on the echo process's core at the
    /// same time. Returns the nanoseconds on each core, in this order: on each the fastest of three attempts.
    ///
    /// # Errors
    /// The child failed or does not answer.
    pub fn core_ns(&mut self) -> Result<[f64; 2], EchoError> {
        self.command(SPEED, 0)?;
        let ours = speed::burst_ns();
        let mut theirs = [0; 8];
        self.control.read_exact(&mut theirs)?;
        self.acknowledged()?;
        Ok([ours, f64::from_le_bytes(theirs)])
    }

    fn ring<R>(
        &mut self,
        shape: Shape,
        measure: impl FnOnce(&mut Asker<'_>) -> Result<R, EchoError>,
    ) -> Result<R, EchoError> {
        Asker::prepare(&self.region);
        self.command(RING, shape.to_word())?;
        let region = self.region.clone();
        let mut asker = Asker::start(&region, shape);
        let result = measure(&mut asker);
        asker.stop();
        self.acknowledged()?;
        result
    }

    fn command(&mut self, code: u64, argument: u64) -> Result<(), EchoError> {
        let mut message = [0; 16];
        message[..8].copy_from_slice(&code.to_le_bytes());
        message[8..].copy_from_slice(&argument.to_le_bytes());
        self.control.write_all(&message)?;
        self.acknowledged()
    }

    fn acknowledged(&mut self) -> Result<(), EchoError> {
        let mut word = [0; 8];
        self.control.read_exact(&mut word)?;
        if u64::from_le_bytes(word) == ACK {
            Ok(())
        } else {
            Err(EchoError::Silent)
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // The child is ours and has nothing to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Main function of the child: obeys commands until the parent is gone.
pub(crate) fn echo_main() -> ExitCode {
    match obey() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echo process: {error}");
            ExitCode::FAILURE
        }
    }
}

fn obey() -> Result<(), EchoError> {
    let memory = std::io::stdin().as_fd().try_clone_to_owned()?;
    let region = Region::from_fd(memory, ring::REGION_BYTES, true)?;
    let mut control = UnixStream::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let mut message = [0; 16];
    while control.read_exact(&mut message).is_ok() {
        let (code, argument) = message.split_at(8);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 of 16 bytes"));
        control.write_all(&ACK.to_le_bytes())?;
        match word(code) {
            RING => ring::serve(&region, Shape::from_word(word(argument))),
            SOCKET => socket::serve(control.as_fd())?,
            SPEED => control.write_all(&speed::burst_ns().to_le_bytes())?,
            _ => return Err(EchoError::Silent),
        }
        control.write_all(&ACK.to_le_bytes())?;
    }
    Ok(())
}
