//! Reports what changes, as whole views: single changes that were missed, or compacted away, do not matter then.

use crate::connection::{Connection, Failure};
use crate::requests::look;
use drover_cluster::RegistryEvent;
use etcd_client::WatchOptions;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// First pause before a watch that has ended begins again; each further one is twice as long. Short, because members that hand shards
/// over meanwhile hear of each map only when they ask, once a second.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Reports views until nobody listens. When the watch ends, it looks, and watches from what it saw.
pub(crate) async fn watch(connection: Arc<Connection>, report: Sender<RegistryEvent>) {
    let mut pause = PAUSE_FIRST;
    loop {
        let mut has_begun = false;
        match watch_once(&connection, &report, &mut has_begun).await {
            Ok(()) => return,
            Err(error) => tracing::debug!(%error, "the watch has ended, and begins again"),
        }
        if has_begun {
            pause = PAUSE_FIRST;
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// Watches until etcd ends it, which is an error, or nobody listens.
async fn watch_once(
    connection: &Connection,
    report: &Sender<RegistryEvent>,
    has_begun: &mut bool,
) -> Result<(), Failure> {
    let mut client = connection.client().await?;
    let mut view = look(connection, &mut client).await?;
    let from = WatchOptions::new()
        .with_prefix()
        .with_start_revision(view.revision as i64 + 1);
    let mut changes = client.watch(connection.keys.all(), Some(from)).await?;
    *has_begun = true;
    loop {
        if report.send(RegistryEvent::Changed(view)).is_err() {
            return Ok(());
        }
        loop {
            let ended = || etcd_client::Error::WatchError("the stream has ended".to_string());
            let message = changes.message().await?.ok_or_else(ended)?;
            connection.check(message.header())?;
            if message.canceled() {
                let why = message.cancel_reason().to_string();
                return Err(etcd_client::Error::WatchError(why).into());
            }
            if !message.events().is_empty() {
                break;
            }
        }
        view = look(connection, &mut client).await?;
    }
}
