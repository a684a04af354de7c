//! [`Session`]: a memcached client of one member, which connects again when it has to.

use super::conn::{Ask, Conn};
use super::draw::Draw;
use super::load::BATCH;
use super::report::Record;
use crate::deployed::process::now;

pub struct Session {
    /// The member's name.
    name: String,
    conn: Option<Conn>,
    draw: Draw,
    /// Keys without service, which are asked for until they have it.
    again: Vec<u32>,
}

impl Session {
    pub fn new(name: &str, draw: Draw) -> Session {
        let (name, again) = (name.to_owned(), Vec::new());
        Session {
            name,
            conn: None,
            draw,
            again,
        }
    }

    /// Sends some commands and waits for their answers.
    pub fn batch(&mut self, record: &mut Record) {
        let Some(mut conn) = self.conn.take().or_else(|| Conn::open(&self.name)) else {
            return;
        };
        let mut asks: Vec<(u32, Ask)> = self.again.drain(..).map(|key| (key, Ask::Get)).collect();
        while asks.len() < BATCH {
            asks.push(self.draw.next());
        }
        let called_at = now();
        // What was sent to a broken connection may have arrived.
        let mut is_open = conn.send(&asks);
        for (key, ask) in asks {
            let answer = if is_open { conn.receive(ask) } else { None };
            is_open &= answer.is_some();
            if !record.add(self.draw.number, key, ask, called_at, answer) {
                self.again.push(key);
            }
        }
        if !is_open {
            // Other clients go to other members, and notice when those serve the keys.
            self.again.clear();
            record.forget_troubles();
        }
        self.conn = is_open.then_some(conn);
    }
}
