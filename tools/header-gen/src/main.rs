//! Generates the committed C header and the matrix.
fn main() {}
