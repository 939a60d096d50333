//! The module tree of a crate: the file of each module, without test modules.

pub mod definitions;
pub mod references;
pub mod resolution;
pub mod test_code;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use syn::Item;

use self::{
    definitions::Definitions,
    references::{Import, References},
};

/// The path of a module below the crate root, such as `["token", "record"]`.
pub type ModulePath = Vec<String>;

/// One module, in its own file or inline in the file of its parent.
#[derive(Debug)]
pub struct Module {
    pub file: PathBuf,
    pub definitions: Definitions,
    pub references: References,
}

/// All modules of a crate, by path. The crate root has the empty path.
pub type ModuleTree = BTreeMap<ModulePath, Module>;

/// Reads the modules of the crate with the root `root_file`.
pub fn read_crate(root_file: &Path) -> Result<ModuleTree> {
    read_crate_with(root_file, &|file| {
        fs::read_to_string(file).with_context(|| file.display().to_string())
    })
}

/// Reads the modules of the crate with the root `root_file`. `read_text` returns the text of a
/// file.
pub fn read_crate_with(
    root_file: &Path,
    read_text: &dyn Fn(&Path) -> Result<String>,
) -> Result<ModuleTree> {
    let folder = root_file.parent().context("a crate root is in a folder")?;
    let mut reader = ModuleReader { read_text, tree: ModuleTree::new() };
    reader.read_file(root_file, folder, Vec::new())?;
    let mut tree = reader.tree;
    import_exported_macros(&mut tree);
    Ok(tree)
}

struct ModuleReader<'a> {
    read_text: &'a dyn Fn(&Path) -> Result<String>,
    tree: ModuleTree,
}

impl ModuleReader<'_> {
    fn read_file(&mut self, file: &Path, folder: &Path, module_path: ModulePath) -> Result<()> {
        let text = (self.read_text)(file)?;
        let parsed = syn::parse_file(&text).with_context(|| file.display().to_string())?;
        self.read_module(&parsed.items, file, folder, module_path)
    }

    fn read_module(
        &mut self,
        items: &[Item],
        file: &Path,
        folder: &Path,
        module_path: ModulePath,
    ) -> Result<()> {
        for item in items {
            let Item::Mod(module) = item else { continue };
            if test_code::is_test_item(item) {
                continue;
            }
            let name = module.ident.to_string();
            let mut child_path = module_path.clone();
            child_path.push(name.clone());
            let child_folder = folder.join(&name);
            if let Some((_, items)) = &module.content {
                self.read_module(items, file, &child_folder, child_path)?;
            } else {
                let child_file = folder.join(format!("{name}.rs"));
                self.read_file(&child_file, &child_folder, child_path)?;
            }
        }
        let module = Module {
            file: file.to_path_buf(),
            definitions: definitions::collect_definitions(items),
            references: references::collect_references(items),
        };
        self.tree.insert(module_path, module);
        Ok(())
    }
}

/// Adds an import for each exported macro to the crate root, where code finds the macro.
fn import_exported_macros(tree: &mut ModuleTree) {
    let mut imports = Vec::new();
    for (path, module) in tree.iter().filter(|(path, _)| !path.is_empty()) {
        for name in &module.definitions.exported_macros {
            let root = ["crate".to_owned()];
            let segments = root.iter().chain(path).chain([name]).cloned().collect();
            let name = Some(name.clone());
            imports.push(Import { name, segments, line: 1, is_reexport: true });
        }
    }
    if let Some(root) = tree.get_mut(&Vec::new()) {
        root.references.imports.extend(imports);
    }
}
