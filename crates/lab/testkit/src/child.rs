//! Tests of two processes: children that are this executable again, and exports through a Unix socket.

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

/// What a child is to do.
const ROLE: &str = "DROVER_ROLE";

/// One end of a packet socket between parent and child.
pub struct Channel(OwnedFd);

/// The other end is gone.
#[derive(Debug)]
pub struct Gone;

impl Channel {
    /// The parent's socket in a child started by [`spawn`]: its standard input.
    pub fn of_child() -> Channel {
        Channel(
            std::io::stdin()
                .as_fd()
                .try_clone_to_owned()
                .expect("stdin is a socket"),
        )
    }

    /// The same socket, for another thread.
    pub fn try_clone(&self) -> Channel {
        Channel(self.0.try_clone().expect("dup"))
    }

    /// Sends an export with its descriptors.
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

    /// Waits for the next message.
    pub fn receive(&mut self) -> Result<Export, Gone> {
        self.next(RecvFlags::CMSG_CLOEXEC)
            .map(|message| message.expect("a blocking call"))
    }

    /// The next message, if any.
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

    /// Some text, to take turns.
    pub fn send_text(&mut self, text: &str) -> Result<(), Gone> {
        self.send(&Export {
            bytes: text.as_bytes().to_vec(),
            fds: Vec::new(),
        })
    }

    /// Waits for the other's [`send_text`](Channel::send_text).
    pub fn receive_text(&mut self) -> Result<String, Gone> {
        self.receive()
            .map(|message| String::from_utf8(message.bytes).expect("text"))
    }
}

/// Starts this executable again with `args`, `role` in its environment, and a channel. A child that waits on its
/// channel ends when we do.
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

/// The role given by [`spawn`], if we are a child.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}
