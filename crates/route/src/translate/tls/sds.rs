//! The secrets that Envoys receive by SDS.

use ring::hmac;

use crate::model::{Confidential, Material, Revoking, SdsSecret, SecretId, SecretPart, SecretSource};
use crate::objects::{ConfigMap, Kind, ObjectKey, Objects, Secret};

/// Returns a secret of the model.
pub fn secret(objects: &Objects, id: &SecretId) -> Option<SdsSecret> {
    let (key, part) = match id.source() {
        SecretSource::Secret(key, part) => (key, part),
        SecretSource::ConfigMaps(first, others) => return authorities(objects, first, others),
        SecretSource::Revoking { authorities, revocations, is_leaf_only } => {
            return revoking(objects, authorities, revocations, *is_leaf_only);
        }
    };
    let secret = objects.get::<Secret>(key)?;
    let material = match part {
        SecretPart::Authorities => Material::Authorities(secret.authorities.clone()?),
        SecretPart::KeyPair => Material::Pair(secret.pair.clone()?),
        SecretPart::ClientSecret => Material::Text(secret.client_secret.clone()?),
        SecretPart::CookieKey => Material::Text(cookie_key(secret.client_secret.as_ref()?)),
    };
    Some(SdsSecret { material, origin: secret.meta.object_ref(Kind::SECRET) })
}

/// Derives the key of cookies from the secret of an application. All replicas and Envoys have the same key, and a new secret ends all
/// sessions. The key reveals nothing about the secret.
fn cookie_key(client_secret: &Confidential) -> Confidential {
    const PURPOSE: &[u8] = b"lockgate.dev: the key of session cookies, version 1";
    let key = hmac::Key::new(hmac::HMAC_SHA256, client_secret.as_bytes());
    let tag = hmac::sign(&key, PURPOSE);
    let text: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    text.as_str().into()
}

/// Returns the certificate authorities of a Secret with the revocation lists of another one.
fn revoking(objects: &Objects, authorities: &ObjectKey, lists: &ObjectKey, is_leaf_only: bool) -> Option<SdsSecret> {
    let secret = objects.get::<Secret>(authorities)?;
    let authorities = secret.authorities.clone()?;
    let revocations = objects.get::<Secret>(lists)?.revocations.clone()?.ok()?;
    let material = Material::Revoking(Revoking { authorities, revocations, is_leaf_only });
    Some(SdsSecret { material, origin: secret.meta.object_ref(Kind::SECRET) })
}

/// Returns the certificate authorities of ConfigMaps.
fn authorities(objects: &Objects, first: &ObjectKey, others: &[ObjectKey]) -> Option<SdsSecret> {
    let config_map = objects.get::<ConfigMap>(first)?;
    let mut authorities = config_map.authorities.as_ref().ok()?.clone();
    for other in others {
        let other = objects.get::<ConfigMap>(other)?.authorities.as_ref().ok()?;
        authorities = format!("{authorities}{other}").into();
    }
    let origin = config_map.meta.object_ref(Kind::CONFIG_MAP);
    Some(SdsSecret { material: Material::Authorities(authorities), origin })
}
