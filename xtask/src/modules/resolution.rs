//! Finds the module that defines the item at a path, through imports and re-exports.

use crate::modules::{ModulePath, ModuleTree};

/// The maximum depth of re-exports. The compiler rejects cycles of them.
const REEXPORTS_MAX: usize = 16;

/// A module, or an item and the module that defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub module: ModulePath,
    /// `None` if the path leads to the module itself.
    pub item: Option<String>,
}

/// Resolves a path as written in the module `from`. Returns `None` for a path to another crate, to
/// test code, and for a name that is not from a module, such as a variable.
pub fn resolve_path(tree: &ModuleTree, from: &[String], segments: &[String]) -> Option<Target> {
    Resolver { tree, follows_globs: true }.resolve(from, segments, TargetKind::Anything, 0)
}

/// Resolves a path like [`resolve_path`]. A name that a module re-exports by a glob belongs to that
/// module.
pub fn resolve_path_without_globs(
    tree: &ModuleTree,
    from: &[String],
    segments: &[String],
) -> Option<Target> {
    Resolver { tree, follows_globs: false }.resolve(from, segments, TargetKind::Anything, 0)
}

/// What a path may lead to. A function and a module may have the same name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TargetKind {
    Anything,
    /// More segments follow: the path leads to a module or a type.
    Container,
}

struct Resolver<'a> {
    tree: &'a ModuleTree,
    follows_globs: bool,
}

impl Resolver<'_> {
    fn resolve(
        &self,
        from: &[String],
        segments: &[String],
        kind: TargetKind,
        depth: usize,
    ) -> Option<Target> {
        let (first, mut rest) = segments.split_first()?;
        let mut module = match first.as_str() {
            "crate" => Vec::new(),
            "self" => from.to_vec(),
            "super" => from.split_last()?.1.to_vec(),
            name => {
                let name_kind = if rest.is_empty() { kind } else { TargetKind::Container };
                let target = self.find_name(from, name, name_kind, depth)?;
                return self.continue_from(target, rest, kind, depth);
            }
        };
        while let Some((name, after)) = rest.split_first()
            && name == "super"
        {
            module.pop()?;
            rest = after;
        }
        self.continue_from(Target { module, item: None }, rest, kind, depth)
    }

    /// Follows the segments after a module. The segments after an item are its own parts, such as
    /// methods.
    fn continue_from(
        &self,
        mut target: Target,
        mut segments: &[String],
        kind: TargetKind,
        depth: usize,
    ) -> Option<Target> {
        while let Some((name, rest)) = segments.split_first()
            && target.item.is_none()
        {
            if self.tree.get(&target.module)?.definitions.test_names.contains(name) {
                return None;
            }
            let name_kind = if rest.is_empty() { kind } else { TargetKind::Container };
            // Otherwise a macro defines the item, or the module re-exports it from another crate.
            target = self
                .find_name(&target.module, name, name_kind, depth)
                .unwrap_or(Target { module: target.module, item: Some(name.clone()) });
            segments = rest;
        }
        Some(target)
    }

    /// Finds what a name means in a module.
    fn find_name(
        &self,
        module_path: &[String],
        name: &str,
        kind: TargetKind,
        depth: usize,
    ) -> Option<Target> {
        let module = self.tree.get(module_path)?;
        let definitions = &module.definitions;
        let own_item = Target { module: module_path.to_vec(), item: Some(name.to_owned()) };
        let is_value = kind == TargetKind::Anything && definitions.values.contains(name);
        if is_value || definitions.types.contains(name) {
            return Some(own_item);
        }
        let child: ModulePath =
            module_path.iter().map(String::as_str).chain([name]).map(str::to_owned).collect();
        let child = self.tree.contains_key(&child).then_some(Target { module: child, item: None });
        if kind == TargetKind::Container && child.is_some() {
            return child;
        }
        let is_macro_argument = definitions.macro_arguments.contains(name);
        self.find_import(module_path, name, kind, depth)
            .or(child)
            .or_else(|| is_macro_argument.then_some(own_item))
            .or_else(|| self.find_in_globs(module_path, name, kind, depth))
    }

    fn find_import(
        &self,
        module_path: &[String],
        name: &str,
        kind: TargetKind,
        depth: usize,
    ) -> Option<Target> {
        if depth == REEXPORTS_MAX {
            return None;
        }
        let imports = &self.tree.get(module_path)?.references.imports;
        imports
            .iter()
            .filter(|it| it.name.as_deref() == Some(name))
            .find_map(|it| self.resolve(module_path, &it.segments, kind, depth + 1))
    }

    fn find_in_globs(
        &self,
        module_path: &[String],
        name: &str,
        kind: TargetKind,
        depth: usize,
    ) -> Option<Target> {
        if depth == REEXPORTS_MAX || !self.follows_globs {
            return None;
        }
        let imports = &self.tree.get(module_path)?.references.imports;
        imports
            .iter()
            .filter(|it| it.name.is_none())
            .filter_map(|it| {
                self.resolve(module_path, &it.segments, TargetKind::Container, depth + 1)
            })
            .filter(|it| it.item.is_none() && it.module != module_path)
            .find_map(|it| self.find_name(&it.module, name, kind, depth + 1))
    }
}
