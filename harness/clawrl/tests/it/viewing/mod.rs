//! `clawrl view`.

mod browser_tests;
mod driver;
mod serving;
