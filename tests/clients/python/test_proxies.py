"""Proxies through the official Python client."""

import uuid

import pytest
from basis_theory import Application, ProxyTransform, ProxyTransformOptions
from basis_theory.errors import BadRequestError, ForbiddenError, NotFoundError

DESTINATION = "https://psp.example/v1"
MASK = ProxyTransform(type="mask", matcher="regex", expression="(\\d+)", replacement="*")
CODE = ProxyTransform(code="module.exports = async (req) => req.args")


def test_proxies_can_be_created_read_updated_patched_and_deleted(vault, management):
    created = management.proxies.create(
        name="Charges",
        destination_url=DESTINATION,
        configuration={"secret": "s3cr3t"},
        require_auth=False,
        request_transforms=[
            ProxyTransform(type="append_header", options=ProxyTransformOptions(location="X-Shop", value="7")),
        ],
        response_transform=MASK,
    )
    assert uuid.UUID(created.id) and created.tenant_id == vault.tenant_id
    assert (created.name, created.destination_url, created.state) == ("Charges", DESTINATION, "active")
    assert len(created.key) >= 20 and created.created_by and created.created_at
    assert created.configuration == {"secret": "s3cr3t"} and created.require_auth is False
    assert created.request_transforms[0].options.location == "X-Shop"
    assert (created.response_transform.matcher, created.response_transforms) == ("regex", None)
    assert management.proxies.get(created.id) == created

    updated = management.proxies.update(created.id, name="Refunds", destination_url=DESTINATION, request_transform=CODE)
    assert (updated.id, updated.key, updated.name) == (created.id, created.key, "Refunds")
    assert updated.request_transform.code == CODE.code and updated.request_transforms is None
    assert updated.configuration is None and updated.require_auth is True and updated.modified_at

    assert management.proxies.patch(created.id, configuration={"a": "1"}, name="Payouts") is None
    patched = management.proxies.get(created.id)
    assert (patched.name, patched.configuration) == ("Payouts", {"a": "1"})
    assert patched.request_transform.code == CODE.code

    assert management.proxies.delete(created.id) is None
    with pytest.raises(NotFoundError):
        management.proxies.get(created.id)


def test_proxy_of_an_application_names_it(management):
    application = management.applications.create(name="collector", type="private", permissions=["token:create"])
    created = management.proxies.create(
        name="Inbound",
        destination_url=DESTINATION,
        application=Application(id=application.id),
    )
    assert created.application_id == application.id


def test_pager_returns_each_proxy_once_and_filters(management):
    created = {
        management.proxies.create(name=f"paged {at}", destination_url=DESTINATION).id for at in range(5)
    }
    everything = [it.id for it in management.proxies.list(size=2)]
    assert len(everything) == len(set(everything)) and created <= set(everything)
    assert {it.id for it in management.proxies.list(name="paged*", size=2)} == created
    one = next(iter(created))
    assert [it.id for it in management.proxies.list(id=one)] == [one]


def test_invalid_proxies_are_rejected(vault, management):
    for wrong, attribute in (
        ({"destination_url": "http://psp.example"}, "destination_url"),
        ({"destination_url": "https://10.0.0.1"}, "destination_url"),
        ({"request_reactor_id": str(uuid.uuid4())}, "request_reactor_id"),
        ({"request_transform": ProxyTransform(type="mask")}, "request_transform.matcher"),
        ({"request_transforms": [CODE, CODE]}, "request_transforms"),
    ):
        with pytest.raises(BadRequestError) as rejected:
            management.proxies.create(**{"name": "wrong", "destination_url": DESTINATION, **wrong})
        assert attribute in str(rejected.value.body), wrong
    with pytest.raises(ForbiddenError):
        vault.client("private").proxies.create(name="wrong", destination_url=DESTINATION)
