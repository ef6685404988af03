//! The secrets of the model, and the number of their users.

use std::collections::BTreeSet;

use super::state::{Translator, set};
use crate::model::{SecretId, SecretPart, SecretSource, StatsTls, Touched};
use crate::objects::{Kind, ObjectKey, Objects};
use crate::translate::{ChangedInputs, tls};

impl Translator {
    /// Updates the TLS configuration of statistics.
    pub(super) fn update_stats(&mut self, touched: &mut Touched) {
        if self.model.stats_tls == self.general.stats_tls {
            return;
        }
        let now = self.general.stats_tls.clone();
        let before = std::mem::replace(&mut self.model.stats_tls, now.clone());
        touched.stats_tls = true;
        let parts = |stats: Option<StatsTls>| stats.map_or((None, None), |stats| (Some(stats.secret), stats.clients));
        let (before, now) = (parts(before), parts(now));
        self.use_secret(before.0, now.0, touched);
        self.use_secret(before.1, now.1, touched);
    }

    /// Updates key pairs and authorities. `touched` already contains the secrets that are newly used or no longer used.
    pub(super) fn update_secrets(&mut self, objects: &Objects, changed: &ChangedInputs, touched: &mut Touched) {
        let parts = |key: &ObjectKey| SecretPart::ALL.map(|part| SecretId::new(key.clone(), part));
        let ids = changed.of_kind(Kind::SECRET).flat_map(parts).filter(|id| self.uses_of_secrets.contains_key(id));
        let mut stale: BTreeSet<SecretId> = ids.chain(touched.secrets.iter().cloned()).collect();
        stale.extend(self.revoking.iter().filter(|id| has_changed(id, changed)).cloned());
        for id in stale {
            let used = self.uses_of_secrets.contains_key(&id);
            let now = used.then(|| tls::secret(objects, &id)).flatten();
            if self.model.secrets.get(&id) != now.as_ref() {
                set(&mut self.model.secrets, &id, now);
                touched.secrets.insert(id);
            }
        }
    }

    /// Replaces the Secret `before` of one user by `now`.
    pub(super) fn use_secret(&mut self, before: Option<SecretId>, now: Option<SecretId>, touched: &mut Touched) {
        if before == now {
            return;
        }
        if let Some(id) = now {
            if matches!(id.source(), SecretSource::Revoking { .. }) {
                self.revoking.insert(id.clone());
            }
            *self.uses_of_secrets.entry(id.clone()).or_default() += 1;
            touched.secrets.insert(id);
        }
        if let Some(id) = before {
            let uses = self.uses_of_secrets.entry(id.clone()).or_default();
            *uses = uses.saturating_sub(1);
            if *uses == 0 {
                self.uses_of_secrets.remove(&id);
                self.revoking.remove(&id);
            }
            touched.secrets.insert(id);
        }
    }
}

/// Returns whether one of the Secrets of authorities with revocation lists has changed.
fn has_changed(id: &SecretId, changed: &ChangedInputs) -> bool {
    match id.source() {
        SecretSource::Revoking { authorities, revocations, .. } => {
            changed.of_kind(Kind::SECRET).any(|key| key == authorities || key == revocations)
        }
        SecretSource::Secret(..) | SecretSource::ConfigMaps(..) => false,
    }
}
