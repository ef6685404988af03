//! Warns of certificates that end soon: translation has no clock, so this looks at what it worked on from outside.
//!
//! It follows what has changed between two inspections, and keeps the certificates by their end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockgate_route::objects::{Ingress, Kind, ObjectKey, Secret};
use lockgate_route::settings::Settings;
use lockgate_route::translate::problem::{Problem, Problems};
use lockgate_xds::provenance::ObjectRef;
use tokio::sync::watch;

use super::reload::State;
use crate::check;
use crate::inspection::{Inspection, changed, changed_sources};
use crate::metrics::Metrics;

/// How often the certificates are looked at while nothing changes.
const LOOK: Duration = Duration::from_secs(3600);

/// How long objects may change before the certificates are looked at again.
const PAUSE: Duration = Duration::from_secs(10);

/// The end of a certificate in seconds since the Unix epoch, and its Secret.
type Ending = (i64, ObjectKey);

/// Warns in the log, once for each certificate, counts in the metrics, and keeps `told` what is wrong; for ever.
pub(super) async fn watch(
    mut inspected: watch::Receiver<Arc<Inspection>>,
    mut settings: watch::Receiver<Arc<State>>,
    told: watch::Sender<Problems>,
    metrics: Metrics,
) {
    let mut certificates = Certificates::default();
    let mut warned = BTreeSet::new();
    loop {
        let set = settings.borrow_and_update().resolved.settings.route.clone();
        certificates.follow(&inspected.borrow_and_update().clone(), &set);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let ending: BTreeSet<Ending> = certificates.ending(&set, now).cloned().collect();
        metrics.set_certificates_expiring(ending.len());
        for (not_after, secret) in ending.difference(&warned) {
            let (name, days) = (format!("{}/{}", secret.namespace, secret.name), (not_after - now) / 86_400);
            match not_after < &now {
                true => tracing::warn!(kind = "Secret", name, "the certificate has expired and is still served"),
                false => tracing::warn!(kind = "Secret", name, days, "the certificate expires soon"),
            }
        }
        let problems: Problems = ending.iter().map(|ending| Arc::new(certificates.problem(ending, now))).collect();
        told.send_if_modified(|told| std::mem::replace(told, problems.clone()) != problems);
        warned = ending;
        tokio::time::sleep(PAUSE).await;
        tokio::select! {
            Ok(()) = inspected.changed() => {}
            Ok(()) = settings.changed() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// The certificates that Ingresses of ours and the settings name, by their end.
#[derive(Debug, Default)]
struct Certificates {
    seen: Arc<Inspection>,
    /// Those that the settings name.
    set: Vec<ObjectKey>,
    /// How often each Secret is named.
    named: BTreeMap<ObjectKey, usize>,
    ends: BTreeSet<Ending>,
}

impl Certificates {
    /// Takes in what has changed.
    fn follow(&mut self, now: &Arc<Inspection>, settings: &Settings) {
        let seen = std::mem::replace(&mut self.seen, now.clone());
        let mut touched = BTreeSet::new();
        for key in touched_ingresses(&seen, now) {
            for secret in secrets_of(&seen, key) {
                self.unname(&secret);
                touched.insert(secret);
            }
            for secret in secrets_of(now, key) {
                *self.named.entry(secret.clone()).or_default() += 1;
                touched.insert(secret);
            }
        }
        let of_statistics = &settings.listeners.stats_tls;
        let of_statistics = of_statistics.secret.iter().filter(|_| of_statistics.at.port != 0);
        let tls = &settings.tls;
        let of_clients = tls.default_secret.iter().chain(&tls.fallback_secret);
        let set = of_clients.chain(&settings.upstream.client_certificate).chain(of_statistics);
        let set = set.map(|(namespace, name)| ObjectKey::new(namespace, name)).collect();
        let before = std::mem::replace(&mut self.set, set);
        before.iter().for_each(|secret| self.unname(secret));
        self.set.iter().for_each(|secret| *self.named.entry(secret.clone()).or_default() += 1);
        touched.extend(before);
        touched.extend(self.set.iter().cloned());
        let secrets = changed(seen.objects.of_kind(Kind::SECRET), now.objects.of_kind(Kind::SECRET));
        touched.extend(secrets.filter(|secret| self.named.contains_key(*secret)).cloned());
        for secret in touched {
            if let Some(end) = end(&seen, &secret) {
                self.ends.remove(&(end, secret.clone()));
            }
            if self.named.contains_key(&secret)
                && let Some(end) = end(now, &secret)
            {
                self.ends.insert((end, secret));
            }
        }
    }

    fn unname(&mut self, secret: &ObjectKey) {
        if let Some(times) = self.named.get_mut(secret) {
            *times -= 1;
            if *times == 0 {
                self.named.remove(secret);
            }
        }
    }

    /// Those that end within the window of the settings, or have ended.
    fn ending(&self, settings: &Settings, now: i64) -> impl Iterator<Item = &Ending> {
        let window = i64::try_from(settings.tls.expiry_warning.as_secs()).unwrap_or(i64::MAX);
        self.ends.iter().take_while(move |(not_after, _)| not_after.saturating_sub(now) <= window)
    }

    /// What the owner of the Secret is told. The same text until the end, or it would be told again each day.
    fn problem(&self, (not_after, secret): &Ending, now: i64) -> Problem {
        let meta = self.seen.objects.meta(Kind::SECRET, secret);
        let object = match meta {
            Some(meta) => meta.object_ref(Kind::SECRET),
            None => ObjectRef::new(Kind::SECRET.as_str(), &secret.namespace, &secret.name),
        };
        check::expiring(object, *not_after, now)
    }
}

/// The Ingresses that may name other Secrets than before.
fn touched_ingresses<'a>(seen: &'a Inspection, now: &'a Inspection) -> BTreeSet<&'a ObjectKey> {
    if seen.sources.is_empty() && now.sources.is_empty() {
        return BTreeSet::new();
    }
    if seen.sources.is_empty() {
        // At the start, when all are new: to look each of them up in both takes 1 µs, and most have no TLS.
        let ingresses = now.objects.all::<Ingress>().filter(|ingress| ingress.spec.tls.is_some());
        return ingresses.map(|ingress| &ingress.meta.key).collect();
    }
    let touched = changed(seen.objects.of_kind(Kind::INGRESS), now.objects.of_kind(Kind::INGRESS));
    touched.chain(changed_sources(Kind::INGRESS, seen, now)).collect()
}

/// The Secrets that an Ingress names, if it is ours.
fn secrets_of(seen: &Inspection, key: &ObjectKey) -> Vec<ObjectKey> {
    let ours = seen.objects.get::<Ingress>(key).filter(|_| seen.published(Kind::INGRESS, key).is_some());
    let tls = ours.into_iter().flat_map(|ingress| ingress.spec.tls.iter().flatten());
    let names = tls.filter_map(|tls| tls.secret_name.as_deref());
    names.map(|name| ObjectKey { namespace: key.namespace.clone(), name: name.into() }).collect()
}

/// The end of the certificate in a Secret.
fn end(seen: &Inspection, secret: &ObjectKey) -> Option<i64> {
    Some(seen.objects.get::<Secret>(secret)?.pair.as_ref()?.not_after)
}

#[cfg(test)]
mod tests;
