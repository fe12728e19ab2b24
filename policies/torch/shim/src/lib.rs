//! libtorch functions that tch does not offer.
