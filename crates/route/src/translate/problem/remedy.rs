//! The remedies of problems for the owner of an object, by reason. docs/reference/events.md has the same texts.

use super::Reason;

impl Reason {
    /// Every reason, in the order of the documentation.
    pub const ALL: [Self; 38] = [
        Self::ServiceUnresolvedReference,
        Self::UnsupportedBackend,
        Self::ExternalNameNotAllowed,
        Self::PathMatchConditionsNotValid,
        Self::RegexTooExpensive,
        Self::HostNotValid,
        Self::HostNotGranted,
        Self::HostGrantNotValid,
        Self::Conflicted,
        Self::DuplicateVhost,
        Self::IncludeNotValid,
        Self::ProxyNotValid,
        Self::UnsupportedField,
        Self::IgnoredField,
        Self::SecretNotValid,
        Self::TLSConfigNotValid,
        Self::Ambiguous,
        Self::InvalidAnnotation,
        Self::AccessNotRestricted,
        Self::UnsupportedAnnotation,
        Self::UnsupportedPolicy,
        Self::IngressClassNotFound,
        Self::MultipleDefaultClasses,
        Self::ListenerNotValid,
        Self::PolicyNotValid,
        Self::PolicyTooExpensive,
        Self::RouteTooExpensive,
        Self::RouteNotAttached,
        Self::RouteMatchNotValid,
        Self::RouteFilterNotValid,
        Self::SessionPersistenceNotValid,
        Self::ReferenceNotPermitted,
        Self::EndpointNotValid,
        Self::TooManyWildcards,
        Self::TooManyCopies,
        Self::InvalidEncoding,
        Self::CertificateExpiring,
        Self::XdsRejected,
    ];

    /// Returns the remedy for the owner of the object: a sentence in the imperative.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::ServiceUnresolvedReference => "Create the Service, or correct the name or the port of the backend.",
            Self::UnsupportedBackend => "Use a Service with a port of the right protocol as the backend.",
            Self::ExternalNameNotAllowed => {
                "Use a Service with endpoints, or ask the operator to allow external names (externalNames.allow)."
            }
            Self::PathMatchConditionsNotValid => {
                "Write an absolute path that a request can have, such as \"/api\", or a valid regular expression (RE2)."
            }
            Self::RegexTooExpensive => {
                "Simplify the regular expression: fewer alternatives, smaller counts, no nested repetitions."
            }
            Self::HostNotValid => {
                "Write a DNS name in lower case, such as \"shop.example.com\" or \"*.example.com\", without port and scheme."
            }
            Self::HostNotGranted => {
                "Use another host, or ask the operator for a HostGrant that gives the host to the namespace."
            }
            Self::HostGrantNotValid => {
                "Correct the host (\"shop.example.com\", \"*.example.com\", or \"**.example.com\"), or the selector of namespaces."
            }
            Self::Conflicted => {
                "Use another host or path, remove one of the duplicates, or let the owner of the host delegate it \
                 (lockgate.dev/delegate-to)."
            }
            Self::DuplicateVhost => {
                "Use another host, delete one of the HTTPProxies, or let one of them include the other."
            }
            Self::IncludeNotValid => {
                "Create the included HTTPProxy with the same class and without spec.virtualhost, and use different conditions for \
                 each include."
            }
            Self::ProxyNotValid => "Correct the field that the message names; the other routes are served.",
            Self::UnsupportedField => {
                "Remove the field, or use an HTTPPolicy or a BackendPolicy instead; docs/httpproxy.md lists the supported fields."
            }
            Self::IgnoredField => {
                "Remove the field if nothing else reads it; docs/httpproxy.md lists the supported fields."
            }
            Self::SecretNotValid => {
                "Create a Secret of type \"kubernetes.io/tls\" with a certificate for the host and its key, in the same \
                 namespace."
            }
            Self::TLSConfigNotValid => "Correct the fields of TLS that the message names.",
            Self::Ambiguous => {
                "Write the intended form explicitly, such as the path type ImplementationSpecific for a regular expression. If the \
                 served form is intended, no action is needed."
            }
            Self::InvalidAnnotation => {
                "Correct the annotation, or remove it; docs/annotations.md lists the annotations and their values."
            }
            Self::AccessNotRestricted => {
                "Protect the paths in another way and remove the annotation or the policy, or ask the operator to ignore it \
                 (ingress.ignoredAnnotations, gateway.ignoredPolicies)."
            }
            Self::UnsupportedAnnotation => {
                "Remove the annotation, or use a setting, an annotation of Lockgate, or an HTTPRoute instead."
            }
            Self::UnsupportedPolicy => {
                "Remove the policy if nothing else reads it, or write an HTTPPolicy, a BackendPolicy, or a setting instead."
            }
            Self::IngressClassNotFound => {
                "Set spec.ingressClassName to an IngressClass of Lockgate, or create that IngressClass."
            }
            Self::MultipleDefaultClasses => {
                "Keep the annotation ingressclass.kubernetes.io/is-default-class on one IngressClass only."
            }
            Self::ListenerNotValid => {
                "Correct the field that the message names. A listener needs a supported protocol, a port and hostname of its own, \
                 and a usable certificate."
            }
            Self::PolicyNotValid => {
                "Correct the target and the values of the policy, and create the ConfigMap, the Secret, or the Service that it names."
            }
            Self::PolicyTooExpensive => {
                "Use fewer certificate authorities, name one port of a Service (sectionName), or ask the operator for a higher limit \
                 (tenants.maxConfigurationPerNamespace)."
            }
            Self::RouteTooExpensive => {
                "Use fewer hosts and matches, smaller filters and policies, and no perClientAddress for many matches, attach the route \
                 to fewer listeners (sectionName), or ask the operator for a higher limit (tenants.maxConfigurationPerNamespace)."
            }
            Self::RouteNotAttached => {
                "Correct parentRefs or hostnames, or allow the route in allowedRoutes of the listener."
            }
            Self::RouteMatchNotValid => "Correct the match or the duration; the rest of the rule is served.",
            Self::RouteFilterNotValid => "Correct the filter, or remove it from the rule.",
            Self::SessionPersistenceNotValid => {
                "Correct the field that the message names; docs/gateway-api.md lists what session persistence supports."
            }
            Self::ReferenceNotPermitted => {
                "Create a ReferenceGrant in the namespace of the referenced object, or refer to an object of the same \
                 namespace."
            }
            Self::EndpointNotValid => "Use IP addresses of pods or of hosts outside of Envoy's own machine.",
            Self::TooManyWildcards => {
                "Use fewer wildcard hosts with TLS, or certificates with fewer names, or ask the operator for a \
                 higher limit (tenants.maxConfigurationPerNamespace)."
            }
            Self::TooManyCopies => {
                "Use fewer such hosts or rules, add a rule for a host that only a TLS entry names, or ask the operator for a \
                 higher limit (tenants.maxConfigurationPerNamespace)."
            }
            Self::InvalidEncoding => "Write the text in UTF-8, and the object in the form of its API version.",
            Self::CertificateExpiring => "Renew the certificate.",
            Self::XdsRejected => "Report this as a bug, with the log line of the controller.",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reason_has_a_remedy_that_is_a_sentence() {
        let names: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            let remedy = reason.remedy();
            assert!(remedy.ends_with('.') && remedy.starts_with(|c: char| c.is_ascii_uppercase()), "{remedy}");
        }
        // This is the last reason in the order of the enum. `ALL` is complete if it has as many elements.
        assert_eq!(Reason::ALL.len(), Reason::XdsRejected as usize + 1);
    }
}
