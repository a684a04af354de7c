//! The rule of masked CAS.

use super::link::{Link, Setup};
use super::{Check, End, Stop, ensure_eq};
use drover_verbs::{
    Context, MaskedSwap, MemoryRegion, Opcode, Provider, QueuePair, SendList, SendWr, Wc, WcStatus, WrId,
};
use std::sync::atomic::Ordering;

/// Offset of results in our region.
const RESULT: usize = 1024;
/// Offset of the word whose bits are changed.
const WORD: usize = 64;
/// Offset of a word of four locks of 16 bits each.
const LOCKS: usize = 128;

/// Posts a masked CAS, behind other bytes in the list's arena.
fn post<P: Provider>(end: &End<P>, link: &mut Link<P>, offset: usize, swap: &MaskedSwap) -> Check {
    let mut list = SendList::default();
    list.inline(b"other bytes");
    let operands = list.masked_swap(swap);
    let wr = SendWr::masked_compare_swap(link.remote.at(offset), operands, link.mr.sge(RESULT, 8));
    list.push(wr.signaled(WrId(1)));
    Ok(link.qp.post_send(end.ctx.cpu(), &list)?)
}

/// The completion of a masked CAS, and what it returned.
async fn result<P: Provider>(end: &mut End<P>, link: &Link<P>) -> Result<(Wc, u64), Stop> {
    let wc = end.take_one(link.send_cq).await?;
    Ok((wc, link.mr.region().load_u64(RESULT, Ordering::Acquire)))
}

/// Executes a masked CAS and returns the old value of the word.
async fn old_value<P: Provider>(
    end: &mut End<P>,
    link: &mut Link<P>,
    offset: usize,
    swap: &MaskedSwap,
) -> Result<u64, Stop> {
    post(end, link, offset, swap)?;
    let (wc, old) = result(end, link).await?;
    let want = (WcStatus::Success, Opcode::CompareSwap);
    ensure_eq!((wc.status, wc.opcode), want, "completion");
    Ok(old)
}

/// The request that sets lock number `lock` from `held_by` to `owner`.
fn lock_field(lock: u32, held_by: u16, owner: u16) -> MaskedSwap {
    let field = |value: u16| u64::from(value) << (16 * lock);
    MaskedSwap {
        compare: field(held_by),
        compare_mask: field(u16::MAX),
        swap: field(owner),
        swap_mask: field(u16::MAX),
    }
}

/// A masked CAS compares and replaces only the bits of its masks, returns the whole old word in either case, lets two
/// initiators use fields of one word side by side, and is refused where it is unaligned.
pub(super) async fn masked_cas_semantics<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    let mut other = end.link(&Setup::new()).await?;
    other.remote = link.remote;
    let word = |link: &Link<P>, offset| link.mr.region().load_u64(offset, Ordering::Acquire);
    if end.initiates() {
        end.meet().await?;
        parts_of_a_word(end, &mut link).await?;
        locks_side_by_side(end, &mut link, &mut other).await?;
        post(end, &mut other, LOCKS + 4, &lock_field(0, 0, 1))?;
        let (wc, _) = result(end, &other).await?;
        ensure_eq!(
            wc.status,
            WcStatus::RemoteInvalidRequest,
            "status of an unaligned one"
        );
        end.meet().await?;
    } else {
        link.mr
            .region()
            .store_u64(WORD, 0x1111_2222_3333_4444, Ordering::Release);
        end.meet().await?;
        end.meet().await?;
        ensure_eq!(word(&link, WORD), 0x7777_9999_aa33_4444, "the word");
        ensure_eq!(word(&link, LOCKS), 5 << 32, "the locks");
        ensure_eq!(word(&link, LOCKS + 8), 0, "the word behind the locks");
    }
    end.meet().await
}

async fn parts_of_a_word<P: Provider>(end: &mut End<P>, link: &mut Link<P>) -> Check {
    let swap = |compare, compare_mask, swap, swap_mask| MaskedSwap {
        compare,
        compare_mask,
        swap,
        swap_mask,
    };
    let high = 0xffff << 48;
    for (what, swap, old) in [
        (
            "equal in the mask",
            swap(0x4444, 0xffff, 0x7777 << 48, high),
            0x1111_2222_3333_4444,
        ),
        (
            "different in the mask",
            swap(0x4445, 0xffff, 0, u64::MAX),
            0x7777_2222_3333_4444,
        ),
        (
            "different beside the masks",
            swap(!0x3333, 0xffff << 16, u64::MAX, 0),
            0x7777_2222_3333_4444,
        ),
        (
            "values beside the masks",
            swap(
                0xffff_ffff_3333_ffff,
                0xffff << 16,
                0xffff_9999_aaff_ffff,
                0xffff_ff00_0000,
            ),
            0x7777_2222_3333_4444,
        ),
        ("no bit compared", swap(1, 0, u64::MAX, 0), 0x7777_9999_aa33_4444),
    ] {
        let got = old_value(end, link, WORD, &swap).await?;
        ensure_eq!(got, old, format!("old value, {what}"));
    }
    Ok(())
}

/// Two initiators take and give back locks in one word at the same time; neither disturbs the other.
async fn locks_side_by_side<P: Provider>(end: &mut End<P>, link: &mut Link<P>, other: &mut Link<P>) -> Check {
    let field = |word: u64, lock: u32| (word >> (16 * lock)) as u16;
    for owner in 1..=8 {
        for (from, to) in [(0, owner), (owner, 0)] {
            post(end, link, LOCKS, &lock_field(0, from, to))?;
            post(end, other, LOCKS, &lock_field(1, from, to))?;
            for (link, lock) in [(&*link, 0), (&*other, 1)] {
                let (wc, old) = result(end, link).await?;
                ensure_eq!(wc.status, WcStatus::Success, "status at a lock");
                ensure_eq!(field(old, lock), from, format!("owner of lock {lock}"));
            }
        }
    }
    old_value(end, link, LOCKS, &lock_field(2, 0, 5)).await?;
    let old = old_value(end, other, LOCKS, &lock_field(2, 0, 6)).await?;
    ensure_eq!(field(old, 2), 5, "owner of a lock that is held");
    Ok(())
}
