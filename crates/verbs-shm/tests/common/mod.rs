//! Exports through a Unix socket, and children that are this executable again.
#![allow(dead_code, reason = "each test uses its part")]

use drover_verbs::Export;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// One end of a socket between parent and child.
pub struct Channel(UnixStream);

impl Channel {
    /// The parent's socket, in a child started by [`spawn`]: its standard input.
    pub fn of_child() -> Channel {
        let fd = std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .expect("stdin is a socket");
        Channel(UnixStream::from(fd))
    }

    pub fn send(&mut self, export: &Export) {
        let fds: Vec<BorrowedFd<'_>> = export.fds.iter().map(|fd| fd.as_fd()).collect();
        let mut head = (export.bytes.len() as u32).to_le_bytes().to_vec();
        head.push(fds.len() as u8);
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(fds.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        rustix::net::sendmsg(
            &self.0,
            &[IoSlice::new(&head)],
            &mut ancillary,
            SendFlags::empty(),
        )
        .expect("sendmsg");
        self.0.write_all(&export.bytes).expect("write");
    }

    pub fn receive(&mut self) -> Export {
        let mut head = [0; 5];
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut head)];
        let got = rustix::net::recvmsg(&self.0, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC);
        assert_eq!(got.expect("recvmsg").bytes, 5, "the peer is gone");
        let mut fds: Vec<Arc<OwnedFd>> = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights.map(Arc::new));
            }
        }
        assert_eq!(fds.len(), usize::from(head[4]));
        let mut bytes = vec![0; u32::from_le_bytes(head[..4].try_into().expect("4 bytes")) as usize];
        self.0.read_exact(&mut bytes).expect("read");
        Export { bytes, fds }
    }

    /// A byte across, to take turns.
    pub fn signal(&mut self) {
        self.0.write_all(&[1]).expect("write");
    }

    /// Waits for the other's [`signal`](Channel::signal); false when the other is gone.
    pub fn wait(&mut self) -> bool {
        self.0.read(&mut [0]).is_ok_and(|n| n == 1)
    }
}

/// This executable again, with `args`, `role` in its environment, and a channel.
pub fn spawn(args: &[&str], role: &str) -> (Child, Channel) {
    let (ours, theirs) = UnixStream::pair().expect("socketpair");
    let child = Command::new(std::env::current_exe().expect("own path"))
        .args(args)
        .env("SHM_ROLE", role)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .expect("child");
    (child, Channel(ours))
}

/// The role given by [`spawn`], if we are a child.
pub fn role() -> Option<String> {
    std::env::var("SHM_ROLE").ok()
}
