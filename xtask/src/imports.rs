//! The imports between files, and their cycles.
//!
//! An import leads to the file that defines the item, not to a module that re-exports it. A parent
//! module and the modules below it may import each other. Such an import is not an edge of the
//! graph.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::modules::{self, ModulePath, ModuleTree};

/// For each file, the files with items that it imports.
pub type ImportGraph = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// The maximum depth of re-exports. The compiler rejects cycles of them.
const REEXPORTS_MAX: usize = 16;

/// Reads the imports between the files of a crate. `root_file` is its `lib.rs` or `main.rs`.
pub fn import_graph(root_file: &Path) -> Result<ImportGraph> {
    let tree = modules::read_crate(root_file)?;
    let mut graph = ImportGraph::new();
    for (module_path, module) in &tree {
        let edges = graph.entry(module.file.clone()).or_default();
        let imports = module.imports.iter().map(|it| &it.path);
        for path in imports.chain(&module.paths) {
            let Some(target) = defining_module(&tree, path.clone(), 0) else { continue };
            let Some(definition) = tree.get(&target) else { continue };
            let is_parent_or_child =
                module_path.starts_with(&target) || target.starts_with(module_path);
            if !is_parent_or_child && definition.file != module.file {
                edges.insert(definition.file.clone());
            }
        }
    }
    Ok(graph)
}

/// Finds the module that defines the item at `path`, through any re-exports.
fn defining_module(tree: &ModuleTree, path: ModulePath, depth: usize) -> Option<ModulePath> {
    if depth > REEXPORTS_MAX {
        return None;
    }
    let mut length = path.len();
    while length > 0 && !tree.contains_key(path.get(..length)?) {
        length -= 1;
    }
    let (module_path, item_path) = path.split_at_checked(length)?;
    let Some(name) = item_path.first() else { return Some(module_path.to_vec()) };
    let module = tree.get(module_path)?;
    let import = module.imports.iter().find(|it| it.name.as_ref() == Some(name));
    let Some(import) = import else { return Some(module_path.to_vec()) };
    // The import leads to itself: an item of the same name that is not from this crate.
    let resolved: ModulePath =
        import.path.iter().chain(item_path.iter().skip(1)).cloned().collect();
    if resolved == path {
        return (depth > 0).then(|| module_path.to_vec());
    }
    // An import from another crate resolves to nothing below the importing module.
    if import.path.get(..length) == Some(module_path) && import.path.len() > length {
        let child: ModulePath = import.path.get(..=length)?.to_vec();
        let is_imported =
            module.imports.iter().any(|it| it.name.as_deref() == child.last().map(String::as_str));
        if !tree.contains_key(&child) && !is_imported {
            return None;
        }
    }
    defining_module(tree, resolved, depth + 1)
}

/// Returns the sets of files that import each other in a cycle, the largest first.
#[must_use]
pub fn find_cycles(graph: &ImportGraph) -> Vec<Vec<PathBuf>> {
    let mut cycles: Vec<Vec<PathBuf>> = Vec::new();
    let mut assigned = BTreeSet::new();
    for file in graph.keys() {
        if assigned.contains(file) {
            continue;
        }
        let reachable_files = reachable(graph, file);
        let cycle: Vec<_> = reachable_files
            .iter()
            .filter(|it| reachable(graph, it).contains(file))
            .cloned()
            .collect();
        assigned.extend(cycle.iter().cloned());
        if cycle.len() > 1 {
            cycles.push(cycle);
        }
    }
    cycles.sort_by_key(|it| std::cmp::Reverse(it.len()));
    cycles
}

fn reachable(graph: &ImportGraph, from: &Path) -> BTreeSet<PathBuf> {
    let mut reachable_files = BTreeSet::new();
    let mut pending = vec![from.to_path_buf()];
    while let Some(file) = pending.pop() {
        for next in graph.get(&file).into_iter().flatten() {
            if reachable_files.insert(next.clone()) {
                pending.push(next.clone());
            }
        }
    }
    reachable_files
}
