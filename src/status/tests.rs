#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod imaginary;

use super::*;

fn refused(code: u16) -> Failure {
    let status = kube::core::Status::failure("no", "No").with_code(code);
    Failure::Api(kube::Error::Api(Box::new(status)))
}

#[test]
fn what_concerns_one_object_holds_up_no_other() {
    let now = Instant::now();
    for code in [404, 409, 403, 422] {
        let mut trouble = Trouble::default();
        trouble.note(Some(&refused(code)), now);
        assert_eq!(trouble.over(), None, "{code}");
    }
}

#[test]
fn an_api_server_in_trouble_is_asked_ever_less_often_and_then_as_before() {
    let mut now = Instant::now();
    let mut trouble = Trouble::default();
    let mut pauses = Vec::new();
    for failure in
        [Failure::Late, refused(500), refused(503), refused(429), Failure::Late, Failure::Late, Failure::Late]
    {
        trouble.note(Some(&failure), now);
        // That of a write that was under way at the same time.
        trouble.note(Some(&failure), now);
        let over = trouble.over().unwrap();
        pauses.push((over - now).as_millis());
        now = over;
    }
    assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 15_000, 15_000]);
    trouble.note(None, now);
    assert_eq!(trouble.over(), None);
}

#[test]
fn installations_write_under_names_of_their_own() {
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
