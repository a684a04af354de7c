//! Requests to the server: updates, and GETs that READs cannot answer.

use super::execution::State;
use super::operation::Operation;
use super::{Operations, Reader, Session};
use crate::request::{Request, RequestKind};
use drover_kv::{EXTENSION_BYTES, OpKind, Refusal};
use drover_verbs::Provider;

impl<P: Provider, R: Reader<P>> Operations<P, R> {
    /// Notes that the work request that carried the request of operation `at` to the server has completed.
    ///
    /// # Panics
    /// If the operation has no request in flight.
    pub fn carried(&mut self, at: usize) {
        let execution = &mut self.list[at].execution;
        execution.carried(at);
        match execution.state() {
            State::Sending => self.vacate(at),
            State::Asking { .. } | State::Redirected { .. } => self.retries_all = true,
            _ => {}
        }
    }

    /// Sends an update, with the same number every time. Returns the result of [`Session::send`]; without space or session, the
    /// update keeps waiting. The server refuses a value that fits a message and is too large all the same.
    ///
    /// # Errors
    /// The value exceeds the shard's item limit, which `submit` cannot know before the first session.
    pub(super) fn send_update(&mut self, at: usize) -> Result<Option<u64>, Refusal> {
        let Operation {
            submitted, execution, ..
        } = &self.list[at];
        let Some(session) = self.links[submitted.shard].session() else {
            return Ok(None);
        };
        let mut request = Request {
            kind: match submitted.kind {
                OpKind::Touch => RequestKind::Touch,
                _ => RequestKind::Delete,
            },
            slot: at as u16,
            key_bytes: submitted.key.len(),
            value_bytes: submitted.value.len(),
            ttl_s: submitted.ttl_s,
            sequence: execution.sequence(),
            value_offset: 0,
            is_detailed: false,
            extension: submitted.extension,
        };
        let lead_bytes = match submitted.extension {
            None => submitted.key.len(),
            Some(_) => EXTENSION_BYTES + submitted.key.len(),
        };
        if submitted.extension.is_some() && !session.resources().agreed.fits_message(lead_bytes, 0) {
            return Err(Refusal::TooLarge);
        }
        let (mut large, mut value) = (None, &submitted.value[..]);
        if submitted.kind == OpKind::Put {
            request.kind = RequestKind::Put;
            if !session.resources().agreed.fits_message(lead_bytes, value.len()) {
                let item_bytes = R::item_bytes(submitted.key.len(), value.len());
                if item_bytes > session.resources().agreed.item_bytes_max {
                    return Err(Refusal::TooLarge);
                }
                let values = &mut session.resources_mut().values;
                let Some(buffer) = values.lend(at) else {
                    return Ok(None);
                };
                values.copy_in(buffer, value);
                (request.kind, request.value_offset) = (RequestKind::PutLarge, values.offset(buffer) as u64);
                (large, value) = (Some(buffer), &[]);
            }
        }
        let sent = session.send(at, &request, &submitted.key, value);
        Ok(self.sent(at, sent, large))
    }

    /// Sends a GET request, with space for the value if it `is_long`, and returns the result of [`Session::send`].
    /// Without space, or while the place's previous request has not completed, the operation stays in
    /// [`State::Asking`].
    pub(super) fn ask(&mut self, at: usize, is_long: bool) -> Option<u64> {
        self.release_large(at);
        let Operation {
            submitted, execution, ..
        } = &mut self.list[at];
        assert!(!submitted.is_update(), "operation {at} asks, but is an update");
        execution.ask(at, is_long);
        if execution.is_sending() {
            return None;
        }
        let session = self.links[submitted.shard].session()?;
        let large = match is_long {
            false => None,
            true => Some(session.resources_mut().values.lend(at)?),
        };
        self.sequences += 1;
        execution.renumber(self.sequences);
        let values = &mut session.resources_mut().values;
        let request = Request {
            kind: RequestKind::Get,
            slot: at as u16,
            key_bytes: submitted.key.len(),
            value_bytes: large.map_or(0, |_| values.bytes()),
            ttl_s: 0,
            sequence: execution.sequence(),
            value_offset: large.map_or(0, |large| values.offset(large) as u64),
            is_detailed: submitted.is_detailed,
            extension: None,
        };
        let sent = session.send(at, &request, &submitted.key, &[]);
        self.sent(at, sent, large)
    }

    #[inline(always)]
    fn sent(&mut self, at: usize, sent: Option<u64>, large: Option<u8>) -> Option<u64> {
        match sent {
            Some(_) => self.list[at].execution.sent(large),
            None => {
                if let (Some(large), Some(session)) = (large, self.session(at)) {
                    session.resources_mut().values.take_back(large);
                }
            }
        }
        sent
    }
}
