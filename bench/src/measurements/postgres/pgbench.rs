//! The PostgreSQL reference: `pgbench` sends the statements of the program, one transaction for
//! each create or read, with the same number of round trips as the program.

use std::{fmt::Write as _, fs, path::PathBuf, process::Command, time::Duration};

use anyhow::{Context, ensure};
use scrip_store::postgres::bench_statements;

/// The number of readable tokens for each tenant.
pub(crate) const TOKENS_PER_TENANT: u32 = 1000;

/// The values of the parameters of each statement. `:name` is a variable of pgbench, sent as a
/// parameter. A tenant id ends in the number of its client, or is the same for all clients.
const PARAMETERS: [(&str, &[&str]); 9] = [
    ("lock_tenant", &["TENANT", "'LOG'", "2"]),
    ("open_chain", &["TENANT", "'LOG'"]),
    (
        "find_conflicts",
        &[
            "TENANT",
            "ARRAY[0]",
            "ARRAY[ID]",
            "ARRAY[0]",
            "ARRAY[FACET]",
            "ARRAY[0]",
            "ARRAY[FACET]",
        ],
    ),
    (
        "insert_tokens",
        &[
            "TENANT",
            "ARRAY[ID]",
            "ARRAY['card']",
            "ARRAY[:mac]",
            "ARRAY['/pci/high/']",
            "ARRAY[:actor]",
            "ARRAY[:at]",
            "ARRAY[NULL]",
            "ARRAY[0]",
            "ARRAY['']",
            "ARRAY[:body]",
            "ARRAY[decode(repeat('00', 33), 'hex')]",
            "ARRAY[FACET]",
            "ARRAY[NULL]",
            "ARRAY[:number]",
            "ARRAY[:number]",
            // No token expires during the measurement.
            "ARRAY[4102444800000]",
            "ARRAY[:code]",
            "ARRAY['\\x7463617264', FACET]",
            "ARRAY['/pci/high/', '/pci/high/']",
            "ARRAY[:at, :at]",
            "ARRAY[:number, :number]",
        ],
    ),
    (
        "insert_records",
        &[
            "TENANT",
            "'LOG'",
            "ARRAY[:number]",
            "ARRAY[:at]",
            "ARRAY['application']",
            "ARRAY[:actor]",
            "ARRAY['create_token']",
            "ARRAY[ID]",
            "ARRAY['created']",
            "ARRAY[:trace]",
            "ARRAY['127.0.0.1']",
            "ARRAY[:mac]",
        ],
    ),
    ("put_head", &["TENANT", "'LOG'", ":number", ":at", ":mac", "NULL", ":mac"]),
    ("put_usage_types", &["TENANT", "ARRAY['card']", "ARRAY[1]", "ARRAY[:at]"]),
    ("put_usage_months", &["TENANT", "ARRAY[202611]", "ARRAY[1]"]),
    ("find_token", &["TENANT", "READ", ":at"]),
];

/// The text of a UUID, and a unique facet of 17 bytes.
const ID: &str = "('6a1f9f1e-52d7-4a0c-9d53-'::text || lpad(:number::text, 12, '0'))";
const READ: &str = "('00000000-0000-4000-8000-'::text || lpad(:read::text, 12, '0'))";
const FACET: &str = "decode('66'::text || md5(:number::text), 'hex')";
const TENANT: &str = "lpad(:tenant::text, 32, '0')::uuid";

/// The tenants that the clients use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TenantSpread {
    Single,
    OnePerClient,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PgbenchOperation {
    Create,
    Read,
    RecordedRead,
}

#[derive(Debug)]
pub(crate) struct PgbenchReference {
    pub(crate) url: String,
    pub(crate) folder: PathBuf,
    /// The number of runs that wrote. Each run uses higher numbers than the one before.
    pub(crate) runs: u32,
}

/// More than a client can write in one run, and a tenth of the range of a client.
const NUMBERS_PER_RUN: u32 = 10_000_000;

/// Inserts the readable tokens, for as many tenants as there are clients.
pub(crate) fn insert_token_statements(clients: usize) -> [String; 2] {
    let from_clause = format!(
        "FROM generate_series(0, {clients}) AS tenant, generate_series(1, {TOKENS_PER_TENANT}) AS number"
    );
    let tenant = "lpad(tenant::text, 32, '0')::uuid";
    let sealed_value = |bytes: u32| format!("decode(repeat('a5', {bytes}), 'hex')");
    [
        format!(
            "INSERT INTO tokens (tenant, number, id, type, fingerprint, containers, created_by, \
             created_at, revision, indexes, body) SELECT {tenant}, number, \
             '00000000-0000-4000-8000-' || lpad(number::text, 12, '0'), 'card', {}, \
             '/pci/high/', {tenant}, 1794700000000, 0, '', {} {from_clause}",
            sealed_value(32),
            sealed_value(137),
        ),
        format!(
            "INSERT INTO cvcs (tenant, token, expires_at, sealed) \
             SELECT {tenant}, number, 4102444800000, {} {from_clause}",
            sealed_value(57),
        ),
    ]
}

impl PgbenchReference {
    /// Measures the transactions per second.
    pub(crate) fn measure(
        &mut self,
        operation: PgbenchOperation,
        spread: TenantSpread,
        clients: usize,
        duration: Duration,
    ) -> anyhow::Result<f64> {
        let file = self.folder.join(format!("{operation:?}-{spread:?}.sql").to_lowercase());
        fs::write(&file, pgbench_script(operation, spread)?)?;
        let byte_literal = |byte: &str, count: usize| format!("\\x{}", byte.repeat(count));
        let mut command = Command::new(find_pgbench()?);
        command.args(["-n", "-M", "prepared", "-j", "1"]);
        command.args(["-c", &clients.to_string(), "-T", &duration.as_secs().max(1).to_string()]);
        command.arg("-f").arg(&file);
        // The values have the same lengths as in the program.
        self.runs = self.runs.saturating_add(1);
        for (name, value) in [
            ("serial", self.runs.saturating_mul(NUMBERS_PER_RUN).to_string()),
            ("mac", byte_literal("5a", 32)),
            ("body", byte_literal("a5", 137)),
            ("code", byte_literal("3c", 57)),
            ("actor", "11111111-1111-4111-8111-111111111111".to_owned()),
            ("trace", "22222222-2222-4222-8222-222222222222".to_owned()),
        ] {
            command.arg("-D").arg(format!("{name}={value}"));
        }
        let output = command.arg(&self.url).output()?;
        let message = String::from_utf8_lossy(&output.stdout);
        let error_output = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "pgbench ended with {}: {error_output}", output.status);
        let tps = message.lines().find_map(|it| it.strip_prefix("tps = ")).context("no tps")?;
        Ok(tps.split(' ').next().context("no tps")?.parse()?)
    }
}

/// Finds the newest version that is installed in the layout of Debian, or the one on the path.
fn find_pgbench() -> anyhow::Result<PathBuf> {
    let mut programs: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten() {
        let program = entry.path().join("bin/pgbench");
        if program.exists() {
            programs.push(program);
        }
    }
    Ok(programs.into_iter().max().unwrap_or_else(|| PathBuf::from("pgbench")))
}

fn pgbench_script(operation: PgbenchOperation, spread: TenantSpread) -> anyhow::Result<String> {
    let mut text = String::new();
    // Each client has its own increasing numbers. Variables outlive a transaction.
    let tenant = match spread {
        TenantSpread::Single => "0",
        TenantSpread::OnePerClient => ":client_id",
    };
    writeln!(text, "\\set tenant {tenant}")?;
    writeln!(text, "\\set serial :serial + 1\n\\set at 1794700000000 + :serial")?;
    writeln!(text, "\\set number :client_id * 1000000000 + :serial")?;
    writeln!(text, "\\set read random(1, {TOKENS_PER_TENANT})")?;
    match operation {
        PgbenchOperation::Create => {
            write_round_trips(&mut text, &bench_statements::create_token(), "audit")?
        }
        PgbenchOperation::Read => {
            write_round_trips(&mut text, &bench_statements::read_token(), "")?
        }
        PgbenchOperation::RecordedRead => {
            write_round_trips(&mut text, &bench_statements::read_token(), "")?;
            write_round_trips(&mut text, &bench_statements::record_read(), "read")?;
        }
    }
    Ok(text)
}

fn write_round_trips(
    text: &mut String,
    statement_groups: &[Vec<String>],
    log: &str,
) -> anyhow::Result<()> {
    for statements in statement_groups {
        text.push_str("\\startpipeline\n");
        for statement in statements {
            writeln!(text, "{};", fill_parameters(statement, log)?)?;
        }
        text.push_str("\\endpipeline\n");
    }
    Ok(())
}

/// Replaces the parameters of a statement with values.
fn fill_parameters(statement: &str, log: &str) -> anyhow::Result<String> {
    let Some(named_statement) = statement.trim_start().strip_prefix("-- ") else {
        // The program sends a literal for each tenant. Here a function is needed.
        return Ok(match statement.starts_with("SET LOCAL scrip.tenant = ") {
            true => format!("SELECT set_config('scrip.tenant', ({TENANT})::text, true)"),
            false => statement.to_owned(),
        });
    };
    let (name, sql) = named_statement.split_once('\n').context("a statement has one line")?;
    let entry = PARAMETERS.iter().find(|(it, _)| *it == name);
    let (_, values) = entry.with_context(|| format!("{name} is unknown"))?;
    let mut sql = sql.to_owned();
    // From the last parameter, because `$1` is a prefix of `$12`.
    for (index, value) in values.iter().enumerate().rev() {
        sql = sql.replace(&format!("${}", index.saturating_add(1)), value);
    }
    ensure!(!sql.contains('$'), "{name} has more parameters than values");
    let placeholders = [("TENANT", TENANT), ("FACET", FACET), ("READ", READ), ("LOG", log)];
    for (placeholder, value) in placeholders {
        sql = sql.replace(placeholder, value);
    }
    Ok(sql.replace("[ID", &format!("[{ID}")))
}

#[cfg(test)]
mod tests {
    use super::{PgbenchOperation, TenantSpread, pgbench_script};

    /// Every statement of the program has values for all its parameters.
    #[test]
    fn pgbench_scripts_fill_every_statement_parameter() {
        for operation in
            [PgbenchOperation::Create, PgbenchOperation::Read, PgbenchOperation::RecordedRead]
        {
            let text = pgbench_script(operation, TenantSpread::Single).unwrap();
            assert!(text.contains("COMMIT;"), "{text}");
            assert!(!text.contains('$'), "{text}");
        }
    }
}
