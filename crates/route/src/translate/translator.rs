//! The translation that remembers: a change costs what it touches, and not what there is.
//!
//! What was read of an Ingress is kept, and for each Service, Secret and host who depends on it. A changed object leads to
//! the Ingresses that read it, these to the hosts that they name, and these to the entries of the model. Starting with
//! [`Dirty::everything`] is the translation from scratch, so there is one way to translate and not two; a property test
//! compares the two ends.

mod clusters;
mod dirty;
mod encodings;
mod hosts;
mod ledger;
mod missed;
mod ownership;
mod secrets;
mod served;
mod sites;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{ClusterName, Host, Model, SecretName, StatsTls, Touched};
use crate::objects::{Ingress, Kind, ObjectKey, Objects, Precedence, Trigger};
use crate::parallel;
use crate::settings::Settings;

use super::backend::{Context, Located};
use super::class::{self, Classes};
use super::few::{Few, beyond};
use super::ingress::{self, Parsed, Reading};
use super::problem::{Problem, Problems};
use super::tls;

use clusters::{Clusters, NewClusters};
pub use dirty::Dirty;
use ledger::Ledger;
use missed::Outcomes;
use ownership::Nameless;
use served::Served;
use sites::Sites;

/// So many Ingresses are read, and hosts made, before they are put where they belong: all at once would be a second copy
/// of them. Tests have small worlds, and go through them in several turns too.
const AT_A_TIME: usize = if cfg!(test) { 5 } else { 2048 };

/// What a translation depends on as a whole: when it changes, everything is translated again.
#[derive(Debug, Clone, Default, PartialEq)]
struct Ground {
    default_secret: Option<SecretName>,
    fallback_secret: Option<SecretName>,
    client_certificate: Option<Option<SecretName>>,
}

impl Ground {
    /// What clients without a known server name are presented.
    fn presented_to_all(&self) -> Option<&SecretName> {
        self.default_secret.as_ref().or(self.fallback_secret.as_ref())
    }
}

/// What is said of no Ingress by itself: what comes of classes, and of the Secrets that the settings name.
#[derive(Debug, Default)]
struct General {
    ground: Ground,
    /// How statistics are to be served: no host depends on it.
    stats_tls: Option<StatsTls>,
    /// What is wrong with them.
    problems: Vec<Arc<Problem>>,
}

/// What one update changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// The entries of the model that are not as they were.
    pub touched: Touched,
    /// Ingresses that are ours and were read again, came to be served or ceased to be, and those that are ours no more.
    pub ingresses: BTreeSet<ObjectKey>,
}

/// The translation and all that it is made of.
#[derive(Debug, Default)]
pub struct Translator {
    model: Model,
    ledger: Ledger,
    general: General,
    classes: Classes,
    /// The Ingresses that are ours.
    ingresses: BTreeMap<ObjectKey, Arc<Parsed>>,
    readers_of_services: BTreeMap<ObjectKey, Few<ObjectKey>>,
    readers_of_secrets: BTreeMap<ObjectKey, Few<ObjectKey>>,
    /// The Ingresses with a default backend.
    with_default: BTreeSet<Precedence>,
    /// The owner and the default backend of the hosts that no rule names.
    nameless: Nameless,
    sites: Sites,
    served: Served,
    outcomes: Outcomes,
    clusters: Clusters,
    endpoint_problems: BTreeMap<ClusterName, Vec<Arc<Problem>>>,
    /// How many TLS hosts and clusters, and whether statistics, use a Secret.
    uses_of_secrets: BTreeMap<SecretName, usize>,
    /// The problem of each object of which something cannot be decoded.
    encoding_problems: BTreeMap<(Kind, ObjectKey), Arc<Problem>>,
}

impl Translator {
    /// What is to be served.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What is wrong.
    pub fn problems(&self) -> &Problems {
        self.ledger.found()
    }

    /// Whether an Ingress is ours, by class.
    pub fn serves(&self, ingress: &ObjectKey) -> bool {
        self.ingresses.contains_key(ingress)
    }

    /// Whether something that is ours reads an object, or would if it existed. `key`: for an EndpointSlice, that of its
    /// Service.
    pub fn reads(&self, kind: Kind, key: &ObjectKey) -> bool {
        let uses_secret = || {
            let secret = tls::secret_name(&key.namespace, &key.name);
            let Ground { default_secret, fallback_secret, client_certificate: _ } = &self.general.ground;
            let named = [default_secret, fallback_secret].into_iter().flatten().any(|named| *named == secret);
            named || self.uses_of_secrets.contains_key(&secret)
        };
        match kind.info().trigger {
            Trigger::Source => self.serves(key),
            Trigger::Class => true,
            Trigger::Service | Trigger::Endpoints => self.readers_of_services.contains_key(key),
            Trigger::Secret => self.readers_of_secrets.contains_key(key) || uses_secret(),
            Trigger::Namespace => self.clusters.readers_of_namespaces().next().is_some(),
        }
    }

    /// Whether an Ingress that is ours has lost all that it asks for: every path and its default backend belong to others,
    /// or are not valid. One that asks for neither has lost nothing.
    pub fn has_lost(&self, ingress: &ObjectKey) -> bool {
        self.ingresses.get(ingress).is_some_and(|parsed| parsed.asks) && !self.served.contains(ingress)
    }

    /// The Ingresses that are ours, by class.
    pub fn ingresses(&self) -> impl Iterator<Item = &ObjectKey> {
        self.ingresses.keys()
    }

    /// The model, and what is wrong.
    pub fn into_parts(self) -> (Model, Problems, BTreeSet<ObjectKey>) {
        (self.model, self.ledger.found().clone(), self.ingresses.into_keys().collect())
    }

    /// Brings all of it up to date with `objects` and `settings`, which differ from those of the last time by `dirty` alone.
    pub fn update(&mut self, objects: &Objects, settings: &Settings, dirty: &Dirty) -> Update {
        if !dirty.everything && !dirty.classes && dirty.secrets.is_empty() {
            return self.follow(objects, settings, dirty);
        }
        let general = General::new(objects, settings);
        if dirty.everything || general.ground != self.general.ground {
            return self.begin_anew(objects, settings, general);
        }
        self.ledger.replace(&self.general.problems, &general.problems);
        self.general = general;
        match dirty.classes {
            true => {
                let dirty = self.with_members_of_classes(objects, settings, dirty);
                self.follow(objects, settings, &dirty)
            }
            false => self.follow(objects, settings, dirty),
        }
    }

    /// Takes the classes over, and adds the Ingresses to `dirty` that are ours by another class than before, or no longer.
    ///
    /// The class of every Ingress is looked at, which costs less than an index of all Ingresses by class.
    fn with_members_of_classes(&mut self, objects: &Objects, settings: &Settings, dirty: &Dirty) -> Dirty {
        let before = std::mem::replace(&mut self.classes, Classes::new(objects, settings));
        let mut dirty = dirty.clone();
        if before != self.classes {
            let all = objects.all::<Ingress>();
            let moved = all.filter(|ingress| before.serve(ingress) != self.classes.serve(ingress));
            dirty.ingresses.extend(moved.map(|ingress| ingress.meta.key.clone()));
        }
        dirty
    }

    /// Translates everything.
    fn begin_anew(&mut self, objects: &Objects, settings: &Settings, general: General) -> Update {
        let before = std::mem::take(self);
        self.classes = Classes::new(objects, settings);
        self.ledger.add(&general.problems);
        self.general = general;
        let ingresses = objects.of_kind(Kind::INGRESS).keys().cloned().collect();
        let mut update = self.follow(objects, settings, &Dirty { ingresses, ..Dirty::everything() });
        update.touched.extend(Touched::all(&before.model));
        update.ingresses.extend(before.ingresses.into_keys());
        update
    }

    /// Follows changes that leave the ground as it is.
    fn follow(&mut self, objects: &Objects, settings: &Settings, dirty: &Dirty) -> Update {
        let mut services = dirty.services.clone();
        if !dirty.namespaces.is_empty() {
            services.extend(self.clusters.readers_of_namespaces());
        }
        services.iter().for_each(|service| self.clusters.forget_service(service, &mut self.ledger));
        let mut ingresses = dirty.ingresses.clone();
        ingresses.extend(dirty.namespaces.iter().flat_map(|namespace| self.outranked(namespace, objects)).cloned());
        let readers = services.iter().filter_map(|key| self.readers_of_services.get(key));
        let readers = readers.chain(dirty.secrets.iter().filter_map(|key| self.readers_of_secrets.get(key)));
        ingresses.extend(readers.flat_map(Few::iter).cloned());

        let mut update = Update::default();
        let mut hosts = BTreeSet::new();
        let mut defaults = false;
        let ingresses: Vec<ObjectKey> = ingresses.into_iter().collect();
        for some in ingresses.chunks(AT_A_TIME) {
            let read = parallel::map(some, |key| self.read(key, objects, settings));
            for (key, read) in some.iter().zip(read) {
                let before = self.ingresses.get(key).cloned();
                let (now, made) = read.map_or_else(Default::default, |(parsed, made)| (Some(Arc::new(parsed)), made));
                self.clusters.keep(made, &mut self.ledger);
                if before.is_some() || now.is_some() {
                    update.ingresses.insert(key.clone());
                }
                // Who reads what is noted anew in any case: a cluster that was forgotten has been made again.
                self.exchange(key, before.as_deref(), now.clone());
                if before != now {
                    let both = || before.iter().chain(&now);
                    hosts.extend(both().flat_map(|parsed| parsed.hosts().cloned()));
                    defaults |= both().any(|parsed| parsed.default_backend.is_some());
                }
            }
        }
        self.clusters.forget_unread(&mut self.ledger);
        if (defaults || hosts.contains(&Host::Any)) && self.find_nameless(settings) {
            hosts.insert(Host::Any);
        }
        self.sites.close(&mut hosts);
        // Hosts below a wildcard are made of what that is served with.
        let (wildcards, others): (Vec<_>, Vec<_>) =
            hosts.into_iter().partition(|host| matches!(host, Host::Wildcard(_)));
        for host in &wildcards {
            self.remake(host, objects, settings, &mut update.touched);
        }
        // Each of them by itself: what one is made of is not changed by what becomes of another.
        for some in others.chunks(AT_A_TIME) {
            let made = parallel::map(some, |host| self.make(host, objects, settings));
            for (host, made) in some.iter().zip(made) {
                self.exchange_host(host, made, &mut update.touched);
            }
        }
        // The default certificate, or the fallback, is presented for every host, whoever names it.
        if self.general.ground.presented_to_all().is_some() && (dirty.everything || !dirty.secrets.is_empty()) {
            self.remake(&Host::Any, objects, settings, &mut update.touched);
        }
        let (served, ours) = (self.served.take_changed(), &self.ingresses);
        // A full translation has added all Ingresses already.
        if !dirty.everything {
            update.ingresses.extend(served.into_iter().filter(|key| ours.contains_key(key)));
        }
        self.outcomes.tell(&mut self.ledger);
        self.update_clusters(objects, dirty, &services, &mut update.touched);
        self.update_stats(&mut update.touched);
        self.update_secrets(objects, dirty, &mut update.touched);
        self.update_encodings(objects, dirty);
        update
    }

    /// Returns the Ingresses of a namespace whose rank in conflicts has changed: the namespace is being deleted, or another
    /// of its name has been created.
    fn outranked(&self, namespace: &ObjectKey, objects: &Objects) -> impl Iterator<Item = &ObjectKey> {
        let name = namespace.name.clone();
        let first = ObjectKey { namespace: name.clone(), name: "".into() };
        let inside = self.ingresses.range(first..).take_while(move |(key, _)| key.namespace == name);
        inside.filter_map(|(key, parsed)| {
            let meta = objects.meta(Kind::INGRESS, key)?;
            (objects.precedence(meta) != parsed.precedence).then_some(key)
        })
    }

    /// Reads an Ingress, if there is one and it is ours. With it come the clusters that it looks at and that are not
    /// known yet.
    fn read(&self, key: &ObjectKey, objects: &Objects, settings: &Settings) -> Option<(Parsed, NewClusters)> {
        let ingress = objects.get::<Ingress>(key).filter(|ingress| self.classes.serve(ingress))?;
        let context =
            Context { objects, settings, client_certificate: self.general.ground.client_certificate.as_ref() };
        let mut made = NewClusters::new();
        let judge = |located: &Located<'_>| self.clusters.judge(located, context, &mut made);
        let default_secret = self.general.ground.default_secret.as_ref();
        let parsed = ingress::parse(ingress, Reading { context, default_secret, judge });
        Some((parsed, made))
    }

    /// Puts `now` in the place of `before` wherever an Ingress is noted.
    fn exchange(&mut self, key: &ObjectKey, before: Option<&Parsed>, now: Option<Arc<Parsed>>) {
        let none = ingress::Reads::default();
        let (old, new) =
            (before.map_or(&none, |parsed| &parsed.reads), now.as_deref().map_or(&none, |parsed| &parsed.reads));
        change_readers(&mut self.readers_of_services, key, &old.services, &new.services);
        change_readers(&mut self.readers_of_secrets, key, &old.secrets, &new.secrets);
        self.clusters.read(&old.clusters, &new.clusters);
        let problems = |parsed: Option<&Parsed>| parsed.map_or(Box::default(), |parsed| parsed.problems.clone());
        self.ledger.replace(&problems(before), &problems(now.as_deref()));
        if let Some(parsed) = before {
            self.with_default.remove(&parsed.precedence);
            self.sites.leave(parsed);
        }
        let Some(parsed) = now else { return drop(self.ingresses.remove(key)) };
        if parsed.default_backend.is_some() {
            self.with_default.insert(parsed.precedence.clone());
        }
        self.sites.enter(&parsed);
        self.ingresses.insert(key.clone(), parsed);
    }
}

impl General {
    fn new(objects: &Objects, settings: &Settings) -> Self {
        let mut problems = class::problems(objects, settings);
        let client_certificate = tls::client_certificate(objects, settings, &mut problems);
        let default_secret = tls::default_secret(objects, settings, &mut problems);
        let fallback_secret = tls::fallback_secret(objects, settings, &mut problems);
        let stats_tls = tls::stats(objects, settings, &mut problems);
        let problems = problems.into_iter().map(Arc::new).collect();
        Self { ground: Ground { default_secret, fallback_secret, client_certificate }, stats_tls, problems }
    }
}

/// Notes that `reader`, which read `before`, now reads `now`.
fn change_readers(
    readers: &mut BTreeMap<ObjectKey, Few<ObjectKey>>,
    reader: &ObjectKey,
    before: &[ObjectKey],
    now: &[ObjectKey],
) {
    for key in beyond(now, before) {
        readers.entry(key.clone()).or_default().insert(reader.clone());
    }
    for key in beyond(before, now) {
        if let Some(of_key) = readers.get_mut(key) {
            of_key.remove(reader);
            if of_key.is_empty() {
                readers.remove(key);
            }
        }
    }
}

/// Sets the entry at `key`, or takes it out.
fn set<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, key: &K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key.clone(), value)),
        None => drop(map.remove(key)),
    }
}
