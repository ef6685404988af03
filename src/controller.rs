//! The loop that owns all change: events of the source in, resources out, through one pure translation.
//!
//! It runs on a thread of its own, for a translation may take a while and streams must not wait for it. What happens
//! during one pass becomes one further pass: no queue of passes, no hold-off.

mod report;
mod views;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use imbl::OrdMap;
use tokio::sync::{mpsc, watch};

use crate::admin::Readiness;
use crate::envoy;
use crate::inspection::{Inspection, Published};
use crate::metrics::Metrics;
use crate::model::{ClusterName, Discovery, Model};
use crate::provenance::ObjectRef;
use crate::settings::Settings;
use crate::snapshot::{Changes, Resource, Update};
use crate::source::Event;
use crate::source::objects::{Kind, Object, ObjectKey, Objects};
use crate::source::resources::FILE;
use crate::translate::problem::Problem;
use crate::translate::{self, Translation};

pub use views::Views;

/// At most this many events become one pass, so that a flood of them cannot put off a pass for ever.
const EVENTS_A_PASS: usize = 10_000;

/// The loop's state.
pub struct Controller {
    settings: Settings,
    views: Views,
    readiness: Readiness,
    metrics: Metrics,
    inspection: watch::Sender<Arc<Inspection>>,
    objects: Objects,
    unlisted: BTreeSet<Kind>,
    model: Model,
    problems: Vec<Problem>,
    ingresses: OrdMap<ObjectKey, Published>,
    faults: BTreeSet<ObjectRef>,
}

/// What the events since the last pass ask for.
#[derive(Default)]
struct Pass {
    /// The objects that changed, for the log.
    changed: Vec<ObjectRef>,
    /// Services with new endpoints.
    endpoints: BTreeSet<ObjectKey>,
    /// The status of Ingresses may have changed, which is nothing to translate.
    status: bool,
    /// Something other than endpoints changed.
    routes: bool,
    /// A directory of resources: nothing to translate.
    resources: Option<Resources>,
}

enum Resources {
    All(Update<Arc<Resource>>),
    Some(Update<Arc<Resource>>),
}

impl Controller {
    /// A loop that publishes to the stores of `views`. `inspection` is shown by the admin server.
    pub fn new(
        settings: Settings,
        views: Views,
        readiness: Readiness,
        metrics: Metrics,
        inspection: watch::Sender<Arc<Inspection>>,
    ) -> Self {
        Self {
            settings,
            views,
            readiness,
            metrics,
            inspection,
            objects: Objects::default(),
            unlisted: Kind::ALL.into_iter().collect(),
            model: Model::default(),
            problems: Vec::new(),
            ingresses: OrdMap::new(),
            faults: BTreeSet::new(),
        }
    }

    /// Works until the source is gone. Blocks: to be run on a thread of its own.
    pub fn run(mut self, mut events: mpsc::Receiver<Event>) {
        while let Some(event) = events.blocking_recv() {
            let mut pass = Pass::default();
            self.take(event, &mut pass);
            for _ in 1..EVENTS_A_PASS {
                let Ok(event) = events.try_recv() else { break };
                self.take(event, &mut pass);
            }
            self.pass(pass);
        }
    }

    /// Applies one event.
    fn take(&mut self, event: Event, pass: &mut Pass) {
        match event {
            Event::Together(events) => events.into_iter().for_each(|event| self.take(event, pass)),
            Event::Listed(kind, objects) => {
                let services = |objects: &Objects| objects.endpoint_slices.keys().cloned().collect::<Vec<_>>();
                let before = services(&self.objects);
                let changed = self.objects.replace(kind, objects);
                pass.status |= kind == Kind::Ingress;
                if kind == Kind::EndpointSlice {
                    pass.endpoints.extend(before);
                    pass.endpoints.extend(services(&self.objects));
                }
                pass.routes |= kind != Kind::EndpointSlice && !changed.is_empty();
                if self.unlisted.remove(&kind) {
                    self.readiness.listed(kind.as_str());
                    self.metrics.set_listed(kind.as_str(), true);
                    pass.routes = true;
                } else {
                    pass.changed.extend(changed);
                }
                self.metrics.set_objects(kind.as_str(), self.objects.count(kind));
            }
            Event::Applied(object) => {
                let (kind, reference) = (object.kind(), object.object_ref());
                let key = object.meta().key.clone();
                let mut services: Vec<ObjectKey> = self.objects.service_of(&key).into_iter().collect();
                if let Object::EndpointSlice(slice) = &object {
                    services.push(ObjectKey { namespace: key.namespace, name: slice.service.clone() });
                }
                pass.status |= kind == Kind::Ingress;
                if self.objects.apply(object) {
                    self.changed(kind, reference, services, pass);
                }
            }
            Event::Deleted(kind, key) => {
                let services = self.objects.service_of(&key).into_iter().collect();
                if self.objects.delete(kind, &key) {
                    let reference = ObjectRef::new(kind.as_str(), &key.namespace, &key.name);
                    self.changed(kind, reference, services, pass);
                }
            }
            Event::Settings(settings) => {
                self.settings = *settings;
                pass.routes = true;
            }
            Event::ResourcesListed(set) => {
                self.unlisted.clear();
                Kind::ALL.iter().for_each(|kind| self.readiness.listed(kind.as_str()));
                let set = set.into_iter().map(Arc::new).collect();
                pass.resources = Some(Resources::All(Update { set, remove: Vec::new() }));
            }
            Event::ResourcesChanged { applied, removed } => {
                let applied: Vec<Arc<Resource>> = applied.into_iter().map(Arc::new).collect();
                let Some(Resources::All(update) | Resources::Some(update)) = &mut pass.resources else {
                    pass.resources = Some(Resources::Some(Update { set: applied, remove: removed }));
                    return;
                };
                update.set.retain(|old| !removed.iter().any(|(kind, name)| (*kind, name) == (old.kind(), old.name())));
                update.remove.retain(|(kind, name)| !applied.iter().any(|r| (r.kind(), r.name()) == (*kind, name)));
                update.set.extend(applied);
                update.remove.extend(removed);
            }
            Event::Fault { origin, message } => {
                let file = if origin.kind == FILE { format!("{}: ", origin.name) } else { String::new() };
                tracing::error!(kind = origin.kind, name = %origin.name, "{file}{message}");
                self.metrics.source_fault();
                self.faults.insert(origin);
                self.metrics.set_source_faulty(self.faults.len());
            }
            Event::Healed(origin) => {
                if self.faults.remove(&origin) {
                    tracing::info!(kind = origin.kind, name = %origin.name, "healed");
                    self.metrics.set_source_faulty(self.faults.len());
                }
            }
        }
    }

    fn changed(&mut self, kind: Kind, reference: ObjectRef, services: Vec<ObjectKey>, pass: &mut Pass) {
        self.metrics.set_objects(kind.as_str(), self.objects.count(kind));
        pass.changed.push(reference);
        match kind {
            Kind::EndpointSlice => pass.endpoints.extend(services),
            // Nothing of these is read yet.
            Kind::ConfigMap => {}
            Kind::Ingress | Kind::IngressClass | Kind::Service | Kind::Secret | Kind::Namespace => pass.routes = true,
        }
    }

    /// Brings what is published up to date.
    fn pass(&mut self, pass: Pass) {
        report::changed(&pass.changed);
        if let Some(resources) = pass.resources {
            let start = Instant::now();
            let changes = match resources {
                Resources::All(update) => self.views.replace_foreign(update.set, start),
                Resources::Some(update) => self.views.update_foreign(update, start),
            };
            self.published(&changes);
            return;
        }
        // Before the first list of every kind is in, a translation would delete what is only not known yet.
        if !self.unlisted.is_empty() || (!pass.routes && pass.endpoints.is_empty()) {
            if self.unlisted.is_empty() && pass.status {
                let objects = self.objects.clone();
                self.inspection.send_modify(|inspection| Arc::make_mut(inspection).objects = objects);
            }
            return;
        }
        let start = Instant::now();
        let changes = match self.endpoints_only(&pass) {
            Some(update) => self.views.update_endpoints(update, start),
            None => {
                let Translation { model, problems, ingresses } = translate::translate(&self.objects, &self.settings);
                self.model = model;
                self.metrics.translated(start.elapsed());
                let resources = envoy::build(&self.model, &self.settings);
                let changes = self.views.replace(&self.model, resources, start);
                report::problems(&self.problems, &problems);
                self.problems = problems;
                self.note_ingresses(&ingresses);
                changes
            }
        };
        let mut reasons = std::collections::BTreeMap::<_, usize>::new();
        self.problems.iter().for_each(|problem| *reasons.entry(problem.reason.as_str()).or_default() += 1);
        self.metrics.set_problems(reasons);
        self.published(&changes);
        self.inspection.send_replace(Arc::new(Inspection {
            objects: self.objects.clone(),
            problems: self.problems.iter().cloned().map(Arc::new).collect(),
            ingresses: self.ingresses.clone(),
            complete: true,
        }));
    }

    /// Notes since when these Ingresses, which are all of ours, are a part of what is published.
    fn note_ingresses(&mut self, ours: &BTreeSet<ObjectKey>) {
        let since = self.views.envoy.newest().map_or(0, |newest| newest.generation());
        let gone: Vec<ObjectKey> = self.ingresses.keys().filter(|key| !ours.contains(key)).cloned().collect();
        gone.iter().for_each(|key| drop(self.ingresses.remove(key)));
        for key in ours {
            let Some(ingress) = self.objects.ingresses.get(key) else { continue };
            let (uid, generation) = (&ingress.meta.uid, ingress.meta.generation);
            if !self.ingresses.get(key).is_some_and(|known| known.uid == *uid && known.generation == generation) {
                self.ingresses.insert(key.clone(), Published { uid: uid.clone(), generation, since });
            }
        }
    }

    /// Endpoints are the hot path: if nothing else changed, no route is looked at. `None` if a full pass is needed.
    fn endpoints_only(&mut self, pass: &Pass) -> Option<Update<Arc<Resource>>> {
        let faulty = self.problems.iter().any(|problem| problem.object.kind == Kind::EndpointSlice.as_str());
        if pass.routes || faulty {
            return None;
        }
        let mut update = Update { set: Vec::new(), remove: Vec::new() };
        for service in &pass.endpoints {
            let first = ClusterName(format!("{}/{}/", service.namespace, service.name).into());
            let of_service = self.model.clusters.range(first.clone()..);
            let of_service = of_service.take_while(|(name, _)| name.0.starts_with(&*first.0));
            let eds = of_service.filter(|(_, cluster)| cluster.discovery == Discovery::Eds).map(|(name, _)| name);
            for name in eds.cloned().collect::<Vec<_>>() {
                let (endpoints, problems) = translate::endpoints_of(&self.objects, &name).unwrap_or_default();
                if !problems.is_empty() {
                    return None;
                }
                update.set.push(Arc::new(envoy::endpoint::load_assignment(&name, &endpoints)));
                self.model.endpoints.insert(name, endpoints);
            }
        }
        Some(update)
    }

    fn published(&self, changes: &Changes) {
        if changes.is_empty() {
            return;
        }
        self.metrics.published();
        if let Some(snapshot) = self.views.envoy.newest() {
            for kind in snapshot.kinds() {
                self.metrics.set_resources(kind.short_name(), snapshot.len(kind));
            }
        }
    }
}

#[cfg(test)]
mod tests;
