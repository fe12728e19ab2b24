//! An environment that is a program in a sandbox.

mod place;
mod talk;

pub(crate) use place::{Place, PlaceKind, make};
pub(crate) use talk::too_large;
