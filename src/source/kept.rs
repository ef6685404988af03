//! The last good content of Secrets in the form in which replicas exchange it.
//!
//! Content from another replica is validated like the content of a Secret.

use std::time::SystemTime;

use lockgate_route::objects::{Kept, ObjectKey};
use serde::{Deserialize, Serialize};

use super::secret::{Unusable, authorities, key_pair};

/// The last good content of one Secret, as JSON. It contains private keys, so it has no `Debug`.
#[derive(Clone, Serialize, Deserialize)]
pub struct LastGood {
    namespace: String,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pair: Option<Pair>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authorities: Option<String>,
}

/// A key pair in PEM.
#[derive(Clone, Serialize, Deserialize)]
struct Pair {
    certificate_chain: String,
    private_key: String,
}

impl LastGood {
    /// Converts `kept` to this form.
    pub fn new(kept: &Kept) -> Self {
        let text = |pem: &[u8]| String::from_utf8_lossy(pem).into_owned();
        Self {
            namespace: kept.key.namespace.to_string(),
            name: kept.key.name.to_string(),
            pair: kept.pair.as_ref().map(|pair| Pair {
                certificate_chain: text(&pair.certificate_chain),
                private_key: text(&pair.private_key),
            }),
            authorities: kept.authorities.as_deref().map(str::to_owned),
        }
    }

    /// Validates the content like the content of a Secret, but accepts an expired certificate.
    ///
    /// # Errors
    ///
    /// The Secret and the fault, without any part of the key.
    pub fn check(&self, now: SystemTime) -> Result<Kept, String> {
        let fault = |fault: String| format!("Secret {}/{}: {fault}", self.namespace, self.name);
        let checked = self.pair.as_ref().map(|pair| {
            let pair = key_pair(pair.certificate_chain.as_bytes(), pair.private_key.as_bytes(), now).map(Into::into);
            pair.or_else(|Unusable { fault, expired, .. }| expired.ok_or(fault))
        });
        Ok(Kept {
            key: ObjectKey::new(&self.namespace, &self.name),
            pair: checked.transpose().map_err(fault)?,
            authorities: match &self.authorities {
                Some(text) => Some(authorities(text.as_bytes()).map_err(fault)?.into()),
                None => None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn pem(names: &[&str], not_after: i32) -> (String, String) {
        let mut params =
            rcgen::CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
        (params.not_before, params.not_after) =
            (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(not_after, 1, 1));
        let key = rcgen::KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    fn last_good((certificate_chain, private_key): (String, String)) -> LastGood {
        let pair = Some(Pair { certificate_chain, private_key });
        LastGood { namespace: "shop".into(), name: "cert".into(), pair, authorities: None }
    }

    #[test]
    fn sent_content_is_received_unchanged() {
        let now = SystemTime::now();
        for not_after in [2040, 2021] {
            let kept = last_good(pem(&["a.test"], not_after)).check(now).unwrap();
            assert_eq!(kept.pair.as_ref().unwrap().names.as_slice(), ["a.test"]);
            let json = serde_json::to_string(&LastGood::new(&kept)).unwrap();
            assert_eq!(serde_json::from_str::<LastGood>(&json).unwrap().check(now).unwrap(), kept);
        }
    }

    #[test]
    fn content_that_no_secret_can_have_is_rejected() {
        let ((certificate, _), (_, key)) = (pem(&["a.test"], 2040), pem(&["a.test"], 2040));
        let fault = last_good((certificate, key.clone())).check(SystemTime::now()).unwrap_err();
        assert_eq!(fault, "Secret shop/cert: data[\"tls.key\"]: the key does not match the certificate");
        assert!(!fault.contains(&key));
    }
}
