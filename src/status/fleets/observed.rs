//! The existing objects of fleets, which a watch delivers.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::{BoxStream, select_all};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Config, Event, watcher};
use lockgate_route::objects::{Kind, ObjectId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::template::{FLEETS, Template};
use crate::source::cluster::retry::ShortBackoff;
use crate::status::kinds::{DEPLOYMENT, HORIZONTAL_POD_AUTOSCALER, POD_DISRUPTION_BUDGET};

/// The objects with the label of this installation.
#[derive(Debug, Default)]
pub struct Observed {
    objects: BTreeMap<ObjectId, Value>,
    /// The kinds whose initial list is complete.
    listed: Vec<Kind>,
}

/// An event of a watch: the objects of one kind after an initial list, or one change.
pub enum Seen {
    /// All objects of a kind.
    All(Kind, BTreeMap<ObjectId, Value>),
    /// An object. `None`: it was deleted.
    One(ObjectId, Option<Value>),
}

impl Observed {
    /// Applies an event of a watch.
    pub fn apply(&mut self, seen: Seen) {
        match seen {
            Seen::All(kind, objects) => {
                self.objects.retain(|id, _| id.kind != kind);
                self.objects.extend(objects);
                if !self.listed.contains(&kind) {
                    self.listed.push(kind);
                }
            }
            Seen::One(id, Some(object)) => drop(self.objects.insert(id, object)),
            Seen::One(id, None) => drop(self.objects.remove(&id)),
        }
    }

    /// Returns an object.
    pub fn get(&self, id: &ObjectId) -> Option<&Value> {
        self.objects.get(id)
    }

    /// Removes a deleted object, before the watch reports its deletion.
    pub fn remove(&mut self, id: &ObjectId) {
        self.objects.remove(id);
    }

    /// Returns the identities of all objects.
    pub fn ids(&self) -> impl Iterator<Item = &ObjectId> {
        self.objects.keys()
    }

    /// Returns whether the initial list of a kind is complete.
    pub fn is_listed(&self, kind: Kind) -> bool {
        self.listed.contains(&kind)
    }
}

/// Watches the objects of all kinds.
pub fn watch(client: &kube::Client, template: &Template) -> BoxStream<'static, Seen> {
    let watches = [
        watch_kind::<Service>(client, template, Kind::SERVICE),
        watch_kind::<Deployment>(client, template, DEPLOYMENT),
        watch_kind::<PodDisruptionBudget>(client, template, POD_DISRUPTION_BUDGET),
        watch_kind::<HorizontalPodAutoscaler>(client, template, HORIZONTAL_POD_AUTOSCALER),
    ];
    select_all(watches).boxed()
}

/// Watches the objects of one kind that carry the label of this installation.
fn watch_kind<K>(client: &kube::Client, template: &Template, kind: Kind) -> BoxStream<'static, Seen>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    K: Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
{
    let namespace = template.namespace.clone();
    let api: Api<K> = Api::namespaced(client.clone(), &namespace);
    let selector = Config::default().labels(&format!("{FLEETS}={}", template.label()));
    let mut all = BTreeMap::new();
    let seen = watcher(api, selector).backoff(ShortBackoff::default()).filter_map(move |event| {
        let named = |object: &K| named(object, kind, &namespace);
        let seen = match event {
            Ok(Event::Init) => {
                all = BTreeMap::new();
                None
            }
            Ok(Event::InitApply(object)) => {
                all.extend(named(&object));
                None
            }
            Ok(Event::InitDone) => Some(Seen::All(kind, std::mem::take(&mut all))),
            Ok(Event::Apply(object)) => named(&object).map(|(id, is)| Seen::One(id, Some(is))),
            Ok(Event::Delete(object)) => named(&object).map(|(id, _)| Seen::One(id, None)),
            Err(error) => {
                tracing::warn!(kind = kind.as_str(), "cannot watch the objects of fleets: {}", reason(&error));
                None
            }
        };
        futures::future::ready(seen)
    });
    seen.boxed()
}

/// Returns the identity and the content of an object. An object that is being deleted exists until the watch reports its deletion.
fn named<K: Serialize>(object: &K, kind: Kind, namespace: &Arc<str>) -> Option<(ObjectId, Value)> {
    let mut value = serde_json::to_value(object).ok()?;
    value["kind"] = kind.as_str().into();
    value["apiVersion"] = kind.api_version().into();
    let id = ObjectId::new(kind, namespace, value["metadata"]["name"].as_str()?);
    Some((id, value))
}

fn reason(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => crate::source::cluster::reason(error),
        watcher::Error::WatchError(status) => status.message.clone(),
        watcher::Error::NoResourceVersion => "the API server gave no resource version".into(),
    }
}
