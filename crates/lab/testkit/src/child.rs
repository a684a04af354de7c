//! Tests of two processes: children that run this executable again, and a socket that carries exports between the two.

use drover_verbs::Export;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// Environment variable with the role of a child.
const ROLE: &str = "DROVER_ROLE";

/// One end of a Unix packet socket between parent and child, which carries exports (with their descriptors) and texts.
pub struct Channel(OwnedFd);

/// The channel is broken: the other process has closed its end or ended, or the socket has failed.
#[derive(Debug)]
pub struct Gone;

impl Channel {
    /// Returns the child's end of the channel in a process that [`spawn`] started: its standard input.
    pub fn of_child() -> Channel {
        Channel(
            std::io::stdin()
                .as_fd()
                .try_clone_to_owned()
                .expect("stdin is a socket"),
        )
    }

    /// Returns another handle to the same end, for another thread; each message goes to only one of them.
    pub fn try_clone(&self) -> Channel {
        Channel(self.0.try_clone().expect("dup"))
    }

    /// Sends an export with its descriptors, at most 16. Waits while the socket is full.
    ///
    /// # Errors
    /// [`Gone`] if the packet cannot be sent.
    ///
    /// # Panics
    /// If the export has more than 16 descriptors.
    pub fn send(&mut self, export: &Export) -> Result<(), Gone> {
        let fds: Vec<BorrowedFd<'_>> = export.fds.iter().map(|fd| fd.as_fd()).collect();
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(fds.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        // A leading byte, because an empty packet looks like end of file.
        let parts = [IoSlice::new(&[1]), IoSlice::new(&export.bytes)];
        rustix::net::sendmsg(&self.0, &parts, &mut ancillary, SendFlags::NOSIGNAL).map_err(|_| Gone)?;
        Ok(())
    }

    /// Waits for the next export.
    ///
    /// # Errors
    /// [`Gone`] if the other end is closed and nothing is left to read, or the socket has failed.
    pub fn receive(&mut self) -> Result<Export, Gone> {
        self.next(RecvFlags::CMSG_CLOEXEC)
            .map(|message| message.expect("a blocking call"))
    }

    /// Takes the next export without waiting; `None` if none has arrived.
    ///
    /// # Errors
    /// As for [`receive`](Channel::receive).
    pub fn try_receive(&mut self) -> Result<Option<Export>, Gone> {
        self.next(RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT)
    }

    fn next(&mut self, flags: RecvFlags) -> Result<Option<Export>, Gone> {
        let mut bytes = vec![0; Export::BYTES_MAX + 1];
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let len = match rustix::net::recvmsg(&self.0, &mut slices, &mut ancillary, flags) {
            Ok(got) if got.bytes > 0 => got.bytes,
            Err(Errno::AGAIN) => return Ok(None),
            _ => return Err(Gone),
        };
        let mut fds: Vec<Arc<OwnedFd>> = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights.map(Arc::new));
            }
        }
        Ok(Some(Export {
            bytes: bytes[1..len].to_vec(),
            fds,
        }))
    }

    /// Sends a text, with which tests synchronise the two processes.
    ///
    /// # Errors
    /// As for [`send`](Channel::send).
    pub fn send_text(&mut self, text: &str) -> Result<(), Gone> {
        self.send(&Export {
            bytes: text.as_bytes().to_vec(),
            fds: Vec::new(),
        })
    }

    /// Waits for the next message, which the other process must have sent with [`send_text`](Channel::send_text).
    ///
    /// # Errors
    /// As for [`receive`](Channel::receive).
    ///
    /// # Panics
    /// If the message is not UTF-8.
    pub fn receive_text(&mut self) -> Result<String, Gone> {
        self.receive()
            .map(|message| String::from_utf8(message.bytes).expect("text"))
    }
}

/// Starts this executable again with `args` and a [`role`], and returns the child and the parent's end of a channel;
/// the child gets the other end from [`Channel::of_child`]. When the parent ends, the child's calls on it return
/// [`Gone`].
pub fn spawn(args: &[&str], role: &str) -> (Child, Channel) {
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .expect("socketpair");
    let child = Command::new(std::env::current_exe().expect("own path"))
        .args(args)
        .env(ROLE, role)
        .stdin(Stdio::from(theirs))
        .spawn()
        .expect("child");
    (child, Channel(ours))
}

/// Returns the role that the parent passed to [`spawn`]; `None` if this process is not such a child.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}
