"""The audit trail and the usage report through the official Python client."""

import datetime as dt

import pytest
from basis_theory.core.api_error import ApiError
from basis_theory.errors import ForbiddenError

COUNT = 30


@pytest.fixture(scope="module")
def recorded(vault):
    """Tokens that were made, and one of them read."""
    private = vault.client("private")
    for at in range(COUNT):
        private.tokens.create(id=f"recorded-{at}", type="token", data=f"value-{at}")
    private.tokens.get("recorded-7")
    return vault.client("management")


def test_the_iterator_pages_through_all(vault, recorded):
    seen = [log.id for log in recorded.logs.list(size=7, entity_type="token")]
    assert len(seen) == len(set(seen)) > COUNT
    again = [log.id for log in recorded.logs.list(size=100, entity_type="token")]
    assert seen == again
    times = [log.created_at for log in recorded.logs.list(size=50)]
    assert times == sorted(times, reverse=True)


def test_a_record(vault, recorded):
    read, made = recorded.logs.list(entity_type="token", entity_id="recorded-7")
    assert (made.operation, read.operation) == ("create_token", "get_token")
    assert made.tenant_id == vault.tenant_id
    assert (made.actor_type, made.entity_type) == ("application", "token")
    assert made.message == "Create token: the token was created."
    application = vault.client("private").applications.get_by_key()
    assert made.actor_id == read.actor_id == application.id
    assert made.outcome == "created" and made.trace_id and made.address


def test_filters(recorded):
    made = next(iter(recorded.logs.list(entity_id="recorded-3")))
    second = dt.timedelta(seconds=1)
    there = recorded.logs.list(
        entity_id="recorded-3", start_date=made.created_at, end_date=made.created_at + second
    )
    assert [log.id for log in there] == [made.id]
    for past in [{"end_date": made.created_at - second}, {"start_date": made.created_at + second}]:
        assert list(recorded.logs.list(entity_id="recorded-3", **past)) == []
    # From a cursor on, as the client counts pages from there.
    first = recorded.logs.list(size=10, entity_type="token")
    rest = recorded.logs.list(size=10, entity_type="token", start=first.response.pagination.next)
    assert len(list(rest)) == len(list(recorded.logs.list(size=10, entity_type="token"))) - 10
    with pytest.raises(ApiError) as refused:
        recorded.logs.list(entity_type="robot")
    assert refused.value.status_code == 400


def test_entity_types(vault, recorded):
    types = recorded.logs.get_entity_types()
    assert ("Token", "token") in [(it.display_name, it.value) for it in types]
    with pytest.raises(ForbiddenError):
        vault.client("private").logs.get_entity_types()
    with pytest.raises(ForbiddenError):
        vault.client("private").logs.list()


def test_usage(own_vault):
    management, private = own_vault.client("management"), own_vault.client("private")
    assert management.tenants.self_.get_usage_reports().total_tokens == 0
    private.tokens.create(type="token", data="a")
    report = management.tenants.self_.get_usage_reports()
    assert report.total_tokens == 1
    assert report.token_report["monthly_active_tokens"] == 1
    assert report.token_report["metrics_by_type"]["token"]["count"] == 1
