#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod imaginary;

use super::*;

fn refused(code: u16) -> Failure {
    let status = kube::core::Status::failure("no", "No").with_code(code);
    Failure::Api(kube::Error::Api(Box::new(status)))
}

#[test]
fn a_failure_of_one_object_does_not_pause_the_writes() {
    let now = Instant::now();
    for code in [404, 409, 403, 422] {
        let mut backoff = ApiBackoff::default();
        backoff.record(Some(&refused(code)), now);
        assert_eq!(backoff.until(), None, "{code}");
    }
}

#[test]
fn an_unavailable_api_server_gets_fewer_requests_until_it_recovers() {
    let mut now = Instant::now();
    let mut backoff = ApiBackoff::default();
    let mut pauses = Vec::new();
    for failure in [
        Failure::Timeout,
        refused(500),
        refused(503),
        refused(429),
        Failure::Timeout,
        Failure::Timeout,
        Failure::Timeout,
    ] {
        backoff.record(Some(&failure), now);
        // That of a write that was under way at the same time.
        backoff.record(Some(&failure), now);
        let over = backoff.until().unwrap();
        pauses.push((over - now).as_millis());
        now = over;
    }
    assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 15_000, 15_000]);
    backoff.record(None, now);
    assert_eq!(backoff.until(), None);
}

#[test]
fn each_installation_has_its_own_field_manager() {
    assert_eq!(manager("ingress", "lockgate"), "lockgate/ingress/lockgate");
    assert!(manager(&"n".repeat(63), &"l".repeat(253)).len() <= 128);
}

#[test]
fn every_kind_with_a_status_has_a_writer() {
    let written = WRITERS.map(|(kind, _)| kind);
    assert!(written.iter().all(|kind| kind.info().has_status));
    for kind in Kind::ALL.into_iter().filter(|kind| kind.info().has_status) {
        assert!(written.contains(&kind), "{kind:?}");
    }
}
