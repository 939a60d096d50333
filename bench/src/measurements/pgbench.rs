//! The reference for PostgreSQL: `pgbench` sends the statements of the program, one transaction for
//! each create or read, in as many round trips as the program takes.

use std::{fmt::Write as _, fs, path::PathBuf, process::Command, time::Duration};

use anyhow::{Context, ensure};
use scrip_store::postgres::bench_statements;

/// How many tokens there are to read for each tenant.
pub(crate) const TOKENS: u32 = 1000;

/// What stands for the parameters of each statement. `:name` is a variable of pgbench, sent as a
/// parameter; a tenant's id ends in the number of its client, or is the same for all.
const PARAMETERS: [(&str, &[&str]); 9] = [
    ("enter", &["TENANT", "'LOG'", "2"]),
    ("open_chain", &["TENANT", "'LOG'"]),
    (
        "find_obstacles",
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
            // Nothing of it ends while it is measured.
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

/// A UUID's text, and a facet of 17 bytes that no other token has.
const ID: &str = "('6a1f9f1e-52d7-4a0c-9d53-'::text || lpad(:number::text, 12, '0'))";
const READ: &str = "('00000000-0000-4000-8000-'::text || lpad(:read::text, 12, '0'))";
const FACET: &str = "decode('66'::text || md5(:number::text), 'hex')";
const TENANT: &str = "lpad(:tenant::text, 32, '0')::uuid";

/// Whose rows are written and read.
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
    /// So many runs that wrote; the numbers of the next are higher.
    pub(crate) runs: u32,
}

/// More than a client can write in one run, and a tenth of what lies between two clients.
const NUMBERS_PER_RUN: u32 = 10_000_000;

/// The tokens that are read, of as many tenants as there are clients.
pub(crate) fn insert_token_statements(clients: usize) -> [String; 2] {
    let rows = format!(
        "FROM generate_series(0, {clients}) AS tenant, generate_series(1, {TOKENS}) AS number"
    );
    let tenant = "lpad(tenant::text, 32, '0')::uuid";
    let sealed = |bytes: u32| format!("decode(repeat('a5', {bytes}), 'hex')");
    [
        format!(
            "INSERT INTO tokens (tenant, number, id, type, fingerprint, containers, created_by, \
             created_at, revision, indexes, body) SELECT {tenant}, number, \
             '00000000-0000-4000-8000-' || lpad(number::text, 12, '0'), 'card', {}, \
             '/pci/high/', {tenant}, 1794700000000, 0, '', {} {rows}",
            sealed(32),
            sealed(137),
        ),
        format!(
            "INSERT INTO cvcs (tenant, token, expires_at, sealed) \
             SELECT {tenant}, number, 4102444800000, {} {rows}",
            sealed(57),
        ),
    ]
}

impl PgbenchReference {
    /// Transactions in a second.
    pub(crate) fn measure(
        &mut self,
        operation: PgbenchOperation,
        spread: TenantSpread,
        clients: usize,
        span: Duration,
    ) -> anyhow::Result<f64> {
        let file = self.folder.join(format!("{operation:?}-{spread:?}.sql").to_lowercase());
        fs::write(&file, pgbench_script(operation, spread)?)?;
        let bytes = |byte: &str, count: usize| format!("\\x{}", byte.repeat(count));
        let mut command = Command::new(find_pgbench()?);
        command.args(["-n", "-M", "prepared", "-j", "1"]);
        command.args(["-c", &clients.to_string(), "-T", &span.as_secs().max(1).to_string()]);
        command.arg("-f").arg(&file);
        // The lengths that the program's own have.
        self.runs = self.runs.saturating_add(1);
        for (name, value) in [
            ("serial", self.runs.saturating_mul(NUMBERS_PER_RUN).to_string()),
            ("mac", bytes("5a", 32)),
            ("body", bytes("a5", 137)),
            ("code", bytes("3c", 57)),
            ("actor", "11111111-1111-4111-8111-111111111111".to_owned()),
            ("trace", "22222222-2222-4222-8222-222222222222".to_owned()),
        ] {
            command.arg("-D").arg(format!("{name}={value}"));
        }
        let output = command.arg(&self.url).output()?;
        let message = String::from_utf8_lossy(&output.stdout);
        let wrong = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "pgbench ended with {}: {wrong}", output.status);
        let tps = message.lines().find_map(|it| it.strip_prefix("tps = ")).context("no tps")?;
        Ok(tps.split(' ').next().context("no tps")?.parse()?)
    }
}

/// The newest version of those that Debian keeps side by side, or the one on the path.
fn find_pgbench() -> anyhow::Result<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten() {
        let program = entry.path().join("bin/pgbench");
        if program.exists() {
            found.push(program);
        }
    }
    Ok(found.into_iter().max().unwrap_or_else(|| PathBuf::from("pgbench")))
}

fn pgbench_script(operation: PgbenchOperation, spread: TenantSpread) -> anyhow::Result<String> {
    let mut text = String::new();
    // Each client has numbers of its own, which rise; and variables outlive a transaction.
    let tenant = match spread {
        TenantSpread::Single => "0",
        TenantSpread::OnePerClient => ":client_id",
    };
    writeln!(text, "\\set tenant {tenant}")?;
    writeln!(text, "\\set serial :serial + 1\n\\set at 1794700000000 + :serial")?;
    writeln!(text, "\\set number :client_id * 1000000000 + :serial")?;
    writeln!(text, "\\set read random(1, {TOKENS})")?;
    match operation {
        PgbenchOperation::Create => {
            round_trips(&mut text, &bench_statements::create_token(), "audit")?
        }
        PgbenchOperation::Read => round_trips(&mut text, &bench_statements::read_token(), "")?,
        PgbenchOperation::RecordedRead => {
            round_trips(&mut text, &bench_statements::read_token(), "")?;
            round_trips(&mut text, &bench_statements::record_read(), "access")?;
        }
    }
    Ok(text)
}

fn round_trips(text: &mut String, trips: &[Vec<String>], log: &str) -> anyhow::Result<()> {
    for trip in trips {
        text.push_str("\\startpipeline\n");
        for statement in trip {
            writeln!(text, "{};", fill_parameters(statement, log)?)?;
        }
        text.push_str("\\endpipeline\n");
    }
    Ok(())
}

/// A statement with what stands for its parameters.
fn fill_parameters(statement: &str, log: &str) -> anyhow::Result<String> {
    let Some(named) = statement.trim_start().strip_prefix("-- ") else {
        // What is said by a literal for each tenant has to be said by a function here.
        return Ok(match statement.starts_with("SET LOCAL scrip.tenant = ") {
            true => format!("SELECT set_config('scrip.tenant', ({TENANT})::text, true)"),
            false => statement.to_owned(),
        });
    };
    let (name, sql) = named.split_once('\n').context("a statement has one line")?;
    let parameters_of_statement = PARAMETERS.iter().find(|(it, _)| *it == name);
    let (_, values) =
        parameters_of_statement.with_context(|| format!("{name} is not known here"))?;
    let mut sql = sql.to_owned();
    // From the last, since `$1` is how `$12` begins.
    for (at, value) in values.iter().enumerate().rev() {
        sql = sql.replace(&format!("${}", at.saturating_add(1)), value);
    }
    ensure!(!sql.contains('$'), "{name} has more parameters than are known here");
    let words = [("TENANT", TENANT), ("FACET", FACET), ("READ", READ), ("LOG", log)];
    for (word, meant) in words {
        sql = sql.replace(word, meant);
    }
    Ok(sql.replace("[ID", &format!("[{ID}")))
}

#[cfg(test)]
mod tests {
    use super::{PgbenchOperation, TenantSpread, pgbench_script};

    /// Every statement of the program is known here, with all of its parameters.
    #[test]
    fn pgbench_scripts_fill_every_statement_parameter() {
        for what in
            [PgbenchOperation::Create, PgbenchOperation::Read, PgbenchOperation::RecordedRead]
        {
            let text = pgbench_script(what, TenantSpread::Single).unwrap();
            assert!(text.contains("COMMIT;"), "{text}");
            assert!(!text.contains('$'), "{text}");
        }
    }
}
