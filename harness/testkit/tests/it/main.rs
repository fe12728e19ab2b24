//! The suite against providers that conform and providers that do not.

mod conformance;
