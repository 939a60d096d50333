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


def run(vaults, *arguments, key="private"):
    """The exit status, the last line of the output, and the messages."""
    old, new = vaults
    environment = {"OLD_URL": old.url, "OLD_KEY": old.keys[key], "NEW_URL": new.url, "NEW_KEY": new.keys["private"]}
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


def test_key_that_does_not_reveal_everything_is_refused(vaults):
    status, _, messages = run(vaults, key="management")
    assert status == 1 and "OLD_KEY must have" in messages
