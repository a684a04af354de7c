//! The command line of `perf`: perftest's option letters, and the address of the other end.

use super::plan_args::PlanArgs;
use crate::exit::{self, Failure};
use crate::rdma::DeviceArgs;
use drover_control::ControlAddr;
use drover_perf::{Given, Op, Options, Plan};
use drover_verbs::Caps;

const TEACH: &str = "\
Tests: send-lat write-lat read-lat atomic-lat send-bw write-bw read-bw atomic-bw (or as perftest calls them, \
ib_write_lat).

Latency is half a round trip for SEND and WRITE, a whole one for READ and atomics. WRITE latency polls the last \
byte of memory.

Examples:
  drover perf write-lat                              shared memory, between two threads of this process
  drover perf read-lat --fabric sim:cx6 -a           a modelled card, in simulated microseconds
  drover perf --listen rdma://0.0.0.0:18515          a server for any test ...
  drover perf write-lat -s 64 rdma://node7:18515     ... and its client
  drover perf write-lat -d mlx5_0                    as with perftest: without a host this is the server,
  drover perf write-lat -d mlx5_0 node7              with a host it is the client
  drover perf --doorbells 8 -d mlx5_0                how often 8 threads post, compared with one

The client's settings apply to both ends; a server that was started with different ones refuses.";

/// Arguments of `perf`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = TEACH)]
#[command(mut_arg("ib_dev", |arg| arg.short('d')))]
#[command(mut_arg("ib_port", |arg| arg.short('i')))]
#[command(mut_arg("gid_index", |arg| arg.short('x')))]
pub struct Args {
    /// Test to run; a server may leave the choice to its client
    pub test: Option<Op>,
    /// The server: HOST, HOST:PORT, rdma://host:port, shm:NAME or unix:/path.sock
    #[arg(value_name = "SERVER", conflicts_with = "listen")]
    pub server: Option<String>,
    /// Serve one client at this address: rdma://host:port, shm:NAME or unix:/path.sock
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<ControlAddr>,
    /// Compare how often this many threads ring doorbells with how often one does, on this machine; takes no test
    #[arg(long, value_name = "THREADS", conflicts_with_all = ["test", "server", "listen"])]
    #[arg(value_parser = clap::value_parser!(u16).range(2..=512))]
    pub doorbells: Option<u16>,
    /// Fabric: shm, sim, sim:PROFILE or rdma [default: implied by the other options, else shm]
    #[arg(long, value_name = "FABRIC", conflicts_with_all = ["server", "listen"])]
    pub fabric: Option<String>,
    #[command(flatten)]
    pub plan: PlanArgs,
    /// Sleep for events instead of polling (this end only)
    #[arg(short, long)]
    pub events: bool,
    /// TCP port of SERVER's control channel, or to listen at
    #[arg(short, long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Seed of a simulated cluster
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// RDMA device, port and GID.
    #[command(flatten)]
    pub device: DeviceArgs,
}

/// Default port of perftest.
const PORT: u16 = 18_515;

/// Where the two ends of a measurement run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoints {
    /// Both ends in this process, over shared memory.
    Threads,
    /// Both ends in a simulated cluster; the name of its profile.
    Cluster(String),
    /// This end measures, with the server at this address.
    Client(ControlAddr),
    /// This end serves at this address.
    Server(ControlAddr),
}

impl Args {
    /// Where the two ends of the measurement run, according to the options.
    ///
    /// # Errors
    /// The address or fabric is invalid, or a test is needed but not given.
    pub fn place(&self) -> Result<Endpoints, Failure> {
        let place = self.place_of()?;
        match (&place, self.test) {
            (Endpoints::Server(_), _) | (_, Some(_)) => Ok(place),
            _ if self.doorbells.is_some() => Ok(place),
            _ => Err(usage(
                "a test is needed, such as drover perf write-lat; --help lists them",
            )),
        }
    }

    fn place_of(&self) -> Result<Endpoints, Failure> {
        if let Some(addr) = &self.listen {
            return Ok(Endpoints::Server(addr.clone()));
        }
        if let Some(text) = &self.server {
            return Ok(Endpoints::Client(self.server_addr(text)?));
        }
        let fabric = match &self.fabric {
            Some(name) => name.as_str(),
            None if self.device != DeviceArgs::default() || self.port.is_some() => "rdma",
            None => "shm",
        };
        match fabric.split_once(':').unwrap_or((fabric, "")) {
            ("shm", "") => Ok(Endpoints::Threads),
            ("sim", "") => Ok(Endpoints::Cluster("apt".to_string())),
            ("sim", profile) => Ok(Endpoints::Cluster(profile.to_string())),
            ("rdma", "") => {
                let any = format!("rdma://0.0.0.0:{}", self.port.unwrap_or(PORT));
                Ok(Endpoints::Server(any.parse().expect("an address")))
            }
            _ => Err(usage(format!(
                "--fabric {fabric}: expected shm, sim, sim:PROFILE or rdma"
            ))),
        }
    }

    /// Parses a server's address; `rdma://` and the port may be omitted.
    fn server_addr(&self, text: &str) -> Result<ControlAddr, Failure> {
        let has_scheme = ["shm:", "unix:", "rdma:", "tcp:"]
            .iter()
            .any(|scheme| text.starts_with(scheme));
        if has_scheme {
            return text.parse().map_err(usage);
        }
        let port = self.port.unwrap_or(PORT);
        let with_port = format!("rdma://{text}:{port}").parse();
        with_port
            .or_else(|_| format!("rdma://{text}").parse())
            .map_err(usage)
    }

    /// The measurement that the options ask for, on a fabric with `caps`.
    ///
    /// # Errors
    /// The fabric does not support the measurement.
    ///
    /// # Panics
    /// If no test was given; [`place`](Args::place) refuses that, except for a server, which does not call this.
    pub fn plan(&self, caps: &Caps) -> Result<Plan, Failure> {
        let op = self.test.expect("looked at with the place");
        let plan = self.plan.plan(op, caps);
        plan.check(caps).map_err(usage)?;
        Ok(plan)
    }

    /// The test and the settings of the measurement that are on this server's command line. A server refuses a client
    /// whose values differ from them.
    pub fn given(&self, caps: &Caps) -> Given {
        let test = self.test.map(|_| "test");
        let names: Vec<&str> = test.into_iter().chain(self.plan.given(test.is_some())).collect();
        // Without a test only the given options are compared, so any test will do.
        let op = self.test.or(Op::all().next()).expect("there are tests");
        Given::of(names, self.plan.plan(op, caps))
    }

    /// How this end waits: it polls or, with `--events`, sleeps until an event comes; the rest has its default.
    pub fn options(&self) -> Options {
        Options {
            events: self.events,
            ..Options::default()
        }
    }
}

pub fn usage(why: impl std::fmt::Display) -> Failure {
    Failure::new(exit::USAGE, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use drover_base::Ns;
    use drover_perf::Atomic;
    use drover_verbs::QpKind;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Args {
        let words = std::iter::once("perf").chain(line.split_whitespace());
        Line::try_parse_from(words).expect(line).args
    }

    fn place(line: &str) -> Endpoints {
        parse(line).place().expect(line)
    }

    fn addr(text: &str) -> ControlAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn who_is_where() {
        assert_eq!(place("write-lat"), Endpoints::Threads);
        assert_eq!(place("write-lat --fabric shm"), Endpoints::Threads);
        assert_eq!(place("write-lat --fabric sim"), Endpoints::Cluster("apt".into()));
        assert_eq!(
            place("write-lat --fabric sim:cx6"),
            Endpoints::Cluster("cx6".into())
        );
        let any = |port: u16| Endpoints::Server(addr(&format!("rdma://0.0.0.0:{port}")));
        assert_eq!(place("ib_write_lat -d mlx5_0"), any(18515));
        assert_eq!(place("-p 7 -x 3"), any(7));
        assert_eq!(place("--fabric rdma"), any(18515));
        assert_eq!(place("--listen shm:x"), Endpoints::Server(addr("shm:x")));
        assert_eq!(place("write-lat shm:x"), Endpoints::Client(addr("shm:x")));
        for line in [
            "write-lat node7",
            "write-lat node7:18515",
            "write-lat -d mlx5_0 -p 18515 node7",
        ] {
            assert_eq!(
                place(line),
                Endpoints::Client(addr("rdma://node7:18515")),
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_missing_or_none() {
        let refusal = |line: &str| parse(line).place().expect_err(line).text;
        assert_eq!(
            refusal(""),
            "a test is needed, such as drover perf write-lat; --help lists them"
        );
        assert_eq!(
            refusal("write-lat --fabric tcp"),
            "--fabric tcp: expected shm, sim, sim:PROFILE or rdma"
        );
        assert!(refusal("write-lat ::1:x").contains("expected host:port"));
    }

    #[test]
    fn letters_are_perftests() {
        let mut caps = Caps::none();
        (
            caps.supports.rc,
            caps.supports.uc,
            caps.supports.ud,
            caps.supports.atomics,
        ) = (true, true, true, drover_verbs::Atomics::Card);
        (caps.inline_bytes_max, caps.message_bytes_max, caps.mtu_bytes) = (512, 8 << 20, 1024);
        (caps.send_depth_max, caps.recv_depth_max, caps.send_bytes_max) = (4096, 4096, 1 << 20);
        let args =
            parse("write-bw -c UC -s 64 -n 7 -t 16 -r 32 -I 64 -Q 4 -l 2 -d rxe0 -i 1 -x 2 -p 5 -e node");
        let plan = args.plan(&caps).expect("possible");
        assert_eq!(
            (plan.kind, &plan.sizes[..], plan.iterations),
            (QpKind::Uc, &[64][..], 7)
        );
        assert_eq!((plan.tx_depth, plan.rx_depth, plan.inline_bytes), (16, 32, 64));
        assert_eq!((plan.cq_mod, plan.post_list, args.events), (4, 2, true));
        let device = (
            args.device.ib_dev.as_deref(),
            args.device.ib_port,
            args.device.gid_index,
        );
        assert_eq!(device, (Some("rxe0"), Some(1), Some(2)));
        let all = parse("read-bw -a -D 3").plan(&caps).expect("possible");
        assert_eq!((all.sizes.len(), all.duration), (23, Some(Ns::from_s(3))));
        let cas = parse("atomic-lat -A CMP_AND_SWAP").plan(&caps).expect("possible");
        assert_eq!(cas.atomic, Atomic::CompareSwap);
        let text = parse("write-lat -c UD")
            .plan(&caps)
            .expect_err("no such verb")
            .text;
        assert_eq!(text, "write-lat over UD does not exist, only over RC or UC (-c)");
    }
}
