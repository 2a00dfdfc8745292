//! Tests that every transport must pass.
