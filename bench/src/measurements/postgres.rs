//! A node on PostgreSQL beside `pgbench`, in turns, on one server and in one database.

use std::{
    path::PathBuf,
    process::Command,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use anyhow::{Context, ensure};
use scrip_testing::postgres::cluster::Cluster;

use crate::{
    harness::{
        figures::{Figures, note},
        load::{self, Load, Until},
        process::Server,
        script::{Besides, Creates, IdText, Reads},
    },
    measurements::{
        pgbench::{Pgbench, Tenants, What, tokens},
        rounds::Plan,
    },
};

const CLIENTS: usize = 64;

/// A rate of the node with those of the reference right before and right after it.
#[derive(Debug)]
pub(crate) struct Round {
    what: &'static str,
    tenants: usize,
    aim: f64,
    scrip: Figures,
    pgbench: [f64; 2],
}

struct Bench {
    cluster: Cluster,
    pgbench: Pgbench,
    scrip: PathBuf,
    folder: PathBuf,
    span: (Duration, Duration),
    /// One for each tenant.
    keys: Vec<String>,
    serial: Arc<AtomicU64>,
}

pub(crate) async fn run(plan: &Plan) -> anyhow::Result<Vec<Round>> {
    // As an operator would have it on such a machine; the rest is PostgreSQL's own.
    let cluster = Cluster::start(&["shared_buffers=256MB", "max_wal_size=4GB"]);
    let pgbench = Pgbench { url: cluster.url(), folder: plan.folder.clone(), runs: 0 };
    let mut bench = Bench {
        cluster,
        pgbench,
        scrip: plan.scrip.clone(),
        folder: plan.folder.clone(),
        span: plan.span,
        keys: Vec::new(),
        serial: Arc::default(),
    };
    bench.found()?;
    let mut rounds = Vec::new();
    for tenants in [Tenants::One, Tenants::OneForEachClient] {
        rounds.extend(bench.rounds(tenants).await?);
    }
    Ok(rounds)
}

impl Bench {
    fn command(&self, reads: &str) -> Command {
        let mut command = Command::new(&self.scrip);
        command.env("SCRIP_STORAGE_URL", self.cluster.url());
        command.env("SCRIP_STORAGE_DATA_DIR", self.folder.join("node"));
        command.env("SCRIP_SERVER_LISTEN", "127.0.0.1:0");
        command.env("SCRIP_LIMITS_MODE", "off");
        // Its keys of codes are in memory.
        command.env("SCRIP_STORAGE_ONLY_NODE", "true");
        command.env("SCRIP_AUDIT_READS", reads);
        command
    }

    fn answer(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.command("off").args(arguments).output()?;
        let wrong = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "scrip {arguments:?} failed: {wrong}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// A vault with a tenant for each client, and the rows that pgbench reads.
    fn found(&mut self) -> anyhow::Result<()> {
        self.answer(&["init"])?;
        for at in 0..CLIENTS {
            let name = format!("bench-{at}");
            self.answer(&["tenant", "create", &name])?;
            let application = ["application", "create", "--tenant", &name, "--name", "bench"];
            let rights = ["--type", "private", "--all", "--json"];
            let said = self.answer(&[application.as_slice(), &rights].concat())?;
            self.keys.push(key(&said)?);
        }
        for sql in tokens(CLIENTS) {
            self.cluster.query(&sql);
        }
        self.cluster.query("ANALYZE");
        Ok(())
    }

    async fn rounds(&mut self, tenants: Tenants) -> anyhow::Result<[Round; 3]> {
        let folder = self.folder.clone();
        let log = |name: &str| folder.join(format!("{name}.log"));
        let server = Server::node(self.command("durable"), &log("durable"))?;
        let before = self.reference(What::Create, tenants)?;
        let (figures, scripts) =
            load::run(self.load("create", &server, 201), self.creates(tenants)?).await?;
        note(&figures)?;
        let after = self.reference(What::Create, tenants)?;
        let creates = self.round(figures, 50.0, tenants, [before, after]);
        let ids = ids(scripts, tenants);
        let recorded = self.reads(&server, What::RecordedRead, tenants, &ids).await?;
        server.stop()?;
        let server = Server::node(self.command("off"), &log("off"))?;
        let unrecorded = self.reads(&server, What::Read, tenants, &ids).await?;
        server.stop()?;
        Ok([creates, recorded, unrecorded])
    }

    async fn reads(
        &mut self,
        server: &Server,
        what: What,
        tenants: Tenants,
        ids: &[Arc<Vec<IdText>>],
    ) -> anyhow::Result<Round> {
        let name = match what {
            What::RecordedRead => "read, recorded",
            What::Create | What::Read => "read, unrecorded",
        };
        let before = self.reference(what, tenants)?;
        let scripts = self.keys_of(tenants).zip(ids.iter().cycle()).zip(0_u64..);
        let scripts = scripts.map(|((key, ids), seed)| Reads::new(key, ids, seed));
        let scripts = scripts.collect::<Result<Vec<_>, _>>()?;
        let (figures, _) = load::run(self.load(name, server, 200), scripts).await?;
        note(&figures)?;
        let after = self.reference(what, tenants)?;
        Ok(self.round(figures, 60.0, tenants, [before, after]))
    }

    /// The key of each connection.
    fn keys_of(&self, tenants: Tenants) -> impl Iterator<Item = &String> {
        self.keys.iter().take(count(tenants)).cycle().take(CLIENTS)
    }

    fn creates(&self, tenants: Tenants) -> anyhow::Result<Vec<Creates>> {
        let script = |key: &String| Creates::new(key, Besides::Nothing, &self.serial);
        self.keys_of(tenants).map(script).collect()
    }

    fn reference(&mut self, what: What, tenants: Tenants) -> anyhow::Result<f64> {
        let measured = self.span.1;
        // The others of this process have nothing to do meanwhile.
        let rate =
            tokio::task::block_in_place(|| self.pgbench.measure(what, tenants, CLIENTS, measured))?;
        let figures =
            Figures { per_second: rate, ..Figures::new("pgbench", CLIENTS, vec![], 1, measured) };
        note(&figures)?;
        Ok(rate)
    }

    fn load(&self, name: &'static str, server: &Server, status: u16) -> Load {
        let until = Until::Time(self.span.0, self.span.1);
        Load { name, address: server.address, server: server.pid(), status, until, every: None }
    }

    fn round(&self, scrip: Figures, aim: f64, tenants: Tenants, pgbench: [f64; 2]) -> Round {
        Round { what: scrip.name, tenants: count(tenants), aim, scrip, pgbench }
    }
}

fn count(tenants: Tenants) -> usize {
    match tenants {
        Tenants::One => 1,
        Tenants::OneForEachClient => CLIENTS,
    }
}

/// What there is to read for each connection.
fn ids(scripts: Vec<Creates>, tenants: Tenants) -> Vec<Arc<Vec<IdText>>> {
    let each = scripts.into_iter().map(|it| it.ids);
    match tenants {
        Tenants::One => vec![Arc::new(each.flatten().collect())],
        Tenants::OneForEachClient => each.map(Arc::new).collect(),
    }
}

/// The key is shown once, when it is made.
fn key(said: &str) -> anyhow::Result<String> {
    let said: serde_json::Value = serde_json::from_str(said)?;
    let key = said.get("key").and_then(|it| it.as_str());
    Ok(key.context("an application was made without a key")?.to_owned())
}

pub(crate) fn report(rounds: &[Round]) -> String {
    let mut text = "\nOn PostgreSQL, 64 connections\n\n\
        | what                  | tenants | per sec. |  p50 us |  p99 us | pgbench before, after | of pgbench | aim  |        |\n\
        |-----------------------|--------:|---------:|--------:|--------:|----------------------:|-----------:|-----:|--------|\n"
        .to_owned();
    for Round { what, tenants, aim, scrip, pgbench: [before, after] } in rounds {
        let share = scrip.per_second * 100.0 / ((before + after) / 2.0);
        let met = if share >= *aim { "met" } else { "MISSED" };
        let line = format!(
            "| {what:<21} | {tenants:>7} | {:>8.0} | {:>7} | {:>7} | {:>21} | {share:>8.1} % | {aim:>2} % | {met:<6} |",
            scrip.per_second,
            scrip.p50_us,
            scrip.p99_us,
            format!("{before:.0}, {after:.0}"),
        );
        text.push_str(&line);
        text.push('\n');
    }
    text
}
