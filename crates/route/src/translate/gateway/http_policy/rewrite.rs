//! The change of the URL of requests by an HTTPPolicy.

use super::host_of_path;
use super::regex_rewrite::{WIDEST, check_length, cost_of_groups, references, sum};
use crate::model::{HeaderName, HeaderValue, Host, HostRewrite, PathRewrite, PolicyRewrite, RegexRewrite};
use crate::objects::gateway::{HostnameFromSpec, PathRewriteSpec, RegexRewriteSpec, UrlRewriteSpec};
use crate::re2::{self, Cost};
use crate::translate::fault::FieldFault;
use crate::translate::host;
use crate::translate::patterns::Patterns;

/// The maximum length of a pattern and of a substitution. Source: CustomResourceDefinition. Manifests are not validated against it.
const LONGEST: usize = 1024;

/// A change of the URL, with the cost of its regular expressions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostlyRewrite {
    /// The change.
    pub rewrite: PolicyRewrite,
    /// The cost; zero without a regular expression.
    pub cost: Cost,
}

/// Parses the change.
pub fn parse(spec: &UrlRewriteSpec, patterns: &mut Patterns) -> Result<CostlyRewrite, FieldFault> {
    let UrlRewriteSpec { hostname, hostname_from, path } = spec;
    let (host, of_host) = match (hostname, hostname_from) {
        (None, None) if path.is_none() => {
            return Err(FieldFault::new("", "none of \"hostname\", \"hostnameFrom\", and \"path\" is set"));
        }
        (None, None) => (None, Cost::default()),
        (Some(text), None) => (Some(HostRewrite::Name(fixed(text)?)), Cost::default()),
        (None, Some(from)) => {
            let (host, cost) = of_request(from, patterns)?;
            (Some(host), cost)
        }
        (Some(_), Some(_)) => {
            let message = "\"hostname\" is set too, and a request has one host";
            return Err(FieldFault::new(".hostnameFrom", message));
        }
    };
    let path = path.as_ref().map(|PathRewriteSpec { regex }| by_regex(regex, patterns)).transpose()?;
    let (path, of_path) = path.map_or((None, Cost::default()), |(path, cost)| (Some(path), cost));
    if let (Some(HostRewrite::Path(of_host)), Some(PathRewrite::Regex(of_path))) = (&host, &path) {
        let widths = [of_host.for_any_path(), of_path.pattern.to_string()].map(|pattern| re2::width(&pattern));
        if widths.into_iter().flatten().sum::<u32>() > WIDEST {
            let message = format!("both patterns together have more than {WIDEST} alternatives at one place");
            return Err(FieldFault::new(".hostnameFrom.path.pattern", message));
        }
    }
    Ok(CostlyRewrite { rewrite: PolicyRewrite { host, path }, cost: sum(of_host, of_path) })
}

fn fixed(text: &str) -> Result<HeaderValue, FieldFault> {
    let name = match host::parse(text) {
        Ok(name @ Host::Exact(_)) => HeaderValue::parse(&name.to_string()),
        _ => None,
    };
    name.ok_or_else(|| FieldFault::new(".hostname", format!("{text:?} is not a DNS name")))
}

fn of_request(from: &HostnameFromSpec, patterns: &mut Patterns) -> Result<(HostRewrite, Cost), FieldFault> {
    match (&from.header, &from.path) {
        (Some(name), None) => {
            let fault = |message| FieldFault::new(".hostnameFrom.header", message);
            let name = HeaderName::parse_with_host(name).map_err(fault)?;
            Ok((HostRewrite::Header(name), Cost::default()))
        }
        (None, Some(path)) => {
            let fault = |fault: FieldFault| fault.within(".hostnameFrom.path");
            let (rewrite, cost) = host_of_path::parse(path, patterns).map_err(fault)?;
            Ok((HostRewrite::Path(rewrite.into()), cost))
        }
        (None, None) => Err(FieldFault::new(".hostnameFrom", "neither \"header\" nor \"path\" is set")),
        (Some(_), Some(_)) => {
            Err(FieldFault::new(".hostnameFrom", "\"header\" and \"path\" are set, and a request has one host"))
        }
    }
}

fn by_regex(spec: &RegexRewriteSpec, patterns: &mut Patterns) -> Result<(PathRewrite, Cost), FieldFault> {
    let RegexRewriteSpec { pattern, substitution } = spec;
    let fault = |field: &str, message: String| FieldFault::new(format!(".path.regex.{field}"), message);
    check_length(pattern, LONGEST).map_err(|message| fault("pattern", message))?;
    check_length(substitution, LONGEST).map_err(|message| fault("substitution", message))?;
    let whole = anchored(pattern);
    let cost = cost_of_groups(pattern, &whole, patterns).map_err(|message| fault("pattern", message))?;
    check(substitution, re2::groups(&whole)).map_err(|message| fault("substitution", message))?;
    let rewrite = RegexRewrite { pattern: whole.into(), substitution: substitution.as_str().into() };
    Ok((PathRewrite::Regex(rewrite.into()), cost))
}

/// Returns the pattern for the beginning of the path. Envoy replaces every match, so a path of 60 KiB could have thousands of them, each with a
/// search to the end of the path.
fn anchored(pattern: &str) -> String {
    match pattern.starts_with('^') && !pattern.contains('|') {
        true => pattern.to_owned(),
        false => format!("^(?:{pattern})"),
    }
}

/// Checks a substitution for a pattern with this number of groups. The new path begins with it.
fn check(text: &str, groups: usize) -> Result<(), String> {
    if !text.starts_with('/') {
        return Err(format!("{text:?} does not begin with /"));
    }
    if let Some(other) = text.chars().find(|other| !other.is_ascii_graphic() || "?#".contains(*other)) {
        return Err(format!("{text:?} contains {other:?}, which no path does"));
    }
    // A group can be the complete path, and the new path has no limit of its length.
    references(text, groups).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::gateway::HostnameOfPathSpec;
    use crate::settings::Regexes;

    fn parsed(pattern: &str, substitution: &str) -> Result<String, String> {
        let mut patterns = Patterns::new(&Regexes::default());
        let spec = RegexRewriteSpec { pattern: pattern.to_owned(), substitution: substitution.to_owned() };
        match by_regex(&spec, &mut patterns) {
            Ok((PathRewrite::Regex(rewrite), _)) => Ok(rewrite.pattern.to_string()),
            Ok((other, _)) => Err(format!("{other:?}")),
            Err(FieldFault { field, message }) => Err(format!("{field}: {message}")),
        }
    }

    #[test]
    fn a_pattern_matches_the_beginning_of_the_path_once() {
        for (pattern, whole) in [
            ("/v1/(.*)", "^(?:/v1/(.*))"),
            ("^/v1/([^/]+)$", "^/v1/([^/]+)$"),
            ("^/a|(b)", "^(?:^/a|(b))"),
            ("(?i)^/V1/(?P<rest>.*)", "^(?:(?i)^/V1/(?P<rest>.*))"),
        ] {
            assert_eq!(parsed(pattern, r"/\1").as_deref(), Ok(whole), "{pattern}");
        }
        // Languages are alternatives at one place.
        let languages =
            ["en", "de", "fr", "es", "it", "pt", "nl", "pl", "sv", "da", "fi", "cs", "el", "hu", "ro"].join("|");
        assert!(parsed(&format!("/({languages})/(.*)"), r"/\2/\1").is_ok());
    }

    #[test]
    fn a_faulty_rewrite_is_rejected() {
        for (pattern, substitution, expected) in [
            ("/a(", "/", "pattern: \"/a(\" is not a regular expression"),
            ("a)(?:b", "/", "pattern: \"a)(?:b\" is not a regular expression"),
            ("", "/", "pattern: the length"),
            ("/(.*)a.{20}", r"/\1", "pattern: \"/(.*)a.{20}\" is too expensive: its automaton"),
            ("/(a)", r"/\2", "substitution: \"/\\\\2\" refers to group 2, but the last group of the pattern is 1"),
            ("/(?:a)", r"/\1", "but the last group of the pattern is 0"),
            ("/(a)", r"/\1\1", "refers to group 1 twice"),
            ("/(a)", r"\1", "does not begin with /"),
            ("/(a)", "", "substitution: the length"),
            ("/(a)", r"/\", "has a backslash without the number of a group"),
            ("/(a)", r"/\\1", "has a backslash without the number of a group"),
            ("/(a)", r"/\1?x", "contains '?'"),
            ("/(a)", "/a b", "contains ' '"),
            ("/(a)", "/é", "contains 'é'"),
        ] {
            let fault = parsed(pattern, substitution).err().unwrap_or_default();
            assert!(fault.contains(expected), "{pattern} {substitution}: {fault}");
        }
        let copies = (0..65).map(|_| "(.)").collect::<Vec<_>>().join("|");
        let fault = parsed(&format!("/({copies})*"), "/").err().unwrap_or_default();
        assert!(fault.contains("more than 24 alternatives at one place"), "{fault}");
    }
    #[test]
    fn the_patterns_of_a_host_and_a_path_are_limited_together() {
        let fault = |groups: usize| {
            let one = vec!["([a-z])"; groups].join("|");
            let (pattern, hosts) = (format!("/({one})*"), r"\1".to_owned());
            let path = Some(HostnameOfPathSpec { pattern: pattern.clone(), substitution: hosts });
            let regex = RegexRewriteSpec { pattern, substitution: "/".to_owned() };
            let spec = UrlRewriteSpec {
                hostname: None,
                hostname_from: Some(HostnameFromSpec { header: None, path }),
                path: Some(PathRewriteSpec { regex }),
            };
            parse(&spec, &mut Patterns::new(&Regexes::default())).err()
        };
        assert_eq!(fault(1), None);
        let message = "both patterns together have more than 24 alternatives at one place";
        assert_eq!(fault(4), Some(FieldFault::new(".hostnameFrom.path.pattern", message)));
    }
}
