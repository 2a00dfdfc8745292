//! When collective calls run: at once, or at the outermost ncclGroupEnd (spec host 1.2 and 6.6).
