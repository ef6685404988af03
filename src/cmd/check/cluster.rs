//! The objects of a Kubernetes cluster, listed once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::bail;
use lockgate_route::objects::{Kind, Objects};
use tokio::sync::mpsc;

use super::super::COMMIT;
use super::super::cluster_args::ClusterArgs;
use super::super::progress::Progress;
use crate::check::Scope;
use crate::metrics::Metrics;
use crate::settings::Watch;
use crate::source::{Event, cluster};

/// The timeout of all lists together.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

/// Lists every kind of the cluster once, with the same watches as `lockgate serve`. Standard error reports kinds without the
/// permission to list. They are unknown to the check.
///
/// Errors: the cluster is unreachable, or the user may list no kind.
pub async fn list(cluster: ClusterArgs, watch: &Watch, progress: &Progress) -> anyhow::Result<Scope> {
    let client = cluster::client(cluster.kubeconfig, cluster.context).await?;
    let Watch { namespaces, gateway_api } = watch.clone();
    let namespaces = (!namespaces.is_empty()).then_some(namespaces);
    let options = cluster::WatchOptions { namespaces, gateway_api, claims: None };
    let (sender, mut events) = mpsc::channel(1024);
    // The task ends with the receiver of its events.
    tokio::spawn(cluster::watch(client, options, Metrics::new(COMMIT), sender));
    let mut lists = Lists::default();
    let complete = tokio::time::timeout(LIST_TIMEOUT, async {
        while !lists.are_complete() {
            progress.step(lists.progress());
            match events.recv().await {
                Some(event) => lists.take(event),
                None => break,
            }
        }
    });
    if complete.await.is_err() {
        bail!("the API server did not list all kinds within {} s", LIST_TIMEOUT.as_secs());
    }
    lists.into_scope(progress)
}

/// The lists so far.
#[derive(Debug, Default)]
struct Lists {
    objects: Objects,
    listed: BTreeSet<Kind>,
    faults: BTreeMap<Kind, String>,
}

impl Lists {
    /// Returns whether each kind is listed, or has failed.
    fn are_complete(&self) -> bool {
        Kind::ALL.iter().all(|kind| self.listed.contains(kind) || self.faults.contains_key(kind))
    }

    /// Describes the progress: `listing the objects of the cluster: 12 of 34 kinds`.
    fn progress(&self) -> String {
        let done = Kind::ALL.iter().filter(|kind| self.listed.contains(kind) || self.faults.contains_key(kind)).count();
        format!("listing the objects of the cluster: {done} of {} kinds", Kind::ALL.len())
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Listed(kind, objects) => {
                self.objects.replace(kind, objects);
                self.listed.insert(kind);
            }
            Event::Applied(object) => {
                self.objects.apply(object);
            }
            Event::Deleted(kind, key) => {
                self.objects.delete(kind, &key);
            }
            Event::Fault { origin, message, .. } => {
                let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == origin.kind);
                if let Some(kind) = kind {
                    self.faults.insert(kind, message);
                }
            }
            Event::Together(events) => events.into_iter().for_each(|event| self.take(event)),
            _ => {}
        }
    }

    fn into_scope(self, progress: &Progress) -> anyhow::Result<Scope> {
        let Self { objects, faults, .. } = self;
        // The claims of hosts are not requested.
        let is_unknown = |kind: &Kind| faults.contains_key(kind) || *kind == Kind::HOST_CLAIMS;
        if Kind::ALL.iter().all(is_unknown) {
            let first = faults.values().next().map(String::as_str).unwrap_or_default();
            bail!("cannot read the cluster: {first}");
        }
        for message in faults.values() {
            progress.note(&format!("{message}; references to these objects are notes"));
        }
        Ok(Scope::Against { cluster: Box::new(objects), unlisted: faults.into_keys().collect() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use lockgate_xds::provenance::ObjectRef;

    use super::*;

    fn fault(kind: Kind) -> Event {
        let message = format!("cannot list {}: forbidden", kind.resource());
        Event::Fault { origin: ObjectRef::new(kind.as_str(), "", "*"), message, retry: None, repeated: false }
    }

    #[test]
    fn a_kind_without_permission_to_list_is_unknown() {
        let mut lists = Lists::default();
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::SECRET) {
            lists.take(Event::Listed(kind, Vec::new()));
        }
        assert!(!lists.are_complete());
        lists.take(fault(Kind::SECRET));
        assert!(lists.are_complete());
        let Scope::Against { unlisted, .. } = lists.into_scope(&Progress::start("")).unwrap() else {
            panic!("another scope")
        };
        assert_eq!(unlisted, BTreeSet::from([Kind::SECRET]));
    }

    #[test]
    fn a_cluster_without_any_list_is_an_error() {
        let mut lists = Lists::default();
        Kind::ALL.into_iter().for_each(|kind| lists.take(fault(kind)));
        let error = lists.into_scope(&Progress::start("")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the cluster: cannot list ") && error.ends_with("forbidden"), "{error}");
    }
}
