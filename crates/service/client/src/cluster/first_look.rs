//! What a client must know before it can ask any member: the settings of the service, and its map.

use super::MapSource;
use drover_base::{Cpu, Ns};
use drover_cluster::{Map, RegistryEvent, RegistryReply, RegistryRequest, ServiceSettings, View};
use drover_kv::ConnectError;
use drover_mem::NativeCpu;
use std::sync::Arc;
use std::time::Duration;

/// Time after which the registry is asked again.
const ASK_EVERY: Ns = Ns::from_ms(100);
/// Pause between two looks for its answers.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What is known so far.
#[derive(Default)]
struct Known {
    settings: Option<ServiceSettings>,
    map: Option<Arc<Map>>,
    /// Whether the registry has answered at all.
    is_answered: bool,
}

impl Known {
    fn learn(&mut self, event: RegistryEvent) {
        let view = match event {
            RegistryEvent::Reply {
                reply: RegistryReply::Settings(settings),
                ..
            } => {
                self.settings = settings;
                self.is_answered = true;
                return;
            }
            RegistryEvent::Reply {
                reply: RegistryReply::View(view),
                ..
            }
            | RegistryEvent::Changed(view) => view,
            _ => return,
        };
        let View { map, .. } = view;
        self.is_answered = true;
        self.map = map.or(self.map.take());
    }
}

/// Asks for settings and map until both are there.
///
/// # Errors
/// They are not there within `patience`.
pub(super) fn look(
    registry: &mut dyn MapSource,
    patience: Ns,
) -> Result<(ServiceSettings, Arc<Map>), ConnectError> {
    let cpu = NativeCpu::new(0);
    let (begun, mut known) = (cpu.refresh(), Known::default());
    let mut ask_at = begun;
    loop {
        let now = cpu.refresh();
        while let Some(event) = registry.poll(now) {
            known.learn(event);
        }
        if let (Some(settings), Some(map)) = (known.settings, &known.map) {
            return Ok((settings, map.clone()));
        }
        if now.since(begun) >= patience {
            return Err(failure(registry, &known));
        }
        if now >= ask_at {
            registry.submit(now, 1, RegistryRequest::Settings(None));
            registry.submit(now, 2, RegistryRequest::Look);
            ask_at = now + ASK_EVERY;
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
}

fn failure(registry: &dyn MapSource, known: &Known) -> ConnectError {
    let text = match known.is_answered {
        true => "the service has no members yet: start one with drover serve --cluster".to_string(),
        false => registry.no_answer().unwrap_or_else(|| "no answer".to_string()),
    };
    ConnectError::Service(text.into())
}
