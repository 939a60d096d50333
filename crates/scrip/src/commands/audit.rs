//! `scrip audit verify`: whether the trail is as it was written.

use anyhow::bail;
use clap::{Args, Subcommand};
use scrip_core::audit::{
    LogKind, SavedHead,
    verify::{ChainProblem, VerificationReport, Verifier},
};
use scrip_server::{
    config::{Environment, Settings},
    files::head_file,
    storage::{connect_postgres, explain},
};
use scrip_store::sqlite::verify::verify_log;
use serde_json::json;

use crate::commands::{CommonArguments, Operator, output::CommandOutput, runtime, warn};

const EXAMPLES: &str = "\
Examples:
  scrip audit verify
  scrip audit verify --json

A server may go on serving. Every record of both logs is read: what was changed (audit), and what
was seen or refused (access). A log that was rolled back as a whole is found by the file with its
heads (audit.head_file), so keep that where the database is not.";

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Find records that somebody altered, removed or brought back.
    Verify(VerifyAuditArguments),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VerifyAuditArguments {
    /// Give up when the log of an embedded database, which cannot be shortened meanwhile, is longer.
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    log_mib_max: u64,
    #[command(flatten)]
    common: CommonArguments,
}

pub(crate) fn run(command: &AuditCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        AuditCommand::Verify(it) => verify(it, environment),
    }
}

fn verify(arguments: &VerifyAuditArguments, environment: &Environment) -> anyhow::Result<()> {
    let settings = arguments.common.confined_settings(environment)?;
    runtime()?.block_on(verify_logs(arguments, &settings))
}

async fn verify_logs(arguments: &VerifyAuditArguments, settings: &Settings) -> anyhow::Result<()> {
    let at = &arguments.common;
    let operator = Operator::open(settings).await?;
    // A trail that cannot be written any more can still be verified.
    if let Err(error) = operator.vault.record_command("audit verify", "started").await {
        warn(&explain(error).context("the command is not recorded in the audit trail"));
    }
    let key = operator.directory.audit_key();
    // Before the logs are: what was kept apart is never ahead of them.
    let (stored, lost) = match head_file::read(&settings.head_file(), key) {
        Ok(Some(it)) => (it.heads, None),
        Ok(None) => (Vec::new(), Some(missing_head_file(settings))),
        Err(error) => (Vec::new(), Some(format!("{error:#}"))),
    };
    let living: Vec<_> = operator.directory.tenants().iter().map(|it| it.id).collect();
    let mut verified = Vec::new();
    for log in LogKind::ALL {
        let mut walked = verify_one_log(arguments, settings, log, &operator, &stored).await?;
        walked.expect_vault_chain();
        verified.push(walked.finish(&living));
    }
    at.print_output(&report(&verified, lost.as_deref()))?;
    let problems = verified.iter().map(|it| it.problems.len()).sum::<usize>();
    let problems = problems.saturating_add(usize::from(lost.is_some()));
    if problems > 0 {
        bail!("{problems} problems were found");
    }
    Ok(())
}

fn missing_head_file(settings: &Settings) -> String {
    let name = settings.head_file().display().to_string();
    format!("{name} is missing: whether the logs were rolled back cannot be told")
}

async fn verify_one_log(
    arguments: &VerifyAuditArguments,
    settings: &Settings,
    log: LogKind,
    operator: &Operator,
    saved: &[SavedHead],
) -> anyhow::Result<Verifier> {
    let mut progress = arguments.common.record_progress(match log {
        LogKind::Audit => "audit log",
        LogKind::Read => "access log",
    });
    let begin = |ends| Verifier::new(log, operator.directory.audit_key().clone(), ends, saved);
    let log_bytes_max = arguments.log_mib_max.saturating_mul(1024 * 1024);
    let watch = |done, all| progress.update(done, all);
    let walked = match settings.storage.postgres()? {
        Some(postgres) => connect_postgres(postgres).await?.verify_log(log, begin, watch).await,
        None => verify_log(&settings.database_file(), log, log_bytes_max, begin, watch),
    };
    walked.map_err(explain)
}

/// More than anybody reads; all of them are in the JSON.
const PROBLEMS_PRINTED_MAX: usize = 200;

fn report(verified: &[VerificationReport], head_file_problem: Option<&str>) -> CommandOutput {
    let problems: Vec<_> = verified.iter().flat_map(|it| &it.problems).collect();
    let mut text: String =
        problems.iter().take(PROBLEMS_PRINTED_MAX).map(|it| problem_line(it)).collect();
    if let Some(more) = problems.len().checked_sub(PROBLEMS_PRINTED_MAX).filter(|it| *it > 0) {
        text += &format!("and {more} more\n");
    }
    text.extend(head_file_problem.map(|it| format!("{it}\n")));
    for VerificationReport { log, chains, records, problems } in verified {
        let found = match problems.len() {
            0 => "as they were written".to_owned(),
            1 => "1 PROBLEM".to_owned(),
            some => format!("{some} PROBLEMS"),
        };
        let log = log.as_str();
        text += &format!("{log} log: {records} records in {chains} chains, {found}\n");
    }
    let json = json!({
        "ok": problems.is_empty() && head_file_problem.is_none(),
        "logs": verified.iter().map(|it| json!({
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
    let ChainProblem { log, tenant, sequence: n, fault } = problem;
    let tenant = tenant.map_or_else(|| "a tenant".to_owned(), |it| format!("tenant {it}"));
    let record = n.map(|it| format!(", record {it}")).unwrap_or_default();
    format!("{tenant}, {} log{record}: {fault}\n", log.as_str())
}
