//! The names that one module defines, and how many of them are public.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::{ImplItem, Item, ItemImpl, ItemMacro, Visibility};

use crate::modules::test_code;

/// Keywords after `pub` that begin an item.
const ITEM_KEYWORDS: [&str; 11] =
    ["async", "const", "enum", "fn", "mod", "static", "struct", "trait", "type", "union", "unsafe"];

/// The definitions of one module, without imports, child modules and test items.
#[derive(Debug, Default)]
pub struct Definitions {
    /// The names of types and traits.
    pub types: BTreeSet<String>,
    /// The names of functions, constants, statics and macros.
    pub values: BTreeSet<String>,
    /// Names in the arguments of a macro that may define items with these names.
    pub macro_arguments: BTreeSet<String>,
    /// The names of modules and items that exist only in test builds.
    pub test_names: BTreeSet<String>,
    /// Macros that `#[macro_export]` makes visible at the crate root.
    pub exported_macros: BTreeSet<String>,
    /// Whether the module has code, other than declarations of modules and imports.
    pub has_code: bool,
    /// Items with plain `pub`, including child modules and without re-exports.
    pub public_items: usize,
    /// Functions and constants with plain `pub` in `impl` blocks.
    pub public_methods: usize,
}

/// Collects the definitions of the items of a module.
pub fn collect_definitions(items: &[Item]) -> Definitions {
    let mut definitions = Definitions::default();
    for item in items {
        definitions.add_item(item);
    }
    definitions
}

impl Definitions {
    fn add_item(&mut self, item: &Item) {
        if test_code::is_test_item(item) {
            self.test_names.extend(named_item(item).map(|(name, _)| name));
            return;
        }
        let is_declaration = matches!(item, Item::Mod(_) | Item::Use(_) | Item::ExternCrate(_));
        self.has_code |= !is_declaration;
        if let Some((name, visibility)) = named_item(item) {
            self.public_items += usize::from(is_public(visibility));
            if matches!(item, Item::Const(_) | Item::Fn(_) | Item::Static(_)) {
                self.values.insert(name);
            } else if !is_declaration {
                self.types.insert(name);
            }
        } else if let Item::Impl(it) = item {
            self.public_methods += count_public_methods(it);
        } else if let Item::Macro(it) = item {
            self.add_macro(it);
        }
    }

    fn add_macro(&mut self, item: &ItemMacro) {
        if let Some(name) = &item.ident {
            self.values.insert(name.to_string());
            if item.attrs.iter().any(|it| it.path().is_ident("macro_export")) {
                self.exported_macros.insert(name.to_string());
            }
        } else {
            self.add_macro_arguments(item.mac.tokens.clone());
        }
    }

    /// Reads items such as `words! { pub enum Name { … } }`. Tokens in brackets belong to an item.
    fn add_macro_arguments(&mut self, tokens: TokenStream) {
        let mut previous = String::new();
        for token in tokens {
            let text = if let TokenTree::Ident(ident) = &token {
                ident.to_string()
            } else {
                String::new()
            };
            let is_item = previous == "pub" && ITEM_KEYWORDS.contains(&text.as_str());
            self.public_items += usize::from(is_item);
            let is_capitalized = text.starts_with(|it: char| it.is_ascii_uppercase());
            if is_capitalized || (previous == "fn" && !text.is_empty()) {
                self.macro_arguments.insert(text.clone());
            }
            previous = text;
        }
    }
}

fn count_public_methods(block: &ItemImpl) -> usize {
    let visibilities = block.items.iter().filter_map(|it| {
        if let ImplItem::Fn(it) = it {
            (!test_code::is_test_only(&it.attrs)).then_some(&it.vis)
        } else if let ImplItem::Const(it) = it {
            Some(&it.vis)
        } else {
            None
        }
    });
    visibilities.filter(|it| is_public(it)).count()
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// The name and the visibility of an item that has both.
fn named_item(item: &Item) -> Option<(String, &Visibility)> {
    let (name, visibility) = if let Item::Const(it) = item {
        (&it.ident, &it.vis)
    } else if let Item::Enum(it) = item {
        (&it.ident, &it.vis)
    } else if let Item::Fn(it) = item {
        (&it.sig.ident, &it.vis)
    } else if let Item::Mod(it) = item {
        (&it.ident, &it.vis)
    } else if let Item::Static(it) = item {
        (&it.ident, &it.vis)
    } else if let Item::Struct(it) = item {
        (&it.ident, &it.vis)
    } else if let Item::Trait(it) = item {
        (&it.ident, &it.vis)
    } else if let Item::TraitAlias(it) = item {
        (&it.ident, &it.vis)
    } else if let Item::Type(it) = item {
        (&it.ident, &it.vis)
    } else if let Item::Union(it) = item {
        (&it.ident, &it.vis)
    } else {
        return None;
    };
    Some((name.to_string(), visibility))
}
