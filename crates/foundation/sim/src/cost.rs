//! [`CostTable`]: prices per kind of work; and the book that records what a core spent.

use crate::Ps;
use drover_base::Cost;

/// Prices of kinds of work, by the name of the cost. A cost without a price is free, but is counted and reported.
#[derive(Clone, Debug, Default)]
pub struct CostTable {
    prices: Vec<(String, Ps)>,
}

impl CostTable {
    /// Creates a table without prices.
    pub fn new() -> CostTable {
        CostTable::default()
    }

    /// Sets the price of `name`, in nanoseconds per unit; replaces an earlier price.
    pub fn set(&mut self, name: &str, ns: f64) -> &mut CostTable {
        let price = Ps::from_ns(ns);
        match self.prices.iter_mut().find(|line| line.0 == name) {
            Some(line) => line.1 = price,
            None => self.prices.push((name.into(), price)),
        }
        self
    }

    /// The price of `name` per unit; `None` if none is set.
    pub fn price(&self, name: &str) -> Option<Ps> {
        self.prices.iter().find(|line| line.0 == name).map(|line| line.1)
    }

    /// Multiplies all prices set so far by `factor`; with 0, work of the processor is free.
    pub fn scale(&mut self, factor: f64) -> &mut CostTable {
        for line in &mut self.prices {
            line.1 = Ps::from_ns(line.1.as_ns() * factor);
        }
        self
    }
}

/// What one core has spent on one kind of work since its creation, in busy and idle steps and outside of steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CostLine {
    /// Name of the cost.
    pub name: &'static str,
    /// Units of work; for waiting, the number of waits.
    pub count: u64,
    /// Units times price, times the core's slowdown; for waiting, the time waited.
    pub time: Ps,
    /// Whether the core's [`CostTable`] has a price for this cost, or the line is of time waited. If false, `time` is
    /// zero for lack of a price.
    pub is_priced: bool,
}

/// One core's spending. Costs are looked up by the address of their name as a shortcut: equal names at several
/// addresses share a line.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// Per hash slot of the address, the cost that was looked up last.
    recent: [Known; PLACES],
    known: Vec<Known>,
    lines: Vec<CostLine>,
}

const PLACES: usize = 32;

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    address: usize,
    bytes: usize,
    price: Ps,
    line: usize,
}

impl Book {
    /// Records `count` units of `cost`, whose time is `slowed` of their price. Returns that time.
    #[inline]
    pub(crate) fn charge(
        &mut self,
        cost: Cost,
        count: u32,
        table: &CostTable,
        slowed: impl FnOnce(Ps) -> Ps,
    ) -> Ps {
        if count == 0 {
            return Ps::ZERO;
        }
        let (address, bytes) = (cost.name.as_ptr() as usize, cost.name.len());
        let place = (address ^ address >> 5 ^ bytes) % PLACES;
        if (self.recent[place].address, self.recent[place].bytes) != (address, bytes) {
            self.recent[place] = self.look_up(cost.name, table);
        }
        let known = self.recent[place];
        let time = slowed(known.price * u64::from(count));
        let line = &mut self.lines[known.line];
        line.count += u64::from(count);
        line.time += time;
        time
    }

    /// Records time that has no price in the table: waiting, stalls.
    pub(crate) fn spend(&mut self, cost: Cost, time: Ps, table: &CostTable) {
        self.charge(cost, 1, table, |price| price);
        let line = self.lines.iter_mut().find(|line| line.name == cost.name);
        let line = line.expect("charge made the line");
        line.time += time;
        line.is_priced = true;
    }

    fn look_up(&mut self, name: &'static str, table: &CostTable) -> Known {
        let (address, bytes) = (name.as_ptr() as usize, name.len());
        let same = |known: &&Known| known.address == address && known.bytes == bytes;
        match self.known.iter().find(same) {
            Some(known) => *known,
            None => self.learn(name, address, table),
        }
    }

    #[cold]
    fn learn(&mut self, name: &'static str, address: usize, table: &CostTable) -> Known {
        let price = table.price(name);
        let line = match self.lines.iter().position(|line| line.name == name) {
            Some(line) => line,
            None => {
                self.lines.push(CostLine {
                    name,
                    count: 0,
                    time: Ps::ZERO,
                    is_priced: price.is_some(),
                });
                self.lines.len() - 1
            }
        };
        let known = Known {
            address,
            bytes: name.len(),
            price: price.unwrap_or(Ps::ZERO),
            line,
        };
        self.known.push(known);
        known
    }

    pub(crate) fn lines(&self) -> &[CostLine] {
        &self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unslowed(time: Ps) -> Ps {
        time
    }

    #[test]
    fn priced_and_unpriced_work_is_counted() {
        let mut table = CostTable::new();
        table.set("a", 2.5);
        let mut book = Book::default();
        assert_eq!(
            book.charge(Cost::new("a"), 4, &table, unslowed),
            Ps::from_ns(10.0)
        );
        assert_eq!(book.charge(Cost::new("b"), 4, &table, unslowed), Ps::ZERO);
        let spent: Vec<_> = book
            .lines()
            .iter()
            .map(|l| (l.name, l.count, l.is_priced))
            .collect();
        assert_eq!(spent, [("a", 4, true), ("b", 4, false)]);
    }

    #[test]
    fn a_name_at_two_addresses_is_one_line() {
        let other: &'static str = Box::leak(String::from("same").into_boxed_str());
        let mut book = Book::default();
        book.charge(Cost::new("same"), 1, &CostTable::new(), unslowed);
        book.charge(Cost::new(other), 1, &CostTable::new(), unslowed);
        assert_eq!(book.lines().len(), 1);
        assert_eq!(book.lines()[0].count, 2);
    }
}
