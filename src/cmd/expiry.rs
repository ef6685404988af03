//! Reports certificates that expire soon. The translation has no clock, so this module follows its inputs separately.
//!
//! It processes the difference between two inspections, and stores the certificates sorted by expiry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockgate_route::objects::gateway::{Gateway, ListenerSet};
use lockgate_route::objects::{Kind, ObjectKey, Secret};
use lockgate_route::settings::Settings;
use lockgate_route::translate::problem::{Problem, Problems};
use lockgate_route::translate::{DIALECTS, dialect_of, permits_secret};
use lockgate_xds::provenance::ObjectRef;
use tokio::sync::watch;

use super::reload::State;
use crate::channel::send_if_changed;
use crate::check;
use crate::inspection::{Inspection, changed, changed_sources};
use crate::metrics::Metrics;

/// The interval between checks without a change.
const CHECK_INTERVAL: Duration = Duration::from_secs(3600);

/// The minimum time between two checks.
const MIN_INTERVAL: Duration = Duration::from_secs(10);

/// The maximum number of certificates with a metric.
const MAX_SERIES: usize = 1_000;

/// The maximum number of certificates of one namespace with a metric.
const MAX_SERIES_PER_NAMESPACE: usize = 100;

/// Returns the kinds of objects that reference certificates.
fn kinds() -> impl Iterator<Item = Kind> {
    DIALECTS.iter().map(|dialect| dialect.kind).chain([Kind::GATEWAY, Kind::LISTENER_SET])
}

/// The expiry of a certificate in seconds since the Unix epoch, and its Secret.
type Expiry = (i64, ObjectKey);

/// Logs each expiring certificate once, counts them in the metrics, and sends their problems. Runs forever.
pub(super) async fn watch(
    mut inspected: watch::Receiver<Arc<Inspection>>,
    mut settings: watch::Receiver<Arc<State>>,
    sender: watch::Sender<Problems>,
    metrics: Metrics,
) {
    let mut certificates = Certificates::default();
    let mut warned = BTreeSet::new();
    loop {
        let route_settings = settings.borrow_and_update().resolved.settings.route.clone();
        certificates.update(&inspected.borrow_and_update().clone(), &route_settings);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let expiring: BTreeSet<Expiry> = certificates.expiring(&route_settings, now).cloned().collect();
        metrics.set_certificates_expiring(expiring.len());
        metrics.set_certificate_expiries(certificates.first());
        for (not_after, secret) in expiring.difference(&warned) {
            let (name, days) = (format!("{}/{}", secret.namespace, secret.name), (not_after - now) / 86_400);
            match not_after < &now {
                true => tracing::warn!(kind = "Secret", name, "the certificate has expired and is still served"),
                false => tracing::warn!(kind = "Secret", name, days, "the certificate expires soon"),
            }
        }
        let problems: Problems =
            expiring.iter().map(|expiring| Arc::new(certificates.problem(expiring, now))).collect();
        send_if_changed(&sender, problems);
        warned = expiring;
        tokio::time::sleep(MIN_INTERVAL).await;
        tokio::select! {
            Ok(()) = inspected.changed() => {}
            Ok(()) = settings.changed() => {}
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
        }
    }
}

/// The certificates that served objects and the settings reference, by expiry.
#[derive(Debug, Default)]
struct Certificates {
    inspection: Arc<Inspection>,
    /// The Secrets that the settings reference.
    from_settings: Vec<ObjectKey>,
    /// The number of references to each Secret.
    references: BTreeMap<ObjectKey, usize>,
    by_expiry: BTreeSet<Expiry>,
}

impl Certificates {
    /// Applies the difference to the last inspection.
    fn update(&mut self, now: &Arc<Inspection>, settings: &Settings) {
        let inspection = std::mem::replace(&mut self.inspection, now.clone());
        let mut affected = BTreeSet::new();
        for (kind, key) in kinds().flat_map(|kind| changed_referrers(kind, &inspection, now)) {
            for secret in secrets_of(&inspection, kind, key) {
                self.remove_reference(&secret);
                affected.insert(secret);
            }
            for secret in secrets_of(now, kind, key) {
                *self.references.entry(secret.clone()).or_default() += 1;
                affected.insert(secret);
            }
        }
        let of_statistics = &settings.listeners.stats_tls;
        let of_statistics = of_statistics.secret.iter().filter(|_| of_statistics.at.port != 0);
        let tls = &settings.tls;
        let of_clients = tls.default_secret.iter().chain(&tls.fallback_secret);
        let from_settings = of_clients.chain(&settings.upstream.client_certificate).chain(of_statistics);
        let from_settings = from_settings.map(|(namespace, name)| ObjectKey::new(namespace, name)).collect();
        let before = std::mem::replace(&mut self.from_settings, from_settings);
        before.iter().for_each(|secret| self.remove_reference(secret));
        self.from_settings.iter().for_each(|secret| *self.references.entry(secret.clone()).or_default() += 1);
        affected.extend(before);
        affected.extend(self.from_settings.iter().cloned());
        let secrets = changed(inspection.objects.of_kind(Kind::SECRET), now.objects.of_kind(Kind::SECRET));
        affected.extend(secrets.filter(|secret| self.references.contains_key(*secret)).cloned());
        for secret in affected {
            if let Some(expiry) = expiry(&inspection, &secret) {
                self.by_expiry.remove(&(expiry, secret.clone()));
            }
            if self.references.contains_key(&secret)
                && let Some(expiry) = expiry(now, &secret)
            {
                self.by_expiry.insert((expiry, secret));
            }
        }
    }

    fn remove_reference(&mut self, secret: &ObjectKey) {
        if let Some(times) = self.references.get_mut(secret) {
            *times -= 1;
            if *times == 0 {
                self.references.remove(secret);
            }
        }
    }

    /// Returns the certificates that expire first, within the limits of the metrics.
    fn first(&self) -> impl Iterator<Item = (Arc<str>, Arc<str>, i64)> {
        let mut of_namespace = BTreeMap::<Arc<str>, usize>::new();
        let fits = move |(_, secret): &&Expiry| {
            let count = of_namespace.entry(secret.namespace.clone()).or_default();
            *count += 1;
            *count <= MAX_SERIES_PER_NAMESPACE
        };
        let first = self.by_expiry.iter().filter(fits).take(MAX_SERIES);
        first.map(|(not_after, secret)| (secret.namespace.clone(), secret.name.clone(), *not_after))
    }

    /// Returns the certificates that expire within the configured time, or have expired.
    fn expiring(&self, settings: &Settings, now: i64) -> impl Iterator<Item = &Expiry> {
        let window = i64::try_from(settings.tls.expiry_warning.as_secs()).unwrap_or(i64::MAX);
        self.by_expiry.iter().take_while(move |(not_after, _)| not_after.saturating_sub(now) <= window)
    }

    /// Returns the problem for the owner of the Secret. The text does not depend on the time. Otherwise, each day would lead to a
    /// new report.
    fn problem(&self, (not_after, secret): &Expiry, now: i64) -> Problem {
        let meta = self.inspection.objects.meta(Kind::SECRET, secret);
        let object = match meta {
            Some(meta) => meta.object_ref(Kind::SECRET),
            None => ObjectRef::new(Kind::SECRET.as_str(), &secret.namespace, &secret.name),
        };
        check::expiring(object, *not_after, now)
    }
}

/// Returns the objects of `kind` whose references may have changed.
fn changed_referrers<'a>(
    kind: Kind,
    inspection: &'a Inspection,
    now: &'a Inspection,
) -> impl Iterator<Item = (Kind, &'a ObjectKey)> {
    let affected: BTreeSet<&ObjectKey> = if inspection.sources.is_empty() && now.sources.is_empty() {
        BTreeSet::new()
    } else if let Some(dialect) = dialect_of(kind).filter(|_| inspection.sources.is_empty()) {
        // At the start, all objects are new. A lookup in both inspections takes 1 µs, and most objects have no TLS.
        let objects = now.objects.of_kind(kind).values().filter(|object| !(dialect.key_pairs)(object).is_empty());
        objects.map(|object| &object.meta().key).collect()
    } else if dialect_of(kind).is_none() && grants_changed(inspection, now) {
        inspection.objects.of_kind(kind).keys().chain(now.objects.of_kind(kind).keys()).collect()
    } else {
        let affected = changed(inspection.objects.of_kind(kind), now.objects.of_kind(kind));
        affected.chain(changed_sources(kind, inspection, now)).collect()
    };
    affected.into_iter().map(move |key| (kind, key))
}

/// Returns whether a ReferenceGrant has changed. Any reference to another namespace may depend on it.
fn grants_changed(inspection: &Inspection, now: &Inspection) -> bool {
    let [before, now] = [inspection, now].map(|inspection| inspection.objects.of_kind(Kind::REFERENCE_GRANT));
    changed(before, now).next().is_some()
}

/// Returns the Secrets that an object of `kind` references, if the object is served.
fn secrets_of(inspection: &Inspection, kind: Kind, key: &ObjectKey) -> Vec<ObjectKey> {
    let objects = &inspection.objects;
    if inspection.published(kind, key).is_none() {
        return Vec::new();
    }
    if let Some(dialect) = dialect_of(kind) {
        return objects.of_kind(kind).get(key).map(dialect.key_pairs).unwrap_or_default();
    }
    let listeners = if kind == Kind::GATEWAY {
        objects.get::<Gateway>(key).map(|gateway| &gateway.spec.listeners)
    } else {
        objects.get::<ListenerSet>(key).map(|set| &set.spec.listeners)
    };
    let tls = listeners.into_iter().flatten().filter_map(|listener| listener.tls.as_ref());
    let references = tls.flat_map(|tls| &tls.certificate_refs).filter(|reference| {
        reference.group.as_deref().is_none_or(str::is_empty)
            && reference.kind.as_deref().is_none_or(|kind| kind == "Secret")
    });
    let secrets = references.map(|reference| match &reference.namespace {
        Some(namespace) => ObjectKey::new(namespace, &reference.name),
        None => ObjectKey { namespace: key.namespace.clone(), name: (*reference.name).into() },
    });
    secrets.filter(|secret| permits_secret(objects, kind, &key.namespace, secret)).collect()
}

/// Returns the expiry of the certificate in a Secret.
fn expiry(inspection: &Inspection, secret: &ObjectKey) -> Option<i64> {
    Some(inspection.objects.get::<Secret>(secret)?.pair.as_ref()?.not_after)
}

#[cfg(test)]
mod tests;
