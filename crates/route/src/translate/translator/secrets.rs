//! Which secrets are used, and by how many.

use std::collections::BTreeSet;

use super::{Translator, set};
use crate::model::{SecretName, StatsTls, Touched};
use crate::objects::{Kind, Objects};
use crate::translate::{ChangedInputs, tls};

impl Translator {
    /// Takes in how statistics are to be served.
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

    /// Brings key pairs and authorities up to date. Those that came into use or went out of it are touched already.
    pub(super) fn update_secrets(&mut self, objects: &Objects, changed: &ChangedInputs, touched: &mut Touched) {
        let parts = [tls::secret_name, tls::authorities_name];
        let names = changed.of_kind(Kind::SECRET).flat_map(|key| parts.map(|name| name(&key.namespace, &key.name)));
        let stale: BTreeSet<SecretName> = names
            .filter(|name| self.uses_of_secrets.contains_key(name))
            .chain(touched.secrets.iter().cloned())
            .collect();
        for name in stale {
            let used = self.uses_of_secrets.contains_key(&name);
            let now = used.then(|| tls::secret(objects, &name)).flatten();
            if self.model.secrets.get(&name) != now.as_ref() {
                set(&mut self.model.secrets, &name, now);
                touched.secrets.insert(name);
            }
        }
    }

    /// One that used the Secret `before` now uses `now`.
    pub(super) fn use_secret(&mut self, before: Option<SecretName>, now: Option<SecretName>, touched: &mut Touched) {
        if before == now {
            return;
        }
        if let Some(name) = now {
            *self.uses_of_secrets.entry(name.clone()).or_default() += 1;
            touched.secrets.insert(name);
        }
        if let Some(name) = before {
            let uses = self.uses_of_secrets.entry(name.clone()).or_default();
            *uses = uses.saturating_sub(1);
            if *uses == 0 {
                self.uses_of_secrets.remove(&name);
            }
            touched.secrets.insert(name);
        }
    }
}
