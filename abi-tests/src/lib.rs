//! Programs and checks over the installed tree; see `tests/`.
