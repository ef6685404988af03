//! Builds the parts of a host: its virtual hosts for plain text and TLS, and its TLS properties.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::copies::{ByPart, Copier, Part, Surplus};
use super::levels::Levels;
use super::ownership::Claim;
use super::{Translator, copies, set};
use crate::envoy::route::Sizes;
use crate::model::{Host, ListenerId, Others, SecretId, ServedHosts, TlsHost, TlsVersion, Touched, VirtualHost};
use crate::objects::{Kind, Objects};
use crate::settings::Settings;
use crate::translate::charges::State;
use crate::translate::conflicts::Place;
use crate::translate::host::parent;
use crate::translate::plain_text::Side;
use crate::translate::problem::Problem;
use crate::translate::source::Source;
use crate::translate::tls::{self, Asking, Chain, Routing};
use crate::translate::unit::Target;
use crate::translate::virtual_host::{Around, HostRules, closed};

/// The parts of a host.
#[derive(Default)]
pub struct Made {
    http: Option<VirtualHost>,
    https: Option<TlsHost>,
    chain: Option<Chain>,
    problems: Vec<Arc<Problem>>,
    missed: Vec<tls::Missed>,
    in_rules: bool,
    /// Whether TLS connections for the host are refused.
    refused: bool,
    claim: Option<Claim>,
    /// The namespace that owns the host and has a rule for it.
    owner: Option<Arc<str>>,
    /// The sizes of a copy of its rules of each namespace.
    sizes: BTreeMap<Arc<str>, u64>,
    /// The changed charges for copies, whether they are within the limit or not. Nothing else is built before they are known.
    charges: Option<ByPart>,
}

impl Translator {
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

    /// Rebuilds a host: its virtual hosts for plain text and TLS, and its TLS properties.
    pub(super) fn remake(&mut self, host: &Host, objects: &Objects, settings: &Settings, touched: &mut Touched) {
        let levels = Levels::new(self, std::slice::from_ref(host), settings);
        let made = self.make(host, &levels, objects, settings);
        self.replace_host_parts(host, made, touched);
    }

    /// Replaces all parts of a host with `made`.
    pub(super) fn replace_host_parts(&mut self, host: &Host, made: Made, touched: &mut Touched) {
        if let Some(charges) = made.charges {
            self.copies.replace(host, charges);
            self.charged.insert(host.clone());
            return;
        }
        let Made { http, https, chain, problems, missed, in_rules, refused, claim, owner, sizes, charges: _ } = made;
        self.claims.settle(host, owner);
        if let Some(site) = self.sites.forget_unnamed(host) {
            self.replace_conflicts(Place::Shared, &site.problems, &[]);
            self.outcomes.replace(host, &site.missed, &[]);
            self.copies.replace(host, ByPart::new());
        } else if let Some(site) = self.sites.get_mut(host) {
            self.outcomes.replace(host, &site.missed, &missed);
            (site.missed, site.chain, site.claim, site.sizes) = (missed, chain, claim, sizes);
            let before = std::mem::replace(&mut site.problems, problems.clone());
            self.replace_conflicts(Place::Shared, &before, &problems);
            self.sites.set_in_rules(host, in_rules);
        }
        self.replace_plain_host(host, http, touched);
        self.replace_tls_host(host, https, refused, touched);
    }

    /// Replaces the plain-text virtual host of `host`.
    fn replace_plain_host(&mut self, host: &Host, now: Option<VirtualHost>, touched: &mut Touched) {
        let before = self.model.plain(ListenerId::HTTP).and_then(|plain| plain.hosts.get(host));
        if before == now.as_ref() {
            return;
        }
        let (old, new) = VirtualHost::differing(before, now.as_ref());
        self.clusters.replace_routes(old, new);
        self.served.replace(old, new);
        if let Some(plain) = self.model.plain_mut(ListenerId::HTTP) {
            set(&mut plain.hosts, host, now);
        }
        touched.insert_host(ListenerId::HTTP, host.clone());
    }

    /// Replaces the TLS part of `host`. `refused` states whether its connections are closed.
    fn replace_tls_host(&mut self, host: &Host, now: Option<TlsHost>, refused: bool, touched: &mut Touched) {
        let Some(tls) = self.model.tls_mut(ListenerId::HTTPS) else { return };
        let changed = match refused {
            true => tls.refused.insert(host.clone()),
            false => tls.refused.remove(host),
        };
        if changed {
            touched.insert_host(ListenerId::HTTPS, host.clone());
        }
        self.replace_tls(ListenerId::HTTPS, host, now, touched);
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
        for name in names {
            let routes = served.map(|served| served.and_then(|served| served.get(name)));
            let (old, new) = VirtualHost::differing(routes[0], routes[1]);
            self.clusters.replace_routes(old, new);
            self.served.replace(old, new);
        }
        let secrets = |tls: Option<&TlsHost>| tls.map(|tls| tls.secrets.clone()).unwrap_or_default();
        let (old, new) = (secrets(before), secrets(now.as_ref()));
        set(&mut tls.hosts, host, now);
        touched.insert_host(listener, host.clone());
        if old != new {
            new.into_iter().for_each(|id| self.use_secret(None, Some(id), touched));
            old.into_iter().for_each(|id| self.use_secret(Some(id), None, touched));
        }
    }

    /// Builds the parts of a host. `levels` are those of its batch.
    pub(super) fn make<'a>(&'a self, host: &Host, levels: &Levels<'a>, objects: &Objects, settings: &Settings) -> Made {
        let naming = self.naming(host);
        if naming.is_empty() && *host != Host::Any {
            return Made::default();
        }
        let mut problems = Vec::new();
        let above = parent(host);
        let site_above = above.as_ref().and_then(|parent| self.sites.get(parent));
        let standing = self.standing_among(&naming, host, site_above, settings);
        standing.report(host, &mut problems);
        let in_rules = !standing.served.is_empty();
        let wildcard = matches!(host, Host::Wildcard(_));
        let own = self.merge(host, &standing.served, settings, &mut problems);
        let sizes = match host {
            Host::Exact(_) => BTreeMap::new(),
            Host::Wildcard(_) | Host::Any => own.sizes(&Sizes::new(settings)),
        };
        let catch_all = self.nameless.catch_all.as_ref();
        let mut around = Around { own, catch_all, ..Around::default() };
        let everywhere = *host == Host::Any && around.catch_all.is_some();
        let plain = |around: &Around, behind_tls| {
            (in_rules || everywhere).then(|| around.virtual_host(host, Side::PlainText { behind_tls }, &nobody()))
        };
        if *host == Host::Any {
            let http = plain(&around, false);
            let https = self.default_host(&around, objects, settings);
            let problems = problems.into_iter().map(Arc::new).collect();
            return Made { http, https, problems, in_rules, sizes, ..Made::default() };
        }
        // If no rule names the host, the first level with rules serves it. A wildcard with rules needs those without a host.
        let has_rules = |level: &&Host| levels.standing(level).is_some_and(|level| !level.served.is_empty());
        let outer = [above.as_ref(), Some(&Host::Any)].into_iter().flatten();
        let outer = if in_rules && !wildcard { None } else { outer.clone().find(has_rules) };
        let own_routing =
            if in_rules { Routing::new(&standing.served, standing.owner()) } else { standing.waiting(host) };
        let routing = outer.filter(|_| !in_rules).and_then(|outer| levels.routing(outer)).unwrap_or(&own_routing);
        let default = self.general.ground.default_secret.as_ref();
        let (naming, beside) = asking(host, &naming);
        let found =
            tls::chain(host, &naming, &beside, site_above.and_then(|site| site.chain.as_ref()), default, routing);
        // If only rejected rules and entries name a host, the wildcard above it serves it. With a filter chain for the
        // host, connections for the wildcard would answer its requests with 421.
        let named = in_rules || !found.permitted.is_empty();
        let chain = found.chain.filter(|_| named);
        let entries = || found.permitted.iter().filter_map(|at| naming.get(*at).copied()).collect();
        let copier = match standing.served.first() {
            Some(source) => Some(Copier::Rule(source)),
            None => chain.as_ref().and_then(|chain| Copier::entries(entries(), chain)),
        };
        let site = outer.and_then(|outer| self.sites.get(outer));
        let mut charges = site.zip(copier.as_ref()).map(|(site, copier)| copier.charges(site)).unwrap_or_default();
        let key_pair = chain.as_ref().filter(|_| wildcard).map(|chain| copies::of_key_pair(chain, settings));
        charges.extend(key_pair.map(|charge| (Part::KeyPair, charge)));
        if !self.copies.has(host, &charges) {
            return Made { charges: Some(charges), ..Made::default() };
        }
        let first = outer.and_then(|outer| Some((outer, &levels.standing(outer)?.served.first()?.origin.namespace)));
        let surplus = Surplus::new(&self.copies, host, first, copier.as_ref(), &charges);
        problems.extend(surplus.problems);
        problems.extend(found.problems);
        around.left_out = surplus.namespaces;
        let is_closed = self.copies.state(host, &Part::KeyPair) != State::Open;
        if let Some(chain) = chain.as_ref().filter(|_| is_closed) {
            problems.push(copies::too_many_wildcards(host, chain, settings, nobody));
        }
        let served = chain.as_ref().filter(|_| !is_closed);
        if !surplus.is_all && (in_rules || served.is_some()) {
            around.parent = above.as_ref().filter(|above| outer == Some(*above)).and_then(|above| levels.rules(above));
            around.nameless = outer.filter(|outer| **outer == Host::Any).and_then(|any| levels.rules(any));
        }
        let http = match standing.served.first().filter(|_| is_closed) {
            Some(first) => Some(closed(&first.origin)),
            None => plain(&around, served.is_some()),
        };
        let https = served.map(|chain| {
            // The default backend of one namespace is not served with the certificate of another.
            let trusted = |target: &&Target| {
                Some(&chain.secret) == default || chain.secret.object().namespace == target.origin.namespace
            };
            around.catch_all = around.catch_all.filter(trusted);
            let origin = chain.origins.first().cloned().unwrap_or_else(nobody);
            let virtual_host = around.virtual_host(host, Side::Tls, &origin);
            let Chain { secret, minimum, maximum, origins, .. } = chain.clone();
            tls_host(host, secret, (minimum, maximum), virtual_host, origins)
        });
        // Otherwise clients would get the certificate and the routes of the wildcard above.
        let is_below = named && https.is_none() && site_above.is_some_and(|site| site.chain.is_some());
        let refused = is_closed || is_below;
        let problems = problems.into_iter().map(Arc::new).collect();
        let owner = standing.owner_with_rule().cloned();
        let claim = standing.claim.filter(|_| wildcard);
        let (missed, charges) = (found.missed, None);
        Made { http, https, chain, problems, missed, in_rules, refused, claim, owner, sizes, charges }
    }

    /// Builds the host for clients without a known server name, if there is a certificate for them. With the fallback
    /// certificate, it is a virtual host without routes.
    fn default_host(&self, around: &Around, objects: &Objects, settings: &Settings) -> Option<TlsHost> {
        let ground = &self.general.ground;
        let name = ground.presented_to_all()?.clone();
        let secret = tls::secret(objects, &name)?;
        let virtual_host = match &ground.default_secret {
            Some(_) => around.virtual_host(&Host::Any, Side::Tls, &secret.origin),
            None => VirtualHost::default(),
        };
        let versions = (settings.tls.parameters.minimum, settings.tls.parameters.maximum);
        Some(tls_host(&Host::Any, name, versions, virtual_host, vec![secret.origin]))
    }
}

/// Returns a host behind TLS with one key pair, whose connections serve only this host.
fn tls_host(
    host: &Host,
    secret: SecretId,
    (minimum, maximum): (TlsVersion, TlsVersion),
    content: VirtualHost,
    origins: Vec<ObjectRef>,
) -> TlsHost {
    TlsHost {
        secrets: vec![secret],
        minimum,
        maximum,
        virtual_hosts: ServedHosts::one(host.clone(), content),
        others: Others::Misdirected,
        misdirected: BTreeSet::new(),
        origins,
    }
}

/// Returns a placeholder for an origin that is never used: a host without objects is not served.
fn nobody() -> ObjectRef {
    ObjectRef::new(Kind::INGRESS.as_str(), "", "")
}

/// Returns the TLS entries that name `host`, and the entries for other hosts of the Ingresses that name it in a rule. `ingresses` are
/// the Ingresses that name the host.
fn asking<'a>(host: &Host, ingresses: &[&'a Source]) -> (Vec<Asking<'a>>, Vec<Asking<'a>>) {
    let (mut naming, mut beside) = (Vec::new(), Vec::new());
    for &source in ingresses {
        let Some(places) = source.shared.places(host) else { continue };
        let named = places.entries.iter().filter_map(|at| source.shared.entries.get(*at as usize));
        naming.extend(named.map(|entry| Asking { source, entry }));
        if !places.rules.is_empty() {
            let others = source.shared.beside.iter().filter_map(|at| source.shared.entries.get(*at as usize));
            beside.extend(others.map(|entry| Asking { source, entry }));
        }
    }
    (naming, beside)
}
