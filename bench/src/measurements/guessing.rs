//! What the guessing budget costs creates by a public key.

use std::{
    path::Path,
    process::Command,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use anyhow::ensure;

use crate::{
    harness::{
        figures::{Figures, note},
        load::{self, Load, Until},
        process::Server,
        script::{Besides, Creates},
    },
    measurements::rounds::Plan,
};

const CONNECTIONS: usize = 16;
const AIM: f64 = 1.25;
const QUOTAS: [&str; 3] =
    ["number_guesses_day", "number_guesses_quarter", "number_guesses_application"];

/// As in a production tenant; the last one so that it is not spent in the middle of a run.
const ON: [&str; 3] = ["20", "40", "100000"];
const OFF: [&str; 3] = ["off"; 3];

#[derive(Debug)]
pub(crate) struct Guessing {
    /// Before and after the other.
    off: [Figures; 2],
    on: Figures,
}

pub(crate) async fn run(plan: &Plan) -> anyhow::Result<Guessing> {
    let data = plan.folder.join("guessing");
    std::fs::create_dir(&data)?;
    let first = Server::scrip(&plan.scrip, &data)?;
    let tenant = first.tenant.clone();
    first.stop()?;
    let bench = Bench { plan, data: &data, tenant, serial: Arc::default() };
    let before = bench.create("create, no budget", OFF).await?;
    let on = bench.create("create, with budget", ON).await?;
    let after = bench.create("create, no budget", OFF).await?;
    Ok(Guessing { off: [before, after], on })
}

struct Bench<'a> {
    plan: &'a Plan,
    data: &'a Path,
    tenant: String,
    serial: Arc<AtomicU64>,
}

impl Bench<'_> {
    async fn create(&self, name: &'static str, values: [&str; 3]) -> anyhow::Result<Figures> {
        let mut command = Command::new(&self.plan.scrip);
        command.args(["tenant", "quota", "set", &self.tenant]);
        command.args(QUOTAS.iter().zip(values).map(|(name, value)| format!("{name}={value}")));
        command.env("SCRIP_STORAGE_DATA_DIR", self.data).stdout(std::process::Stdio::null());
        ensure!(command.status()?.success(), "the quotas of the guessing budget cannot be set");
        let server = Server::scrip(&self.plan.scrip, self.data)?;
        let script = |_| Creates::new(&server.public_key, Besides::Nothing, &self.serial);
        let scripts = (0..CONNECTIONS).map(script).collect::<anyhow::Result<Vec<_>>>()?;
        let (warm_up, measured): (Duration, Duration) = self.plan.span;
        let until = Until::Time(warm_up, measured);
        let (address, pid) = (server.address, server.pid());
        let load = Load { name, address, server: pid, status: 201, until, every: None };
        let (figures, _) = load::run(load, scripts).await?;
        note(&figures)?;
        server.stop()?;
        Ok(figures)
    }
}

pub(crate) fn report(guessing: &Guessing) -> String {
    let [before, after] = &guessing.off;
    let off = f64::midpoint(before.per_second, after.per_second);
    let ratio = off / guessing.on.per_second.max(1e-9);
    let verdict = if ratio <= AIM { "met" } else { "MISSED" };
    format!(
        "\nGuessing budget\n\ncreates by a public key with the budget, at most {AIM} times of \
         without: {ratio:.2}, {verdict}\n"
    )
}
