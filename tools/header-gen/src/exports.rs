//! The names in exports.map.

use std::path::Path;

/// Every exported name, in the map's order.
pub fn read(root: &Path) -> Result<Vec<String>, String> {
    let map = std::fs::read_to_string(root.join("exports.map")).map_err(|error| format!("exports.map: {error}"))?;
    let list =
        map.split_once("global:").and_then(|(_, rest)| rest.split_once("local:")).ok_or("exports.map: no global: ... local:")?.0;
    Ok(list.split(';').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect())
}
