"""The real program on a free port, with its own data."""

import json
import os
import subprocess
from contextlib import contextmanager

import pytest
from basis_theory import BasisTheory


class Vault:
    def __init__(self, announced):
        self.url = announced["url"]
        self.tenant_id = announced["tenant_id"]
        self.keys = announced["keys"]

    def client(self, kind):
        return self.client_of(self.keys[kind])

    def client_of(self, key, max_retries=0):
        return BasisTheory(api_key=key, base_url=self.url, max_retries=max_retries)


@contextmanager
def started(folder, limit=None):
    """Without rate limits, or with this limit for test tenants."""
    command = [os.environ["SCRIP"], "dev", "--data-dir", str(folder / "data")]
    command += ["--listen", "127.0.0.1:0", "--json"]
    command += ["--rate-limits", "off" if limit is None else "on"]
    limited = {} if limit is None else {"SCRIP_LIMITS_TEST_TENANT": limit}
    environment = {**os.environ, **limited}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield Vault(json.loads(process.stdout.readline()))
    finally:
        process.terminate()
        assert process.wait(timeout=20) == 0


@pytest.fixture(scope="session")
def vault(tmp_path_factory):
    with started(tmp_path_factory.mktemp("vault")) as vault:
        yield vault


@pytest.fixture
def own_vault(tmp_path):
    """A separate vault for a test that changes shared state."""
    with started(tmp_path) as vault:
        yield vault


@pytest.fixture
def management(vault):
    return vault.client("management")


@pytest.fixture
def private(vault):
    return vault.client("private")


@pytest.fixture
def public(vault):
    return vault.client("public")
