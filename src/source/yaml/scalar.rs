//! The meaning of scalars: the rules of YAML 1.1 as kubectl's library applies them.

use serde_json::{Number, Value};

/// Returns the value of a plain scalar without a tag.
pub(super) fn plain(text: &str) -> Result<Value, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Ok(true.into()),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Ok(false.into());
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf"
        | "-.INF" => return Err(format!("{text:?} has no meaning in JSON")),
        _ => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return Ok(text.into());
    }
    let digits = text.replace('_', "");
    if let Some(number) = integer(&digits) {
        return Ok(number.into());
    }
    if is_float(&digits)
        && let Some(number) = digits.parse::<f64>().ok().and_then(Number::from_f64)
    {
        return Ok(number.into());
    }
    Ok(text.into())
}

/// Returns the value of a scalar with a standard tag. `suffix` is `int` for `!!int`.
pub(super) fn tagged(suffix: &str, text: &str) -> Result<Value, String> {
    let refused = || format!("{text:?} is no {suffix}");
    let value = plain(text)?;
    match suffix {
        "null" => value.is_null().then_some(value).ok_or_else(refused),
        "bool" => value.is_boolean().then_some(value).ok_or_else(refused),
        "int" => (value.is_i64() || value.is_u64()).then_some(value).ok_or_else(refused),
        "float" => value.is_number().then_some(value).ok_or_else(refused),
        "binary" => Err("binary data has no meaning in JSON: quote the base64 text instead".to_owned()),
        _ => Ok(text.into()),
    }
}

fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative { 0i64.checked_sub_unsigned(magnitude).map(Number::from) } else { Some(magnitude.into()) }
}

/// Matches `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`.
fn is_float(text: &str) -> bool {
    let unsigned = |text: &str| text.strip_prefix(['+', '-']).unwrap_or(text).to_owned();
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let text = unsigned(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(unsigned(exponent))),
        None => (&*text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').map_or((mantissa, None), |(w, f)| (w, Some(f)));
    let some_digit = !whole.is_empty() || fraction.is_some_and(|fraction| !fraction.is_empty());
    some_digit
        && digits(whole)
        && digits(fraction.unwrap_or_default())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(&exponent))
}
