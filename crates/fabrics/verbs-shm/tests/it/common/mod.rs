//! Queue pairs made and used in the plainest way.

use drover_verbs::*;
use drover_verbs_shm::{Shm, ShmContext, ShmCq, ShmDevice, ShmQp};

pub fn context() -> ShmContext {
    ShmDevice::default().context().expect("context")
}

pub fn qp(ctx: &ShmContext, cq: &ShmCq, kind: QpKind) -> ShmQp {
    ctx.create_qp(&QpOptions::<Shm>::new(kind, cq, ctx.caps()))
        .expect("qp")
}

/// One signaled request with an inline payload.
pub fn post_send(ctx: &ShmContext, qp: &mut ShmQp, op: SendOp, bytes: &[u8]) -> Result<(), PostError> {
    let mut list = SendList::default();
    let payload = list.inline(bytes);
    list.push(SendWr {
        wr_id: WrId(1),
        op,
        payload,
        signaled: true,
        fence: false,
    });
    qp.post_send(ctx.cpu(), &list)
}

/// Connects two queue pairs of this process.
pub fn connect(here: &mut ShmQp, there: &mut ShmQp) {
    here.connect(&there.export().expect("an export"))
        .expect("connected");
    there
        .connect(&here.export().expect("an export"))
        .expect("connected");
}
