//! The bare ring and the bare socket between two real processes.

use drover_base::Ns;
use drover_bench::bound::Echo;
use drover_bench::{Helper, pin};

fn helper(role: &str) -> Helper {
    Helper {
        program: env!("CARGO_BIN_EXE_bench-lab").into(),
        arguments: vec![role.to_owned()],
    }
}

fn start() -> Echo {
    let cores = pin::Cores::choose(&pin::allowed_cores().expect("cores"), 1, 1);
    Echo::start(&helper("helper"), cores.server[0]).expect("the echo process")
}

#[test]
fn ring_and_socket_answer_in_any_order_of_sessions() {
    let mut echo = start();
    for (window, reply_bytes) in [(16, 64), (3, 1024), (1, 16 << 10)] {
        let ops = echo
            .ring_ops(window, reply_bytes, Ns::from_ms(2))
            .expect("a ring");
        assert!(ops > 0.0 && ops.is_finite(), "{ops} at {window}");
        assert!(echo.socket_rtt_us(Ns::from_ms(1)).expect("a socket") > 0.0);
    }
    assert!(echo.probe_ns().expect("a probe") > 0.0);
    // Both processes worked, and the echo process obeys afterwards.
    let core_ns = echo.core_ns().expect("the speed of both cores");
    assert!(
        core_ns.iter().all(|ns| ns.is_finite() && *ns > 0.0),
        "{core_ns:?}"
    );
    assert!(echo.probe_ns().expect("a probe") > 0.0);
}

#[test]
fn a_program_that_is_no_echo_process_is_an_error() {
    let mut echo = Echo::start(&helper("nonsense"), 0).expect("it starts");
    assert!(echo.probe_ns().is_err());
}
