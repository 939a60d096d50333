//! The dependencies between the modules of a crate.

use std::{collections::BTreeMap, path::PathBuf};

use crate::modules::{Module, ModulePath, ModuleTree, resolution};

/// A module uses an item of another module.
#[derive(Debug)]
pub(super) struct Dependency {
    pub(super) from: ModulePath,
    /// The module that defines the item.
    pub(super) to: ModulePath,
    /// The first place, not of a re-export if there is another one.
    pub(super) file: PathBuf,
    pub(super) line: usize,
    /// Whether the module only re-exports the item.
    pub(super) is_reexport: bool,
}

/// One place in a module that names an item.
struct Place<'a> {
    segments: &'a [String],
    line: usize,
    is_reexport: bool,
}

/// Lists the items that each module uses from other modules. The import of a module itself is not a
/// dependency; the paths that begin with its name are.
pub(super) fn list_dependencies(tree: &ModuleTree) -> Vec<Dependency> {
    let mut dependencies = Vec::new();
    for (from, module) in tree {
        let mut targets = BTreeMap::new();
        for place in list_places(module) {
            let target = resolution::resolve_path(tree, from, place.segments);
            let Some(target) = target.filter(|it| it.item.is_some() && it.module != *from) else {
                continue;
            };
            let dependency =
                targets.entry((target.module.clone(), target.item)).or_insert_with(|| Dependency {
                    from: from.clone(),
                    to: target.module,
                    file: module.file.clone(),
                    line: place.line,
                    is_reexport: place.is_reexport,
                });
            if dependency.is_reexport && !place.is_reexport {
                dependency.line = place.line;
                dependency.is_reexport = false;
            }
        }
        dependencies.extend(targets.into_values());
    }
    dependencies
}

fn list_places(module: &Module) -> impl Iterator<Item = Place<'_>> {
    let imports = module.references.imports.iter().map(|it| Place {
        segments: &it.segments,
        line: it.line,
        is_reexport: it.is_reexport,
    });
    let paths = module.references.paths.iter().map(|it| Place {
        segments: &it.segments,
        line: it.line,
        is_reexport: false,
    });
    imports.chain(paths)
}
