//! [`Draw`]: what a client asks for next.

use super::conn::Ask;
use super::load::KEYS;
use drover_base::Rng;

/// The random commands of one client. No value is written twice.
pub struct Draw {
    /// Number of the client.
    pub number: u32,
    rng: Rng,
    values: u64,
}

impl Draw {
    pub fn new(seed: u64, number: u32) -> Draw {
        Draw {
            number,
            rng: Rng::new(seed, number.into(), 0x10ad),
            values: 0,
        }
    }

    /// A command about a key.
    pub fn next(&mut self) -> (u32, Ask) {
        let key = self.rng.below(KEYS.into()) as u32;
        let ask = match self.rng.below(100) {
            0..60 => Ask::Get,
            60..92 => {
                self.values += 1;
                Ask::Put(u64::from(self.number + 1) << 32 | self.values)
            }
            _ => Ask::Delete,
        };
        (key, ask)
    }
}
