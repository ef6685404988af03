#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod harness;
mod imaginary;

use super::*;

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
