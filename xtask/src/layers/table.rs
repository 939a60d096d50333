//! The table of all crates, and the description of each cycle.

use std::{iter, path::Path};

use super::{CrateLayers, FolderLayers};

const COLUMNS: [&str; 10] = [
    "crate",
    "nodes",
    "cycle",
    "folders",
    "with cycle",
    "largest",
    "pub items",
    "pub methods",
    "product lines",
    "test lines",
];

const EXPLANATION: &str = "\
nodes: direct children of src, and code in lib.rs or main.rs other than declarations
cycle: nodes in the largest cycle among them, 1 without a cycle
folders, with cycle, largest: folders below src, those with a cycle among their children, the
  nodes in the largest of these cycles
pub items: items with plain `pub` in all modules, without re-exports; pub methods: in impl blocks
product lines: all lines below src without test files and test modules; test lines: these, and tests
";

/// Formats a table with one row for each crate, and a row of sums.
pub fn format_table(crates: &[CrateLayers]) -> String {
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    rows.extend(crates.iter().map(format_row));
    rows.push(format_sums(crates));
    let lines = rows.iter().map(|row| {
        let cells = row.iter().enumerate().map(|(index, cell)| {
            let lengths = rows.iter().filter_map(|it| it.get(index)).map(String::len);
            let width = lengths.max().unwrap_or_default();
            if index == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join("  ") + "\n"
    });
    lines.collect::<String>() + "\n" + EXPLANATION
}

fn format_row(layers: &CrateLayers) -> Vec<String> {
    let (root, folders) = layers.folders.split_first().unzip();
    let folders = folders.unwrap_or_default();
    let largest = folders.iter().map(FolderLayers::largest_cycle).max().unwrap_or(1);
    let numbers = [
        root.map_or(1, |it| it.nodes.len()),
        root.map_or(1, FolderLayers::largest_cycle),
        folders.len(),
        folders.iter().filter(|it| !it.cycles.is_empty()).count(),
        largest,
        layers.public_items,
        layers.public_methods,
        layers.lines.product,
        layers.lines.test,
    ];
    let numbers = numbers.map(|it| it.to_string());
    [layers.name.clone()].into_iter().chain(numbers).collect()
}

fn format_sums(crates: &[CrateLayers]) -> Vec<String> {
    let sum = |number: fn(&CrateLayers) -> usize| crates.iter().map(number).sum::<usize>();
    let sums = [
        sum(|it| it.public_items),
        sum(|it| it.public_methods),
        sum(|it| it.lines.product),
        sum(|it| it.lines.test),
    ];
    let sums = sums.map(|it| it.to_string());
    let empty_cells = iter::repeat_n(String::new(), COLUMNS.len() - sums.len() - 1);
    ["sum".to_owned()].into_iter().chain(empty_cells).chain(sums).collect()
}

/// Describes each cycle of each folder: its members, and the imports between them. File names are
/// relative to `root`.
pub fn describe_cycles(crates: &[CrateLayers], root: &Path) -> String {
    let mut lines = Vec::new();
    for layers in crates {
        for folder in &layers.folders {
            let path: Vec<_> =
                [&layers.name].into_iter().chain(&folder.path).map(String::as_str).collect();
            for cycle in &folder.cycles {
                let size = cycle.members.len();
                let total = folder.nodes.len();
                let members = cycle.members.join(", ");
                lines.push(format!("\n{}: {size} of {total}: {members}", path.join("/")));
                for it in &cycle.imports {
                    let file = it.file.strip_prefix(root).unwrap_or(&it.file).display();
                    let location = format!("{file}:{}", it.line);
                    lines.push(format!("  {} -> {}: {} {location}", it.from, it.to, it.count));
                }
            }
        }
    }
    lines.join("\n") + "\n"
}
