//! Settings (being written: the table and the conf files follow).
/// An integer variable of the table.
pub fn int(name: &str) -> i64 { std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(match name { "GINRS_INIT_TIMEOUT" => 120, "GINRS_TIMEOUT" => 300, "GINRS_WAIT_WARN" => 10, "NCCL_GIN_NCONTEXTS" => 4, "NCCL_WIN_STRIDE" => -1, _ => 0 }) }
/// A text variable of the table; None when unset or empty.
pub fn text(name: &str) -> Option<String> { std::env::var(name).ok().filter(|v| !v.is_empty()) }
/// A variable of the table in seconds.
pub fn seconds(name: &str) -> std::time::Duration { std::time::Duration::from_secs(int(name).max(0) as u64) }
