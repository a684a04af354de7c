//! [`Stream`]: a named, seeded sequence of requests for keys. The same seed gives the same requests.

mod ranks;
mod sizes;

use drover_base::{Rng, mix};
use ranks::Ranks;
use sizes::Sizes;

/// A request of a cache's user: read this key, and store a value of this size after a miss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Number of the key; its text is 16 hexadecimal digits.
    pub key: u64,
    /// Size of the value.
    pub value_bytes: u32,
    /// Time to live of the stored item, seconds; 0: unlimited.
    pub ttl_s: u32,
}

/// Parameters of a stream.
#[derive(Clone, Debug)]
pub struct Stream {
    name: &'static str,
    /// Exponent of the Zipf distribution of popularity.
    exponent: f64,
    key_count: u64,
    request_count: u64,
    sizes: Sizes,
    /// One request in this many is for a key that is never requested again.
    once_in: Option<u64>,
    /// After this many requests a tenth of the ranks exchange their keys.
    moves_every: Option<u64>,
    /// Whether half of the keys have a time to live of 1 to 5 s.
    expires: bool,
}

/// Requests of every stream, unless shortened.
const REQUESTS: u64 = 3_000_000;
/// The stream that the others differ from.
const PLAIN: Stream = Stream {
    name: "zipf0.99",
    exponent: 0.99,
    key_count: 1_000_000,
    request_count: REQUESTS,
    sizes: Sizes::Equal(400),
    once_in: None,
    moves_every: None,
    expires: false,
};

/// Every stream.
pub const STREAMS: &[Stream] = &[
    Stream {
        name: "zipf1.2",
        exponent: 1.2,
        ..PLAIN
    },
    PLAIN,
    Stream {
        name: "zipf0.8",
        exponent: 0.8,
        ..PLAIN
    },
    Stream {
        name: "onetime",
        once_in: Some(5),
        ..PLAIN
    },
    Stream {
        name: "mixed",
        exponent: 0.9,
        key_count: 600_000,
        sizes: Sizes::LogUniform(16, 16 << 10),
        ..PLAIN
    },
    Stream {
        name: "bimodal",
        exponent: 0.9,
        sizes: Sizes::Bimodal {
            small: 100,
            large: 10 << 10,
            large_share: 0.1,
        },
        ..PLAIN
    },
    Stream {
        name: "small",
        exponent: 1.0,
        sizes: Sizes::LogNormal {
            median: 150,
            sigma: 0.7,
        },
        ..PLAIN
    },
    Stream {
        name: "drift",
        moves_every: Some(100_000),
        ..PLAIN
    },
    Stream {
        name: "ttl",
        expires: true,
        ..PLAIN
    },
];

/// Purposes of random numbers.
const DRAWS: u64 = 1;
const SIZE: u64 = 2;
const LIFETIME: u64 = 3;

impl Stream {
    /// Name in options and reports.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Number of keys, without those that are requested once.
    pub fn key_count(&self) -> u64 {
        self.key_count
    }

    /// Number of requests.
    pub fn request_count(&self) -> u64 {
        self.request_count
    }

    /// Index of the first request that counts: the first half fills the cache.
    pub fn counted_from(&self) -> u64 {
        self.request_count / 2
    }

    /// Whether items expire, so that results depend on how fast the requests are sent.
    pub fn expires(&self) -> bool {
        self.expires
    }

    /// The part, one in this many, of keys, requests and memory that still shows what the whole shows. The parts are
    /// powers of two, so that memory is a whole number of MiB. With many sizes of values memcached needs most of a usual
    /// memory for the first page of each size.
    pub fn short_part(&self) -> u64 {
        match self.sizes {
            Sizes::Equal(_) => 8,
            _ => 2,
        }
    }

    /// The same stream with a `part`-th of the keys and requests.
    pub fn shortened(&self, part: u64) -> Stream {
        Stream {
            key_count: self.key_count / part,
            request_count: self.request_count / part,
            moves_every: self.moves_every.map(|requests| requests / part),
            ..self.clone()
        }
    }

    /// The requests, in order.
    pub fn requests(&self, seed: u64) -> Requests<'_> {
        Requests {
            stream: self,
            seed,
            rng: Rng::new(seed, 0, DRAWS),
            ranks: Ranks::new(self.key_count, self.exponent, self.moves_every.is_some()),
            index: 0,
            once_count: 0,
        }
    }

    /// A request for each key that a complete run with `seed` asks for, and for the others of its `key_count`: what
    /// a complete read-back reads.
    pub fn universe(&self, seed: u64) -> impl Iterator<Item = Request> + '_ {
        let once_count = self.once_in.map_or(0, |n| self.request_count / n);
        (0..self.key_count + once_count).map(move |id| self.request(seed, id))
    }

    /// The request for key `id` of `seed`, whose size and lifetime belong to the key.
    fn request(&self, seed: u64, id: u64) -> Request {
        let key = mix(id ^ mix(seed));
        let mut lifetime = Rng::new(seed, key, LIFETIME);
        let ttl_s = match self.expires && lifetime.chance(0.5) {
            true => 1 + lifetime.below(5) as u32,
            false => 0,
        };
        Request {
            key,
            value_bytes: self.sizes.draw(&mut Rng::new(seed, key, SIZE)),
            ttl_s,
        }
    }
}

/// Iterator over the requests of a stream.
pub struct Requests<'a> {
    stream: &'a Stream,
    seed: u64,
    rng: Rng,
    ranks: Ranks,
    index: u64,
    once_count: u64,
}

impl Requests<'_> {
    fn next_id(&mut self) -> u64 {
        if self.stream.once_in.is_some_and(|n| self.index % n == n - 1) {
            self.once_count += 1;
            return self.stream.key_count + self.once_count - 1;
        }
        self.ranks.draw(&mut self.rng)
    }
}

impl Iterator for Requests<'_> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        if self.index == self.stream.request_count {
            return None;
        }
        let moves = |every| self.index > 0 && self.index.is_multiple_of(every);
        if self.stream.moves_every.is_some_and(moves) {
            self.ranks.move_a_tenth(&mut self.rng);
        }
        let id = self.next_id();
        self.index += 1;
        Some(self.stream.request(self.seed, id))
    }
}

#[cfg(test)]
mod tests;
