//! The division of suspects into trials: by the names in the client's message, or in halves.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Hints, RejectedState};
use crate::protocol::subscription::{Need, Subscription};
use crate::snapshot::Resource;

impl Subscription {
    /// Divides `names` into two trials. `rejected` contains the unaccepted resources of a full state.
    pub(super) fn split(
        &mut self,
        names: BTreeSet<Arc<str>>,
        message: &str,
        torn: bool,
        rejected: Option<Vec<Arc<Resource>>>,
    ) {
        let mut units = if torn { Vec::new() } else { self.units(&names) };
        let torn = units.len() < 2;
        if torn {
            units = names.iter().map(|name| BTreeSet::from([name.clone()])).collect();
        }
        names.iter().for_each(|name| self.touch(name, Need::Again));
        let isolation = self.isolation.get_or_insert_default();
        let is_named = |unit: &BTreeSet<Arc<str>>| unit.iter().any(|name| names_resource(message, name));
        let follows = matches!(isolation.hints, Hints::Untried | Hints::Trusted) && !message.is_empty();
        let (named, others): (Vec<_>, Vec<_>) = match follows {
            true => units.into_iter().partition(is_named),
            false => (Vec::new(), units),
        };
        let hinted = !named.is_empty() && !others.is_empty();
        let (first, second) = if hinted {
            isolation.hints = if isolation.hints == Hints::Trusted { Hints::Trusted } else { Hints::OnTrial };
            (others, named)
        } else {
            let mut first = if named.is_empty() { others } else { named };
            let second = first.split_off(first.len().div_ceil(2));
            (first, second)
        };
        let [first, second] = [first, second].map(|units| units.into_iter().flatten().collect::<BTreeSet<Arc<str>>>());
        let rejection = rejected.map(|suspects| RejectedState { suspects, message: message.into() });
        isolation.add(first, false, torn, None);
        if !second.is_empty() {
            isolation.add(second, hinted, torn, rejection);
        }
    }
}

/// Returns whether `message` contains `name` as a whole word, as in `cluster(s) NAME: …`, `in route NAME`, `name: "NAME"`,
/// and `[resource index i: NAME: …]`. A name can end with a separator, so both ends are checked.
fn names_resource(message: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '/' | '_' | '-' | '.' | '%');
    !name.is_empty()
        && message.match_indices(name).any(|(at, _)| {
            let before = message.get(..at).and_then(|before| before.chars().next_back());
            let mut after = message.get(at + name.len()..).unwrap_or_default().chars();
            let (next, then) = (after.next(), after.next());
            // A period ends a sentence, unless the name continues after it.
            let goes_on = match next {
                Some('.') => then.is_some_and(is_part),
                Some(next) => is_part(next),
                None => false,
            };
            !before.is_some_and(is_part) && !goes_on
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_messages_as_whole_words() {
        for (message, named) in [
            ("Error adding/updating cluster(s) shop: malformed IP address: shop.example.com.", true),
            ("Error adding/updating listener(s) http: bad, shop: bad", true),
            ("Proto constraint validation failed: name: \"shop\"\nconnect_timeout {}", true),
            ("xDS response validation errors: [resource index 0: shop: INVALID_ARGUMENT: no]", true),
            ("unknown cluster in route shop.", true),
            ("Error adding/updating cluster(s) shop2: bad", false),
            ("Error adding/updating cluster(s) team/shop/http: bad", false),
            ("malformed IP address: shop.example.com", false),
            ("", false),
        ] {
            assert_eq!(names_resource(message, "shop"), named, "{message}");
        }
    }
}
