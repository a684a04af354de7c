//! Fetches of many keys: in batches, as far as the output has space. The rest of the line stays in the input, so an
//! unfinished fetch stores only its command.

use super::batch::BATCH_MAX;
use super::{Session, State, Step};
use crate::exec::END;
use crate::member::{OnFailure, PARKED};
use crate::parse::scan::{self, Words};
use crate::parse::{BAD_FORMAT, KEY_BYTES_MAX};
use crate::request::Fetch;
use crate::{Executor, exec, forward};
use drover_base::{Cpu, KeyHash};
use drover_net::{Need, Output};
use drover_store::{Hint, Key, Sharing};

/// Stop of a fetch: offset in its keys of the next key, and what it waits for.
type Stopped = (usize, Need);

/// A key of a batch.
#[derive(Clone, Copy)]
struct Planned<'a> {
    key: &'a [u8],
    hash: KeyHash,
    core: usize,
    hint: Hint,
    /// Start of the key in the line.
    start: usize,
}

/// What a key is fetched for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// It is the only key.
    Whole,
    /// It is one of several keys, and may be asked for by one message with others of its core.
    OneOfMany,
}

/// What the output has of a fetch once one of its keys was fetched or asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The key's part. The last line is to follow.
    Key,
    /// All.
    All,
}

impl<C: Cpu + 'static, S: Sharing + 'static> Session<C, S> {
    /// Fetches all `keys` and ends the reply. `first`: hash, route and hint of the first key.
    #[inline]
    pub(super) fn fetch_all(
        &mut self,
        executor: &mut Executor<'_, C, S>,
        fetch: Fetch,
        keys: &[u8],
        first: (KeyHash, usize, Hint),
        output: &mut Output,
    ) -> Result<(), Stopped> {
        let mut words = Words::new(keys);
        let Some(key) = words.next() else {
            output.push(END); // `gat` without a key
            return Ok(());
        };
        if words.rest().is_empty() {
            let (hash, core, hint) = first;
            let start = words.start();
            let planned = Planned {
                key,
                hash,
                core,
                hint,
                start,
            };
            if self.fetch_one(executor, fetch, &planned, Part::Whole, output)? == Progress::All {
                return Ok(());
            }
        } else {
            self.fetch_many(executor, fetch, keys, output)?;
        }
        output.push(END);
        Ok(())
    }

    /// Continues a fetch whose remaining keys start with `rest`.
    pub(super) fn fetch_on(
        &mut self,
        executor: &mut Executor<'_, C, S>,
        fetch: Fetch,
        rest: &[u8],
        output: &mut Output,
    ) -> Step {
        let line_end = scan::find(rest, b'\n');
        let keys = match line_end {
            Some(end) => rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]),
            // The last key may be incomplete.
            None => &rest[..rest.iter().rposition(|&byte| byte == b' ').map_or(0, |at| at + 1)],
        };
        let cut = line_end.is_none() && rest.len() - keys.len() > KEY_BYTES_MAX + 1;
        if cut || Words::new(keys).any(|key| key.len() > KEY_BYTES_MAX) {
            // Replies to earlier keys have been sent and cannot be withdrawn.
            exec::reply(output, BAD_FORMAT);
            self.state = State::Over;
            return Step::On(rest.len());
        }
        if let Err((start, need)) = self.fetch_many(executor, fetch, keys, output) {
            return Step::Wait(start, need);
        }
        let Some(end) = line_end else {
            let at_least = rest.len() - keys.len() + 1;
            return Step::Wait(keys.len(), Need::Input { at_least });
        };
        output.push(END);
        self.state = State::Idle;
        Step::On(end + 1)
    }

    /// Fetches `keys`, in batches.
    fn fetch_many(
        &mut self,
        executor: &mut Executor<'_, C, S>,
        fetch: Fetch,
        keys: &[u8],
        output: &mut Output,
    ) -> Result<(), Stopped> {
        let mut words = Words::new(keys);
        loop {
            let mut batch = [const { None }; BATCH_MAX];
            let mut count = 0;
            while count < BATCH_MAX
                && let Some(key) = words.next()
            {
                let hash = executor.server.hasher.hash(key);
                let core = executor.route_of(hash);
                executor.prefetch_bucket(core, hash);
                batch[count] = Some(Planned {
                    key,
                    hash,
                    core,
                    hint: Hint::NONE,
                    start: words.start(),
                });
                count += 1;
            }
            for planned in batch[..count].iter_mut().flatten() {
                planned.hint = executor.prefetch_item(planned.core, planned.hash);
            }
            let mut planned = batch[..count].iter().flatten();
            let part = Part::OneOfMany;
            let fetched =
                planned.try_for_each(|key| self.fetch_one(executor, fetch, key, part, output).map(|_| ()));
            executor.send_gathered(output);
            fetched?;
            if count < BATCH_MAX {
                return Ok(());
            }
        }
    }

    /// Fetches one key: here, by a read in place, or on its core.
    #[inline]
    fn fetch_one(
        &mut self,
        executor: &mut Executor<'_, C, S>,
        fetch: Fetch,
        planned: &Planned<'_>,
        part: Part,
        output: &mut Output,
    ) -> Result<Progress, Stopped> {
        if output.is_full() {
            return Err((planned.start, Need::OutputSpace));
        }
        let Planned { key, hash, .. } = *planned;
        let core = executor.settled_route(planned.core, hash);
        let own = Key { hash, bytes: key };
        if core == executor.router.own() {
            let hint = if core == planned.core {
                planned.hint
            } else {
                Hint::NONE
            };
            exec::fetch(executor, fetch, own, hint, output);
            return Ok(Progress::Key);
        }
        if S::HAS_READERS
            && !self.under_way.may_have(hash, output)
            && exec::fetch_in_place(executor, core, fetch, own, output)
        {
            return Ok(Progress::Key);
        }
        let number = output.next_hole().number;
        if part == Part::OneOfMany && core != PARKED && executor.gather(core, fetch, own, output) {
            self.under_way.add(hash, number);
            return Ok(Progress::Key);
        }
        // In a member the fetch may fail: then the line that says so must be the last one.
        let (kind, on_failure, progress) = match part {
            Part::Whole if executor.is_member() => (b'g', OnFailure::Line, Progress::All),
            _ => (b'v', OnFailure::Close, Progress::Key),
        };
        let pieces = [
            &forward::head(hash, kind, executor.core.connection)[..],
            &forward::fetch_bytes(fetch),
            key,
        ];
        executor
            .send_pieces(core, on_failure, &pieces, output)
            .map_err(|_| (planned.start, Need::Route))?;
        self.under_way.add(hash, number);
        Ok(progress)
    }
}
