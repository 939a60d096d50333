//! The imports between files, for the rule about their cycles.
//!
//! An import leads to the file that defines the item, not to a module that re-exports it by name. A
//! parent module and the modules below it may import each other. Such an import is not an edge of
//! the graph.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{
    graph::Graph,
    modules::{self, Module, resolution},
};

/// For each file, the files with items that it imports.
pub type ImportGraph = Graph<PathBuf>;

/// Reads the imports between the files of a crate. `root_file` is its `lib.rs` or `main.rs`.
pub fn import_graph(root_file: &Path) -> Result<ImportGraph> {
    let tree = modules::read_crate(root_file)?;
    let mut graph = ImportGraph::new();
    for (module_path, module) in &tree {
        let edges = graph.entry(module.file.clone()).or_default();
        for segments in list_paths(module) {
            let target = resolution::resolve_path_without_globs(&tree, module_path, segments);
            let Some(target) = target else { continue };
            let Some(definition) = tree.get(&target.module) else { continue };
            let is_parent_or_child =
                module_path.starts_with(&target.module) || target.module.starts_with(module_path);
            if !is_parent_or_child && definition.file != module.file {
                edges.insert(definition.file.clone());
            }
        }
    }
    Ok(graph)
}

/// The imports of a module, and the paths in its code with a module or a type before the name.
fn list_paths(module: &Module) -> impl Iterator<Item = &Vec<String>> {
    let imports = module.references.imports.iter().map(|it| &it.segments);
    let paths = module.references.paths.iter().filter(|it| !it.is_in_macro);
    imports.chain(paths.map(|it| &it.segments).filter(|it| it.len() > 1))
}
