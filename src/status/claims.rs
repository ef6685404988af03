//! The writer of the claims of hosts. [`plan`] decides what to write, and this module performs the I/O.
//!
//! A claim follows the rule that is served: a new host is served at once, and claimed within seconds. Writes are limited to one
//! each second, and each of them changes one ConfigMap.

pub mod plan;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use lockgate_route::objects::{HostClaims, Kind};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::{ApiBackoff, Failure, WRITE_TIMEOUT};
use crate::inspection::Inspection;
use crate::leader::Leader;
use crate::metrics::Metrics;
use crate::source::claims::{LABEL, Place};
use plan::{Known, Plan, Write};

/// The minimum time between two writes.
const INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a refused write.
const REFUSED: Duration = Duration::from_secs(15);
/// The maximum sleep.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// The writer of claims.
pub(super) struct Claims {
    pub client: kube::Client,
    /// The field manager of this installation.
    pub manager: String,
    pub place: Place,
    pub leader: Leader,
    pub inspected: watch::Receiver<Arc<Inspection>>,
    pub metrics: Metrics,
}

/// The pauses of one term.
struct Pauses {
    backoff: ApiBackoff,
    /// The time of the next write.
    rest: Instant,
    /// Whether the last write failed, so that a series of failures is logged once.
    faulty: bool,
}

impl Claims {
    /// Writes while this replica leads, forever.
    pub async fn run(mut self) {
        let leader = self.leader.clone();
        loop {
            leader.leading().await;
            leader.while_leading(self.lead()).await;
        }
    }

    /// Writes during one term.
    async fn lead(&mut self) {
        let mut plan = Plan::default();
        let mut pauses = Pauses { backoff: ApiBackoff::default(), rest: Instant::now(), faulty: false };
        let (mut is_full, namespace) = (false, self.place.namespace.as_str().into());
        loop {
            let inspection = self.inspected.borrow_and_update().clone();
            let now = Instant::now();
            let mut wake = now + MAX_SLEEP;
            if inspection.complete && inspection.objects.is_readable(Kind::HOST_CLAIMS, &namespace) {
                if now < pauses.rest {
                    wake = pauses.rest;
                } else {
                    match next(&mut plan, &inspection, now) {
                        Ok(write) => {
                            self.write(&write, &mut plan, &mut pauses).await;
                            wake = pauses.rest;
                        }
                        Err(due) => wake = due.map_or(wake, |due| due.min(wake)),
                    }
                    let was_full = std::mem::replace(&mut is_full, plan.beyond > 0);
                    if is_full && !was_full {
                        tracing::warn!(
                            hosts = plan.beyond,
                            "some hosts cannot be claimed, because the ConfigMaps with claims have no room for their namespace: \
                             the oldest Ingress owns these hosts"
                        );
                    }
                }
            }
            tokio::select! {
                () = super::changed(&mut self.inspected) => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Performs a write, and reports its result.
    async fn write(&self, write: &Write, plan: &mut Plan, pauses: &mut Pauses) {
        let (start, name) = (Instant::now(), self.place.name(write.shard));
        let failure = Failure::from_response(timeout(WRITE_TIMEOUT, self.perform(&name, write)).await).err();
        self.metrics.status_written(Kind::HOST_CLAIMS.as_str(), super::outcome(failure.as_ref()));
        pauses.backoff.record(failure.as_ref(), Instant::now());
        pauses.rest = pauses.backoff.until().unwrap_or(start).max(start + INTERVAL);
        let claimed = write.data.values().flatten().count();
        let (released, namespace) = (write.data.len() - claimed, &self.place.namespace);
        let Some(failure) = failure else {
            pauses.faulty = false;
            tracing::debug!(%namespace, name, claimed, released, "wrote the claims of hosts");
            return;
        };
        // Another change came first. The watch delivers it, and the next write follows it.
        if failure.code() == Some(409) && write.version.is_some() {
            return tracing::debug!(%namespace, name, "the claims of hosts have changed");
        }
        match failure.affects_all_writes() {
            true => plan.failed(write),
            false => pauses.rest = start + REFUSED,
        }
        if !std::mem::replace(&mut pauses.faulty, true) {
            tracing::warn!(%namespace, name, claimed, released, "cannot write the claims of hosts: {failure}; retrying");
        }
    }

    async fn perform(&self, name: &str, write: &Write) -> kube::Result<()> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.place.namespace);
        let manager = Some(self.manager.clone());
        let Some(version) = &write.version else {
            let labels = [(LABEL.to_owned(), self.place.installation().to_owned())];
            let metadata = ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(labels.into_iter().collect()),
                ..ObjectMeta::default()
            };
            let data = write.data.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect();
            let object = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
            let params = PostParams { field_manager: manager, ..PostParams::default() };
            return api.create(&params, &object).await.map(drop);
        };
        // The version makes one of two concurrent writes fail. Managed fields would double the size of the object.
        let metadata = json!({ "resourceVersion": &**version, "managedFields": [{}] });
        let patch = Patch::Merge(json!({ "metadata": metadata, "data": write.data }));
        let params = PatchParams { field_manager: manager, ..PatchParams::default() };
        api.patch_metadata(name, &params, &patch).await.map(drop)
    }
}

/// Returns the next write for the state of the loop, or the time of the next call without a change.
fn next(plan: &mut Plan, inspection: &Inspection, now: Instant) -> Result<Write, Option<Instant>> {
    let objects = &inspection.objects;
    let shards = objects.all::<HostClaims>().map(|shard| (shard.shard, shard)).collect();
    let can_claim = |namespace: &Arc<str>| objects.can_claim(namespace);
    let since = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    plan.next(&Known { unsettled: &inspection.unsettled, shards, can_claim: &can_claim, since: &since }, now)
}
