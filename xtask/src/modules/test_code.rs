//! Which items of a source file exist only in test builds.

use syn::{Attribute, Item};

/// Whether attributes restrict an item to test builds.
pub fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| {
        let is_test = it.path().is_ident("test");
        let is_cfg = it.path().is_ident("cfg");
        let arguments = it.meta.require_list().map(|list| list.tokens.to_string());
        is_test || (is_cfg && arguments.is_ok_and(|it| it.trim() == "test"))
    })
}

/// Whether an item exists only in test builds. A module with the name `tests` does.
pub fn is_test_item(item: &Item) -> bool {
    let is_test_module = matches!(item, Item::Mod(it) if it.ident == "tests");
    is_test_module || is_test_only(item_attributes(item))
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
    } else if let Item::Mod(it) = item {
        &it.attrs
    } else {
        &[]
    }
}
