//! Goal: a region that is a file is imported only by those who accept that.

use drover_mem::Region;
use drover_verbs::{Access, Context, Device, Domain, DomainOptions, MemoryRegion};
use drover_verbs_shm::ShmDevice;
use std::sync::atomic::Ordering;

#[test]
fn a_file_is_a_region_for_those_who_trust_its_owner() {
    let path = std::env::temp_dir().join(format!("drover-shm-file-{}", std::process::id()));
    let mut options = std::fs::File::options();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        .expect("a file");
    file.set_len(8192).expect("space");
    std::fs::remove_file(&path).expect("it is there");
    let region = Region::file(&file, 0, 8192).expect("mapped");
    let owner = ShmDevice::of_pool().context().expect("a context");
    let mr = owner.register(&region, Access::ALL).expect("registered");
    let export = mr.export(&[]).expect("exported");

    let careful = ShmDevice::default()
        .domain(&DomainOptions::default())
        .expect("a domain");
    assert!(
        careful.import_region(&export).is_err(),
        "anybody could shorten it"
    );
    let trusting = ShmDevice::of_pool()
        .domain(&DomainOptions::default())
        .expect("a domain");
    let remote = trusting.import_region(&export).expect("imported");
    assert_eq!(remote.len, 8192);
    // Only as it is: it cannot be sealed for readers.
    let read_only = owner.register(&region, Access::REMOTE_READ).expect("registered");
    assert!(read_only.export(&[]).is_err());
    region.store_u64(0, 7, Ordering::Relaxed);
    trusting.forget_region(&remote);
}
