//! The integration tests of `drover-control`: one program, because linking is what test programs cost most.

mod acceptor;
mod control_channel;
mod control_frames;
mod guard;
mod out_of_descriptors;
mod tls;
mod tls_hostile;
mod tls_link;
