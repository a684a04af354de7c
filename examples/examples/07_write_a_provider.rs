//! A provider of one's own counts the requests that are posted, and leaves the work to another provider: it is in
//! `examples/src/counting.rs`. Every system runs over it unchanged, so it tells what a GET and a PUT cost in verbs.

use drover_client::{CallError, Client, Connected};
use drover_control::{ControlAddr, ControlListener};
use drover_examples::counting::{Counting, CountingDevice, Counts};
use drover_examples::{Outcome, PATIENCE};
use drover_kv::{Capacity, ConnectOptions, Sizes, SystemJob, connect, dials};
use drover_systems::System;
use drover_verbs::Device;
use drover_verbs_shm::ShmDevice;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// Counts what 1,000 PUTs and 1,000 GETs of a system post.
struct Count;

impl SystemJob for Count {
    type Answer = Outcome;

    fn run<S: drover_kv::System>(self) -> Outcome {
        let (served, asked) = (Counts::default(), Counts::default());
        let path = std::env::temp_dir().join(format!("drover-07-{}-{}", S::FACTS.name, std::process::id()));
        let addr: ControlAddr = format!("unix:{}", path.display()).parse()?;
        let plan = S::plan(&Sizes {
            shard_count: 1,
            capacity: Capacity::Items { count: 4_000, key_bytes: 4 },
            value_bytes_max: 32,
            window: 1,
        })?;
        let device = CountingDevice(ShmDevice::default(), served.clone());
        let listeners = vec![ControlListener::bind(&addr)?];
        let service = S::start::<Counting>(&device, &plan, listeners, Box::new(|_| {}))?;

        let ctx = Rc::new(CountingDevice(ShmDevice::default(), asked.clone()).context()?);
        let dials = dials(&S::FACTS, &addr, 1, None);
        let client =
            connect::<Counting, S::Client<Counting>>(&ctx, dials, &ConnectOptions::default(), PATIENCE)?;
        let mut client = Client::from(Connected::over(ctx, client));
        let (name, sides) = (S::FACTS.name, [&asked, &served]);
        report(name, "PUT", sides, |key| client.put(&key.to_le_bytes(), &[7; 32], 0))?;
        report(name, "GET", sides, |key| {
            let value = client.get(&key.to_le_bytes())?;
            assert_eq!(value.as_deref(), Some(&[7; 32][..]));
            Ok(())
        })?;
        drop(client);
        service.stop();
        Ok(())
    }
}

/// Does `operation` with many keys, and says how many requests both sides have posted for each.
fn report(
    system: &str,
    what: &str,
    sides: [&Counts; 2],
    mut operation: impl FnMut(u32) -> Result<(), CallError>,
) -> Outcome {
    const OPERATIONS: u32 = 1_000;
    let read = |side: &Counts| [0, 1, 2].map(|kind| side[kind].load(Ordering::Relaxed));
    let before = sides.map(read);
    for key in 0..OPERATIONS {
        operation(key)?;
    }
    for ((side, name), before) in sides.iter().zip(["client", "server"]).zip(before) {
        let per = |kind: usize| (read(side)[kind] - before[kind]) as f64 / f64::from(OPERATIONS);
        let (send, write, read) = (per(0), per(1), per(2));
        println!("{system:<6} {what} {name}: {send:.2} SEND, {write:.2} WRITE, {read:.2} READ");
    }
    Ok(())
}

fn main() -> Outcome {
    for system in System::ALL {
        system.run(Count)?;
    }
    Ok(())
}
