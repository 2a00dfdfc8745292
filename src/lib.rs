//! ginrs
