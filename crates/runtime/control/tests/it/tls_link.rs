//! Goal: a link over TLS makes its session again, with the certificate that the server has by then.

use crate::tls::{Server, TURNS_MAX};
use drover_base::Ns;
use drover_control::{
    ControlError, ControlStream, Dial, DialError, Frame, Handshake, Link, LinkEvent, LinkOptions,
};
use drover_control::{Loss, Taken};
use std::sync::Arc;

/// A handshake of one frame, which comes back.
struct Hello;

/// Why there is no session, for people.
#[derive(Debug)]
struct Why(String);

impl From<DialError> for Why {
    fn from(error: DialError) -> Why {
        Why(error.to_string())
    }
}

impl From<ControlError> for Why {
    fn from(error: ControlError) -> Why {
        Why(error.to_string())
    }
}

impl From<Loss> for Why {
    fn from(loss: Loss) -> Why {
        Why(format!("{loss:?}"))
    }
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Handshake for Hello {
    type Session = ();
    type Error = Why;

    fn begin(&mut self, control: &mut ControlStream) -> Result<(), Why> {
        Ok(control.send(20, b"hello", &[])?)
    }

    fn take(
        &mut self,
        _: Frame,
        _: &mut Option<Box<()>>,
        _: &mut ControlStream,
        _: Ns,
    ) -> Result<Taken<()>, Why> {
        Ok(Taken::Done(Box::new(())))
    }
}

struct Client {
    link: Link<Hello>,
    /// Moves by a millisecond a turn.
    now: Ns,
}

impl Client {
    /// The next event, while the server takes turns; `None` if there is none for long.
    fn event(&mut self, server: &mut Server) -> Option<LinkEvent<()>> {
        (0..TURNS_MAX).find_map(|_| {
            server.bed.waiting_turn();
            self.now += Ns::from_ms(1);
            self.link.poll(self.now)
        })
    }

    fn comes_up(&mut self, server: &mut Server) {
        assert!(matches!(self.event(server), Some(LinkEvent::Up(_))));
    }

    /// Has the server close the channel.
    fn is_cut(&mut self, server: &mut Server) {
        let control = self.link.control().expect("a session");
        control.send(77, b"", &[]).expect("space");
        assert!(matches!(self.event(server), Some(LinkEvent::Lost)));
    }
}

#[test]
fn a_link_comes_up_again() {
    let mut server = Server::new("link");
    let addr = server.addr.clone().with_tls(Some(Arc::new(server.trusting())));
    let mut client = Client {
        link: Link::new(Dial::to(addr), Hello, LinkOptions::default()),
        now: Ns::ZERO,
    };
    client.comes_up(&mut server);
    client.is_cut(&mut server);
    client.comes_up(&mut server);

    server.authority.issue("server", "db.test");
    server.acceptor.reload().expect("files");
    client.is_cut(&mut server);
    let why = (0..TURNS_MAX).find_map(|_| {
        server.bed.waiting_turn();
        client.now += Ns::from_ms(1);
        assert!(
            client.link.poll(client.now).is_none(),
            "no session with a stranger"
        );
        client.link.take_error().filter(|why| why.0.starts_with("TLS"))
    });
    let why = why.expect("a reason").0;
    assert!(why.contains("is for db.test, not for 127.0.0.1"), "{why}");

    server.authority.issue("server", "127.0.0.1");
    server.acceptor.reload().expect("files");
    client.comes_up(&mut server);
}
