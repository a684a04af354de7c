//! Requests and replies as messages, over fabrics.

use drover_base::Cpu;
use drover_rpc::messages::{ClientMessages, KIND_FREE, RECV, SENT, ServerMessages};
use drover_rt::{Depths, Queues, WHICH};
use drover_verbs::{Context, Device, Provider, QueuePair, Wc, WcStatus};
use drover_verbs_shm::{Shm, ShmDevice};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice};
use std::collections::BTreeSet;

const SLOTS: usize = 4;
const MESSAGE_BYTES: usize = 256;

fn queues<P: Provider>(ctx: &P::Context) -> Queues<P> {
    let depths = Depths {
        recvs: SLOTS,
        ..Depths::of_sends(SLOTS)
    };
    Queues::new(ctx, depths).expect("queues")
}

/// Kind and index of each completion.
fn completions<P: Provider>(queues: &mut Queues<P>, cpu: &P::Cpu) -> Vec<(u64, usize, usize)> {
    let mut wcs = [Wc::default(); 2 * SLOTS];
    let count = queues.poll(cpu, &mut wcs);
    let completion = |wc: &Wc| {
        assert_eq!(wc.status, WcStatus::Success);
        let kind = wc.wr_id.0 & !WHICH;
        assert!(kind < KIND_FREE, "{kind:#x}");
        (kind, (wc.wr_id.0 & WHICH) as usize, wc.byte_len as usize)
    };
    wcs[..count].iter().map(completion).collect()
}

/// All slots in use all the time; replies come in another order than requests, and some of them late.
fn echoes<P: Provider>(device: &P::Device) {
    let (there, here) = (
        device.context().expect("a context"),
        device.context().expect("a context"),
    );
    let (mut theirs, mut ours) = (queues::<P>(&there), queues::<P>(&here));
    let mut server = ServerMessages::<P>::new(&there, SLOTS, MESSAGE_BYTES).expect("memory");
    let client = ClientMessages::<P>::new(&here, SLOTS, MESSAGE_BYTES).expect("memory");
    let (a, b) = (
        theirs.qp.export().expect("an export"),
        ours.qp.export().expect("an export"),
    );
    ours.qp.connect(&a).expect("a connection");
    theirs.qp.connect(&b).expect("a connection");
    server.expect_all(&mut theirs);
    client.expect_all(&mut ours);
    theirs.post(there.cpu()).expect("space in the queue");
    // Slots whose last request has left them.
    let mut idle: Vec<usize> = (0..SLOTS).collect();
    let (mut asked, mut answered) = (0u64, BTreeSet::new());
    let (mut message, mut taken) = (Vec::new(), Vec::new());
    while answered.len() < 500 {
        here.cpu().refresh();
        while asked as usize - answered.len() < SLOTS
            && let Some(slot) = idle.pop()
        {
            let (region, offset) = client.request(slot);
            let len = 8 + asked as usize % 200;
            region.copy_in(offset, &asked.to_le_bytes());
            client.send(&mut ours, slot, len);
            asked += 1;
        }
        for (kind, index, len) in completions(&mut ours, here.cpu()) {
            match kind {
                SENT => idle.push(index),
                _ => {
                    assert_eq!(kind, RECV);
                    client.take_reply(&mut ours, index, len, &mut message);
                    let number = u64::from_le_bytes(message[..8].try_into().expect("8 bytes"));
                    assert_eq!(len, 8 + number as usize % 200);
                    assert!(answered.insert(number), "{number} is answered twice");
                }
            }
        }
        ours.post(here.cpu()).expect("space in the queue");

        there.cpu().refresh();
        for (kind, index, len) in completions(&mut theirs, there.cpu()) {
            match kind {
                RECV => server.arrived(index as u32, len as u32),
                _ => server.sent(index as u32),
            }
        }
        while let Some(reply) = server.next(&mut theirs, &mut message) {
            let (region, offset) = server.reply(reply);
            region.copy_in(offset, &message);
            taken.push((reply, message.len()));
        }
        if taken.len() > 1 || asked % 3 == 0 {
            while let Some((reply, len)) = taken.pop() {
                server.send(&mut theirs, reply, len);
            }
        }
        theirs.post(there.cpu()).expect("space in the queue");
    }
}

#[test]
fn messages_over_loopback() {
    echoes::<Loopback>(&LoopbackDevice::new());
}

#[test]
fn messages_over_shared_memory() {
    echoes::<Shm>(&ShmDevice::default());
}
