//! A HERD server and a client of it: GET, PUT, DELETE, and many at once.

use drover_client::{Client, Connected};
use drover_control::ControlStream;
use drover_examples::{Example, Outcome, PATIENCE, run};
use drover_kv::{ConnectOptions, connect};
use drover_kv::{Op, Outcome as Done};
use drover_kv_herd::client::{Dial, HerdClient};
use drover_kv_herd::server::{Server, ServerOptions};
use drover_verbs::{Device, Provider};
use std::rc::Rc;
use std::sync::Arc;

struct KvGetPut;

impl Example for KvGetPut {
    fn run<P: Provider>(device: P::Device) -> Outcome {
        // A server in this process: one worker thread per partition, one thread for control channels. A server
        // of its own process listens at an address; see `drover serve`.
        let server = Arc::new(Server::<P>::start(&device, None, &ServerOptions::default(), |_worker| {})?);

        // How the client reaches it, now and after every loss of the connection.
        let door = server.clone();
        let dial = Dial::new("this process", move || {
            let (ours, theirs) = ControlStream::pair();
            door.adopt(theirs);
            Ok(ours)
        });
        let ctx = Rc::new(device.context()?);
        let herd: HerdClient<P> = connect(&ctx, vec![dial], &ConnectOptions::default(), PATIENCE)?;
        let mut client = Client::from(Connected::over(ctx, herd));

        // One round trip each: the request is a WRITE into a slot, the answer a datagram.
        client.put(b"greeting", b"hello", 0)?;
        assert_eq!(client.get(b"greeting")?.as_deref(), Some(&b"hello"[..]));
        assert!(client.delete(b"greeting")?);
        assert_eq!(client.get(b"greeting")?, None);

        // Many at once fill the window, and the server's batches. The order per key is the order given.
        let keys: Vec<String> = (0..1_000).map(|i| format!("user{i}")).collect();
        let puts: Vec<Op> =
            keys.iter().map(|key| Op::Put { key: key.as_bytes(), value: key.as_bytes(), ttl_s: 0 }).collect();
        let mut stored = 0;
        client.execute(&puts, |_, done| stored += usize::from(done == Done::Stored))?;
        assert_eq!(stored, keys.len());

        let wanted: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let mut hits = 0;
        client.get_many(&wanted, |i, value| hits += usize::from(value == Some(keys[i].as_bytes())))?;
        println!("stored {stored}, found {hits} of {}", keys.len());
        assert_eq!(hits, keys.len());

        // A value of any size up to the server's limit takes a detour through a memory that the server names.
        let large = vec![7; 300_000];
        client.put(b"large", &large, 60)?;
        assert_eq!(client.get(b"large")?.as_deref(), Some(&large[..]));
        Ok(())
    }
}

fn main() -> std::process::ExitCode {
    run::<KvGetPut>()
}
