//! Changes of headers, of routes and of Services.

use std::collections::BTreeSet;

use super::situation;
use super::tree::{Declaring, Tree};
use crate::model::{HeaderChange, HeaderFormat, HeaderName, HeaderValue, Host};
use crate::objects::http_proxy::{HeadersPolicy, ProxyService};
use crate::settings::HttpProxies;
use crate::translate::fault::FieldFault;
use crate::translate::host;

/// The messages that a policy changes.
#[derive(Debug, Clone, Copy)]
pub enum ChangedMessages<'a> {
    /// The requests of a route.
    Requests,
    /// The responses of a route.
    Responses,
    /// The requests to a Service, or its responses.
    OfService {
        /// The Service.
        service: &'a ProxyService,
        /// Whether requests are changed.
        of_requests: bool,
    },
}

/// The maximum number of operators of a policy.
const MOST_OPERATORS: usize = 64;
/// The maximum number of operators whose values clients choose. Each of them can insert a text of the size of all headers of a request.
const MOST_OPERATORS_OF_CLIENTS: usize = 16;

/// The host that replaces that of requests.
#[derive(Debug, Clone, PartialEq)]
pub enum NewHost {
    /// A DNS name.
    Name(HeaderValue),
    /// The value of a header of the request.
    FromHeader(HeaderName),
}

impl NewHost {
    /// Returns the DNS name.
    pub fn name(&self) -> Option<&HeaderValue> {
        match self {
            Self::Name(name) => Some(name),
            Self::FromHeader(_) => None,
        }
    }
}

/// Returns the changes of headers, and the host that replaces that of requests. A change that is not valid is left out.
pub fn parse(
    tree: &mut Tree,
    object: &Declaring,
    field: &str,
    policy: &HeadersPolicy,
    changes: ChangedMessages,
) -> (Vec<HeaderChange>, Option<NewHost>) {
    let (of_service, of_requests) = match changes {
        ChangedMessages::Requests => (false, true),
        ChangedMessages::Responses => (false, false),
        ChangedMessages::OfService { of_requests, .. } => (true, of_requests),
    };
    let proxies = &tree.resolver.context.settings.http_proxies;
    let situation = situation::headers_not_valid(of_service, of_requests);
    let block = if of_service { situation::Block::Service } else { situation::Block::Route };
    // An unknown change of headers restricts no access, but is no part of a message that is served.
    let mut faults: Vec<FieldFault> = Vec::new();
    let (mut parsed, mut new_host, mut names) = (Vec::new(), None, BTreeSet::new());
    let (mut operators, mut of_clients) = (0, 0);
    for (index, setting) in policy.set.iter().enumerate() {
        let field = format!("{field}.set[{index}]");
        if !names.insert(setting.name.to_ascii_lowercase()) {
            faults.push(FieldFault::new(format!("{field}.name"), format!("header {:?} is set twice", setting.name)));
            continue;
        }
        let text = replaced(&setting.value, object, changes);
        if setting.name.eq_ignore_ascii_case("host") {
            match host_value(&text, changes) {
                Some(host) => new_host = Some(host),
                None => {
                    let message = "\"Host\" can be set for requests, to a DNS name, or in a route to %REQ(NAME)%";
                    faults.push(FieldFault::new(field, message));
                }
            }
            continue;
        }
        let Some(format) = HeaderFormat::parse(&text) else {
            faults.push(FieldFault::new(format!("{field}.value"), format!("{text:?} is not the value of a header")));
            continue;
        };
        operators += format.operators();
        of_clients += format.operators_of_clients();
        let excess = if of_clients > MOST_OPERATORS_OF_CLIENTS {
            Some(format!("more than {MOST_OPERATORS_OF_CLIENTS} operators with headers or certificates of clients"))
        } else {
            (operators > MOST_OPERATORS).then(|| format!("more than {MOST_OPERATORS} operators"))
        };
        if let Some(excess) = excess {
            faults.push(FieldFault::new(format!("{field}.value"), format!("the policy has {excess}")));
            continue;
        }
        match proxies.changeable(&setting.name) {
            Ok(name) if format.operators() > 0 => parsed.push(HeaderChange::SetFormat(name, format)),
            Ok(name) => parsed.extend(HeaderValue::parse(&text).map(|value| HeaderChange::Set(name, value))),
            Err(message) => faults.push(FieldFault::new(format!("{field}.name"), message)),
        }
    }
    for (index, text) in policy.remove.iter().enumerate() {
        match proxies.changeable(text) {
            Ok(name) => parsed.push(HeaderChange::Remove(name)),
            Err(message) => faults.push(FieldFault::new(format!("{field}.remove[{index}]"), message)),
        }
    }
    // Clients could choose the host by another header, without the check of the host.
    if let Some(NewHost::FromHeader(name)) = &new_host
        && parsed.iter().any(|change| change.may_replace_host_in(name))
    {
        let message =
            format!("\"Host\" cannot be %REQ({name})%: this policy sets that header to something else than a host");
        faults.push(FieldFault::new(format!("{field}.set"), message));
        new_host = None;
    }
    for FieldFault { field, message } in faults {
        tree.report.add(&object.origin, field, &situation, message, "header left out");
    }
    let rests = policy.set.iter().map(|setting| &setting.rest).chain([&policy.rest]);
    for rest in rests {
        for name in rest.names() {
            let message = format!("field {name:?} is not supported");
            tree.report.add(&object.origin, format!("{field}.{name}"), &block.ignored(), message, "left out");
        }
    }
    (parsed, new_host)
}

/// Returns the headers that a policy changes.
pub fn changed(policy: Option<&HeadersPolicy>, proxies: &HttpProxies) -> BTreeSet<HeaderName> {
    let names =
        policy.into_iter().flat_map(|policy| policy.set.iter().map(|setting| &setting.name).chain(&policy.remove));
    names.filter_map(|name| proxies.changeable(name).ok()).collect()
}

fn host_value(text: &str, changes: ChangedMessages) -> Option<NewHost> {
    match changes {
        ChangedMessages::Requests | ChangedMessages::OfService { of_requests: true, .. } => {}
        ChangedMessages::Responses | ChangedMessages::OfService { of_requests: false, .. } => return None,
    }
    if let (ChangedMessages::Requests, Some(name)) = (changes, HeaderFormat::header_of_request(text)) {
        return HeaderName::parse(name).map(NewHost::FromHeader);
    }
    match host::parse(text) {
        Ok(name @ Host::Exact(_)) => HeaderValue::parse(&name.to_string()).map(NewHost::Name),
        _ => None,
    }
}

/// Returns the value of a header with the names of the object and its Service.
fn replaced(text: &str, object: &Declaring, changes: ChangedMessages) -> String {
    let mut text = text.replace("%CONTOUR_NAMESPACE%", &object.proxy.meta.key.namespace);
    if let ChangedMessages::OfService { service, .. } = changes {
        text = text.replace("%CONTOUR_SERVICE_NAME%", &service.name);
        text = text.replace("%CONTOUR_SERVICE_PORT%", &service.port.to_string());
    }
    text
}
