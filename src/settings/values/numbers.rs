//! Counts, ports, percentages, and amounts of memory.

use lockgate_route::size;
use serde_json::{Value as Json, json};

use super::Scalar;
use crate::fleet::MAX_FLEETS;

/// Parses an integer within bounds.
fn whole(text: &str, least: u64, most: u64) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(number) if (least..=most).contains(&number) && !text.starts_with('+') => Ok(number),
        _ => Err(format!("expected a whole number from {least} to {most}")),
    }
}

fn integer_schema(least: u64, most: u64) -> Json {
    json!({"type": "integer", "minimum": least, "maximum": most})
}

/// Defines a format of integers with a minimum and a maximum.
macro_rules! whole_numbers {
    ($(#[$doc:meta])* $format:ident: $type:ty, $name:literal, $least:literal..=$most:expr) => {
        $(#[$doc])*
        pub struct $format;

        impl Scalar for $format {
            type Value = $type;
            const NAME: &'static str = $name;

            fn parse(text: &str) -> Result<$type, String> {
                let number = whole(text, $least, u64::from($most))?;
                <$type>::try_from(number).map_err(|_| format!("expected at most {}", $most))
            }

            fn show(value: &$type) -> Json {
                (*value).into()
            }

            fn schema() -> Json {
                integer_schema($least, u64::from($most))
            }
        }
    };
}

whole_numbers!(
    /// A count.
    Count: u32, "count", 0..=u32::MAX
);
whole_numbers!(
    /// A count of at least one.
    Positive: u32, "count", 1..=u32::MAX
);
whole_numbers!(
    /// A number of passes of a request. Each one multiplies the requests by the mirrors of its route.
    Passes: u32, "count", 0..=8u32
);
whole_numbers!(
    /// A number of fleets.
    FleetCount: u32, "count", 0..=MAX_FLEETS
);
whole_numbers!(
    /// A number of connections, of which one address may have at most half.
    Connections: u32, "count", 2..=u32::MAX
);
whole_numbers!(
    /// A number of HTTP/2 streams. Source: Envoy `Http2ProtocolOptions.max_concurrent_streams`.
    Streams: u32, "count", 1..=i32::MAX.unsigned_abs()
);
whole_numbers!(
    /// A port.
    Port: u16, "port", 1..=u16::MAX
);
whole_numbers!(
    /// A port, or 0.
    PortOrNone: u16, "port", 0..=u16::MAX
);
whole_numbers!(
    /// One byte of a packet header.
    Byte: u8, "byte", 0..=u8::MAX
);

/// A percentage.
pub struct Percent;

impl Scalar for Percent {
    type Value = f64;
    const NAME: &'static str = "percentage";

    fn parse(text: &str) -> Result<f64, String> {
        let expected = || "expected a number from 0 to 100, such as 100 or 0.5".to_owned();
        let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let number = text.parse::<f64>().map_err(|_| expected())?;
        if plain && (0.0..=100.0).contains(&number) { Ok(number) } else { Err(expected()) }
    }

    fn show(value: &f64) -> Json {
        match value.fract() == 0.0 {
            true => (*value as u64).into(),
            false => (*value).into(),
        }
    }

    fn schema() -> Json {
        json!({"type": "number", "minimum": 0, "maximum": 100})
    }
}

/// Parses an amount of memory.
fn memory(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let expected = || "expected bytes with a unit, such as 32KiB, 1MiB or 512B".to_owned();
    let bytes = size::parse(text).ok_or_else(expected)?;
    match (least..=most).contains(&bytes) {
        true => Ok(bytes),
        false => Err(format!("expected {} to {}", memory_text(least), memory_text(most))),
    }
}

/// Formats an amount of memory in the largest unit without a remainder.
fn memory_text(bytes: u64) -> String {
    let unit = size::UNITS[..3].iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes}B"), |(name, size)| format!("{}{name}", bytes / size))
}

/// Defines a format of bytes with a minimum and a maximum.
macro_rules! bytes {
    ($(#[$doc:meta])* $format:ident: $type:ty, $least:expr, $most:expr) => {
        $(#[$doc])*
        pub struct $format;

        impl Scalar for $format {
            type Value = $type;
            const NAME: &'static str = "size";

            fn parse(text: &str) -> Result<$type, String> {
                let bytes = memory(text, $least, $most)?;
                <$type>::try_from(bytes).map_err(|_| format!("expected at most {}", memory_text($most)))
            }

            fn show(value: &$type) -> Json {
                memory_text(u64::from(*value)).into()
            }

            fn schema() -> Json {
                memory_schema()
            }
        }
    };
}

fn memory_schema() -> Json {
    json!({"anyOf": [
        {"type": "string", "pattern": "^[0-9]+([KMG]iB?|[kMG]B?|B)?$"},
        {"type": "integer", "minimum": 0},
    ]})
}

bytes!(
    /// A buffer.
    Buffer: u32, 1024, 1 << 30
);
bytes!(
    /// The buffered part of a body.
    Body: u32, 1, 1 << 30
);
bytes!(
    /// A body of JSON that is converted; 0 is none.
    JsonBody: u32, 0, 1 << 20
);
bytes!(
    /// The size from which a response is compressed. Source: Envoy `CommonDirectionConfig.min_content_length`.
    Compressible: u32, 30, 1 << 30
);
bytes!(
    /// The size of the configuration for the objects of a namespace.
    NamespaceSize: u64, 1 << 10, 1 << 50
);
bytes!(
    /// The heap of a process; 0 is no limit.
    Heap: u64, 0, 1 << 50
);

/// The headers of a request: whole KiB. Source: Envoy `HttpConnectionManager.max_request_headers_kb`.
pub struct HeadersSize;

impl Scalar for HeadersSize {
    type Value = u32;
    const NAME: &'static str = "size";

    fn parse(text: &str) -> Result<u32, String> {
        let bytes = memory(text, 1 << 10, 8 << 20)?;
        match bytes % 1024 {
            0 => u32::try_from(bytes / 1024).map_err(|_| "expected at most 8MiB".to_owned()),
            _ => Err("expected whole KiB".to_owned()),
        }
    }

    fn show(value: &u32) -> Json {
        memory_text(u64::from(*value) * 1024).into()
    }

    fn schema() -> Json {
        memory_schema()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn amounts_of_memory_have_the_units_of_people_and_of_kubernetes() {
        for (text, bytes) in
            [("32KiB", 32 << 10), ("32Ki", 32 << 10), ("1M", 1_000_000), ("2048", 2048), ("1MiB", 1 << 20)]
        {
            assert_eq!(Buffer::parse(text), Ok(bytes), "{text}");
            assert_eq!(Buffer::parse(Buffer::show(&bytes).as_str().unwrap()), Ok(bytes), "{text}");
        }
        for text in ["", "KiB", "1.5MiB", "-1", "1 MiB", "1kib", "99999999999GiB", "0", "2GiB"] {
            assert!(Buffer::parse(text).is_err(), "{text}");
        }
        assert_eq!(Buffer::parse("12B").unwrap_err(), "expected 1KiB to 1GiB");
        assert_eq!(HeadersSize::parse("96KiB"), Ok(96));
        assert!(HeadersSize::parse("1500B").is_err());
    }

    #[test]
    fn numbers_stay_in_their_bounds() {
        assert!(Port::parse("0").is_err() && PortOrNone::parse("0").is_ok() && Port::parse("65536").is_err());
        assert!(Count::parse("4294967296").is_err() && Count::parse("-1").is_err() && Count::parse("+1").is_err());
        assert!(Positive::parse("0").is_err() && Byte::parse("256").is_err());
        assert_eq!(Percent::parse("0.5"), Ok(0.5));
        assert!(["101", "-1", "NaN", "inf", "1e1", ""].iter().all(|text| Percent::parse(text).is_err()));
        assert_eq!((Percent::show(&100.0), Percent::show(&0.5)), (json!(100), json!(0.5)));
    }
}
