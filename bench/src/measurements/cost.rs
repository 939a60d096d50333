//! The processor time of the worst input of every route: on an async worker, and on the writer's
//! thread. The minimum of several runs, in a tenant with many API keys.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, ensure};
use scrip_api::{route::Route, routes::ROUTES};
use scrip_core::{policy::CallerRequirement, types::Permission};
use scrip_testing::requests::{
    with_members,
    worst_inputs::{
        EXCUSED_OPERATIONS, TOKEN_ID, WORST_CALLS, WORST_INPUTS, WorstCall, WorstCaller,
        WorstInput, mask_rights,
    },
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::sleep,
};

use crate::{
    harness::{management::send_json, process::BenchServer},
    measurements::rounds::BenchPlan,
};

const RUNS: usize = 5;
const APPLICATIONS: usize = 20;
const KEYS_PER_APPLICATION: usize = 99;
const WORKER_MAX: Duration = Duration::from_millis(50);
const TRANSACTION_MAX: Duration = Duration::from_millis(5);
const PROXY_PATH: &str = "/proxy";
/// The token that expressions read.
const EXPRESSIONS: &str = "expressions";
/// The time after a response in which the server finishes the work of the request.
const SETTLE: Duration = Duration::from_millis(30);

#[derive(Debug)]
pub(crate) struct RouteCost {
    route: String,
    input: &'static str,
    caller: WorstCaller,
    status: u16,
    worker: Duration,
    transaction: Duration,
    long: Duration,
}

/// The processor time of the server so far.
#[derive(Debug, Clone, Copy)]
struct ServerTime {
    workers: Duration,
    writers: Duration,
    long: Duration,
}

/// The entities that paths name.
#[derive(Debug)]
struct CostTenant {
    server: BenchServer,
    ids: BTreeMap<&'static str, String>,
    callers: Vec<CallerKey>,
}

/// A caller and its API key.
#[derive(Debug)]
struct CallerKey {
    caller: WorstCaller,
    key: String,
}

pub(crate) async fn measure_cost(plan: &BenchPlan) -> anyhow::Result<Vec<RouteCost>> {
    let data = plan.folder.join("cost");
    fs::create_dir(&data)?;
    let server = BenchServer::start_scrip(&plan.scrip, &data)?;
    raise_limits(plan, &data, &server)?;
    let tenant = prepare_tenant(server).await?;
    let mut costs = Vec::new();
    for input in WORST_INPUTS {
        let route = ROUTES.iter().find(|it| it.operation == input.operation);
        let route = route.context("a worst input has no route")?;
        let is_caller = |it: &&CallerKey| it.caller.may_call(route.requirement);
        for sender in tenant.callers.iter().filter(is_caller) {
            costs.push(measure_input(&tenant, route, input, sender).await?);
        }
    }
    for call in WORST_CALLS {
        for sender in tenant.callers.iter().filter(|it| may_invoke_proxies(it.caller)) {
            costs.push(measure_call(&tenant, call, sender).await?);
        }
    }
    tenant.server.stop()?;
    Ok(costs)
}

fn may_invoke_proxies(caller: WorstCaller) -> bool {
    caller.may_call(CallerRequirement::Permission(Permission::ProxyInvoke))
}

/// Requests with as many tokens as an operator can allow.
fn raise_limits(plan: &BenchPlan, data: &Path, server: &BenchServer) -> anyhow::Result<()> {
    let mut command = Command::new(&plan.scrip);
    command.args(["tenant", "quota", "set", "--data-dir"]).arg(data).arg(&server.tenant);
    let output = command
        .args(["tokenize_limit=200", "detokenize_limit=200", "proxy_token_limit=1000"])
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The server reads the policy within a second.
    std::thread::sleep(Duration::from_millis(1500));
    Ok(())
}

async fn prepare_tenant(server: BenchServer) -> anyhow::Result<CostTenant> {
    let id = |it: &Value| it.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut ids = BTreeMap::new();
    for index in 0..APPLICATIONS {
        let body = json!({"name": format!("cost {index}"), "type": "private",
            "permissions": ["token:create"]});
        let application = id(&send_json(&server, "POST /applications", &body).await?);
        let keys = format!("POST /applications/{application}/keys");
        // The last application has room for the keys that the measurement creates.
        let count = if index == APPLICATIONS.saturating_sub(1) { 50 } else { KEYS_PER_APPLICATION };
        for _ in 0..count {
            send_json(&server, &keys, &Value::Null).await?;
        }
        ids.insert("applications", application);
    }
    let proxy = json!({"name": "cost", "destination_url": "https://psp.example/v1"});
    ids.insert("proxies", id(&send_json(&server, "POST /proxies", &proxy).await?));
    for _ in 0..4 {
        let webhook =
            json!({"name": "cost", "url": "https://127.0.0.1:9", "events": ["proxy.updated"]});
        match send_json(&server, "POST /webhooks", &webhook).await {
            Ok(created) => drop(ids.insert("webhooks", id(&created))),
            Err(_) => break,
        }
    }
    ids.insert(EXPRESSIONS, create_token(&server).await?);
    let callers = create_callers(&server).await?;
    Ok(CostTenant { server, ids, callers })
}

async fn create_token(server: &BenchServer) -> anyhow::Result<String> {
    let body = json!({"type": "token", "data": "cost"}).to_string();
    let key = format!("BT-API-KEY: {}\r\n", server.api_key);
    let (_, created) = send(server, "POST", "/tokens", &key, &body).await?;
    let created: Value = serde_json::from_str(&created)?;
    let id = created.get("id").and_then(Value::as_str).context("a token has no id")?;
    Ok(id.to_owned())
}

/// Returns the API key of each caller.
async fn create_callers(server: &BenchServer) -> anyhow::Result<Vec<CallerKey>> {
    let text =
        |it: &Value, name| it.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let application = with_members(mask_rights(), &json!({"name": "masks", "type": "private"}));
    let masks = send_json(server, "POST /applications", &application).await?;
    let key = format!("BT-API-KEY: {}\r\n", server.public_key);
    let (_, session) = send(server, "POST", "/sessions", &key, "").await?;
    let session: Value = serde_json::from_str(&session)?;
    let authorization = with_members(mask_rights(), &json!({"nonce": text(&session, "nonce")}));
    let key = format!("BT-API-KEY: {}\r\n", server.api_key);
    let body = authorization.to_string();
    let (status, text_of_error) = send(server, "POST", "/sessions/authorize", &key, &body).await?;
    ensure!(status == 204, "the session was not authorized: {text_of_error}");
    let keys = [
        (WorstCaller::Reveal, server.api_key.clone()),
        (WorstCaller::Masks, text(&masks, "key")),
        (WorstCaller::Browser, server.public_key.clone()),
        (WorstCaller::Session, text(&session, "session_key")),
        (WorstCaller::Management, server.management_key.clone()),
    ];
    Ok(keys.into_iter().map(|(caller, key)| CallerKey { caller, key }).collect())
}

async fn measure_input(
    tenant: &CostTenant,
    route: &Route,
    input: &WorstInput,
    sender: &CallerKey,
) -> anyhow::Result<RouteCost> {
    let server = &tenant.server;
    let is_of_token = route.path.starts_with("/tokens/{id}");
    let entity = match is_of_token {
        // A token keeps what earlier inputs wrote into it.
        true => create_token(server).await?,
        false => {
            let kind = route.path.split('/').nth(1).unwrap_or_default();
            tenant.ids.get(kind).cloned().unwrap_or_default()
        }
    };
    let path = route.path.replace("{id}", &entity) + input.query;
    let body = (input.body)().map(|it| it.to_string()).unwrap_or_default();
    let headers = format!("BT-API-KEY: {}\r\n", sender.key);
    let private = format!("BT-API-KEY: {}\r\n", server.api_key);
    for patch in (input.stored)() {
        let patch = patch.to_string();
        let sent = send(server, route.method_name(), &path, &private, &patch);
        let (status, text) = sent.await?;
        ensure!(status == 200, "{}, {} failed: {status} {text}", route.path, input.input);
    }
    let request = CostRequest {
        name: format!("{} {}", route.method_name(), route.path),
        input: input.input,
        caller: sender.caller,
        method: route.method_name(),
        path,
        headers,
        body,
    };
    let cost = measure_request(tenant, &request).await?;
    if is_of_token {
        // Pages of lists would become too large.
        send(server, "DELETE", &format!("/tokens/{entity}"), &private, "").await?;
    }
    Ok(cost)
}

/// Measures a call through a proxy of its own to a destination that repeats the body.
async fn measure_call(
    tenant: &CostTenant,
    call: &WorstCall,
    sender: &CallerKey,
) -> anyhow::Result<RouteCost> {
    let server = &tenant.server;
    let mut proxy = (call.transforms)();
    let provider = server.provider.as_deref().context("the server has no provider")?;
    let attributes = [("name", "call".to_owned()), ("destination_url", format!("{provider}/echo"))];
    let attributes = attributes.map(|(name, value)| (name.to_owned(), Value::from(value)));
    proxy.as_object_mut().context("a proxy is an object")?.extend(attributes);
    let created = send_json(server, "POST /proxies", &proxy).await?;
    let proxy_key = created.get("key").and_then(Value::as_str).context("a proxy has no key")?;
    let header = call.header.map(|it| format!("X-Cost: {it}\r\n")).unwrap_or_default();
    // The first run claims the key, and the others are compared with it.
    let idempotency_key = if call.is_idempotent { "BT-IDEMPOTENCY-KEY: cost\r\n" } else { "" };
    let headers = format!(
        "BT-API-KEY: {}\r\nBT-PROXY-KEY: {proxy_key}\r\nContent-Type: {}\r\n{header}\
         {idempotency_key}",
        sender.key, call.content_type
    );
    let request = CostRequest {
        name: "POST /proxy".to_owned(),
        input: call.input,
        caller: sender.caller,
        method: "POST",
        path: PROXY_PATH.to_owned(),
        headers,
        body: (call.body)(),
    };
    measure_request(tenant, &request).await
}

/// A request that is sent several times.
struct CostRequest {
    name: String,
    input: &'static str,
    caller: WorstCaller,
    method: &'static str,
    path: String,
    headers: String,
    body: String,
}

async fn measure_request(tenant: &CostTenant, request: &CostRequest) -> anyhow::Result<RouteCost> {
    let server = &tenant.server;
    let token = tenant.ids.get(EXPRESSIONS).map_or("", String::as_str);
    let CostRequest { name, input, caller, method, path, headers, body } = request;
    let body = body.replace(TOKEN_ID, token);
    let mut cost = RouteCost {
        route: name.clone(),
        input,
        caller: *caller,
        status: 0,
        worker: Duration::MAX,
        transaction: Duration::MAX,
        long: Duration::MAX,
    };
    for _ in 0..RUNS {
        let before = server_time(server).await?;
        let (status, text) = send(server, method, path, headers, &body).await?;
        // A call that needs more work than its limit is rejected after this work, and the provider may
        // close the connection during a large body.
        // So is a page with more than 4 MiB of tokens.
        // Other requests of a caller without a reveal right may be rejected after their work too.
        let status_max = match caller {
            _ if path == PROXY_PATH => 502,
            _ if *method == "GET" => 422,
            WorstCaller::Reveal | WorstCaller::Management => 399,
            WorstCaller::Masks | WorstCaller::Browser | WorstCaller::Session => 403,
        };
        ensure!(status <= status_max, "{name}, {input} failed: {status} {text}");
        sleep(SETTLE).await;
        let after = server_time(server).await?;
        let long = after.long.saturating_sub(before.long);
        let worker = after.workers.saturating_sub(before.workers).saturating_sub(long);
        cost.status = status;
        cost.long = cost.long.min(long);
        cost.worker = cost.worker.min(worker);
        cost.transaction = cost.transaction.min(after.writers.saturating_sub(before.writers));
    }
    Ok(cost)
}

/// Sends one request; returns the status and the body.
async fn send(
    server: &BenchServer,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> anyhow::Result<(u16, String)> {
    let content = match method {
        _ if headers.contains("Content-Type: ") => "",
        "PATCH" => "Content-Type: application/merge-patch+json\r\n",
        _ => "Content-Type: application/json\r\n",
    };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}{content}\
         Connection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(server.address).await?;
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let (head, body) = response.split_once("\r\n\r\n").context("a response has no body")?;
    let status = head.split(' ').nth(1).context("a response has no status")?.parse()?;
    Ok((status, body.to_owned()))
}

/// Reads the processor time of the threads, and the metric of work outside of the workers.
async fn server_time(server: &BenchServer) -> anyhow::Result<ServerTime> {
    let long = read_long_work(server).await?;
    let tasks = PathBuf::from(format!("/proc/{}/task", server.process_id()));
    let (mut workers, mut writers) = (Duration::ZERO, Duration::ZERO);
    for task in fs::read_dir(tasks)? {
        let task = task?.path();
        // A thread may have ended.
        let Ok(name) = fs::read_to_string(task.join("comm")) else { continue };
        let Ok(times) = fs::read_to_string(task.join("schedstat")) else { continue };
        let nanos = times.split(' ').next().and_then(|it| it.parse().ok()).unwrap_or(0);
        match name.trim() {
            "scrip-writer" => writers = writers.saturating_add(Duration::from_nanos(nanos)),
            it if it.starts_with("tokio") || it.starts_with("scrip-worker") => {
                workers = workers.saturating_add(Duration::from_nanos(nanos));
            }
            _ => (),
        }
    }
    Ok(ServerTime { workers, writers, long })
}

async fn read_long_work(server: &BenchServer) -> anyhow::Result<Duration> {
    let address = server.metrics.context("the server has no listener for metrics")?;
    let mut stream = TcpStream::connect(address).await?;
    let head = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await?;
    let line = page.lines().find_map(|it| it.strip_prefix("scrip_long_work_seconds_total "));
    Ok(Duration::from_secs_f64(line.context("the metric is missing")?.trim().parse()?))
}

pub(crate) fn report_cost(costs: &[RouteCost]) -> String {
    let millis = |it: Duration| it.as_secs_f64() * 1000.0;
    let mut text = format!(
        "Processor time of the worst input of each route, minimum of {RUNS} runs, with {} API keys.\n\
         Bounds: {} ms on a worker, {} ms in a write transaction.\n\n",
        APPLICATIONS.saturating_mul(KEYS_PER_APPLICATION),
        millis(WORKER_MAX),
        millis(TRANSACTION_MAX),
    );
    let _ = writeln!(
        text,
        "{:42} {:46} {:10} {:>6} {:>10} {:>14} {:>8}  bound",
        "route", "worst input", "caller", "status", "worker ms", "transaction ms", "slot ms"
    );
    for it in costs {
        let is_kept = it.worker <= WORKER_MAX && it.transaction <= TRANSACTION_MAX;
        let _ = writeln!(
            text,
            "{:42} {:46} {:10} {:>6} {:>10.2} {:>14.2} {:>8.2}  {}",
            it.route,
            it.input,
            it.caller.name(),
            it.status,
            millis(it.worker),
            millis(it.transaction),
            millis(it.long),
            if is_kept { "kept" } else { "EXCEEDED" }
        );
    }
    let _ = writeln!(text, "\nRoutes without a row:");
    for (operation, reason) in EXCUSED_OPERATIONS {
        let _ = writeln!(text, "{operation:?}: {reason}");
    }
    text
}
