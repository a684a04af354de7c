//! The provider conformance suite: in one thread, in two threads, in two processes.

use drover_testkit::child::{Channel, role, spawn};
use drover_verbs::{Export, OpenError, QpKind};
use drover_verbs_shm::{Shm, ShmDevice};
use drover_verbs_suite::conformance::{
    Chan, ChanClosed, Role, Stop, TestBed, Together, assert_rule, rules, run_end,
};

struct Bed(Together);

impl TestBed for Bed {
    type Provider = Shm;
    fn ends(&self) -> Result<[ShmDevice; 2], OpenError> {
        Ok([ShmDevice::default(), ShmDevice::default()])
    }
    fn together(&self) -> Together {
        self.0
    }
}

mod one_thread {
    use super::*;
    drover_verbs_suite::conformance_tests!(|rule| assert_rule(&Bed(Together::OneThread), rule));
}

mod two_threads {
    use super::*;
    drover_verbs_suite::conformance_tests!(|rule| assert_rule(&Bed(Together::TwoThreads), rule));
}

/// A channel as the rules want it.
struct RuleChan(Channel);

impl Chan for RuleChan {
    fn send(&mut self, message: Export) -> Result<(), ChanClosed> {
        self.0.send(&message).map_err(|_| ChanClosed)
    }
    fn try_recv(&mut self) -> Result<Option<Export>, ChanClosed> {
        self.0.try_receive().map_err(|_| ChanClosed)
    }
}

fn play(name: &str, kind: QpKind, role: Role, channel: &Channel) -> String {
    match run_end::<Shm>(
        name,
        kind,
        role,
        ShmDevice::default(),
        Box::new(RuleChan(channel.try_clone())),
    ) {
        Ok(()) => "kept".into(),
        Err(Stop::Skipped(why)) => format!("skipped: {why}"),
        Err(Stop::Broken(how)) => format!("broken: {how}"),
    }
}

/// One child plays the responder of all rules, one after the other.
#[test]
fn two_processes() {
    if role().is_some() {
        return respond(Channel::of_child());
    }
    let (mut child, mut channel) = spawn(
        &["conformance::two_processes", "--exact", "--nocapture"],
        "responder",
    );
    let mut broken = Vec::new();
    for rule in rules::<Shm>() {
        for (index, &kind) in rule.kinds.iter().enumerate() {
            channel
                .send_text(&format!("{} {index}", rule.name))
                .expect("child");
            let ours = play(rule.name, kind, Role::Initiator, &channel);
            let theirs = channel.receive_text().expect("child");
            println!("{} over {kind:?}: {ours} / {theirs}", rule.name);
            if ours.starts_with("broken") || theirs.starts_with("broken") {
                broken.push(format!("{} over {kind:?}: {ours} / {theirs}", rule.name));
                break;
            }
        }
    }
    drop(channel);
    child.wait().expect("child");
    assert!(broken.is_empty(), "{broken:#?}");
}

fn respond(mut channel: Channel) {
    while let Ok(order) = channel.receive_text() {
        let (name, index) = order.split_once(' ').expect("a rule and a kind");
        let all = rules::<Shm>();
        let rule = all
            .iter()
            .find(|rule| rule.name == name)
            .expect("the parent's rules are ours");
        let kind = rule.kinds[index.parse::<usize>().expect("a number")];
        let result = play(name, kind, Role::Responder, &channel);
        if channel.send_text(&result).is_err() {
            return;
        }
    }
}
