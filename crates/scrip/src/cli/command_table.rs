//! The table of commands in the page for operators, from the definition of the command line.

use std::{fs, path::Path};

use clap::{Arg, Command, CommandFactory};

use crate::cli::Cli;

const BEGIN: &str =
    "<!-- commands: SCRIP_TEST_GOLDEN=write cargo test -p scrip --bin scrip command_table -->\n";
const END: &str = "<!-- end of commands -->";

/// Positional arguments, and options that are required.
fn format_argument(argument: &Arg) -> Option<String> {
    let names = argument.get_value_names().unwrap_or_default();
    let value = names
        .first()
        .map_or_else(|| argument.get_id().as_str().to_uppercase(), ToString::to_string);
    match (argument.get_long(), argument.is_required_set()) {
        (None, true) => Some(value),
        (None, false) if argument.is_positional() => Some(format!("[{value}]")),
        (Some(long), true) => Some(format!("--{long} {value}")),
        (None | Some(_), false) => None,
    }
}

fn add_rows(path: &str, command: &Command, rows: &mut Vec<String>) {
    let path = format!("{path} {}", command.get_name());
    let is_group = command.has_subcommands() && command.is_subcommand_required_set();
    command.get_subcommands().for_each(|it| add_rows(&path, it, rows));
    if is_group {
        return;
    }
    let arguments = command.get_arguments().filter_map(format_argument);
    let usage = std::iter::once(path).chain(arguments).collect::<Vec<_>>().join(" ");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    assert!(!about.is_empty(), "{usage} has no description");
    rows.push(format!(
        "| `{}` | {} |\n",
        usage.trim(),
        about.trim_end_matches('.').replace('|', "\\|")
    ));
}

#[test]
fn page_has_the_table_of_all_commands() {
    let mut rows = Vec::new();
    Cli::command().get_subcommands().for_each(|it| add_rows("scrip", it, &mut rows));
    let table = format!("| command | effect |\n|---|---|\n{}", rows.concat());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/commands.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (stored_table, after) = rest.split_once(END).unwrap();
    if std::env::var_os("SCRIP_TEST_GOLDEN").is_some_and(|it| it == "write") {
        fs::write(path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(stored_table, table, "if the change is intended, run with SCRIP_TEST_GOLDEN=write");
}
