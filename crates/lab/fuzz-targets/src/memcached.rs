//! Arbitrary bytes from a memcached client.

use drover_base::HashSeed;
use drover_mem::{NativeCpu, PageWish};
use drover_memcached::parse::{self, Parsed};
use drover_memcached::{
    AllowedCommands, Core, Executor, ItemSettings, NoHooks, Server, Session, Settings, SingleCore,
};
use drover_net::{Need, Output, Protocol};
use drover_store::{Partition, PartitionOptions};
use std::io::IoSlice;

/// Checks that the parser consumes at least one and at most all bytes of any input that is not empty, or asks for more
/// bytes than the input has.
pub fn parse_bytes(input: &[u8]) {
    if input.is_empty() {
        return;
    }
    match parse::parse(input, 1 << 20) {
        Parsed::Partial { at_least } => assert!(at_least > input.len(), "it asks for what it has"),
        Parsed::Endless { used, .. } => assert!(0 < used && used <= input.len()),
        Parsed::Request { used, .. } => assert!(0 < used && used <= input.len()),
        Parsed::Refused(refused) => assert!(0 < refused.used && refused.used <= input.len()),
    }
}

/// Checks that a server gives the same replies to a stream of commands that arrives whole and in pieces. Input: the
/// size of the pieces, minus 1 (1 byte), then the stream.
pub fn talk(input: &[u8]) {
    let Some((&piece, input)) = input.split_first() else {
        return;
    };
    let whole = told(input, input.len().max(1), 1 << 20);
    let pieces = told(input, usize::from(piece) + 1, usize::from(piece) * 8 + 1);
    assert_eq!(whole, pieces, "cut into pieces of {}", usize::from(piece) + 1);
}

/// Returns all replies of a small server to `input`, sent in pieces of `piece_bytes`.
fn told(input: &[u8], piece_bytes: usize, output_limit: usize) -> Vec<u8> {
    let mut bed = Bed::new();
    let (mut session, mut output) = (Session::new(false), Output::new(1, output_limit));
    let (mut told, mut rest) = (Vec::new(), Vec::new());
    for piece in input.chunks(piece_bytes) {
        rest.extend_from_slice(piece);
        loop {
            let mut single_core = SingleCore;
            let advance = session.advance(&mut bed.executor(&mut single_core), &rest, &mut output);
            rest.drain(..advance.used);
            drain(&mut output, &mut told);
            match advance.need {
                Need::Input { at_least } => {
                    assert!(at_least > rest.len(), "it waits for what it has");
                    break;
                }
                Need::Close => return told,
                Need::OutputSpace | Need::Turn => {}
                Need::Replies | Need::Route => panic!("there are no others"),
                Need::Notification | Need::Tick => break,
            }
        }
    }
    told
}

/// Moves what an output has to `told`.
pub(crate) fn drain(output: &mut Output, told: &mut Vec<u8>) {
    while output.ready_bytes() > 0 {
        let mut slices = [IoSlice::new(&[]); 8];
        let count = output.slices(&mut slices);
        let start = told.len();
        for slice in &slices[..count] {
            told.extend_from_slice(slice);
        }
        output.wrote(told.len() - start);
    }
}

/// A single-core server whose memory fills up soon.
struct Bed {
    partition: Partition,
    cpu: NativeCpu,
    core: Core,
    server: Server,
}

impl Bed {
    fn new() -> Bed {
        Bed {
            partition: partition(),
            cpu: NativeCpu::new(1),
            core: Core::default(),
            server: server(),
        }
    }

    fn executor<'d>(&'d mut self, single_core: &'d mut SingleCore) -> Executor<'d, NativeCpu> {
        Executor {
            partition: &mut self.partition,
            cpu: &self.cpu,
            now_s: 100,
            core: &mut self.core,
            server: &self.server,
            router: single_core,
        }
    }
}

/// A partition whose memory fills up soon.
pub(crate) fn partition() -> Partition {
    let options = PartitionOptions {
        log_bytes: 1 << 16,
        bucket_count: 16,
        value_bytes_max: 1 << 12,
        pages: PageWish::Small,
        ..PartitionOptions::default()
    };
    Partition::new(&options).expect("memory for a partition")
}

/// A server of one core with such a partition.
pub(crate) fn server() -> Server {
    let settings = Settings {
        bucket_count: 16,
        items: ItemSettings {
            item_bytes_max: 1 << 12,
            ..ItemSettings::default()
        },
        commands: AllowedCommands {
            shutdown: true,
            ..AllowedCommands::default()
        },
        ..Settings::default()
    };
    let hasher = HashSeed::new(1, 2).hasher();
    Server::new(hasher, 1_700_000_000, 1, settings, Box::new(NoHooks))
}
