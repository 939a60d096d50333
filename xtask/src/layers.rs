//! The cycles among the modules of each folder, for `cargo run -p xtask -- layers`.
//!
//! A folder is a module with child modules. Its nodes are the direct children, each with all modules
//! below it, and the folder's own code. A re-export is not own code: an import through it leads to
//! the module that defines the item.

mod dependencies;
mod table;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::{
    graph::{self, Graph},
    layers::dependencies::Dependency,
    lines::{self, LineCounts},
    modules::{self, ModulePath, ModuleTree},
    sources,
};

pub use crate::layers::table::{describe_cycles, format_table};

/// The structure of one crate.
#[derive(Debug)]
pub struct CrateLayers {
    pub name: String,
    /// The crate root first, then the folders below it.
    pub folders: Vec<FolderLayers>,
    pub public_items: usize,
    pub public_methods: usize,
    pub lines: LineCounts,
}

/// The nodes of one folder, and the cycles among them.
#[derive(Debug)]
pub struct FolderLayers {
    /// Empty for the crate root.
    pub path: ModulePath,
    pub nodes: Vec<String>,
    /// The strongly connected components with more than one node, the largest first.
    pub cycles: Vec<LayerCycle>,
}

/// Nodes of a folder that import each other.
#[derive(Debug)]
pub struct LayerCycle {
    pub members: Vec<String>,
    pub imports: Vec<NodeImports>,
}

/// The imports from one node to another.
#[derive(Debug)]
pub struct NodeImports {
    pub from: String,
    pub to: String,
    /// The number of items, each counted once for each module that imports it.
    pub count: usize,
    /// One place of an import.
    pub file: PathBuf,
    pub line: usize,
}

impl FolderLayers {
    /// The number of nodes in the largest cycle, 1 without a cycle.
    pub fn largest_cycle(&self) -> usize {
        self.cycles.first().map_or(1, |it| it.members.len())
    }
}

/// Measures the crates below `root/crates`.
pub fn measure_crates(root: &Path) -> Result<Vec<CrateLayers>> {
    let folders = sources::crate_folders(&root.join("crates"))?;
    folders.iter().map(|it| measure_crate(it)).collect()
}

/// Measures the crate in a folder.
pub fn measure_crate(crate_folder: &Path) -> Result<CrateLayers> {
    let name = crate_folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let library = crate_folder.join("src/lib.rs");
    let root_file = if library.exists() { library } else { crate_folder.join("src/main.rs") };
    let tree = modules::read_crate(&root_file)?;
    Ok(CrateLayers {
        name,
        folders: measure_folders(&tree),
        public_items: tree.values().map(|it| it.definitions.public_items).sum(),
        public_methods: tree.values().map(|it| it.definitions.public_methods).sum(),
        lines: lines::count_lines(crate_folder)?,
    })
}

/// Measures each module of a crate that has child modules.
pub fn measure_folders(tree: &ModuleTree) -> Vec<FolderLayers> {
    let dependencies = dependencies::list_dependencies(tree);
    let folders = tree.keys().filter(|it| has_children(tree, it));
    folders.map(|it| measure_folder(tree, it, &dependencies)).collect()
}

fn has_children(tree: &ModuleTree, path: &[String]) -> bool {
    tree.keys().any(|it| it.len() == path.len() + 1 && it.starts_with(path))
}

fn measure_folder(
    tree: &ModuleTree,
    path: &ModulePath,
    dependencies: &[Dependency],
) -> FolderLayers {
    let mut graph = Graph::<String>::new();
    for module in tree.iter().filter(|(it, _)| it.starts_with(path)) {
        let has_node = module.0 != path || module.1.definitions.has_code;
        if let Some(node) = name_node(tree, path, module.0).filter(|_| has_node) {
            graph.entry(node).or_default();
        }
    }
    let nodes: Vec<_> = graph.keys().cloned().collect();
    let mut imports = BTreeMap::<(String, String), NodeImports>::new();
    for it in dependencies.iter().filter(|it| !(it.is_reexport && it.from == *path)) {
        let ends = name_node(tree, path, &it.from).zip(name_node(tree, path, &it.to));
        let Some((from, to)) = ends.filter(|(from, to)| from != to) else { continue };
        graph.entry(from.clone()).or_default().insert(to.clone());
        let pair = imports.entry((from.clone(), to.clone())).or_insert_with(|| NodeImports {
            from,
            to,
            count: 0,
            file: it.file.clone(),
            line: it.line,
        });
        pair.count += 1;
    }
    let mut cycles = Vec::new();
    for members in graph::find_cycles(&graph) {
        let is_inside = |it: &NodeImports| members.contains(&it.from) && members.contains(&it.to);
        let (inside, outside) = imports.into_iter().partition(|(_, it)| is_inside(it));
        imports = outside;
        let inside: BTreeMap<_, _> = inside;
        cycles.push(LayerCycle { members, imports: inside.into_values().collect() });
    }
    FolderLayers { path: path.clone(), nodes, cycles }
}

/// The node of a folder that contains a module, `None` for a module elsewhere.
fn name_node(tree: &ModuleTree, folder: &[String], module: &[String]) -> Option<String> {
    let below = module.strip_prefix(folder)?;
    if let Some(child) = below.first() {
        return Some(child.clone());
    }
    let root_file = &tree.get(folder)?.file;
    let root_name = || root_file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = folder.last().cloned().unwrap_or_else(root_name);
    Some(format!("{name} (own code)"))
}
