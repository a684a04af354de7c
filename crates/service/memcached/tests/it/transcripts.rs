//! What is said, and what is answered, to the byte. The same conversations can be had with memcached itself
//! (`DROVER_MEMCACHED=host:port cargo test -p drover-memcached --test it -- --ignored transcripts::`).

use crate::bed::{Bed, Client};
use drover_testkit::conversations::{self as said, Case, with_crlf};
use std::io::{Read, Write};

/// Checks the cases of one file.
fn hold(cases: &[Case]) {
    let mut wrong = Vec::new();
    for case in cases {
        let (mut bed, mut client) = (Bed::new(), Client::new());
        for (i, (input, want)) in case.said.iter().enumerate() {
            let got = bed.say(&mut client, &with_crlf(input));
            let got = String::from_utf8_lossy(&got).into_owned();
            if got != String::from_utf8_lossy(&with_crlf(want)) {
                wrong.push(format!(
                    "{} line {i}: {input:?}\n  want {want:?}\n  got  {got:?}",
                    case.name
                ));
            }
        }
        if client.is_closed != case.closes {
            wrong.push(format!("{}: closed is {}", case.name, client.is_closed));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn classic() {
    hold(said::CLASSIC);
}

#[test]
fn malformed() {
    hold(said::MALFORMED);
}

#[test]
fn meta() {
    hold(said::META);
}

#[test]
fn ours() {
    hold(said::OURS);
}

/// memcached itself agrees, except in the cases of `ours`.
#[test]
#[ignore = "needs a memcached: DROVER_MEMCACHED=host:port"]
fn memcached_says_the_same() {
    let address = std::env::var("DROVER_MEMCACHED").expect("DROVER_MEMCACHED=host:port");
    let mut wrong = Vec::new();
    for case in [said::CLASSIC, said::MALFORMED, said::META].concat() {
        let mut stream = std::net::TcpStream::connect(&address).expect("a memcached");
        let limit = std::time::Duration::from_secs(2);
        stream.set_read_timeout(Some(limit)).expect("a socket");
        stream.write_all(b"flush_all\r\n").expect("it listens");
        stream.read_exact(&mut [0; 4]).expect("OK");
        for (input, want) in case.said {
            let want = with_crlf(want);
            stream.write_all(&with_crlf(input)).expect("it listens");
            // A version request shows that nothing more came before it.
            if !case.closes && !want.is_empty() {
                let mut got = vec![0; want.len()];
                let read = stream.read_exact(&mut got).is_ok();
                if !read || got != want {
                    let mut more = [0; 4096];
                    let n = if read {
                        stream.read(&mut more).unwrap_or(0)
                    } else {
                        0
                    };
                    got.extend(&more[..n]);
                    let got = String::from_utf8_lossy(&got);
                    wrong.push(format!(
                        "{}: {input:?}\n  want {:?}\n  got  {got:?}",
                        case.name,
                        String::from_utf8_lossy(&want)
                    ));
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
