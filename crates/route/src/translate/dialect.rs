//! The table of dialects: the translation of each kind that declares routes.

use std::fmt;
use std::sync::Arc;

use crate::model::{ClusterId, Host, SecretId, TrafficPolicy, UpstreamProtocol};
use crate::objects::gateway::ParentRef;
use crate::objects::{Kind, Object, ObjectId, ObjectKey, Secret, Transport};

use super::backend::{self, BackendFault, Context, Located, WantedPort};
use super::class::Classes;
use super::conflicts::Conflict;
use super::gateway::attach::Parent;
use super::gateway::dialects::{GRPC_ROUTE, HTTP_ROUTE, TCP_ROUTE, TLS_ROUTE, UDP_ROUTE};
use super::gateway::foreign_policies::ForeignPolicies;
use super::gateway::policies::BackendTlsPolicies;
use super::grants::{Grants, Reference};
use super::graph::Input;
use super::host_grants::HostGrants;
pub use super::http_proxy::{DIALECT as HTTP_PROXY, EXTENSION_DIALECT as EXTENSION_SERVICE};
pub use super::ingress::DIALECT as INGRESS;
use super::order::{Order, PathRank};
use super::patterns::Patterns;
use super::problem::{Message, Problem};
use super::rules::Contender;
use super::source::{Dependencies, Source};
use super::verdict::Verdict;
use crate::few::set_of;

/// The translation of the objects of one kind. A dialect declares the hosts, units, TLS entries, clusters, and verdicts of a single
/// object ([`Source`]). The later stages are the same for all dialects, beginning with the conflicts between objects. What differs
/// between kinds in a later stage is data of the dialect.
#[derive(Clone, Copy)]
pub struct Dialect {
    /// The kind of its objects.
    pub kind: Kind,
    /// How its objects select the controllers that serve them.
    pub selection: Selection,
    /// Parses an object that is served. The error is what an object depends on that this controller may serve later, with other
    /// parents.
    pub parse: fn(&Object, Resolver) -> Result<Source, Dependencies>,
    /// Whether several of its objects may define a host.
    pub sharing: Sharing,
    /// How its units compete for requests.
    pub competition: Competition,
    /// Returns the verdicts for the conflicts of an object with others. `None`: the kind has no conditions for them.
    pub conflicts: Option<OfConflicts>,
    /// Returns the hosts that an object names, as written.
    pub hosts: fn(&Object) -> Vec<&str>,
    /// Returns the Secrets whose key pairs an object names for its hosts.
    pub key_pairs: fn(&Object) -> Vec<ObjectKey>,
}

impl Dialect {
    /// Returns whether the class of an object is served. The class of a route of Gateway API is that of its parents, which the parser
    /// reads.
    pub fn serves(&self, object: &Object, classes: &Classes) -> bool {
        match self.selection {
            Selection::Class { named } => classes.serve(named(object)),
            Selection::Parents { .. } => true,
            Selection::Referenced => classes.serve(None),
        }
    }
}

/// How the objects of a dialect select the controllers that serve them.
#[derive(Debug, Clone, Copy)]
pub enum Selection {
    /// By an IngressClass.
    Class {
        /// Returns the name of the class, if an object names one. The field is [`CLASS_FIELD`](super::class::FIELD).
        named: fn(&Object) -> Option<&str>,
    },
    /// By Gateways and ListenerSets.
    Parents {
        /// Returns the parents that an object names.
        of: fn(&Object) -> &[ParentRef],
        /// The `protocol` of a listener that accepts the objects.
        protocol: &'static str,
    },
    /// By a served object that reads them. They have no class, so they are also served if objects without a class are.
    Referenced,
}

/// Whether several objects of a dialect may define a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Their units are merged.
    Merged,
    /// The oldest one defines it, and its units and certificates take precedence over those of merged kinds.
    Alone,
}

/// Returns the verdicts for the conflicts of an object.
pub type OfConflicts = fn(&Source, &[&Conflict]) -> Vec<Verdict>;

/// What differs between dialects when the units of several objects compete for the requests of a host.
#[derive(Clone, Copy)]
pub struct Competition {
    /// Ranks the path of a unit.
    pub rank: for<'a> fn(&Order<'_, 'a>, &Contender<'a>) -> PathRank<'a>,
    /// Returns the problem of a unit that lost its match on a host to another unit. `None`: that is no fault.
    pub conflict: fn(&Contender, &Host, &Contender) -> Option<Problem>,
    /// Whether a prefix of the first namespace of a host also takes equal paths of other types from other namespaces.
    pub guards_prefixes: bool,
    /// The name of a unit in problems, such as `path`.
    pub name: &'static str,
    /// The field of the path, below the field of the unit.
    pub field_of_path: &'static str,
}

/// Every dialect. The order has no meaning.
pub static DIALECTS: [Dialect; 8] =
    [INGRESS, HTTP_ROUTE, GRPC_ROUTE, TLS_ROUTE, TCP_ROUTE, UDP_ROUTE, HTTP_PROXY, EXTENSION_SERVICE];

/// Returns the dialect of a kind.
pub fn of(dialects: &[Dialect], kind: Kind) -> Option<&Dialect> {
    dialects.iter().find(|dialect| dialect.kind == kind)
}

/// Returns the dialect of a kind that declares routes.
pub fn dialect_of(kind: Kind) -> Option<&'static Dialect> {
    of(&DIALECTS, kind)
}

/// Returns the kinds whose objects are selected by class.
pub fn kinds_with_class() -> impl Iterator<Item = Kind> {
    DIALECTS.iter().filter(|one| matches!(one.selection, Selection::Class { .. })).map(|one| one.kind)
}

/// Returns whether an object could name a class, and does not.
pub fn is_classless(object: &Object) -> bool {
    match dialect_of(object.kind()).map(|dialect| dialect.selection) {
        Some(Selection::Class { named, .. }) => named(object).is_none(),
        Some(Selection::Parents { .. } | Selection::Referenced) | None => false,
    }
}

/// Returns the dialect of a kind by its name in references to objects.
pub fn by_name<'a>(dialects: &'a [Dialect], kind: &str) -> Option<&'a Dialect> {
    dialects.iter().find(|dialect| dialect.kind.as_str() == kind)
}

impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

/// The objects of Gateway API that are parsed before the objects that refer to them.
pub trait Parents {
    /// Returns a Gateway that this controller serves, or a ListenerSet of such a Gateway.
    fn parent(&self, id: &ObjectId) -> Option<Parent<'_>>;

    /// Returns the BackendTLSPolicies.
    fn policies(&self) -> &BackendTlsPolicies;

    /// Returns the policies of Envoy Gateway.
    fn foreign_policies(&self) -> &ForeignPolicies;
}

/// The body of a 403 if access to a cluster is denied, or the reason why the cluster cannot be built.
pub type ClusterAccess = Result<Option<Arc<str>>, BackendFault>;

/// Resolves the references of a source, and records its dependencies: every other object that it depends on.
pub struct Resolver<'a> {
    /// The objects and settings.
    pub context: Context<'a>,
    /// The default certificate, if there is one.
    pub default_secret: Option<&'a SecretId>,
    /// The regular expressions of the source.
    pub patterns: Patterns,
    classes: &'a Classes,
    host_grants: &'a HostGrants,
    parents: &'a dyn Parents,
    authorize: &'a mut dyn FnMut(&Located) -> ClusterAccess,
    grants: Grants<'a>,
    inputs: Vec<Input>,
    clusters: Vec<ClusterId>,
}

impl<'a> Resolver<'a> {
    /// Creates a resolver without dependencies. `authorize` builds a cluster, and returns whether access to it is denied.
    pub fn new(
        context: Context<'a>,
        default_secret: Option<&'a SecretId>,
        (classes, host_grants): (&'a Classes, &'a HostGrants),
        parents: &'a dyn Parents,
        authorize: &'a mut dyn FnMut(&Located) -> ClusterAccess,
    ) -> Self {
        Self {
            context,
            default_secret,
            patterns: Patterns::new(&context.settings.regexes),
            classes,
            host_grants,
            parents,
            authorize,
            grants: Grants::default(),
            inputs: Vec::new(),
            clusters: Vec::new(),
        }
    }

    /// Returns whether the reference stays in its namespace, or a ReferenceGrant permits it.
    pub fn permits(&mut self, reference: &Reference) -> bool {
        let namespace = &reference.to.namespace;
        if **namespace != *reference.namespace {
            let grants = ObjectKey { namespace: "".into(), name: namespace.clone() };
            self.record(Input::new(Kind::REFERENCE_GRANT, grants));
        }
        self.grants.permit(reference, self.context.objects)
    }

    /// Returns an error with the reason if the objects of `namespace` must not define `host`. The translator parses a source again when
    /// the HostGrants or the labels of its namespace change the result, so these are no recorded inputs.
    pub fn check_host(&self, host: &Host, namespace: &Arc<str>) -> Result<(), Message> {
        self.host_grants.check(host, namespace, self.context.objects)
    }

    /// Returns a Gateway that this controller serves, or a ListenerSet of such a Gateway.
    pub fn parent(&mut self, id: &ObjectId) -> Option<Parent<'a>> {
        self.inputs.push(Input::new(id.kind, id.key.clone()));
        self.parents.parent(id)
    }

    /// Returns another object of a dialect that the source includes, if it exists. The source declares the verdicts on it.
    pub fn included(&mut self, id: &ObjectId) -> Option<&'a Object> {
        self.inputs.push(Input::new(id.kind, id.key.clone()));
        self.context.objects.of_kind(id.kind).get(&id.key)
    }

    /// Returns whether the class of an included object is served.
    pub fn serves(&self, dialect: &Dialect, object: &Object) -> bool {
        dialect.serves(object, self.classes)
    }

    /// Returns the BackendTLSPolicies.
    pub fn policies(&self) -> &'a BackendTlsPolicies {
        self.parents.policies()
    }

    /// Returns the policies of Envoy Gateway.
    pub fn foreign_policies(&self) -> &'a ForeignPolicies {
        self.parents.foreign_policies()
    }

    /// Returns the cluster of a port of a Service, and the body of a 403 if access to the Service is denied.
    ///
    /// With a `policy`, the port has a separate cluster for that policy. Without one, the annotations of the Service
    /// and the settings determine the policy. Errors: why the cluster cannot be built.
    pub fn cluster(
        &mut self,
        service: ObjectKey,
        port: WantedPort,
        policy: Option<TrafficPolicy>,
    ) -> Result<(ClusterId, Option<Arc<str>>), BackendFault> {
        self.located(service, port, Transport::Tcp, policy)
    }

    fn located(
        &mut self,
        service: ObjectKey,
        port: WantedPort,
        transport: Transport,
        policy: Option<TrafficPolicy>,
    ) -> Result<(ClusterId, Option<Arc<str>>), BackendFault> {
        let inputs = &mut self.inputs;
        let read = |service| inputs.push(Input::new(Kind::SERVICE, service));
        let located = backend::locate(self.context, service, port, transport, policy, read)?;
        self.clusters.push(located.cluster.clone());
        let denied = (self.authorize)(&located)?;
        Ok((located.cluster, denied))
    }

    /// Returns the cluster of a port of a Service like [`Self::cluster`]. `protocol` applies if the Service names no
    /// protocol for the port.
    pub fn cluster_over(
        &mut self,
        service: ObjectKey,
        port: WantedPort,
        protocol: UpstreamProtocol,
    ) -> Result<(ClusterId, Option<Arc<str>>), BackendFault> {
        let policy = backend::policy_over(self.context, &service, port, protocol);
        self.cluster(service, port, policy)
    }

    /// Returns the cluster of a port of a Service like [`Self::cluster`], with this protocol.
    pub fn cluster_as(
        &mut self,
        service: ObjectKey,
        port: WantedPort,
        protocol: UpstreamProtocol,
    ) -> Result<(ClusterId, Option<Arc<str>>), BackendFault> {
        let policy = backend::policy_of_port(self.context, &service, port, Some(protocol));
        self.cluster(service, port, policy)
    }

    /// Returns the cluster of a port of a Service like [`Self::cluster`]. Envoy forwards the bytes of clients unchanged.
    pub fn cluster_of_bytes(
        &mut self,
        service: ObjectKey,
        port: WantedPort,
        transport: Transport,
    ) -> Result<(ClusterId, Option<Arc<str>>), BackendFault> {
        let policy = backend::policy_of_bytes(self.context, &service, port, transport);
        self.located(service, port, transport, policy)
    }

    /// Returns a Secret, if it exists.
    pub fn secret(&mut self, key: ObjectKey) -> Option<&'a Secret> {
        let secret = self.context.objects.get(&key);
        self.inputs.push(Input::new(Kind::SECRET, key));
        secret
    }

    /// Records an input that was read without this resolver.
    pub fn record(&mut self, input: Input) {
        self.inputs.push(input);
    }

    /// Returns the recorded dependencies.
    pub fn into_dependencies(self) -> Dependencies {
        Dependencies { inputs: set_of(self.inputs), clusters: set_of(self.clusters) }
    }
}
