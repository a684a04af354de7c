//! What clients have done, and whether it is linearizable.

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Op {
    Get(u8),
    /// Key and value.
    Put(u8, u8),
    /// A put that succeeds only if the key does not exist.
    Add(u8, u8),
    Delete(u8),
}

impl Op {
    pub(super) fn key(self) -> u8 {
        match self {
            Op::Get(key) | Op::Put(key, _) | Op::Add(key, _) | Op::Delete(key) => key,
        }
    }

    pub(super) fn value(self) -> u8 {
        match self {
            Op::Put(_, value) | Op::Add(_, value) => value,
            Op::Get(_) | Op::Delete(_) => 0,
        }
    }

    /// Its result, and the value afterwards; 0 = no value.
    fn apply(self, before: u8) -> (u8, u8) {
        match self {
            Op::Get(_) => (before, before),
            Op::Put(_, value) => (1, value),
            Op::Add(_, value) if before == 0 => (1, value),
            Op::Add(..) => (0, before),
            Op::Delete(_) => (u8::from(before != 0), 0),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Call {
    client: u8,
    op: Op,
    /// Result and time of the end.
    end: Option<(u8, u8)>,
    begin: u8,
}

/// All operations so far. Times count events.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct History {
    calls: Vec<Call>,
    time: u8,
}

impl History {
    pub(super) fn begin(&mut self, client: u8, op: Op) {
        let (begin, end) = (self.time, None);
        self.time += 1;
        self.calls.push(Call {
            client,
            op,
            end,
            begin,
        });
    }

    pub(super) fn end(&mut self, client: u8, result: u8) {
        let call = self.calls.iter_mut().rfind(|call| call.client == client);
        call.expect("it began").end = Some((result, self.time));
        self.time += 1;
    }

    /// Whether some order of the operations on `key` explains all results, from the first value to the last one.
    pub(super) fn is_linearizable(&self, key: u8, first: u8, last: u8) -> bool {
        let calls: Vec<_> = self.calls.iter().filter(|call| call.op.key() == key).collect();
        explains(&calls, first, last)
    }
}

fn explains(left: &[&Call], value: u8, last: u8) -> bool {
    if left.is_empty() {
        return value == last;
    }
    let end = |call: &Call| call.end.expect("all operations have ended");
    let first_end = left.iter().map(|call| end(call).1).min().expect("not empty");
    (0..left.len()).any(|next| {
        let call = left[next];
        let (result, after) = call.op.apply(value);
        if call.begin > first_end || result != end(call).0 {
            return false;
        }
        let mut rest = left.to_vec();
        rest.remove(next);
        explains(&rest, after, last)
    })
}

#[test]
fn histories_are_judged() {
    let mut history = History::default();
    history.begin(0, Op::Put(1, 5));
    history.begin(1, Op::Get(1));
    history.end(1, 5);
    history.begin(1, Op::Get(1));
    history.end(1, 0);
    history.end(0, 1);
    assert!(!history.is_linearizable(1, 0, 5), "5, then nothing");
    let mut history = History::default();
    history.begin(0, Op::Add(1, 5));
    history.begin(1, Op::Add(1, 6));
    history.end(1, 1);
    history.end(0, 0);
    assert!(history.is_linearizable(1, 0, 6));
    assert!(!history.is_linearizable(1, 0, 5));
    assert!(history.is_linearizable(2, 9, 9));
}
