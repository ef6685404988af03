//! The headers with the prefix of Envoy's headers that HTTPProxies change. Contour allows all of them.

use std::collections::BTreeSet;

use lockgate_route::model::HeaderName;
use lockgate_route::objects::Object;
use lockgate_route::objects::http_proxy::HttpProxy;
use serde_json::json;

use super::defaults::row;
use super::draft::Draft;

/// The setting that allows them.
const PATH: &str = "httpProxy.envoyHeaders";

/// Allows the headers that HTTPProxies change and that Envoy itself does not use.
pub fn set(objects: &[Object], draft: &mut Draft) {
    let proxies = objects.iter().filter_map(Object::get::<HttpProxy>);
    let names: BTreeSet<HeaderName> = proxies.flat_map(changed).collect();
    if !names.is_empty() {
        let names: Vec<&str> = names.iter().map(HeaderName::as_str).collect();
        draft.set(PATH, json!(names), "HTTPProxies change them.", row("headers x-envoy-…", ""));
    }
}

/// Returns the headers that the routes and Services of an HTTPProxy change.
fn changed(proxy: &HttpProxy) -> impl Iterator<Item = HeaderName> {
    let of_routes = proxy.spec.routes.iter().flat_map(|route| {
        let of_services = route
            .services
            .iter()
            .flat_map(|service| [&service.request_headers_policy, &service.response_headers_policy]);
        [&route.request_headers_policy, &route.response_headers_policy].into_iter().chain(of_services)
    });
    let names = of_routes.flatten().flat_map(|policy| policy.set.iter().map(|one| &one.name).chain(&policy.remove));
    names.filter_map(|name| HeaderName::parse_like_envoys(name).ok())
}
