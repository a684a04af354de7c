//! Two threads send each other a message and back, many times, and say how long a round trip takes.

use drover_base::Cpu;
use drover_control::ControlStream;
use drover_control::exchange::End;
use drover_examples::{Example, Outcome, PATIENCE, next_message, request, run};
use drover_mem::PageWish;
use drover_verbs::{
    Access, Context, MemoryRegion, Provider, QpKind, QueuePair, RecvList, RecvWr, SendList, SendOp, WrId,
};

const ROUNDS: u64 = 5_000;
const MESSAGE_BYTES: usize = 32;

struct PingPong;

impl Example for PingPong {
    fn run<P: Provider>(device: P::Device) -> Outcome {
        // The two ends meet over a control channel; between processes it would be a Unix or TCP socket.
        let (ours, theirs) = ControlStream::pair();
        let other = device.clone();
        let pong = std::thread::spawn(move || play::<P>(&other, theirs, false));
        let ping = play::<P>(&device, ours, true);
        pong.join().map_err(|_| "the other side panicked")??;
        println!("{ROUNDS} round trips of {MESSAGE_BYTES} bytes, {} ns each", ping?);
        Ok(())
    }
}

/// One player. A context and everything created from it stay on the thread that created them.
fn play<P: Provider>(device: &P::Device, mut stream: ControlStream, serves: bool) -> Outcome<u64> {
    let mut end = End::<P>::new(device, QpKind::Rc)?;
    let inbox = end.ctx.alloc(4096, PageWish::Small)?;
    let mr = end.ctx.register(&inbox, Access::LOCAL)?;
    let mut recv = RecvList::with_capacity(1);
    recv.push(RecvWr { wr_id: WrId(0), sge: mr.sge(0, MESSAGE_BYTES) });
    // Post the first RECV before the peer can send: connect returns when both sides are ready.
    end.qp.post_recv(end.ctx.cpu(), &recv)?;
    end.connect(&mut stream, PATIENCE)?;

    let mut send = SendList::with_capacity(1, MESSAGE_BYTES);
    let start = end.ctx.cpu().refresh();
    for round in 0..ROUNDS {
        for ours in [serves, !serves] {
            if ours {
                shout(&mut end, &mut send, round)?;
            } else {
                next_message(&mut end)?;
                end.qp.post_recv(end.ctx.cpu(), &recv)?;
            }
        }
    }
    Ok((end.ctx.cpu().refresh() - start).0 / ROUNDS)
}

fn shout<P: Provider>(end: &mut End<P>, list: &mut SendList, round: u64) -> Outcome {
    list.clear();
    let payload = list.inline(&[round as u8; MESSAGE_BYTES]);
    let op = SendOp::Send { dest: None, imm: None };
    list.push(request(round, op, payload));
    Ok(end.qp.post_send(end.ctx.cpu(), list)?)
}

fn main() -> std::process::ExitCode {
    run::<PingPong>()
}
