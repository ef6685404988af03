//! The status of routes of all kinds: their conditions at each parent that Lockgate serves.
//!
//! The list of parents is atomic for the API server, and several controllers write into it. Their entries stay.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::Meta;
use lockgate_route::objects::gateway::{
    GROUP, GrpcRoute, HttpRoute, ParentRef, ParentStatus, TcpRoute, TlsRoute, UdpRoute,
};
use lockgate_route::translate::verdict::Status;
use serde_json::{Value, json};

use super::cause;
use super::conditions::{self, are, merge};
use crate::status::kind::{Facts, Goal, HasStatus};

/// The maximum number of entries of all controllers. Source: CustomResourceDefinition of HTTPRoute v1.
const MOST: usize = 32;

/// The entries that the status of a route should have.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// The name of this controller.
    controller: Arc<str>,
    /// The entries of this controller, in the order of the spec.
    parents: Vec<Parent>,
}

/// The entry of one parent.
#[derive(Debug, Clone, PartialEq)]
struct Parent {
    reference: ParentRef,
    conditions: Vec<conditions::Wanted>,
}

/// The fields of a route that the status depends on.
struct Route<'a> {
    meta: &'a Meta,
    references: &'a [ParentRef],
    /// The existing entries of all controllers.
    entries: &'a [ParentStatus],
}

impl Route<'_> {
    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<Wanted>> {
        // A route that is not ours, or no longer, has no entry of ours.
        let verdicts = if facts.published.is_some() { facts.verdicts } else { &[] };
        let parent = |(i, reference): (usize, &ParentRef)| {
            let of_parent = verdicts.iter().filter(|verdict| verdict.parent.map(usize::from) == Some(i));
            let wanted = |verdict| conditions::Wanted::of_verdict(verdict, self.meta.generation);
            let conditions: Vec<_> = of_parent.map(wanted).collect();
            (!conditions.is_empty()).then(|| Parent { reference: reference.clone(), conditions })
        };
        let others = self.entries.iter().filter(|entry| entry.controller_name != facts.controller).count();
        let parents = self.references.iter().enumerate().filter_map(parent).take(MOST.saturating_sub(others));
        let wanted = Wanted { controller: facts.controller.into(), parents: parents.collect() };
        (!self.is_right(&wanted)).then(|| Goal { cause: cause(&wanted), status: wanted, needs: None })
    }

    fn patch(&self, wanted: &Wanted, envoys: usize, now: Timestamp) -> Value {
        let is_ours = |entry: &ParentStatus| *entry.controller_name == *wanted.controller;
        let others = self.entries.iter().filter(|entry| !is_ours(entry)).cloned();
        let ours = wanted.parents.iter().map(|parent| {
            let is = self.entry(wanted, parent).map_or(&[][..], |is| &is.conditions);
            ParentStatus {
                parent_ref: parent.reference.clone(),
                controller_name: wanted.controller.to_string(),
                conditions: merge(is, &parent.conditions, envoys, now),
            }
        });
        json!({ "parents": others.chain(ours).collect::<Vec<_>>() })
    }

    /// Returns whether the entries of this controller are the wanted ones.
    fn is_right(&self, wanted: &Wanted) -> bool {
        let ours = self.entries.iter().filter(|entry| *entry.controller_name == *wanted.controller).count();
        let is_right =
            |parent: &Parent| self.entry(wanted, parent).is_some_and(|is| are(&is.conditions, &parent.conditions));
        ours == wanted.parents.len() && wanted.parents.iter().all(is_right)
    }

    /// Returns the existing entry of this controller for a parent.
    fn entry(&self, wanted: &Wanted, parent: &Parent) -> Option<&ParentStatus> {
        let mut ours = self.entries.iter().filter(|is| *is.controller_name == *wanted.controller);
        ours.find(|is| is_same(&is.parent_ref, &parent.reference, &self.meta.key.namespace))
    }
}

fn summary(wanted: &Wanted) -> String {
    let accepted =
        |parent: &&Parent| parent.conditions.iter().any(|one| (one.r#type, one.status) == ("Accepted", Status::True));
    let count = wanted.parents.iter().filter(accepted).count();
    format!("accepted by {count} of {} parents", wanted.parents.len())
}

/// Implements [`HasStatus`] for a kind of routes.
macro_rules! route {
    ($type:ty) => {
        impl HasStatus for $type {
            type Status = Wanted;

            fn version(&self) -> &Arc<str> {
                &self.version
            }

            fn goal(&self, facts: &Facts<'_>) -> Option<Goal<Wanted>> {
                let Self { meta, spec, status, .. } = self;
                Route { meta, references: &spec.parent_refs, entries: &status.parents }.goal(facts)
            }

            fn patch(&self, wanted: &Wanted, envoys: usize, now: Timestamp) -> Value {
                let Self { meta, spec, status, .. } = self;
                Route { meta, references: &spec.parent_refs, entries: &status.parents }.patch(wanted, envoys, now)
            }

            fn summary(wanted: &Wanted) -> String {
                summary(wanted)
            }
        }
    };
}

route!(HttpRoute);
route!(GrpcRoute);
route!(TcpRoute);
route!(UdpRoute);
route!(TlsRoute);

/// Returns whether two references of a route in `namespace` are the same, with defaults or without.
pub fn is_same(a: &ParentRef, b: &ParentRef, namespace: &str) -> bool {
    let whole = |reference: &ParentRef| {
        let ParentRef { group, kind, namespace: of, name, section_name, port } = reference.clone();
        (
            group.unwrap_or_else(|| GROUP.to_owned()),
            kind.unwrap_or_else(|| "Gateway".to_owned()),
            of.unwrap_or_else(|| namespace.to_owned()),
            name,
            section_name,
            port,
        )
    };
    a == b || whole(a) == whole(b)
}
