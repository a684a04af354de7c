//! One side offers memory; the other WRITEs into it and READs it back, and the first side's code never runs.

use drover_control::exchange::ends;
use drover_examples::{Example, Outcome, next_completion, run};
use drover_mem::PageWish;
use drover_verbs::{Access, Context, MemoryRegion, Provider, QpKind, QueuePair, SendList, SendWr, WrId};

struct WriteAndRead;

impl Example for WriteAndRead {
    fn run<P: Provider>(device: P::Device) -> Outcome {
        // Two connected ends. Both live in this thread; between processes only the exports travel.
        let (mut near, far) = ends::<P>(&device, QpKind::Rc)?;

        // The far side offers a page, with rights. What it exports is all that the near side learns.
        let page = far.ctx.alloc(4096, PageWish::Small)?;
        let offered = far.ctx.register(&page, Access { remote_read: true, ..Access::REMOTE_WRITE })?;
        let remote = near.ctx.import_region(&offered.export(&[])?)?;

        // The near side needs registered memory for what it READs.
        let staging = near.ctx.alloc(4096, PageWish::Small)?;
        let local = near.ctx.register(&staging, Access::LOCAL)?;

        // Both requests in one list: one call, one doorbell. The WRITE is inline (copied now) and unsignaled;
        // requests of one queue pair execute in order, so the READ's completion says that both are done.
        let text = b"drover was here";
        let mut list = SendList::with_capacity(2, 64);
        let payload = list.inline(text);
        list.push(SendWr::write(remote.at(128), payload));
        list.push(SendWr::read(remote.at(128), local.sge(0, text.len())).signaled(WrId(2)));
        near.qp.post_send(near.ctx.cpu(), &list)?;

        let wc = next_completion(&mut near)?;
        assert_eq!(wc.wr_id, WrId(2));
        let mut back = [0; 15];
        staging.copy_out(0, &mut back);
        assert_eq!(&back, text);
        println!("wrote and read back: {:?}", String::from_utf8_lossy(&back));
        Ok(())
    }
}

fn main() -> std::process::ExitCode {
    run::<WriteAndRead>()
}
