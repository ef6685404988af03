//! The status of routes of all kinds: their conditions at each parent that Lockgate serves.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::Meta;
use lockgate_route::objects::gateway::{GrpcRoute, HttpRoute, ParentRef, ParentStatus, TcpRoute, TlsRoute, UdpRoute};
use lockgate_route::translate::verdict::Status;
use serde_json::{Value, json};

use super::conditions::DesiredCondition;
use super::entries::{DesiredEntries, DesiredEntry, Existing};
use crate::status::kind::{Facts, Goal, HasStatus};

/// The maximum number of entries of all controllers. Source: CustomResourceDefinition of HTTPRoute v1.
const MAX_ENTRIES: usize = 32;

/// The fields of a route that the status depends on.
struct Route<'a> {
    meta: &'a Meta,
    references: &'a [ParentRef],
    existing: Existing<'a, ParentStatus>,
}

impl<'a> Route<'a> {
    fn new(meta: &'a Meta, references: &'a [ParentRef], entries: &'a [ParentStatus]) -> Self {
        Self { meta, references, existing: Existing { entries, namespace: &meta.key.namespace } }
    }

    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<DesiredEntries>> {
        // A route that Lockgate does not serve has no entry.
        let verdicts = if facts.published.is_some() { facts.verdicts } else { &[] };
        let parent = |(i, reference): (usize, &ParentRef)| {
            let of_parent = verdicts.iter().filter(|verdict| verdict.parent.map(usize::from) == Some(i));
            let condition = |verdict| DesiredCondition::from_verdict(verdict, self.meta.generation);
            let conditions: Vec<_> = of_parent.map(condition).collect();
            (!conditions.is_empty()).then(|| DesiredEntry { reference: reference.clone(), conditions })
        };
        let capacity = self.existing.capacity(facts.controller, MAX_ENTRIES);
        let entries = self.references.iter().enumerate().filter_map(parent).take(capacity).collect();
        self.existing.goal(DesiredEntries { controller: facts.controller.into(), entries })
    }

    fn patch(&self, desired: &DesiredEntries, envoys: usize, now: Timestamp) -> Value {
        json!({ "parents": self.existing.merge(desired, envoys, now) })
    }
}

fn summary(desired: &DesiredEntries) -> String {
    let accepted =
        |one: &&DesiredEntry| one.conditions.iter().any(|one| (one.r#type, one.status) == ("Accepted", Status::True));
    let count = desired.entries.iter().filter(accepted).count();
    format!("accepted by {count} of {} parents", desired.entries.len())
}

/// Implements [`HasStatus`] for a kind of routes.
macro_rules! route {
    ($type:ty) => {
        impl HasStatus for $type {
            type Status = DesiredEntries;

            fn version(&self) -> &Arc<str> {
                &self.version
            }

            fn goal(&self, facts: &Facts<'_>) -> Option<Goal<DesiredEntries>> {
                let Self { meta, spec, status, .. } = self;
                Route::new(meta, &spec.parent_refs, &status.parents).goal(facts)
            }

            fn patch(&self, desired: &DesiredEntries, envoys: usize, now: Timestamp) -> Value {
                let Self { meta, spec, status, .. } = self;
                Route::new(meta, &spec.parent_refs, &status.parents).patch(desired, envoys, now)
            }

            fn summary(desired: &DesiredEntries) -> String {
                summary(desired)
            }
        }
    };
}

route!(HttpRoute);
route!(GrpcRoute);
route!(TcpRoute);
route!(UdpRoute);
route!(TlsRoute);
