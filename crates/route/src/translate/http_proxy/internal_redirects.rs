//! The redirects of Services that Envoy follows itself.

use super::situation::{Block, Situation, error};
use super::tree::{Declaring, Tree};
use crate::model::{InternalRedirects, RedirectStatus, SchemeChange};
use crate::objects::http_proxy::{InternalRedirectPolicy, ProxyRoute};
use crate::translate::fault::FieldFault;
use crate::translate::problem::Reason;

/// The most redirects of a request that Envoy follows. Each is another request to a Service.
const MOST: u32 = 10;
const NOT_VALID: Situation = error("RouteError", "InternalRedirectPolicyNotValid", Reason::ProxyNotValid);

impl Tree<'_> {
    /// Returns the redirects that Envoy follows for a route. What is not valid is reported, and clients receive the redirects.
    pub fn internal_redirects(
        &mut self,
        object: &Declaring,
        field: &str,
        route: &ProxyRoute,
    ) -> Option<Box<InternalRedirects>> {
        let policy = route.internal_redirect_policy.as_ref()?;
        let field = format!("{field}.internalRedirectPolicy");
        self.report.add_rest(&object.origin, &field, (&policy.rest, &[]), Block::Route, "left out");
        if self.host.is_wildcard {
            let message = "Envoy follows redirects for exact hosts only";
            let situation = Block::Route.ignored();
            self.report.add(&object.origin, field, &situation, message, "clients receive the redirects");
            return None;
        }
        let parsed = parse(policy);
        let redirects = match parsed {
            Ok(redirects) => redirects,
            Err(fault) => {
                let FieldFault { field, message } = fault.within(field);
                self.report.add(&object.origin, field, &NOT_VALID, message, "clients receive the redirects");
                return None;
            }
        };
        if redirects.most == MOST && policy.max_internal_redirects > i64::from(MOST) {
            let message = format!("{} is larger than {MOST}", policy.max_internal_redirects);
            let (field, situation) = (format!("{field}.maxInternalRedirects"), Block::Route.ignored());
            self.report.add(&object.origin, field, &situation, message, &format!("{MOST} applied"));
        }
        Some(Box::new(redirects))
    }
}

/// Parses a policy.
fn parse(policy: &InternalRedirectPolicy) -> Result<InternalRedirects, FieldFault> {
    let InternalRedirectPolicy {
        max_internal_redirects: most,
        redirect_response_codes: codes,
        allow_cross_scheme_redirect: schemes,
        deny_repeated_route_redirect: is_followed_once,
        rest: _,
    } = policy;
    let most = match u32::try_from(*most) {
        Ok(most) => most.clamp(1, MOST),
        Err(_) if *most > 0 => MOST,
        Err(_) => return Err(FieldFault::new(".maxInternalRedirects", format!("{most} is not a number of redirects"))),
    };
    let status = |code: &i64| {
        let status = u16::try_from(*code).ok().and_then(RedirectStatus::from_code);
        status.ok_or_else(|| FieldFault::new(".redirectResponseCodes", format!("{code} is not a status of a redirect")))
    };
    let mut statuses: Vec<_> = codes.iter().map(status).collect::<Result<_, _>>()?;
    if statuses.is_empty() {
        statuses.push(RedirectStatus::Found);
    }
    statuses.sort();
    statuses.dedup();
    let schemes = match schemes.as_str() {
        "" | "Never" => SchemeChange::Never,
        "SafeOnly" => SchemeChange::ToPlainText,
        "Always" => SchemeChange::Always,
        other => {
            return Err(FieldFault::new(
                ".allowCrossSchemeRedirect",
                format!("{other:?} is not Always, Never, or SafeOnly"),
            ));
        }
    };
    // All routes of an object have one name in Envoy, so the second redirect would repeat the first one.
    let most = if *is_followed_once { 1 } else { most };
    Ok(InternalRedirects { most, statuses, schemes })
}
