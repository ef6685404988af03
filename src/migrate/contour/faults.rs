//! The faults of HTTPProxies: what each costs with Contour. Lockgate isolates most of them.
//!
//! A fault that the table lacks needs attention. So does a fault that only Lockgate has, such as a field that is not served.

use super::row::Verdict;

/// The consequence of a fault with Contour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// The same part is lost.
    Same(&'static str),
    /// All routes of the object are lost.
    Routes,
    /// The host is lost, with all its routes.
    Host,
}

use Cost::{Host, Routes, Same};

/// The reasons in the status of an HTTPProxy, with the consequence with Contour.
const COSTS: &[(&str, Cost)] = &[
    ("AmbiguousReplacement", Routes),
    ("AuthBadResourceVersion", Host),
    ("AuthContextForHTTP", Host),
    ("CACertificateNotDelegated", Routes),
    ("CertificateNamesDiffer", Same("Contour presents the certificate, too")),
    ("ClientValidationInvalid", Host),
    ("DelegationNotPermitted", Host),
    ("DuplicateMatchConditions", Same("Contour leaves the include out, too")),
    ("DuplicateProviderName", Host),
    ("DuplicateReplacement", Routes),
    ("DuplicateVhost", Same("Contour does not serve the object either")),
    ("ExtensionServiceNotFound", Host),
    ("FallbackNotDelegated", Host),
    ("FallbackNotPresent", Host),
    ("FallbackNotValid", Host),
    ("FQDNNotSpecified", Same("Contour does not serve the object either")),
    ("FQDNNotValid", Same("Contour does not serve the object either")),
    ("HeaderMatchConditionsNotValid", Routes),
    ("IncludeCreatesCycle", Same("Contour does not follow the include either")),
    ("IncludeNotFound", Same("Contour answers its requests 502")),
    ("IncompatibleIPAddressFilters", Routes),
    ("InvalidCIDR", Routes),
    ("IPFilterPolicyNotValid", Routes),
    ("JWTProviderNotValid", Host),
    ("MultipleDefaultProvidersSpecified", Host),
    ("MustHavePrefix", Routes),
    ("NothingDefined", Same("Contour does not serve the object either")),
    ("OnlyOneMirror", Routes),
    ("Orphaned", Same("Contour does not serve the object either")),
    ("PathMatchConditionsNotValid", Routes),
    ("PolicyDidNotParse", Host),
    ("QueryParameterMatchConditionsNotValid", Routes),
    ("RequestRedirectPolicy", Routes),
    ("RootIncludesRoot", Same("Contour answers its requests 502")),
    ("RootProxyNotAllowedInNamespace", Same("Contour does not serve the object either")),
    ("RouteActionCountNotValid", Routes),
    ("SecretNotValid", Host),
    ("ServicePortInvalid", Routes),
    ("ServiceUnresolvedReference", Same("Contour answers 503, too")),
    ("ShadowedRoute", Same("Contour serves the last one, too")),
    ("TimeoutPolicyNotValid", Routes),
    ("TLSIncompatibleFeatures", Host),
    ("TLSMustBeConfigured", Host),
    ("UnsupportedProtocol", Routes),
];

/// Returns the consequence of a fault with Contour, if it is known. `field` is the faulty field.
pub fn cost(reason: &str, field: &str) -> Option<Cost> {
    if reason == "IgnoredField" && field.ends_with(".permitInsecure") {
        return Some(Same("Contour redirects to HTTPS, too"));
    }
    let (_, cost) = COSTS.iter().find(|(known, _)| *known == reason)?;
    // A fault of a list of addresses or of a TCP proxy costs the host of the object.
    let of_host = field.starts_with("spec.virtualhost") || field.starts_with("spec.tcpproxy");
    Some(match cost {
        Routes if of_host => Host,
        Same(_) if field.starts_with("spec.tcpproxy") => Host,
        cost => *cost,
    })
}

/// Returns the verdict on a fault, and the consequence with Contour. `count` is the number of routes and includes of the object.
pub fn judge(cost: Cost, count: usize) -> (Verdict, &'static str) {
    match cost {
        Same(text) => (Verdict::Same, text),
        Routes if count > 1 => (Verdict::Better, "Contour loses all routes of the object"),
        Routes => (Verdict::Same, "Contour does not serve the route either"),
        Host => (Verdict::Better, "Contour does not serve the host at all"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_has_each_reason_once() {
        let names: Vec<String> = COSTS.iter().map(|(name, _)| name.to_lowercase()).collect();
        assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
    }

    #[test]
    fn the_field_decides_what_is_lost() {
        assert_eq!(cost("InvalidCIDR", "spec.routes[0].ipAllowPolicy"), Some(Routes));
        assert_eq!(cost("InvalidCIDR", "spec.virtualhost.ipAllowPolicy"), Some(Host));
        assert_eq!(cost("UnsupportedField", "spec.routes[0].new"), None);
        assert_eq!(judge(Routes, 1).0, Verdict::Same);
        assert_eq!(judge(Routes, 2).0, Verdict::Better);
    }
}
