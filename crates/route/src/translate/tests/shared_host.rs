//! A change of a host that many Ingresses share.

use std::sync::Arc;

use crate::envoy::{Builder, Change};
use crate::model::{ListenerId, Route, Touched, VirtualHostRoutes};
use crate::testing::shared_host::{FORMS, host, shared, sharing};

#[test]
fn a_change_builds_only_the_routes_of_the_changed_object() {
    let mut shared = shared(60);
    let before = shared.virtual_host().clone();
    shared.apply(sharing(7, 2));
    let now = shared.virtual_host();
    assert_eq!((before.routes.len(), now.routes.len()), (60, 61));
    let is_kept = |route: &&Arc<Route>| before.routes.iter().any(|old| Arc::ptr_eq(old, route));
    let made: Vec<_> = now.routes.iter().filter(|route| !is_kept(route)).collect();
    assert_eq!(made.len(), 2, "{made:?}");
    let (old, new) = VirtualHostRoutes::differing(Some(&before), Some(now));
    assert_eq!((old.len(), new.len()), (0, 1), "what is equal is not built again");
}

#[test]
fn a_changed_host_has_the_same_bytes_as_a_new_host() {
    let mut changed = shared(60);
    changed.apply(sharing(7, 2));
    changed.apply(sharing(59, 3));
    changed.apply(sharing(0, 0));
    let mut touched = Touched::default();
    touched.insert_host(ListenerId::HTTP, host());
    let built = |builder: &mut Builder, first| {
        let model = changed.translator.model();
        let change = Change { model, touched: &touched, settings: &changed.settings, settings_changed: first };
        let built = builder.update(change, FORMS);
        let found = built.shared.set.into_iter().find(|one| &**one.name() == "http/shop.example.com");
        found.expect("the scope").version()
    };
    let anew = built(&mut Builder::default(), true);
    assert_eq!(built(&mut changed.builder, false), anew);
}
