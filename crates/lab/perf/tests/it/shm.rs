//! Sessions over shared memory between two threads: they end, with rows or with a reason.

use drover_base::{Cpu, Ns};
use drover_control::ControlStream;
use drover_perf::{Given, Op, Options, PerfError, Plan, Row, client, server};
use drover_verbs::{Context, Device, QpKind};
use drover_verbs_shm::{Shm, ShmContext, ShmDevice};
use std::sync::mpsc;
use std::thread::JoinHandle;

/// A test that takes longer than this hangs.
const LIMIT: Ns = Ns::from_s(60);

fn context() -> ShmContext {
    ShmDevice::default().context().expect("shared memory")
}

fn plan(name: &str) -> Plan {
    let op: Op = name.parse().expect("a test");
    let mut plan = Plan::new(op, ShmDevice::default().caps());
    (plan.iterations, plan.warm_up) = (200, 10);
    plan.sizes = vec![plan.sizes[0].min(4096)];
    plan
}

type Served = Result<Plan, PerfError>;

fn serving(mut stream: ControlStream, given: Given, options: Options) -> JoinHandle<Served> {
    std::thread::spawn(move || server::<Shm>(&mut stream, &context(), &given, options))
}

/// Both ends of `plan`; panics if they do not end.
fn session(plan: &Plan, given: Given, options: Options) -> (Result<Vec<Row>, PerfError>, Served) {
    let (mut here, there) = ControlStream::pair();
    let other = serving(there, given, options);
    let (tell, told) = mpsc::channel();
    let plan = plan.clone();
    let ours = std::thread::spawn(move || {
        let mut rows = Vec::new();
        let result = client::<Shm>(&mut here, &context(), &plan, options, &mut |row| rows.push(*row));
        drop(here);
        tell.send(()).expect("the test waits");
        result.map(|()| rows)
    });
    told.recv_timeout(LIMIT.to_duration()).expect("a session ends");
    let ours = ours.join().expect("no panic");
    (ours, other.join().expect("no panic"))
}

#[test]
fn every_test_over_every_kind() {
    for op in Op::all() {
        for kind in [QpKind::Rc, QpKind::Uc, QpKind::Ud] {
            let mut plan = plan(op.name());
            plan.kind = kind;
            // Datagrams that find no RECV are lost, and a thread may be without its core for long.
            (plan.rx_depth, plan.tx_depth) = (1024, 64);
            let (rows, served) = session(&plan, Given::nothing(), Options::default());
            match rows {
                Ok(rows) => {
                    assert_eq!(rows.len(), 1, "{op} {kind:?}");
                    let (Row::Latency(drover_perf::LatencyRow { iterations, .. })
                    | Row::Rate(drover_perf::RateRow { iterations, .. })) = rows[0];
                    assert!(iterations >= 200, "{op} {kind:?}: {rows:?}");
                    assert_eq!(served.expect("served"), plan);
                }
                Err(PerfError::Plan(why)) => {
                    assert!(why.contains("does not exist, only"), "{op} {kind:?}: {why}")
                }
                Err(error) => panic!("{op} {kind:?}: {error}"),
            }
        }
    }
}

#[test]
fn many_sizes_over_one_connection() {
    for name in ["write-lat", "send-lat", "send-bw", "write-bw", "read-bw"] {
        let mut plan = plan(name);
        plan.sizes = vec![1, 2, 8, 64, 220, 221, 4096, 7000];
        let (rows, _) = session(&plan, Given::nothing(), Options::default());
        assert_eq!(rows.expect("measured").len(), 8, "{name}");
    }
}

#[test]
fn sleeping_instead_of_polling() {
    let options = Options {
        events: true,
        ..Options::default()
    };
    for name in ["send-lat", "write-lat", "send-bw"] {
        let (rows, served) = session(&plan(name), Given::nothing(), options);
        assert_eq!(rows.expect("measured").len(), 1, "{name}");
        served.expect("served");
    }
}

#[test]
fn ends_that_were_told_different_things() {
    let mut ours = plan("write-lat");
    ours.sizes = vec![64];
    let given = Given::of(vec!["test", "--size"], plan("write-lat"));
    let (rows, served) = session(&ours, given, Options::default());
    let text = "the server was started with --size 2, the client asks for --size 64; give both the same, or the \
                server none";
    assert_eq!(
        rows.expect_err("refused").to_string(),
        format!("refused by the other end: {text}")
    );
    assert_eq!(served.expect_err("refused").to_string(), text);
}

#[test]
fn what_the_fabric_cannot_do() {
    let mut plan = plan("read-lat");
    plan.kind = QpKind::Uc;
    let (rows, served) = session(&plan, Given::nothing(), Options::default());
    assert_eq!(
        rows.expect_err("no such verb").to_string(),
        "read-lat over UC does not exist, only over RC (-c)"
    );
    assert_eq!(
        served.expect_err("the client never spoke").to_string(),
        "the other end has gone: the peer closed the control channel"
    );
}

/// The client's thread speaks as far as the first row and is gone.
#[test]
fn a_client_that_dies_is_noticed() {
    for name in ["write-lat", "send-lat", "send-bw", "read-lat"] {
        let (mut here, there) = ControlStream::pair();
        let other = serving(there, Given::nothing(), Options::default());
        let mut plan = plan(name);
        plan.sizes = vec![8, 16];
        let dies = std::thread::spawn(move || {
            client::<Shm>(&mut here, &context(), &plan, Options::default(), &mut |_| {
                panic!("dies here")
            })
        });
        assert!(dies.join().is_err(), "{name}: it died");
        let error = other.join().expect("no panic").expect_err("its client is gone");
        assert!(matches!(error, PerfError::PeerGone(_)), "{name}: {error}");
    }
}

/// The server is gone as soon as it has said that it is ready.
#[test]
fn a_server_that_dies_is_noticed() {
    for name in ["write-lat", "send-lat"] {
        let (mut here, mut there) = ControlStream::pair();
        let other = std::thread::spawn(move || half_a_server(&mut there));
        let ctx = context();
        let mut plan = plan(name);
        plan.duration = Some(Ns::from_s(3600));
        let options = Options::default();
        let result = client::<Shm>(&mut here, &ctx, &plan, options, &mut |_| panic!("nobody answers"));
        let error = result.expect_err("nobody is there");
        assert!(matches!(error, PerfError::PeerGone(_)), "{name}: {error}");
        other.join().expect("no panic");
    }
}

/// Says everything that a server says before it serves, and hangs up.
fn half_a_server(stream: &mut ControlStream) {
    use drover_control::exchange::{recv_export, send_export};
    use drover_control::kind;
    use drover_perf::End;
    let ctx = context();
    let deadline = ctx.cpu().refresh() + LIMIT;
    let hello = stream.recv_until(ctx.cpu(), deadline).expect("a plan");
    stream.send(hello.kind + 1, &[], &[]).expect("sent");
    let name = Op::all()
        .nth(usize::from(hello.body[2]))
        .expect("its code")
        .name();
    let mut plan = plan(name);
    plan.duration = Some(Ns::from_s(3600));
    let mut end = End::<Shm>::new(&ctx, &plan).expect("an end");
    let theirs = [(); 2].map(|()| recv_export(stream, ctx.cpu(), deadline).expect("an export"));
    for export in end.exports(&ctx).expect("exports") {
        send_export(stream, &export).expect("sent");
    }
    end.meet(&ctx, &theirs).expect("connected");
    for _ in 0..2 {
        stream.recv_until(ctx.cpu(), deadline).expect("ready, or run");
        stream.send(kind::READY, &[], &[]).expect("sent");
    }
    stream.close();
}
