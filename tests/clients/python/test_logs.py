"""The audit trail and the usage report through the official Python client."""

import datetime as dt

import pytest
from basis_theory.core.api_error import ApiError
from basis_theory.errors import ForbiddenError

COUNT = 30


@pytest.fixture(scope="module")
def recorded(vault):
    """Tokens that were created, and one of them read."""
    private = vault.client("private")
    for at in range(COUNT):
        private.tokens.create(id=f"recorded-{at}", type="token", data=f"value-{at}")
    private.tokens.get("recorded-7")
    return vault.client("management")


def test_iterator_returns_all_logs_of_all_pages(vault, recorded):
    found = [log.id for log in recorded.logs.list(size=7, entity_type="token")]
    assert len(found) == len(set(found)) > COUNT
    again = [log.id for log in recorded.logs.list(size=100, entity_type="token")]
    assert found == again
    times = [log.created_at for log in recorded.logs.list(size=50)]
    assert times == sorted(times, reverse=True)


def test_log_record_has_all_attributes(vault, recorded):
    read, created = recorded.logs.list(entity_type="token", entity_id="recorded-7")
    assert (created.operation, read.operation) == ("create_token", "get_token")
    assert created.tenant_id == vault.tenant_id
    assert (created.actor_type, created.entity_type) == ("application", "token")
    assert created.message == "Create token: the token was created."
    application = vault.client("private").applications.get_by_key()
    assert created.actor_id == read.actor_id == application.id
    assert created.outcome == "created" and created.trace_id and created.address


def test_log_filters_work(recorded):
    created = next(iter(recorded.logs.list(entity_id="recorded-3")))
    second = dt.timedelta(seconds=1)
    there = recorded.logs.list(
        entity_id="recorded-3", start_date=created.created_at, end_date=created.created_at + second
    )
    assert [log.id for log in there] == [created.id]
    for past in [{"end_date": created.created_at - second}, {"start_date": created.created_at + second}]:
        assert list(recorded.logs.list(entity_id="recorded-3", **past)) == []
    # Page numbers count from the cursor.
    first = recorded.logs.list(size=10, entity_type="token")
    rest = recorded.logs.list(size=10, entity_type="token", start=first.response.pagination.next)
    assert len(list(rest)) == len(list(recorded.logs.list(size=10, entity_type="token"))) - 10
    with pytest.raises(ApiError) as rejected:
        recorded.logs.list(entity_type="robot")
    assert rejected.value.status_code == 400


def test_entity_types_are_listed(vault, recorded):
    types = recorded.logs.get_entity_types()
    assert ("Token", "token") in [(it.display_name, it.value) for it in types]
    with pytest.raises(ForbiddenError):
        vault.client("private").logs.get_entity_types()
    with pytest.raises(ForbiddenError):
        vault.client("private").logs.list()


def test_usage_report_counts_tokens(own_vault):
    management, private = own_vault.client("management"), own_vault.client("private")
    assert management.tenants.self_.get_usage_reports().total_tokens == 0
    private.tokens.create(type="token", data="a")
    report = management.tenants.self_.get_usage_reports()
    assert report.total_tokens == 1
    assert report.token_report["monthly_active_tokens"] == 1
    assert report.token_report["metrics_by_type"]["token"]["count"] == 1
