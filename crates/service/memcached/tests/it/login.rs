//! Logging in, as with memcached's `-Y`.

use crate::bed::{Bed, Client, settings};
use drover_memcached::{Judgement, Login, ServerHooks};
use drover_net::Need;

struct Door;

impl ServerHooks for Door {
    /// In odd seconds nobody is judged.
    fn authenticate(&self, login: &Login<'_>, now_s: u32) -> Judgement {
        match (login.user, login.password) {
            _ if now_s % 2 == 1 => Judgement::Later,
            (b"me", b"secret") => Judgement::Accepted,
            _ => Judgement::Refused,
        }
    }
}

fn told(said: &[(&str, &str)], closes: bool) {
    let mut bed = Bed::with(settings(), Box::new(Door));
    let mut client = Client::with(true, 1 << 20);
    for (input, want) in said {
        let got = bed.say(&mut client, input.as_bytes());
        assert_eq!(String::from_utf8_lossy(&got), *want, "{input:?}");
    }
    assert_eq!(client.is_closed, closes);
}

#[test]
fn who_knows_the_password_may_go_on() {
    told(
        &[
            ("get a\r\n", "CLIENT_ERROR unauthenticated\r\n"),
            ("set x 0 0 9\r\nme sec", ""),
            ("ret\r\n", "STORED\r\n"),
            ("set a 0 0 1\r\nx\r\n", "STORED\r\n"),
        ],
        false,
    );
}

#[test]
fn who_does_not_may_not() {
    told(
        &[
            (
                "set x 0 0 8\r\nme wrong\r\n",
                "CLIENT_ERROR authentication failure\r\n",
            ),
            (
                "set x 0 0 2\r\nme\r\n",
                "CLIENT_ERROR bad authentication token format\r\n",
            ),
            (
                "set x 0 0 2\r\nme  ",
                "CLIENT_ERROR bad command line termination\r\n",
            ),
            ("get a\r\n", "CLIENT_ERROR unauthenticated\r\n"),
            ("set x 0 0\r\n", "CLIENT_ERROR unauthenticated\r\n"),
            ("set x 0 0 4000000000\r\n", "CLIENT_ERROR unauthenticated\r\n"),
            ("mn\r\n", "CLIENT_ERROR unauthenticated\r\n"),
        ],
        false,
    );
}

#[test]
fn who_only_talks_is_hung_up_on() {
    told(&[(&"x".repeat(2049), "")], true);
}

#[test]
fn a_login_that_is_not_judged_yet_keeps_what_comes_behind_it_waiting() {
    let mut bed = Bed::with(settings(), Box::new(Door));
    bed.now_s = 101;
    let mut client = Client::with(true, 1 << 20);
    let input = b"set x 0 0 8\r\nme wrong\r\nset x 0 0 9\r\nme secret\r\nmn\r\n";
    assert_eq!(bed.say(&mut client, input), b"");
    assert_eq!(client.need, Some(Need::Tick));
    assert_eq!(bed.core.counters.auth_cmds, 0, "it is not looked at");
    bed.now_s = 102;
    let told = bed.say(&mut client, b"");
    let want = "CLIENT_ERROR authentication failure\r\nSTORED\r\nMN\r\n";
    assert_eq!(String::from_utf8_lossy(&told), want);
    assert_eq!(
        (bed.core.counters.auth_cmds, bed.core.counters.auth_errors),
        (2, 1)
    );
}
