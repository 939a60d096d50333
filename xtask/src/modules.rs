//! The module tree of a crate: the file of each module, without test modules.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use syn::{Attribute, Item, ItemMod, UseTree, visit::Visit};

/// The path of a module or an item below the crate root, such as `["token", "record"]`.
pub type ModulePath = Vec<String>;

/// One module, in its own file or inline in the file of its parent.
#[derive(Debug)]
pub struct Module {
    pub file: PathBuf,
    /// Names that the module imports or re-exports, with their paths.
    pub imports: Vec<Import>,
    /// Paths in code, outside of `use`, that begin with `crate`, `self` or `super`.
    pub paths: Vec<ModulePath>,
}

/// One leaf of a `use` declaration.
#[derive(Debug)]
pub struct Import {
    /// The name in the importing module, `None` for a glob.
    pub name: Option<String>,
    pub path: ModulePath,
}

/// All modules of a crate, by path. The crate root has the empty path.
pub type ModuleTree = BTreeMap<ModulePath, Module>;

/// Reads the modules of the crate with the root `root_file`.
pub fn read_crate(root_file: &Path) -> Result<ModuleTree> {
    let mut tree = ModuleTree::new();
    let folder = root_file.parent().context("a crate root is in a folder")?;
    read_file(root_file, folder, Vec::new(), &mut tree)?;
    Ok(tree)
}

/// Whether an item exists only in test builds.
#[must_use]
pub fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| {
        let is_test = it.path().is_ident("test");
        let is_cfg = it.path().is_ident("cfg");
        let arguments = it.meta.require_list().map(|list| list.tokens.to_string());
        is_test || (is_cfg && arguments.is_ok_and(|it| it.trim() == "test"))
    })
}

fn read_file(
    file: &Path,
    folder: &Path,
    module_path: ModulePath,
    tree: &mut ModuleTree,
) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let parsed = syn::parse_file(&text).with_context(|| file.display().to_string())?;
    read_module(&parsed.items, file, folder, module_path, tree)
}

fn read_module(
    items: &[Item],
    file: &Path,
    folder: &Path,
    module_path: ModulePath,
    tree: &mut ModuleTree,
) -> Result<()> {
    let mut collector =
        PathCollector { module: module_path.clone(), imports: Vec::new(), paths: Vec::new() };
    for item in items {
        collector.visit_item(item);
    }
    let PathCollector { imports, paths, .. } = collector;
    tree.insert(module_path.clone(), Module { file: file.to_path_buf(), imports, paths });
    for item in items {
        let Item::Mod(module) = item else { continue };
        if is_test_only(&module.attrs) {
            continue;
        }
        let name = module.ident.to_string();
        let mut child_path = module_path.clone();
        child_path.push(name.clone());
        let inner_folder = folder.join(&name);
        match &module.content {
            Some((_, items)) => read_module(items, file, &inner_folder, child_path, tree)?,
            None => read_file(&module_file(folder, module), &inner_folder, child_path, tree)?,
        }
    }
    Ok(())
}

fn module_file(folder: &Path, module: &ItemMod) -> PathBuf {
    folder.join(format!("{}.rs", module.ident))
}

/// Collects the paths of one module, without child modules and test items.
struct PathCollector {
    module: ModulePath,
    imports: Vec<Import>,
    paths: Vec<ModulePath>,
}

impl PathCollector {
    /// Resolves `crate::…`, `self::…` and `super::…` to a path below the crate root.
    fn resolve_from_root(&self, segments: &[String]) -> Option<ModulePath> {
        let mut path = match segments.first()?.as_str() {
            "crate" => Vec::new(),
            "self" => self.module.clone(),
            "super" => self.module.split_last()?.1.to_vec(),
            _ => return None,
        };
        for segment in segments.iter().skip(1) {
            if segment == "super" {
                path.pop()?;
            } else {
                path.push(segment.clone());
            }
        }
        Some(path)
    }

    fn add_use_tree(&mut self, tree: &UseTree, prefix: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.add_use_tree(&path.tree, prefix);
                prefix.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_use_tree(tree, prefix);
                }
            }
            UseTree::Name(leaf) => self.add_import(prefix, &leaf.ident.to_string(), None),
            UseTree::Rename(leaf) => {
                self.add_import(prefix, &leaf.ident.to_string(), Some(leaf.rename.to_string()));
            }
            _ => self.add_glob(prefix),
        }
    }

    fn add_import(&mut self, prefix: &[String], ident: &str, rename: Option<String>) {
        let mut segments = prefix.to_vec();
        if ident != "self" {
            segments.push(ident.to_owned());
        }
        let name = rename.or_else(|| segments.last().cloned());
        // A path without `crate`, `self` or `super` may begin with a module that is a child.
        let path =
            self.resolve_from_root(&segments).unwrap_or_else(|| self.path_below_module(&segments));
        self.imports.push(Import { name, path });
    }

    fn add_glob(&mut self, prefix: &[String]) {
        let path = self.resolve_from_root(prefix).unwrap_or_else(|| self.path_below_module(prefix));
        self.imports.push(Import { name: None, path });
    }

    fn path_below_module(&self, segments: &[String]) -> ModulePath {
        self.module.iter().chain(segments).cloned().collect()
    }
}

impl<'ast> Visit<'ast> for PathCollector {
    fn visit_item(&mut self, item: &'ast Item) {
        // Modules are read separately.
        let is_module = matches!(item, Item::Mod(_));
        if !is_module && !is_test_only(item_attributes(item)) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add_use_tree(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<_> = path.segments.iter().map(|it| it.ident.to_string()).collect();
        // `module::item` refers to an imported module or a child module.
        if segments.len() > 1 {
            let path = self
                .resolve_from_root(&segments)
                .unwrap_or_else(|| self.path_below_module(&segments));
            self.paths.push(path);
        }
        syn::visit::visit_path(self, path);
    }
}

/// The attributes of an item of a kind that can be test-only.
fn item_attributes(item: &Item) -> &[Attribute] {
    if let Item::Fn(it) = item {
        &it.attrs
    } else if let Item::Impl(it) = item {
        &it.attrs
    } else if let Item::Use(it) = item {
        &it.attrs
    } else if let Item::Struct(it) = item {
        &it.attrs
    } else if let Item::Enum(it) = item {
        &it.attrs
    } else if let Item::Const(it) = item {
        &it.attrs
    } else {
        &[]
    }
}
