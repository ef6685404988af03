//! The parts of a host: its virtual hosts for plain text and TLS, and what other hosts and the reports need to know about it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::envoy::route::Sizes;
use crate::model::{
    ClientValidation, Host, Others, SecretId, ServedHosts, Termination, TlsConnections, TlsHost, TlsVersion,
    VirtualHostRoutes,
};
use crate::objects::{Kind, Objects};
use crate::settings::Settings;
use crate::translate::charges::State;
use crate::translate::plain_text::VirtualHostPort;
use crate::translate::problem::Problem;
use crate::translate::source::{HostClientValidation, Stream};
use crate::translate::tls::{self, TlsProperties};
use crate::translate::translator::copies::{self, CopiedPart, Copies};
use crate::translate::translator::hosts::draft::{CertificateSelection, HostDraft};
use crate::translate::translator::hosts::surplus::SurplusCopies;
use crate::translate::translator::levels::Levels;
use crate::translate::translator::state::Translator;
use crate::translate::translator::state::owners::Claim;
use crate::translate::virtual_host::{Around, DefaultBackend, closed};

/// The parts of a host.
#[derive(Default)]
pub struct BuiltHost {
    /// The virtual host for plain text.
    pub http: Option<VirtualHostRoutes>,
    /// The TLS part.
    pub https: Option<TlsHost>,
    /// The forwarded TLS connections.
    pub stream: Option<TlsConnections>,
    /// The verification of clients.
    pub clients: Option<Arc<HostClientValidation>>,
    /// Whether TLS connections are forwarded without being decrypted.
    pub is_passed_through: bool,
    /// Whether TLS connections for the host are refused.
    pub is_refused: bool,
    /// The TLS properties, on which names below a wildcard depend.
    pub chain: Option<TlsProperties>,
    /// The problems that concern only this host.
    pub problems: Vec<Arc<Problem>>,
    /// The TLS entries for the host without a usable key pair.
    pub missed: Vec<tls::Missed>,
    /// Whether a served rule names it.
    pub is_in_rules: bool,
    /// The claim of the owner of a wildcard.
    pub claim: Option<Box<Claim>>,
    /// The namespace that owns the host and has a rule for it.
    pub owner: Option<Arc<str>>,
    /// The sizes of a copy of its rules of each namespace.
    pub sizes: BTreeMap<Arc<str>, u64>,
}

impl Translator {
    /// Builds the parts of a host. `levels` are those of its batch, and `copies` has its charges.
    pub(super) fn build<'t>(
        &'t self,
        draft: &HostDraft<'t>,
        levels: &Levels<'t>,
        copies: &Copies,
        objects: &Objects,
        settings: &Settings,
    ) -> BuiltHost {
        let host = &draft.host;
        let mut problems = Vec::new();
        draft.standing.report(host, &mut problems);
        let scope = self.scope();
        let own = self.merge(host, &draft.standing.served, settings, &mut problems);
        problems.extend(own.problems(&scope, host));
        let catch_all = self.nameless.catch_all.as_ref();
        let of_all = catch_all.filter(|_| *host == Host::Any);
        problems.extend(of_all.and_then(|one| scope.problem(&one.object, &one.unit, host)));
        let sizes = match host {
            Host::Exact(_) => BTreeMap::new(),
            Host::Wildcard(_) | Host::Any => own.sizes(&scope, &Sizes::new(settings)),
        };
        let around = Around::new(&scope, own, catch_all);
        let made = match host {
            Host::Any => self.build_any(draft, &around, objects, settings),
            Host::Exact(_) | Host::Wildcard(_) => {
                let surplus = SurplusCopies::of(draft, copies, levels);
                problems.extend(surplus.problems.iter().cloned());
                problems.extend(draft.certificate.found.problems.iter().cloned());
                let is_closed = copies.state(host, &CopiedPart::KeyPair) != State::Open;
                let chain = draft.certificate.chain.as_ref();
                problems.extend(match (draft.standing.stream().filter(|_| is_closed), chain.filter(|_| is_closed)) {
                    (Some((by, stream)), _) => {
                        Some(copies::too_many_streams(host, by, stream, chain, &self.shared.tls))
                    }
                    (None, Some(chain)) => Some(copies::too_many_wildcards(host, chain, settings, nobody)),
                    (None, None) => None,
                });
                let is_unverified = copies.state(host, &CopiedPart::Clients) != State::Open;
                if let Some((clients, chain)) = draft.clients.as_ref().filter(|_| is_unverified).zip(chain) {
                    let object = chain.origins.first().cloned().unwrap_or_else(nobody);
                    problems.push(copies::too_many_authorities(host, clients, object));
                }
                self.build_named(draft, around, surplus, levels, (is_closed, is_unverified))
            }
        };
        let problems = problems.into_iter().map(Arc::new).collect();
        BuiltHost { problems, is_in_rules: draft.is_in_rules(), sizes, ..made }
    }

    /// Builds the parts of the host that stands for all names.
    fn build_any(&self, draft: &HostDraft, around: &Around, objects: &Objects, settings: &Settings) -> BuiltHost {
        let is_served = draft.is_in_rules() || around.catch_all.is_some();
        let http = is_served
            .then(|| around.virtual_host(&Host::Any, VirtualHostPort::PlainText { behind_tls: false }, &nobody()));
        BuiltHost { http, https: self.default_host(around, objects, settings), ..BuiltHost::default() }
    }

    /// Builds the parts of a named host. `is_closed`: its filter chain does not fit into the limit of its namespace.
    /// `is_unverified`: the authorities for its clients do not.
    fn build_named<'l, 't>(
        &'t self,
        draft: &HostDraft<'t>,
        mut around: Around<'l, 't>,
        surplus: SurplusCopies,
        levels: &'l Levels<'t>,
        (is_closed, is_unverified): (bool, bool),
    ) -> BuiltHost {
        let CertificateSelection { chain, found, is_named } = &draft.certificate;
        let (host, is_in_rules) = (&draft.host, draft.is_in_rules());
        let streamed = draft.standing.stream().map(|(_, stream)| stream);
        // Without authorities, TLS is closed, and plain text still redirects.
        let validation = draft.clients.as_ref().map(|clients| clients.validation.as_ref().filter(|_| !is_unverified));
        let is_unverified = validation == Some(None);
        let clients = validation.flatten();
        let stream = streamed.filter(|_| !is_closed && !is_unverified);
        let stream = stream.and_then(|stream| connections(stream, chain.as_ref(), clients));
        let served = chain.as_ref().filter(|_| !is_closed && streamed.is_none());
        (around.left_out, around.is_catch_all_left_out) = (surplus.namespaces, surplus.has_default_backend);
        if !surplus.is_all && (is_in_rules || served.is_some()) {
            let copied = draft.copied.as_ref();
            (around.parent, around.nameless) = match copied {
                Some(Host::Any) => (None, levels.rules(&Host::Any)),
                copied => (copied.and_then(|copied| levels.rules(copied)), None),
            };
        }
        let plain = |around: &Around| {
            let side = VirtualHostPort::PlainText { behind_tls: served.is_some() || streamed.is_some() };
            is_in_rules.then(|| around.virtual_host(host, side, &nobody()))
        };
        // Without its stream, a host still serves its routes in plain text.
        let http = match draft.first().filter(|_| is_closed && streamed.is_none()) {
            Some(first) => Some(closed(first)),
            None => plain(&around),
        };
        let https = served.filter(|_| !is_unverified);
        // Without a server name, no client is verified.
        let is_without_server_name = clients.is_none() && draft.standing.is_without_server_name();
        let https = https.map(|chain| {
            let part = self.tls_part(host, chain, around);
            TlsHost { clients: clients.cloned(), is_without_server_name, ..part }
        });
        // Otherwise clients would get the certificate and the routes of the wildcard above.
        let above = draft.above.as_ref().and_then(|above| self.sites.get(above));
        let has_chain_above = above.is_some_and(|above| above.chain.is_some() || above.is_passed_through);
        let is_below = *is_named && https.is_none() && has_chain_above;
        let is_wildcard = matches!(host, Host::Wildcard(_));
        BuiltHost {
            http,
            https,
            is_refused: stream.is_none() && (is_closed || is_below || is_unverified || streamed.is_some()),
            clients: draft.clients.clone(),
            is_passed_through: streamed.is_some_and(|stream| !stream.is_decrypted),
            stream,
            chain: chain.clone(),
            missed: found.missed.clone(),
            claim: draft.standing.claim.clone().filter(|_| is_wildcard).map(Box::new),
            owner: draft.standing.owner_with_rule().cloned(),
            ..BuiltHost::default()
        }
    }

    /// Returns the TLS part of a host with these TLS properties.
    fn tls_part(&self, host: &Host, chain: &TlsProperties, mut around: Around) -> TlsHost {
        let default = self.general.ground.default_secret.as_ref();
        // The default backend of one namespace is not served with the certificate of another.
        let is_trusted = |backend: &&DefaultBackend| {
            Some(&chain.secret) == default || chain.secret.object().namespace == backend.origin().namespace
        };
        around.catch_all = around.catch_all.filter(is_trusted);
        let origin = chain.origins.first().cloned().unwrap_or_else(nobody);
        let content = around.virtual_host(host, VirtualHostPort::Tls, &origin);
        tls_host(host, chain.secret.clone(), (chain.minimum, chain.maximum), content, chain.origins.clone())
    }

    /// Builds the host for clients without a known server name, if there is a certificate for them. With the fallback
    /// certificate, it is a virtual host without routes.
    fn default_host(&self, around: &Around, objects: &Objects, settings: &Settings) -> Option<TlsHost> {
        let ground = &self.general.ground;
        let name = ground.presented_to_all()?.clone();
        let secret = tls::secret(objects, &name)?;
        let virtual_host = match &ground.default_secret {
            Some(_) => around.virtual_host(&Host::Any, VirtualHostPort::Tls, &secret.origin),
            None => VirtualHostRoutes::default(),
        };
        let versions = (settings.tls.parameters.minimum, settings.tls.parameters.maximum);
        Some(tls_host(&Host::Any, name, versions, virtual_host, vec![secret.origin]))
    }
}

/// Returns the forwarded connections of a host. `None`: no connection may be accepted.
fn connections(
    stream: &Stream,
    chain: Option<&TlsProperties>,
    clients: Option<&ClientValidation>,
) -> Option<TlsConnections> {
    let terminated = match stream.is_decrypted {
        false => None,
        true => {
            let TlsProperties { secret, minimum, maximum, .. } = chain?;
            let (minimum, maximum, clients) = (*minimum, *maximum, clients.cloned());
            Some(Termination { secrets: vec![secret.clone()], minimum, maximum, clients })
        }
    };
    (!stream.to.clusters.is_empty()).then(|| TlsConnections { terminated, to: stream.to.clone() })
}

/// Returns a host behind TLS with one key pair, whose connections serve only this host.
fn tls_host(
    host: &Host,
    secret: SecretId,
    (minimum, maximum): (TlsVersion, TlsVersion),
    content: VirtualHostRoutes,
    origins: Vec<ObjectRef>,
) -> TlsHost {
    TlsHost {
        secrets: vec![secret],
        minimum,
        maximum,
        clients: None,
        virtual_hosts: ServedHosts::one(host.clone(), content),
        others: Others::Misdirected,
        misdirected: BTreeSet::new(),
        is_without_server_name: false,
        origins,
    }
}

/// Returns a placeholder for an origin that is never used: a host without objects is not served.
fn nobody() -> ObjectRef {
    ObjectRef::new(Kind::INGRESS.as_str(), "", "")
}
