//! A service and a client of it, with every system: GET, PUT, DELETE, and many at once.

use drover_client::{Client, Connected};
use drover_examples::{Example, Outcome, Served, run};
use drover_kv::{Op, Outcome as Done, System, SystemJob};
use drover_mem::NativeCpu;
use drover_verbs::Provider;

struct KvGetPut;

impl Example for KvGetPut {
    fn run<P: Provider<Cpu = NativeCpu>>(device: P::Device) -> Outcome {
        drover_systems::System::ALL.iter().try_for_each(|system| system.run(GetPut::<P>(&device)))
    }
}

/// What is done with each system.
struct GetPut<'a, P: Provider>(&'a P::Device);

impl<P: Provider<Cpu = NativeCpu>> SystemJob for GetPut<'_, P> {
    type Answer = Outcome;

    fn run<S: System>(self) -> Outcome {
        // Both in this process; for a server of its own process see `drover serve`, and `Client::connect`.
        let served = Served::<S, P>::start(self.0)?;
        let mut client = Client::from(Connected::over(served.ctx, served.client));

        // HERD: one round trip each, the request is a WRITE into a slot, the answer a datagram. Pilaf and FaRM-KV: a GET
        // READs the server's table.
        client.put(b"greeting", b"hello", 0)?;
        assert_eq!(client.get(b"greeting")?.as_deref(), Some(&b"hello"[..]));
        assert!(client.delete(b"greeting")?);
        assert_eq!(client.get(b"greeting")?, None);

        // Many at once fill the window, and the servers' batches. The order per key is the order given.
        let keys: Vec<String> = (0..1_000).map(|i| format!("user{i}")).collect();
        let puts: Vec<Op> = keys.iter().map(|key| Op::put(key.as_bytes(), key.as_bytes())).collect();
        let mut stored = 0;
        client.execute(&puts, |_, done| stored += usize::from(done == Done::Stored))?;
        assert_eq!(stored, keys.len());

        let wanted: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let mut hits = 0;
        client.get_many(&wanted, |i, value| hits += usize::from(value == Some(keys[i].as_bytes())))?;
        println!("{}: stored {stored}, found {hits} of {}", S::FACTS.name, keys.len());
        assert_eq!(hits, keys.len());

        // A value of any size up to the servers' limit; one that is too long for a message takes a detour through memory.
        let large = vec![7; 300_000];
        client.put(b"large", &large, 60)?;
        assert_eq!(client.get(b"large")?.as_deref(), Some(&large[..]));
        Ok(())
    }
}

fn main() -> std::process::ExitCode {
    run::<KvGetPut>()
}
