//! Goal: a server without descriptors refuses connections with the reason, and serves again when it has some.
//! In a process of its own, because the limit is the process's.

use drover_base::Ns;
use drover_control::{ControlAddr, ControlError, ControlListener, ControlStream, refusal};
use drover_testkit::alone::alone;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;

#[test]
fn a_connection_is_refused_with_the_reason() {
    alone(
        "out_of_descriptors::a_connection_is_refused_with_the_reason",
        || {
            let path = std::env::temp_dir().join(format!("drover-control-{}-full.sock", std::process::id()));
            let addr: ControlAddr = format!("unix:{}", path.display()).parse().expect("address");
            let listener = ControlListener::bind(&addr).expect("bind");
            let dial = || ControlStream::connect(&addr, Ns::from_s(5)).expect("connect");
            let mut clients = [dial(), dial()];
            let maximum = getrlimit(Resource::Nofile).maximum;
            setrlimit(
                Resource::Nofile,
                Rlimit {
                    current: Some(64),
                    maximum,
                },
            )
            .expect("limit");
            let hogs: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
            assert!(!hogs.is_empty());
            for client in &mut clients {
                assert!(listener.accept().expect("no error").is_none());
                let Err(ControlError::Refused { code, reason }) = client.recv(Ns::ZERO) else {
                    panic!("not refused");
                };
                assert_eq!(code, refusal::TOO_MANY_CONNECTIONS);
                assert!(reason.contains("ulimit -n"), "{reason}");
            }
            assert!(listener.accept().expect("nobody else waits").is_none());
            drop(hogs);
            let _client = dial();
            assert!(listener.accept().expect("accept").is_some());
        },
    );
}
