//! HERD's idea in a hundred lines: requests by WRITE into the server's memory, found by polling; replies by
//! datagram. One round trip, and the server's card keeps no state for replies.

use drover_base::{Actor, Cpu, Ns, Progress};
use drover_control::{ControlStream, exchange::End, exchange::send_export};
use drover_examples::{Example, Outcome, PATIENCE, beside, next_export, next_message, request, run};
use drover_mem::{PageWish, Region};
use drover_rt::{Idle, RunLoop, StopFlag};
use drover_verbs::*;
use std::sync::atomic::Ordering;

const SLOT_BYTES: usize = 64; // the body first; in the last 8 bytes, which land last, a sequence number
const SEQ_OFFSET: usize = SLOT_BYTES - 8;

/// The server: an actor that looks at its slot; one request per step.
struct Echo<P: Provider> {
    slot: Region,
    last_seq: u64,
    replies: P::Qp,
    cq: P::Cq,
    client: UdDest,
    list: SendList,
}

impl<P: Provider> Actor<P::Cpu> for Echo<P> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        // Acquire: the body was written before the sequence number.
        let seq = self.slot.load_u64(SEQ_OFFSET, Ordering::Acquire);
        if seq == self.last_seq {
            return Progress::Idle { wake_at: Ns::MAX };
        }
        self.last_seq = seq;
        self.list.clear();
        let payload = self.list.inline(&(2 * self.slot.load_u64(0, Ordering::Relaxed)).to_le_bytes());
        let op = SendOp::Send { dest: Some(self.client), imm: Some(Imm(seq as u32)) };
        self.list.push(request(seq, op, payload));
        self.replies.post_send(cpu, &self.list).expect("the queue has space for 32 replies");
        self.cq.poll(cpu, &mut [Wc::default()]);
        Progress::Busy
    }
}

fn serve<P: Provider>(device: &P::Device, mut stream: ControlStream, stop: &StopFlag) -> Outcome {
    let mut end = End::<P>::new(device, QpKind::Uc)?;
    let slot = end.ctx.alloc(SLOT_BYTES, PageWish::Small)?;
    let mr = end.ctx.register(&slot, Access::REMOTE_WRITE)?;
    end.connect(&mut stream, PATIENCE)?;
    let watch = Watch { range: 0..SLOT_BYTES, bell: end.ctx.bell() }; // a WRITE there ends our sleep
    send_export(&mut stream, &mr.export(&[watch])?)?;
    let cq = end.ctx.create_cq(256)?;
    let replies = end.ctx.create_qp(&QpOptions::<P>::new(QpKind::Ud, &cq, end.ctx.caps()))?;
    let client = end.ctx.create_ah(&next_export(&end, &mut stream)?)?;
    let mut echo = Echo::<P> { slot, last_seq: 0, replies, cq, client, list: SendList::default() };
    let idle = Idle::ADAPTIVE.for_memory_pollers(end.ctx.caps());
    RunLoop::<P>::new(&end.ctx, idle).run(&mut [&mut echo], stop);
    Ok(())
}

fn ask<P: Provider>(device: &P::Device, mut stream: ControlStream, count: u64) -> Outcome<Ns> {
    let mut end = End::<P>::new(device, QpKind::Uc)?;
    end.connect(&mut stream, PATIENCE)?;
    let slot = end.ctx.import_region(&next_export(&end, &mut stream)?)?;
    let mut inbox = end.ctx.create_qp(&QpOptions::<P>::new(QpKind::Ud, &end.cq, end.ctx.caps()))?;
    let memory = end.ctx.alloc(4096, PageWish::Small)?;
    let mr = end.ctx.register(&memory, Access::LOCAL)?;
    let (mut recv, mut list) = (RecvList::default(), SendList::default());
    recv.push(RecvWr { wr_id: WrId(0), sge: mr.sge(0, GRH_BYTES + 64) });
    send_export(&mut stream, &inbox.export()?)?;
    let start = end.ctx.cpu().refresh();
    for seq in 1..=count {
        inbox.post_recv(end.ctx.cpu(), &recv)?; // before the request: a datagram without a RECV is dropped
        list.clear();
        let payload = list.inline_with(SLOT_BYTES, |bytes| {
            bytes[..8].copy_from_slice(&(seq * 7).to_le_bytes());
            bytes[SEQ_OFFSET..].copy_from_slice(&seq.to_le_bytes());
        });
        list.push(request(seq, SendOp::Write { remote: slot.at(0), imm: None }, payload));
        end.qp.post_send(end.ctx.cpu(), &list)?;
        assert_eq!(next_message(&mut end)?.imm, Some(Imm(seq as u32)));
        assert_eq!(memory.load_u64(GRH_BYTES, Ordering::Acquire), seq * 14);
    }
    Ok(end.ctx.cpu().refresh() - start)
}

struct RpcEcho;

impl Example for RpcEcho {
    fn run<P: Provider>(device: P::Device) -> Outcome {
        let (theirs, count) = (device.clone(), 1_000);
        let server = move |stream, stop: &StopFlag| serve::<P>(&theirs, stream, stop);
        let time = beside(server, |stream| ask::<P>(&device, stream, count))?;
        println!("{count} requests, {} ns each", time.0 / count);
        Ok(())
    }
}

fn main() -> std::process::ExitCode {
    run::<RpcEcho>()
}
