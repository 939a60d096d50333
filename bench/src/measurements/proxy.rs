//! Proxied calls, compared with nginx as a reverse proxy to the same upstream.

mod report;
mod results;
mod slow_destinations;

use std::{fs, path::Path, sync::Arc};

use anyhow::Context;
use scrip_testing::directory_server::authority::CertificateAuthority;
use serde_json::{Value, json};

pub(crate) use self::report::report_proxy;
use self::results::{ProxyResults, ProxyRound};
use crate::{
    harness::{
        call_script::CallScript,
        load::{self, LoadDuration, LoadPlan},
        management::send_json,
        nginx::{CertificateFiles, NginxServer, find_nginx},
        process::{BenchServer, raise_descriptor_limit},
        results::MeasurementResult,
        script::{CreateScript, CreateVariant, IdText},
    },
    measurements::{raw::RawStorage, rounds::BenchPlan},
};

pub(crate) const NGINX_MISSING: &str = "nginx is not installed, so proxied calls were not measured. \
    Install it with `apt-get install nginx-light`; its service need not run.";

/// One connection, and as many as other measurements use at most.
const CONNECTIONS: [usize; 2] = [1, 64];
/// Tokens that calls name at random.
const TOKENS: u32 = 10_000;
const CREATE_CONNECTIONS: usize = 16;

struct ProxyBench<'a> {
    plan: &'a BenchPlan,
    upstream: NginxServer,
    nginx: NginxServer,
    scrip: BenchServer,
    /// The headers of a call through the proxy of the vault.
    headers: String,
    ids: Arc<Vec<IdText>>,
}

/// Measures calls. `None` if nginx is missing.
pub(crate) async fn measure_proxy(plan: &BenchPlan) -> anyhow::Result<Option<ProxyResults>> {
    let Some(program) = find_nginx() else { return Ok(None) };
    raise_descriptor_limit();
    let authority = CertificateAuthority::new(&plan.folder, "destination");
    let bench = ProxyBench::start(plan, &program, &authority).await?;
    let mut rounds = Vec::with_capacity(CONNECTIONS.len());
    for connections in CONNECTIONS {
        rounds.push(bench.measure_round(connections).await?);
    }
    let commit = bench.measure_commit()?;
    let slow = slow_destinations::measure(&bench.scrip, &authority).await?;
    bench.scrip.stop()?;
    Ok(Some(ProxyResults { rounds, commit, slow }))
}

impl<'a> ProxyBench<'a> {
    async fn start(
        plan: &'a BenchPlan,
        program: &Path,
        authority: &CertificateAuthority,
    ) -> anyhow::Result<Self> {
        let issued = authority.issue("upstream", &["localhost"]);
        let files = CertificateFiles { certificate: &issued.certificate, key: &issued.key };
        let upstream = NginxServer::start_upstream(program, &plan.folder.join("upstream"), files)?;
        let roots = authority.roots_file();
        let nginx_folder = plan.folder.join("nginx");
        let nginx = NginxServer::start_proxy(program, &nginx_folder, upstream.address, &roots)?;
        let data = plan.folder.join("proxy");
        fs::create_dir(&data)?;
        let roots_text = roots.to_str().context("the folder has no name in UTF-8")?;
        // The slow destinations are called through ephemeral proxies, which have no own authority.
        let settings = [("SCRIP_PROXY_CA_FILE", roots_text)];
        let scrip = BenchServer::start_scrip_with_settings(&plan.scrip, &data, &settings)?;
        let proxy_key = create_proxy(&scrip, &upstream, &fs::read_to_string(&roots)?).await?;
        let headers = format!("BT-API-KEY: {}\r\nBT-PROXY-KEY: {proxy_key}\r\n", scrip.api_key);
        let ids = Arc::new(create_tokens(&scrip).await?);
        Ok(Self { plan, upstream, nginx, scrip, headers, ids })
    }

    /// The reference before and after the vault.
    async fn measure_round(&self, connections: usize) -> anyhow::Result<ProxyRound> {
        let nginx_before = self.measure_nginx(connections).await?;
        let seeds = || (0_u64..).take(connections);
        let scripts = seeds().map(|it| CallScript::with_token(&self.headers, &self.ids, it));
        let with_token = self.measure_scrip("call, one token", scripts.collect()).await?;
        let scripts = seeds().map(|it| CallScript::without_expression(&self.headers, it));
        let without_expression =
            self.measure_scrip("call, no expression", scripts.collect()).await?;
        let nginx_after = self.measure_nginx(connections).await?;
        Ok(ProxyRound { nginx: [nginx_before, nginx_after], with_token, without_expression })
    }

    async fn measure_nginx(&self, connections: usize) -> anyhow::Result<MeasurementResult> {
        // With headers of the same length, which nginx passes on.
        let scripts = (0_u64..).take(connections);
        let scripts = scripts.map(|it| CallScript::without_expression(&self.headers, it));
        let (address, server) = (self.nginx.address, self.nginx.pid());
        let load = LoadPlan { address, server, ..self.load_plan("nginx") };
        measure(load, scripts.collect()).await
    }

    async fn measure_scrip(
        &self,
        name: &'static str,
        scripts: Vec<CallScript>,
    ) -> anyhow::Result<MeasurementResult> {
        measure(self.load_plan(name), scripts).await
    }

    fn load_plan(&self, name: &'static str) -> LoadPlan {
        let (warm_up, measured) = self.plan.durations;
        LoadPlan {
            name,
            address: self.scrip.address,
            server: self.scrip.pid(),
            upstream: Some(self.upstream.pid()),
            status: 200,
            until: LoadDuration::Time(warm_up, measured),
            interval: None,
        }
    }

    fn measure_commit(&self) -> anyhow::Result<MeasurementResult> {
        let mut raw = RawStorage::open(&self.plan.folder.join("raw.db"))?;
        let (warm_up, measured) = self.plan.durations;
        let measure = || raw.measure("raw, 1 row a commit", 1, warm_up, measured);
        let result = tokio::task::block_in_place(measure)?;
        report::print_progress(&result)?;
        Ok(result)
    }
}

async fn measure(load: LoadPlan, scripts: Vec<CallScript>) -> anyhow::Result<MeasurementResult> {
    let (result, _) = load::run(load, scripts).await?;
    report::print_progress(&result)?;
    Ok(result)
}

async fn create_tokens(server: &BenchServer) -> anyhow::Result<Vec<IdText>> {
    let serial = Arc::default();
    let build_script = |_| CreateScript::new(&server.api_key, CreateVariant::Plain, &serial);
    let scripts = (0..CREATE_CONNECTIONS).map(build_script).collect::<anyhow::Result<Vec<_>>>()?;
    let load = LoadPlan {
        name: "create",
        address: server.address,
        server: server.pid(),
        upstream: None,
        status: 201,
        until: LoadDuration::Count(TOKENS),
        interval: None,
    };
    let (_, scripts) = load::run(load, scripts).await?;
    Ok(scripts.into_iter().flat_map(|it| it.ids).collect())
}

/// Creates a proxy to the upstream with its authority, and returns the key of the proxy.
async fn create_proxy(
    server: &BenchServer,
    upstream: &NginxServer,
    roots_pem: &str,
) -> anyhow::Result<String> {
    let port = upstream.address.port();
    let body = json!({
        "name": "bench",
        "destination_url": format!("https://localhost:{port}/v1"),
        "ca_pem": roots_pem,
    });
    let proxy = send_json(server, "POST /proxies", &body).await?;
    let key = proxy.get("key").and_then(Value::as_str).context("the proxy has no key")?;
    Ok(key.to_owned())
}
