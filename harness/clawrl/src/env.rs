//! Traits for environments in this process, with the types that they use.

pub use clawrl_inprocess::{
    Environment, Field, IntoEnvironment, MultiTurn, Row, SingleTurn, Step, Tool, ToolEnv, kind,
};
