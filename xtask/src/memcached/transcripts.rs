//! memcached itself has the conversations that crate memcached's tests hold drover to.

use super::folder;
use super::server::{Kind, Server};
use crate::steps::Work;
use crate::tests;

/// One test, which is ignored where no memcached runs.
pub fn work() -> Work<'static> {
    let run = || {
        crate::setup::install(super::source::TOOLS)?;
        let log = folder().join("transcripts-memcached.txt");
        let server = Server::start(&Kind::Memcached, &[], &log)?;
        let address = server.address().to_string();
        let environment = [("DROVER_MEMCACHED", address.as_ref())];
        tests::chosen("test(=transcripts::memcached_says_the_same)", &environment)
    };
    ("transcripts".to_string(), Box::new(run))
}
