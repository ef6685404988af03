//! The loop that owns all changes. It receives the events of the source and publishes resources, by one pure
//! translation.
//!
//! The loop has a thread of its own, so that streams never wait for a translation. All events during a pass are
//! processed in one further pass. There is no queue of passes and no hold-off.

mod classless;
mod deletions;
mod fleets;
mod kept;
mod report;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use imbl::OrdMap;
use lockgate_route::envoy::Change;
use lockgate_route::model::Touched;
use lockgate_route::objects::{Kind, Object, ObjectId, ObjectKey, Objects, Service};
use lockgate_route::settings::Settings;
use lockgate_route::translate::problem::{Problems, shorten};
use lockgate_route::translate::{ChangedInputs, Input, Translator};
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::{Changes, Key, Resource, Update};
use tokio::sync::{mpsc, watch};

use crate::admin::Readiness;
use crate::fleet::FleetId;
use crate::inspection::{Inspection, Published};
use crate::metrics::Metrics;
use crate::source::Event;
use crate::source::resources::FILE;

use classless::Classless;
use deletions::Deletions;
pub use fleets::{Class, Fleets, Stores, View};
use kept::Replicas;
use report::{ProblemCounts, Publication, Quota};

/// The maximum number of events in one pass, so that a flood of events cannot delay a pass forever.
const MAX_EVENTS_PER_PASS: usize = 10_000;

/// The maximum interval between readings of the clock while a certificate is not valid yet. The clock can be set in the
/// meantime.
const CLOCK_INTERVAL: Duration = Duration::from_secs(30);

/// The maximum number of namespaces with a metric.
const NAMESPACES: usize = 20;

/// The state of the loop.
pub struct Controller {
    settings: Settings,
    fleets: Fleets,
    /// The log lines of each namespace.
    quota: Quota,
    readiness: Readiness,
    metrics: Metrics,
    inspection: watch::Sender<Arc<Inspection>>,
    objects: Objects,
    unlisted: BTreeSet<Kind>,
    /// Deletions that are still delayed.
    deletions: Deletions,
    translator: Translator,
    /// The changed inputs that are not translated yet because lists are missing.
    changed: ChangedInputs,
    settings_changed: bool,
    problems: Problems,
    /// The numbers of problems, by namespace.
    counts: ProblemCounts,
    sources: OrdMap<ObjectId, Published>,
    faults: BTreeSet<ObjectRef>,
    replicas: Replicas,
    /// The installed version of Gateway API, as it was logged.
    gateway_api: Option<String>,
    /// The Ingresses without a class, as they were logged.
    classless: Classless,
    /// The number of objects without statistics at the last publication, once for each host.
    omitted: usize,
}

/// The work of one pass.
#[derive(Default)]
struct Pass {
    /// The changed objects, for the log.
    changed: Vec<Changed>,
    /// Whether a status that a status writer reads may have changed. This requires no translation.
    status: bool,
    /// Whether a client requests a view that does not exist yet, or that may be updated again.
    requested: bool,
    /// The changes of a directory of resources, which require no translation.
    resources: Option<Resources>,
}

/// A changed object.
struct Changed {
    object: ObjectRef,
    /// The inputs of the translation to which it belongs. An EndpointSlice that moves to another Service has two.
    inputs: Vec<Input>,
    /// Whether a served object read it before, or reads it now.
    is_used: bool,
}

enum Resources {
    All(Update<Arc<Resource>>),
    Some(Update<Arc<Resource>>),
}

impl Default for Resources {
    fn default() -> Self {
        Self::Some(Update { set: Vec::new(), remove: Vec::new() })
    }
}

impl Resources {
    /// Adds a later difference.
    fn update(&mut self, applied: Vec<Arc<Resource>>, removed: Vec<Key>) {
        let (Self::All(update) | Self::Some(update)) = self;
        update.set.retain(|old| !removed.iter().any(|(kind, name)| (*kind, name) == (old.kind(), old.name())));
        update.remove.retain(|(kind, name)| !applied.iter().any(|new| (new.kind(), new.name()) == (*kind, name)));
        update.set.extend(applied);
        update.remove.extend(removed);
    }
}

impl Controller {
    /// Creates a loop that publishes to the stores of `fleets`. The admin server shows `inspection`.
    pub fn new(
        settings: Settings,
        fleets: Fleets,
        readiness: Readiness,
        metrics: Metrics,
        inspection: watch::Sender<Arc<Inspection>>,
    ) -> Self {
        Self {
            settings,
            fleets,
            quota: Quota::default(),
            readiness,
            metrics,
            inspection,
            objects: Objects::default(),
            unlisted: Kind::ALL.into_iter().collect(),
            deletions: Deletions::default(),
            translator: Translator::default(),
            changed: ChangedInputs::everything(),
            settings_changed: false,
            problems: Problems::new(),
            counts: ProblemCounts::default(),
            sources: OrdMap::new(),
            faults: BTreeSet::new(),
            replicas: Replicas::default(),
            gateway_api: None,
            classless: Classless::default(),
            omitted: 0,
        }
    }

    /// Sets whether the operator wrote the objects; see [`Objects::from_operator`].
    #[must_use]
    pub fn with_objects_from_operator(mut self, from_operator: bool) -> Self {
        self.objects.from_operator = from_operator;
        self
    }

    /// Replaces the dialects.
    #[cfg(test)]
    pub fn with_dialects(mut self, dialects: &'static [lockgate_route::translate::Dialect]) -> Self {
        self.translator = Translator::new(dialects);
        self
    }

    /// Runs until the source ends. It blocks, so it needs a thread of its own.
    ///
    /// # Errors
    ///
    /// The system provides no timer.
    pub fn run(mut self, mut events: mpsc::Receiver<Event>) -> std::io::Result<()> {
        let timer = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        loop {
            let mut pass = Pass::default();
            let due = self.fleets.due().into_iter().chain(self.quota.due());
            let due = due.chain(self.validity_due()).chain(self.deletions.due());
            let event = match due.min() {
                None => events.blocking_recv(),
                Some(due) => match timer.block_on(async { tokio::time::timeout_at(due.into(), events.recv()).await }) {
                    Ok(event) => event,
                    Err(_) => Some(Event::ViewRequested),
                },
            };
            let Some(event) = event else { return Ok(()) };
            report::suppressed(&mut self.quota);
            self.receive(event, Instant::now(), &mut pass);
            for _ in 1..MAX_EVENTS_PER_PASS {
                let Ok(event) = events.try_recv() else { break };
                self.receive(event, Instant::now(), &mut pass);
            }
            self.end_deletions(Instant::now(), &mut pass);
            self.use_valid_certificates(SystemTime::now(), &mut pass);
            self.pass(pass);
        }
    }

    /// Returns the next time at which the clock is read for certificates that are not valid yet.
    fn validity_due(&self) -> Option<Instant> {
        let at = u64::try_from(self.objects.next_validity()?).unwrap_or_default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Some(Instant::now() + Duration::from_secs(at).saturating_sub(now).min(CLOCK_INTERVAL))
    }

    /// Starts to use the certificates that have become valid at `now`. The translation itself has no clock.
    fn use_valid_certificates(&mut self, now: SystemTime, pass: &mut Pass) {
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        for key in self.objects.use_valid_secrets(i64::try_from(seconds).unwrap_or(i64::MAX)) {
            let reference = ObjectRef::new(Kind::SECRET.as_str(), &key.namespace, &key.name);
            self.record(Kind::SECRET, reference, [Input::new(Kind::SECRET, key)], pass);
        }
    }

    /// Receives one event at the time `now`. A single deletion is delayed; all other events are applied.
    fn receive(&mut self, event: Event, now: Instant, pass: &mut Pass) {
        if let Event::Deleted(kind, key) = &event
            && self.deletions.delay(*kind, deletion_group(&self.objects, *kind, key), key, now)
        {
            return self.demote(*kind, key, pass);
        }
        match &event {
            Event::Applied(object) => {
                let (kind, key) = (object.kind(), &object.meta().key);
                let group = object.group().unwrap_or_else(|| namespace_of(key));
                for key in self.deletions.applied(kind, group, key) {
                    self.apply(Event::Deleted(kind, key), pass);
                }
            }
            Event::Listed(kind, _) => self.deletions.listed(*kind),
            _ => {}
        }
        self.apply(event, pass);
    }

    /// Gives an object with a delayed deletion the lowest precedence, if its kind demands it.
    fn demote(&mut self, kind: Kind, key: &ObjectKey, pass: &mut Pass) {
        // The replacement would make an object with encoding errors look complete.
        if !kind.info().deletion_demotes || self.objects.misencoded(kind, key).is_some() {
            return;
        }
        let object = self.objects.of_kind(kind).get(key).filter(|object| !object.meta().terminating);
        if let Some(object) = object.map(|object| object.with_meta(|meta| meta.terminating = true)) {
            self.apply(Event::Applied(object), pass);
        }
    }

    /// Applies the deletions whose delay has ended by `now`.
    fn end_deletions(&mut self, now: Instant, pass: &mut Pass) {
        while let Some((kind, key)) = self.deletions.take_due(now) {
            self.apply(Event::Deleted(kind, key), pass);
        }
    }

    /// Applies one event.
    fn apply(&mut self, event: Event, pass: &mut Pass) {
        match event {
            Event::Together(events) => events.into_iter().for_each(|event| self.apply(event, pass)),
            Event::Listed(kind, objects) => self.apply_list(kind, objects, pass),
            Event::Applied(object) => self.apply_object(object, pass),
            Event::Deleted(kind, key) => self.apply_deletion(kind, &key, pass),
            Event::Readable { kind, namespace, readable } => {
                if self.objects.set_readable(kind, &namespace, readable) {
                    self.changed = ChangedInputs::everything();
                }
            }
            Event::Settings(settings) => {
                self.settings = *settings;
                self.changed = ChangedInputs::everything();
                self.settings_changed = true;
            }
            Event::Kept(kept) => self.adopt(&kept, pass),
            Event::ViewRequested => pass.requested = true,
            Event::Explain(question, answer) => {
                // Before the first translation, there is no model. The page reports that the replica is not ready.
                if self.inspection.borrow().complete {
                    let (target, request) = &*question;
                    let _ = answer.send(self.translator.explain(*target, request, &self.settings));
                }
            }
            Event::ResourcesListed(set) => {
                self.unlisted.clear();
                self.changed = ChangedInputs::default();
                Kind::ALL.iter().for_each(|kind| self.readiness.listed(kind.as_str()));
                let set = set.into_iter().map(Arc::new).collect();
                pass.resources = Some(Resources::All(Update { set, remove: Vec::new() }));
            }
            Event::ResourcesChanged { applied, removed } => {
                let applied = applied.into_iter().map(Arc::new).collect();
                pass.resources.get_or_insert_default().update(applied, removed);
            }
            Event::Fault { origin, message, retry, repeated } => {
                let file = if origin.kind == FILE { format!("{}: ", origin.name) } else { String::new() };
                let retry = retry.map(|wait| format!("; retrying in {:.1} s", wait.as_secs_f64())).unwrap_or_default();
                let text = format!("{file}{}{retry}", shorten(&message));
                match repeated {
                    false => tracing::error!(kind = origin.kind, name = %origin.name, "{text}"),
                    true => tracing::debug!(kind = origin.kind, name = %origin.name, "{text}"),
                }
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

    /// Replaces all objects of a kind.
    fn apply_list(&mut self, kind: Kind, objects: Vec<Object>, pass: &mut Pass) {
        let before = self.objects.clone();
        let changed = self.objects.replace(kind, objects);
        pass.status |= kind.info().has_status || kind == Kind::SERVICE;
        self.mark_evicted();
        // The first list is not logged object by object, and the full translation after it reads no inputs.
        let first = self.unlisted.contains(&kind);
        let is_unread = first && self.changed.is_everything();
        for object in changed.into_iter().filter(|_| !is_unread) {
            // A slice may have moved from one Service to another.
            let key = key_of(&object);
            let inputs = [&before, &self.objects].map(|objects| Input::of_object(objects, kind, &key));
            let inputs: Vec<Input> = inputs.into_iter().flatten().collect();
            inputs.iter().for_each(|input| self.changed.insert(input.clone()));
            if !first {
                pass.changed.push(Changed { object, inputs, is_used: false });
            }
        }
        for (kind, key) in self.objects.encoding_changes(&before) {
            self.changed.insert_encoding(kind.id(key));
        }
        if self.unlisted.remove(&kind) {
            self.readiness.listed(kind.as_str());
            self.metrics.set_listed(kind.as_str(), true);
        }
        self.metrics.set_objects(kind.as_str(), self.objects.count(kind));
        self.metrics.list_taken(kind.as_str());
    }

    /// Adds or replaces an object.
    fn apply_object(&mut self, object: Object, pass: &mut Pass) {
        let (kind, reference) = (object.kind(), object.object_ref());
        let key = object.meta().key.clone();
        let before = Input::of_object(&self.objects, kind, &key);
        let misencoded = self.objects.misencoded(kind, &key).cloned();
        pass.status |= kind.info().has_status || is_of_gateway(&object);
        if self.objects.apply(object) {
            let after = Input::of_object(&self.objects, kind, &key);
            self.record(kind, reference, before.into_iter().chain(after), pass);
        }
        if misencoded.as_ref() != self.objects.misencoded(kind, &key) {
            self.changed.insert_encoding(kind.id(key));
        }
    }

    /// Removes an object.
    fn apply_deletion(&mut self, kind: Kind, key: &ObjectKey, pass: &mut Pass) {
        let input = Input::of_object(&self.objects, kind, key);
        if self.objects.misencoded(kind, key).is_some() {
            self.changed.insert_encoding(kind.id(key.clone()));
        }
        if self.objects.delete(kind, key) {
            self.mark_evicted();
            let reference = ObjectRef::new(kind.as_str(), &key.namespace, &key.name);
            self.record(kind, reference, input, pass);
        }
    }

    /// Records the evicted Secrets as changed: their last good pairs are gone.
    fn mark_evicted(&mut self) {
        for key in self.objects.take_evicted_secrets() {
            self.changed.insert(Input::new(Kind::SECRET, key));
        }
    }

    /// Records a change of an object of `kind` for the next translation, the log, and the metrics.
    fn record(&mut self, kind: Kind, object: ObjectRef, inputs: impl IntoIterator<Item = Input>, pass: &mut Pass) {
        self.metrics.set_objects(kind.as_str(), self.objects.count(kind));
        let inputs: Vec<Input> = inputs.into_iter().collect();
        inputs.iter().for_each(|input| self.changed.insert(input.clone()));
        pass.changed.push(Changed { object, inputs, is_used: false });
    }

    /// Translates and publishes the changes of a pass.
    fn pass(&mut self, pass: Pass) {
        let mut changed = pass.changed;
        self.mark_used(&mut changed);
        if let Some(resources) = pass.resources {
            let start = Instant::now();
            let changes = match resources {
                Resources::All(update) => self.fleets.replace_foreign(update.set, start),
                Resources::Some(update) => self.fleets.update_foreign(update, start),
            };
            self.published(&changes);
            self.report(&changed, &changes, start);
            if !self.inspection.borrow().complete {
                self.inspection.send_modify(|inspection| Arc::make_mut(inspection).complete = true);
            }
            return;
        }
        // Before all initial lists are complete, a translation would delete objects that are not known yet.
        if !self.unlisted.is_empty() || self.waits_for_replicas() {
            self.report(&changed, &Changes::default(), Instant::now());
            return;
        }
        if self.changed.is_empty() {
            let (start, mut changes) = (Instant::now(), Arc::default());
            // A wakeup is lost if the queue of events is full. Every pass therefore builds the missing views.
            if pass.requested || self.fleets.is_incomplete() {
                changes = self.publish(&Touched::default(), start);
                self.published(&changes);
            }
            self.report(&changed, &changes, start);
            if pass.status {
                let objects = self.objects.clone();
                self.inspection.send_modify(|inspection| Arc::make_mut(inspection).objects = objects);
            }
            return;
        }
        let start = Instant::now();
        let inputs = std::mem::take(&mut self.changed);
        let update = self.translator.update(&self.objects, &self.settings, &inputs);
        self.metrics.translated(start.elapsed());
        self.mark_used(&mut changed);
        report::gateway_api(&self.objects, &mut self.gateway_api);
        let changes = self.publish(&update.touched, start);
        self.report(&changed, &changes, start);
        let translator = &self.translator;
        let new = self.classless.update(&self.objects, &inputs, |id| translator.serves(id));
        report::classless(&new, &mut self.quota);
        self.report_problems();
        self.record_sources(&update.sources);
        self.published(&changes);
        self.inspection.send_replace(Arc::new(Inspection {
            objects: self.objects.clone(),
            problems: self.problems.clone(),
            verdicts: self.translator.verdicts().clone(),
            gateways: self.translator.gateways().clone(),
            policies: self.translator.policies().clone(),
            dedicated: self.translator.dedicated().clone(),
            sources: self.sources.clone(),
            unsettled: self.translator.unsettled_hosts().clone(),
            kept: self.objects.kept().filter(|kept| self.uses_secret(&kept.key)).collect(),
            complete: true,
        }));
    }

    /// Records whether a served object reads the changed objects, according to the last translation.
    fn mark_used(&self, changed: &mut [Changed]) {
        for object in changed {
            object.is_used |= object.inputs.iter().any(|input| self.translator.is_dependency(input));
        }
    }

    /// Returns whether a served object reads a Secret.
    fn uses_secret(&self, key: &ObjectKey) -> bool {
        self.translator.is_dependency(&Input::new(Kind::SECRET, key.clone()))
    }

    /// Publishes the touched parts, and the views that are requested or due.
    fn publish(&mut self, touched: &Touched, start: Instant) -> Arc<Changes> {
        let settings_changed = std::mem::take(&mut self.settings_changed);
        let (model, settings) = (self.translator.model(), &self.settings);
        let dedicated = self.translator.dedicated();
        self.fleets.update(Change { model, touched, settings, settings_changed }, dedicated, start)
    }

    /// Logs the changed objects of a pass, and its publication. `changes` are those of the primary view of the shared fleet.
    fn report(&mut self, changed: &[Changed], changes: &Changes, start: Instant) {
        let tally = self.fleets.take_tally();
        let publication =
            Publication { tally, ms: report::milliseconds(start.elapsed()), is_primary: !changes.is_empty() };
        report::changed(changed, &publication, &mut self.quota);
    }

    /// Reports new and resolved problems in the log and the metrics.
    fn report_problems(&mut self) {
        let now = self.translator.problems().clone();
        report::problems(&self.problems, &now, &mut self.counts, &self.metrics, &mut self.quota);
        self.problems = now;
    }

    /// Records the publication of each of these sources that is served by class.
    fn record_sources(&mut self, sources: &BTreeSet<ObjectId>) {
        let since = self.fleets.generation();
        for id in sources {
            let ours = self.objects.meta(id.kind, &id.key).zip(self.translator.revision(id));
            let Some((meta, revision)) = ours else {
                self.sources.remove(id);
                continue;
            };
            let fleets = self.translator.fleets_of(id);
            let is_shared = fleets.iter().all(Option::is_none);
            let name = |gateway: Option<ObjectKey>| gateway.as_ref().map_or_else(FleetId::shared, FleetId::of_gateway);
            let fleets = if is_shared { Arc::default() } else { fleets.into_iter().map(name).collect() };
            let served = !self.translator.has_lost(id);
            let now = Published { uid: meta.uid.clone(), revision, since, served, fleets };
            let same = |known: &Published| Published { since, ..known.clone() } == now;
            if !self.sources.get(id).is_some_and(same) {
                self.sources.insert(id.clone(), now);
            }
        }
    }

    fn published(&mut self, changes: &Changes) {
        if changes.is_empty() {
            return;
        }
        self.metrics.published();
        let (counted, omitted) = self.fleets.statistics();
        self.metrics.set_statistics(counted, omitted);
        report::statistics(self.omitted, omitted, counted);
        let limit = self.settings.tenants.max_configuration_per_namespace;
        self.metrics.set_configurations(self.translator.largest_configurations(limit / 4, NAMESPACES), limit);
        self.omitted = omitted;
        if let Some(snapshot) = self.fleets.newest() {
            for kind in snapshot.kinds() {
                self.metrics.set_resources(kind.short_name(), snapshot.len(kind));
            }
        }
    }
}

/// Returns whether an object is the Service of a Gateway, which has the addresses of the Gateway in its status.
fn is_of_gateway(object: &Object) -> bool {
    object.get::<Service>().is_some_and(|service| service.gateway.is_some())
}

/// Returns the group of an object. A deletion and a creation in the same group may belong together.
fn deletion_group(objects: &Objects, kind: Kind, key: &ObjectKey) -> ObjectKey {
    objects.of_kind(kind).get(key).and_then(Object::group).unwrap_or_else(|| namespace_of(key))
}

/// Returns the key that represents all objects in the namespace of `key`.
fn namespace_of(key: &ObjectKey) -> ObjectKey {
    ObjectKey { namespace: key.namespace.clone(), name: Arc::from("") }
}

fn key_of(object: &ObjectRef) -> ObjectKey {
    ObjectKey { namespace: object.namespace.clone(), name: object.name.clone() }
}

#[cfg(test)]
mod tests;
