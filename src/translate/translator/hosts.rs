//! What is made of a host: its virtual hosts on both sides, and what it is served with.

use std::sync::Arc;

use super::clusters::led_to;
use super::{Translator, set};
use crate::model::{Host, TlsHost, Touched, VirtualHost};
use crate::provenance::ObjectRef;
use crate::settings::Settings;
use crate::source::objects::{Kind, Objects};
use crate::translate::host;
use crate::translate::ingress::Parsed;
use crate::translate::problem::Problem;
use crate::translate::tls::{self, Asking, Chain};
use crate::translate::virtual_host::{Around, HostRules, Side};

/// All that is made of a host.
#[derive(Default)]
pub struct Made {
    http: Option<VirtualHost>,
    https: Option<TlsHost>,
    chain: Option<Chain>,
    problems: Vec<Arc<Problem>>,
    missed: Vec<tls::Missed>,
    in_rules: bool,
}

impl Translator {
    /// The Ingresses that name a host, in the order of precedence.
    fn naming(&self, host: &Host) -> Vec<&Parsed> {
        let ingresses = self.sites.get(host).into_iter().flat_map(|site| site.ingresses.iter());
        ingresses.filter_map(|rank| self.ingresses.get(&rank.key)).map(|parsed| &**parsed).collect()
    }

    /// Makes all of a host anew: its virtual hosts on both sides, and what it is served with.
    pub(super) fn remake(&mut self, host: &Host, objects: &Objects, settings: &Settings, touched: &mut Touched) {
        let made = self.make(host, objects, settings);
        self.exchange_host(host, made, touched);
    }

    /// Puts `made` in the place of what there was of a host.
    pub(super) fn exchange_host(&mut self, host: &Host, made: Made, touched: &mut Touched) {
        let Made { http, https, chain, problems, missed, in_rules } = made;
        if let Some(site) = self.sites.forget_unnamed(host) {
            self.ledger.remove(&site.problems);
            self.outcomes.replace(host, &site.missed, &[]);
        } else if let Some(site) = self.sites.get_mut(host) {
            self.ledger.replace(&site.problems, &problems);
            self.outcomes.replace(host, &site.missed, &missed);
            (site.problems, site.missed, site.chain) = (problems, missed, chain);
            self.sites.set_in_rules(host, in_rules);
        }
        if self.model.http.get(host) != http.as_ref() {
            self.clusters.lead(&led_to(self.model.http.get(host)), &led_to(http.as_ref()));
            self.served.replace(self.model.http.get(host), http.as_ref());
            set(&mut self.model.http, host, http);
            touched.http.insert(host.clone());
        }
        if self.model.https.get(host) != https.as_ref() {
            let before = self.model.https.get(host);
            let routes = [before, https.as_ref()].map(|tls| tls.map(|tls| &tls.virtual_host));
            self.clusters.lead(&led_to(routes[0]), &led_to(routes[1]));
            self.served.replace(routes[0], routes[1]);
            let secrets = (before.map(|tls| tls.secret.clone()), https.as_ref().map(|tls| tls.secret.clone()));
            self.use_secret(secrets.0, secrets.1, touched);
            set(&mut self.model.https, host, https);
            touched.https.insert(host.clone());
        }
    }

    /// What is to be of a host.
    pub(super) fn make(&self, host: &Host, objects: &Objects, settings: &Settings) -> Made {
        let naming = self.naming(host);
        if naming.is_empty() && *host != Host::Any {
            return Made::default();
        }
        let mut problems = Vec::new();
        let own = HostRules::merge(host, &naming, &settings.regexes, &mut problems);
        let in_rules = own.named();
        let rules_of = |host: &Host| HostRules::merge(host, &self.naming(host), &settings.regexes, &mut Vec::new());
        let parent = host::parent(host);
        let above = (!in_rules).then(|| (parent.as_ref().map(rules_of).unwrap_or_default(), rules_of(&Host::Any)));
        let around = Around { own, above, catch_all: self.catch_all.as_ref() };
        let everywhere = *host == Host::Any && self.catch_all.is_some();
        let http = (in_rules || everywhere).then(|| around.virtual_host(host, Side::PlainText, &nobody()));
        if *host == Host::Any {
            let https = self.default_host(&around, objects, settings);
            let problems = problems.into_iter().map(Arc::new).collect();
            return Made { http, https, chain: None, problems, missed: Vec::new(), in_rules };
        }
        let above = parent.as_ref().and_then(|parent| self.sites.get(parent)).and_then(|site| site.chain.as_ref());
        let (naming, beside) = asking(host, &naming);
        let found = tls::chain(host, &naming, &beside, above, self.general.ground.default_secret.as_ref());
        problems.extend(found.problems);
        let https = found.chain.as_ref().map(|chain| {
            let origin = chain.origins.first().cloned().unwrap_or_else(nobody);
            let virtual_host = around.virtual_host(host, Side::Tls, &origin);
            let Chain { secret, minimum, maximum, origins, terminating: _ } = chain.clone();
            TlsHost { secret, minimum, maximum, virtual_host, origins }
        });
        let problems = problems.into_iter().map(Arc::new).collect();
        Made { http, https, chain: found.chain, problems, missed: found.missed, in_rules }
    }

    /// What clients without a known server name are served, if there is a default certificate.
    fn default_host(&self, around: &Around, objects: &Objects, settings: &Settings) -> Option<TlsHost> {
        let name = self.general.ground.default_secret.clone()?;
        let secret = tls::secret(objects, &name)?;
        let virtual_host = around.virtual_host(&Host::Any, Side::Tls, &secret.origin);
        let (minimum, maximum) = (settings.tls.parameters.minimum, settings.tls.parameters.maximum);
        Some(TlsHost { secret: name, minimum, maximum, virtual_host, origins: vec![secret.origin] })
    }
}

/// Stands where an origin is asked for and never needed: what has no object behind it is not served.
fn nobody() -> ObjectRef {
    ObjectRef::new(Kind::Ingress.as_str(), "", "")
}

/// The TLS entries that name `host`, and all of those Ingresses that name it in a rule, of all that name it.
fn asking<'a>(host: &Host, ingresses: &[&'a Parsed]) -> (Vec<Asking<'a>>, Vec<Asking<'a>>) {
    let (mut naming, mut beside) = (Vec::new(), Vec::new());
    for &parsed in ingresses {
        let Some(places) = parsed.places(host) else { continue };
        let named = places.entries.iter().filter_map(|at| parsed.entries.get(*at as usize));
        naming.extend(named.map(|entry| Asking { parsed, entry }));
        if !places.rules.is_empty() {
            beside.extend(parsed.entries.iter().map(|entry| Asking { parsed, entry }));
        }
    }
    (naming, beside)
}
