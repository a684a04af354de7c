//! Signals as poll events, next to sockets.

use crate::exit::{self, Failure};
use rustix::event::{PollFd, PollFlags};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::io::Read;
use std::os::unix::net::UnixStream;

/// Request made by a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// SIGTERM, SIGINT: stop.
    Stop,
    /// SIGHUP: reload the files of users and certificates.
    Reload,
    /// SIGUSR1: stop, if there is a memory file; the items stay in it, as after [`Stop`](Signal::Stop). Otherwise
    /// ignored.
    Save,
}

/// Caught signals: one stream per request, readable once its signal has come.
#[derive(Debug)]
pub struct Signals([(Signal, UnixStream); 3]);

impl Signals {
    /// Catches SIGTERM, SIGINT, SIGHUP and SIGUSR1 from now on.
    ///
    /// # Errors
    /// The system refuses a stream or a handler.
    pub fn catch() -> Result<Signals, Failure> {
        let streams = || -> std::io::Result<Signals> {
            Ok(Signals([
                (Signal::Stop, stream(&[SIGTERM, SIGINT])?),
                (Signal::Reload, stream(&[SIGHUP])?),
                (Signal::Save, stream(&[SIGUSR1])?),
            ]))
        };
        streams().map_err(|error| Failure::new(exit::OS_ERROR, format!("signals: {error}")))
    }

    /// Descriptors and events to poll while waiting for a signal.
    pub fn interests(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.0
            .iter()
            .map(|(_, stream)| PollFd::new(stream, PollFlags::IN))
    }

    /// Takes the next request, if a signal has come: Stop before Reload before Save. Repeated signals count once.
    pub fn next(&self) -> Option<Signal> {
        let came = |(signal, stream): &(Signal, UnixStream)| {
            let mut many = [0; 64];
            matches!((&*stream).read(&mut many), Ok(1..)).then_some(*signal)
        };
        self.0.iter().find_map(came)
    }

    /// Streams that only a test writes to.
    #[cfg(test)]
    pub fn by_hand() -> (Signals, [UnixStream; 3]) {
        let pair = || {
            let (ours, theirs) = UnixStream::pair().expect("a pair");
            ours.set_nonblocking(true).expect("a socket");
            (ours, theirs)
        };
        let [(stop, a), (reload, b), (save, c)] = [pair(), pair(), pair()];
        let kinds = [
            (Signal::Stop, stop),
            (Signal::Reload, reload),
            (Signal::Save, save),
        ];
        (Signals(kinds), [a, b, c])
    }
}

fn stream(numbers: &[i32]) -> std::io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    for number in numbers {
        signal_hook::low_level::pipe::register(*number, theirs.try_clone()?)?;
    }
    Ok(ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn each_is_told_once() {
        let (signals, [mut stop, mut reload, mut save]) = Signals::by_hand();
        assert_eq!(signals.next(), None);
        reload.write_all(b"11").expect("space");
        save.write_all(b"1").expect("space");
        stop.write_all(b"1").expect("space");
        assert_eq!(signals.next(), Some(Signal::Stop));
        assert_eq!(signals.next(), Some(Signal::Reload));
        assert_eq!(signals.next(), Some(Signal::Save));
        assert_eq!(signals.next(), None);
    }
}
