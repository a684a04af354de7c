//! Arbitrary bytes on the control channel of Jakiro, ServerReply and RDMA-Memcached.

use crate::control;
use drover_kv_rfp::control::{Attach, Hello, NewMap, Ready, Welcome};

/// Checks that any frame decodes as a control message or is refused, and that a decoded message encodes to the same
/// bytes. Input: type of the message (1 byte, modulo 5), descriptor count (1 byte, modulo 20), body.
pub fn control_message(input: &[u8]) {
    let [which, fd_count, body @ ..] = input else {
        return;
    };
    match which % 5 {
        0 => control::again::<Hello>(body, *fd_count),
        1 => control::again::<Welcome>(body, *fd_count),
        2 => control::again::<Attach>(body, *fd_count),
        3 => control::again::<Ready>(body, *fd_count),
        _ => control::again::<NewMap>(body, *fd_count),
    };
}
