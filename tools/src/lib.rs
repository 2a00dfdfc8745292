//! Shared by the tools.
