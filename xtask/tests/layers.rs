//! The cycles among the modules of a folder, in small crates.

#![expect(clippy::unwrap_used, reason = "helper functions of tests may panic")]

use std::{env, fs, path::Path, process};

use anyhow::Context as _;
use xtask::{
    layers::{self, CrateLayers, FolderLayers},
    lines::{self, LineCounts},
    modules::{self, ModuleTree},
};

/// Reads a crate from the texts of its files. Paths are relative to `src`.
fn read_crate(files: &[(&str, &str)]) -> ModuleTree {
    let read_text = |file: &Path| {
        let text = files.iter().find(|(path, _)| Path::new("src").join(path) == file);
        text.map(|(_, text)| (*text).to_owned()).with_context(|| file.display().to_string())
    };
    modules::read_crate_with(Path::new("src/lib.rs"), &read_text).unwrap()
}

fn measure(files: &[(&str, &str)]) -> Vec<FolderLayers> {
    layers::measure_folders(&read_crate(files))
}

/// The members of the largest cycle among the direct children of `src`.
fn largest_cycle(files: &[(&str, &str)]) -> Vec<String> {
    let folders = measure(files);
    folders.first().unwrap().cycles.first().map(|it| it.members.clone()).unwrap_or_default()
}

/// A library with the modules `a` and `b`.
fn two_modules<'a>(a: &'a str, b: &'a str) -> Vec<(&'static str, &'a str)> {
    vec![("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", b)]
}

#[test]
fn imports_in_one_direction_are_no_cycle() {
    let folders = measure(&two_modules("use crate::b::B; pub struct A(B);", "pub struct B;"));
    let root = folders.first().unwrap();
    assert_eq!(root.nodes, ["a", "b"]);
    assert_eq!(root.largest_cycle(), 1);
}

#[test]
fn cycle_through_a_reexport_is_found_where_the_items_are_defined() {
    let files = [
        ("lib.rs", "mod facade; mod lower; mod upper;"),
        ("facade.rs", "pub use crate::lower::{Lower, group as renamed};"),
        ("lower.rs", "pub mod group; use crate::upper::Upper; pub struct Lower(Upper);"),
        ("lower/group.rs", "pub struct Member;"),
        ("upper.rs", "use crate::facade::renamed::Member; pub struct Upper(Member);"),
    ];
    assert_eq!(largest_cycle(&files), ["lower", "upper"]);
}

#[test]
fn reexport_by_a_glob_is_followed() {
    let files = [
        ("lib.rs", "mod facade; mod lower; mod upper;"),
        ("facade.rs", "pub use crate::lower::*; words! { pub enum FromMacro {} }"),
        ("lower.rs", "use crate::upper::Upper; pub struct Lower(Upper);"),
        ("upper.rs", "use crate::facade::*; pub struct Upper(Lower, FromMacro);"),
    ];
    let folders = measure(&files);
    let cycle = folders.first().unwrap().cycles.first().unwrap();
    assert_eq!(cycle.members, ["lower", "upper"]);
}

#[test]
fn function_and_module_with_the_same_name_are_distinguished() {
    let b = "use crate::a::list; pub struct B; pub fn list() { list::read(); }";
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub mod list; pub fn c() { crate::b::list(); }"),
        ("a/list.rs", "pub fn read() {}"),
        ("b.rs", b),
    ];
    assert_eq!(largest_cycle(&files), ["a", "b"]);
}

#[test]
fn cycle_through_paths_in_code_is_found() {
    let uses_a: [&str; 7] = [
        "fn b() { let a = crate::a::A::new(); }",
        "pub struct B(Vec<super::a::A>);",
        "use crate::a; fn b() { a::new(); }",
        "fn b() { use crate::{a::{self as renamed}}; renamed::A::new(); }",
        "fn b() { assert!(x.y() == (0..crate::a::A::SIZE), \"{}\", 1); }",
        "macro_rules! c { ($d:ident) => { $d::e($crate::a::A::new()) }; }",
        "#[derive(crate::a::A)] pub struct B;",
    ];
    let a = "use super::b::B; pub struct A(B);";
    for b in uses_a {
        let b = format!("pub struct B; {b}").replace("pub struct B; pub", "pub");
        assert_eq!(largest_cycle(&two_modules(a, &b)), ["a", "b"], "{b}");
    }
}

#[test]
fn names_of_other_crates_and_variables_are_no_imports() {
    let a = "use super::b::B; pub struct A(B); pub fn c() {}";
    let b = "use other::a; pub struct B; fn d(c: C) { a::A::new(); c::e(c); x!(a.a::c()); }";
    assert_eq!(largest_cycle(&two_modules(a, b)), <[&str; 0]>::default());
}

#[test]
fn test_code_is_ignored() {
    let a = "use super::b::B; pub struct A(B); #[cfg(test)] mod tests { pub struct T; }";
    let test_code = [
        "#[cfg(test)] mod tests { use crate::a::A; }",
        "#[cfg(test)] mod tests;",
        "#[cfg(test)] use crate::a::A;",
        "impl B { #[cfg(test)] fn c() { crate::a::A::new(); } }",
        "macro_rules! c { () => { #[cfg(test)] impl $crate::a::tests::T for B {} }; }",
    ];
    for b in test_code {
        let b = format!("pub struct B; {b}");
        assert_eq!(largest_cycle(&two_modules(a, &b)), <[&str; 0]>::default(), "{b}");
    }
}

#[test]
fn folder_is_one_node_for_its_parent_and_its_own_code_is_a_node_for_its_children() {
    let files = [
        ("lib.rs", "mod folder; pub use folder::Shared; pub const LIMIT: u8 = folder::SIZE;"),
        ("folder.rs", "mod child; mod other; pub use child::Child; pub struct Shared(Child);"),
        ("folder/child.rs", "use super::{Shared, other::Other}; pub struct Child(Shared);"),
        ("folder/other.rs", "pub struct Other([u8; crate::LIMIT]);"),
    ];
    let folders = measure(&files);
    let [root, folder] = folders.as_slice() else { panic!("two folders: {folders:?}") };
    assert_eq!(root.nodes, ["folder", "lib (own code)"]);
    assert_eq!(root.largest_cycle(), 2);
    assert_eq!(folder.path, ["folder"]);
    assert_eq!(folder.nodes, ["child", "folder (own code)", "other"]);
    assert_eq!(folder.cycles.first().unwrap().members, ["child", "folder (own code)"]);
}

#[test]
fn reexports_of_a_folder_are_not_its_own_code() {
    let measure_folder = |declarations: &str| {
        let folder = format!("mod child; mod other; pub use self::other::Other; {declarations}");
        let files = [
            ("lib.rs", "mod folder;"),
            ("folder.rs", folder.as_str()),
            ("folder/child.rs", "use super::Other; pub struct Child(Other);"),
            ("folder/other.rs", "use super::Shared; pub struct Other(Shared);"),
        ];
        measure(&files).pop().unwrap()
    };
    let only_reexports = measure_folder("pub use self::child::Child as Shared;");
    assert_eq!(only_reexports.nodes, ["child", "other"]);
    assert_eq!(only_reexports.largest_cycle(), 2);
    let with_code = measure_folder("pub struct Shared;");
    assert_eq!(with_code.nodes, ["child", "folder (own code)", "other"]);
    assert_eq!(with_code.largest_cycle(), 1);
    let with_use_of_reexport = measure_folder("\npub struct Shared(Other);");
    let cycle = with_use_of_reexport.cycles.first().unwrap();
    assert_eq!(cycle.members, ["folder (own code)", "other"]);
    assert_eq!(cycle.imports.first().unwrap().line, 2, "not the line of the re-export");
}

#[test]
fn report_names_the_members_and_an_import_of_each_pair() {
    let a = "use crate::b::{B,\n C}; pub struct A(B, C); pub type D = B;";
    let tree = read_crate(&two_modules(a, "pub struct B; pub struct C; pub type E = crate::a::A;"));
    let crates = [CrateLayers {
        name: "example".to_owned(),
        folders: layers::measure_folders(&tree),
        public_items: 5,
        public_methods: 0,
        lines: LineCounts { product: 3, test: 0 },
    }];
    let table = layers::format_table(&crates);
    let row: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, ["example", "2", "2", "0", "0", "1", "5", "0", "3", "0"]);
    assert_eq!(
        layers::describe_cycles(&crates, Path::new("src")),
        "\nexample: 2 of 2: a, b\n  a -> b: 2 a.rs:1\n  b -> a: 1 b.rs:1\n"
    );
}

#[test]
fn only_items_and_methods_with_plain_pub_are_counted_as_public() {
    let source = "pub mod a; pub use a::B; pub(crate) fn c() {} pub fn d() {} fn e() {} \
        words! { pub enum F { G = \"g\" } pub(crate) enum H {} } \
        pub struct I { pub j: u8 } impl I { pub fn k() {} pub(super) fn l() {} pub const M: u8 = 1; } \
        #[cfg(test)] pub fn n() {}";
    let tree = read_crate(&[("lib.rs", source), ("a.rs", "pub struct B;")]);
    let sum = |number: fn(&modules::Module) -> usize| tree.values().map(number).sum::<usize>();
    assert_eq!(sum(|it| it.definitions.public_items), 5, "a, B, d, F and I");
    assert_eq!(sum(|it| it.definitions.public_methods), 2, "k and M");
}

#[test]
fn lines_of_test_modules_and_test_suites_are_not_product_lines() {
    let root = env::temp_dir().join(format!("xtask-lines-{}", process::id()));
    let files = [
        ("src/lib.rs", "#[cfg(test)]\nmod page;\nmod tests;\n\n// Comment\nfn a() {}\n"),
        ("src/page.rs", "fn b() {}\n"),
        ("src/tests.rs", "mod c;\n"),
        ("src/tests/c.rs", "fn d() {}\n"),
        ("src/bin/e.rs", "fn main() {}\n"),
        ("tests/it/main.rs", "mod f;\n"),
    ];
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let counts = lines::count_lines(&root).unwrap();
    fs::remove_dir_all(&root).unwrap();
    assert_eq!(counts, LineCounts { product: 4, test: 7 });
}

#[test]
fn source_files_of_this_crate_are_measured() {
    let layers = layers::measure_crate(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    assert_eq!(layers.name, "xtask");
    assert!(layers.public_items > 20 && layers.lines.product > 500, "{layers:?}");
    let root = layers.folders.first().unwrap();
    assert!(root.nodes.contains(&"modules".to_owned()), "{layers:?}");
    assert_eq!(root.largest_cycle(), 1, "{layers:?}");
}

#[test]
fn modules_of_each_folder_import_each_other_in_one_direction() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut crates = layers::measure_crates(root).unwrap();
    crates.extend(["bench", "xtask"].map(|it| layers::measure_crate(&root.join(it)).unwrap()));
    assert!(crates.iter().any(|it| it.folders.len() > 50), "the folders are not found");
    let has_cycle = crates.iter().flat_map(|it| &it.folders).any(|it| !it.cycles.is_empty());
    let cycles = layers::describe_cycles(&crates, root);
    assert!(!has_cycle, "move items to the module where they belong:\n{cycles}");
}
