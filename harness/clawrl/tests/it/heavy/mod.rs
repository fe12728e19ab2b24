//! Tests that load the whole machine; `.config/nextest.toml` runs them alone.

mod browser_tests;
mod hostile;
mod killing;
mod thousands;
