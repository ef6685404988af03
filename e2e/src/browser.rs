//! What a browser does for a login: the cookies of a host, redirects, and forms.

use std::collections::BTreeMap;

use hyper::Method;

use crate::client::{Answer, Target};

/// The cookies of a browser for one host.
#[derive(Debug, Clone, Default)]
pub struct Cookies(BTreeMap<String, String>);

impl Cookies {
    /// Stores and removes cookies as the answer demands.
    fn read(&mut self, answer: &Answer) {
        for cookie in answer.headers.get_all("set-cookie") {
            let text = cookie.to_str().expect("a text");
            let (name, rest) = text.split_once('=').expect("a name");
            // A value can contain what an attribute means, such as the time 1796019704.
            let (value, attributes) = rest.split_once(';').unwrap_or((rest, ""));
            let is_removed = value == "deleted" || attributes.contains("Max-Age=0") || attributes.contains("1970");
            match is_removed {
                true => self.remove(name),
                false => self.insert(name, value),
            }
        }
    }

    /// Returns the names.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Stores a cookie.
    pub fn insert(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }

    /// Removes a cookie.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    fn text(&self) -> String {
        let pairs = self.0.iter().map(|(name, value)| format!("{name}={value}"));
        pairs.collect::<Vec<_>>().join("; ")
    }

    /// Sends a request with the cookies, and stores those of the answer.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn get(&mut self, target: &Target, path: &str) -> Answer {
        let answer = target.clone().field("cookie", &self.text()).get(path).await.expect("an answer");
        self.read(&answer);
        answer
    }
}

/// Returns the path and the query of a URI.
///
/// # Panics
/// If the URI has no scheme.
pub fn path_of(uri: &str) -> String {
    let (_, rest) = uri.split_once("://").expect("a URI");
    rest.find('/').map_or("/".to_owned(), |at| rest[at..].to_owned())
}

/// Returns the path and the query of a redirect to the same host.
///
/// # Panics
/// If the location has neither a path nor a scheme.
pub fn relative(location: &str) -> String {
    if location.starts_with('/') { location.to_owned() } else { path_of(location) }
}

/// Follows redirects within a host, which sets no cookies. Returns the first answer that is none.
///
/// # Panics
/// If there is no answer.
pub async fn follow(target: &Target, path: &str, is_within: impl Fn(&str) -> bool) -> (String, Answer) {
    let mut path = path.to_owned();
    loop {
        let answer = target.get(&path).await.expect("an answer");
        match answer.header("location") {
            location if !location.is_empty() && is_within(location) => path = relative(location),
            _ => return (path, answer),
        }
    }
}

/// Submits a form without encoded characters to the path.
///
/// # Panics
/// If there is no answer.
pub async fn submit(target: &Target, path: &str, fields: &[(&str, &str)]) -> Answer {
    let pairs: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}={}", value.replace('@', "%40"))).collect();
    let form = target.clone().field("content-type", "application/x-www-form-urlencoded");
    form.send(Method::POST, path, pairs.join("&")).await.expect("an answer")
}
