//! Choice of an RDMA device: the same three options for every command that may use one.

use crate::exit::{self, Failure};
use drover_client::{DeviceChoice, Fabric};
use drover_control::ControlAddr;

/// User's choice of RDMA device, port and GID; an option that is not given permits any. Among permitted GIDs, one with
/// the IP address that the server listens at or, for a client, that reaches the server is preferred.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "RDMA device")]
pub struct DeviceArgs {
    /// RDMA device by name (`drover devices` shows all, and which one is the default)
    #[arg(long, value_name = "NAME")]
    pub ib_dev: Option<String>,
    /// Port number of the device
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..))]
    pub ib_port: Option<u8>,
    /// Index in the port's GID table, instead of the best address
    #[arg(long, value_name = "NUMBER")]
    pub gid_index: Option<u32>,
}

impl DeviceArgs {
    /// Returns these options, with missing ones taken from `other`.
    pub fn or(&self, other: &DeviceArgs) -> DeviceArgs {
        DeviceArgs {
            ib_dev: self.ib_dev.clone().or_else(|| other.ib_dev.clone()),
            ib_port: self.ib_port.or(other.ib_port),
            gid_index: self.gid_index.or(other.gid_index),
        }
    }

    /// Converts the options to a [`DeviceChoice`].
    pub fn choice(&self) -> DeviceChoice {
        DeviceChoice {
            device: self.ib_dev.clone(),
            port: self.ib_port,
            gid_index: self.gid_index,
        }
    }

    /// Returns `addr` with the options that are given, which replace those of `addr`; its other options stay.
    ///
    /// # Errors
    /// An option is given, but `addr` is not an `rdma://` address.
    pub fn of(&self, addr: &ControlAddr) -> Result<ControlAddr, Failure> {
        Fabric::with_device(addr, &self.choice()).map_err(|_| {
            let text =
                format!("--ib-dev, --ib-port and --gid-index choose an RDMA device, and {addr} needs none");
            Failure::new(exit::USAGE, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        device: DeviceArgs,
    }

    fn parse(words: &[&str]) -> Result<DeviceArgs, clap::Error> {
        Line::try_parse_from(std::iter::once(&"drover").chain(words)).map(|line| line.device)
    }

    #[test]
    fn all_may_be_left_open() {
        let args = parse(&[]).expect("nothing is needed");
        assert_eq!(args.choice(), DeviceChoice::default());
    }

    #[test]
    fn what_is_given_is_wished() {
        let args = parse(&["--ib-dev", "mlx5_1", "--ib-port", "2", "--gid-index", "3"]).expect("good");
        let address = "10.9.0.1".parse().ok();
        let wish = args.choice().options(address).wish;
        assert_eq!(
            (wish.address, wish.device.as_deref(), wish.port, wish.gid_index),
            (address, Some("mlx5_1"), Some(2), Some(3))
        );
        assert!(parse(&["--ib-port", "0"]).is_err(), "ports count from 1");
    }
}
