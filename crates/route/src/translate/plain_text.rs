//! The treatment of requests over plain HTTP: served, redirected to HTTPS, or refused.

use std::sync::Arc;

use crate::model::{Action, HeaderMatch, HeaderName, Match, PathMatch, Redirect, RedirectStatus, Route, ValueMatch};
use crate::settings::Settings;

/// The treatment of requests on the plain-text port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainText {
    /// Served by the same routes as behind TLS.
    Serve,
    /// Redirected to `https`.
    Redirect(ToHttps),
    /// Redirected for hosts that are served behind TLS, and served for other hosts.
    RedirectBehindTls(ToHttps),
    /// Not served.
    Closed,
}

impl PlainText {
    /// Returns the treatment of requests that are not redirected.
    #[must_use]
    pub fn without_redirect(self) -> Self {
        match self {
            Self::Serve | Self::Redirect(_) | Self::RedirectBehindTls(_) => Self::Serve,
            Self::Closed => Self::Closed,
        }
    }
}

/// A redirect to `https`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToHttps {
    status: RedirectStatus,
    /// Whether proxies in front of Envoy are trusted with the scheme of a request. One that ends TLS would otherwise get the redirect to
    /// the URL that it has forwarded, forever.
    trusts_scheme: bool,
}

/// The port of a virtual host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VirtualHostPort {
    /// The plain-text port.
    PlainText {
        /// Whether the host is also served behind TLS.
        behind_tls: bool,
    },
    /// The port with TLS.
    Tls,
}

impl ToHttps {
    /// Returns the redirect of the settings.
    pub fn new(settings: &Settings) -> Self {
        let status = RedirectStatus::from_code(settings.tls.redirect_status);
        Self::with_status(status.unwrap_or(RedirectStatus::PermanentRedirect), settings)
    }

    /// Returns the redirect with this status.
    pub fn with_status(status: RedirectStatus, settings: &Settings) -> Self {
        Self { status, trusts_scheme: settings.http.trusted_hops > 0 }
    }

    /// Appends the routes for requests of `route` in plain text.
    fn push(self, route: &Arc<Route>, routes: &mut Vec<Arc<Route>>) {
        if self.trusts_scheme {
            routes.extend(over_https(&route.matches).map(|matches| Arc::new(Route { matches, ..Route::clone(route) })));
        }
        let action = Action::Redirect(Redirect::to_https(self.status));
        // Otherwise a client that is asked for a token would send it in clear text.
        routes.push(Arc::new(Route { action, ..route.without_policy() }));
    }
}

/// Returns the match of requests that a proxy has received over HTTPS.
fn over_https(matches: &Match) -> Option<Match> {
    let name = HeaderName::parse("x-forwarded-proto")?;
    let mut conditions = matches.conditions().cloned().unwrap_or_default();
    let (value, inverted, missing_is_empty) = (ValueMatch::exact("https"), false, false);
    conditions.headers.push(HeaderMatch { name, value, inverted, missing_is_empty });
    Some(Match::new(matches.path.clone(), conditions))
}

/// Appends the variant of `route` for one of the ports to `routes`. `route` is the variant for TLS.
pub fn push_on_side(route: &Arc<Route>, plain_text: PlainText, side: VirtualHostPort, routes: &mut Vec<Arc<Route>>) {
    let redirect = match (plain_text, side) {
        (PlainText::Redirect(redirect), VirtualHostPort::PlainText { .. }) => Some(redirect),
        (PlainText::RedirectBehindTls(redirect), VirtualHostPort::PlainText { behind_tls }) => {
            Some(redirect).filter(|_| behind_tls)
        }
        (PlainText::Closed, VirtualHostPort::PlainText { .. }) => {
            // The path keeps its rank: its requests must not reach a shorter path, perhaps of another namespace, in clear text.
            routes.push(Arc::new(Route { action: Action::respond(404), ..route.without_policy() }));
            return;
        }
        (PlainText::Serve, VirtualHostPort::PlainText { .. }) | (_, VirtualHostPort::Tls) => None,
    };
    match redirect.filter(|_| !is_challenge(&route.matches.path)) {
        Some(redirect) => redirect.push(route, routes),
        None => routes.push(route.clone()),
    }
}

/// Returns whether an ACME authority uses the path to verify a host before it issues a certificate. Source: RFC 8555
/// section 8.3.
pub fn is_challenge(path: &PathMatch) -> bool {
    const CHALLENGES: &str = "/.well-known/acme-challenge";
    match path {
        PathMatch::Exact(text) | PathMatch::SeparatedPrefix(text) | PathMatch::Prefix(text) => {
            text.strip_prefix(CHALLENGES).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        PathMatch::Regex(_) => false,
    }
}
