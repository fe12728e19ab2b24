//! Shape of a Qwen3 model from its `config.json`.
//!
//! Unsupported settings are refused by name, never ignored: another architecture, attention biases,
//! scaled or partial rotary embeddings, sliding windows, quantised weights.
//!
//! Source: the `Qwen3Config` format of Hugging Face transformers 4 (`rope_theta`, `rope_scaling`, `torch_dtype`) and 5
//! (`rope_parameters`, `layer_types`, `dtype`, `eos_token_id: null`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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
    /// Maximum number of tokens in a sequence.
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
    /// Must be false.
    #[serde(default)]
    pub use_sliding_window: bool,
    /// Stop tokens, unless another file defines them.
    #[serde(default)]
    pub eos_token_id: EndTokens,
    /// Type of the stored weights, `float32` or `bfloat16`; independent of the type of passes.
    #[serde(default = "float32", alias = "torch_dtype")]
    pub dtype: String,
}

/// Tokens that end a reply: in JSON a number, a list, or null for none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<OneOrSeveral>", into = "Option<OneOrSeveral>")]
pub struct EndTokens(pub Vec<u32>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum OneOrSeveral {
    One(u32),
    Several(Vec<u32>),
}

impl From<Option<OneOrSeveral>> for EndTokens {
    fn from(written: Option<OneOrSeveral>) -> Self {
        match written {
            None => Self::default(),
            Some(OneOrSeveral::One(id)) => Self(vec![id]),
            Some(OneOrSeveral::Several(ids)) => Self(ids),
        }
    }
}

impl From<EndTokens> for Option<OneOrSeveral> {
    fn from(tokens: EndTokens) -> Self {
        match tokens.0.as_slice() {
            [] => None,
            &[id] => Some(OneOrSeveral::One(id)),
            _ => Some(OneOrSeveral::Several(tokens.0)),
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelConfigError {
    /// An unsupported setting.
    #[error("config.json asks for {0}, which is not supported")]
    Unsupported(String),
    /// Sizes that contradict each other.
    #[error("config.json is inconsistent: {0}")]
    Inconsistent(String),
    /// Not JSON, or not the fields of a model.
    #[error("config.json cannot be read: {0}")]
    Unreadable(String),
}

fn float32() -> String {
    "float32".to_owned()
}

fn unsupported<T>(what: impl Into<String>) -> Result<T, ModelConfigError> {
    Err(ModelConfigError::Unsupported(what.into()))
}

/// An entry that exists and is not null.
fn entry<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

/// Moves the rotary base to [`ModelConfig`]'s field, and refuses every rotation other than the plain one.
fn settle_rope(fields: &mut Map<String, Value>) -> Result<(), ModelConfigError> {
    for key in ["rope_parameters", "rope_scaling"] {
        let Some(value) = entry(fields, key).cloned() else { continue };
        let Value::Object(parameters) = value else { return unsupported(format!("{key} `{value}`")) };
        if let Some((name, _)) = parameters.iter().find(|(_, value)| value.is_object()) {
            return unsupported(format!("{key} of its own for `{name}`"));
        }
        match entry(&parameters, "rope_type").or_else(|| entry(&parameters, "type")) {
            Some(Value::String(kind)) if kind == "default" => {}
            Some(kind) => return unsupported(format!("{key} of the type {kind}")),
            // Without a type it is the plain one, unless something is scaled.
            None if entry(&parameters, "factor").is_some() => {
                return unsupported(format!("{key} with a factor"));
            }
            None => {}
        }
        if let Some(theta) = entry(&parameters, "rope_theta") {
            fields.insert("rope_theta".to_owned(), theta.clone());
        }
        if let Some(factor) = entry(&parameters, "partial_rotary_factor") {
            fields.insert("partial_rotary_factor".to_owned(), factor.clone());
        }
    }
    match entry(fields, "partial_rotary_factor").map(|factor| factor.as_f64()) {
        None | Some(Some(1.0)) => {}
        Some(_) => return unsupported("partial_rotary_factor"),
    }
    if entry(fields, "rope_theta").is_none() {
        let what = "there is neither `rope_theta` nor `rope_parameters` with one";
        return Err(ModelConfigError::Inconsistent(what.to_owned()));
    }
    Ok(())
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
            use_sliding_window: false,
            eos_token_id: EndTokens(vec![eos_token_id]),
            dtype: float32(),
        }
    }

    /// Reads and checks `config.json` as transformers 4 and 5 write it. Weights in fp16 are read as fp32 and will be written so.
    ///
    /// # Errors
    /// [`ModelConfigError`], with the name of the field.
    pub fn parse(text: &str) -> Result<Self, ModelConfigError> {
        let unreadable = |error: serde_json::Error| ModelConfigError::Unreadable(error.to_string());
        let mut fields: Map<String, Value> = serde_json::from_str(text).map_err(unreadable)?;
        // First of all, since other architectures have other fields.
        match entry(&fields, "model_type") {
            Some(Value::String(kind)) if kind == "qwen3" => {}
            Some(kind) => return unsupported(format!("model_type {kind}; only qwen3 is")),
            None => return unsupported("a model without model_type"),
        }
        if entry(&fields, "quantization_config").is_some() {
            return unsupported("quantization_config: save the weights as float32, bfloat16 or float16");
        }
        let layers = entry(&fields, "layer_types").and_then(Value::as_array);
        if let Some(kind) = layers.into_iter().flatten().find(|kind| *kind != "full_attention") {
            return unsupported(format!("layer_types with {kind}"));
        }
        settle_rope(&mut fields)?;
        for key in ["dtype", "torch_dtype"] {
            match entry(&fields, key) {
                None => drop(fields.remove(key)),
                Some(kind) if kind == "float16" => drop(fields.insert(key.to_owned(), float32().into())),
                Some(_) => {}
            }
        }
        if fields.contains_key("dtype") {
            fields.remove("torch_dtype");
        }
        let config: Self = serde_json::from_value(fields.into()).map_err(unreadable)?;
        config.check()?;
        Ok(config)
    }

    /// Checks that the settings are supported.
    ///
    /// # Errors
    /// [`ModelConfigError`], with the name of the field.
    pub fn check(&self) -> Result<(), ModelConfigError> {
        let inconsistent = |what: &str| Err(ModelConfigError::Inconsistent(what.to_owned()));
        if self.model_type != "qwen3" {
            return unsupported(format!("model_type `{}`", self.model_type));
        }
        if self.hidden_act != "silu" {
            return unsupported(format!("hidden_act `{}`", self.hidden_act));
        }
        if self.attention_bias {
            return unsupported("attention_bias");
        }
        if self.use_sliding_window {
            return unsupported("use_sliding_window");
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
        if self.eos_token_id.0.iter().any(|&id| i64::from(id) >= self.vocab_size) {
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
    use serde_json::json;

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
        check(|config| config.hidden_size = 120, Some("multiples of 16"));
        check(|config| config.num_key_value_heads = 3, Some("multiple of num_key_value_heads"));
        check(|config| config.eos_token_id.0 = vec![3, 512], Some("outside the vocabulary"));
        check(|config| config.vocab_size = 0, Some("every size"));
        check(|config| config.rms_norm_eps = f64::NAN, Some("positive"));
    }

    #[test]
    fn json_round_trips() {
        for tokens in [vec![3], vec![3, 5], vec![]] {
            let config = ModelConfig { eos_token_id: EndTokens(tokens), ..ModelConfig::tiny(512, 3) };
            let text = serde_json::to_string(&config).unwrap();
            assert_eq!(ModelConfig::parse(&text), Ok(config));
        }
    }

    /// The configuration with these fields changed; null removes one.
    fn parse(changes: Value) -> Result<ModelConfig, String> {
        let Ok(Value::Object(mut fields)) = serde_json::to_value(ModelConfig::tiny(512, 3)) else {
            unreachable!()
        };
        let Value::Object(changes) = changes else { unreachable!() };
        for (key, value) in changes {
            match value {
                Value::Null => drop(fields.remove(&key)),
                value => drop(fields.insert(key, value)),
            }
        }
        ModelConfig::parse(&Value::from(fields).to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_configuration_of_transformers_5_is_read() {
        let rope = json!({"rope_theta": 5e6, "rope_type": "default"});
        let layers = ["full_attention"; 3];
        let changes = json!({"rope_theta": null, "rope_parameters": rope, "layer_types": layers, "eos_token_id": null,
                             "dtype": "bfloat16", "sliding_window": 4096});
        let config = parse(changes).unwrap();
        assert_eq!((config.rope_theta, config.dtype.as_str()), (5e6, "bfloat16"));
        assert_eq!(config.eos_token_id.0, [0; 0]);
        // Of two, the new one.
        assert_eq!(parse(json!({"rope_parameters": rope})).unwrap().rope_theta, 5e6);
    }

    #[test]
    fn every_rotation_but_the_plain_one_is_refused() {
        let check = |changes: Value, part: &str| {
            let error = parse(changes.clone()).unwrap_err();
            assert!(error.contains(part) && error.contains("not supported"), "{changes}: {error}");
        };
        for key in ["rope_parameters", "rope_scaling"] {
            for kind in ["yarn", "linear", "dynamic", "llama3", "longrope", "mrope"] {
                let expected = format!("{key} of the type \"{kind}\"");
                check(json!({key: {"rope_type": kind, "rope_theta": 1e4, "factor": 4.0}}), &expected);
                check(json!({key: {"type": kind, "factor": 4.0}}), &expected);
            }
            check(json!({key: {"factor": 4.0}}), "with a factor");
            check(json!({key: {"full_attention": {"rope_type": "default"}}}), "`full_attention`");
            check(
                json!({key: {"rope_type": "default", "partial_rotary_factor": 0.5}}),
                "partial_rotary_factor",
            );
            check(json!({key: "yarn"}), "yarn");
        }
        assert!(parse(json!({"rope_theta": null})).unwrap_err().contains("neither `rope_theta` nor"));
        assert!(parse(json!({"rope_scaling": {"type": "default"}})).is_ok());
    }

    #[test]
    fn what_would_change_the_result_is_refused_by_name() {
        let check = |changes: Value, part: &str| {
            let error = parse(changes).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        check(json!({"model_type": "llama", "head_dim": null}), "model_type \"llama\"; only qwen3 is");
        check(json!({"model_type": null}), "without model_type");
        check(
            json!({"layer_types": ["full_attention", "sliding_attention"]}),
            "layer_types with \"sliding_attention\"",
        );
        check(json!({"quantization_config": {"quant_method": "fp8"}}), "quantization_config");
        check(json!({"dtype": "float8_e4m3fn"}), "dtype `float8_e4m3fn`");
        check(json!({"hidden_size": null}), "missing field `hidden_size`");
        assert!(ModelConfig::parse("{").unwrap_err().to_string().contains("cannot be read"));
    }

    #[test]
    fn fp16_is_read_as_fp32() {
        for key in ["dtype", "torch_dtype"] {
            let changes =
                if key == "dtype" { json!({key: "float16"}) } else { json!({"dtype": null, key: "float16"}) };
            assert_eq!(parse(changes).unwrap().dtype, "float32");
        }
        // Both, as some tools leave it.
        assert_eq!(parse(json!({"torch_dtype": "float32", "dtype": "bfloat16"})).unwrap().dtype, "bfloat16");
    }
}
