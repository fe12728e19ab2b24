//! From text to token ids and back, and tokenizers made from nothing.

mod error;
mod text;
mod train;

pub use error::TokenizerError;
pub use text::{MarkupTokens, Tokenizer};
pub use train::{END, PAD, ROLE_TOKENS, Training, train_tokenizer};
