//! The four formats in which Envoy reads a `DiscoveryResponse` from a file. The suffix of the file determines the
//! format.

use serde_json::Value;

use lockgate_xds::protobuf;

/// The message in a file.
const RESPONSE: &str = "envoy.service.discovery.v3.DiscoveryResponse";

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// Binary: the smallest and fastest format.
    Pb,
    /// Proto3 JSON.
    Json,
    /// YAML of the same structure.
    Yaml,
    /// Text proto.
    PbText,
}

impl FileFormat {
    /// Returns the suffix of file names.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Pb => ".pb",
            Self::Json => ".json",
            Self::Yaml => ".yaml",
            Self::PbText => ".pb_text",
        }
    }

    /// Converts `response`, an encoded `DiscoveryResponse`, to the content of a file.
    pub(super) fn write(self, response: &[u8]) -> Result<Vec<u8>, String> {
        let json = || protobuf::to_json(RESPONSE, response);
        match self {
            Self::Pb => Ok(response.to_vec()),
            Self::Json => match serde_json::to_vec_pretty(&json()) {
                Ok(mut text) => {
                    text.push(b'\n');
                    Ok(text)
                }
                Err(error) => Err(error.to_string()),
            },
            Self::Yaml => {
                // Envoy misreads `on`, `y`, or `0x1` without quotes.
                let mut options = serde_saphyr::SerializerOptions::default();
                options.quote_all = true;
                let mut text = String::new();
                let written = serde_saphyr::to_fmt_writer_with_options(&mut text, &json(), options);
                written.map(|()| text.into_bytes()).map_err(|error| error.to_string())
            }
            Self::PbText => Ok(protobuf::to_text(RESPONSE, response).into_bytes()),
        }
    }

    /// Converts the content of a file to an encoded `DiscoveryResponse`.
    pub(super) fn read(self, content: &[u8]) -> Result<Vec<u8>, String> {
        let text = || std::str::from_utf8(content).map_err(|error| error.to_string());
        match self {
            Self::Pb => Ok(content.to_vec()),
            Self::Json => from_json(serde_json::from_slice(content).map_err(|error| error.to_string())?),
            Self::Yaml => {
                let mut options = serde_saphyr::Options::default();
                // The exporter wrote the file itself, so it needs no limits.
                options.budget = None;
                let value = serde_saphyr::from_str_with_options(text()?, options);
                from_json(value.map_err(|error| error.to_string())?)
            }
            Self::PbText => protobuf::from_text(RESPONSE, text()?),
        }
    }
}

fn from_json(mut value: Value) -> Result<Vec<u8>, String> {
    let Some(fields) = value.as_object_mut() else { return Err("no object".to_owned()) };
    fields.insert("@type".to_owned(), format!("type.googleapis.com/{RESPONSE}").into());
    protobuf::from_json(&value).map(|encoded| encoded.message).map_err(|error| error.to_string())
}
