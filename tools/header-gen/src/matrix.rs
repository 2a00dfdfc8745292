//! MATRIX.md.
use std::path::Path;

/// The page.
pub fn render(_root: &Path, _exports: &[String]) -> Result<String, String> {
    Ok("x".into())
}
