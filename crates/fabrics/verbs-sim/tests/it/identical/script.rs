//! Scripts: requests and the ends that post them, drawn from a seed.

use drover_base::Rng;

/// Layout of each end's region: RECVs, the target of the peer's requests, results of READs and atomics, source bytes.
pub const TARGET: usize = 6144;
pub const RESULTS: usize = 10752;
pub const SOURCE: usize = 12288;
pub const REGION: usize = 16384; // whole pages, so that nothing follows it
/// Longest inline payload.
pub const INLINE_MAX: usize = 128;
/// Number of posts of a script.
pub const POSTS: usize = 150;

/// Something to post, at one of both ends.
#[derive(Clone, Debug)]
pub enum Post {
    Send(Vec<Wish>),
    Recv { len: usize },
}

/// A request of a script.
#[derive(Clone, Debug)]
pub struct Wish {
    pub verb: Verb,
    pub len: usize,
    pub inline: bool,
    pub signaled: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Verb {
    Send { imm: Option<u32> },
    Write { at: usize, imm: Option<u32> },
    Read { at: usize, into: usize },
    Cas { at: usize, compare: u64 },
    Faa { at: usize, add: u64 },
}

impl Wish {
    /// Whether it takes a RECV.
    pub fn is_message(&self) -> bool {
        matches!(self.verb, Verb::Send { .. } | Verb::Write { imm: Some(_), .. })
    }
}

pub fn script(seed: u64) -> Vec<(usize, Post)> {
    let mut rng = Rng::new(seed, 0, 0x1de2);
    (0..POSTS)
        .map(|_| {
            let who = rng.below(2) as usize;
            let post = match rng.below(3) {
                0 => Post::Recv {
                    len: 64 * (1 + rng.below(5) as usize),
                },
                _ => {
                    let mut wishes: Vec<Wish> = (0..1 + rng.below(4)).map(|_| wish(&mut rng)).collect();
                    let later = wishes.iter_mut().skip(1);
                    later.for_each(|wish| wish.inline &= wish.len <= INLINE_MAX);
                    Post::Send(wishes)
                }
            };
            (who, post)
        })
        .collect()
}

/// A random request; some of them cannot succeed.
fn wish(rng: &mut Rng) -> Wish {
    let imm = (rng.below(4) == 0).then_some(rng.below(1 << 32) as u32);
    let outside = rng.below(24) == 0;
    let at = match outside {
        true => REGION - 4,
        false => TARGET + rng.below(500) as usize * 8,
    };
    let verb = match rng.below(10) {
        0..3 => Verb::Send { imm },
        3..6 => Verb::Write { at, imm },
        6..8 => Verb::Read {
            at,
            into: RESULTS + rng.below(90) as usize * 8,
        },
        8 => Verb::Cas {
            at: at / 512 * 512,
            compare: rng.below(2),
        },
        _ => Verb::Faa {
            at: at / 512 * 512 + usize::from(rng.below(16) == 0),
            add: rng.next_u64(),
        },
    };
    let atomic = matches!(verb, Verb::Cas { .. } | Verb::Faa { .. });
    Wish {
        verb,
        len: if atomic { 8 } else { rng.below(280) as usize },
        inline: rng.below(2) == 0,
        signaled: rng.below(3) > 0,
    }
}
