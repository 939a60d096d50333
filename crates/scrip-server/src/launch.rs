//! What `serve` and `dev` share: from the settings to a server that runs until it is told to stop.

use std::{
    io::{self, Write},
    net,
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use nix::sys::socket::{Backlog, listen};
use scrip_core::audit::Operation;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use crate::{
    app::{App, Limits},
    bin_file,
    config::{Deprecated, Environment, Server, Settings, Switch, Tls},
    control::Control,
    export,
    head_file::{self, HeadKeeper},
    process::{self, Memory},
    sealed,
    serve::{Listening, serve_on},
    telemetry,
    tls::Certificates,
};

const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(1);
/// Connections that the kernel keeps while all places are taken.
const BACKLOG: i32 = 1024;

/// How to say that the server listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Announcement {
    None,
    Json,
}

pub(crate) fn serve(
    config: Option<&Path>,
    announcement: Announcement,
    environment: &Environment,
) -> anyhow::Result<()> {
    let settings = Settings::load(config, environment)?;
    start(settings, async |_: &Settings, _: &App, url: &str| {
        if announcement == Announcement::Json {
            let mut out = io::stdout().lock();
            writeln!(out, "{}", serde_json::json!({ "url": url }))?;
            out.flush()?;
        }
        Ok(())
    })
}

/// Listens, gives up what it no longer needs, and serves. `prepare` runs when the server listens
/// and the store is open, and may open the vault; a vault that is still sealed then waits for its
/// key.
pub(crate) fn start(
    settings: Settings,
    prepare: impl AsyncFnOnce(&Settings, &App, &str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    telemetry::start(&settings.log)?;
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    let listener = bind(&settings.server)?;
    let memory = process::confine(&settings.server)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(run(settings, listener, memory, prepare));
    // A request that still computes is not waited for: its client was given its time to be answered.
    runtime.shutdown_timeout(SHUTDOWN_DEADLINE);
    outcome
}

/// Before the rights of root are given up, which a low port takes.
fn bind(server: &Server) -> anyhow::Result<net::TcpListener> {
    let cannot = || format!("cannot listen on {}", server.listen);
    let listener = net::TcpListener::bind(server.listen).with_context(cannot)?;
    listen(&listener, Backlog::new(BACKLOG)?).with_context(cannot)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

async fn run(
    settings: Settings,
    listener: net::TcpListener,
    memory: Memory,
    prepare: impl AsyncFnOnce(&Settings, &App, &str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let stop = stop_signal()?;
    let tcp = TcpListener::from_std(listener)?;
    let tls = certificates(&settings.tls)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", tcp.local_addr()?);
    let mut app = App::sealed(settings.open_vault(memory).await?);
    app.limits = limits(&settings.server);
    app.switched_off = switched_off(&settings.deprecated);
    let app = Arc::new(app);
    reload_certificates(tls.as_ref(), &settings.tls)?;
    // Before anybody is served, and from then on whenever an import replaces the file.
    let seen = bin_file::look(&settings.bin_file(), &app.vault.bins, None);
    tokio::spawn(bin_file::follow(settings.bin_file(), Arc::clone(&app.vault.bins), seen));
    let folder = &settings.storage.data_dir;
    let control = Control::start(folder, Arc::clone(&app), url.clone());
    if let Err(error) = &control {
        // It serves its clients all the same.
        let cause = format!("{error:#}");
        tracing::warn!(cause, "no command will reach this server");
    }
    prepare(&settings, &app, &url).await?;
    tracing::info!(url, version = env!("CARGO_PKG_VERSION"), "listening");
    let (head_file, vault) = (settings.head_file(), app.vault.clone());
    let keeping = tokio::spawn(head_file::follow(head_file.clone(), vault.clone()));
    if let Some(to) = settings.audit.export.clone() {
        let data = settings.storage.data_dir.clone();
        tokio::spawn(export::follow(to, data, vault.clone()));
    }
    if app.is_sealed() {
        tokio::spawn(sealed::open(Arc::clone(&app), move || settings.key_source()));
    }
    serve_on(app, Listening { tcp, tls }, stop).await;
    drop(control);
    keeping.abort();
    if let Err(error) = HeadKeeper::new(head_file).update(&vault).await {
        tracing::error!(cause = format!("{error:#}"), "the heads of the logs are not kept");
    }
    Ok(())
}

fn limits(server: &Server) -> Limits {
    Limits {
        body_bytes_max: server.body_bytes_max.get(),
        header_deadline: server.header_deadline_seconds.seconds(),
        body_deadline: server.body_deadline_seconds.seconds(),
        connections_max: server.connections_max.get(),
        drain_deadline: server.drain_deadline_seconds.seconds(),
    }
}

fn switched_off(settings: &Deprecated) -> Vec<Operation> {
    // Taken apart, so that a new setting cannot be forgotten here.
    let Deprecated { list_tokens_v1, search_tokens_v1 } = settings;
    let switches =
        [(list_tokens_v1, Operation::ListTokensV1), (search_tokens_v1, Operation::SearchTokensV1)];
    let off = switches.into_iter().filter(|(switch, _)| **switch == Switch::Off);
    off.map(|(_, operation)| operation).collect()
}

fn certificates(tls: &Tls) -> anyhow::Result<Option<Arc<Certificates>>> {
    let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) else { return Ok(None) };
    Ok(Some(Arc::new(Certificates::load(certificate, key)?)))
}

/// When the files change, and at SIGHUP, which without certificates does nothing but must not end
/// the process.
fn reload_certificates(tls: Option<&Arc<Certificates>>, settings: &Tls) -> anyhow::Result<()> {
    let mut hang_up = signal(SignalKind::hangup())?;
    let certificates = tls.map(Arc::clone);
    tokio::spawn(async move {
        while hang_up.recv().await.is_some() {
            if let Some(it) = &certificates {
                it.reload();
            }
        }
    });
    if let Some(it) = tls {
        tokio::spawn(Arc::clone(it).watch(settings.reload_seconds.seconds()));
    }
    Ok(())
}

fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
        tracing::info!("stopping");
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_switch_turns_off_its_own_operation() {
        let off = |names: &[&'static str]| {
            let flags: Vec<_> = names.iter().map(|it| (*it, "off".to_owned())).collect();
            let settings = Settings::without_file(&flags, &Environment::default()).unwrap();
            let off = switched_off(&settings.deprecated);
            off.into_iter().map(|it| format!("deprecated.{}", it.as_str())).collect::<Vec<_>>()
        };
        let (list, search) = ("deprecated.list_tokens_v1", "deprecated.search_tokens_v1");
        assert!(off(&[]).is_empty());
        assert_eq!(off(&[list]), [list]);
        assert_eq!(off(&[search]), [search]);
        assert_eq!(off(&[list, search]), [list, search]);
    }
}
