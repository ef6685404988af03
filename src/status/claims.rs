//! The plan of the claims of hosts. [`plan`] decides what to write, and this module connects it to the writer.
//!
//! A claim follows the rule that is served: a new host is served at once, and claimed within seconds. Writes are limited to one
//! each second, and each of them changes one ConfigMap.

pub mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::{HostClaims, Kind, ObjectId};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use super::failure::Failure;
use super::plan::{CLAIMS, Limits, Performed, Performing, Plan};
use super::queue::{self, Base, Queue, QueueItem};
use super::sender::{Form, Sender};
use crate::channel::changed;
use crate::inspection::{Inspection, changed as differences};
use crate::source::claims::{ClaimsPlace, LABEL};
use plan::{ClaimsWrite, Known, Memory};

/// The plan of claims.
pub(super) struct Claims {
    pub place: ClaimsPlace,
    pub inspected: watch::Receiver<Arc<Inspection>>,
    /// The state of the last update.
    pub last: Arc<Inspection>,
    pub memory: Memory,
    /// Whether some hosts cannot be claimed.
    pub is_full: bool,
}

impl Claims {
    /// Returns whether the changes since the last update can have an effect on the writes.
    fn concerns(&self, now: &Inspection) -> bool {
        let before = &self.last;
        let differ = |kind: Kind| differences(before.objects.of_kind(kind), now.objects.of_kind(kind)).next().is_some();
        let readable = |inspection: &Inspection| self.is_readable(inspection);
        !before.complete
            || readable(before) != readable(now)
            || differ(Kind::HOST_CLAIMS)
            || differ(Kind::NAMESPACE)
            || differences(&before.unsettled, &now.unsettled).next().is_some()
    }

    /// Returns whether the stored claims are known.
    fn is_readable(&self, inspection: &Inspection) -> bool {
        inspection.objects.is_readable(Kind::HOST_CLAIMS, &self.place.namespace.as_str().into())
    }

    /// Returns the desired writes, and the time of the next update without a change.
    fn items(
        &mut self,
        inspection: &Inspection,
        now: Instant,
    ) -> (BTreeMap<ObjectId, QueueItem<ClaimsWrite>>, Option<Instant>) {
        let objects = &inspection.objects;
        let shards = objects.all::<HostClaims>().map(|shard| (shard.shard, shard)).collect();
        let can_claim = |namespace: &Arc<str>| objects.can_claim(namespace);
        let since = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let known = Known { unsettled: &inspection.unsettled, shards, can_claim: &can_claim, since: &since };
        let (writes, next) = self.memory.writes(&known, now);
        let id = |write: &ClaimsWrite| {
            ObjectId::new(Kind::HOST_CLAIMS, &self.place.namespace, &self.place.name(write.shard))
        };
        (writes.into_iter().map(|write| (id(&write), item(write))).collect(), next)
    }

    /// Logs once that some hosts cannot be claimed.
    fn report_full(&mut self) {
        let was_full = std::mem::replace(&mut self.is_full, self.memory.beyond > 0);
        if self.is_full && !was_full {
            tracing::warn!(
                hosts = self.memory.beyond,
                "some hosts cannot be claimed, because the ConfigMaps with claims have no room for their namespace: \
                 the oldest Ingress owns these hosts"
            );
        }
    }
}

/// Returns the item of a write. Writes over different versions do not delay each other.
fn item(write: ClaimsWrite) -> QueueItem<ClaimsWrite> {
    let version = write.version.clone();
    let series = Some(xxh3_64(version.as_deref().unwrap_or_default().as_bytes()));
    QueueItem { series, ..QueueItem::new(write, Base::Version(version)) }
}

impl Plan for Claims {
    type Goal = ClaimsWrite;
    const NAME: &'static str = "the claims of hosts";
    const LIMITS: Limits = CLAIMS;

    fn kinds(&self) -> &[Kind] {
        &[]
    }

    async fn begin(&mut self, _sender: &Sender) -> Result<(), Failure> {
        (self.memory, self.is_full) = (Memory::default(), false);
        Ok(())
    }

    async fn changed(&mut self) {
        loop {
            changed(&mut self.inspected).await;
            // An update examines all unsettled hosts, and most changes concern none.
            let inspection = self.inspected.borrow_and_update().clone();
            if self.concerns(&inspection) {
                return;
            }
            self.last = inspection;
        }
    }

    fn update(&mut self, queue: &mut Queue<ClaimsWrite>, now: Instant) -> Option<Instant> {
        let inspection = self.inspected.borrow_and_update().clone();
        self.last = inspection.clone();
        if !inspection.complete || !self.is_readable(&inspection) {
            return None;
        }
        let (items, next) = self.items(&inspection, now);
        queue.replace(items, now);
        self.report_full();
        next
    }

    fn perform(&mut self, sender: Sender, write: &queue::DueWrite<ClaimsWrite>) -> Performing {
        let (id, form) = (write.id.clone(), form(&write.id.key.name, self.place.installation(), &write.item.goal));
        async move {
            sender.send(&id, form).await?;
            Ok(Performed::Written("wrote"))
        }
        .boxed()
    }

    fn finished(
        &mut self,
        _queue: &mut Queue<ClaimsWrite>,
        write: &queue::DueWrite<ClaimsWrite>,
        result: Result<Performed, &Failure>,
        _now: Instant,
    ) {
        if result.is_ok() {
            let data = &write.item.goal.data;
            let claimed = data.values().flatten().count();
            let (released, namespace, name) = (data.len() - claimed, &self.place.namespace, &write.id.key.name);
            tracing::debug!(%namespace, %name, claimed, released, "wrote the claims of hosts");
        }
    }
}

/// Returns the form of a write.
fn form(name: &str, installation: &str, write: &ClaimsWrite) -> Form {
    match &write.version {
        // The version makes one of two concurrent writes fail. Managed fields would double the size of the object.
        Some(version) => {
            let metadata = json!({ "resourceVersion": &**version, "managedFields": [{}] });
            Form::Merge(json!({ "metadata": metadata, "data": write.data }))
        }
        None => {
            let data: BTreeMap<&String, &String> =
                write.data.iter().filter_map(|(key, value)| Some((key, value.as_ref()?))).collect();
            let metadata: Value = json!({ "name": name, "labels": { LABEL: installation } });
            Form::Create(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data }))
        }
    }
}
