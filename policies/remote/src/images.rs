//! The images of a conversation as both dialects send them: in base64, inside the request.
//!
//! Servers keep no state between turns, so an image is sent with every request whose conversation contains it. The limits
//! of a conversation bound their number.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clawrl_core::{BlobRef, BlobStore, Boundary, Fault, Message, Part};
use serde_json::{Value, json};

/// Media types that models accept.
const TAKEN: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Read once for a request.
#[derive(Debug, Default)]
pub(crate) struct Images {
    /// In base64, by hash.
    data: HashMap<String, String>,
    /// Number of images in the conversation.
    pub(crate) count: u32,
    /// Their size in the request, in bytes.
    pub(crate) bytes: usize,
}

impl Images {
    /// Reads the images of a conversation.
    ///
    /// # Errors
    /// A policy [`Fault`] if an image is missing or has a media type that models do not accept.
    pub(crate) async fn of(conversation: &[Message], blobs: &dyn BlobStore) -> Result<Self, Fault> {
        let mut images = Self::default();
        for part in conversation.iter().flat_map(|message| &message.parts) {
            let Part::Image { media_type, sha256 } = part else { continue };
            if !TAKEN.contains(&media_type.as_str()) {
                let message = format!(
                    "the conversation has an image of the kind `{media_type}`; models take {}",
                    TAKEN.join(", ")
                );
                return Err(Fault::permanent(Boundary::Policy, "image-unsupported", message));
            }
            if !images.data.contains_key(sha256) {
                let blob = BlobRef { media_type: media_type.clone(), sha256: sha256.clone() };
                let bytes = blobs.read(&blob).await.map_err(|error| {
                    let message = format!("an image of the conversation cannot be read: {error}");
                    Fault::permanent(Boundary::Policy, "image-missing", message)
                })?;
                images.data.insert(sha256.clone(), STANDARD.encode(&bytes));
            }
            images.count += 1;
            images.bytes += images.base64(sha256).len();
        }
        Ok(images)
    }

    /// Empty if the image was not read.
    fn base64(&self, sha256: &str) -> &str {
        self.data.get(sha256).map_or("", String::as_str)
    }

    /// An image as a part of a chat completion message.
    pub(crate) fn openai_part(&self, media_type: &str, sha256: &str) -> Value {
        let url = format!("data:{media_type};base64,{}", self.base64(sha256));
        json!({ "type": "image_url", "image_url": { "url": url } })
    }

    /// An image as a part of an Anthropic message.
    pub(crate) fn anthropic_part(&self, media_type: &str, sha256: &str) -> Value {
        let source = json!({ "type": "base64", "media_type": media_type, "data": self.base64(sha256) });
        json!({ "type": "image", "source": source })
    }
}

/// Whether a message has any.
pub(crate) fn has_images(message: &Message) -> bool {
    message.parts.iter().any(|part| matches!(part, Part::Image { .. }))
}
