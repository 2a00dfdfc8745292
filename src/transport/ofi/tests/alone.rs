//! Tests that fork, or ask libfabric first: alone in a process, for another test's thread may hold a lock meanwhile, or have asked before.

/// True in that process, where the test goes on; elsewhere it has passed there by now. `name` is the test's whole one.
pub fn is_alone(name: &str) -> bool {
    const ALONE: &str = "GINRS_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    let output = again.args(["--exact", name]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    false
}
