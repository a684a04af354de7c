//! [`Client`]: one call, one result.

use crate::item::{Answer, Effect, Item, PutOptions};
use crate::session::Connected;
use crate::{CallError, Error, Options, Pipeline};
use drover_kv::{Calls, Condition, Op, Outcome, SizeLimits, SubmitError};

/// A blocking client: a call polls for its result for 50 µs, then sleeps until it arrives; if others want its core, it
/// lets them have it at once. For applications with threads to spare; [`get_many`](Client::get_many) and [`execute`](Client::execute) keep many operations in flight. If
/// [`connect`](Client::connect) made it, a thread keeps its session with a HERD service alive between calls. A Pilaf or
/// FaRM-KV server ends a session after about 3 s without a call, and the client reconnects in the next call.
pub struct Client {
    pipeline: Pipeline,
}

impl From<Connected> for Client {
    fn from(session: Connected) -> Client {
        Client {
            pipeline: session.into(),
        }
    }
}

impl Client {
    /// Connects to the service at `addr`: `shm:NAME`, `unix:/path.sock` or `rdma://host:port`, or `etcd://host[,host...]/NAME` for one
    /// of several members. Blocks until connected.
    ///
    /// # Errors
    /// The address is malformed, no service answers there, or no session can be set up.
    pub fn connect(addr: &str) -> Result<Client, Error> {
        Client::connect_with(addr, &Options::default())
    }

    /// As [`connect`](Client::connect), with `options`.
    ///
    /// # Errors
    /// As [`connect`](Client::connect).
    pub fn connect_with(addr: &str, options: &Options) -> Result<Client, Error> {
        Connected::to(addr, options).map(Client::from)
    }

    /// Returns the value of `key`, or `None` if the key does not exist.
    ///
    /// # Errors
    /// The operation failed or its result is unknown.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, CallError> {
        let mut value = None;
        self.one(&Op::Get { key }, |outcome| match outcome {
            Outcome::Value(bytes) => {
                value = Some(bytes.to_vec());
                Ok(())
            }
            other => other.found().map(drop),
        })?;
        Ok(value)
    }

    /// Stores `value` under `key`, for ever.
    ///
    /// # Errors
    /// The value was not stored, or the result is unknown.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), CallError> {
        self.put(key, value, 0)
    }

    /// Stores `value` under `key` for `ttl_s` seconds (0: for ever).
    ///
    /// # Errors
    /// The value was not stored, or the result is unknown.
    pub fn put(&mut self, key: &[u8], value: &[u8], ttl_s: u32) -> Result<(), CallError> {
        self.one(&Op::put_for(key, value, ttl_s), |outcome| {
            outcome.found().map(drop)
        })
    }

    /// Removes `key`. Returns whether it existed.
    ///
    /// # Errors
    /// The key was not removed, or the result is unknown.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, CallError> {
        let mut was_there = false;
        self.one(&Op::delete(key), |outcome| {
            was_there = outcome.found()?;
            Ok(())
        })?;
        Ok(was_there)
    }

    /// The value of `key` with its version and flags, or `None` if the key does not exist. It may take longer than
    /// [`get`](Client::get).
    ///
    /// # Errors
    /// As [`get`](Client::get); also if the system does not offer it.
    pub fn get_item(&mut self, key: &[u8]) -> Result<Option<Item>, CallError> {
        let mut item = None;
        self.one(&Op::GetItem { key }, |outcome| {
            item = Answer::of(outcome)?.item();
            Ok(())
        })?;
        Ok(item)
    }

    /// Stores `value` under `key` as `options` say, if their condition holds.
    ///
    /// ```no_run
    /// use drover_client::{Client, Condition, Effect, PutOptions};
    /// let mut client = Client::connect("shm:drover")?;
    /// let found = client.get_item(b"k")?.expect("a value");
    /// let condition = Condition::IfVersion(found.version);
    /// let options = PutOptions { condition, flags: found.flags, ..PutOptions::default() };
    /// if client.put_with(b"k", b"next", &options)? == Effect::Exists {
    ///     println!("somebody else was faster");
    /// }
    /// # Ok::<(), drover_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`put`](Client::put); also if the system does not offer what they ask for.
    pub fn put_with(&mut self, key: &[u8], value: &[u8], options: &PutOptions) -> Result<Effect, CallError> {
        self.update(&options.op(key, value))
    }

    /// Removes `key` if `condition` holds.
    ///
    /// # Errors
    /// As [`delete`](Client::delete); also if the system does not offer it.
    pub fn delete_if(&mut self, key: &[u8], condition: Condition) -> Result<Effect, CallError> {
        self.update(&Op::Delete { key, condition })
    }

    /// Has `key` expire in `ttl_s` seconds (0: never). Returns whether it exists.
    ///
    /// # Errors
    /// As [`put`](Client::put); also if the system does not offer it.
    pub fn touch(&mut self, key: &[u8], ttl_s: u32) -> Result<bool, CallError> {
        Ok(self.update(&Op::Touch { key, ttl_s })? == Effect::Done)
    }

    /// Reads many keys at once and calls `sink(i, value)` for every `keys[i]` that could be read, in order of arrival;
    /// `None`: the key does not exist.
    ///
    /// # Errors
    /// [`CallError::Submit`] if a key cannot be submitted (malformed, too long): the keys before it are read, those
    /// after it are not. Otherwise the first failure of a read; all other keys are still read.
    pub fn get_many(
        &mut self,
        keys: &[&[u8]],
        mut sink: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), CallError> {
        let mut first_error = Ok(());
        let op = |i: usize| Op::Get { key: keys[i] };
        self.many(keys.len(), op, |i, outcome| match outcome {
            Outcome::Value(value) => sink(i, Some(value)),
            other => match other.found() {
                Ok(_) => sink(i, None),
                Err(error) => first_error = first_error.and(Err(error)),
            },
        })?;
        first_error
    }

    /// Executes many operations at once and calls `sink(i, outcome)` for every submitted `ops[i]`, in order of
    /// completion; an operation that fails has an outcome too. Operations on one key take effect in the order of `ops`,
    /// as long as the connection lasts and the server answers in time.
    ///
    /// # Errors
    /// [`CallError::Submit`] if an operation cannot be submitted. Those before it have outcomes, those after it were
    /// not submitted.
    pub fn execute(&mut self, ops: &[Op<'_>], sink: impl FnMut(usize, Outcome<'_>)) -> Result<(), CallError> {
        self.many(ops.len(), |i| ops[i], sink)
    }

    /// What the client's calls have taken since it was connected: verbs, READs that found nothing, changes between
    /// fetching and pushing, and so on. `None` if the system's results come in one way only, or the client was made from
    /// a [`Connected::over`].
    pub fn calls(&mut self) -> Option<Calls> {
        self.pipeline.calls()
    }

    /// The longest key and value that the service takes with operations such as `op`, for a message after
    /// [`SubmitError::TooLarge`] or [`Refusal::TooLarge`](crate::Refusal::TooLarge). `None` if the client does not know
    /// that, or has no session now.
    pub fn size_limits(&mut self, op: &Op<'_>) -> Option<SizeLimits> {
        self.pipeline.size_limits(op)
    }

    fn update(&mut self, op: &Op<'_>) -> Result<Effect, CallError> {
        let mut effect = Effect::NotFound;
        self.one(op, |outcome| {
            effect = Effect::of(outcome)?;
            Ok(())
        })?;
        Ok(effect)
    }

    fn one(
        &mut self,
        op: &Op<'_>,
        mut take: impl FnMut(Outcome<'_>) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        let mut result = Ok(());
        self.many(1, |_| *op, |_, outcome| result = take(outcome))?;
        result
    }

    fn many<'o>(
        &mut self,
        count: usize,
        op: impl Fn(usize) -> Op<'o>,
        mut sink: impl FnMut(usize, Outcome<'_>),
    ) -> Result<(), CallError> {
        let mut submitted = 0;
        let mut refused = None;
        while self.pipeline.in_flight() > 0 || (submitted < count && refused.is_none()) {
            while submitted < count && refused.is_none() {
                match self.pipeline.submit(&op(submitted), submitted as u64) {
                    Ok(()) => submitted += 1,
                    Err(SubmitError::WindowFull) => break,
                    Err(error) => refused = Some(CallError::Submit(error)),
                }
            }
            self.pipeline
                .wait(&mut |done| sink(done.token as usize, done.outcome));
        }
        refused.map_or(Ok(()), Err)
    }
}
