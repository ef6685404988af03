//! Validates the credentials of clients in Secrets on arrival.
//!
//! Envoy rejects a complete route configuration for one bad entry. The checks are therefore at least as strict as those of Envoy
//! (`isolation::credentials` compares them).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::ByteString;
use lockgate_route::model::Confidential;
use lockgate_route::objects::{API_KEYS_TYPE, CLIENT_SECRET, CredentialKind, Credentials, HTPASSWD};

/// The longest name of a user, and the longest API key, in bytes.
const LONGEST: usize = 512;
/// The maximum number of faults that are described.
const FAULTS: usize = 8;
/// The maximum number of key sets of a Secret, and the largest set that is kept, in bytes.
const SETS: usize = 8;
const LARGEST_SET: usize = 64 << 10;
/// The bytes of a SHA-1 hash.
const SHA1: usize = 20;
/// The prefix of a SHA-1 hash in the files of `htpasswd`.
const SHA: &str = "{SHA}";

/// Returns the credentials in the data of a Secret of the type `kind`, if it has any.
pub fn credentials(kind: &str, data: &BTreeMap<String, ByteString>) -> Option<Credentials> {
    if kind == API_KEYS_TYPE {
        let keys = data.iter().map(|(client, key)| (format!("data[{client:?}]"), api_key(client, &key.0)));
        return Some(collect(CredentialKind::ApiKeys, keys));
    }
    let (field, text) = HTPASSWD.iter().find_map(|field| Some((field, data.get(*field)?)))?;
    let text = match std::str::from_utf8(&text.0) {
        Ok(text) => text,
        Err(_) => {
            let faults = vec![format!("data[{field:?}] is not UTF-8")];
            return Some(Credentials { kind: CredentialKind::Passwords, clients: Vec::new(), faults });
        }
    };
    let lines = text.lines().zip(1..).map(|(line, i)| (line.trim(), i));
    let lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let mut seen = BTreeSet::new();
    let users = lines.map(|(line, i)| {
        let user = password(line).and_then(|user| match seen.insert(user.0.clone()) {
            true => Ok(user),
            false => Err(format!("the user {:?} has another line above", user.0)),
        });
        (format!("data[{field:?}] line {i}"), user)
    });
    Some(collect(CredentialKind::Passwords, users))
}

/// Returns the values of a Secret that may be JSON Web Key Sets, by data key, in order: JSON objects with the text `"keys"`. The
/// translation parses them.
pub fn key_sets(data: &BTreeMap<String, ByteString>) -> Box<[(Arc<str>, Confidential)]> {
    let set = |(name, value): (&String, &ByteString)| Some((name.as_str().into(), key_set(&value.0)?.into()));
    data.iter().filter_map(set).take(SETS).collect()
}

/// Returns the text of a value that may be a JSON Web Key Set.
pub fn key_set(value: &[u8]) -> Option<&str> {
    // Secrets of Helm have up to 1 MiB, so the length decides first.
    let text = std::str::from_utf8(Some(value).filter(|value| value.len() <= LARGEST_SET)?).ok()?;
    (text.trim_start().starts_with('{') && text.contains("\"keys\"")).then_some(text)
}

/// Returns the secret of an application at an OpenID provider. Line breaks at the end, as in files, are no part of it.
pub fn client_secret(data: &BTreeMap<String, ByteString>) -> Option<Confidential> {
    let text = std::str::from_utf8(&data.get(CLIENT_SECRET)?.0).ok()?.trim_end_matches(['\r', '\n']);
    let is_usable = (1..=LONGEST).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_usable.then(|| text.into())
}

/// Collects the entries, each with its place in the Secret.
fn collect(
    kind: CredentialKind,
    entries: impl Iterator<Item = (String, Result<(Arc<str>, Confidential), String>)>,
) -> Credentials {
    let (mut clients, mut faults, mut more) = (Vec::new(), Vec::new(), 0_usize);
    for (place, entry) in entries {
        match entry {
            Ok(client) => clients.push(client),
            Err(fault) if faults.len() < FAULTS => faults.push(format!("{place}: {fault}")),
            Err(_) => more += 1,
        }
    }
    if more > 0 {
        faults.push(format!("{more} more entries are faulty"));
    }
    Credentials { kind, clients, faults }
}

/// Returns the API key of a client. Line breaks at the end, as in files, are no part of it.
fn api_key(client: &str, key: &[u8]) -> Result<(Arc<str>, Confidential), String> {
    let key = std::str::from_utf8(key).map_err(|_| "the key is not UTF-8")?.trim_end_matches(['\r', '\n']);
    if key.is_empty() || key.len() > LONGEST || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("the key is not 1 to {LONGEST} visible ASCII characters without spaces"));
    }
    Ok((client.into(), key.into()))
}

/// Returns the name and the hash of a line `name:{SHA}hash`. The error contains no part of the hash, and the name only if the line is
/// certainly one of `htpasswd`: who writes a policy can name any Secret, without the permission to read it.
fn password(line: &str) -> Result<(Arc<str>, Confidential), String> {
    let (name, hash) = line.split_once(':').ok_or("it is not a name and a hash with a colon between them")?;
    if name.is_empty() || name.len() > LONGEST || name.chars().any(char::is_control) {
        return Err(format!("the name is not 1 to {LONGEST} bytes without control characters"));
    }
    let Some(digest) = hash.strip_prefix(SHA) else {
        let user = if hash.starts_with(['$', '{']) { format!(" of {name:?}") } else { String::new() };
        return Err(format!("Envoy cannot verify the password{user}, only SHA-1 hashes (htpasswd -s)"));
    };
    match BASE64_STANDARD.decode(digest) {
        Ok(digest) if digest.len() == SHA1 => Ok((name.into(), hash.into())),
        _ => Err(format!("the password of {name:?} is not a SHA-1 hash in base64 (htpasswd -s)")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn read(kind: &str, data: &[(&str, &[u8])]) -> Option<Credentials> {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.to_vec())));
        credentials(kind, &data.collect())
    }

    fn names(credentials: &Credentials) -> Vec<&str> {
        credentials.clients.iter().map(|(name, _)| &**name).collect()
    }

    #[test]
    fn users_have_a_hash_that_envoy_verifies() {
        let text = "# users\n\nann:{SHA}NWoZK3kTsExUV00Ywo1G5jlUKKs=\r\nbob:$2y$05$9.secret\nann:{SHA}NWoZK3kTsExUV00Ywo1G5jlUKKs=\n\
            :{SHA}NWoZK3kTsExUV00Ywo1G5jlUKKs=\nsecret\ncarl:{SHA}secret\nsome:secret text\ndora:{SHA}NWoZK3kTsExUV00Ywo1G5jlUKKs=:x\n";
        let users = read("Opaque", &[("auth", text.as_bytes()), ("other", b"x")]).unwrap();
        assert_eq!((users.kind, names(&users)), (CredentialKind::Passwords, vec!["ann"]));
        assert_eq!(&*users.clients[0].1, "{SHA}NWoZK3kTsExUV00Ywo1G5jlUKKs=");
        assert_eq!(
            users.faults,
            [
                "data[\"auth\"] line 4: Envoy cannot verify the password of \"bob\", only SHA-1 hashes (htpasswd -s)",
                "data[\"auth\"] line 5: the user \"ann\" has another line above",
                "data[\"auth\"] line 6: the name is not 1 to 512 bytes without control characters",
                "data[\"auth\"] line 7: it is not a name and a hash with a colon between them",
                "data[\"auth\"] line 8: the password of \"carl\" is not a SHA-1 hash in base64 (htpasswd -s)",
                "data[\"auth\"] line 9: Envoy cannot verify the password, only SHA-1 hashes (htpasswd -s)",
                "data[\"auth\"] line 10: the password of \"dora\" is not a SHA-1 hash in base64 (htpasswd -s)",
            ]
        );
        assert!(!format!("{users:?}").contains("NWoZ"), "{users:?}");
        let line: &[u8] = b"eve:{SHA}NWoZK3kTsExUV00Ywo1G5jlUKKs=";
        let first = read("Opaque", &[("auth", text.as_bytes()), (".htpasswd", line)]).unwrap();
        assert_eq!(names(&first), ["eve"]);
        assert_eq!(read("Opaque", &[("password", line)]), None);
        assert_eq!(read("Opaque", &[("auth", b"\xff")]).unwrap().faults, ["data[\"auth\"] is not UTF-8"]);
        let many = read("Opaque", &[("auth", "x\n".repeat(100).as_bytes())]).unwrap();
        assert_eq!((many.faults.len(), many.faults[8].as_str()), (9, "92 more entries are faulty"));
    }

    #[test]
    fn json_objects_with_keys_may_be_key_sets() {
        let data: [(&str, &[u8]); 5] =
            [("a", b" {\"keys\": []}"), ("b", b"{}"), ("c", b"[\"keys\"]"), ("d", b"\xff"), ("e", b"{\"keys\": 1")];
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.to_vec()))).collect();
        let sets = key_sets(&data);
        assert_eq!(sets.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["a", "e"]);
        assert!(!format!("{sets:?}").contains("keys"), "{sets:?}");
    }

    #[test]
    fn api_keys_have_a_type_of_their_own() {
        let data: [(&str, &[u8]); 5] =
            [("app", b"k-1\n"), ("batch", b"k-2"), ("empty", b"\n"), ("space", b"a b"), ("text", b"\xff")];
        let keys = read(API_KEYS_TYPE, &data).unwrap();
        assert_eq!((keys.kind, names(&keys)), (CredentialKind::ApiKeys, vec!["app", "batch"]));
        assert_eq!(&*keys.clients[0].1, "k-1");
        assert_eq!(
            keys.faults,
            [
                "data[\"empty\"]: the key is not 1 to 512 visible ASCII characters without spaces",
                "data[\"space\"]: the key is not 1 to 512 visible ASCII characters without spaces",
                "data[\"text\"]: the key is not UTF-8",
            ]
        );
        assert_eq!(read("Opaque", &data), None, "keys of other Secrets are not read");
    }
}
