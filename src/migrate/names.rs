//! Names of objects and listeners: derived from the Ingress or the host, and unique.

use std::collections::BTreeSet;

use lockgate_route::model::Host;

/// The largest length of the name of a listener or an object.
const LONGEST: usize = 253;

/// Names that are taken.
#[derive(Debug, Default)]
pub struct Names(BTreeSet<String>);

impl Names {
    /// Takes `wanted`, or the first of `wanted-2`, `wanted-3`, … that is free.
    pub fn take(&mut self, wanted: &str) -> String {
        let mut name = shortened(wanted, 0);
        let mut number = 2;
        while !self.0.insert(name.clone()) {
            let suffix = format!("-{number}");
            name = format!("{}{suffix}", shortened(wanted, suffix.len()));
            number += 1;
        }
        name
    }

    /// Reserves `name` without a check.
    pub fn reserve(&mut self, name: &str) {
        self.0.insert(name.to_owned());
    }

    /// Takes `name` although it is reserved.
    pub fn take_reserved(&mut self, name: &str) -> String {
        self.reserve(name);
        name.to_owned()
    }
}

/// Returns `text` without the end that leaves no room for `rest` more characters. A name ends with a letter or a digit.
fn shortened(text: &str, rest: usize) -> String {
    let short: String = text.chars().take(LONGEST - rest).collect();
    short.trim_end_matches(['-', '.']).to_owned()
}

/// Returns the wanted name of the listener for the protocol `HTTPS` or `TLS` of a host. Names of exact hosts start with the protocol, so
/// different hosts have different names.
pub fn of_listener(host: &Host, protocol: &str) -> String {
    match host {
        Host::Exact(name) => format!("{}-{name}", protocol.to_ascii_lowercase()),
        Host::Wildcard(suffix) => format!("wildcard-{suffix}"),
        Host::Any => "https".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let mut names = Names::default();
        names.reserve("shop-2");
        assert_eq!(["shop"; 3].map(|name| names.take(name)), ["shop", "shop-3", "shop-4"]);
        let long = "a".repeat(300);
        assert_eq!([&long; 2].map(|name| names.take(name).len()), [253, 253]);
        assert_eq!(names.take(&format!("{}.x", "b".repeat(252))), "b".repeat(252));
    }
}
