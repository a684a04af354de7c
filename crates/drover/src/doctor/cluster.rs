//! Checks of a service of several members: its etcd and the ways to its members, as this machine sees them.

use super::Finding;
use crate::cluster::{OptionalServiceArgs, Service, unreachable};
use crate::exit;
use drover_base::{Cpu, Ns};
use drover_mem::NativeCpu;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Requests whose times are taken.
const SAMPLES: usize = 9;
/// An etcd that answers later makes renewals of leases late, and changes of the map slow.
const LATENCY_MAX: Ns = Ns::from_ms(50);
/// Clocks that are farther apart make logs of several machines hard to compare.
const CLOCK_DIFFERENCE_S: u64 = 5;
const PATIENCE: Duration = Duration::from_secs(2);

/// What was found about the service that the command names, if it names one.
pub fn findings(args: &OptionalServiceArgs) -> Vec<Finding> {
    match args.open() {
        Ok(None) => Vec::new(),
        Ok(Some(service)) => of_service(service),
        Err(failure) => vec![Finding::bad(
            "etcd",
            failure.text,
            "name a file that you can read; one with user:password must be for you alone",
        )],
    }
}

fn of_service(mut service: Service) -> Vec<Finding> {
    // The first request connects.
    let view = match service.view() {
        Ok(view) => view,
        Err(failure) => {
            let fix = match failure.code {
                exit::NO_PERMISSION => "name a user of etcd that may read and write the keys of the service",
                _ => {
                    "start etcd, or correct the URL: where it listens for clients (--listen-client-urls), and its TLS"
                }
            };
            return vec![Finding::bad("etcd", failure.text, fix)];
        }
    };
    let mut findings = vec![latency(&mut service), clock(&service)];
    for member in view.members.iter() {
        let (name, advert) = (member.advert.name(), &member.advert);
        let what = format!("member {name}");
        findings.push(match unreachable(advert) {
            None => Finding::good(what, advert.addresses()[0].clone()),
            Some(why) => Finding::bad(
                what,
                why,
                "open the port to this machine, or correct --advertise of that member",
            ),
        });
    }
    findings
}

fn latency(service: &mut Service) -> Finding {
    let cpu = NativeCpu::new(0);
    let mut times = Vec::new();
    for _ in 0..SAMPLES {
        let before = cpu.refresh();
        if service.view().is_ok() {
            times.push(cpu.refresh().since(before));
        }
    }
    times.sort_unstable();
    let (Some(middle), Some(most)) = (times.get(times.len() / 2), times.last()) else {
        return Finding::bad("etcd", "it has stopped to answer", "look into its log");
    };
    let ms = |time: &Ns| time.to_duration().as_secs_f64() * 1e3;
    let found = format!("answers in {:.1} ms, at most {:.1} ms", ms(middle), ms(most));
    match *most <= LATENCY_MAX {
        true => Finding::good("etcd", found),
        false => Finding::fair(
            "etcd",
            found,
            "give etcd a faster disk or a nearer machine, or members a longer --lease",
        ),
    }
}

/// How far this machine's time of day is from etcd's. Leases need only clocks that run equally fast, so this is about logs.
fn clock(service: &Service) -> Finding {
    let what = "time of day";
    if service.url().has_tls() {
        return Finding::good(what, "etcd is not asked for its own over TLS");
    }
    let times = service
        .url()
        .endpoints()
        .iter()
        .find_map(|endpoint| date_of(endpoint));
    let Some((theirs, ours)) = times else {
        return Finding::good(what, "etcd does not tell its own");
    };
    let difference = theirs.abs_diff(ours);
    // etcd tells whole seconds.
    let found = format!("within {} s of etcd's", difference + 1);
    match difference <= CLOCK_DIFFERENCE_S {
        true => Finding::good(what, found),
        false => Finding::fair(
            what,
            found,
            "set the clocks by a time service (`timedatectl`): logs cannot be compared",
        ),
    }
}

/// Seconds of the day (UTC) at etcd, by the header `Date` of its HTTP port, and here.
fn date_of(endpoint: &str) -> Option<(u64, u64)> {
    let addr = endpoint.to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&addr, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(
        stream,
        "GET /version HTTP/1.1\r\nHost: {endpoint}\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut text = String::new();
    stream.take(1 << 16).read_to_string(&mut text).ok()?;
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let ours = now.tv_sec.rem_euclid(86_400) as u64;
    Some((second_of_day(&text)?, ours))
}

/// The second of the day in the header `Date: Fri, 27 Nov 2026 19:42:00 GMT`.
fn second_of_day(answer: &str) -> Option<u64> {
    let line = answer.lines().find_map(|line| line.strip_prefix("Date: "))?;
    let mut parts = line
        .split(' ')
        .nth(4)?
        .split(':')
        .map(|part| part.parse::<u64>().ok());
    let mut next = || parts.next().flatten();
    Some((next()? * 60 + next()?) * 60 + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_date_is_understood() {
        let answer = "HTTP/1.1 200 OK\r\nDate: Fri, 27 Nov 2026 19:42:01 GMT\r\n\r\n{}";
        assert_eq!(second_of_day(answer), Some((19 * 60 + 42) * 60 + 1));
        for other in ["", "Date: \r\n", "Date: Fri, 27 Nov 2026 x:42:01 GMT"] {
            assert_eq!(second_of_day(other), None, "{other}");
        }
    }
}
