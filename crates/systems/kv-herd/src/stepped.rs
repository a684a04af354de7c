//! HERD's servers and clients as actors that the caller steps, in the two forms that figures compare.

use crate::Herd;
use crate::client::HerdClient;
use crate::control::Format;
use crate::layout::paper;
use crate::server::{Acceptor, ServeMode, Server, ServerOptions, WithPaperFormat};
use crate::system::{client_options, only};
use drover_base::{KeyHash, TimelessCpu};
use drover_control::{Dial, LocalListener};
use drover_kv::{
    Accepting, ConnectOptions, CoreActor, StartError, SteppedService, SteppedSizes, SteppedSystem,
};
use drover_mem::PageWish;
use drover_store::{Key, Mode, PartitionOptions, PutOutcome, item_bytes};
use drover_verbs::Provider;
use std::rc::Rc;

/// Minimum items per partition, so that no table fits the caches of a core.
const ITEMS_MIN: usize = 1 << 15;

/// [`Format::D`] means HERD as shipped: batches of the available requests, one doorbell per list. [`Format::P`] means HERD
/// as published: the two-stage pipeline advanced by no-ops, one post per request and reply.
impl SteppedSystem for Herd {
    type Form = Format;
    type FormClient<P: Provider> = HerdClient<P, Format>;

    const FORMS: &'static [(&'static str, Format)] = &[("HERD in batches", Format::D), ("HERD", Format::P)];

    fn open_service<'a, P: Provider>(
        device: &P::Device,
        format: Format,
        sizes: &SteppedSizes,
        items: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<SteppedService<P>, StartError> {
        let options = server_options(format, sizes);
        let (acceptor, mut workers) = Server::<P>::in_pieces_as(device, &options, WithPaperFormat)?;
        let (hasher, count) = (sizes.hash_seed.hasher(), workers.len());
        for (bytes, value) in items {
            let hash = hasher.hash(bytes);
            let partition = workers[hash.partition_index(count)].partition_mut();
            let key = match format {
                Format::D => Key { hash, bytes },
                Format::P => Key {
                    hash: KeyHash::from_bytes(paper::wire_hash(hash)),
                    bytes: &[],
                },
            };
            let outcome = partition.put(&TimelessCpu, key, value, 0, 0);
            assert!(matches!(outcome, PutOutcome::Stored { .. }), "{outcome:?}");
        }
        let (control, listener) = (acceptor.context(), LocalListener::new());
        let acceptor = Accepting::new(acceptor, Acceptor::adopt, &listener);
        let mut actors: Vec<CoreActor<P>> = Vec::new();
        for worker in workers {
            actors.push((worker.context(), Box::new(worker)));
        }
        actors.push((control, Box::new(acceptor)));
        Ok(SteppedService {
            actors,
            listeners: vec![listener],
            is_filled: true,
        })
    }

    fn open_client<P: Provider>(
        ctx: Rc<P::Context>,
        dials: Vec<Dial>,
        format: Format,
        options: &ConnectOptions,
    ) -> HerdClient<P, Format> {
        let mut options = client_options(options);
        if format == Format::P {
            options.post_batch = 1;
        }
        HerdClient::with_format(ctx, only(dials), options, format)
    }
}

/// Partitions have space for at least four times their share of the keys, so that almost nothing is evicted. Eviction is
/// that of HERD's paper, FIFO.
fn server_options(format: Format, sizes: &SteppedSizes) -> ServerOptions {
    let items = (4 * (sizes.key_count as usize / sizes.shard_count)).max(ITEMS_MIN);
    let item_bytes = item_bytes(sizes.key_bytes, sizes.value_bytes);
    let mut options = ServerOptions {
        partition_count: sizes.shard_count,
        partition: PartitionOptions::for_items(Mode::FIFO, items, item_bytes),
        idle_sweeps: 1,
        ..ServerOptions::default()
    };
    options.partition.pages = PageWish::Small;
    options.clients.count_max = sizes.client_count.max(1);
    options.identity.hash_seed = Some(sizes.hash_seed);
    options.identity.epoch = Some(sizes.epoch);
    options.replies.inline_bytes_max = sizes.inline_bytes_max;
    if format == Format::P {
        options.mode = ServeMode::Pipeline { drain: false };
    }
    options
}
