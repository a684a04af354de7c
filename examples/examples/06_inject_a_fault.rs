//! HERD on a fabric that loses and repeats messages: every operation ends, with the right answer.
//!
//! `Faulty` is a provider around a provider, so the server and its client are the ordinary ones.

use drover_control::ControlStream;
use drover_examples::{Example, Outcome, PATIENCE, execute, run};
use drover_kv::{ConnectOptions, Op, connect};
use drover_kv_herd::client::{Dial, HerdClient};
use drover_kv_herd::server::{Server, ServerOptions};
use drover_verbs::{Context, Device, Provider};
use drover_verbs_suite::faulty::{FaultOptions, Faulty, FaultyDevice};
use std::rc::Rc;
use std::sync::Arc;

struct InjectAFault;

impl Example for InjectAFault {
    fn run<P: Provider>(device: P::Device) -> Outcome {
        // One message in ten never arrives, one in ten arrives twice; everything follows from the seed.
        let faults = FaultOptions { drop: 0.1, duplicate: 0.1, ..FaultOptions::quiet(7) };
        let device = FaultyDevice::<P>::new(device, faults);
        let server =
            Arc::new(Server::<Faulty<P>>::start(&device, None, &ServerOptions::default(), |_worker| {})?);
        let at_server = server.clone();
        let dial = Dial::new("this process", move || {
            let (ours, theirs) = ControlStream::pair();
            at_server.adopt(theirs);
            Ok(ours)
        });
        let ctx = Rc::new(device.context()?);
        let mut client: HerdClient<Faulty<P>> =
            connect(&ctx, vec![dial], &ConnectOptions::default(), PATIENCE)?;

        for i in 0..500u32 {
            let key = i.to_le_bytes();
            let put = Op::Put { key: &key, value: &key, ttl_s: 0 };
            assert_eq!(execute(&mut client, ctx.cpu(), &put)?, "Stored");
            let got = execute(&mut client, ctx.cpu(), &Op::Get { key: &key })?;
            assert_eq!(got, format!("Value({:?})", key));
        }

        // A lost request or reply is noticed by its missing reply, and the request is sent again; the server knows
        // by its number whether it has executed it.
        let (faults, stats) = (device.counts(), client.stats());
        println!("{} messages lost, {} repeated", faults.dropped, faults.duplicated);
        println!(
            "{} requests sent again, {} replies came twice or late",
            stats.retransmits, stats.stale_replies
        );
        assert!(faults.dropped > 0 && stats.retransmits > 0);
        Ok(())
    }
}

fn main() -> std::process::ExitCode {
    run::<InjectAFault>()
}
