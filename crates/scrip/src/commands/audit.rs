//! `scrip audit verify`: verify that the records of both logs are unaltered and complete.

use clap::{Args, Subcommand};
use scrip_core::audit::{
    LogKind, SavedHead,
    verify::{ChainProblem, VerificationReport, Verifier},
};
use scrip_operator::{
    action::{ActionSpec, Recording},
    error::explain,
    operator::Operator,
    output::{CommandOutput, format_count},
};
use scrip_server::{
    config::{Environment, Settings},
    files::head_file,
    storage::connect_postgres,
};
use scrip_store::sqlite::verify::verify_log;
use serde_json::json;

use crate::commands::{
    arguments::CommonArguments,
    local_action::LocalAction,
    progress::{Progress, ProgressUnit},
};

const EXAMPLES: &str = "\
Examples:
  scrip audit verify
  scrip audit verify --json

A server may keep running. The command reads every record of both logs: changes (audit log), and
reads and rejected requests (read log). A rollback of a whole log is detected with the head file
(audit.head_file), so do not store that file with the database.";

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Verify the audit logs: find records that were altered, removed or rolled back.
    Verify(VerifyAuditArguments),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VerifyAuditArguments {
    /// Maximum size of the WAL of an embedded database, which cannot be truncated during
    /// verification.
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    wal_mib_max: u64,
    #[command(flatten)]
    common: CommonArguments,
}

pub(crate) fn run(command: &AuditCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        AuditCommand::Verify(it) => verify(it, environment),
    }
}

fn verify(arguments: &VerifyAuditArguments, environment: &Environment) -> anyhow::Result<()> {
    let common = &arguments.common;
    let settings = common.confined_settings(environment)?;
    let spec = ActionSpec::view("audit verify").with_recording(Recording::Attempt);
    let action = LocalAction::on_vault(spec, &settings);
    common.run_local(&action, async |it| verify_logs(arguments, &settings, it.operator()?).await)
}

async fn verify_logs(
    arguments: &VerifyAuditArguments,
    settings: &Settings,
    operator: &Operator,
) -> anyhow::Result<CommandOutput> {
    let key = operator.directory.audit_key();
    // Read the saved heads before the logs: they are then never ahead of the logs.
    let (saved_heads, head_file_problem) = match head_file::read(&settings.head_file(), key) {
        Ok(Some(it)) => (it.heads, None),
        Ok(None) => (Vec::new(), Some(missing_head_file(settings))),
        Err(error) => (Vec::new(), Some(format!("{error:#}"))),
    };
    let tenants: Vec<_> = operator.directory.tenants().iter().map(|it| it.id).collect();
    let mut reports = Vec::new();
    for log in LogKind::ALL {
        let mut verifier = verify_one_log(arguments, settings, log, operator, &saved_heads).await?;
        verifier.expect_vault_chain();
        reports.push(verifier.finish(&tenants));
    }
    let problems = reports.iter().map(|it| it.problems.len()).sum::<usize>();
    let problems = problems.saturating_add(usize::from(head_file_problem.is_some()));
    let failure = (problems > 0).then(|| format!("found {}", format_count(problems, "problem")));
    Ok(CommandOutput { failure, ..report(&reports, head_file_problem.as_deref()) })
}

fn missing_head_file(settings: &Settings) -> String {
    let name = settings.head_file().display().to_string();
    format!("{name} is missing: a rollback of the logs cannot be detected")
}

async fn verify_one_log(
    arguments: &VerifyAuditArguments,
    settings: &Settings,
    log: LogKind,
    operator: &Operator,
    saved_heads: &[SavedHead],
) -> anyhow::Result<Verifier> {
    let step = match log {
        LogKind::Audit => "audit log",
        LogKind::Read => "read log",
    };
    let mut progress = Progress::of_report(step, ProgressUnit::Records);
    let create_verifier =
        |heads| Verifier::new(log, operator.directory.audit_key().clone(), heads, saved_heads);
    let wal_bytes_max = arguments.wal_mib_max.saturating_mul(1024 * 1024);
    let report_progress = |verified, total| progress.update(verified, total);
    let verifier = match settings.storage.postgres()? {
        Some(postgres) => {
            connect_postgres(postgres)
                .await?
                .verify_log(log, create_verifier, report_progress)
                .await
        }
        None => verify_log(
            &settings.database_file(),
            log,
            wal_bytes_max,
            create_verifier,
            report_progress,
        ),
    };
    verifier.map_err(explain)
}

/// Maximum number of problems in the text output. JSON contains all problems.
const PROBLEMS_PRINTED_MAX: usize = 200;

fn report(reports: &[VerificationReport], head_file_problem: Option<&str>) -> CommandOutput {
    let problems: Vec<_> = reports.iter().flat_map(|it| &it.problems).collect();
    let mut text: String =
        problems.iter().take(PROBLEMS_PRINTED_MAX).map(|it| problem_line(it)).collect();
    if let Some(unprinted) = problems.len().checked_sub(PROBLEMS_PRINTED_MAX).filter(|it| *it > 0) {
        text += &format!("and {unprinted} more\n");
    }
    text.extend(head_file_problem.map(|it| format!("{it}\n")));
    for VerificationReport { log, chains, records, problems } in reports {
        let summary = match problems.len() {
            0 => "no problems".to_owned(),
            1 => "1 PROBLEM".to_owned(),
            count => format!("{count} PROBLEMS"),
        };
        let log = log.as_str();
        let (records, chains) = (format_count(*records, "record"), format_count(*chains, "chain"));
        text += &format!("{log} log: {records} in {chains}, {summary}\n");
    }
    let json = json!({
        "ok": problems.is_empty() && head_file_problem.is_none(),
        "logs": reports.iter().map(|it| json!({
            "log": it.log.as_str(), "chains": it.chains, "records": it.records,
        })).collect::<Vec<_>>(),
        "problems": problems.iter().map(|it| json!({
            "log": it.log.as_str(),
            "tenant": it.tenant.map(|it| it.to_string()),
            "record": it.sequence,
            "what": it.fault.as_str(),
        })).collect::<Vec<_>>(),
        "head_file": head_file_problem,
    });
    CommandOutput::new(text, json)
}

fn problem_line(problem: &ChainProblem) -> String {
    let ChainProblem { log, tenant, sequence: number, fault } = problem;
    let tenant = tenant.map_or_else(|| "unknown tenant".to_owned(), |it| format!("tenant {it}"));
    let record = number.map(|it| format!(", record {it}")).unwrap_or_default();
    format!("{tenant}, {} log{record}: {fault}\n", log.as_str())
}
