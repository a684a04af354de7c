//! Rules of sleeping: `arm`, `park`, wakers and watched memory.

use super::link::{Link, Setup};
use super::{Check, End, Stop, ensure, ensure_eq};
use drover_base::{Cpu, Ns};
use drover_verbs::{Context, MemoryRegion, Provider, SendOp, SendWr, Watch};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// Longer than any wake-up takes: a park of this length was not ended by a wake.
const LONG: Ns = Ns::from_s(10);

/// Parks until `look` returns true; no park may last until its deadline.
fn park_until<P: Provider>(end: &mut End<P>, mut look: impl FnMut(&End<P>) -> bool, what: &str) -> Check {
    let deadline = end.ctx.cpu().refresh() + LONG;
    loop {
        end.ctx.arm();
        if look(end) {
            end.ctx.disarm();
            return Ok(());
        }
        end.ctx.park(deadline);
        ensure!(end.ctx.cpu().refresh() < deadline, "{what} did not end a park");
    }
}

/// A waker ends a park, including one that is about to begin, and from another thread.
pub(super) async fn waker_wakes<P: Provider>(end: &mut End<P>) -> Check {
    let deadline = end.ctx.cpu().refresh() + LONG;
    let waker = end.ctx.waker();
    end.ctx.arm();
    std::thread::spawn(move || waker.wake())
        .join()
        .map_err(|_| Stop::Broken("waking panicked".into()))?;
    end.ctx.park(deadline);
    ensure!(end.ctx.cpu().refresh() < deadline, "a waker did not end a park");
    Ok(())
}

/// A descriptor that is or becomes readable ends a `park_beside`; so does a waker, as it ends every park.
pub(super) async fn descriptor_ends_park<P: Provider>(end: &mut End<P>) -> Check {
    let (mut reader, mut writer) = std::io::pipe()?;
    // If both ends share a thread, a later write cannot end a park.
    let mut written_before = vec![true, true];
    if end.can_sleep {
        written_before.extend([false, true, false]);
    }
    for before in written_before {
        let deadline = end.ctx.cpu().refresh() + LONG;
        end.ctx.arm();
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| writer.write_all(b"!"));
            if before {
                while !writing.is_finished() {
                    std::thread::yield_now();
                }
            }
            end.ctx.park_beside(deadline, reader.as_fd());
        });
        ensure!(
            end.ctx.cpu().refresh() < deadline,
            "a readable descriptor did not end a park"
        );
        reader.read_exact(&mut [0])?;
    }
    let deadline = end.ctx.cpu().refresh() + LONG;
    end.ctx.arm();
    end.ctx.waker().wake();
    end.ctx.park_beside(deadline, reader.as_fd());
    ensure!(
        end.ctx.cpu().refresh() < deadline,
        "a waker did not end a park beside a descriptor"
    );
    Ok(())
}

/// A message that arrives after `arm` ends the park.
pub(super) async fn arrival_ends_park<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        end.receive_export().await?;
        let wr = link.send(1, b"wake up", None);
        link.post(end, &[wr])?;
        end.take_one(link.send_cq).await?;
        end.say_bytes(b"sent")?;
        return end.meet().await;
    }
    link.recv(end, 7, 0, 64)?;
    end.ctx.arm();
    end.say_bytes(b"armed")?;
    if !end.can_sleep {
        end.hear_unpolled().await?;
    }
    let deadline = end.ctx.cpu().refresh() + LONG;
    end.ctx.park(deadline);
    ensure!(end.ctx.cpu().refresh() < deadline, "a message did not end a park");
    ensure_eq!(end.take_one(link.recv_cq).await?.wr_id.0, 7, "RECV");
    if end.can_sleep {
        end.receive_export().await?;
    }
    end.meet().await
}

/// A link whose responder watches the first line of its region; the initiator writes to `remote`.
async fn watched_link<P: Provider>(end: &mut End<P>) -> Result<Link<P>, Stop> {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        let export = end.receive_export().await?;
        link.remote = end.ctx.import_region(&export)?;
    } else {
        let watch = Watch {
            range: 0..64,
            bell: end.ctx.bell(),
        };
        end.send_export(link.mr.export(&[watch])?)?;
    }
    Ok(link)
}

fn write_word<P: Provider>(link: &mut Link<P>, value: u64) -> SendWr {
    let wr = link.write(1, 8, &value.to_ne_bytes());
    debug_assert!(matches!(wr.op, SendOp::Write { .. }));
    wr
}

/// A WRITE into watched memory between `arm` and `park` ends the park.
pub(super) async fn arm_then_write_not_lost<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = watched_link(end).await?;
    for round in 1..=4 {
        if end.initiates() {
            end.receive_export().await?;
            let wr = write_word(&mut link, round);
            link.post(end, &[wr])?;
            end.take_one(link.send_cq).await?;
            end.say_bytes(b"written")?;
        } else {
            end.ctx.arm();
            end.say_bytes(b"armed")?;
            end.hear_unpolled().await?;
            let deadline = end.ctx.cpu().refresh() + LONG;
            end.ctx.park(deadline);
            ensure!(
                end.ctx.cpu().refresh() < deadline,
                "a WRITE after `arm` did not end the park"
            );
            let region = link.mr.region();
            ensure_eq!(region.load_u64(8, Ordering::Acquire), round, "the watched word");
        }
        end.meet().await?;
    }
    Ok(())
}

/// A WRITE into watched memory wakes a sleeping context.
pub(super) async fn wake_on_watched_write<P: Provider>(end: &mut End<P>) -> Check {
    if !end.can_sleep {
        return Err(Stop::Skipped("both ends share one thread".into()));
    }
    let mut link = watched_link(end).await?;
    for round in 1..=4 {
        if end.initiates() {
            end.receive_export().await?;
            let wr = write_word(&mut link, round);
            link.post(end, &[wr])?;
            end.take_one(link.send_cq).await?;
        } else {
            end.ctx.arm();
            end.say_bytes(b"going to sleep")?;
            let deadline = end.ctx.cpu().refresh() + LONG;
            end.ctx.park(deadline);
            ensure!(
                end.ctx.cpu().refresh() < deadline,
                "a watched WRITE did not end a park"
            );
            let region = link.mr.region().clone();
            park_until(
                end,
                |_| region.load_u64(8, Ordering::Acquire) == round,
                "a watched WRITE",
            )?;
        }
        end.meet().await?;
    }
    Ok(())
}
