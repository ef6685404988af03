//! The change of the URL of requests by an HTTPPolicy.

use crate::model::{HeaderValue, Host, PathRewrite, RegexRewrite, Rewrite};
use crate::objects::gateway::{PathRewriteSpec, RegexRewriteSpec, UrlRewriteSpec};
use crate::re2::{self, Cost, Rejection};
use crate::translate::host;
use crate::translate::patterns::Patterns;

/// The field below the feature, and a message.
type Fault = (String, String);

/// The maximum length of a pattern and of a substitution. Source: CustomResourceDefinition. Manifests are not validated against it.
const LONGEST: usize = 1024;
/// The maximum number of places that RE2 visits for each byte of a path to find the groups of a pattern. A path of 50 KB then takes up to
/// 10 ms (`gateway_load::cost`).
const WIDEST: u32 = 24;

/// A change of the URL, with the cost of its regular expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostlyRewrite {
    /// The change.
    pub rewrite: Rewrite,
    /// The cost; zero without a regular expression.
    pub cost: Cost,
}

/// Parses the change.
pub fn parse(spec: &UrlRewriteSpec, patterns: &mut Patterns) -> Result<CostlyRewrite, Fault> {
    let UrlRewriteSpec { hostname, path } = spec;
    if hostname.is_none() && path.is_none() {
        return Err((String::new(), "neither \"hostname\" nor \"path\" is set".to_owned()));
    }
    let host = hostname.as_deref().map(|text| {
        let name = match host::parse(text) {
            Ok(name @ Host::Exact(_)) => HeaderValue::parse(&name.to_string()),
            _ => None,
        };
        name.ok_or_else(|| (".hostname".to_owned(), format!("{text:?} is not a DNS name")))
    });
    let host = host.transpose()?;
    let path = path.as_ref().map(|PathRewriteSpec { regex }| by_regex(regex, patterns)).transpose()?;
    let (path, cost) = path.map_or((None, Cost::default()), |(path, cost)| (Some(path), cost));
    Ok(CostlyRewrite { rewrite: Rewrite { host, path }, cost })
}

fn by_regex(spec: &RegexRewriteSpec, patterns: &mut Patterns) -> Result<(PathRewrite, Cost), Fault> {
    let RegexRewriteSpec { pattern, substitution } = spec;
    let fault = |field: &str, message: String| (format!(".path.regex.{field}"), message);
    for (field, text) in [("pattern", pattern), ("substitution", substitution)] {
        if text.is_empty() || text.len() > LONGEST {
            return Err(fault(field, format!("the length is not between 1 and {LONGEST}")));
        }
    }
    // Also checked alone: `a)(b` is not a pattern, although it is one within a group.
    let whole = patterns.cost(pattern).and_then(|_| {
        let whole = anchored(pattern);
        patterns.cost(&whole).map(|cost| (whole, cost))
    });
    let (whole, cost) = whole.map_err(|rejection| match rejection {
        Rejection::Invalid(reason) => {
            fault("pattern", format!("{pattern:?} is not a regular expression that Envoy accepts: {reason}"))
        }
        Rejection::TooExpensive(reason) => fault("pattern", format!("{pattern:?} is too expensive: {reason}")),
    })?;
    if re2::width(&whole).is_none_or(|width| width > WIDEST) {
        let message = format!("{pattern:?} is too expensive: it has more than {WIDEST} alternatives at one place");
        return Err(fault("pattern", message));
    }
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
    let mut seen = [false; 10];
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            continue;
        }
        let group = bytes.next().filter(u8::is_ascii_digit).map(|digit| usize::from(digit - b'0'));
        let Some(group) = group else { return Err(format!("{text:?} has a backslash without the number of a group")) };
        if group > groups {
            return Err(format!("{text:?} refers to group {group}, but the last group of the pattern is {groups}"));
        }
        // A group can be the complete path, and the new path has no limit of its length.
        if seen.get_mut(group).is_none_or(|seen| std::mem::replace(seen, true)) {
            return Err(format!("{text:?} refers to group {group} twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Regexes;

    fn parsed(pattern: &str, substitution: &str) -> Result<String, String> {
        let mut patterns = Patterns::new(&Regexes::default());
        let spec = RegexRewriteSpec { pattern: pattern.to_owned(), substitution: substitution.to_owned() };
        match by_regex(&spec, &mut patterns) {
            Ok((PathRewrite::Regex(rewrite), _)) => Ok(rewrite.pattern.to_string()),
            Ok((other, _)) => Err(format!("{other:?}")),
            Err((field, message)) => Err(format!("{field}: {message}")),
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
}
