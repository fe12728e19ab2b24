//! Type of the weights in passes.

use serde::{Deserialize, Serialize};
use tch::Kind;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    /// 32 bits.
    #[default]
    Fp32,
    /// 16 bits with the exponent of fp32. Trained parameters stay fp32.
    Bf16,
}

impl Dtype {
    /// libtorch's name of the type.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::Fp32 => Kind::Float,
            Self::Bf16 => Kind::BFloat16,
        }
    }
}
