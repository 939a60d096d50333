//! The imports of one module and the paths in its code, without child modules and test items.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::{Item, UseTree, Visibility, spanned::Spanned, visit::Visit};

use crate::modules::test_code;

/// One leaf of a `use` declaration.
#[derive(Debug)]
pub struct Import {
    /// The name in the importing module, `None` for a glob.
    pub name: Option<String>,
    /// The path as written, without `self` at its end.
    pub segments: Vec<String>,
    pub line: usize,
    /// Whether other modules can use the name: the declaration has a visibility.
    pub is_reexport: bool,
}

/// One path in code, outside of `use`.
#[derive(Debug)]
pub struct CodePath {
    /// The path as written, without generic arguments.
    pub segments: Vec<String>,
    pub line: usize,
    /// Whether the path is an argument of a macro or in the definition of one.
    pub is_in_macro: bool,
}

/// The imports and paths of one module.
#[derive(Debug, Default)]
pub struct References {
    pub imports: Vec<Import>,
    pub paths: Vec<CodePath>,
}

/// Collects the references of the items of a module.
pub fn collect_references(items: &[Item]) -> References {
    let mut collector = ReferenceCollector::default();
    for item in items {
        collector.visit_item(item);
    }
    collector.references
}

#[derive(Default)]
struct ReferenceCollector {
    references: References,
}

impl ReferenceCollector {
    fn add_use_tree(&mut self, tree: &UseTree, prefix: &mut Vec<String>, is_reexport: bool) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.add_use_tree(&path.tree, prefix, is_reexport);
                prefix.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_use_tree(tree, prefix, is_reexport);
                }
            }
            UseTree::Name(leaf) => {
                let segments = append_leaf(prefix, &leaf.ident);
                let name = segments.last().cloned();
                let line = line_of(leaf.ident.span());
                self.references.imports.push(Import { name, segments, line, is_reexport });
            }
            UseTree::Rename(leaf) => {
                let segments = append_leaf(prefix, &leaf.ident);
                let name = Some(leaf.rename.to_string());
                let line = line_of(leaf.ident.span());
                self.references.imports.push(Import { name, segments, line, is_reexport });
            }
            UseTree::Glob(leaf) => {
                let line = line_of(leaf.star_token.span());
                let segments = prefix.clone();
                self.references.imports.push(Import { name: None, segments, line, is_reexport });
            }
        }
    }

    /// Collects the paths of two or more segments. In the definition of a macro, only `crate` has a
    /// meaning that does not depend on the caller.
    fn add_macro_paths(&mut self, tokens: TokenStream, is_definition: bool) {
        let mut path = TokenPath::default();
        let mut follows_dot = false;
        for token in tokens {
            let mut is_dot = false;
            match token {
                TokenTree::Ident(ident) => {
                    if !path.is_continued() && !path.segments.is_empty() {
                        self.finish_macro_path(&mut path, is_definition);
                    }
                    path.add_ident(&ident);
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => path.colon_count += 1,
                TokenTree::Punct(punct) => {
                    self.finish_macro_path(&mut path, is_definition);
                    is_dot = punct.as_char() == '.';
                    // One dot is before a method, two are a range.
                    path.is_excluded = punct.as_char() == '$' || (is_dot && !follows_dot);
                }
                TokenTree::Group(group) => {
                    self.finish_macro_path(&mut path, is_definition);
                    self.add_macro_paths(group.stream(), is_definition);
                }
                TokenTree::Literal(_) => self.finish_macro_path(&mut path, is_definition),
            }
            follows_dot = is_dot;
        }
        self.finish_macro_path(&mut path, is_definition);
    }

    fn finish_macro_path(&mut self, path: &mut TokenPath, is_definition: bool) {
        let TokenPath { segments, line, .. } = std::mem::take(path);
        let begins_at_root = segments.first().is_some_and(|it| it == "crate");
        if segments.len() > 1 && (begins_at_root || !is_definition) {
            self.references.paths.push(CodePath { segments, line, is_in_macro: true });
        }
    }
}

/// A path that is read from tokens.
#[derive(Default)]
struct TokenPath {
    segments: Vec<String>,
    line: usize,
    /// The number of colons after the last segment.
    colon_count: usize,
    /// Whether the next name is not the start of a path: a method or a macro variable.
    is_excluded: bool,
}

impl TokenPath {
    fn is_continued(&self) -> bool {
        self.colon_count == 2
    }

    fn add_ident(&mut self, ident: &Ident) {
        // `$crate` is the root like `crate`.
        let is_start = !self.is_continued() && (!self.is_excluded || ident == "crate");
        if is_start {
            self.line = line_of(ident.span());
        }
        if is_start || !self.segments.is_empty() {
            self.segments.push(ident.to_string());
        }
        self.colon_count = 0;
        self.is_excluded = false;
    }
}

impl<'ast> Visit<'ast> for ReferenceCollector {
    fn visit_item(&mut self, item: &'ast Item) {
        // Modules are read separately.
        let is_module = matches!(item, Item::Mod(_));
        if !is_module && !test_code::is_test_item(item) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_reexport = !matches!(item.vis, Visibility::Inherited);
        self.add_use_tree(&item.tree, &mut Vec::new(), is_reexport);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !test_code::is_test_only(&function.attrs) {
            syn::visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<_> = path.segments.iter().map(|it| it.ident.to_string()).collect();
        if let Some(first) = path.segments.first() {
            let line = line_of(first.ident.span());
            self.references.paths.push(CodePath { segments, line, is_in_macro: false });
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if item.ident.is_some() {
            self.add_macro_paths(item.mac.tokens.clone(), true);
        } else {
            syn::visit::visit_item_macro(self, item);
        }
    }

    fn visit_macro(&mut self, macro_call: &'ast syn::Macro) {
        self.add_macro_paths(macro_call.tokens.clone(), false);
        syn::visit::visit_macro(self, macro_call);
    }

    fn visit_meta_list(&mut self, list: &'ast syn::MetaList) {
        self.add_macro_paths(list.tokens.clone(), false);
        syn::visit::visit_meta_list(self, list);
    }
}

/// Appends the last name of a `use` path. `self` at the end is the module before it.
fn append_leaf(prefix: &[String], ident: &Ident) -> Vec<String> {
    let mut segments = prefix.to_vec();
    if ident != "self" || prefix.is_empty() {
        segments.push(ident.to_string());
    }
    segments
}

fn line_of(span: Span) -> usize {
    span.start().line
}
