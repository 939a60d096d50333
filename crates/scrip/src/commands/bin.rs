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
use scrip_operator::{
    action::{ActionSpec, Recording},
    output::{CommandOutput, format_bytes, format_count, name_value_list},
};
use scrip_server::{
    config::{Environment, Settings},
    control::status::query_status,
    files::bin_file,
};
use serde_json::json;

use self::import::ImportReport;
use crate::commands::{
    arguments::CommonArguments,
    local_action::{KeyUse, LocalAction},
};

const IMPORT_EXAMPLES: &str = "\
Examples:
  scrip bin import ranges.csv
  scrip bin import binlist-data.csv --json

The file is CSV with a header. The layout of Scrip is:
  bin_start,bin_end,brand,funding,country,additional
  415058,415059,visa,debit,FR,cartes-bancaires:debit
The layouts of common public lists are accepted too. An import replaces the previous one; a running
server loads it within a second.";

#[derive(Debug, Subcommand)]
pub(crate) enum BinCommand {
    /// Import a list of issuer ranges; replaces the previous import.
    #[command(after_help = IMPORT_EXAMPLES)]
    Import {
        /// List of issuer ranges, CSV with a header.
        file: PathBuf,
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Print how many rows are imported, and how many the running server uses.
    Status {
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Remove the imported data and use the built-in ranges.
    Remove {
        #[command(flatten)]
        common: CommonArguments,
    },
}

/// Runs a command. These commands need no root key: BIN data is not secret.
pub(crate) fn run(command: &BinCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        BinCommand::Import { file, common } => {
            // Before switching to the server's user, who may not be able to read the file.
            let error_context = || format!("{} cannot be read", file.display());
            let list = File::open(file).with_context(error_context)?;
            let settings = settings_with_data_dir(common, environment)?;
            common.run_local(&on_file(ActionSpec::change("bin import"), &settings), async |_| {
                let (table, report) = import::read_list(list).with_context(error_context)?;
                bin_file::write(&settings.bin_file(), &table)?;
                Ok(import_output(&table, &report))
            })
        }
        BinCommand::Status { common } => {
            let settings = settings_with_data_dir(common, environment)?;
            let action = on_file(ActionSpec::view("bin status"), &settings);
            common.run_local(&action, async |_| status_output(&settings))
        }
        BinCommand::Remove { common } => {
            let settings = settings_with_data_dir(common, environment)?;
            let action = on_file(ActionSpec::change("bin remove"), &settings);
            common.run_local(&action, async |_| remove_data(&settings))
        }
    }
}

fn on_file(spec: ActionSpec, settings: &Settings) -> LocalAction<'_> {
    LocalAction::on_files(spec.with_recording(Recording::Success), settings, KeyUse::Optional)
}

fn settings_with_data_dir(
    common: &CommonArguments,
    environment: &Environment,
) -> anyhow::Result<Settings> {
    let settings = common.confined_settings(environment)?;
    settings.existing_data_dir()?;
    Ok(settings)
}

fn import_output(table: &BinTable, report: &ImportReport) -> CommandOutput {
    let mut text = format!(
        "imported {} of {}, {} in memory; a running server loads them within a second\n",
        table.row_count(),
        format_count(report.rows, "row"),
        format_bytes(table_bytes(table)),
    );
    text += &report.text();
    let json = json!({
        "rows": report.rows,
        "imported": table.row_count(),
        "memory_bytes": table.memory_bytes(),
        "rejected": report.rejected_json(),
        "incomplete": report.incomplete_json(),
    });
    CommandOutput::new(text, json)
}

fn table_bytes(table: &BinTable) -> u64 {
    u64::try_from(table.memory_bytes()).unwrap_or(u64::MAX)
}

fn status_output(settings: &Settings) -> anyhow::Result<CommandOutput> {
    let file = settings.bin_file();
    let error_context = || format!("{} cannot be used; import the list again", file.display());
    let table = bin_file::read(&file).with_context(error_context)?;
    let server = query_status(&settings.storage.data_dir);
    let mut rows = vec![("file", file.display().to_string())];
    match &table {
        None => rows.push(("imported", "nothing; the built-in ranges are in force".to_owned())),
        Some(it) => {
            rows.push(("imported", format_count(it.row_count(), "row")));
            rows.push(("in memory", format_bytes(table_bytes(it))));
        }
    }
    let rows_text = |rows: Option<u32>| {
        rows.map_or("the built-in ranges".to_owned(), |it| format_count(it, "row"))
    };
    rows.push((
        "server",
        match &server {
            None => "not running".to_owned(),
            Some(it) => format!("process {} has {}", it.pid, rows_text(it.bin_rows)),
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
    let text = "removed; a running server uses the built-in ranges within a second";
    Ok(CommandOutput::new(text, json!({ "removed": true })))
}
