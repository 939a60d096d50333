//! `scrip bin`: import, status, remove.

mod columns;
mod import;
mod names;

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::PathBuf,
};

use anyhow::{Context, bail};
use clap::Subcommand;
use scrip_core::card::bin_data::BinTable;
use scrip_server::{
    config::{Environment, Settings},
    control,
    files::bin_file,
};
use serde_json::json;

use self::import::ImportReport;
use crate::commands::{
    CommonArguments,
    output::{CommandOutput, format_bytes, name_value_list},
    record_if_key_present, runtime,
};

const IMPORT_EXAMPLES: &str = "\
Examples:
  scrip bin import ranges.csv
  scrip bin import binlist-data.csv --json

The file is CSV with a header. Of its own layout:
  bin_start,bin_end,brand,funding,country,additional
  415058,415059,visa,debit,FR,cartes-bancaires:debit
The layouts of the common public lists are known too. It takes the place of what was imported
before; a running server takes it over within a second.";

#[derive(Debug, Subcommand)]
pub(crate) enum BinCommand {
    /// Take over a list of issuer ranges, in place of what was imported before.
    #[command(after_help = IMPORT_EXAMPLES)]
    Import {
        /// The list, as CSV with a header.
        file: PathBuf,
        #[command(flatten)]
        common: CommonArguments,
    },
    /// What was imported, and whether the running server has it.
    Status {
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Go back to the built-in ranges.
    Remove {
        #[command(flatten)]
        common: CommonArguments,
    },
}

/// None of these needs the root key: nothing in BIN data is secret.
pub(crate) fn run(command: &BinCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        BinCommand::Import { file, common: at } => {
            // Before the settings make us another user, who may not read the file.
            let cannot = || format!("{} cannot be read", file.display());
            let opened = File::open(file).with_context(cannot)?;
            let settings = with_folder(at, environment)?;
            let (table, report) = import::read_list(opened).with_context(cannot)?;
            bin_file::write(&settings.bin_file(), &table)?;
            runtime()?.block_on(record_if_key_present(&settings, "bin import"));
            at.print_output(&import_output(&table, &report))
        }
        BinCommand::Status { common: at } => {
            let settings = with_folder(at, environment)?;
            at.print_output(&status_output(&settings)?)
        }
        BinCommand::Remove { common: at } => {
            let settings = with_folder(at, environment)?;
            let output = remove_data(&settings)?;
            runtime()?.block_on(record_if_key_present(&settings, "bin remove"));
            at.print_output(&output)
        }
    }
}

fn with_folder(common: &CommonArguments, environment: &Environment) -> anyhow::Result<Settings> {
    let settings = common.confined_settings(environment)?;
    settings.existing_data_dir()?;
    Ok(settings)
}

fn import_output(table: &BinTable, report: &ImportReport) -> CommandOutput {
    let mut text = format!(
        "imported {} of {} rows, {} in memory; a running server takes them over within a second\n",
        table.row_count(),
        report.rows,
        format_bytes(table_bytes(table)),
    );
    text += &report.text();
    let json = json!({
        "rows": report.rows,
        "imported": table.row_count(),
        "memory_bytes": table.memory_bytes(),
        "refused": report.rejected_json(),
        "incomplete": report.incomplete_json(),
    });
    CommandOutput::new(text, json)
}

fn table_bytes(table: &BinTable) -> u64 {
    u64::try_from(table.memory_bytes()).unwrap_or(u64::MAX)
}

fn status_output(settings: &Settings) -> anyhow::Result<CommandOutput> {
    let file = settings.bin_file();
    let damaged = || format!("{} is refused; import it again", file.display());
    let table = bin_file::read(&file).with_context(damaged)?;
    let server = control::query_status(&settings.storage.data_dir);
    let mut rows = vec![("file", file.display().to_string())];
    match &table {
        None => rows.push(("imported", "nothing; the built-in ranges are in force".to_owned())),
        Some(it) => {
            rows.push(("imported", format!("{} rows", it.row_count())));
            rows.push(("in memory", format_bytes(table_bytes(it))));
        }
    }
    let has = |rows: Option<u32>| {
        rows.map_or("the built-in ranges".to_owned(), |it| format!("{it} rows"))
    };
    rows.push((
        "server",
        match &server {
            None => "none is running here".to_owned(),
            Some(it) => format!("process {} has {}", it.pid, has(it.bin_rows)),
        },
    ));
    let json = json!({
        "file": file,
        "imported": table.as_ref().map(BinTable::row_count),
        "memory_bytes": table.as_ref().map(BinTable::memory_bytes),
        "server": server.as_ref().map(|it| json!({ "pid": it.pid, "rows": it.bin_rows })),
    });
    Ok(CommandOutput::new(name_value_list(&rows), json))
}

fn remove_data(settings: &Settings) -> anyhow::Result<CommandOutput> {
    let file = settings.bin_file();
    match fs::remove_file(&file) {
        Ok(()) => (),
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("no BIN data was imported"),
        Err(error) => {
            return Err(error).with_context(|| format!("{} cannot be removed", file.display()));
        }
    }
    let text = "removed; a running server goes back to the built-in ranges within a second";
    Ok(CommandOutput::new(text, json!({ "removed": true })))
}
