//! [`Process`]: a client's process, where it runs on this machine: whether it is alive, and how it is ended. A process is
//! more than its number, which another may get: it is held by a descriptor, and remembered with the time of its start.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Number that is noted of a process that lives in another pid namespace: it can be neither watched nor ended.
const UNKNOWN: u32 = u32::MAX;

/// A process of this machine.
#[derive(Debug)]
pub(super) struct Process {
    pid: u32,
    started: u64,
    /// `None`: it is in another namespace, or the kernel has no such descriptors.
    fd: Option<OwnedFd>,
}

impl Process {
    /// The process at the other end of a control channel, which has just sent something. `pid`: 0 if it lives in another
    /// namespace.
    pub(super) fn of_peer(pid: u32) -> Process {
        let mut process = Process {
            pid: UNKNOWN,
            started: 0,
            fd: None,
        };
        // Opened before the time is read: what the descriptor is of cannot change after that.
        let fd = open(pid);
        if let Some(started) = started(pid) {
            (process.pid, process.started, process.fd) = (pid, started, fd);
        }
        process
    }

    /// The process that was noted as these words, if it still lives or may.
    pub(super) fn noted([pid, started_at]: [u64; 2]) -> Option<Process> {
        let pid = u32::try_from(pid).unwrap_or(UNKNOWN);
        if pid == 0 {
            return None;
        }
        let process = Process {
            pid,
            started: started_at,
            fd: open(pid),
        };
        (!process.has_ended()).then_some(process)
    }

    /// As noted in the client table: number and time of its start.
    pub(super) fn words(&self) -> [u64; 2] {
        [u64::from(self.pid), self.started]
    }

    /// Its number; `None` if that is not known here.
    pub(super) fn pid(&self) -> Option<u32> {
        (self.pid != UNKNOWN).then_some(self.pid)
    }

    /// Whether it has ended, all its threads. Costs a few system calls.
    pub(super) fn has_ended(&self) -> bool {
        self.pid != UNKNOWN
            && (started(self.pid) != Some(self.started) || self.fd.as_ref().is_some_and(is_over))
    }

    /// Ends it, also if it is stopped; false if that is not possible.
    pub(super) fn kill(&self) -> bool {
        match &self.fd {
            Some(fd) => pidfd_send_signal(fd, Signal::KILL).is_ok(),
            None => false,
        }
    }
}

fn open(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Whether all threads of a process have ended, also if its parent has not taken notice.
fn is_over(fd: &OwnedFd) -> bool {
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&at_once)) == Ok(1)
}

/// When a process started, in the kernel's ticks; `None` if there is none.
fn started(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program is in parentheses, and may hold anything.
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    fields.nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_is_known_again_and_ended() {
        let mut child = Command::new("sleep")
            .arg("600")
            .stdout(Stdio::null())
            .spawn()
            .expect("a process");
        let process = Process::of_peer(child.id());
        assert_eq!(process.pid(), Some(child.id()));
        let again = Process::noted(process.words()).expect("it lives");
        assert!(!again.has_ended());
        let [pid, started] = process.words();
        assert!(
            Process::noted([pid, started + 1]).is_none(),
            "another process with this number"
        );
        assert!(again.kill());
        child.wait().expect("it ends");
        assert!(process.has_ended() && again.has_ended());
        assert!(!process.kill(), "nobody else gets the signal");
        assert!(Process::noted(process.words()).is_none());
        assert!(Process::noted([0, 0]).is_none());
    }

    #[test]
    fn a_process_of_another_namespace_never_ends_here() {
        let process = Process::of_peer(0);
        assert_eq!(process.pid(), None);
        let again = Process::noted(process.words()).expect("nobody knows");
        assert!(!again.has_ended() && !again.kill());
    }
}
