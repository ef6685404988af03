//! The parser of a single route: attaches it to its Gateways, and collects problems and conditions.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::attach::{self, Attaching, Attachment, Attachments, ListenerName, ListenerOwner, Parent};
use super::attached::{Attached, RouteContent, UNSUPPORTED};
use super::client_certificates::ClientCertificate;
use super::foreign_policies::{Closed, Effects, closed_as};
use super::listener::{ListenerProtocol, ParsedListener};
use crate::model::Host;
use crate::objects::gateway::ParentRef;
use crate::objects::{Kind, Meta, Revision};
use crate::translate::dialect::Resolver;
use crate::translate::foreign::{self, Foreign};
use crate::translate::host;
use crate::translate::problem::{Message, Problem, Reason, bounded};
use crate::translate::source::{Dependencies, Source};
use crate::translate::verdict::{ConditionFault, Status, Verdict};

/// The fields that routes of all kinds have.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    /// The kind.
    pub kind: Kind,
    /// The metadata.
    pub meta: &'a Meta,
    /// The parents.
    pub parents: &'a [ParentRef],
    /// The host names, which not all kinds have.
    pub hostnames: &'a [String],
    /// The hash of the content.
    pub revision: Revision,
}

/// The maximum number of hosts on listeners of one route. The limits of the API for one Gateway give a quarter of it: 16 host
/// names and 64 listeners.
const MAX_PLACES: usize = 4096;

/// The parents of a route that this controller serves: Gateways and their ListenerSets.
#[derive(Default)]
struct Parents {
    /// The indexes in `spec.parentRefs` of the references to these parents.
    ours: Vec<u16>,
    /// The indexes of the parents that accept the route, with the owner of their listeners.
    accepted: Vec<(u16, ListenerOwner)>,
    /// The attachments to the listeners of these parents.
    attachments: Vec<Attachment>,
    /// These listeners.
    listeners: BTreeSet<ListenerName>,
    /// The number of hosts on these listeners.
    places: usize,
    /// Whether the namespace must not define a host of the route.
    has_refused_hosts: bool,
    /// The client certificates for which the rules are parsed. Without an attachment, the rules are parsed once.
    certificates: BTreeSet<ClientCertificate>,
}

/// Parses a route. `content` parses the rules for one client certificate. Returns only the inputs if this controller
/// serves no parent, because it may serve a parent later.
pub fn parse(
    route: Fields,
    resolver: Resolver,
    content: impl Fn(&mut Parser) -> RouteContent,
) -> Result<Source, Dependencies> {
    let origin = route.meta.object_ref(route.kind);
    let mut parser = Parser {
        route,
        origin: &origin,
        resolver,
        problems: BTreeSet::new(),
        verdicts: Vec::new(),
        unresolved: None,
        invalid: None,
        certificate: None,
        is_decrypted: false,
        effects: Effects::default(),
        denied: None,
    };
    let Parents { ours, accepted, attachments, certificates, has_refused_hosts, .. } = parser.attach();
    if ours.is_empty() {
        return Err(parser.resolver.into_dependencies());
    }
    parser.add_foreign();
    let for_certificate = |certificate: ClientCertificate| {
        parser.certificate = certificate.clone();
        (certificate, content(&mut parser))
    };
    let contents = certificates.into_iter().map(for_certificate).collect();
    parser.report_content(&ours);
    let Parser { resolver, problems, verdicts, .. } = parser;
    let precedence = resolver.context.objects.precedence(route.kind, route.meta);
    let attached = Attached { attachments: attachments.into(), accepted: accepted.into(), contents };
    Ok(Source {
        asks: attached.attachments.iter().any(|attachment| !attachment.hosts.is_empty()),
        attached,
        has_refused_hosts,
        dependencies: resolver.into_dependencies(),
        problems: bounded(problems.into_iter().collect()),
        verdicts: verdicts.into(),
        ..Source::new(precedence, origin, route.revision)
    })
}

/// The state of parsing one route.
pub struct Parser<'p, 'r> {
    route: Fields<'p>,
    /// A reference to it.
    pub origin: &'p ObjectRef,
    /// The inputs.
    pub resolver: Resolver<'r>,
    problems: BTreeSet<Problem>,
    verdicts: Vec<Verdict>,
    /// The fault of the first reference that cannot be resolved.
    unresolved: Option<ConditionFault>,
    /// The fault of the first part that is left out.
    invalid: Option<ConditionFault>,
    /// The client certificate for backends with TLS.
    pub certificate: ClientCertificate,
    /// Whether a listener decrypts the TLS connections of the route.
    pub is_decrypted: bool,
    /// The effects of policies of other products that target the route.
    effects: Effects,
    /// The body of a 403 for all requests, because of annotations of other controllers.
    denied: Option<Arc<str>>,
}

impl<'p> Parser<'p, '_> {
    /// Returns the kind of the object.
    pub fn kind(&self) -> Kind {
        self.route.kind
    }

    /// Returns the namespace of the object.
    pub fn namespace(&self) -> &'p Arc<str> {
        &self.route.meta.key.namespace
    }

    /// Attaches the route to its parents. Reports the condition `Accepted` of each parent.
    fn attach(&mut self) -> Parents {
        let route = self.route;
        let hosts = self.hosts();
        let mut parents = Parents::default();
        for (index, reference) in route.parents.iter().enumerate() {
            let Some(id) = attach::parent_id(reference, &route.meta.key.namespace) else { continue };
            let Some(parent) = self.resolver.parent(&id) else { continue };
            let index = u16::try_from(index).unwrap_or(u16::MAX);
            parents.ours.push(index);
            let attaching = Attaching { parent: index, kind: route.kind, meta: route.meta, hosts: hosts.as_deref() };
            match attach::attach(attaching, reference, parent, &mut self.resolver) {
                Ok(Attachments { to, refused }) => {
                    parents.has_refused_hosts |= !refused.is_empty();
                    if to.is_empty() {
                        self.refuse_hosts(index, parent, refused.into_values().next().unwrap_or_default());
                        continue;
                    }
                    for message in refused.into_values() {
                        self.left_out("spec.hostnames".to_owned(), Reason::HostNotGranted, message, "host left out");
                    }
                    self.accept(index, parent, to, &mut parents);
                }
                Err(fault) => self.refuse(index, parent, Reason::RouteNotAttached, fault),
            }
        }
        if parents.certificates.is_empty() {
            parents.certificates.insert(None);
        }
        parents
    }

    /// Adds the attachments to a parent, except for listeners that an earlier parent has attached.
    fn accept(&mut self, index: u16, parent: Parent, attachments: Vec<Attachment>, parents: &mut Parents) {
        let is_new = |one: &Attachment| !parents.listeners.contains(&one.listener);
        let new: Vec<Attachment> = attachments.into_iter().filter(is_new).collect();
        let places = parents.places + new.iter().map(|one| one.hosts.len()).sum::<usize>();
        if places > MAX_PLACES {
            let message = format!("with this parent, the route has more than {MAX_PLACES} hosts on listeners");
            return self.refuse(index, parent, Reason::RouteNotAttached, ConditionFault::new(UNSUPPORTED, message));
        }
        self.verdict(index, "Accepted", Status::True, "Accepted", String::new());
        parents.places = places;
        parents.accepted.push((index, parent.owner()));
        parents.certificates.insert(parent.gateway.certificate.clone());
        let names: BTreeSet<_> = new.iter().map(|to| (&to.listener.set, &to.listener.name)).collect();
        let is_decrypted = |one: &&ParsedListener| matches!(one.protocol, Some(ListenerProtocol::Tls(_)));
        let mut decrypted = parent.gateway.listeners.iter().filter(is_decrypted);
        self.is_decrypted |= decrypted.any(|one| names.contains(&(&one.set, &one.name)));
        self.report_closed(index, parent, &new);
        parents.listeners.extend(new.iter().map(|one| one.listener.clone()));
        parents.attachments.extend(new);
    }

    /// Reports that the route is not attached to a parent, because its namespace must define none of its hosts there.
    fn refuse_hosts(&mut self, index: u16, parent: Parent, message: Message) {
        let fault = ConditionFault::new("NotAllowedByListeners", message);
        self.refuse(index, parent, Reason::HostNotGranted, fault);
    }

    /// Reports that the route is not attached to a parent.
    fn refuse(&mut self, index: u16, parent: Parent, cause: Reason, fault: ConditionFault) {
        let ConditionFault { reason, message } = fault;
        let field = format!("spec.parentRefs[{index}]");
        let instead = match parent.set {
            Some(_) => "not attached to this ListenerSet",
            None => "not attached to this Gateway",
        };
        self.problem(field, cause, message.clone(), instead);
        self.verdict(index, "Accepted", Status::False, reason, message);
    }

    /// Adds the effects of policies and annotations of other products on the route.
    fn add_foreign(&mut self) {
        let Fields { kind, meta, .. } = self.route;
        let settings = self.resolver.context.settings;
        self.effects = self.resolver.foreign_policies().effects(kind, meta, settings);
        let mut invalid =
            self.effects.why_closed().map(|problem| format!("{}; {}", problem.message, problem.consequence));
        if kind.info().foreign_annotations {
            let Foreign { denied, problems } = foreign::of(meta, kind, settings);
            let text = |problem: &Problem| format!("{}: {}; {}", problem.field, problem.message, problem.consequence);
            invalid = invalid.or_else(|| problems.first().filter(|_| denied.is_some()).map(text));
            self.denied = denied;
            self.problems.extend(problems);
        }
        self.problems.extend(std::mem::take(&mut self.effects.problems));
        self.invalid = self.invalid.take().or(invalid.map(|text| ConditionFault::new(UNSUPPORTED, text)));
    }

    /// Returns the body of a 403 for the requests of a rule, if a policy or an annotation of another product closes the rule.
    pub fn denied(&self, rule: Option<&str>) -> Option<Arc<str>> {
        self.effects.closed(rule).map(|closed| closed.body.clone()).or_else(|| self.denied.clone())
    }

    /// Reports the listeners of an attachment that a policy of another product closes.
    fn report_closed(&mut self, index: u16, parent: Parent, attachments: &[Attachment]) {
        let names: BTreeSet<_> = attachments.iter().map(|to| (&to.listener.set, &to.listener.name)).collect();
        let attached = parent.gateway.listeners.iter().filter(|one| names.contains(&(&one.set, &one.name)));
        let mut closed = attached.filter_map(|one| Some((one, one.closed.as_ref()?)));
        let Some((listener, Closed { by, .. })) = closed.next() else { return };
        let more = match closed.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "{} \"{}\" of Envoy Gateway restricts access to listener {:?}{more} of the parent and is not enforced",
            by.kind.as_str(),
            by.key,
            listener.name
        );
        let consequence = format!("{} there", closed_as(self.route.kind));
        let field = format!("spec.parentRefs[{index}]");
        self.left_out(field, Reason::AccessNotRestricted, message, &consequence);
    }

    /// Reports the conditions `ResolvedRefs` and `PartiallyInvalid` for each of these parents.
    fn report_content(&mut self, parents: &[u16]) {
        for parent in parents {
            match self.unresolved.clone() {
                Some(ConditionFault { reason, message }) => {
                    self.verdict(*parent, "ResolvedRefs", Status::False, reason, message);
                }
                None => self.verdict(*parent, "ResolvedRefs", Status::True, "ResolvedRefs", String::new()),
            }
            if let Some(ConditionFault { reason, message }) = self.invalid.clone() {
                self.verdict(*parent, "PartiallyInvalid", Status::True, reason, message);
            }
        }
    }

    fn verdict(
        &mut self,
        parent: u16,
        condition: &'static str,
        status: Status,
        reason: &'static str,
        message: impl Into<Message>,
    ) {
        let verdict = Verdict::new(self.origin.clone(), condition, status, reason);
        self.verdicts.push(Verdict { parent: Some(parent), message: message.into(), ..verdict });
    }

    /// Adds a problem, unless the rules for another client certificate have the same one.
    pub fn problem(&mut self, field: String, reason: Reason, message: impl Into<Message>, consequence: &str) {
        let (object, consequence) = (self.origin.clone(), consequence.to_owned());
        self.problems.insert(Problem { object, field, reason, message: message.into(), consequence });
    }

    /// Adds a reference that cannot be resolved, with the reason of the condition `ResolvedRefs`.
    pub fn unresolved(
        &mut self,
        field: String,
        condition: &'static str,
        reason: Reason,
        message: Message,
        instead: &str,
    ) {
        let fault = || ConditionFault::new(condition, format!("{field}: {message}"));
        self.unresolved.get_or_insert_with(fault);
        self.problem(field, reason, message, instead);
    }

    /// Adds a part that is left out.
    pub fn left_out(&mut self, field: String, reason: Reason, message: impl Into<Message>, consequence: &str) {
        let message = message.into();
        let fault = || ConditionFault::new(UNSUPPORTED, format!("{field}: {message}; {consequence}"));
        self.invalid.get_or_insert_with(fault);
        self.problem(field, reason, message, consequence);
    }

    /// Returns the valid host names. `None`: the route has none, and the host names of the listeners apply.
    fn hosts(&mut self) -> Option<Vec<Host>> {
        let texts = self.route.hostnames;
        let mut hosts = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let fault = match host::parse(text) {
                Ok(Host::Any) => "is empty",
                Ok(host) => {
                    hosts.push(host);
                    continue;
                }
                Err(fault) => fault,
            };
            let message = format!("host {text:?} {fault}");
            self.left_out(format!("spec.hostnames[{index}]"), Reason::HostNotValid, message, "host left out");
        }
        (!texts.is_empty()).then_some(hosts)
    }
}
