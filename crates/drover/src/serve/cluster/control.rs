//! Answers what other members ask this one's control thread: a thread for each of their links, of which there are few.

use drover_base::Ns;
use drover_links::ControlLink;
use drover_member::ControlHandler;
use std::sync::{Arc, Weak};

/// Longest wait for a message before it is looked whether the member still runs.
const WAIT: Ns = Ns::from_s(1);

/// Takes links to the control thread as long as the returned handler lives.
pub fn answer_links(
    handler: ControlHandler,
) -> (Arc<ControlHandler>, impl FnMut(ControlLink) + Send + 'static) {
    let handler = Arc::new(handler);
    let weak = Arc::downgrade(&handler);
    let take = move |link: ControlLink| {
        let weak = weak.clone();
        let body = move || answer(link, &weak);
        if let Err(error) = std::thread::Builder::new().name("control".to_owned()).spawn(body) {
            tracing::warn!("cannot start a thread that answers another member: {error}");
        }
    };
    (handler, take)
}

/// Answers messages until the link ends, or the member.
fn answer(mut link: ControlLink, handler: &Weak<ControlHandler>) {
    loop {
        let reply = match link.receive(WAIT) {
            Ok(None) if handler.strong_count() > 0 => continue,
            Ok(Some(message)) => handler.upgrade().and_then(|handler| handler.answer(message)),
            Ok(None) | Err(_) => return,
        };
        let Some(reply) = reply else {
            tracing::warn!(
                "member {}: malformed message to the control thread",
                link.member()
            );
            return;
        };
        if link.reply(&reply).is_err() {
            return;
        }
    }
}
