//! Handlers of proxies.

use scrip_core::{
    Error,
    operations::proxies::{
        create_proxy::create_proxy,
        delete_proxy::delete_proxy,
        list_proxies::{ProxyFilter, get_proxy, list_proxies},
        set_proxy_client_certificate::{
            delete_proxy_client_certificate, set_proxy_client_certificate,
        },
        update_proxy::{patch_proxy, update_proxy},
    },
    policy::{
        Caller, CallerRequirement,
        proxy::{CompiledDraft, ProxyDetails},
    },
    types::{Permission, id::ProxyId},
};

use crate::{
    problem::Problem,
    route::{AuthenticatedRequest, Handled},
    wire::{
        proxies::{proxy_request, proxy_response},
        query::QueryParameters,
        response,
    },
};

pub(crate) async fn create(mut request: AuthenticatedRequest) -> Handled {
    let draft = compile_draft(&request, None)?;
    let recorder = request.response_recorder(proxy_response::render_created);
    let (vault, pepper) = (&request.app.vault, request.app.pepper()?);
    let created = create_proxy(vault, request.policy_permit()?, &pepper, draft, recorder).await?;
    request.app.reload().await?;
    request.app.compile_proxy(&created)?;
    Ok(response::from_rendered(proxy_response::render_created(&created)))
}

pub(crate) async fn list(request: AuthenticatedRequest) -> Handled {
    let query = request.query();
    let (permit, filter, page) = (request.policy_permit()?, parse_filter(&query)?, query.page()?);
    let page = list_proxies(&request.app.vault, &permit, &filter, page).await?;
    Ok(response::from_rendered(proxy_response::render_list(&page)))
}

/// An invalid id matches no proxy.
fn parse_filter(query: &QueryParameters<'_>) -> Result<ProxyFilter, Problem> {
    let id_texts: Vec<_> = query.all("id").collect();
    let mut ids: Vec<_> = id_texts.iter().filter_map(|it| ProxyId::parse(it)).collect();
    if ids.is_empty() && !id_texts.is_empty() {
        ids.push(ProxyId(uuid::Uuid::nil()));
    }
    Ok(ProxyFilter { ids, name: query.one("name")?.map(str::to_owned) })
}

pub(crate) async fn get(request: AuthenticatedRequest) -> Handled {
    let (permit, id) = (request.policy_permit()?, request.path_id(ProxyId::parse)?);
    let proxy = get_proxy(&request.app.vault, &permit, id).await?;
    Ok(response::from_rendered(proxy_response::render_proxy(&proxy)))
}

pub(crate) async fn update(mut request: AuthenticatedRequest) -> Handled {
    let id = request.path_id(ProxyId::parse)?;
    let draft = compile_draft(&request, Some(id))?;
    // A repeated request gets the same response, and its caller may have lost the permission to read
    // proxies. So the key is in no response that is stored.
    let recorder = request.response_recorder(proxy_response::render_without_key);
    let (vault, permit) = (&request.app.vault, request.policy_permit()?);
    let shows_key = permit.caller().is_none_or(may_read_proxies) && recorder.is_none();
    let updated = update_proxy(vault, permit, id, draft, recorder).await?;
    request.app.reload().await?;
    request.app.compile_proxy(&updated)?;
    let render = match shows_key {
        true => proxy_response::render_proxy,
        false => proxy_response::render_without_key,
    };
    Ok(response::from_rendered(render(&updated)))
}

pub(crate) async fn patch(mut request: AuthenticatedRequest) -> Handled {
    let (id, loopback) =
        (request.path_id(ProxyId::parse)?, request.app.settings.loopback_destinations);
    let (work, body) = (request.caller.work(), request.json()?);
    // Charged here, so that the patch is applied and compiled outside of the async workers.
    work.charge_ahead(proxy_request::count_check_work(request.body.len()));
    work.charge_ahead(proxy_request::count_patch_work(&body));
    let patch = proxy_request::parse_patch(body, loopback)?;
    let recorder = request.response_recorder(|_: &ProxyDetails| response::no_content());
    let (vault, permit) = (&request.app.vault, request.policy_permit()?);
    let patched = patch_proxy(vault, permit, id, patch, recorder).await?;
    request.app.reload().await?;
    request.app.compile_proxy(&patched)?;
    Ok(response::from_rendered(response::no_content()))
}

pub(crate) async fn delete(request: AuthenticatedRequest) -> Handled {
    let id = request.path_id(ProxyId::parse)?;
    delete_proxy(&request.app.vault, request.policy_permit()?, id).await?;
    request.respond_to_change(response::no_content()).await
}

pub(crate) async fn set_client_certificate(mut request: AuthenticatedRequest) -> Handled {
    let id = request.path_id(ProxyId::parse)?;
    let work = proxy_response::count_certificate_work(request.body.len());
    let parse = || proxy_response::parse_certificate(request.json()?);
    let new = request.caller.work().run_step(work, parse)??;
    let recorder = request.response_recorder(proxy_response::render_certificate);
    let (vault, permit) = (&request.app.vault, request.policy_permit()?);
    let updated = set_proxy_client_certificate(vault, permit, id, new, recorder).await?;
    request.respond_to_change(proxy_response::render_certificate(&updated)).await
}

pub(crate) async fn delete_client_certificate(request: AuthenticatedRequest) -> Handled {
    let id = request.path_id(ProxyId::parse)?;
    let (vault, permit) = (&request.app.vault, request.policy_permit()?);
    delete_proxy_client_certificate(vault, permit, id).await?;
    request.respond_to_change(response::no_content()).await
}

fn may_read_proxies(caller: &Caller) -> bool {
    caller.check_requirement(CallerRequirement::Permission(Permission::ProxyRead)).is_ok()
}

/// Parses and compiles the body of a request. Long work runs outside of the async workers. What the
/// current proxy already has is not compiled again, unless the time would tell a caller about a proxy
/// that it may not read.
fn compile_draft(
    request: &AuthenticatedRequest,
    current: Option<ProxyId>,
) -> Result<CompiledDraft, Problem> {
    let (tenant, loopback) = (request.caller.tenant(), request.app.settings.loopback_destinations);
    let work = request.caller.work();
    let parse = || {
        let draft = proxy_request::parse_draft(request.json()?, loopback)?;
        let current = current.filter(|_| may_read_proxies(&request.caller));
        let current = current.and_then(|id| tenant.proxies.get(&id));
        let current = current.map(|it| ProxyDetails::open(&tenant.keys, (**it).clone()));
        Ok::<_, Problem>((draft, current.transpose()?.map(|it| it.draft())))
    };
    let check_work = proxy_request::count_check_work(request.body.len());
    let (draft, current) = work.run_step(check_work, parse)??;
    let compile_work = draft.count_compile_work(current.as_ref());
    let compiled = work.run_step(compile_work, || draft.compile(current.as_ref()))?;
    Ok(compiled.map_err(Error::from)?)
}
