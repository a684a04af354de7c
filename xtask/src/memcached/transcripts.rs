//! memcached itself has the conversations that crate memcached's tests hold drover to.

use super::folder;
use super::server::{Kind, Server};
use crate::command::{cargo, run_tests};
use crate::counts::Counts;
use crate::steps::Work;

/// One test, which is ignored where no memcached runs. The selection is that of the workspace's tests, so that nothing is
/// compiled again.
pub fn work() -> Work<'static> {
    let run = || {
        crate::setup::install(super::source::TOOLS)?;
        let log = folder().join("transcripts-memcached.txt");
        let server = Server::start(&Kind::Memcached, &[], &log)?;
        let mut command = cargo(&["nextest", "run", "--workspace", "--lib", "--bins", "--tests"]);
        command
            .args([
                "--run-ignored",
                "only",
                "-E",
                "test(=transcripts::memcached_says_the_same)",
            ])
            .env("DROVER_MEMCACHED", server.address().to_string());
        let counts = run_tests(&mut command)?;
        match (counts.passed, counts.failed) {
            // All others were left out, not skipped.
            (1, 0) => Ok(Counts { skipped: 0, ..counts }),
            (0, 0) => Err("no test ran".to_string()),
            _ => Ok(counts),
        }
    };
    ("transcripts".to_string(), Box::new(run))
}
