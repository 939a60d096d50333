"""Applications, keys, tenants, permissions and sessions through the official Python client."""

import uuid
from datetime import datetime, timedelta, timezone

import pytest
from basis_theory import AccessRule, Condition
from basis_theory.core.api_error import ApiError
from basis_theory.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    UnauthorizedError,
)

READS = AccessRule(
    description="reads cards",
    priority=1,
    container="/pci/",
    transform="reveal",
    permissions=["token:read"],
)
CARD = {"number": "4242424242424242"}
UNKNOWN_ID = str(uuid.uuid4())


@pytest.fixture
def application(management):
    created = management.applications.create(name="one", type="private", permissions=["token:create"])
    yield created
    try:
        management.applications.delete(created.id)
    except NotFoundError:
        pass


def test_applications_can_be_created_read_updated_and_deleted(vault, management):
    ruled = management.applications.create(name="ruled", type="private", rules=[READS])
    assert uuid.UUID(ruled.id) and ruled.tenant_id == vault.tenant_id
    assert (ruled.name, ruled.type) == ("ruled", "private")
    assert ruled.key.startswith("key_test_us_pvt_")
    assert ruled.rules == [READS] and not ruled.permissions
    assert len(ruled.keys) == 1 and ruled.created_by and ruled.created_at

    plain = management.applications.create(name="plain", type="public", permissions=["token:create"], create_key=False)
    assert plain.key is None and not plain.keys
    assert plain.permissions == ["token:create"]

    found = management.applications.get(ruled.id)
    assert (found.id, found.rules, found.key) == (ruled.id, [READS], None)
    assert vault.client_of(ruled.key).applications.get_by_key().id == ruled.id

    updated = management.applications.update(ruled.id, name="other", permissions=["token:create"])
    assert (updated.name, updated.permissions, updated.rules or []) == ("other", ["token:create"], [])
    assert updated.type == "private" and updated.modified_at and updated.modified_by
    with pytest.raises(ForbiddenError):
        vault.client_of(ruled.key).tokens.get("anything")

    for one in (ruled, plain):
        assert management.applications.delete(one.id) is None
        with pytest.raises(NotFoundError):
            management.applications.get(one.id)
    with pytest.raises(UnauthorizedError):
        vault.client_of(ruled.key).applications.get_by_key()


def test_pager_returns_each_application_once(management):
    created = {
        management.applications.create(name=f"paged {at}", type="public", permissions=["token:create"]).id
        for at in range(7)
    }
    pager = management.applications.list(size=3)
    assert pager.response.pagination.page_size == 3 and len(pager.items) == 3
    everything = [it.id for it in pager]
    assert len(everything) == len(set(everything)) == pager.response.pagination.total_items
    assert created < set(everything)

    public = [it for it in management.applications.list(type="public", size=2)]
    assert created <= {it.id for it in public} and {it.type for it in public} == {"public"}
    some = sorted(created)[:2]
    assert sorted(it.id for it in management.applications.list(id=some)) == some
    second = management.applications.list(id=sorted(created), page=2, size=4)
    assert len(second.items) == 3 and second.response.pagination.page_number == 2
    for one in created:
        management.applications.delete(one)


def test_application_keys_can_be_created_and_deleted(vault, management, application):
    key = management.application_keys.create(application.id)
    assert key.key.startswith("key_test_us_pvt_") and key.key != application.key
    token = vault.client_of(key.key).tokens.create(type="token", data="x")
    assert token.created_by == application.id

    listed = management.application_keys.list(application.id)
    assert {it.id for it in listed} == {application.keys[0].id, key.id}
    assert all(it.key is None for it in listed)
    assert [it.id for it in management.application_keys.list(application.id, key_id=key.id)] == [key.id]
    assert management.application_keys.get(application.id, key.id).id == key.id

    assert management.application_keys.delete(application.id, key.id) is None
    with pytest.raises(UnauthorizedError):
        vault.client_of(key.key).tokens.create(type="token", data="x")
    vault.client_of(application.key).tokens.create(type="token", data="x")
    for attempt in (management.application_keys.get, management.application_keys.delete):
        with pytest.raises(NotFoundError):
            attempt(application.id, key.id)


def test_repeated_requests_with_an_idempotency_key_are_replayed(management):
    once = {"idempotency_key": str(uuid.uuid4())}
    first = management.applications.create(name="once", type="private", permissions=["token:read"], **once)
    again = management.applications.create(name="twice", type="public", permissions=["token:create"], **once)
    assert again == first and again.key == first.key
    once = {"idempotency_key": str(uuid.uuid4())}
    key = management.application_keys.create(first.id, **once)
    assert management.application_keys.create(first.id, **once) == key
    assert len(management.application_keys.list(first.id)) == 2
    once = {"idempotency_key": str(uuid.uuid4())}
    update = {"name": "updated", "permissions": ["token:read"]}
    one = management.applications.update(first.id, **update, **once)
    assert management.applications.update(first.id, name="ignored", permissions=["token:read"], **once) == one
    assert management.applications.get(first.id).name == "updated"
    management.applications.delete(first.id)


def test_invalid_requests_raise_the_error_classes_of_the_client(management, private, application):
    applications = management.applications
    for mistake, attribute in [
        ({"name": "", "type": "private", "permissions": ["token:read"]}, "name"),
        ({"name": "x", "type": "strange", "permissions": ["token:read"]}, "type"),
        ({"name": "x", "type": "private"}, "permissions"),
        ({"name": "x", "type": "private", "permissions": ["token:fly"]}, "permissions[0]"),
        ({"name": "x", "type": "public", "permissions": ["token:read"]}, "permissions"),
        (
            {"name": "x", "type": "private", "rules": [AccessRule(transform="reveal", permissions=["token:read"])]},
            "rules[0].container",
        ),
    ]:
        with pytest.raises(BadRequestError) as rejected:
            applications.create(**mistake)
        assert attribute in rejected.value.body.errors, mistake
    for attempt in (applications.get, applications.delete):
        with pytest.raises(NotFoundError):
            attempt(UNKNOWN_ID)
    # The client has no error class for this response.
    with pytest.raises(ApiError) as unknown:
        management.application_keys.create(UNKNOWN_ID)
    assert unknown.value.status_code == 404
    with pytest.raises(NotFoundError):
        applications.update(UNKNOWN_ID, name="x", permissions=["token:read"])
    with pytest.raises(ForbiddenError):
        private.applications.list()
    with pytest.raises(ForbiddenError):
        private.applications.create(name="x", type="private", permissions=["token:read"])
    with pytest.raises(ForbiddenError):
        private.application_keys.create(application.id)
    with pytest.raises(ForbiddenError):
        private.tenants.self_.get()


def test_permissions_are_listed(management, public):
    everything = {it.type for it in management.permissions.list()}
    assert {"token:read", "application:create"} <= everything
    of_public = public.permissions.list(application_type="public")
    names = {it.type for it in of_public}
    assert {"token:create", "token:update"} <= names < everything
    assert "token:read" not in names
    assert all(it.description and "public" in it.application_types for it in of_public)
    with pytest.raises(BadRequestError):
        management.permissions.list(application_type="strange")


def test_tenant_can_be_read_updated_and_deleted(own_vault):
    management = own_vault.client("management")
    self_ = management.tenants.self_
    tenant = self_.get()
    assert (tenant.id, tenant.type) == (own_vault.tenant_id, "test")
    assert tenant.settings["deduplicate_tokens"] == "false"
    once = {"idempotency_key": str(uuid.uuid4())}
    updated = self_.update(name="renamed", settings={"deduplicate_tokens": "true"}, **once)
    assert (updated.name, updated.settings["deduplicate_tokens"]) == ("renamed", "true")
    assert updated.settings["fingerprint_tokens"] == "true"
    assert self_.update(name="ignored", **once) == updated
    assert self_.get().name == "renamed"

    private = own_vault.client("private")
    first = private.tokens.create(type="card", data=CARD)
    assert private.tokens.create(type="card", data=CARD).id == first.id
    with pytest.raises(BadRequestError) as rejected:
        self_.update(name="renamed", settings={"deduplicate_tokens": "perhaps"})
    assert "settings.deduplicate_tokens" in rejected.value.body.errors

    assert self_.delete() is None
    for kind in own_vault.keys:
        with pytest.raises(UnauthorizedError):
            own_vault.client(kind).applications.get_by_key()


def test_access_session_has_the_delegated_rights(vault, public, private):
    mine, other = (private.tokens.create(type="card", data=CARD) for _ in range(2))
    begun = public.sessions.create()
    assert begun.session_key.startswith("key_test_us_ses_") and begun.nonce
    assert begun.expires_at > datetime.now(timezone.utc)
    session = vault.client_of(begun.session_key)
    with pytest.raises(ForbiddenError):
        session.tokens.get(mine.id)

    rule = AccessRule(
        description="one card",
        priority=1,
        conditions=[Condition(attribute="id", operator="equals", value=mine.id)],
        transform="mask",
        permissions=["token:read"],
    )
    lent = {"nonce": begun.nonce, "rules": [rule]}
    lent["expires_at"] = (datetime.now(timezone.utc) + timedelta(minutes=5)).isoformat()
    assert private.sessions.authorize(**lent) is None
    assert session.tokens.get(mine.id).data["number"] == "XXXXXXXXXXXX4242"
    with pytest.raises(ForbiddenError):
        session.tokens.get(other.id)
    with pytest.raises(ForbiddenError):
        session.tokens.delete(mine.id)
    with pytest.raises(ConflictError):
        private.sessions.authorize(**lent)


def test_access_sessions_are_not_replayed_and_reject_invalid_requests(vault, public, private, management, application):
    once = {"idempotency_key": str(uuid.uuid4())}
    begun = public.sessions.create(**once)
    # Never returned twice: every caller with the public key could repeat the request.
    assert public.sessions.create(**once).session_key != begun.session_key
    for client in (private, management):
        with pytest.raises(ForbiddenError):
            client.sessions.create()
    with pytest.raises(ForbiddenError):
        public.sessions.authorize(nonce=begun.nonce, permissions=["token:create"])
    # Not more than the authorizer has.
    with pytest.raises(ForbiddenError):
        vault.client_of(application.key).sessions.authorize(nonce=begun.nonce, permissions=["token:read"])
    with pytest.raises(NotFoundError):
        private.sessions.authorize(nonce="unknown", permissions=["token:create"])
    for mistake, attribute in [
        ({}, "permissions"),
        ({"permissions": ["token:create"], "expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
        ({"permissions": ["tenant:read"]}, "permissions"),
        (
            {
                "rules": [
                    AccessRule(
                        transform="mask",
                        permissions=["token:read"],
                        conditions=[Condition(attribute="size", operator="equals", value="1")],
                    )
                ]
            },
            "rules[0].conditions[0].attribute",
        ),
    ]:
        with pytest.raises(BadRequestError) as rejected:
            private.sessions.authorize(nonce=begun.nonce, **mistake)
        assert attribute in rejected.value.body.errors, mistake

    once = {"idempotency_key": str(uuid.uuid4())}
    for _ in range(2):
        private.sessions.authorize(nonce=begun.nonce, permissions=["token:create"], **once)
    vault.client_of(begun.session_key).tokens.create(type="token", data="x")
