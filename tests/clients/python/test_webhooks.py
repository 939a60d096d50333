"""Webhooks through the official Python client."""

import uuid

import pytest
from basis_theory.errors import BadRequestError, ForbiddenError, NotFoundError

URL = "https://shop.example/webhooks"
EVENTS = ["token.created", "token.deleted"]


@pytest.fixture(autouse=True)
def no_webhooks(management):
    """A tenant has few webhooks: each test removes those of the tests before."""
    for webhook in management.webhooks.list().data:
        management.webhooks.delete(webhook.id)


def test_webhooks_can_be_created_read_updated_and_deleted_without_a_pause(vault, management):
    created = management.webhooks.create(name="Orders", url=URL, events=EVENTS, notify_email="ops@shop.example")
    assert uuid.UUID(created.id) and created.tenant_id == vault.tenant_id
    assert (created.name, created.url, created.events, created.status) == ("Orders", URL, EVENTS, "enabled")
    assert created.notify_email == "ops@shop.example" and created.created_by and created.created_at
    assert created.secret.startswith("whsec_")
    read = management.webhooks.get(created.id)
    assert (read.id, read.name, read.created_at) == (created.id, created.name, created.created_at)
    assert not hasattr(read, "secret")

    updated = management.webhooks.update(created.id, name="Refunds", url=URL + "/v2", events=["token.read"])
    assert (updated.id, updated.name, updated.url, updated.events) == (created.id, "Refunds", URL + "/v2", ["token.read"])
    assert updated.notify_email is None and updated.modified_by and updated.modified_at
    assert management.webhooks.list().data == [updated]

    assert management.webhooks.delete(created.id) is None
    for call in (management.webhooks.get, management.webhooks.delete):
        with pytest.raises(NotFoundError):
            call(created.id)


def test_sixth_webhook_and_unknown_event_are_bad_requests(management):
    for at in range(5):
        management.webhooks.create(name=f"webhook {at}", url=URL, events=EVENTS)
    page = management.webhooks.list()
    assert (len(page.data), page.pagination.page_size, page.pagination.next) == (5, 20, None)
    with pytest.raises(BadRequestError) as error:
        management.webhooks.create(name="sixth", url=URL, events=EVENTS)
    assert "webhook_limit" in error.value.body.errors
    with pytest.raises(BadRequestError) as error:
        management.webhooks.update(page.data[0].id, name="x", url=URL, events=["token.fly"])
    assert "token.fly" in str(error.value.body.errors)


def test_event_types_and_ping(management, private):
    listed = list(management.webhooks.events.list())
    assert "token.created" in listed and "3ds.session.created" in listed
    assert management.webhooks.ping() is None
    with pytest.raises(ForbiddenError):
        private.webhooks.list()
