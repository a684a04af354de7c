//! [`Pair`]: a client's and a server's end, and what is under way between them.

use crate::CallError;
use crate::fetch::{
    Callee, CalleeOptions, Caller, CallerOptions, Format, Guarded, Guards, Layout, ModeChange, Next, Push,
    SwitchOptions, Taken,
};
use drover_base::Ns;
use drover_mem::{PageWish, Region};
use std::collections::VecDeque;

/// A request of the client on its one queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    Request {
        place: usize,
        len: usize,
        signaled: bool,
    },
    Mode(ModeChange),
    Read {
        place: usize,
        offset: usize,
        len: usize,
    },
}

/// A completion that the client has not polled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completion {
    Request(usize),
    Read(usize),
}

/// The memory of both ends.
#[derive(Clone)]
pub struct Memory {
    pub requests: Region,
    pub landing: Region,
    pub pushed: Region,
    pub inbound: Region,
    pub results: Region,
}

impl Memory {
    fn new() -> Memory {
        let page = || Region::private(1 << 14, PageWish::Small).expect("memory");
        Memory {
            requests: page(),
            landing: page(),
            pushed: page(),
            inbound: page(),
            results: page(),
        }
    }
}

/// How a call ended.
pub type Ended = (usize, Result<Vec<u8>, CallError>);

/// Two ends without a fabric: tests say what happens next.
#[derive(Clone)]
pub struct Pair<G: Guards = Guarded> {
    pub caller: Caller<G>,
    pub callee: Callee<G>,
    pub memory: Memory,
    /// Posted by the client, not yet executed.
    pub wire: VecDeque<Verb>,
    /// Executed, not yet polled by the client.
    pub completions: VecDeque<Completion>,
    /// Pushed results under way, with their bytes.
    pub pushes: VecDeque<(Push, Vec<u8>)>,
    pub ended: Vec<Ended>,
    pub now: Ns,
    /// The request that was taken last.
    pub request: Vec<u8>,
}

/// Modes change at the first failed READ, and back after one fast call, as often as may be.
pub const NERVOUS: SwitchOptions = SwitchOptions {
    slow_reads: 1,
    slow_calls: 1,
    push_time: Ns::from_us(7),
    fast_calls: 1,
    dwell: Ns::ZERO,
};

pub fn layout(format: Format) -> Layout {
    Layout {
        format,
        place_count: 2,
        rpc_count: 2,
        request_bytes: 200,
        result_bytes: 1000,
    }
}

impl<G: Guards> Pair<G> {
    pub fn new(layout: Layout, options: CallerOptions) -> Pair<G> {
        let memory = Memory::new();
        let callee_options = CalleeOptions {
            transfer: options.transfer,
            ..CalleeOptions::default()
        };
        let callee = Callee::new(layout, callee_options, (3, 4));
        callee.prepare(&memory.inbound);
        Pair {
            caller: Caller::new(layout, options, (3, 4)),
            callee,
            memory,
            wire: VecDeque::new(),
            completions: VecDeque::new(),
            pushes: VecDeque::new(),
            ended: Vec::new(),
            now: Ns(0),
            request: Vec::new(),
        }
    }

    /// With our format, F = 256 and modes that change as `switch` says.
    pub fn with(switch: SwitchOptions) -> Pair<G> {
        Pair::of(Format::V1, switch)
    }

    pub fn of(format: Format, switch: SwitchOptions) -> Pair<G> {
        let options = CallerOptions {
            switch,
            ..CallerOptions::default()
        };
        Pair::new(layout(format), options)
    }

    pub fn begin(&mut self, place: usize, request: &[u8]) {
        self.begin_until(place, request, Ns::MAX);
    }

    pub fn begin_until(&mut self, place: usize, request: &[u8], deadline: Ns) {
        let requests = &self.memory.requests;
        let len = self.caller.begin(place, 1, &[request], deadline, requests);
        let len = len.expect("it fits");
        self.request(place, len);
    }

    fn request(&mut self, place: usize, len: usize) {
        let signaled = self.caller.is_signaled(place);
        self.wire.push_back(Verb::Request { place, len, signaled });
    }

    /// Calls whose turn it is READ.
    pub fn take_turns(&mut self) {
        while let Some((place, next)) = self.caller.next_turn() {
            self.act(place, next, Vec::new());
        }
    }

    /// Executes the oldest verb of the client.
    pub fn execute(&mut self) {
        let verb = self.wire.pop_front().expect("a verb under way");
        self.execute_one(verb);
    }

    pub fn execute_one(&mut self, verb: Verb) {
        match verb {
            Verb::Request { place, len, signaled } => {
                let at = place * self.caller.layout().request_stride();
                self.memory.requests.copy_to(at, &self.memory.inbound, at, len);
                if signaled {
                    self.completions.push_back(Completion::Request(place));
                }
            }
            Verb::Mode(change) => self.memory.inbound.copy_in(change.offset, &[change.mode as u8]),
            Verb::Read { place, offset, len } => {
                let at = place * self.caller.layout().result_stride() + offset;
                self.memory.results.copy_to(at, &self.memory.landing, at, len);
                self.completions.push_back(Completion::Read(place));
            }
        }
    }

    /// The client polls its oldest completion.
    pub fn complete(&mut self) {
        let completion = self.completions.pop_front().expect("a completion");
        let mut out = Vec::new();
        let (place, next) = match completion {
            Completion::Request(place) => (place, self.caller.sent(place)),
            Completion::Read(place) => {
                let landing = &self.memory.landing;
                let next = self.caller.landed(place, landing, self.now, &mut out);
                (place, next)
            }
        };
        self.act(place, next, out);
    }

    /// The client looks at its pushed slot; returns whether anything came of it.
    pub fn poll(&mut self, place: usize) -> bool {
        let mut out = Vec::new();
        let pushed = match G::OWN_AREA {
            true => &self.memory.pushed,
            false => &self.memory.landing,
        };
        let next = self.caller.poll(place, pushed, self.now, &mut out);
        if let Some(next) = next {
            self.act(place, next, out);
        }
        next.is_some()
    }

    fn act(&mut self, place: usize, next: Next, out: Vec<u8>) {
        let mode = match next {
            Next::Read { offset, len } => {
                self.wire.push_back(Verb::Read { place, offset, len });
                None
            }
            Next::Wait { mode } | Next::Late { mode } => mode,
            Next::Done { result, mode } => {
                self.ended.push((place, result.map(|len| out[..len].to_vec())));
                mode
            }
            Next::Nothing => None,
        };
        self.wire.extend(mode.map(Verb::Mode));
    }

    pub fn expire(&mut self) {
        let ended = &mut self.ended;
        self.caller
            .expire(self.now, |place| ended.push((place, Err(CallError::Timeout))));
    }

    /// The server takes the request of `place`, if it has come.
    pub fn take(&mut self, place: usize) -> Option<Taken> {
        let (inbound, request) = (&self.memory.inbound, &mut self.request);
        self.callee
            .take(place, inbound, self.now, request)
            .expect("an honest client")
    }

    /// The server publishes `result`, for a call that took `time`.
    pub fn publish(&mut self, place: usize, result: &[u8], time: Ns) {
        self.callee
            .publish(place, &[result], time, &self.memory.results, self.now);
        while let Some(push) = self.callee.settle(&self.memory.inbound) {
            self.post(push);
        }
    }

    /// The server answers what the place has asked with the same bytes; returns whether there was anything.
    pub fn echo(&mut self, place: usize, time: Ns) -> bool {
        let is_there = self.take(place).is_some();
        if is_there {
            let request = self.request.clone();
            self.publish(place, &request, time);
        }
        is_there
    }

    pub fn look_again(&mut self) {
        while let Some(push) = self.callee.look_again(&self.memory.inbound, self.now) {
            self.post(push);
        }
    }

    fn post(&mut self, push: Push) {
        let mut bytes = vec![0; push.len];
        let at = push.place * self.caller.layout().result_stride();
        self.memory.results.copy_out(at, &mut bytes);
        self.pushes.push_back((push, bytes));
    }

    /// The oldest pushed result lands.
    pub fn land(&mut self) -> Push {
        let (push, bytes) = self.pushes.pop_front().expect("a push under way");
        self.land_one(push, &bytes);
        self.callee.pushed(push.place);
        push
    }

    pub fn land_one(&mut self, push: Push, bytes: &[u8]) {
        let pushed = match G::OWN_AREA {
            true => &self.memory.pushed,
            false => &self.memory.landing,
        };
        pushed.copy_in(push.place * self.caller.layout().result_stride(), bytes);
    }

    /// Everything goes on without delay until the call of `place` has ended. The server answers with the request, and says
    /// that it took `time`; it does so when the client's `reads`th READ is under way.
    pub fn finish(&mut self, place: usize, reads: u32, time: Ns) -> Result<Vec<u8>, CallError> {
        let before = self.ended.len();
        let first = self.caller.stats().first_reads;
        for _ in 0..10_000 {
            while let Some(verb) = self.wire.front() {
                let is_read = matches!(verb, Verb::Read { .. });
                if is_read && self.caller.stats().first_reads - first >= u64::from(reads) {
                    self.echo(place, time);
                }
                self.execute();
                if !self.completions.is_empty() {
                    self.complete();
                }
            }
            self.poll(place);
            if self.ended.len() > before {
                // The mode that the result changed.
                while !self.wire.is_empty() {
                    self.execute();
                }
                return self.ended.pop().expect("it ended").1;
            }
            self.echo(place, time);
            self.look_again();
            while !self.pushes.is_empty() {
                self.land();
            }
            self.now += Ns(100);
        }
        panic!("the call in place {place} hangs");
    }

    /// A call with `request` in `place`, answered at its first READ.
    pub fn call(&mut self, place: usize, request: &[u8]) -> Result<Vec<u8>, CallError> {
        self.begin(place, request);
        self.finish(place, 1, Ns(0))
    }
}
