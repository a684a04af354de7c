//! A peer is killed at a random instruction of its posting loop, repeatedly; the survivor continues.

use crate::common::{context, post_send, qp};
use drover_base::Rng;
use drover_mem::{PageWish, Region};
use drover_testkit::child::{Channel, role, spawn};
use drover_verbs::*;
use std::sync::atomic::Ordering;

const ROUNDS: usize = 25;
const SLOTS: usize = 16;
const SLOT_BYTES: usize = 128;
const RECV_BYTES: usize = 256;
/// Flag of messages from the child.
const FROM_CHILD: u32 = 1 << 31;

/// `words` copies of `number`: torn if they differ.
fn body(number: u64, words: usize) -> Vec<u8> {
    number.to_le_bytes().repeat(words)
}

fn check_body(region: &Region, offset: usize, len: usize) {
    let first = region.load_u64(offset, Ordering::Acquire);
    for at in (0..len).step_by(8) {
        assert_eq!(
            region.load_u64(offset + at, Ordering::Relaxed),
            first,
            "a torn message"
        );
    }
}

#[test]
fn the_survivor_of_a_killed_peer_goes_on() {
    if role().is_some() {
        return victim(Channel::of_child());
    }
    let ctx = context();
    let mut cq = ctx.create_cq(256).expect("cq");
    let mut receiver = qp(&ctx, &cq, QpKind::Ud);
    let mut honest = qp(&ctx, &cq, QpKind::Ud);
    let dest = ctx
        .create_ah(&receiver.export().expect("export"))
        .expect("handle");
    let memory = ctx.alloc(64 * RECV_BYTES, PageWish::Small).expect("memory");
    let recv_mr = ctx.register(&memory, Access::LOCAL).expect("registration");
    let mut recvs = RecvList::default();
    for id in 0..64 {
        recvs.push(RecvWr {
            wr_id: WrId(id),
            sge: recv_mr.sge(id as usize * RECV_BYTES, RECV_BYTES),
        });
    }
    receiver.post_recv(ctx.cpu(), &recvs).expect("post");
    let mut rng = Rng::new(0x5eed, 0, 0);
    let mut from_children = 0u64;
    for round in 0..ROUNDS {
        let (mut child, mut channel) = spawn(
            &["killed::the_survivor_of_a_killed_peer_goes_on", "--exact"],
            "victim",
        );
        // Every client gets a region and a queue pair of its own, as services should do.
        let slots = ctx.alloc(SLOTS * SLOT_BYTES, PageWish::Small).expect("memory");
        let mr = ctx.register(&slots, Access::REMOTE_WRITE).expect("registration");
        let mut connection = qp(&ctx, &cq, QpKind::Rc);
        channel.send(&mr.export(&[]).expect("export")).expect("child");
        channel
            .send(&connection.export().expect("export"))
            .expect("child");
        channel.send(&receiver.export().expect("export")).expect("child");
        connection
            .connect(&channel.receive().expect("child"))
            .expect("connect");
        let (until, mut got) = (1 + rng.below(800), 0);
        let mut wcs = [Wc::default(); 32];
        let mut killed = false;
        let (mut honest_answered, mut looks) = (false, 0u32);
        while !honest_answered {
            if got >= until && !killed {
                child.kill().expect("kill");
                child.wait().expect("wait");
                killed = true;
            }
            looks += 1;
            // Datagrams without a RECV are lost, and the dead child's may have taken all RECVs: send again.
            if killed && looks % 100 == 0 {
                let op = SendOp::Send {
                    dest: Some(dest),
                    imm: Some(Imm(round as u32)),
                };
                post_send(&ctx, &mut honest, op, &body(round as u64, 3)).expect("post");
            }
            let n = cq.poll(ctx.cpu(), &mut wcs);
            recvs.clear();
            for wc in wcs[..n].iter().filter(|wc| wc.opcode == Opcode::Recv) {
                assert_eq!(wc.status, WcStatus::Success);
                let at = wc.wr_id.0 as usize * RECV_BYTES;
                check_body(&memory, at + GRH_BYTES, wc.byte_len as usize - GRH_BYTES);
                match wc.imm.expect("all messages have one").0 {
                    imm if imm & FROM_CHILD != 0 => got += 1,
                    imm => honest_answered |= imm == round as u32,
                }
                recvs.push(RecvWr {
                    wr_id: wc.wr_id,
                    sge: recv_mr.sge(at, RECV_BYTES),
                });
            }
            receiver.post_recv(ctx.cpu(), &recvs).expect("post");
        }
        from_children += got;
        // The end of the channel shows that the child is gone: drop its queue pair without waiting.
        drop(connection);
    }
    assert!(from_children >= ROUNDS as u64);
    assert_eq!(ctx.stats().poisoned, 0);
}

/// Posts as fast as it can until it is killed.
fn victim(mut channel: Channel) {
    let ctx = context();
    let mut cq = ctx.create_cq(256).expect("cq");
    let (mut rc, mut ud) = (qp(&ctx, &cq, QpKind::Rc), qp(&ctx, &cq, QpKind::Ud));
    let Ok(region) = channel.receive() else { return };
    let remote = ctx.import_region(&region).expect("import");
    rc.connect(&channel.receive().expect("parent")).expect("connect");
    let dest = ctx
        .create_ah(&channel.receive().expect("parent"))
        .expect("handle");
    channel.send(&rc.export().expect("export")).expect("parent");
    let mut list = SendList::default();
    // Far more than a parent takes, so that an orphan ends.
    for number in 0..50_000_000u64 {
        list.clear();
        let words = 1 + (number % 20) as usize;
        let payload = list.inline(&body(number, words.min(16)));
        let slot = remote.at((number as usize % SLOTS) * SLOT_BYTES);
        list.push(SendWr::write(slot, payload).signaled(WrId(1)));
        rc.post_send(ctx.cpu(), &list).expect("post");
        list.clear();
        let payload = list.inline(&body(number, words));
        list.push(
            SendWr::send_to(dest, payload)
                .with_imm(Imm(number as u32 | FROM_CHILD))
                .signaled(WrId(2)),
        );
        ud.post_send(ctx.cpu(), &list).expect("post");
        cq.poll(ctx.cpu(), &mut [Wc::default(); 8]);
    }
}
