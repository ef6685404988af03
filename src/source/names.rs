//! Shared texts, stored once for all objects: namespaces, names of Services and of ports, zones.
//!
//! Unused texts are removed periodically: after as many requests as there are texts, all of them are checked.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(Mutex::default);

/// The minimum number of requests between two checks for unused texts.
const MIN_REQUESTS: usize = 4096;

/// Returns `text`, shared by all callers with the same text.
pub fn shared(text: &str) -> Arc<str> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner).get(text)
}

#[derive(Default)]
struct Names {
    known: HashSet<Arc<str>>,
    /// The number of requests until the next check.
    left: usize,
}

impl Names {
    fn get(&mut self, text: &str) -> Arc<str> {
        if self.left == 0 {
            self.known.retain(|name| Arc::strong_count(name) > 1);
            self.known.shrink_to(2 * self.known.len());
            self.left = MIN_REQUESTS.max(self.known.len());
        }
        self.left -= 1;
        if let Some(name) = self.known.get(text) {
            return name.clone();
        }
        let name: Arc<str> = text.into();
        self.known.insert(name.clone());
        name
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn equal_texts_are_one() {
        let (a, b) = (shared("namespace-of-this-test"), shared("namespace-of-this-test"));
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!(&*a, "namespace-of-this-test");
    }

    #[test]
    fn unused_names_are_dropped() {
        let mut names = Names::default();
        let kept: Vec<_> = (0..100).map(|i| names.get(&format!("kept-{i}"))).collect();
        for i in 0..10 * MIN_REQUESTS {
            names.get(&i.to_string());
            assert!(names.known.len() <= MIN_REQUESTS + kept.len(), "{}", names.known.len());
        }
        assert!(kept.iter().all(|name| Arc::ptr_eq(name, &names.get(name))));
        assert!(names.known.capacity() < 8 * MIN_REQUESTS);
    }
}
