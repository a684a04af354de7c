//! Goal: the commands about a service tell the truth, in text and in JSON, and monitors see the members.

use super::bed::Service;
use crate::common::drover;
use serde_json::Value;

#[test]
fn commands_show_and_check_a_service() {
    let Some(service) = Service::new("commands") else {
        return;
    };
    let (status, _, error) = service.cluster(&["status"]);
    assert_eq!(status, 69);
    assert!(error.contains("etcd knows no such service"), "{error}");
    let first = service.start(1, &[]);
    let second = service.start(2, &[]);
    service.settled(2);
    service.client(1).set_all(50, "a");
    service.client(2).expect_all(50, "a");

    let (_, text, _) = service.cluster(&["status"]);
    assert!(text.starts_with("service commands: epoch "), "{text}");
    assert!(
        text.contains("4096 shards, 0 without an owner, 0 moving"),
        "{text}"
    );
    let row = text.lines().find(|line| line.starts_with("m2 ")).expect("a row");
    assert!(row.contains("settled") && row.contains("100.0%"), "{row}");
    let status = service.status();
    let items = |index: usize| {
        status["members"][index]["load"]["items"]
            .as_u64()
            .expect("an admin port")
    };
    assert_eq!(items(0) + items(1), 50, "{status}");
    assert_eq!(status["members"][0]["lag"], 0, "{status}");

    let (code, text, _) = service.cluster(&["check"]);
    assert_eq!(
        (code, text.as_str()),
        (0, format!("{}: all is well\n", service.url()).as_str())
    );
    let url = service.url();
    let (_, text, _) = drover(&["top", "--once", "--cluster", &url], "");
    assert!(text.contains("m1 ") && text.contains("m2 "), "{text}");
    let (_, text, _) = drover(&["doctor", "--json", "--cluster", &url], "");
    let findings: Value = serde_json::from_str(&text).expect("JSON");
    let findings = findings["findings"].as_array().expect("a list");
    for what in ["etcd", "time of day", "member m1", "member m2"] {
        let found = findings.iter().find(|finding| finding["what"] == what);
        assert!(
            found.is_some_and(|finding| finding["grade"] != "bad"),
            "{what}: {findings:?}"
        );
    }
    assert_eq!(first.metric("drover_cluster_registered"), 1);
    assert!(
        first.metric("drover_cluster_requests_total") > 0,
        "keys of the other were asked for"
    );

    let (code, _, error) = service.cluster(&["undrain", "m3"]);
    assert_eq!(
        (code, error.as_str()),
        (64, "drover: m3: no member has this name; there are m1, m2\n")
    );
    // A member that dies leaves nothing behind but the time of its lease.
    second.kill();
    let shards = service.settled(1);
    assert_eq!(shards, [("m1".to_owned(), 4096)]);
    assert!(first.metric("drover_cluster_lost_shards_total") > 1000);
    assert_eq!(first.stop(), 0);
}
