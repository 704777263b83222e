//! Config text to typed config, with all its errors and their places.

mod model;

pub use model::*;
