//! Tasks: what a pool promises to the operations that it hosts.

mod credits;
mod guard;
mod messages;
mod no_allocation;
mod permits;
mod posting;
mod requests;
mod simulated;
mod smart_defects;

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Poll;

/// Awaits both.
pub async fn join<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(move |cx| {
        poll_once(&mut first, a.as_mut(), cx);
        poll_once(&mut second, b.as_mut(), cx);
        match first.is_some() && second.is_some() {
            true => Poll::Ready((first.take().expect("done"), second.take().expect("done"))),
            false => Poll::Pending,
        }
    })
    .await
}

fn poll_once<F: Future>(out: &mut Option<F::Output>, future: Pin<&mut F>, cx: &mut std::task::Context<'_>) {
    if out.is_none()
        && let Poll::Ready(value) = future.poll(cx)
    {
        *out = Some(value);
    }
}
