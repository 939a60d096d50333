//! The files of the repository, without build output and fetched packages.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Folders without files of the project.
const SKIPPED_FOLDERS: [&str; 4] = ["target", "node_modules", ".git", "scrip-data"];

/// Returns all files below `folder`, sorted by path.
pub fn files_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    collect_files(folder, &mut files)?;
    files.sort();
    Ok(files)
}

/// Returns the files below `folder` with this extension.
pub fn files_with_extension(folder: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let mut files = files_below(folder)?;
    files.retain(|path| path.extension().is_some_and(|it| it == extension));
    Ok(files)
}

/// Returns the folders of all crates of the workspace: folders with a `Cargo.toml` and `src`.
pub fn crate_folders(root: &Path) -> io::Result<Vec<PathBuf>> {
    let manifests = files_with_extension(root, "toml")?;
    let folders = manifests.iter().filter(|path| path.ends_with("Cargo.toml"));
    let folders = folders.filter_map(|path| path.parent()).filter(|it| it.join("src").is_dir());
    Ok(folders.map(Path::to_path_buf).collect())
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if SKIPPED_FOLDERS.contains(&name.as_ref()) {
            continue;
        }
        if path.is_dir() { collect_files(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
