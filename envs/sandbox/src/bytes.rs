//! Bytes in JSON, encoded in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

/// For `#[serde(with = "clawrl_sandbox::bytes")]`.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(bytes: &impl AsRef<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

/// For `#[serde(with = "clawrl_sandbox::bytes")]`.
///
/// # Errors
/// Those of the deserializer, and text that is not base64.
pub fn deserialize<'de, T: From<Vec<u8>>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map(T::from).map_err(D::Error::custom)
}
