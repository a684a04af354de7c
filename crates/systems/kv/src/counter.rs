//! [`Counter`]: what a service counts, with its name and help, so that every exporter tells the same.

/// One number that every shard of a service keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// As `drover stats` prints it; a metric is called `drover_NAME`, with `_total` behind it if it only grows.
    pub name: &'static str,
    /// One sentence for the metric's help.
    pub help: &'static str,
    /// What kind of number it is.
    pub kind: CounterKind,
    /// How the service's number follows from its shards'.
    pub merge: Merge,
    /// What an operator can do about it if it is not 0.
    pub remedy: Option<&'static str>,
}

/// What kind of number a [`Counter`] is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterKind {
    /// Counts events since the start.
    Events,
    /// A present amount.
    Amount,
}

/// How a service's number follows from its shards'.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Merge {
    /// Their sum.
    Sum,
    /// The largest: a client has a session with every shard, and their sum would count it several times.
    Max,
}

impl Counter {
    /// Counts events.
    pub const fn events(name: &'static str, help: &'static str) -> Counter {
        Counter {
            name,
            help,
            kind: CounterKind::Events,
            merge: Merge::Sum,
            remedy: None,
        }
    }

    /// A present amount, of which shards have parts.
    pub const fn amount(name: &'static str, help: &'static str) -> Counter {
        Counter {
            name,
            help,
            kind: CounterKind::Amount,
            merge: Merge::Sum,
            remedy: None,
        }
    }

    /// The same, but the service's is the largest of its shards'.
    pub const fn largest(self) -> Counter {
        Counter {
            merge: Merge::Max,
            ..self
        }
    }

    /// The same; if it is not 0, an operator can do what `remedy` says.
    pub const fn remedied_by(self, remedy: &'static str) -> Counter {
        Counter {
            remedy: Some(remedy),
            ..self
        }
    }

    /// The service's number.
    pub fn merged(&self, shards: impl Iterator<Item = u64>) -> u64 {
        match self.merge {
            Merge::Sum => shards.sum(),
            Merge::Max => shards.max().unwrap_or(0),
        }
    }
}

/// Lines `name value` of a service of `system` whose shards counted `shards`: of the whole, then of each shard. A number of
/// the whole that something can be done about is followed by a line that says what.
pub fn stats_text(system: &str, counters: &[Counter], shards: &[Vec<u64>]) -> String {
    let mut text = format!("system {system}\nshards {}\n", shards.len());
    for (index, counter) in counters.iter().enumerate() {
        let values = shards.iter().filter_map(|shard| shard.get(index).copied());
        let value = counter.merged(values);
        text.push_str(&format!("{} {value}\n", counter.name));
        if let Some(remedy) = counter.remedy.filter(|_| value > 0) {
            text.push_str(&format!("{}_remedy {remedy}\n", counter.name));
        }
    }
    for (shard, values) in shards.iter().enumerate() {
        for (counter, value) in counters.iter().zip(values) {
            text.push_str(&format!("shard{shard}_{} {value}\n", counter.name));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_is_told_when_there_is_something_to_remedy() {
        let counters = [Counter::events("refused", "PUTs refused.").remedied_by("more memory (-m)")];
        assert_eq!(
            stats_text("farm", &counters, &[vec![0]]),
            "system farm\nshards 1\nrefused 0\nshard0_refused 0\n"
        );
        assert_eq!(
            stats_text("farm", &counters, &[vec![5]]),
            "system farm\nshards 1\nrefused 5\nrefused_remedy more memory (-m)\nshard0_refused 5\n"
        );
    }

    #[test]
    fn shards_add_up_and_clients_are_counted_once() {
        let counters = [
            Counter::amount("items", "Keys."),
            Counter::amount("clients", "Clients.").largest(),
        ];
        assert_eq!(
            stats_text("pilaf", &counters, &[vec![3, 2], vec![4, 2]]),
            "system pilaf\nshards 2\nitems 7\nclients 2\nshard0_items 3\nshard0_clients 2\nshard1_items 4\n\
             shard1_clients 2\n"
        );
    }
}
