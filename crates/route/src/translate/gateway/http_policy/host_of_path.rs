//! The host of requests that an HTTPPolicy makes of their path.

use super::regex_rewrite::{check_length, cost_of_groups, references, sum};
use crate::model::{RegexRewrite, is_of_host};
use crate::objects::gateway::HostnameOfPathSpec;
use crate::re2::{self, Cost};
use crate::translate::fault::FieldFault;
use crate::translate::patterns::Patterns;

/// The maximum length of a pattern. Source: CustomResourceDefinition. Manifests are not validated against it.
const LONGEST: usize = 1024;
/// The maximum length of a substitution: that of a DNS name.
const LONGEST_HOST: usize = 253;

/// Parses the change.
///
/// The groups match no other bytes than those of a name, so no client reaches anything else by its path than another name. Servers of HTTP/2
/// close a connection, with the requests of all clients, because of other bytes.
pub fn parse(spec: &HostnameOfPathSpec, patterns: &mut Patterns) -> Result<(RegexRewrite, Cost), FieldFault> {
    let HostnameOfPathSpec { pattern, substitution } = spec;
    let fault = |field: &str, message: String| FieldFault::new(format!(".{field}"), message);
    check_length(pattern, LONGEST).map_err(|message| fault("pattern", message))?;
    check_length(substitution, LONGEST_HOST).map_err(|message| fault("substitution", message))?;
    let rewrite = RegexRewrite { pattern: whole(pattern).into(), substitution: substitution.as_str().into() };
    let of_any_path = rewrite.for_any_path();
    let of_groups = cost_of_groups(pattern, &of_any_path, patterns).map_err(|message| fault("pattern", message))?;
    // Envoy also compares the path with the pattern to refuse others.
    let of_check = cost_of_groups(pattern, &rewrite.pattern, patterns).map_err(|message| fault("pattern", message))?;
    check(substitution, &rewrite.pattern).map_err(|message| fault("substitution", message))?;
    Ok((rewrite, sum(of_groups, of_check)))
}

/// Returns the pattern for complete paths.
fn whole(pattern: &str) -> String {
    format!("^(?:{pattern})$")
}

fn check(text: &str, pattern: &str) -> Result<(), String> {
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'\\' => _ = rest.next(),
            byte if is_of_host(byte) => {}
            _ => return Err(format!("{text:?} contains a character that no host does")),
        }
    }
    let groups = references(text, re2::groups(pattern))?;
    if groups.is_empty() {
        return Err(format!("{text:?} refers to no group of the pattern"));
    }
    for group in groups {
        let number = u32::try_from(group).unwrap_or(u32::MAX);
        if !re2::group_is_of(pattern, number, is_of_host) {
            let message = "matches other characters than letters, digits, \".\", \"-\", and \"_\"";
            return Err(format!("group {group} of the pattern {message}"));
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
        let spec = HostnameOfPathSpec { pattern: pattern.to_owned(), substitution: substitution.to_owned() };
        match parse(&spec, &mut patterns) {
            Ok((rewrite, _)) => Ok(rewrite.for_any_path()),
            Err(FieldFault { field, message }) => Err(format!("{field}: {message}")),
        }
    }

    #[test]
    fn a_host_is_made_of_the_complete_path() {
        for (pattern, whole) in [
            ("/t/([a-z]+)(?:/.*)?", "^(?:/t/([a-z]+)(?:/.*)?)$|^.*$"),
            ("^/t/(?i:([a-z0-9.-]+))/.*$", "^(?:^/t/(?i:([a-z0-9.-]+))/.*$)$|^.*$"),
            (r"/(\w+)|/x/.*", r"^(?:/(\w+)|/x/.*)$|^.*$"),
        ] {
            assert_eq!(parsed(pattern, r"\1.inner.test").as_deref(), Ok(whole), "{pattern}");
        }
        assert!(parsed("/([a-z]+)/([0-9]+)/.*", r"s\2-\1.test").is_ok());
    }

    #[test]
    fn what_is_no_host_is_rejected() {
        for (pattern, substitution, expected) in [
            ("/a(", r"\1", "pattern: \"/a(\" is not a regular expression"),
            ("/(a)|)(?:b", r"\1", "pattern: \"/(a)|)(?:b\" is not a regular expression"),
            ("", r"\1", "pattern: the length"),
            ("/(a)", "", "substitution: the length"),
            ("/(a)", &"a".repeat(254), "substitution: the length is not between 1 and 253"),
            ("/([a-z]*)a.{20}", r"\1", "is too expensive: its automaton"),
            ("/([^/]+)/.*", r"\1.test", "substitution: group 1 of the pattern matches other characters"),
            ("/([a-z]+)(.*)", r"\1\2", "substitution: group 2 of the pattern matches other characters"),
            ("/([a-z]+)/.*", r"\0", "substitution: group 0 of the pattern matches other characters"),
            ("/([a-z]+)/.*", r"\2.test", "refers to group 2, but the last group of the pattern is 1"),
            ("/([a-z]+)/.*", r"\1\1", "refers to group 1 twice"),
            ("/([a-z]+)/.*", "inner.test", "refers to no group of the pattern"),
            ("/([a-z]+)/.*", r"\1:8080", "contains a character that no host does"),
            ("/([a-z]+)/.*", r"\1/a", "contains a character that no host does"),
            ("/([a-z]+)/.*", r"\1%00", "contains a character that no host does"),
            ("/([a-z]+)/.*", r"\1\\", "has a backslash without the number of a group"),
            ("/([a-z]+)/.*", r"\1\", "has a backslash without the number of a group"),
            ("/([a-z]+)/.*", r"\1é", "contains a character that no host does"),
        ] {
            let fault = parsed(pattern, substitution).err().unwrap_or_default();
            assert!(fault.contains(expected), "{pattern} {substitution}: {fault}");
        }
    }
}
