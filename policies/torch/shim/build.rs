//! Builds the C++ part.

fn main() {}
