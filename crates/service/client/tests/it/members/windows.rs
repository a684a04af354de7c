//! Clients take more operations than members have space for.

use super::bed::TestService;
use drover_client::{Op, Outcome};

#[test]
fn operations_from_before_the_first_session_are_executed_beside_later_ones() {
    let service = TestService::new(&["a"]);
    let keys: Vec<Vec<u8>> = (0..1000)
        .map(|number| format!("m{number}").into_bytes())
        .collect();
    for _ in 0..20 {
        let mut pipeline = service.pipeline();
        let (mut submitted, mut stored) = (0, 0);
        while stored < keys.len() {
            while submitted < keys.len() {
                let op = Op::put(&keys[submitted], b"v");
                if pipeline.submit(&op, submitted as u64).is_err() {
                    break;
                }
                submitted += 1;
            }
            stored += pipeline.wait(&mut |completion| {
                assert_eq!(completion.outcome, Outcome::Stored, "{}", completion.token);
            });
        }
    }
}
