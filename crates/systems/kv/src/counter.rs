//! [`Counter`]: name, help and kind of a number that a service counts, shared by all exporters.

/// Description of a number that every shard of a service counts. It does not hold the number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// Name in `drover stats`, where [hosting](crate::HostingSystem) services show some counters under memcached's
    /// names, and no amounts. In other services its metric is called `drover_NAME`, with `_total` appended if it counts
    /// events.
    pub name: &'static str,
    /// One sentence for the metric's help.
    pub help: &'static str,
    /// Whether the number counts events or is a current amount.
    pub kind: CounterKind,
    /// How the numbers of the shards are combined into that of the service.
    pub merge: Merge,
    /// What an operator can do about it if it is not 0.
    pub remedy: Option<&'static str>,
    /// Metric of a [hosting](crate::HostingSystem) service that exports the number; `None`: such a service does not
    /// export it as a counter of the system. Other services ignore this and export every counter under its own name.
    pub metric: Option<Metric>,
}

/// The metric and the labels under which a hosting service exports a [`Counter`]. Counters may share a family, with
/// different labels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Family of the metric.
    pub family: MetricFamily,
    /// Labels of the counter's sample in the family: names and values.
    pub labels: &'static [(&'static str, &'static str)],
}

/// A family of metrics that count events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetricFamily {
    /// Name of the family.
    pub name: &'static str,
    /// One sentence of help.
    pub help: &'static str,
}

impl MetricFamily {
    /// Commands of native clients (of the system's own protocol) and of co-actors' clients (of memcached's protocol),
    /// with the labels `command` and `status`.
    pub const COMMANDS: MetricFamily = MetricFamily {
        name: "drover_commands_total",
        help: "Commands of all clients, by result.",
    };
}

/// Kind of a [`Counter`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterKind {
    /// Number of events since the shard started; never decreases.
    Events,
    /// A current amount, which may decrease.
    Amount,
}

/// How the numbers of the shards are combined into that of the service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Merge {
    /// The sum of all shards.
    Sum,
    /// The maximum of all shards. For example, a client has a session with every shard, and a sum would count it
    /// several times.
    Max,
}

impl Counter {
    /// Creates a count of events; the service's number is the sum of its shards'.
    pub const fn events(name: &'static str, help: &'static str) -> Counter {
        Counter {
            name,
            help,
            kind: CounterKind::Events,
            merge: Merge::Sum,
            remedy: None,
            metric: None,
        }
    }

    /// Creates a current amount; the service's number is the sum of its shards'.
    pub const fn amount(name: &'static str, help: &'static str) -> Counter {
        Counter {
            name,
            help,
            kind: CounterKind::Amount,
            merge: Merge::Sum,
            remedy: None,
            metric: None,
        }
    }

    /// The same counter, with the maximum of the shards' numbers as the service's number.
    pub const fn largest(self) -> Counter {
        Counter {
            merge: Merge::Max,
            ..self
        }
    }

    /// The same counter with advice to the operator, for when it is not 0.
    pub const fn remedied_by(self, remedy: &'static str) -> Counter {
        Counter {
            remedy: Some(remedy),
            ..self
        }
    }

    /// The same counter, exported by hosting services as the sample of `family` with these labels.
    pub const fn feeding(
        self,
        family: MetricFamily,
        labels: &'static [(&'static str, &'static str)],
    ) -> Counter {
        Counter {
            metric: Some(Metric { family, labels }),
            ..self
        }
    }

    /// The service's number, computed from those of its shards; 0 if there are none.
    pub fn merged(&self, shards: impl Iterator<Item = u64>) -> u64 {
        match self.merge {
            Merge::Sum => shards.sum(),
            Merge::Max => shards.max().unwrap_or(0),
        }
    }
}

/// Text of `drover stats`: the lines `system NAME` and `shards COUNT`, then a line `NAME VALUE` per counter of the
/// whole service, then a line `shardINDEX_NAME VALUE` per counter of each shard. `shards` has the counters' values of
/// each shard, in the order of `counters`. A counter of the whole service that is not 0 is followed by a line
/// `NAME_remedy TEXT`, if it has a remedy.
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
