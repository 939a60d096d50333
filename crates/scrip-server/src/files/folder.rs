//! Creates directories that only their owner can use.

use std::{fs, os::unix::fs::DirBuilderExt, path::Path};

use anyhow::Context;

/// Creates the directory for its owner only. Returns whether it was created.
/// Errors: the directory cannot be created.
pub fn create_folder(folder: &Path) -> anyhow::Result<bool> {
    if folder.is_dir() {
        return Ok(false);
    }
    let result = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    result.with_context(|| format!("{} cannot be created", folder.display()))?;
    Ok(true)
}
