//! Replies to a member's messages: those that clients get, and those that say "elsewhere"; and messages that are sent again.

use super::admission::{ELSEWHERE, bounced};
use super::marks::{OnFailure, take_route};
use super::{FIRST_RETRY, MemberCore, PARKED};
use crate::Executor;
use crate::forward::{HEAD_BYTES, key_hash};
use crate::gather::{each_reply, each_single};
use drover_base::Cpu;
use drover_cluster::ShardId;
use drover_net::{Output, PendingReply};
use drover_store::{Hint, Sharing};
use std::io::IoSlice;

/// Reply to a request that no member has served in time.
const GAVE_UP: &[u8] = b"SERVER_ERROR drover: no member serves this key now\r\n";

/// Reply to a message whose own reply must never leave; no other reply is this one. The message may have been executed.
pub(crate) const VOID_REPLY: &[u8] = &[1];

/// Most parked messages that a step sends again: it must not keep the core from its round.
const SENT_AGAIN_MAX: usize = 1024;

/// What a pending reply gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery<'r> {
    /// These bytes.
    Reply(&'r [u8]),
    /// Nothing ever: its connection is to be closed.
    Close,
}

/// Gives pending replies to their connections.
pub type Deliver<'d> = &'d mut dyn FnMut(PendingReply, Delivery<'_>);

/// Delivers the failure of a request.
fn fail(pending: PendingReply, line: &[u8], deliver: Deliver<'_>) {
    let (on_failure, pending) = OnFailure::take(pending);
    match on_failure {
        OnFailure::Line => deliver(pending, Delivery::Reply(line)),
        OnFailure::Silence => deliver(pending, Delivery::Reply(b"")),
        OnFailure::Close => deliver(pending, Delivery::Close),
    }
}

impl MemberCore {
    /// Delivers the reply to one request, or parks the request.
    fn take_one(&mut self, pending: PendingReply, reply: &[u8], deliver: Deliver<'_>) {
        match bounced(reply) {
            Some(message) => self.take_back(pending, message),
            None => {
                self.parking.answered(pending);
                deliver(OnFailure::take(pending).1, Delivery::Reply(reply));
            }
        }
    }

    /// Parks a message that was not executed.
    fn take_back(&mut self, pending: PendingReply, message: Vec<u8>) {
        self.counters.parked.add_one();
        let parked = key_hash(&message).map(|hash| {
            let shard = self.shards.shard_of(hash);
            self.parking.bounce(shard, pending, message, self.now)
        });
        if parked != Some(Ok(())) {
            self.parking.answered(pending);
            self.refused.push(pending);
        }
    }

    /// Gives up requests that have waited too long, or that found no space to wait.
    fn give_up(&mut self, deliver: Deliver<'_>) -> Vec<ShardId> {
        let counters = &self.counters;
        for pending in self.refused.drain(..) {
            counters.gave_up.add_one();
            fail(pending, GAVE_UP, deliver);
        }
        self.parking.due(self.now, |parked| {
            counters.gave_up.add_one();
            fail(parked.pending, GAVE_UP, deliver);
        })
    }
}

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    /// Takes the reply to a message, which may be about several requests.
    pub fn take_reply(&mut self, pending: PendingReply, reply: &[u8], deliver: Deliver<'_>) {
        let Some(member) = &mut self.core.member else {
            return each_reply(pending, reply, |pending, reply| {
                deliver(pending, Delivery::Reply(reply));
            });
        };
        let (route, pending) = take_route(pending);
        member.routes.answered(route);
        if reply == VOID_REPLY {
            // Nobody knows what has become of its requests, and they are one connection's.
            member.parking.answered(pending);
            return each_reply(pending, &[], |pending, _| {
                deliver(OnFailure::take(pending).1, Delivery::Close);
            });
        }
        each_reply(pending, reply, |pending, reply| {
            member.take_one(pending, reply, deliver);
        });
    }

    /// A message will not be answered, because its link broke. It may have been executed by the member called `name`.
    pub fn take_lost(&mut self, pending: PendingReply, name: &str, deliver: Deliver<'_>) {
        let Some(member) = &mut self.core.member else {
            return;
        };
        let (route, pending) = take_route(pending);
        member.routes.answered(route);
        member.parking.answered(pending);
        member.counters.lost.add_one();
        let line =
            format!("SERVER_ERROR drover: member {name} was lost; the command may have been executed\r\n");
        fail(pending, line.as_bytes(), deliver);
    }

    /// A message that a link has accepted was never written, and comes back.
    pub fn take_unsent(&mut self, pending: PendingReply, message: &[u8]) {
        let Some(member) = &mut self.core.member else {
            return;
        };
        let (route, pending) = take_route(pending);
        member.routes.answered(route);
        each_single(pending, message, |pending, message| {
            member.take_back(pending, message);
        });
    }

    /// Sends parked messages again that are due, and gives up those that have waited too long. To be called in each step.
    /// Returns whether there was anything to do. Cost without parked messages: two comparisons.
    pub fn step_parked(&mut self, deliver: Deliver<'_>) -> bool {
        if self.core.parked_until().is_none_or(|due| self.cpu.now() < due) {
            return false;
        }
        self.begin_arrivals();
        let Some(member) = &mut self.core.member else {
            return false;
        };
        let mut budget = SENT_AGAIN_MAX;
        for shard in member.give_up(deliver) {
            self.send_again(shard, &mut budget, deliver);
        }
        if let Some(member) = &mut self.core.member {
            member.parking.settle();
        }
        true
    }

    /// Sends the parked messages of a shard again, as far as they go one way.
    fn send_again(&mut self, shard: ShardId, budget: &mut usize, deliver: Deliver<'_>) {
        let Some(member) = &mut self.core.member else {
            return;
        };
        let now = member.now;
        if member.routes.under_way(shard).is_some() {
            return member.parking.put_off(shard, now, true);
        }
        let mut messages = member.parking.take(shard);
        let (mut way, mut sent) = (None, 0);
        while let Some(parked) = messages.front() {
            let Some(member) = &mut self.core.member else {
                return;
            };
            let route = key_hash(&parked.message).map_or(PARKED, |hash| member.target(self.router, hash));
            if *budget == 0 || route == PARKED || way.is_some_and(|way| way != route) {
                break;
            }
            *budget -= 1;
            let is_first = way.replace(route).is_none();
            if route == self.router.own() {
                let reply = self.serve_parked(&parked.message);
                let pending = parked.pending;
                let Some(member) = &mut self.core.member else {
                    return;
                };
                member.parking.sent_again(parked);
                member.take_one(pending, &reply, deliver);
                if reply.first() == Some(&ELSEWHERE) {
                    messages.pop_front();
                    break;
                }
            } else {
                let (head, body) = parked.message.split_at(HEAD_BYTES);
                let mut head = head.to_vec();
                head[16] |= if is_first { FIRST_RETRY } else { 0 };
                if member
                    .send(self.router, route, parked.pending, &[&head, body])
                    .is_err()
                {
                    break;
                }
                member.parking.sent_again(parked);
            }
            messages.pop_front();
            sent += 1;
        }
        let Some(member) = &mut self.core.member else {
            return;
        };
        member.parking.put_back(shard, messages, now);
        if sent == 0 && *budget > 0 {
            member.parking.put_off(shard, now, false);
        }
    }

    /// Executes a parked message on this core.
    fn serve_parked(&mut self, message: &[u8]) -> Vec<u8> {
        let mut output = Output::new(0, usize::MAX);
        self.serve(message, Hint::NONE, &mut output);
        let mut reply = Vec::new();
        while output.ready_bytes() > 0 {
            let mut slices = [IoSlice::new(&[]); 16];
            let count = output.slices(&mut slices);
            let before = reply.len();
            slices[..count]
                .iter()
                .for_each(|slice| reply.extend_from_slice(slice));
            let len = reply.len() - before;
            output.wrote(len);
        }
        reply
    }
}
