//! What deduplication costs when many tokens have the same fingerprint.

use std::time::Duration;

use crate::{
    harness::{
        figures::{Figures, note},
        load::{self, Load, Until},
        process::Server,
        script::Repeated,
    },
    measurements::rounds::Plan,
};

const CONNECTIONS: usize = 16;
const FEW: u32 = 10;
const MANY: u32 = 10_000;
const AIM: f64 = 1.5;

const FEW_NUMBER: &str = "4242424242424242";
const MANY_NUMBER: &str = "4111111111111111";

#[derive(Debug)]
pub(crate) struct Duplicates {
    /// Before and after the other.
    few: [Figures; 2],
    many: Figures,
}

pub(crate) async fn run(plan: &Plan) -> anyhow::Result<Duplicates> {
    let data = plan.folder.join("duplicates");
    std::fs::create_dir(&data)?;
    let server = Server::scrip(&plan.scrip, &data)?;
    let bench = Bench { server, span: plan.span };
    bench.fill("create, few the same", FEW_NUMBER, FEW).await?;
    bench.fill("create, all the same", MANY_NUMBER, MANY).await?;
    let before = bench.deduplicate("duplicate of few", FEW_NUMBER).await?;
    let many = bench.deduplicate("duplicate of many", MANY_NUMBER).await?;
    let after = bench.deduplicate("duplicate of few", FEW_NUMBER).await?;
    bench.server.stop()?;
    Ok(Duplicates { few: [before, after], many })
}

struct Bench {
    server: Server,
    span: (Duration, Duration),
}

impl Bench {
    async fn fill(&self, name: &'static str, number: &str, count: u32) -> anyhow::Result<()> {
        self.create(name, number, "false", Until::Count(count)).await.map(drop)
    }

    async fn deduplicate(&self, name: &'static str, number: &str) -> anyhow::Result<Figures> {
        self.create(name, number, "true", Until::Time(self.span.0, self.span.1)).await
    }

    async fn create(
        &self,
        name: &'static str,
        number: &str,
        deduplicate: &str,
        until: Until,
    ) -> anyhow::Result<Figures> {
        let body = format!(
            r#"{{"type":"card","data":{{"number":"{number}"}},"deduplicate_token":{deduplicate}}}"#
        );
        let scripts = (0..CONNECTIONS).map(|_| Repeated::create(&self.server.api_key, &body));
        let (address, server) = (self.server.address, self.server.pid());
        let load = Load { name, address, server, status: 201, until, every: None };
        let (figures, _) = load::run(load, scripts.collect()).await?;
        note(&figures)?;
        Ok(figures)
    }
}

pub(crate) fn report(duplicates: &Duplicates) -> String {
    let [before, after] = &duplicates.few;
    let few = f64::midpoint(before.per_second, after.per_second);
    let ratio = few / duplicates.many.per_second.max(1e-9);
    let verdict = if ratio <= AIM { "met" } else { "MISSED" };
    format!(
        "\nDeduplication\n\nagainst {MANY} tokens of one fingerprint, at most {AIM} times of {FEW}: \
         {ratio:.2}, {verdict}\n"
    )
}
