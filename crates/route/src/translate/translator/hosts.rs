//! The hosts of the shared listeners: which ones are built again, in which order, and their places in the model.
//!
//! [`draft`] decides on a host, and [`made`] builds its parts. All drafts of a batch come first, because the limit of configuration
//! needs the charges of all of them.

pub mod draft;
mod made;
mod surplus;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::copies::ByPart;
use super::hosts::made::BuiltHost;
use super::levels::Levels;
use super::state::{AT_A_TIME, Translator, set};
use crate::model::{Host, Route, SecretId, TlsConnections, TlsHost, Touched, VirtualHostRoutes};
use crate::objects::Objects;
use crate::parallel;
use crate::settings::Settings;
use crate::translate::conflicts::ConflictPlace;
use crate::translate::problem::Problem;
use crate::translate::source::Source;
use crate::translate::virtual_host::HostRules;

impl Translator {
    /// Builds hosts again. Other hosts copy the rules of [`Host::Any`], and hosts below a wildcard depend on its filter chain and
    /// copy its rules, so these are built first.
    pub(super) fn rebuild_hosts(
        &mut self,
        hosts: BTreeSet<Host>,
        objects: &Objects,
        settings: &Settings,
        touched: &mut Touched,
    ) {
        let (any, named): (Vec<_>, Vec<_>) = hosts.into_iter().partition(|host| *host == Host::Any);
        let (wildcards, exact): (Vec<_>, Vec<_>) =
            named.into_iter().partition(|host| matches!(host, Host::Wildcard(_)));
        for mut due in [any, wildcards, exact] {
            while !due.is_empty() {
                let mut moved = BTreeSet::new();
                // The hosts of one batch do not depend on each other, except for hosts that a changed limit adds to those of a
                // wildcard. If the wildcard changes, these are built again with the exact hosts.
                for batch in due.chunks(AT_A_TIME) {
                    moved.extend(self.rebuild_batch(batch, objects, settings, touched));
                }
                due = moved.into_iter().collect();
            }
        }
    }

    /// Builds the hosts of a batch again. Returns the other hosts whose copies come within or beyond the limit of their namespace.
    fn rebuild_batch(
        &mut self,
        batch: &[Host],
        objects: &Objects,
        settings: &Settings,
        touched: &mut Touched,
    ) -> BTreeSet<Host> {
        // The drafts borrow from the rest of the translator.
        let mut copies = std::mem::take(&mut self.copies);
        let levels = Levels::new(self, batch, settings);
        let drafts = parallel::map(batch, |host| self.draft(host, &levels, settings));
        drafts.iter().for_each(|draft| copies.replace(&draft.host, draft.charges.clone()));
        let mut moved = copies.apply(settings.tenants.max_configuration_per_namespace);
        let made = parallel::map(&drafts, |draft| self.build(draft, &levels, &copies, objects, settings));
        drop(drafts);
        self.copies = copies;
        for (host, made) in batch.iter().zip(made) {
            self.replace_host_parts(host, made, touched);
            moved.remove(host);
        }
        moved
    }

    /// Returns the sources that name a host, in the order of precedence.
    pub(super) fn naming(&self, host: &Host) -> Vec<&Source> {
        self.sources.all_at(self.sites.get(host).map(|site| &site.sources)).collect()
    }

    /// Merges the rules of `sources` for a host of the shared listeners.
    pub(super) fn merge<'a>(
        &self,
        host: &Host,
        sources: &[&'a Source],
        settings: &Settings,
        problems: &mut Vec<Problem>,
    ) -> HostRules<'a> {
        HostRules::merge(host, sources, self.dialects, &settings.regexes, problems)
    }

    /// Replaces all parts of a host with `made`.
    fn replace_host_parts(&mut self, host: &Host, made: BuiltHost, touched: &mut Touched) {
        let BuiltHost { http, https, stream, chain, problems, missed, claim, owner, sizes, .. } = made;
        let BuiltHost { is_in_rules, is_refused, is_passed_through, clients, .. } = made;
        self.claims.settle(host, owner);
        if let Some(site) = self.sites.forget_unnamed(host) {
            self.replace_conflicts(ConflictPlace::Shared, &site.problems, &[]);
            self.outcomes.replace(host, &site.missed, &[]);
            self.copies.replace(host, ByPart::new());
        } else if let Some(site) = self.sites.get_mut(host) {
            self.outcomes.replace(host, &site.missed, &missed);
            (site.missed, site.chain, site.claim, site.sizes) = (missed, chain, claim, sizes);
            (site.is_passed_through, site.clients) = (is_passed_through, clients);
            let before = std::mem::replace(&mut site.problems, problems.clone());
            self.replace_conflicts(ConflictPlace::Shared, &before, &problems);
            self.sites.set_in_rules(host, is_in_rules);
        }
        let [plain, tls] = [self.shared.plain.clone(), self.shared.tls.clone()];
        self.replace_host(plain.as_str(), host, http, touched);
        self.refuse(tls.as_str(), host, is_refused, touched);
        self.replace_tls(tls.as_str(), host, https, touched);
        self.replace_stream(tls.as_str(), host, stream, touched);
    }

    /// Replaces the forwarded connections for a server name of a listener for HTTP over TLS.
    pub(super) fn replace_stream(
        &mut self,
        listener: &str,
        host: &Host,
        now: Option<TlsConnections>,
        touched: &mut Touched,
    ) {
        let Some(tls) = self.model.tls_mut(listener) else { return };
        let before = tls.connections.get(host).cloned();
        if before == now {
            return;
        }
        set(&mut tls.connections, host, now.clone());
        touched.insert_host(listener, host.clone());
        self.replace_connected(before, now, touched);
    }

    /// Replaces a host of a listener for plain HTTP.
    pub(super) fn replace_host(
        &mut self,
        listener: &str,
        host: &Host,
        now: Option<VirtualHostRoutes>,
        touched: &mut Touched,
    ) {
        let before = self.model.plain(listener).and_then(|plain| plain.hosts.get(host));
        if before == now.as_ref() {
            return;
        }
        let (old, new) = VirtualHostRoutes::differing(before, now.as_ref());
        self.clusters.replace_routes(old, new);
        self.served.replace(old, new);
        let (old, new) = (secrets_of(old), secrets_of(new));
        if let Some(plain) = self.model.plain_mut(listener) {
            set(&mut plain.hosts, host, now);
        }
        touched.insert_host(listener, host.clone());
        self.replace_secrets(old, new, touched);
    }

    /// Closes the connections for a server name of a listener for HTTP over TLS, or no longer closes them.
    fn refuse(&mut self, listener: &str, host: &Host, is_refused: bool, touched: &mut Touched) {
        let Some(tls) = self.model.tls_mut(listener) else { return };
        let has_changed = match is_refused {
            true => tls.refused.insert(host.clone()),
            false => tls.refused.remove(host),
        };
        if has_changed {
            touched.insert_host(listener, host.clone());
        }
    }

    /// Replaces a server name of a listener for HTTP over TLS.
    pub(super) fn replace_tls(&mut self, listener: &str, host: &Host, now: Option<TlsHost>, touched: &mut Touched) {
        let Some(tls) = self.model.tls_mut(listener) else { return };
        let before = tls.hosts.get(host);
        if before == now.as_ref() {
            return;
        }
        let served = [before, now.as_ref()].map(|tls| tls.map(|tls| &tls.virtual_hosts));
        let names: BTreeSet<&Host> = served.iter().flatten().flat_map(|served| served.keys()).collect();
        let (mut old_secrets, mut new_secrets) = (Vec::new(), Vec::new());
        for name in names {
            let routes = served.map(|served| served.and_then(|served| served.get(name)));
            let (old, new) = VirtualHostRoutes::differing(routes[0], routes[1]);
            self.clusters.replace_routes(old, new);
            self.served.replace(old, new);
            old_secrets.extend(secrets_of(old));
            new_secrets.extend(secrets_of(new));
        }
        let secrets =
            |tls: Option<&TlsHost>| tls.into_iter().flat_map(TlsHost::all_secrets).cloned().collect::<Vec<_>>();
        old_secrets.extend(secrets(before));
        new_secrets.extend(secrets(now.as_ref()));
        set(&mut tls.hosts, host, now);
        touched.insert_host(listener, host.clone());
        self.replace_secrets(old_secrets, new_secrets, touched);
    }

    /// Replaces the secrets `old` of a host by `new`.
    fn replace_secrets(&mut self, old: Vec<SecretId>, new: Vec<SecretId>, touched: &mut Touched) {
        if old != new {
            new.into_iter().for_each(|id| self.use_secret(None, Some(id), touched));
            old.into_iter().for_each(|id| self.use_secret(Some(id), None, touched));
        }
    }
}

/// Returns the secrets of `routes`, with repetitions.
fn secrets_of(routes: &[Arc<Route>]) -> Vec<SecretId> {
    routes.iter().flat_map(|route| route.secrets()).cloned().collect()
}
