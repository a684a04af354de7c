//! One key of `get`, `gets`, `gat`, `gats`.

use super::{Action, Step, Ttl, Turn};
use drover_base::Condition;
use drover_kv::{Op, Outcome};
use drover_memcached::decide::value_head;
use drover_memcached::request::Fetch;

impl<'a> Turn<'a, '_> {
    pub(super) fn begin_fetch(&mut self, fetch: Fetch) -> Action<'a> {
        let offers = &self.terms.offers;
        if (fetch.with_cas && !offers.versions) || (fetch.touch.is_some() && !offers.touch) {
            return Action::Close;
        }
        match fetch.touch.map(|expiry| self.terms.ttl(expiry)) {
            Some(Ttl::For(ttl_s)) => Action::Ask(Step::Touch, Op::Touch { key: self.key, ttl_s }),
            Some(Ttl::Over) | None => self.read(),
        }
    }

    pub(super) fn proceed_fetch(&mut self, fetch: Fetch, step: Step, outcome: &Outcome<'_>) -> Action<'a> {
        match (step, outcome) {
            (Step::Touch, Outcome::Touched) => self.read(),
            (Step::Touch | Step::Read, Outcome::NotFound) => {
                self.count_fetch(fetch, false);
                Action::Reply
            }
            (
                Step::Read,
                &Outcome::Found {
                    value,
                    version,
                    flags,
                },
            ) => {
                self.count_fetch(fetch, true);
                self.write_value(fetch.with_cas, value, version, flags);
                match fetch.touch.map(|expiry| self.terms.ttl(expiry)) {
                    Some(Ttl::Over) => {
                        let condition = match self.terms.offers.versions {
                            true => Condition::IfVersion(version),
                            false => Condition::Always,
                        };
                        Action::AskThenReply(
                            Step::Drop,
                            Op::Delete {
                                key: self.key,
                                condition,
                            },
                        )
                    }
                    _ => Action::Reply,
                }
            }
            // The lines of other keys are sent or will be: no line here would be understood.
            _ => Action::Close,
        }
    }

    fn count_fetch(&mut self, fetch: Fetch, is_hit: bool) {
        let counters = &mut *self.counters;
        let (all, some) = match (fetch.touch.is_some(), is_hit) {
            (false, true) => (&mut counters.cmd_get, &mut counters.get_hits),
            (false, false) => (&mut counters.cmd_get, &mut counters.get_misses),
            (true, true) => (&mut counters.cmd_touch, &mut counters.touch_hits),
            (true, false) => (&mut counters.cmd_touch, &mut counters.touch_misses),
        };
        (*all, *some) = (*all + 1, *some + 1);
    }

    fn write_value(&mut self, with_cas: bool, value: &[u8], version: u64, flags: u32) {
        let numbers = [u64::from(flags), value.len() as u64, version];
        let numbers = &numbers[..if with_cas { 3 } else { 2 }];
        let bytes = &mut self.reply.bytes;
        let (space, head_len) = value_head(self.key, numbers, value.len(), |len| {
            bytes.resize(len, 0);
            &mut bytes[..]
        });
        let end = head_len + value.len();
        space[head_len..end].copy_from_slice(value);
        space[end..].copy_from_slice(b"\r\n");
    }
}
