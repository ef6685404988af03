//! The situations that the status of an HTTPProxy reports, with the types and the reasons of Contour.

use crate::translate::problem::Reason;
use crate::translate::verdict::{Detail, Severity};

/// An error or a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Situation {
    /// The list and the type of the entry in the condition `Valid`.
    pub detail: Detail,
    /// The reason of the entry.
    pub reason: &'static str,
    /// The reason of the problem.
    pub problem: Reason,
}

/// Returns an error.
pub const fn error(r#type: &'static str, reason: &'static str, problem: Reason) -> Situation {
    Situation { detail: Detail { severity: Severity::Error, r#type }, reason, problem }
}

/// Returns a warning.
pub const fn warning(r#type: &'static str, reason: &'static str, problem: Reason) -> Situation {
    Situation { detail: Detail { severity: Severity::Warning, r#type }, reason, problem }
}

/// Returns the error of authorization with this reason.
pub const fn auth(reason: &'static str) -> Situation {
    error("AuthError", reason, Reason::ProxyNotValid)
}

/// Returns the error of the verification of tokens with this reason.
pub const fn jwt(reason: &'static str) -> Situation {
    error("JWTVerificationError", reason, Reason::ProxyNotValid)
}

/// The block with a field that is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    Spec,
    VirtualHost,
    Tls,
    Include,
    Route,
    Service,
    Cors,
    IpFilter,
    Jwt,
    Authorization,
    TcpProxy,
}

impl Block {
    fn error_type(self) -> &'static str {
        match self {
            Self::Spec => "SpecError",
            Self::VirtualHost => "VirtualHostError",
            Self::Tls => "TLSError",
            Self::Include => "IncludeError",
            Self::Route => "RouteError",
            Self::Service => "ServiceError",
            Self::Cors => "CORSError",
            Self::IpFilter => "IPFilterError",
            Self::Jwt => "JWTVerificationError",
            Self::Authorization => "AuthError",
            Self::TcpProxy => "TCPProxyError",
        }
    }

    /// Returns the error of a field that is not served and may restrict access.
    pub fn unsupported(self) -> Situation {
        error(self.error_type(), "UnsupportedField", Reason::UnsupportedField)
    }

    /// Returns the warning of a field that is left out.
    pub fn ignored(self) -> Situation {
        warning(self.error_type(), "IgnoredField", Reason::IgnoredField)
    }

    /// Returns the error of a limit of the request rate.
    pub fn rate_limit(self) -> Situation {
        error(self.error_type(), "RateLimitPolicyNotValid", Reason::ProxyNotValid)
    }

    /// Returns the error of a condition with this reason.
    pub fn condition(self, reason: &'static str) -> Situation {
        error(self.error_type(), reason, Reason::ProxyNotValid)
    }
}

pub const ALLOWED_FOR_ANY_ORIGIN: Situation = warning("CORSError", "CredentialsForAnyOrigin", Reason::Ambiguous);
pub const CA_NOT_DELEGATED: Situation = error("TLSError", "CACertificateNotDelegated", Reason::ReferenceNotPermitted);
pub const CERTIFICATE_NAMES: Situation = warning("TLSError", "CertificateNamesDiffer", Reason::SecretNotValid);
pub const CORS_NOT_VALID: Situation = error("CORSError", "PolicyDidNotParse", Reason::ProxyNotValid);
pub const DELEGATION_NOT_PERMITTED: Situation =
    error("TLSError", "DelegationNotPermitted", Reason::ReferenceNotPermitted);
pub const DIRECT_RESPONSE_NOT_VALID: Situation =
    error("RouteError", "DirectResponsePolicyNotValid", Reason::ProxyNotValid);
pub const DUPLICATE_MATCH: Situation = error("IncludeError", "DuplicateMatchConditions", Reason::IncludeNotValid);
pub const FQDN_NOT_SPECIFIED: Situation = error("VirtualHostError", "FQDNNotSpecified", Reason::HostNotValid);
pub const FQDN_NOT_VALID: Situation = error("VirtualHostError", "FQDNNotValid", Reason::HostNotValid);
pub const HASH_IGNORED: Situation = warning("SpecError", "IgnoredField", Reason::IgnoredField);
pub const HEALTH_CHECK_NOT_VALID: Situation = error("RouteError", "HealthCheckPolicyInvalid", Reason::ProxyNotValid);
pub const HOST_NOT_GRANTED: Situation = error("VirtualHostError", "HostNotGranted", Reason::HostNotGranted);
pub const INCLUDE_CYCLE: Situation = error("IncludeError", "IncludeCreatesCycle", Reason::IncludeNotValid);
pub const INCLUDE_NOT_FOUND: Situation = error("IncludeError", "IncludeNotFound", Reason::IncludeNotValid);
pub const INCLUDE_TOO_LARGE: Situation = error("IncludeError", "IncludeTooLarge", Reason::RouteTooExpensive);
pub const IP_FILTERS_INCOMPATIBLE: Situation =
    error("IPFilterError", "IncompatibleIPAddressFilters", Reason::ProxyNotValid);
pub const IP_FILTER_CIDR: Situation = error("IPFilterError", "InvalidCIDR", Reason::ProxyNotValid);
pub const IP_FILTER_NOT_VALID: Situation = error("IPFilterError", "IPFilterPolicyNotValid", Reason::ProxyNotValid);
pub const JWT_DEFAULTS: Situation = jwt("MultipleDefaultProvidersSpecified");
pub const JWT_NAME_DUPLICATE: Situation = jwt("DuplicateProviderName");
pub const JWT_POLICY_NOT_VALID: Situation = jwt("InvalidJWTVerificationPolicy");
pub const JWT_PROVIDER_NOT_DEFINED: Situation = jwt("JWTProviderNotDefined");
pub const JWT_PROVIDER_NOT_VALID: Situation = jwt("JWTProviderNotValid");
pub const MIRROR_WITHOUT_SHARE: Situation = warning("ServiceError", "MirrorWeightIsZero", Reason::Ambiguous);
pub const NOTHING_DEFINED: Situation = error("SpecError", "NothingDefined", Reason::ProxyNotValid);
pub const ONLY_ONE_MIRROR: Situation = error("ServiceError", "OnlyOneMirror", Reason::ProxyNotValid);
pub const ORIGIN_OF_NO_PAGE: Situation = warning("CORSError", "OriginOfNoPage", Reason::Ambiguous);
pub const PREFIX_AMBIGUOUS: Situation = error("PrefixReplaceError", "AmbiguousReplacement", Reason::ProxyNotValid);
pub const PREFIX_DUPLICATE: Situation = error("PrefixReplaceError", "DuplicateReplacement", Reason::ProxyNotValid);
pub const PREFIX_MISSING: Situation = error("PrefixReplaceError", "MustHavePrefix", Reason::ProxyNotValid);
pub const PREFIX_NOT_VALID: Situation = error("PrefixReplaceError", "ReplacementNotValid", Reason::ProxyNotValid);
pub const REDIRECT_NOT_VALID: Situation = error("RouteError", "RequestRedirectPolicy", Reason::ProxyNotValid);
pub const RETRY_NOT_VALID: Situation = error("RouteError", "RetryPolicyNotValid", Reason::ProxyNotValid);
pub const ROOT_NAMESPACE: Situation =
    error("RootNamespaceError", "RootProxyNotAllowedInNamespace", Reason::HostNotGranted);
pub const ROOT_INCLUDES_ROOT: Situation = error("IncludeError", "RootIncludesRoot", Reason::IncludeNotValid);
pub const ROUTE_ACTION_COUNT: Situation = error("RouteError", "RouteActionCountNotValid", Reason::ProxyNotValid);
pub const SECRET_NOT_VALID: Situation = error("TLSError", "SecretNotValid", Reason::SecretNotValid);
pub const SERVICE_UNRESOLVED: Situation =
    error("ServiceError", "ServiceUnresolvedReference", Reason::ServiceUnresolvedReference);
pub const SERVICE_PORT_NOT_VALID: Situation =
    error("ServiceError", "ServicePortInvalid", Reason::ServiceUnresolvedReference);
pub const SERVICE_PROTOCOL: Situation = error("ServiceError", "UnsupportedProtocol", Reason::UnsupportedBackend);
pub const SHADOWED_ROUTE: Situation = warning("RouteError", "ShadowedRoute", Reason::Ambiguous);
pub const SLOW_START_NOT_VALID: Situation = error("ServiceError", "SlowStartInvalid", Reason::ProxyNotValid);
pub const TIMEOUT_NOT_VALID: Situation = error("RouteError", "TimeoutPolicyNotValid", Reason::ProxyNotValid);
pub const TLS_NOT_VALID: Situation = error("TLSError", "TLSConfigNotValid", Reason::TLSConfigNotValid);
pub const TOO_MANY_POLICIES: Situation = error("ServiceError", "TooManyPolicies", Reason::ProxyNotValid);
pub const UPSTREAM_VALIDATION: Situation = error("ServiceError", "TLSUpstreamValidation", Reason::ProxyNotValid);

/// Returns the error of a header policy, of requests or responses.
pub fn headers_not_valid(of_service: bool, of_requests: bool) -> Situation {
    let r#type = if of_service { "ServiceError" } else { "RouteError" };
    let reason = match (of_requests, of_service) {
        (true, _) => "RequestHeadersPolicyInvalid",
        (false, false) => "ResponseHeaderPolicyInvalid",
        (false, true) => "ResponseHeadersPolicyInvalid",
    };
    error(r#type, reason, Reason::ProxyNotValid)
}

/// Returns the error of a problem that the engine or a cluster has found.
pub fn of_reason(reason: Reason) -> Situation {
    match reason {
        Reason::SecretNotValid => SECRET_NOT_VALID,
        Reason::TLSConfigNotValid => TLS_NOT_VALID,
        Reason::DuplicateVhost | Reason::Conflicted => error("VirtualHostError", reason.as_str(), reason),
        Reason::ServiceUnresolvedReference | Reason::UnsupportedBackend => {
            error("ServiceError", reason.as_str(), reason)
        }
        // The reason of Contour.
        Reason::ExternalNameNotAllowed => error("ServiceError", "ServiceUnresolvedReference", reason),
        Reason::RegexTooExpensive => error("RouteError", reason.as_str(), reason),
        _ => error("SpecError", reason.as_str(), reason),
    }
}
