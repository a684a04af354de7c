//! A batch: pipelined requests of one input, in three passes, so that memory accesses overlap.
//!
//! ```text
//! pass 1 (as each is parsed)  hash the key, prefetch its bucket
//! pass 2                      look at the bucket's tags, prefetch the items
//! pass 3                      execute in order, build the replies in place
//! ```
//! Parsing changes nothing, so requests can be parsed ahead. A batch ends before a request without a key, which runs
//! after the batch.

use super::{Session, State, Step};
use crate::parse::{self, Parsed};
use crate::request::Request;
use crate::{Executor, RouteFull};
use drover_base::{Cpu, KeyHash};
use drover_net::{Need, Output};
use drover_store::{Hint, Sharing};

/// Maximum number of requests, or keys of a fetch, that are prefetched together.
pub(super) const BATCH_MAX: usize = crate::gather::KEYS_MAX;
/// Input up to this length holds one or two requests.
const ALONE_BYTES: usize = 96;

/// A request of a batch.
#[derive(Clone, Copy)]
struct Planned<'a> {
    request: Request<'a>,
    hash: KeyHash,
    core: usize,
    hint: Hint,
    /// Start and end of the request in the input.
    start: usize,
    end: usize,
    swallow: usize,
}

impl Planned<'_> {
    /// The hint, if the request is executed on the core that it is of.
    #[inline]
    fn hint_on(&self, core: usize) -> Hint {
        if core == self.core { self.hint } else { Hint::NONE }
    }
}

/// The batch, and the reason why it ended.
struct Gathered<'a, const N: usize> {
    planned: [Option<Planned<'a>>; N],
    count: usize,
    /// End of the last request in the input.
    end: usize,
    stop: Option<Parsed<'a>>,
}

impl<C: Cpu + 'static, S: Sharing + 'static> Session<C, S> {
    /// Executes the requests in `rest`, at most one batch.
    #[inline]
    pub(super) fn batch(
        &mut self,
        executor: &mut Executor<'_, C, S>,
        rest: &[u8],
        budget: &mut usize,
        output: &mut Output,
    ) -> Step {
        // A lone request, usual for clients that wait for each reply, needs no array of 32.
        if rest.len() <= ALONE_BYTES {
            return self.batch_of::<2>(executor, rest, budget, output);
        }
        self.batch_of::<BATCH_MAX>(executor, rest, budget, output)
    }

    #[inline]
    fn batch_of<const N: usize>(
        &mut self,
        executor: &mut Executor<'_, C, S>,
        rest: &[u8],
        budget: &mut usize,
        output: &mut Output,
    ) -> Step {
        let mut gathered = Gathered::<N> {
            planned: [const { None }; N],
            count: 0,
            end: 0,
            stop: None,
        };
        gather(executor, rest, N.min(*budget), &mut gathered);
        if gathered.count > 1 {
            for planned in gathered.planned[..gathered.count].iter_mut().flatten() {
                planned.hint = executor.prefetch_item(planned.core, planned.hash);
            }
        }
        for planned in gathered.planned[..gathered.count].iter().flatten() {
            if output.is_full() {
                return Step::Wait(planned.start, Need::OutputSpace);
            }
            *budget -= 1;
            match self.perform(executor, planned, rest, output) {
                Ok(None) => {}
                Ok(Some(step)) => return step,
                Err(RouteFull) => return Step::Wait(planned.start, Need::Route),
            }
            self.swallow = planned.swallow;
        }
        match gathered.stop {
            None => Step::On(gathered.end),
            Some(_) if gathered.count > 0 && output.is_full() => Step::Wait(gathered.end, Need::OutputSpace),
            Some(stop) => self.after_batch(executor, &stop, gathered.end, rest, budget, output),
        }
    }

    /// Executes a request here, answers it by a read in place, or sends it to its core, or parks it. Returns a step if it is a fetch that ended the batch.
    #[inline]
    fn perform(
        &mut self,
        executor: &mut Executor<'_, C, S>,
        planned: &Planned<'_>,
        rest: &[u8],
        output: &mut Output,
    ) -> Result<Option<Step>, RouteFull> {
        match planned.request {
            Request::Fetch { fetch, keys } => {
                let first = (planned.hash, planned.core, planned.hint);
                let whole = self.fetch_all(executor, fetch, keys, first, output);
                return Ok(whole.err().map(|(start, need)| {
                    self.state = State::Fetching(fetch);
                    let keys_end = planned.end - line_end_bytes(&rest[planned.start..planned.end]);
                    Step::Wait(keys_end - keys.len() + start, need)
                }));
            }
            ref request => {
                let core = executor.settled_route(planned.core, planned.hash);
                if core == executor.router.own() {
                    executor.execute(request, planned.hash, planned.hint_on(core), output);
                    return Ok(None);
                }
                let is_alone = !self.under_way.may_have(planned.hash, output);
                if is_alone && executor.answer_in_place(core, request, planned.hash, output) {
                    return Ok(None);
                }
                let input = &rest[planned.start..planned.end];
                let number = output.next_hole().number;
                executor.send(core, request, planned.hash, input, output)?;
                self.under_way.add(planned.hash, number);
            }
        }
        Ok(None)
    }

    /// Handles the input that ended a batch at `end`.
    fn after_batch(
        &mut self,
        executor: &mut Executor<'_, C, S>,
        stop: &Parsed<'_>,
        end: usize,
        rest: &[u8],
        budget: &mut usize,
        output: &mut Output,
    ) -> Step {
        match *stop {
            Parsed::Partial { at_least } => Step::Wait(end, Need::Input { at_least }),
            Parsed::Endless { with_cas, used } => {
                let touch = None;
                self.state = State::Fetching(crate::request::Fetch { with_cas, touch });
                Step::On(end + used)
            }
            Parsed::Refused(ref refused) => {
                *budget = budget.saturating_sub(1);
                self.refuse(refused, output);
                Step::On(end + refused.used)
            }
            Parsed::Request { request, used, .. } => {
                let Request::General(line) = request else {
                    return Step::On(end + used);
                };
                debug_assert!(end + used <= rest.len());
                if *budget == 0 {
                    return Step::Wait(end, Need::Turn);
                }
                *budget -= 1;
                match self.general(executor, line, output) {
                    Ok(()) => Step::On(end + used),
                    Err(need) => Step::Wait(end, need),
                }
            }
        }
    }
}

/// Bytes of the line end of a fetch; the keys are all bytes before it.
fn line_end_bytes(request: &[u8]) -> usize {
    if request.ends_with(b"\r\n") { 2 } else { 1 }
}

/// Parses up to `most` requests about keys and prefetches their buckets.
#[inline]
fn gather<'a, const N: usize, C: Cpu, S: Sharing>(
    executor: &mut Executor<'_, C, S>,
    rest: &'a [u8],
    most: usize,
    gathered: &mut Gathered<'a, N>,
) {
    let item_bytes_max = executor.server.settings.items.item_bytes_max;
    while gathered.count < most && gathered.end < rest.len() {
        let start = gathered.end;
        let parsed = parse::parse(&rest[start..], item_bytes_max);
        let Parsed::Request {
            request,
            used,
            swallow,
        } = parsed
        else {
            gathered.stop = Some(parsed);
            break;
        };
        let Some(hash) = executor.hash_of(&request) else {
            gathered.stop = Some(parsed);
            break;
        };
        let core = executor.route_of(hash);
        executor.prefetch_bucket(core, hash);
        gathered.end = start + used;
        gathered.planned[gathered.count] = Some(Planned {
            request,
            hash,
            core,
            hint: Hint::NONE,
            start,
            end: gathered.end,
            swallow,
        });
        gathered.count += 1;
        if swallow > 0 {
            break;
        }
    }
}
