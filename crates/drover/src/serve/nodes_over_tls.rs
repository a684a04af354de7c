//! Memory nodes whose control channels are TCP with TLS: which clients enter, and what the others are told. The card is a library of
//! ours, so all of them are in this process.

use super::card_numbers::{any_core, card, settings};
use super::native::Native;
use super::ops::Files;
use super::pool::Member;
use super::run::{Prepare, Running, Start};
use super::ways;
use crate::exit::Failure;
use crate::pool::tables::{POOL_KIND, RaceSystem};
use drover_base::Ns;
use drover_control::{ControlAddr, ControlListener, TlsClientOptions, TlsConnector};
use drover_kv::{System as _, dials};
use drover_memnode::PoolOptions;
use drover_testkit::certificates::Authority;
use drover_verbs_ibv::Ibv;
use std::path::Path;
use std::sync::Arc;

/// Time within which a node answers.
const PATIENCE: Ns = Ns::from_s(5);

fn good<T>(result: Result<T, Failure>) -> T {
    result.unwrap_or_else(|failure| panic!("{}", failure.text))
}

fn trusting(ca: &Path) -> Option<Arc<TlsConnector>> {
    let connector = TlsConnector::new(TlsClientOptions::trusting(ca));
    Some(Arc::new(connector.expect("a CA")))
}

#[test]
fn processes_of_a_pool_come_by_tls() {
    let folder = std::env::temp_dir().join(format!("drover-nodes-tls-{}", std::process::id()));
    let authority = Authority::new(&folder);
    let identity = authority.issue("server", "127.0.0.1");
    let words = format!(
        "ssl_chain_cert={},ssl_key={}",
        identity.chain.display(),
        identity.key.display()
    );
    let flags = "--system race -p -1 -l 127.0.0.1 -t 1 -m 64 -Z -o";
    let flags: Vec<&str> = flags.split(' ').chain([&words[..]]).collect();
    let settings = settings(&flags);
    let native = good(Native::<RaceSystem>::prepare(&settings));
    let files = Arc::new(good(Files::read(&settings.ops)));
    let any: ControlAddr = "rdma://127.0.0.1:0".parse().expect("an address");
    let listener = ControlListener::bind(&any).expect("a port");
    let listener = listener.with_tls(files.native_tls.clone());
    let addr = listener.addr().clone();
    // The gateway beside the nodes trusts the certificate of its own process.
    let nodes = good(native.start::<Ibv>(&card(), vec![listener], any_core(), files.clone()));

    let enter = |tls: Option<Arc<TlsConnector>>| {
        let addr = addr.clone().with_tls(tls);
        let nodes = move || dials(&RaceSystem::FACTS, &addr, 1, None);
        let options = PoolOptions {
            timeout: PATIENCE,
            ..PoolOptions::new(POOL_KIND)
        };
        Member::<Ibv>::enter(&card(), nodes, options)
    };
    let refusal = |tls| match enter(tls) {
        Err(failure) => failure.text,
        Ok(_) => panic!("let in"),
    };
    assert!(refusal(None).contains("this address speaks TLS (-Z)"));
    let other = Authority::new(&folder.join("other"));
    assert!(refusal(trusting(&other.ca())).contains("signed by none of the trusted CAs"));

    // One that ends without a word is shut out, and another takes its place.
    drop(good(enter(trusting(&authority.ca()))));
    let member = good(enter(trusting(&authority.ca())));
    let sockets = good(ways::open_all(&settings, Vec::new()));
    let gateway = good(member.serve(&settings, addr.to_string(), sockets, any_core(), files));
    for service in [Box::new(gateway) as Box<dyn Running>, nodes] {
        good(service.stop());
    }
    std::fs::remove_dir_all(folder).expect("ours");
}
