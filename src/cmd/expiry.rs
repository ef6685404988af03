//! Warns of certificates that end soon: translation has no clock, so this looks at what it worked on from outside.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use super::reload::State;
use crate::inspection::Inspection;
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::source::objects::ObjectKey;

/// How often the certificates are looked at while nothing changes.
const LOOK: Duration = Duration::from_secs(3600);

/// How long objects may change before the certificates are looked at again.
const PAUSE: Duration = Duration::from_secs(10);

/// A certificate that ends soon, or has ended: the Secret, and the end in seconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Ending {
    secret: ObjectKey,
    not_after: i64,
}

/// Warns in the log, once for each certificate, and counts in the metrics; for ever.
pub(super) async fn watch(
    mut inspected: watch::Receiver<Arc<Inspection>>,
    mut settings: watch::Receiver<Arc<State>>,
    metrics: Metrics,
) {
    let mut told = BTreeSet::new();
    loop {
        let window = settings.borrow_and_update().resolved.settings.clone();
        let seen = inspected.borrow_and_update().clone();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let ending = ending(&seen, &window, now);
        metrics.set_certificates_expiring(ending.len());
        for Ending { secret, not_after } in ending.difference(&told) {
            let (name, days) = (format!("{}/{}", secret.namespace, secret.name), (not_after - now) / 86_400);
            match not_after < &now {
                true => tracing::warn!(kind = "Secret", name, "the certificate has expired and is still served"),
                false => tracing::warn!(kind = "Secret", name, days, "the certificate expires soon"),
            }
        }
        told = ending;
        tokio::time::sleep(PAUSE).await;
        tokio::select! {
            Ok(()) = inspected.changed() => {}
            Ok(()) = settings.changed() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// The certificates that Ingresses of ours and the settings name, and that end within the window of the settings.
fn ending(seen: &Inspection, settings: &Settings, now: i64) -> BTreeSet<Ending> {
    let window = i64::try_from(settings.tls.expiry_warning.as_secs()).unwrap_or(i64::MAX);
    let ours = seen.ingresses.keys().filter_map(|key| seen.objects.ingresses.get(key));
    let named = ours.flat_map(|ingress| {
        let names = ingress.spec.tls.iter().flatten().filter_map(|tls| tls.secret_name.as_deref());
        names.map(|name| ObjectKey::new(&ingress.meta.key.namespace, name))
    });
    let set = settings.tls.default_secret.iter().chain(&settings.upstream.client_certificate);
    let set = set.map(|(namespace, name)| ObjectKey::new(namespace, name));
    let found = named.chain(set).filter_map(|key| {
        let not_after = seen.objects.secrets.get(&key)?.pair.as_ref()?.not_after;
        Some(Ending { secret: key, not_after })
    });
    found.filter(|found| found.not_after.saturating_sub(now) <= window).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::inspection::Published;
    use crate::model::KeyPair;
    use crate::source::objects::{Object, Secret};
    use crate::translate::tests::fixtures::{ingress, objects, secret};

    /// The Secret `shop/name` with a certificate that ends at `not_after`.
    fn ending_at(name: &str, not_after: i64) -> Object {
        let Object::Secret(secret) = Object::from(secret(name, &[])) else { panic!("not a Secret") };
        let mut secret = Secret::clone(&secret);
        let pair = KeyPair { not_after, ..KeyPair::clone(secret.pair.as_ref().unwrap()) };
        secret.pair = Some(Arc::new(pair));
        Object::Secret(Arc::new(secret))
    }

    #[test]
    fn certificates_that_are_named_and_end_within_the_window_are_told() {
        const END: i64 = 2_000_000_000;
        let named: Object = ingress("shop").tls(&["shop.test"], "good").into();
        let key = named.meta().key.clone();
        let mut seen = Inspection {
            objects: objects(&[named, ending_at("good", END), ending_at("wild", END)]),
            ..Inspection::default()
        };
        let mut settings = Settings::default();
        let window = i64::try_from(settings.tls.expiry_warning.as_secs()).unwrap();
        let names = |seen: &Inspection, settings: &Settings, now: i64| -> Vec<String> {
            ending(seen, settings, now).into_iter().map(|ending| ending.secret.name.to_string()).collect()
        };
        assert!(names(&seen, &settings, END).is_empty(), "no Ingress of ours names one");
        seen.ingresses.insert(key, Published { uid: "u".into(), generation: 1, since: 1 });
        assert_eq!(names(&seen, &settings, END - window), ["good"]);
        assert_eq!(names(&seen, &settings, END + 1), ["good"]);
        assert!(names(&seen, &settings, END - window - 1).is_empty());
        settings.tls.expiry_warning = Duration::from_secs(1);
        assert!(names(&seen, &settings, END - window).is_empty());
        settings.tls.default_secret = Some(("shop".to_owned(), "wild".to_owned()));
        assert_eq!(names(&seen, &settings, END + 1), ["good", "wild"]);
    }
}
