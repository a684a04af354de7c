//! What gateways and the nodes beside them show of the card on their admin port. The card is a library of ours.

use super::args::Args;
use super::native::Native;
use super::ops::Files;
use super::pool::Member;
use super::run::{Prepare, Running, Start};
use super::settings::Settings;
use super::ways;
use crate::admin::{Admin, Source};
use crate::pool::tables::{POOL_KIND, RaceSystem};
use clap::Parser;
use drover_control::{ControlAddr, ControlListener};
use drover_kv::{OnCore, System as _, dials};
use drover_memnode::PoolOptions;
use drover_systems::System;
use drover_verbs_ibv::{Ibv, IbvDevice, IbvOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

pub(super) fn settings(words: &[&str]) -> Settings {
    let line = Line::parse_from([&["serve"], words].concat());
    let resolved = Settings::resolve::<System>(&line.args);
    resolved.unwrap_or_else(|failure| panic!("{}", failure.text)).0
}

pub(super) fn card() -> IbvDevice {
    let mut options = IbvOptions::default();
    options.library = Some(drover_verbs_ibv_stub::library());
    IbvDevice::open(options).expect("the library of ours has a device")
}

pub(super) fn any_core() -> OnCore {
    Box::new(|_| {})
}

/// What the admin port of `source` shows.
fn metrics(source: &dyn Source) -> String {
    let any = "127.0.0.1:0".parse().expect("an address");
    let (admin, stopper) = Admin::bind(any).unwrap_or_else(|failure| panic!("{}", failure.text));
    let addr = admin.addr().expect("it is bound");
    std::thread::scope(|scope| {
        scope.spawn(|| admin.run(source));
        let mut stream = TcpStream::connect(addr).expect("the port answers");
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        drop(stopper);
        text
    })
}

fn value(text: &str, metric: &str) -> f64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {metric} in {text}"))
        .parse()
        .expect("a number")
}

fn check_card(text: &str) {
    assert!(value(text, "drover_rdma_qps") > 0.0);
    assert!(value(text, "drover_rdma_registered_bytes") > 0.0);
    assert!(value(text, "drover_rdma_registration_seconds") >= 0.0);
    assert!(value(text, "drover_rdma_work_completions_total{status=\"success\"}") > 0.0);
    for metric in ["async_events", "cq_overruns"] {
        assert_eq!(value(text, &format!("drover_rdma_{metric}_total")), 0.0);
    }
}

#[test]
fn gateways_and_their_nodes_show_the_card() {
    let flags = [
        "--system",
        "race",
        "-p",
        "-1",
        "-l",
        "127.0.0.1",
        "-t",
        "1",
        "-m",
        "64",
    ];
    let settings = settings(&flags);
    let native =
        Native::<RaceSystem>::prepare(&settings).unwrap_or_else(|failure| panic!("{}", failure.text));
    let any: ControlAddr = "rdma://127.0.0.1:0".parse().expect("an address");
    let listener = ControlListener::bind(&any).expect("a port");
    let addr = listener.addr().clone();
    let files = Arc::new(Files::default());
    let nodes = native.start::<Ibv>(&card(), vec![listener], any_core(), files.clone());
    let nodes: Box<dyn Running> = nodes.unwrap_or_else(|failure| panic!("{}", failure.text));
    check_card(&metrics(&*nodes));

    let sockets = ways::open_all(&settings, Vec::new()).unwrap_or_else(|failure| panic!("{}", failure.text));
    let nodes_of_pool = {
        let addr = addr.clone();
        move || dials(&RaceSystem::FACTS, &addr, 1, None)
    };
    let member = Member::<Ibv>::enter(&card(), nodes_of_pool, PoolOptions::new(POOL_KIND));
    let member = member.unwrap_or_else(|failure| panic!("{}", failure.text));
    let gateway = member.serve(&settings, addr.to_string(), sockets, any_core(), files);
    let gateway = gateway.unwrap_or_else(|failure| panic!("{}", failure.text));
    check_card(&metrics(&gateway));
    for service in [Box::new(gateway) as Box<dyn Running>, nodes] {
        service
            .stop()
            .unwrap_or_else(|failure| panic!("{}", failure.text));
    }
}
