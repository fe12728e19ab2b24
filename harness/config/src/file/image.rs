//! Images, as written.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::located::{Located, Text};
use crate::bounds;

/// The root file system of an environment.
#[derive(Debug, Clone)]
pub(crate) enum ImageFile {
    Name(String),
    Fields(Box<ImageFields>),
}

/// An image in full: exactly one of `name`, `build` and `rootfs`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ImageMap")]
pub(crate) struct ImageFields {
    /// An image that the container engine knows, or finds where it is set to look. Containers only.
    pub(crate) name: Option<Text>,
    /// A folder beside the suite with a Dockerfile. Containers only.
    pub(crate) build: Option<Text>,
    /// With `build`: the Dockerfile in that folder. Default: Dockerfile.
    pub(crate) dockerfile: Option<Text>,
    /// With `build`: how long the build may take. Default: 600.
    #[schemars(range(min = 0.001, max = bounds::MAX_TIMEOUT_SECS))]
    pub(crate) build_timeout_secs: Option<Located<f64>>,
    /// A folder beside the suite with an unpacked root file system; a link to one elsewhere will do. Bubblewrap only.
    pub(crate) rootfs: Option<Text>,
    /// Folder that the agent works in: the workspace. Default: the image's own for containers, /work otherwise.
    pub(crate) workdir: Option<Text>,
    /// The agent's user. Default: the image's own. Containers only.
    pub(crate) user: Option<Text>,
}

impl<'de> Deserialize<'de> for ImageFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ImageVisitor;

        impl<'de> Visitor<'de> for ImageVisitor {
            type Value = ImageFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of an image, or a map with `name:`, `build:` or `rootfs:`")
            }

            fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
                Ok(ImageFile::Name(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let fields = Deserialize::deserialize(MapAccessDeserializer::new(map))?;
                Ok(ImageFile::Fields(Box::new(fields)))
            }
        }

        deserializer.deserialize_any(ImageVisitor)
    }
}

impl JsonSchema for ImageFile {
    fn schema_name() -> Cow<'static, str> {
        "Image".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The root file system: the name of an image, or a map.",
            "oneOf": [{ "type": "string" }, generator.subschema_for::<ImageFields>()]
        })
    }
}
