//! Names and addresses: Kubernetes objects, hosts, media types.

use std::net::{IpAddr, SocketAddr};

use serde_json::{Value as Json, json};

use super::Scalar;
use crate::settings::{ServiceAddress, is_label, is_subdomain};

/// `NAMESPACE/NAME` of an object.
pub struct ObjectName;

impl Scalar for ObjectName {
    type Value = (String, String);
    const NAME: &'static str = "`namespace/name`";

    fn parse(text: &str) -> Result<(String, String), String> {
        match text.split_once('/') {
            Some((namespace, name)) if is_label(namespace) && is_subdomain(name) => {
                Ok((namespace.to_owned(), name.to_owned()))
            }
            _ => Err("expected NAMESPACE/NAME, such as ingress/wildcard-tls".to_owned()),
        }
    }

    fn show((namespace, name): &(String, String)) -> Json {
        format!("{namespace}/{name}").into()
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": "^[a-z0-9-]+/[a-z0-9.-]+$"})
    }
}

/// The name of an object whose namespace is known.
pub struct Name;

impl Scalar for Name {
    type Value = String;
    const NAME: &'static str = "name of an object";

    fn parse(text: &str) -> Result<String, String> {
        match is_subdomain(text) {
            true => Ok(text.to_owned()),
            false => Err("expected lower-case letters, digits, - and ., such as lockgate".to_owned()),
        }
    }

    fn show(value: &String) -> Json {
        value.as_str().into()
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": "^[a-z0-9.-]+$"})
    }
}

/// The name of a namespace.
pub struct Namespace;

impl Scalar for Namespace {
    type Value = String;
    const NAME: &'static str = "name of a namespace";

    fn parse(text: &str) -> Result<String, String> {
        match is_label(text) {
            true => Ok(text.to_owned()),
            false => Err("expected lower-case letters, digits and -, such as shop".to_owned()),
        }
    }

    fn show(value: &String) -> Json {
        value.as_str().into()
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": "^[a-z0-9-]+$"})
    }
}

/// The name of an IngressClass.
pub struct ClassName;

impl Scalar for ClassName {
    type Value = String;
    const NAME: &'static str = "name of an IngressClass";

    fn parse(text: &str) -> Result<String, String> {
        match is_subdomain(text) {
            true => Ok(text.to_owned()),
            false => Err("expected lower-case letters, digits, - and ., such as public".to_owned()),
        }
    }

    fn show(value: &String) -> Json {
        value.as_str().into()
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": "^[a-z0-9.-]+$"})
    }
}

/// The name of an annotation. Source: Kubernetes, "Labels and Selectors", syntax of keys.
pub struct AnnotationName;

impl Scalar for AnnotationName {
    type Value = String;
    const NAME: &'static str = "name of an annotation";

    fn parse(text: &str) -> Result<String, String> {
        let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
        let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = name.as_bytes();
        let valid = bytes.len() <= 63
            && is_end(bytes.first())
            && is_end(bytes.last())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
        match valid && prefix.is_none_or(is_subdomain) {
            true => Ok(text.to_owned()),
            false => Err("expected a full name, such as nginx.ingress.kubernetes.io/auth-url".to_owned()),
        }
    }

    fn show(value: &String) -> Json {
        value.as_str().into()
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": "^([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$"})
    }
}

/// The name of a controller. Source: Kubernetes IngressClass v1, `spec.controller`.
pub struct ControllerName;

impl Scalar for ControllerName {
    type Value = String;
    const NAME: &'static str = "name of a controller";

    fn parse(text: &str) -> Result<String, String> {
        let path = |path: &str| {
            !path.is_empty() && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
        };
        match text.split_once('/') {
            Some((domain, rest)) if is_subdomain(domain) && path(rest) && text.len() <= 250 => Ok(text.to_owned()),
            _ => Err("expected DOMAIN/PATH, such as lockgate.dev/internal".to_owned()),
        }
    }

    fn show(value: &String) -> Json {
        value.as_str().into()
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": "^[a-z0-9.-]+/.+$"})
    }
}

/// An address to listen on.
pub struct IpAddress;

impl Scalar for IpAddress {
    type Value = IpAddr;
    const NAME: &'static str = "IP address";

    fn parse(text: &str) -> Result<IpAddr, String> {
        text.parse().map_err(|_| "expected an address such as 10.0.0.1 or 2001:db8::1".to_owned())
    }

    fn show(value: &IpAddr) -> Json {
        value.to_string().into()
    }

    fn schema() -> Json {
        json!({"type": "string"})
    }
}

/// An address and a port to listen on.
pub struct Socket;

impl Scalar for Socket {
    type Value = SocketAddr;
    const NAME: &'static str = "`address:port`";

    fn parse(text: &str) -> Result<SocketAddr, String> {
        text.parse().map_err(|_| "expected an IP address and a port, such as 127.0.0.1:18000 or [::1]:18000".to_owned())
    }

    fn show(value: &SocketAddr) -> Json {
        value.to_string().into()
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": "^.+:[0-9]+$"})
    }
}

/// A public address of Envoy: an IP address or a host name.
pub struct Reachable;

impl Scalar for Reachable {
    type Value = String;
    const NAME: &'static str = "IP address or host name";

    fn parse(text: &str) -> Result<String, String> {
        match text.parse::<IpAddr>() {
            Ok(address) => Ok(address.to_string()),
            Err(_) if is_host_name(text) => Ok(text.to_owned()),
            Err(_) => Err("expected an address such as 203.0.113.7, or a host name such as lb.example.com".to_owned()),
        }
    }

    fn show(value: &String) -> Json {
        value.as_str().into()
    }

    fn schema() -> Json {
        json!({"type": "string"})
    }
}

/// Returns whether the text is a host name and not an address. The last label of an address is a number.
fn is_host_name(text: &str) -> bool {
    let number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    is_subdomain(text) && !text.rsplit('.').next().is_some_and(number)
}

/// The address of a service, in plain text.
pub struct HostPort;

impl Scalar for HostPort {
    type Value = ServiceAddress;
    const NAME: &'static str = "`host:port`";

    fn parse(text: &str) -> Result<ServiceAddress, String> {
        const EXPECTED: &str = "expected HOST:PORT, such as limits.security.svc.cluster.local:8081";
        if text.starts_with("https://") {
            return Err("TLS to this service is not supported: use a port without TLS".to_owned());
        }
        let text = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        let (host, port) = text.rsplit_once(':').ok_or(EXPECTED)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or(EXPECTED)?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(address) => address.parse::<std::net::Ipv6Addr>().map_err(|_| EXPECTED)?.to_string(),
            None if is_host_name(host) || host.parse::<std::net::Ipv4Addr>().is_ok() => host.to_owned(),
            None => return Err(EXPECTED.to_owned()),
        };
        Ok(ServiceAddress { host, port })
    }

    fn show(value: &ServiceAddress) -> Json {
        value.to_string().into()
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": "^(http://)?[^/]+:[0-9]+/?$"})
    }
}

/// Free text.
pub struct FreeText;

impl Scalar for FreeText {
    type Value = String;
    const NAME: &'static str = "text";

    fn parse(text: &str) -> Result<String, String> {
        match !text.is_empty() && !text.chars().any(char::is_control) {
            true => Ok(text.to_owned()),
            false => Err("expected at least one character, and no control characters".to_owned()),
        }
    }

    fn show(value: &String) -> Json {
        value.as_str().into()
    }

    fn schema() -> Json {
        json!({"type": "string", "minLength": 1})
    }
}

/// A media type.
pub struct MediaType;

impl Scalar for MediaType {
    type Value = String;
    const NAME: &'static str = "media type";

    fn parse(text: &str) -> Result<String, String> {
        let token = |text: &str| {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
        };
        match text.split_once('/') {
            Some((kind, subtype)) if token(kind) && token(subtype) => Ok(text.to_ascii_lowercase()),
            _ => Err("expected TYPE/SUBTYPE, such as text/html".to_owned()),
        }
    }

    fn show(value: &String) -> Json {
        value.as_str().into()
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": "^[^/]+/[^/]+$"})
    }
}

/// Returns whether the text is an HTTP token without `%`, which starts a command of Envoy. Source: RFC 9110 section
/// 5.6.2.
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_kubernetes_takes() {
        assert_eq!(ObjectName::parse("shop/cart.tls"), Ok(("shop".to_owned(), "cart.tls".to_owned())));
        for text in ["cart", "/cart", "shop/", "shop/cart/tls", "Shop/cart", "-a/b", "a b/c", "a.b/c"] {
            assert!(ObjectName::parse(text).is_err(), "{text}");
        }
        assert!(ClassName::parse("a.b").is_ok() && ClassName::parse("A").is_err());
        assert!(AnnotationName::parse("a.b/auth-url").is_ok() && AnnotationName::parse("plugins.konghq.com").is_ok());
        for text in ["", "*", "a.b/", "a.b/*", "A.b/c", "a.b/c/d", "a.b/-c", "a.b/c."] {
            assert!(AnnotationName::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_are_one_spelling_of_one_thing() {
        assert_eq!(Reachable::parse("2001:DB8:0::1"), Ok("2001:db8::1".to_owned()));
        assert!(Reachable::parse("lb.example.com").is_ok());
        assert!(["1.2.3.256", "a_b.c", "", "http://x.y", "1.2.3"].iter().all(|text| Reachable::parse(text).is_err()));
    }

    #[test]
    fn services_are_hosts_and_ports() {
        let endpoint = |host: &str, port| Ok(ServiceAddress { host: host.to_owned(), port });
        assert_eq!(HostPort::parse("http://otel.obs.svc:4317/"), endpoint("otel.obs.svc", 4317));
        assert_eq!(HostPort::parse("[2001:db8::1]:4317"), endpoint("2001:db8::1", 4317));
        assert_eq!(HostPort::parse("10.0.0.1:4317"), endpoint("10.0.0.1", 4317));
        assert!(HostPort::parse("https://otel:4317").is_err_and(|why| why.contains("not supported")));
        for text in ["otel", "otel:0", "otel:http", ":4317", "2001:db8::1:4317", "otel:4317/v1"] {
            assert!(HostPort::parse(text).is_err(), "{text}");
        }
    }
}
