//! HERD on a fabric that loses and repeats messages: every operation ends, with the right answer.
//!
//! `Faulty` is a provider around a provider, so the server and its client are the ordinary ones.

use drover_examples::{Example, Outcome, Served, execute, run};
use drover_kv::{Op, System, SystemJob};
use drover_mem::NativeCpu;
use drover_verbs::{Context, Provider};
use drover_verbs_suite::faulty::{FaultOptions, Faulty, FaultyDevice};
use std::time::Duration;

struct InjectAFault;

impl Example for InjectAFault {
    fn run<P: Provider<Cpu = NativeCpu>>(device: P::Device) -> Outcome {
        // One message in ten never arrives, one in ten arrives twice; everything follows from the seed.
        let faults = FaultOptions { drop: 0.1, duplicate: 0.1, ..FaultOptions::quiet(7) };
        let herd = drover_systems::System::named("herd").ok_or("not in the table of systems")?;
        herd.run(PutAndGet::<P>(&FaultyDevice::new(device, faults)))
    }
}

struct PutAndGet<'a, P: Provider>(&'a FaultyDevice<P>);

impl<P: Provider<Cpu = NativeCpu>> SystemJob for PutAndGet<'_, P> {
    type Answer = Outcome;

    fn run<S: System>(self) -> Outcome {
        let Served { service, ctx, mut client } = Served::<S, Faulty<P>>::start(self.0)?;
        for i in 0..500u32 {
            let key = i.to_le_bytes();
            let put = Op::put(&key, &key);
            assert_eq!(execute(&mut client, ctx.cpu(), &put)?, "Stored");
            let got = execute(&mut client, ctx.cpu(), &Op::Get { key: &key })?;
            assert_eq!(got, format!("Value({:?})", key));
        }

        // A lost request or reply is noticed by its missing reply, and the request is sent again; the server knows
        // by its number whether it has executed it.
        let faults = self.0.counts();
        println!("{} messages lost, {} repeated", faults.dropped, faults.duplicated);
        let shards = service.counters(Duration::from_secs(5))?;
        let totals = S::FACTS.counters.iter().enumerate().map(|(index, counter)| {
            let total: u64 = shards.iter().map(|values| values[index]).sum();
            (counter.name, total)
        });
        let totals: Vec<_> = totals.filter(|(_, total)| *total > 0).collect();
        println!("the servers counted {totals:?}");
        let again = totals.iter().any(|(name, _)| *name == "retransmits");
        assert!(faults.dropped > 0 && again);
        Ok(())
    }
}

fn main() -> std::process::ExitCode {
    run::<InjectAFault>()
}
