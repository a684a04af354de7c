//! Admitting a client: terms, slots and queue pairs; then the workers add it.

use super::clients::NewClient;
use super::mail::{Command, SenderExport};
use super::session::{Phase, Port, Session, SessionParams, agree};
use super::sessions::Sessions;
use super::variant::{Mistake, Variant};
use super::worker::WorkerHandle;
use crate::control::{ErrorCode, Format, FrontEnd, Hello, Message, SlotExports, Welcome};
use drover_control::acceptor::Peers;
use drover_kv::SetupError;
use drover_mem::{MaskedRegion, PageWish};
use drover_shards::Answers;
use drover_verbs::{Access, Context, Export, MemoryRegion, Provider, QpKind, QpOptions, QueuePair, Watch};

impl<P: Provider, V: Variant> Sessions<P, V> {
    /// Handles the Hello of session `index`: admits or refuses the client.
    pub(super) fn greet(&mut self, peers: &mut Peers, index: usize, hello: &Hello) {
        if let Err((code, text)) = self.let_in(peers, index, hello) {
            self.all[index].refuse(peers, code, &text);
        }
    }

    fn let_in(&mut self, peers: &mut Peers, index: usize, hello: &Hello) -> Result<(), (ErrorCode, String)> {
        let refused = |code, text: &str| (code, text.to_owned());
        let terms = agree(hello, &self.offer).map_err(|(code, text)| refused(code, text))?;
        let full = || refused(ErrorCode::TooManyClients, "as many clients as this server takes");
        if terms.front_end == FrontEnd::Slots && self.slots_are_taken() {
            return Err(match self.offer.datagram_window_max > 0 {
                true => refused(ErrorCode::NoSlots, "all slots are taken: datagrams are welcome"),
                false => full(),
            });
        }
        let id = self.take_id().ok_or_else(full)?;
        let session = &mut self.all[index];
        peers.identify(session.conn, &format!("client {}", id.0));
        session.id = Some(id);
        session.terms = Some(terms);
        session.replies = vec![None; terms.map.partition_count];
        if terms.front_end == FrontEnd::Datagrams {
            let (client, _) = id;
            let answers = self.ask_workers(|reply| Command::Export { client, reply });
            self.all[index].phase = Phase::Exporting(answers);
            return Ok(());
        }
        let made = self.make_slots(&terms);
        let (slots, port, region, uc) = made.map_err(|error| (ErrorCode::Resources, error.to_string()))?;
        let session = &mut self.all[index];
        session.slots = Some(slots);
        session.port = Some(port);
        self.welcome(peers, index, region, uc);
        Ok(())
    }

    /// Welcomes the client of session `index`, which sends datagrams to the workers' queue pairs `exports`. Refuses it
    /// if one of them could not be exported.
    pub(super) fn welcome_datagrams(
        &mut self,
        peers: &mut Peers,
        index: usize,
        exports: Vec<Result<SenderExport, String>>,
    ) {
        let exports = match exports.into_iter().collect::<Result<Vec<_>, _>>() {
            Ok(exports) => exports,
            Err(text) => return self.all[index].refuse(peers, ErrorCode::Resources, &text),
        };
        self.welcome(peers, index, Export::default(), Export::default());
        let session = &mut self.all[index];
        session.attached = true;
        for (index, (ud, sender)) in (0..).zip(exports) {
            session.senders.push(sender);
            session.send(peers, &Message::Partition { index, ud });
        }
    }

    fn welcome(&mut self, peers: &mut Peers, index: usize, region: Export, uc: Export) {
        let session = &mut self.all[index];
        let (Some((client_id, generation)), Some(terms)) = (session.id, session.terms) else {
            return;
        };
        session.phase = Phase::Attaching;
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
        session.send(peers, &Message::Welcome(Box::new(welcome)));
    }

    /// Makes a client's slots and the server's end of a UC queue pair for WRITEs into them. Also returns the exports of
    /// both.
    fn make_slots(
        &self,
        terms: &SessionParams,
    ) -> Result<(MaskedRegion, Port<P>, Export, Export), SetupError> {
        // A power of two, so that the worker's looks need no bounds check.
        let bytes = terms.map.region_bytes().next_power_of_two();
        let region = self
            .ctx
            .alloc(MaskedRegion::mapped_bytes(bytes), PageWish::Small)?;
        let own = self.own_context()?;
        let ctx = own.as_ref().unwrap_or(&self.ctx);
        let mr = ctx.register(&region, Access::REMOTE_WRITE)?;
        let stripe = terms.map.window * terms.map.slot_bytes;
        let watch = |(i, worker): (usize, &WorkerHandle)| Watch {
            range: i * stripe..(i + 1) * stripe,
            bell: worker.bell.clone(),
        };
        let watches: Vec<Watch> = match self.ctx.caps().wakes.on_memory {
            true => self.workers.iter().enumerate().map(watch).collect(),
            false => Vec::new(),
        };
        let region_export = mr.export(&watches)?;
        let (port, uc) = self.make_port(QpKind::Uc, mr, own)?;
        Ok((MaskedRegion::new(region, 0, bytes), port, region_export, uc))
    }

    /// A context for what one client may write to: others must not reach it, though they may guess its key. `None`: the
    /// fabric, or the control thread's, will do.
    pub(super) fn own_context(&self) -> Result<Option<P::Context>, SetupError> {
        match self.variant.makes(Mistake::SharesDomain) {
            true => Ok(None),
            false => Ok(self.ctx.isolated()?),
        }
    }

    /// Makes the server's end of a queue pair through which the client accesses the memory `mr`; it posts nothing. `own`:
    /// the context that `mr` is of, if it is not the control thread's. Also returns its export.
    pub(super) fn make_port(
        &self,
        kind: QpKind,
        mr: P::Mr,
        own: Option<P::Context>,
    ) -> Result<(Port<P>, Export), SetupError> {
        let ctx = own.as_ref().unwrap_or(&self.ctx);
        let cq = ctx.create_cq(16)?;
        let mut options = QpOptions::<P>::new(kind, &cq, ctx.caps());
        options.send_depth = 1;
        options.recv_depth = 1;
        let qp = ctx.create_qp(&options)?;
        let export = qp.export()?;
        let port = Port {
            qp,
            _own: own,
            _cq: cq,
            _mr: mr,
        };
        Ok((port, export))
    }

    pub(super) fn attach(&mut self, peers: &mut Peers, index: usize, uc: &Export) {
        let session = &mut self.all[index];
        let Some(port) = &mut session.port else {
            return session.refuse(peers, ErrorCode::OutOfOrder, "datagrams need no attachment");
        };
        match port.qp.connect(uc) {
            Ok(()) => session.attached = true,
            Err(error) => session.refuse(peers, ErrorCode::Resources, &error.to_string()),
        }
        self.add_if_attached(index);
    }

    pub(super) fn note_replies(&mut self, peers: &mut Peers, index: usize, partition: u16, ud: Export) {
        let session = &mut self.all[index];
        match session.replies.get_mut(usize::from(partition)) {
            Some(place @ None) => *place = Some(ud),
            _ => session.refuse(peers, ErrorCode::Malformed, "no such partition, or named twice"),
        }
        self.add_if_attached(index);
    }

    fn add_if_attached(&mut self, index: usize) {
        let session = &mut self.all[index];
        let (true, Some((id, generation)), Some(params)) = (session.is_attached(), session.id, session.terms)
        else {
            return;
        };
        let (slots, all) = (session.slots.clone(), std::mem::take(&mut session.replies));
        let senders = std::mem::take(&mut session.senders);
        let answers = Answers::ask(self.workers.len(), Some(&self.bell), |index, reply| {
            let new = NewClient {
                id,
                generation,
                params,
                slots: slots.clone(),
                replies: all[index].clone().unwrap_or_default(),
                sender: senders.get(index).copied().flatten(),
            };
            self.workers[index].send(Command::Add(Box::new(new), reply));
        });
        self.all[index].phase = Phase::Adding(answers);
    }

    /// Completes the handshake of session `index`, which all workers have added. Refuses the client if one of them
    /// could not.
    pub(super) fn go_live(&mut self, peers: &mut Peers, index: usize, added: Vec<Result<(), String>>) {
        let session = &mut self.all[index];
        if let Some(Err(text)) = added.iter().find(|added| added.is_err()) {
            return session.refuse(peers, ErrorCode::Resources, text);
        }
        if !peers.is_open(session.conn) {
            return;
        }
        tracing::debug!("{} is served", peers.name(session.conn));
        session.phase = Phase::Live;
        self.clients_total += 1;
        session.send(peers, &Message::Ready);
    }

    fn slots_are_taken(&self) -> bool {
        let with_slots = |session: &&Session<P>| session.uses(FrontEnd::Slots);
        self.all.iter().filter(with_slots).count() >= self.slot_clients_max
    }
}
