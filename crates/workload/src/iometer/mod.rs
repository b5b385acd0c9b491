//! IOMeter: access specifications in `.icf` files.
