//! Goal: a member that starts when not all is as it should be waits for what heals, and says what does not.

use super::bed::{LEASE, Service};

#[test]
fn a_member_waits_for_etcd() {
    let Some(mut service) = Service::new("waits") else {
        return;
    };
    service.etcd.kill();
    let (url, host, fabric) = (service.url(), service.host(1).to_string(), service.fabric(1));
    let member = std::thread::spawn(move || {
        let args = [
            "--cluster",
            &url,
            "--advertise",
            &host,
            "--member-name",
            "m1",
            "-l",
            &host,
            "-p",
            "11211",
        ];
        crate::common::Serving::start_at(&fabric, &args)
    });
    service.etcd.restart();
    let member = member.join().expect("it serves");
    assert_eq!(service.settled(1), [("m1".to_owned(), 4096)]);
    service.client(1).set_all(3, "a");
    service.client(1).expect_all(3, "a");
    let (status, log) = member.stop_with_log();
    assert_eq!(status, 0, "{log}");
}

#[test]
fn a_name_that_a_living_member_has_is_refused() {
    let Some(service) = Service::new("names") else {
        return;
    };
    let member = service.start(1, &[]);
    service.settled(1);
    let (status, _, error) = service.refused(2, &["--member-name", "m1", "--lease", LEASE]);
    assert_eq!(status, 69, "{error}");
    assert!(error.contains("--member-name m1: another member of"), "{error}");
    assert_eq!(member.stop(), 0);
}
