//! Logging in, as with memcached's `-Y`: the first command is a `set` of any key with the value `user password`.

use super::{Session, State, Step};
use crate::parse::scan::{self, Line, Words};
use crate::{Executor, Judgement, Login, exec};
use drover_base::Cpu;
use drover_net::{Need, Output};
use drover_store::Sharing;

/// Reply to the right password.
const ACCEPTED: &str = "STORED";
/// Maximum length of the first line and of the credentials.
const LOGIN_BYTES_MAX: usize = 2048;

impl<C: Cpu + 'static, S: Sharing + 'static> Session<C, S> {
    /// Advances the login.
    pub(super) fn log_in(
        &mut self,
        executor: &mut Executor<'_, C, S>,
        rest: &[u8],
        output: &mut Output,
    ) -> Step {
        match self.state {
            State::Unauthenticated {
                credentials: Some(len),
            } => self.check(executor, rest, len, output),
            _ => self.ask(rest, output),
        }
    }

    /// Reads the line of the `set`.
    fn ask(&mut self, rest: &[u8], output: &mut Output) -> Step {
        let Some(line_end) = scan::find(&rest[..rest.len().min(LOGIN_BYTES_MAX + 1)], b'\n') else {
            if rest.len() > LOGIN_BYTES_MAX {
                self.state = State::Over;
                return Step::On(rest.len());
            }
            let at_least = rest.len() + 1;
            return Step::Wait(0, Need::Input { at_least });
        };
        let words = Line::new(&rest[..line_end]);
        let len = scan::number_u32(words.word(4)).map(|len| len as usize);
        let is_set = words.count >= 5 && words.word(0) == b"set";
        match len.filter(|&len| is_set && len <= LOGIN_BYTES_MAX) {
            Some(len) => {
                self.state = State::Unauthenticated {
                    credentials: Some(len),
                }
            }
            None => exec::reply(output, "CLIENT_ERROR unauthenticated"),
        }
        Step::On(line_end + 1)
    }

    /// Checks user and password.
    fn check(
        &mut self,
        executor: &mut Executor<'_, C, S>,
        rest: &[u8],
        len: usize,
        output: &mut Output,
    ) -> Step {
        let at_least = len + 2;
        let Some(value) = rest.get(..at_least) else {
            return Step::Wait(0, Need::Input { at_least });
        };
        let reply = match value.strip_suffix(b"\r\n") {
            None => "CLIENT_ERROR bad command line termination",
            Some(value) => match self.judge(executor, value) {
                Some(reply) => reply,
                None => return Step::Wait(0, Need::Tick),
            },
        };
        self.state = match reply == ACCEPTED {
            true => State::Idle,
            false => State::Unauthenticated { credentials: None },
        };
        exec::reply(output, reply);
        Step::On(at_least)
    }

    /// The reply to credentials; `None`: they are looked at later.
    fn judge(&mut self, executor: &mut Executor<'_, C, S>, value: &[u8]) -> Option<&'static str> {
        let mut words = Words::new(value);
        let (Some(user), Some(password)) = (words.next(), words.next()) else {
            return Some("CLIENT_ERROR bad authentication token format");
        };
        let peer = self.presence.as_ref().and_then(|known| known.guest.peer);
        let login = Login {
            host: peer.map(|peer| peer.ip()),
            user,
            password,
        };
        let judgement = executor.server.host.authenticate(&login, executor.now_s);
        if judgement == Judgement::Later {
            return None;
        }
        let counters = &mut executor.core.counters;
        counters.auth_cmds += 1;
        if judgement == Judgement::Accepted {
            return Some(ACCEPTED);
        }
        counters.auth_errors += 1;
        if let Some(presence) = &self.presence {
            tracing::info!(
                "{}: login refused: wrong user or password",
                presence.guest.named()
            );
        }
        Some("CLIENT_ERROR authentication failure")
    }
}
