//! Project automation. `cargo run -p xtask -- figures [ROOT]` prints the statistics of a tree,
//! `cargo run -p xtask -- parameters FOLDER` the functions with parameters that break a rule,
//! `cargo run -p xtask -- names [FOLDER]` the names that break a rule, `cargo run -p xtask -- layers
//! [ROOT] [--verbose]` the cycles among the modules of each folder.

#![expect(clippy::print_stdout, reason = "a command line tool")]

use std::{env, path::PathBuf};

use anyhow::{Result, bail};
use xtask::names;

fn main() -> Result<()> {
    let (options, arguments): (Vec<_>, Vec<_>) =
        env::args().skip(1).partition(|it| it.starts_with("--"));
    let mut arguments = arguments.into_iter();
    let command = arguments.next();
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| ".".to_owned()));
    let is_verbose = options == ["--verbose"];
    if !is_verbose && !options.is_empty() {
        bail!("unknown option: {options:?}");
    }
    match command.as_deref() {
        Some("figures") => print!("{}", xtask::statistics::report(&folder)?),
        Some("parameters") => {
            for (file, it) in xtask::parameters::find_violations(&folder)? {
                let location = format!("{}:{}", file.display(), it.line);
                println!(
                    "{location} {}: {} parameters, {} tuples",
                    it.function, it.parameter_count, it.tuple_count
                );
            }
        }
        Some("names") => {
            for definitions in names::repeated_types(&folder)? {
                println!("type name used {} times", definitions.len());
                print_definitions(&definitions);
            }
            println!("refused test names");
            print_definitions(&names::refused_test_names(&folder)?);
            println!("refused names of modules and types");
            print_definitions(&names::refused_names(&folder)?);
        }
        Some("layers") => {
            let crates = xtask::layers::measure_crates(&folder)?;
            print!("{}", xtask::layers::format_table(&crates));
            if is_verbose {
                print!("{}", xtask::layers::describe_cycles(&crates, &folder));
            }
        }
        _ => {
            bail!("usage: xtask figures|parameters|names|layers [FOLDER] [--verbose]")
        }
    }
    Ok(())
}

fn print_definitions(definitions: &[names::Definition]) {
    for it in definitions {
        println!("  {} {}", it.name, it.file.display());
    }
}
