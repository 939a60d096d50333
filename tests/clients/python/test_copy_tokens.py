"""docs/operate/copy-tokens.py copies tokens to another vault, compares and replaces them."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import started

PROGRAM = Path(__file__).resolve().parents[3] / "docs/operate/copy-tokens.py"


@pytest.fixture
def vaults(tmp_path):
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    with started(tmp_path / "old") as old, started(tmp_path / "new") as new:
        yield old, new


def run(vaults, *arguments, **variables):
    """The exit status, the last line of the output, and the messages. `variables` replace those of the vaults."""
    old, new = vaults
    keys = {"OLD_KEY": old.keys["private"], "NEW_KEY": new.keys["private"]}
    environment = {"OLD_URL": old.url, "NEW_URL": new.url, **keys, **variables}
    command = [sys.executable, str(PROGRAM), *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    return result.returncode, (result.stdout.splitlines() or [""])[-1], result.stderr


def test_copy_is_complete_and_a_second_run_only_compares(vaults, tmp_path):
    old, new = (it.client("private") for it in vaults)
    card = old.tokens.create(type="card", data={"number": "4242424242424242", "cvc": "123"}, metadata={"a": "b"})
    text = old.tokens.create(type="token", data={"price": 1.5, "name": "Jo"}, search_indexes=["{{ data.name }}"])
    fingerprints = str(tmp_path / "fingerprints.csv")
    status, counts, messages = run(vaults, "--fingerprints", fingerprints)
    assert (status, counts, messages) == (0, "copied 2 present 0 replaced 0 failed 0", "")
    assert new.tokens.get(card.id).data["number"] == "4242424242424242"
    assert new.tokens.get(card.id).metadata == {"a": "b"}
    assert new.tokens.get(text.id).data == {"price": 1.5, "name": "Jo"}
    rows = {row[0]: row[1:] for row in csv.reader(open(fingerprints))}
    assert rows[card.id] == [card.fingerprint, new.tokens.get(card.id).fingerprint]
    assert run(vaults) == (0, "copied 0 present 2 replaced 0 failed 0", "")


def test_different_token_is_replaced_only_on_request(vaults):
    old, new = (it.client("private") for it in vaults)
    token = old.tokens.create(type="token", data="before")
    assert run(vaults, token.id)[0] == 0
    old.tokens.update(token.id, data="after")
    status, counts, messages = run(vaults, token.id)
    assert (status, counts) == (1, "copied 0 present 0 replaced 0 failed 1")
    assert "differs in ['data']" in messages and "after" not in messages
    assert run(vaults, "--replace", token.id)[:2] == (0, "copied 0 present 0 replaced 1 failed 0")
    assert new.tokens.get(token.id).data == "after"
    status, counts, messages = run(vaults, "no-such-token")
    assert (status, counts) == (1, "copied 0 present 0 replaced 0 failed 1")
    assert "no-such-token: status 404 in the old vault" in messages


def test_wrong_variables_are_refused_with_their_cause_before_the_copy(vaults):
    old, new = vaults
    management, private, public = old.client("management"), old.keys["private"], old.keys["public"]
    old.client("private").tokens.create(type="token", data="never copied")
    unknown = private[:-1] + ("b" if private.endswith("a") else "a")
    masked = management.applications.create(name="Masked", type="private", permissions=["token:read", "token:create"])
    rule = {"description": "x", "priority": 1, "container": "/x/", "transform": "reveal", "permissions": ["token:read"]}
    narrow = management.applications.create(name="Narrow", type="private", rules=[rule])
    reader = new.client("management").applications.create(name="Reader", type="private", permissions=["token:read"])
    for variables, expected in [
        ({"OLD_KEY": unknown}, "OLD_URL answers to OLD_KEY with status 401: the key in the BT-API-KEY header is unknown"),
        ({"OLD_KEY": "key_test_us_pvt_short"}, "OLD_URL answers to OLD_KEY with status 401: the text in the BT-API-KEY"),
        ({"OLD_KEY": "key_prod_us_pvt_…"}, "OLD_KEY does not have the form of an API key"),
        ({"OLD_KEY": private[:20] + "\n" + private[20:]}, "OLD_KEY does not have the form of an API key"),
        ({"OLD_KEY": public}, "OLD_KEY is the key of a public application; use the key of a private one"),
        ({"OLD_KEY": old.keys["management"]}, "OLD_KEY is the key of a management application; use the key of a private"),
        ({"OLD_KEY": masked.key}, "OLD_KEY must have rules with the transform reveal only"),
        ({"OLD_KEY": narrow.key}, "OLD_KEY must have a rule for the container /"),
        ({"OLD_URL": old.url + "/docs"}, f"OLD_URL must end after the host and the port: {old.url}"),
        ({"NEW_KEY": unknown}, "NEW_URL answers to NEW_KEY with status 401: the key in the BT-API-KEY header is unknown"),
        ({"NEW_KEY": reader.key}, "NEW_KEY needs the permission token:create"),
        ({"NEW_KEY": ""}, "set and export NEW_KEY"),
    ]:
        status, counts, messages = run(vaults, **variables)
        assert (status, counts, len(messages.splitlines())) == (1, "", 1), variables
        assert messages.startswith(expected), messages
    assert list(new.client("private").tokens.list_v2()) == []
