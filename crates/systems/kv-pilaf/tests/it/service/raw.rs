//! [`Raw`]: a client without manners, which says whatever a test wants it to.

use crate::service::bed::Cluster;
use drover_base::{Cpu, Ns};
use drover_control::{ControlStream, Frame};
use drover_kv_pilaf::control::{Attach, Hello, PROTOCOL_VERSION, Ready, Ticket, Welcome};
use drover_kv_pilaf::layout::Reply;
use drover_mem::PageWish;
use drover_verbs::{
    Access, CompletionQueue, Context, Device, MemoryRegion, QpKind, QpOptions, QueuePair, RecvList, RecvWr,
    SendList, SendWr, Wc, WrId,
};
use drover_verbs_suite::loopback::{Loopback, LoopbackContext, LoopbackCq, LoopbackMr, LoopbackQp};

/// Requests that it may have under way.
const SLOTS: usize = 8;
pub const VALUES_BYTES: usize = 4096;

pub struct Raw {
    pub control: ControlStream,
    qp: LoopbackQp,
    cq: LoopbackCq,
    requests: LoopbackMr,
    replies: LoopbackMr,
    values: Option<LoopbackMr>,
    message_bytes: usize,
    ctx: LoopbackContext,
}

pub fn hello() -> Hello {
    Hello {
        version: PROTOCOL_VERSION,
        slots: SLOTS as u16,
        shard: 0,
        shard_count: 1,
        previous: Ticket::NONE,
        secret: Vec::new(),
        params: (),
    }
}

/// The next frame, if one comes before long.
pub fn receive(cluster: &mut Cluster, control: &mut ControlStream) -> Option<Frame> {
    for _ in 0..100 {
        match control.recv(Ns::ZERO) {
            Ok(Some(frame)) => return Some(frame),
            Ok(None) => cluster.step(),
            Err(_) => return None,
        }
    }
    None
}

impl Raw {
    /// Greets, and has been welcomed.
    pub fn welcomed(cluster: &mut Cluster) -> (Raw, Welcome) {
        let mut control = cluster.listener.connect();
        control.send_message(&hello()).expect("space for a frame");
        let frame = receive(cluster, &mut control).expect("a welcome");
        let welcome = frame.decode::<Welcome>().expect("a welcome");
        let message_bytes = welcome.terms.message_bytes as usize;
        let ctx = cluster.device.context().expect("a context");
        let cq = ctx.create_cq(4 * SLOTS).expect("a queue");
        let options = QpOptions::new(QpKind::Rc, &cq, ctx.caps());
        let qp = ctx.create_qp(&options).expect("a queue pair");
        let memory = |bytes, access| {
            let region = ctx.alloc(bytes, PageWish::Small).expect("memory");
            ctx.register(&region, access).expect("memory")
        };
        let raw = Raw {
            control,
            qp,
            requests: memory(message_bytes, Access::LOCAL),
            replies: memory(message_bytes, Access::LOCAL),
            values: Some(memory(VALUES_BYTES, Access::REMOTE_READ)),
            message_bytes,
            cq,
            ctx,
        };
        (raw, welcome)
    }

    pub fn attach(&self) -> Attach {
        let values = self.values.as_ref().expect("not forgotten");
        Attach {
            qp: self.qp.export().expect("an export"),
            values: values.export(&[]).expect("an export"),
        }
    }

    /// Connected.
    pub fn new(cluster: &mut Cluster) -> Raw {
        let (mut raw, welcome) = Raw::welcomed(cluster);
        raw.connect(&welcome);
        let attach = raw.attach();
        raw.control.send_message(&attach).expect("space for a frame");
        let frame = receive(cluster, &mut raw.control).expect("an answer");
        frame.decode::<Ready>().expect("ready");
        raw
    }

    pub fn connect(&mut self, welcome: &Welcome) {
        self.qp.connect(&welcome.qp).expect("a connection");
    }

    /// Its memory for values is registered no more.
    pub fn forget_values(&mut self) {
        self.values = None;
    }

    pub fn message_bytes(&self) -> usize {
        self.message_bytes
    }

    /// Sends a message; the answer to it, if there is one.
    pub fn ask(&mut self, cluster: &mut Cluster, message: &[u8]) -> Option<(Reply, Vec<u8>)> {
        let cpu = self.ctx.cpu();
        let mut recvs = RecvList::with_capacity(1);
        recvs.push(RecvWr {
            wr_id: WrId(1),
            sge: self.replies.sge(0, self.message_bytes),
        });
        self.qp.post_recv(cpu, &recvs).ok()?;
        self.requests.region().copy_in(0, message);
        let mut list = SendList::with_capacity(1, 0);
        list.push(SendWr::send(self.requests.sge(0, message.len())).signaled(WrId(2)));
        self.qp.post_send(cpu, &list).ok()?;
        for _ in 0..100 {
            self.ctx.cpu().refresh();
            let mut wcs = [Wc::default(); 4];
            let count = CompletionQueue::<Loopback>::poll(&mut self.cq, self.ctx.cpu(), &mut wcs);
            for wc in &wcs[..count] {
                if wc.status != drover_verbs::WcStatus::Success {
                    return None;
                }
                if wc.wr_id == WrId(1) {
                    let mut reply = vec![0; wc.byte_len as usize];
                    self.replies.region().copy_out(0, &mut reply);
                    let (reply, value) = Reply::decode(&reply).expect("a server's reply is one");
                    return Some((reply, value.to_vec()));
                }
            }
            cluster.step();
        }
        None
    }
}
