//! Letting a client in: terms, slots, queue pairs, and then the workers.

use super::acceptor::Acceptor;
use super::clients::NewClient;
use super::inbox::Command;
use super::session::{Phase, Port, Session, SessionParams, agree};
use super::variant::Variant;
use super::worker::Introduction;
use crate::control::{ErrorCode, Format, FrontEnd, Hello, Message, SlotExports, Welcome};
use drover_mem::{MaskedRegion, PageWish};
use drover_verbs::{Access, Context, Export, MemoryRegion, Provider, QpKind, QpOptions, QueuePair, Watch};

impl<P: Provider, V: Variant> Acceptor<P, V> {
    pub(super) fn greet(&mut self, index: usize, hello: &Hello) {
        let terms = match agree(hello, &self.offer) {
            Ok(terms) => terms,
            Err((code, text)) => return self.sessions[index].refuse(code, text),
        };
        if self.stopping {
            return self.sessions[index].refuse(ErrorCode::Stopping, "the server is going down");
        }
        if terms.front_end == FrontEnd::Slots && self.slots_are_taken() {
            let (code, text) = match self.offer.datagram_window_max > 0 {
                true => (ErrorCode::NoSlots, "all slots are taken: datagrams are welcome"),
                false => (ErrorCode::TooManyClients, "as many clients as this server takes"),
            };
            return self.sessions[index].refuse(code, text);
        }
        let Some(id) = self.ids.take() else {
            return self.sessions[index]
                .refuse(ErrorCode::TooManyClients, "as many clients as this server takes");
        };
        let session = &mut self.sessions[index];
        session.id = Some(id);
        session.terms = Some(terms);
        session.replies = vec![None; terms.map.partition_count];
        if terms.front_end == FrontEnd::Datagrams {
            session.exports = vec![None; terms.map.partition_count];
            session.phase = Phase::Exporting {
                missing: self.workers.len(),
            };
            for worker in &self.workers {
                worker.inbox.push(Command::Export { client: id.0 });
            }
            return;
        }
        match self.make_slots(&terms) {
            Ok((slots, port, region, uc)) => {
                let session = &mut self.sessions[index];
                session.slots = Some(slots);
                session.port = Some(port);
                self.welcome(index, id, &terms, region, uc);
            }
            Err(text) => self.sessions[index].refuse(ErrorCode::Resources, &text),
        }
    }

    pub(super) fn welcome(
        &mut self,
        index: usize,
        (client_id, generation): (u32, u32),
        terms: &SessionParams,
        region: Export,
        uc: Export,
    ) {
        let welcome = Welcome {
            epoch: self.identity.epoch,
            client_id,
            generation,
            partition_count: terms.map.partition_count as u16,
            window: terms.map.window as u16,
            slot_bytes: terms.map.slot_bytes as u16,
            crc: terms.rule.crc_required && terms.format == Format::D,
            mtu_bytes: self.ctx.caps().mtu_bytes as u32,
            item_bytes_max: self.identity.item_bytes_max as u32,
            hash_seed: self.identity.hash_seed,
            reply_qpns: self.workers.iter().map(|worker| worker.qpn).collect(),
            slots: SlotExports { region, uc },
        };
        let session = &mut self.sessions[index];
        session.phase = Phase::Attaching;
        session.attached = terms.front_end == FrontEnd::Datagrams;
        session.send(&Message::Welcome(Box::new(welcome)));
        for (partition, ud) in std::mem::take(&mut session.exports).into_iter().enumerate() {
            let ud = ud.unwrap_or_default();
            let index = partition as u16;
            session.send(&Message::Partition { index, ud });
        }
    }

    /// The client's slots, a queue pair to write them through, and what to tell it of both.
    pub(super) fn make_slots(
        &self,
        terms: &SessionParams,
    ) -> Result<(MaskedRegion, Port<P>, Export, Export), String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        // A power of two, so that the worker's looks need no bounds check.
        let bytes = terms.map.region_bytes().next_power_of_two();
        let mapped = MaskedRegion::mapped_bytes(bytes);
        let region = self.ctx.alloc(mapped, PageWish::Small).map_err(|e| text(&e))?;
        let mr = self
            .ctx
            .register(&region, Access::REMOTE_WRITE)
            .map_err(|e| text(&e))?;
        let stripe = terms.map.window * terms.map.slot_bytes;
        let watch = |(i, worker): (usize, &Introduction)| Watch {
            range: i * stripe..(i + 1) * stripe,
            bell: worker.bell.clone(),
        };
        let watches: Vec<Watch> = match self.ctx.caps().wakes.on_memory {
            true => self.workers.iter().enumerate().map(watch).collect(),
            false => Vec::new(),
        };
        let region_export = mr.export(&watches).map_err(|e| text(&e))?;
        let (port, uc) = self.make_port(QpKind::Uc, mr)?;
        Ok((MaskedRegion::new(region, 0, bytes), port, region_export, uc))
    }

    /// A queue pair that only responds.
    pub(super) fn make_port(&self, kind: QpKind, mr: P::Mr) -> Result<(Port<P>, Export), String> {
        let cq = self.ctx.create_cq(16).map_err(|error| error.to_string())?;
        let mut options = QpOptions::<P>::new(kind, &cq, self.ctx.caps());
        options.send_depth = 1;
        options.recv_depth = 1;
        let qp = self.ctx.create_qp(&options).map_err(|error| error.to_string())?;
        let export = qp.export().map_err(|error| error.to_string())?;
        Ok((Port { qp, _cq: cq, _mr: mr }, export))
    }

    pub(super) fn attach(&mut self, index: usize, uc: &Export) {
        let session = &mut self.sessions[index];
        let Some(port) = &mut session.port else {
            return session.refuse(ErrorCode::OutOfOrder, "datagrams need no attachment");
        };
        match port.qp.connect(uc) {
            Ok(()) => session.attached = true,
            Err(error) => session.refuse(ErrorCode::Resources, &error.to_string()),
        }
        self.add_if_attached(index);
    }

    pub(super) fn note_replies(&mut self, index: usize, partition: u16, ud: Export) {
        let session = &mut self.sessions[index];
        match session.replies.get_mut(usize::from(partition)) {
            Some(place @ None) => *place = Some(ud),
            _ => session.refuse(ErrorCode::Malformed, "no such partition, or named twice"),
        }
        self.add_if_attached(index);
    }

    pub(super) fn add_if_attached(&mut self, index: usize) {
        let session = &mut self.sessions[index];
        let (true, Some((id, generation)), Some(terms)) = (session.is_attached(), session.id, session.terms)
        else {
            return;
        };
        session.phase = Phase::Adding {
            missing: self.workers.len(),
        };
        for (worker, replies) in self.workers.iter().zip(std::mem::take(&mut session.replies)) {
            worker.inbox.push(Command::Add(Box::new(NewClient {
                id,
                generation,
                params: terms,
                slots: session.slots.clone(),
                replies: replies.unwrap_or_default(),
            })));
        }
    }

    pub(super) fn note_added(&mut self, client: u32, result: Result<(), String>) {
        let Some(index) = self.session_of(client) else {
            return;
        };
        let session = &mut self.sessions[index];
        if let (Err(text), Phase::Adding { .. }) = (&result, session.phase) {
            session.refuse(ErrorCode::Resources, text);
        }
        if let Phase::Adding { missing } = &mut session.phase {
            *missing -= 1;
            if *missing == 0 && !session.stream.is_closed() {
                session.phase = Phase::Live;
                self.clients_total += 1;
                session.send(&Message::Ready);
            }
        }
    }

    pub(super) fn note_exported(&mut self, worker: usize, client: u32, result: Result<Export, String>) {
        let Some(index) = self.session_of(client) else {
            return;
        };
        let session = &mut self.sessions[index];
        let Phase::Exporting { missing } = &mut session.phase else {
            return;
        };
        *missing -= 1;
        let done = *missing == 0;
        match result {
            Ok(export) => session.exports[worker] = Some(export),
            Err(text) => return session.refuse(ErrorCode::Resources, &text),
        }
        if let (true, Some(id), Some(terms)) = (done, session.id, session.terms) {
            self.welcome(index, id, &terms, Export::default(), Export::default());
        }
    }

    fn slots_are_taken(&self) -> bool {
        let with_slots = |session: &&Session<P>| session.uses(FrontEnd::Slots);
        self.sessions.iter().filter(with_slots).count() >= self.slot_clients_max
    }
}
