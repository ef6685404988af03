//! Scalars of proto3 JSON, and descriptions of unexpected values.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use prost_reflect::{EnumDescriptor, Kind, MapKey, Value};
use serde_json::Value as Json;

use super::JsonError;

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_allow_trailing_bits(true)
    .with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// The maximum number of names in an error.
const LISTED: usize = 12;

/// Encodes `bytes` in base64.
pub(super) fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Parses a value of type `kind`, which is not a message.
pub(super) fn scalar(kind: &Kind, json: &Json) -> Result<Value, JsonError> {
    Ok(match kind {
        Kind::Bool => Value::Bool(json.as_bool().ok_or_else(|| expected("true or false", json))?),
        Kind::String => Value::String(text("text", json)?.to_owned()),
        Kind::Bytes => {
            let text = text("base64 text", json)?;
            let bytes = if text.contains(['-', '_']) { URL_SAFE.decode(text) } else { STANDARD.decode(text) };
            // It is not quoted, because it may be a secret.
            Value::Bytes(bytes.map_err(|_| JsonError::new("the text is not base64"))?.into())
        }
        Kind::Enum(descriptor) => Value::EnumNumber(enumerated(descriptor, json)?),
        Kind::Float => Value::F32(float(json)? as f32),
        Kind::Double => Value::F64(float(json)?),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            Value::I32(whole(json).and_then(|n| n.try_into().ok()).ok_or_else(|| expected("a whole number", json))?)
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            Value::I64(whole(json).and_then(|n| n.try_into().ok()).ok_or_else(|| expected("a whole number", json))?)
        }
        Kind::Uint32 | Kind::Fixed32 => {
            let number = whole(json).and_then(|n| n.try_into().ok());
            Value::U32(number.ok_or_else(|| expected("a whole number from 0 to 4294967295", json))?)
        }
        Kind::Uint64 | Kind::Fixed64 => {
            let number = whole(json).and_then(|n| n.try_into().ok());
            Value::U64(number.ok_or_else(|| expected("a whole number from 0", json))?)
        }
        Kind::Message(_) => return Err(expected("a value", json)),
    })
}

/// Parses the key of a map entry.
pub(super) fn map_key(kind: &Kind, text: &str) -> Result<MapKey, JsonError> {
    let refused = || JsonError::new(format!("the key {text:?} does not fit: {kind:?} is expected"));
    Ok(match kind {
        Kind::String => MapKey::String(text.to_owned()),
        Kind::Bool => MapKey::Bool(text.parse().map_err(|_| refused())?),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => MapKey::I32(text.parse().map_err(|_| refused())?),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => MapKey::I64(text.parse().map_err(|_| refused())?),
        Kind::Uint32 | Kind::Fixed32 => MapKey::U32(text.parse().map_err(|_| refused())?),
        Kind::Uint64 | Kind::Fixed64 => MapKey::U64(text.parse().map_err(|_| refused())?),
        _ => return Err(refused()),
    })
}

/// Returns the string in `json`. Otherwise, the error contains the expectation `what`.
pub(super) fn text<'a>(what: &str, json: &'a Json) -> Result<&'a str, JsonError> {
    json.as_str().ok_or_else(|| match json {
        Json::Number(_) | Json::Bool(_) => JsonError::new(format!("expected {what}, found {json}: quote it")),
        _ => expected(what, json),
    })
}

/// Returns the error for `json` instead of the expectation `what`.
pub(super) fn expected(what: &str, json: &Json) -> JsonError {
    let found = match json {
        Json::Null => "nothing".to_owned(),
        Json::Bool(_) | Json::Number(_) => json.to_string(),
        // Short texts are values like `yes`. Long texts may be secrets.
        Json::String(text) if text.chars().count() <= 40 => format!("{text:?}"),
        Json::String(_) => "text".to_owned(),
        Json::Array(_) => "a list".to_owned(),
        Json::Object(_) => "an object".to_owned(),
    };
    JsonError::new(format!("expected {what}, found {found}"))
}

/// Parses an integer from a number or a string, because JSON numbers cannot hold large integers.
fn whole(json: &Json) -> Option<i128> {
    match json {
        Json::Number(number) => number.as_i128().or_else(|| fraction_free(number.as_f64()?)),
        Json::String(text) => text.parse().ok().or_else(|| fraction_free(text.parse().ok()?)),
        _ => None,
    }
}

fn fraction_free(number: f64) -> Option<i128> {
    (number.fract() == 0.0 && number.abs() < 2f64.powi(64)).then_some(number as i128)
}

fn float(json: &Json) -> Result<f64, JsonError> {
    let number = match json {
        Json::Number(number) => number.as_f64(),
        Json::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            text => text.parse().ok().filter(|number: &f64| number.is_finite()),
        },
        _ => None,
    };
    number.ok_or_else(|| expected("a number", json))
}

fn enumerated(descriptor: &EnumDescriptor, json: &Json) -> Result<i32, JsonError> {
    match json {
        Json::String(name) => descriptor.get_value_by_name(name).map(|value| value.number()).ok_or_else(|| {
            let names: Vec<String> = descriptor.values().map(|value| value.name().to_owned()).collect();
            let known = if names.len() <= LISTED {
                format!("known are {}", names.join(", "))
            } else {
                format!("there are {} others", names.len())
            };
            JsonError::new(format!("{name:?} is not a value of {}; {known}", descriptor.full_name()))
        }),
        Json::Number(number) => number
            .as_i64()
            .and_then(|number| number.try_into().ok())
            .ok_or_else(|| expected("the name of a value", json)),
        _ => Err(expected("the name of a value", json)),
    }
}
