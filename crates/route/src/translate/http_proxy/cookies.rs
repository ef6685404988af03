//! The changes of the cookies that Services set.

use super::situation::Block;
use super::tree::{Declaring, Tree};
use crate::model::{
    ClusterFilter, CookieAttribute, CookieName, CookieRewrite, CookieRewrites, HeaderChange, HeaderName, HeaderValue,
    SameSite,
};
use crate::objects::http_proxy::{CookieRewritePolicy, CookieValue, ProxyService};

/// The reason of a change that is not valid.
const REASON: &str = "CookieRewritePoliciesInvalid";
/// The maximum number of changed cookies of a route or a Service.
const MOST: usize = 32;
/// The maximum number of routes of a root with changes of cookies. Each worker of Envoy has an interpreter of 100 KB for each of them.
const MOST_ROUTES: usize = 32;

/// Parses the changes of a route or a Service. A change that is not valid is left out.
pub fn parse(
    tree: &mut Tree,
    object: &Declaring,
    field: &str,
    policies: &[CookieRewritePolicy],
    block: Block,
) -> Vec<CookieRewrite> {
    let mut rewrites: Vec<CookieRewrite> = Vec::new();
    for (index, policy) in policies.iter().enumerate() {
        let parsed = rewrite(policy).and_then(|rewrite| match rewrites.iter().any(|one| one.name == rewrite.name) {
            true => Err(format!("cookie {:?} has an earlier entry", policy.name)),
            false if rewrites.len() == MOST => Err(format!("more than {MOST} cookies")),
            false => Ok(rewrite),
        });
        match parsed {
            Ok(rewrite) => rewrites.push(rewrite),
            Err(message) => {
                let field = format!("{field}.cookieRewritePolicies[{index}]");
                tree.report.add(&object.origin, field, &block.condition(REASON), message, "the cookie is not changed");
            }
        }
    }
    rewrites
}

fn rewrite(policy: &CookieRewritePolicy) -> Result<CookieRewrite, String> {
    let CookieRewritePolicy { name, path_rewrite, domain_rewrite, secure, same_site, rest } = policy;
    let of_values = [path_rewrite, domain_rewrite].into_iter().flatten().flat_map(|value| value.rest.names());
    if let Some(name) = rest.names().chain(of_values).next() {
        return Err(format!("field {name:?} is not supported"));
    }
    let attribute = |value: &Option<CookieValue>, is_valid: fn(&str) -> bool| match value {
        None => Ok(None),
        Some(CookieValue { value, .. }) => match CookieAttribute::parse(value).filter(|_| is_valid(value)) {
            Some(attribute) => Ok(Some(attribute)),
            None => Err(format!("{value:?} is not the value of an attribute")),
        },
    };
    let is_domain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    let rewrite = CookieRewrite {
        name: CookieName::parse(name).ok_or_else(|| format!("{name:?} is not the name of a cookie"))?,
        path: attribute(path_rewrite, |_| true)?,
        domain: attribute(domain_rewrite, is_domain)?,
        secure: *secure,
        same_site: match same_site.as_deref() {
            None | Some("") => None,
            Some("Strict") => Some(SameSite::Strict),
            Some("Lax") => Some(SameSite::Lax),
            Some("None") => Some(SameSite::None),
            Some(other) => {
                return Err(format!("sameSite {other:?} is none of \"Strict\", \"Lax\", and \"None\""));
            }
        },
    };
    let CookieRewrite { name: _, path, domain, secure, same_site } = &rewrite;
    match (path, domain, secure, same_site) {
        (None, None, None, None) => Err("no attribute is set".to_owned()),
        _ => Ok(rewrite),
    }
}

/// The changes of the cookies of a route, and the number of the changes of each Service.
#[derive(Debug, Default)]
pub struct Cookies {
    /// The changes. `None`: no cookie is changed.
    pub rewrites: Option<CookieRewrites>,
    numbers: Vec<usize>,
}

impl Cookies {
    /// Returns the filter of the cluster of a Service, by its index, if Services have different changes.
    pub fn filter(&self, index: usize) -> Option<ClusterFilter> {
        self.rewrites.as_ref().filter(|rewrites| rewrites.lists.len() > 1)?;
        let number = self.numbers.get(index)?;
        let (name, value) = HeaderName::parse(CookieRewrites::HEADER).zip(HeaderValue::parse(&number.to_string()))?;
        Some(ClusterFilter::ResponseHeaders(vec![HeaderChange::Set(name, value)]))
    }
}

/// Adds the changes of a route to those of a Service, which take precedence for each attribute.
fn merged(mut own: Vec<CookieRewrite>, of_route: &[CookieRewrite]) -> Vec<CookieRewrite> {
    for inherited in of_route {
        let Some(one) = own.iter_mut().find(|one| one.name == inherited.name) else {
            own.push(inherited.clone());
            continue;
        };
        let CookieRewrite { name: _, path, domain, secure, same_site } = inherited;
        one.path = one.path.take().or_else(|| path.clone());
        one.domain = one.domain.take().or_else(|| domain.clone());
        one.secure = one.secure.or(*secure);
        one.same_site = one.same_site.or(*same_site);
    }
    own
}

/// Parses the changes of a route and of its Services, which take precedence for each attribute.
pub fn of_services(
    tree: &mut Tree,
    object: &Declaring,
    field: &str,
    of_route: &[CookieRewrite],
    services: &[ProxyService],
) -> Cookies {
    let (mut lists, mut numbers) = (Vec::new(), Vec::new());
    for (index, service) in services.iter().enumerate() {
        let field = format!("{field}.services[{index}]");
        let own = parse(tree, object, &field, &service.cookie_rewrite_policies, Block::Service);
        if service.mirror {
            numbers.push(0);
            continue;
        }
        let list = merged(own, of_route);
        let at = lists.iter().position(|one| *one == list).unwrap_or(lists.len());
        if at == lists.len() {
            lists.push(list);
        }
        numbers.push(at + 1);
    }
    if lists.iter().all(Vec::is_empty) {
        return Cookies::default();
    }
    if tree.policies.interpreters == MOST_ROUTES {
        let message = format!("the root has more than {MOST_ROUTES} routes with changes of cookies");
        let situation = Block::Route.condition(REASON);
        tree.report.add(&object.origin, field, &situation, message, "no cookie of the route is changed");
        return Cookies::default();
    }
    tree.policies.interpreters += 1;
    Cookies { rewrites: Some(CookieRewrites { lists }), numbers }
}
