//! [`WarmFile`]: the memory of a server's partitions in a file that a later process takes over.
//!
//! ```text
//!   PATH       partition 0 | partition 1 | ...     mapped; each a multiple of 2 MiB, so that PATH may be on hugetlbfs
//!   PATH.meta  description by a clean stop         exists only while PATH is not in use
//! ```
//! The description is removed as soon as it is read. So it exists only after a clean stop, and a server that crashed
//! starts cold. Seconds continue to count while no server runs: items expire at their time.

mod record;

use crate::frozen::{Doubt, Frozen};
use crate::sharing::Sharing;
use crate::{Partition, PartitionOptions};
use drover_base::HashSeed;
use drover_mem::{AllocError, Region};
use record::{Record, Shape};
use std::ffi::OsString;
use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Write permission for group and others.
const OTHERS_WRITE: u32 = 0o022;
/// Alignment of partitions, bytes.
const PART_ALIGN: usize = 2 << 20;

/// A file that holds the memory of a server's partitions, open and locked. It owns the file only: each partition
/// belongs to a thread, and the threads share this object.
#[derive(Debug)]
pub struct WarmFile {
    file: File,
    meta: PathBuf,
    options: PartitionOptions,
    shape: Shape,
    seed: HashSeed,
    start_unix_s: u64,
    parts: Mutex<Vec<Part>>,
}

/// State of a partition.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// Left by another process, not used yet.
    Left(Frozen),
    /// In use, or not left by another process.
    Used,
    /// Left by this process.
    Leaving(Frozen),
}

impl WarmFile {
    /// Opens or creates the file at `path` for `partition_count` partitions of `options`, made
    /// [inelastic](PartitionOptions::inelastic). `now_unix_s` is the time in
    /// seconds since 1970. If the file's contents are kept (a warm start), its seed is too, and is of the same kind as
    /// `seed`, and equals `fixed_seed` if that is given; otherwise the file is emptied, and the seed is `fixed_seed` or else `seed`. Returns the reason
    /// for a cold start, `None` for a warm one.
    ///
    /// # Errors
    /// The file or its description cannot be opened or prepared, or another process uses the file.
    pub fn open(
        path: &Path,
        options: &PartitionOptions,
        partition_count: usize,
        seed: HashSeed,
        fixed_seed: Option<HashSeed>,
        now_unix_s: u64,
    ) -> io::Result<(WarmFile, Option<Doubt>)> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                io::Error::new(io::ErrorKind::ResourceBusy, "another process uses it")
            }
            TryLockError::Error(error) => error,
        })?;
        let options = &options.inelastic();
        let part_bytes = Partition::<crate::Exclusive>::memory_bytes(options).next_multiple_of(PART_ALIGN);
        let shape = Shape::new(options, partition_count, part_bytes);
        let meta = meta_path(path);
        let guarded = guard(&file)?;
        let left = take_record(&meta)?.and_then(|record| {
            guarded?;
            record.shape.check(&shape)?;
            check_seed(record.seed, seed, fixed_seed)?;
            check_len(&file, &shape)?;
            Ok(record)
        });
        let (record, doubt) = match left {
            Ok(record) => (Some(record), None),
            Err(doubt) => (None, Some(doubt)),
        };
        if record.is_none() {
            // Truncates first, to drop the old contents.
            file.set_len(0)?;
            file.set_len(shape.partitions * shape.part_bytes)?;
        }
        let used = || vec![Part::Used; partition_count];
        let seed = record.as_ref().map_or(fixed_seed.unwrap_or(seed), |r| r.seed);
        let warm = WarmFile {
            options: PartitionOptions {
                hash_seed: Some(seed),
                ..*options
            },
            file,
            meta,
            shape,
            seed,
            // Seconds must not run backwards if the clock was set back meanwhile.
            start_unix_s: record.as_ref().map_or(now_unix_s, |r| {
                r.start_unix_s - r.stop_unix_s.saturating_sub(now_unix_s).min(r.start_unix_s)
            }),
            parts: Mutex::new(record.map_or_else(used, |r| r.frozen.into_iter().map(Part::Left).collect())),
        };
        Ok((warm, doubt))
    }

    /// Seed under which the keys of the partitions must be hashed.
    pub fn seed(&self) -> HashSeed {
        self.seed
    }

    /// Unix time at which the partitions' seconds begin to count: their `now_s` is the Unix time minus this.
    pub fn start_unix_s(&self) -> u64 {
        self.start_unix_s
    }

    /// Maps partition `index`, from 0. On the first call for this index after a warm start it is as the previous
    /// process left it, or empty, with the reason, if its contents fail a check. In all other cases it is emptied.
    ///
    /// # Errors
    /// [`AllocError`] if the partition's part of the file cannot be mapped.
    ///
    /// # Panics
    /// If there is no such partition.
    pub fn partition<S: Sharing>(&self, index: usize) -> Result<(Partition<S>, Option<Doubt>), AllocError> {
        let offset = index as u64 * self.shape.part_bytes;
        let region = Region::file(&self.file, offset, self.shape.part_bytes as usize)?;
        let left = std::mem::replace(&mut self.parts()[index], Part::Used);
        let Part::Left(frozen) = left else {
            return Ok((Partition::create_in(&self.options, region), None));
        };
        match Partition::thaw(&self.options, region.clone(), &frozen) {
            Ok(partition) => Ok((partition, None)),
            Err(doubt) => Ok((Partition::create_in(&self.options, region), Some(doubt))),
        }
    }

    /// Records the state in which partition `index` is left; it must not be written afterwards. Costs the same as
    /// [`freeze`](Partition::freeze).
    pub fn leave<S: Sharing>(&self, index: usize, partition: &Partition<S>) {
        let frozen = partition.freeze();
        self.parts()[index] = Part::Leaving(frozen);
    }

    /// Writes the description, which makes the next start a warm one, if all partitions [have been
    /// left](WarmFile::leave); returns whether they have. `now_unix_s` is the time in seconds since 1970.
    ///
    /// # Errors
    /// The description cannot be written; then the next start is a cold one.
    pub fn seal(&self, now_unix_s: u64) -> io::Result<bool> {
        let parts = self.parts();
        let left = parts.iter().map(|part| match part {
            Part::Leaving(frozen) => Some(*frozen),
            Part::Left(_) | Part::Used => None,
        });
        let Some(frozen) = left.collect::<Option<Vec<_>>>() else {
            return Ok(false);
        };
        let record = Record {
            shape: self.shape,
            seed: self.seed,
            start_unix_s: self.start_unix_s,
            stop_unix_s: now_unix_s.max(self.start_unix_s),
            frozen,
        };
        // Atomically: under another name first.
        let mut name = self.meta.clone().into_os_string();
        name.push(".new");
        // Private, because it contains the seed.
        let mut new = OpenOptions::new();
        let mut new = new
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&name)?;
        new.write_all(&record.to_bytes())?;
        new.sync_all()?;
        std::fs::rename(&name, &self.meta)?;
        Ok(true)
    }

    fn parts(&self) -> std::sync::MutexGuard<'_, Vec<Part>> {
        // Plain data: consistent even after a panic of another thread.
        self.parts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn meta_path(path: &Path) -> PathBuf {
    let mut name: OsString = path.into();
    name.push(".meta");
    name.into()
}

/// Reads the description and removes it; otherwise a crash would look like a clean stop.
///
/// # Errors
/// It cannot be removed.
fn take_record(meta: &Path) -> io::Result<Result<Record, Doubt>> {
    let mut file = match File::open(meta) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err(Doubt::NoRecord)),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    std::fs::remove_file(meta)?;
    let guarded = guard(&file)?;
    Ok(guarded.and_then(|()| Record::from_bytes(&bytes)))
}

/// Whether only the owner could write to the file; makes sure that only the owner can from now on.
///
/// # Errors
/// The permissions cannot be read or set.
fn guard(file: &File) -> io::Result<Result<(), Doubt>> {
    let mode = file.metadata()?.mode() & 0o7777;
    if mode & OTHERS_WRITE == 0 {
        return Ok(Ok(()));
    }
    file.set_permissions(Permissions::from_mode(mode & 0o700))?;
    Ok(Err(Doubt::Writable { mode }))
}

fn check_seed(was: HashSeed, new: HashSeed, fixed: Option<HashSeed>) -> Result<(), Doubt> {
    let (was_kind, is_kind) = (was.kind(), fixed.unwrap_or(new).kind());
    match fixed {
        _ if was_kind != is_kind => Err(Doubt::Hash {
            was: was_kind,
            is: is_kind,
        }),
        Some(fixed) if fixed != was => Err(Doubt::Seed),
        _ => Ok(()),
    }
}

fn check_len(file: &File, shape: &Shape) -> Result<(), Doubt> {
    let is = shape.partitions * shape.part_bytes;
    let was = file.metadata().map_or(0, |meta| meta.len());
    if was == is {
        return Ok(());
    }
    let what = "the length of the file";
    Err(Doubt::Differs { what, was, is })
}
