//! Limits of the request rate that a service counts for all Envoys: the descriptors that Envoy sends.

use lockgate_xds::provenance::ObjectRef;

use super::report::ProxyReport;
use super::situation::Block;
use crate::model::{EntryHeader, GlobalRateLimit, HeaderCondition, HeaderName, RateLimitEntry};
use crate::objects::http_proxy::{DescriptorEntry, GlobalRateLimitPolicy, HeaderValueMatch, ValueCondition};
use crate::translate::dialect::Resolver;
use crate::translate::fault::FieldFault;
use crate::translate::patterns::Patterns;

/// The maximum numbers of descriptors, of entries of a descriptor, and of headers of an entry, and the longest text in bytes. Each route
/// has a copy.
const DESCRIPTORS: usize = 16;
const ENTRIES: usize = 8;
const HEADERS: usize = 8;
const LONGEST: usize = 512;

/// The descriptors of a host or a route.
#[derive(Debug, Clone, Default)]
pub struct Descriptors {
    /// Whether those of the more general level are not sent.
    is_disabled: bool,
    own: Vec<Vec<RateLimitEntry>>,
}

impl Descriptors {
    /// Parses the descriptors. One that is not valid is left out. Returns `None` if the installation counts no requests of tenants.
    pub fn parse(
        field: &str,
        policy: &GlobalRateLimitPolicy,
        (origin, block): (&ObjectRef, Block),
        report: &mut ProxyReport,
        resolver: &mut Resolver,
    ) -> Option<Self> {
        let settings = resolver.context.settings;
        if settings.rate_limit.endpoint.is_none() || !settings.tenants.global_rate_limits {
            let message = match settings.rate_limit.endpoint {
                None => "no service counts requests: the setting rateLimit.endpoint is empty",
                Some(_) => "the setting tenants.globalRateLimits is off",
            };
            let consequence = "requests are not limited by these descriptors";
            report.add(origin, field, &block.rate_limit(), message, consequence);
            return None;
        }
        let GlobalRateLimitPolicy { disabled, descriptors, rest } = policy;
        report.add_rest(origin, field, (rest, &[]), block, "left out");
        let mut own = Vec::new();
        for (index, descriptor) in descriptors.iter().enumerate() {
            let field = format!("{field}.descriptors[{index}]");
            let parsed = match index < DESCRIPTORS && descriptor.rest.is_empty() {
                true => entries(&descriptor.entries, &mut resolver.patterns),
                false if index < DESCRIPTORS => Err(FieldFault::new("", "a field is not supported")),
                false => Err(FieldFault::new("", format!("more than {DESCRIPTORS} descriptors"))),
            };
            match parsed {
                Ok(entries) => own.push(entries),
                Err(fault) => {
                    let FieldFault { field, message } = fault.within(field);
                    report.add(origin, field, &block.rate_limit(), message, "descriptor left out");
                }
            }
        }
        // Without a valid descriptor, those of the more general level are sent.
        (*disabled || !own.is_empty()).then_some(Self { is_disabled: *disabled, own })
    }

    /// Returns the descriptors of a route: its own, and those of its host or of the installation. `None`: only the settings apply.
    pub fn of_route(
        route: Option<Self>,
        host: Option<&Self>,
        default: &[Vec<RateLimitEntry>],
    ) -> Option<GlobalRateLimit> {
        if route.is_none() && host.is_none() {
            return None;
        }
        let general = match host {
            None => default,
            Some(Self { is_disabled: true, .. }) => &[],
            Some(host) => &host.own,
        };
        let route = route.unwrap_or_default();
        let inherited = if route.is_disabled { &[] } else { general };
        Some(GlobalRateLimit { descriptors: inherited.iter().cloned().chain(route.own).collect() })
    }
}

fn entries(list: &[DescriptorEntry], patterns: &mut Patterns) -> Result<Vec<RateLimitEntry>, FieldFault> {
    if list.is_empty() || list.len() > ENTRIES {
        return Err(FieldFault::new(".entries", format!("not between 1 and {ENTRIES} entries")));
    }
    let entry = |(index, entry): (usize, &DescriptorEntry)| {
        self::entry(entry, patterns).map_err(|fault| fault.within(format_args!(".entries[{index}]")))
    };
    list.iter().enumerate().map(entry).collect()
}

fn entry(entry: &DescriptorEntry, patterns: &mut Patterns) -> Result<RateLimitEntry, FieldFault> {
    let DescriptorEntry { generic_key, request_header, request_header_value_match, remote_address, rest } = entry;
    if let Some(name) = rest.names().next() {
        return Err(FieldFault::new(format!(".{name}"), format!("field {name:?} is not supported")));
    }
    match (generic_key, request_header, request_header_value_match, remote_address) {
        (Some(one), None, None, None) => {
            let value = text(".genericKey.value", &one.value)?;
            let key = (!one.key.is_empty()).then(|| text(".genericKey.key", &one.key)).transpose()?;
            Ok(RateLimitEntry::GenericKey { key, value })
        }
        (None, Some(one), None, None) => Ok(RateLimitEntry::RequestHeader {
            header_name: header(".requestHeader.headerName", &one.header_name)?,
            descriptor_key: text(".requestHeader.descriptorKey", &one.descriptor_key)?,
        }),
        (None, None, Some(one), None) => {
            value_match(one, patterns).map_err(|fault| fault.within(".requestHeaderValueMatch"))
        }
        (None, None, None, Some(_)) => Ok(RateLimitEntry::RemoteAddress),
        _ => {
            let message = "not exactly one of \"genericKey\", \"requestHeader\", \"requestHeaderValueMatch\", and \"remoteAddress\"";
            Err(FieldFault::new("", message))
        }
    }
}

fn value_match(one: &HeaderValueMatch, patterns: &mut Patterns) -> Result<RateLimitEntry, FieldFault> {
    let HeaderValueMatch { headers, expect_match, value, rest } = one;
    if let Some(name) = rest.names().next() {
        return Err(FieldFault::new(format!(".{name}"), format!("field {name:?} is not supported")));
    }
    if headers.is_empty() || headers.len() > HEADERS {
        return Err(FieldFault::new(".headers", format!("not between 1 and {HEADERS} headers")));
    }
    let condition = |(index, one): (usize, &ValueCondition)| {
        condition(one, patterns).map_err(|fault| fault.within(format_args!(".headers[{index}]")))
    };
    let headers = headers.iter().enumerate().map(condition).collect::<Result<_, _>>()?;
    let value = text(".value", value)?;
    Ok(RateLimitEntry::RequestHeaderValueMatch { headers, expect_match: expect_match.unwrap_or(true), value })
}

fn condition(one: &ValueCondition, patterns: &mut Patterns) -> Result<EntryHeader, FieldFault> {
    let name = header(".name", &one.name)?;
    if let Some(name) = one.rest.names().next() {
        return Err(FieldFault::new(format!(".{name}"), format!("field {name:?} is not supported")));
    }
    let texts = [&one.contains, &one.notcontains, &one.exact, &one.notexact, &one.regex];
    let given = texts.iter().filter(|text| !text.is_empty()).count();
    let is_presence = one.present || one.notpresent;
    if given + usize::from(one.present) + usize::from(one.notpresent) != 1 {
        return Err(FieldFault::new("", "not exactly one operator"));
    }
    let condition = match texts.map(|text| text.as_str()) {
        _ if is_presence && one.present => HeaderCondition::Present,
        _ if is_presence => HeaderCondition::NotPresent,
        [contains, "", "", "", ""] => HeaderCondition::Contains(text(".contains", contains)?),
        ["", notcontains, "", "", ""] => HeaderCondition::NotContains(text(".notcontains", notcontains)?),
        ["", "", exact, "", ""] => HeaderCondition::Exact(text(".exact", exact)?),
        ["", "", "", notexact, ""] => HeaderCondition::NotExact(text(".notexact", notexact)?),
        // Envoy rejects a complete host for it.
        [.., _] if one.ignore_case => {
            return Err(FieldFault::new(".ignoreCase", "has no effect on \"regex\""));
        }
        [.., regex] => {
            patterns
                .cost(regex)
                .map_err(|_| FieldFault::new(".regex", format!("{regex:?} is not accepted by Envoy")))?;
            HeaderCondition::Regex(regex.to_owned())
        }
    };
    Ok(EntryHeader {
        name,
        condition,
        ignore_case: one.ignore_case,
        treat_missing_as_empty: one.treat_missing_as_empty,
    })
}

fn header(field: &str, name: &str) -> Result<String, FieldFault> {
    let parsed = HeaderName::parse(name).map(|name| name.to_string());
    parsed.ok_or_else(|| FieldFault::new(field, format!("{name:?} is not a header")))
}

fn text(field: &str, text: &str) -> Result<String, FieldFault> {
    let is_valid = !text.is_empty() && text.len() <= LONGEST && !text.chars().any(char::is_control);
    is_valid.then(|| text.to_owned()).ok_or_else(|| FieldFault::new(field, format!("not 1 to {LONGEST} characters")))
}
