//! Shape of a Qwen3 model, as its `config.json` says.
//!
//! What this program does not compute is refused by name, never ignored: another architecture, attention biases,
//! scaled rotary embeddings, sliding windows.
//!
//! Source: the `Qwen3Config` format of Hugging Face transformers.

use serde::{Deserialize, Serialize};

/// Shape letters used below: V vocabulary, D hidden size, F intermediate size, L layers, H query heads, K key and
/// value heads, E head size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelConfig {
    /// Always `qwen3`.
    pub model_type: String,
    /// Always one name, `Qwen3ForCausalLM`.
    pub architectures: Vec<String>,
    /// V.
    pub vocab_size: i64,
    /// D, a multiple of 16.
    pub hidden_size: i64,
    /// F.
    pub intermediate_size: i64,
    /// L.
    pub num_hidden_layers: i64,
    /// H, a multiple of K.
    pub num_attention_heads: i64,
    /// K.
    pub num_key_value_heads: i64,
    /// E, even.
    pub head_dim: i64,
    /// Most tokens of a sequence.
    pub max_position_embeddings: i64,
    /// Added under the root of every norm.
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Whether the output matrix is the embedding.
    pub tie_word_embeddings: bool,
    /// Standard deviation of freshly drawn matrices other than embeddings.
    pub initializer_range: f64,
    /// Activation of the gate, always `silu`.
    pub hidden_act: String,
    /// Must be false.
    #[serde(default)]
    pub attention_bias: bool,
    /// Must be absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rope_scaling: Option<serde_json::Value>,
    /// Must be false.
    #[serde(default)]
    pub use_sliding_window: bool,
    /// Ends a reply.
    pub eos_token_id: u32,
    /// Type of the stored weights, `float32` or `bfloat16`; what is computed with is another question.
    #[serde(default = "float32", alias = "torch_dtype")]
    pub dtype: String,
}

/// Why a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelConfigError {
    /// Something this program does not compute.
    #[error("config.json asks for {0}, which is not supported")]
    Unsupported(String),
    /// Numbers that do not fit each other.
    #[error("config.json is inconsistent: {0}")]
    Inconsistent(String),
}

fn float32() -> String {
    "float32".to_owned()
}

impl ModelConfig {
    /// The smallest model that learns the short terminal tasks: about 0.6 million parameters.
    #[must_use]
    pub fn tiny(vocab_size: i64, eos_token_id: u32) -> Self {
        Self {
            model_type: "qwen3".to_owned(),
            architectures: vec!["Qwen3ForCausalLM".to_owned()],
            vocab_size,
            hidden_size: 128,
            intermediate_size: 352,
            num_hidden_layers: 3,
            num_attention_heads: 4,
            num_key_value_heads: 2,
            head_dim: 32,
            max_position_embeddings: 2048,
            rms_norm_eps: 1e-6,
            // Conversations are short: more of a head's dimensions tell neighbours apart.
            rope_theta: 1_000.0,
            tie_word_embeddings: true,
            // Three times the usual: a narrow model learns faster so.
            initializer_range: 0.06,
            hidden_act: "silu".to_owned(),
            attention_bias: false,
            rope_scaling: None,
            use_sliding_window: false,
            eos_token_id,
            dtype: float32(),
        }
    }

    /// Refuses what cannot be computed.
    ///
    /// # Errors
    /// [`ModelConfigError`], with the name of the field.
    pub fn check(&self) -> Result<(), ModelConfigError> {
        let unsupported = |what: String| Err(ModelConfigError::Unsupported(what));
        let inconsistent = |what: &str| Err(ModelConfigError::Inconsistent(what.to_owned()));
        if self.model_type != "qwen3" {
            return unsupported(format!("model_type `{}`", self.model_type));
        }
        if self.hidden_act != "silu" {
            return unsupported(format!("hidden_act `{}`", self.hidden_act));
        }
        if self.attention_bias {
            return unsupported("attention_bias".to_owned());
        }
        if self.rope_scaling.is_some() {
            return unsupported("rope_scaling".to_owned());
        }
        if self.use_sliding_window {
            return unsupported("use_sliding_window".to_owned());
        }
        if !matches!(self.dtype.as_str(), "float32" | "bfloat16") {
            return unsupported(format!("dtype `{}`", self.dtype));
        }
        let sizes = [
            self.vocab_size,
            self.hidden_size,
            self.intermediate_size,
            self.num_hidden_layers,
            self.num_attention_heads,
            self.num_key_value_heads,
            self.head_dim,
            self.max_position_embeddings,
        ];
        // Products of two sizes stay far below the limits of i64.
        if sizes.iter().any(|&size| !(1..=1 << 24).contains(&size)) {
            return inconsistent("every size has to be from 1 to 16,777,216");
        }
        if self.hidden_size % 16 != 0 || self.intermediate_size % 16 != 0 {
            return inconsistent("hidden_size and intermediate_size have to be multiples of 16");
        }
        if self.num_attention_heads % self.num_key_value_heads != 0 {
            return inconsistent("num_attention_heads has to be a multiple of num_key_value_heads");
        }
        if self.head_dim % 2 != 0 {
            return inconsistent("head_dim has to be even");
        }
        if i64::from(self.eos_token_id) >= self.vocab_size {
            return inconsistent("eos_token_id is outside the vocabulary");
        }
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if !positive(self.rms_norm_eps) || !positive(self.rope_theta) || !positive(self.initializer_range) {
            return inconsistent("rms_norm_eps, rope_theta and initializer_range have to be positive");
        }
        Ok(())
    }

    /// Rows of the query projection, H x E.
    #[must_use]
    pub fn query_size(&self) -> i64 {
        self.num_attention_heads * self.head_dim
    }

    /// Rows of the key projection, and of the value projection, K x E.
    #[must_use]
    pub fn key_value_size(&self) -> i64 {
        self.num_key_value_heads * self.head_dim
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut ModelConfig), expected: Option<&str>) {
        let mut config = ModelConfig::tiny(512, 3);
        change(&mut config);
        let got = config.check().err().map(|error| error.to_string());
        match expected {
            None => assert_eq!(got, None),
            Some(part) => assert!(got.as_ref().is_some_and(|got| got.contains(part)), "{got:?}"),
        }
    }

    #[test]
    fn what_cannot_be_computed_is_refused_by_name() {
        check(|_| {}, None);
        check(|config| config.model_type = "llama".to_owned(), Some("model_type `llama`"));
        check(|config| config.attention_bias = true, Some("attention_bias"));
        check(|config| config.rope_scaling = Some(serde_json::json!({"type": "yarn"})), Some("rope_scaling"));
        check(|config| config.hidden_size = 120, Some("multiples of 16"));
        check(|config| config.num_key_value_heads = 3, Some("multiple of num_key_value_heads"));
        check(|config| config.eos_token_id = 512, Some("outside the vocabulary"));
        check(|config| config.vocab_size = 0, Some("every size"));
        check(|config| config.rms_norm_eps = f64::NAN, Some("positive"));
    }

    #[test]
    fn json_round_trips() {
        let config = ModelConfig::tiny(512, 3);
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<ModelConfig>(&text).unwrap(), config);
    }
}
