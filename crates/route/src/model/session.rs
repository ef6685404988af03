//! Session persistence: the requests of a client's session reach the same endpoint.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use super::{ClusterId, ForwardFilter, HeaderName};

/// The session persistence of a route. If the endpoint of a session no longer exists, the session moves to another
/// endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Session {
    /// Envoy sets a cookie that contains the address of the endpoint.
    Cookie(SessionCookie),
    /// Envoy sets a response header that contains the address of the endpoint. Clients repeat it in their requests.
    Header(HeaderName),
}

impl Session {
    /// Returns the session persistence of a route with these filters.
    pub fn of(filters: &[ForwardFilter]) -> Option<&Self> {
        filters.iter().rev().find_map(|filter| match filter {
            ForwardFilter::Session(session) => Some(&**session),
            _ => None,
        })
    }
}

/// A session cookie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionCookie {
    /// The name.
    pub name: CookieName,
    /// The path of the requests for which clients send the cookie.
    pub path: Arc<str>,
    /// The lifetime of the cookie at clients, in whole seconds. `None`: the duration of a browser's session.
    pub lifetime: Option<Duration>,
    /// Whether sessions stay at one of several clusters.
    pub keeps_cluster: bool,
}

impl SessionCookie {
    /// Returns the name of the cookie that names the cluster of a session: `shop-backend`.
    pub fn cluster_name(&self) -> String {
        format!("{}-backend", self.name)
    }

    /// Returns the value of this cookie for the sessions of a cluster: `1f3870be274f6c49`.
    pub fn value_of(cluster: &ClusterId) -> String {
        format!("{:016x}", xxh3_64(cluster.to_string().as_bytes()))
    }

    /// Returns the cookie for the sessions of a cluster: `shop-backend=1f3870be274f6c49`.
    pub fn for_cluster(&self, cluster: &ClusterId) -> String {
        format!("{}={}", self.cluster_name(), Self::value_of(cluster))
    }
}

/// The name of a cookie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieName(Arc<str>);

impl CookieName {
    /// Parses the name of a cookie. Returns `None` if `text` is not a cookie name. Source: RFC 6265 section 4.1.1,
    /// `cookie-name`.
    pub fn parse(text: &str) -> Option<Self> {
        HeaderName::is_token(text).then(|| Self(text.into()))
    }
}

impl fmt::Display for CookieName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_cookie_cannot_contain_attributes() {
        assert_eq!(CookieName::parse("Shop.id").map(|name| name.to_string()), Some("Shop.id".to_owned()));
        for bad in ["", "a b", "a=b", "a; Domain=example.com", "a\r\nset-cookie: b", "\u{e9}"] {
            assert_eq!(CookieName::parse(bad), None, "{bad:?}");
        }
    }
}
