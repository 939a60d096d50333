"""Runs Schemathesis against the real program: every operation of the document, all checks."""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from openapi_spec_validator import validate

HERE = Path(__file__).parent
# A fixed seed, so that failures are reproducible. A long run uses random seeds.
LONG = os.environ.get("SCRIP_TEST_LONG")
SEED = [] if LONG else ["--seed", "1"]


@contextmanager
def started():
    with tempfile.TemporaryDirectory() as folder:
        command = [os.environ["SCRIP"], "dev", "--data-dir", f"{folder}/data"]
        command += ["--listen", "127.0.0.1:0", "--json", "--rate-limits", "off"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
            assert process.wait(timeout=20) == 0


def send(vault, method, path, key, body=None):
    headers = {"BT-API-KEY": key, "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(vault["url"] + path, data, headers, method=method)
    with urllib.request.urlopen(request) as response:
        text = response.read()
        return response.status, json.loads(text) if text else None


def run(vault, key_mode, keys, own, options):
    environment = {
        **os.environ,
        "SCRIP_URL": vault["url"],
        "SCRIP_KEYS": json.dumps(keys),
        "SCRIP_KEY_MODE": key_mode,
        "SCRIP_OWN_APPLICATIONS": json.dumps(own),
        "PYTHONPATH": str(HERE),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": f"{tempfile.gettempdir()}/scrip-hypothesis",
    }
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", HERE / "schemathesis.toml"]
    command += ["run", vault["url"] + "/openapi.json", "--checks", "all", *options]
    print(f"\n-- API key: {key_mode}", flush=True)
    return subprocess.run(command, env=environment, cwd=HERE).returncode


def examples(count):
    return ["--max-examples", str(count * 10 if LONG else count)]


def main():
    with started() as vault:
        keys = dict(vault["keys"])
        _, document = send(vault, "GET", "/openapi.json", "")
        validate(document)
        # The key lacks tenant:delete, because the first delete_tenant would end the run. That
        # operation is tested at the end.
        _, permissions = send(vault, "GET", "/permissions?application_type=management", keys["management"])
        permissions = [it["type"] for it in permissions if it["type"] != "tenant:delete"]
        body = {"name": "All except tenant:delete", "type": "management", "permissions": permissions}
        _, created = send(vault, "POST", "/applications", keys["management"], body)
        end, keys["management"] = keys["management"], created["key"]
        _, listed = send(vault, "GET", "/applications?size=100", end)
        own = [it["id"] for it in listed["data"]]

        failed = run(vault, "each", keys, own, [*examples(10), *SEED])
        for one in ("private", "management"):
            few = ["--phases", "examples,fuzzing", *examples(5), *SEED]
            failed |= run(vault, one, keys, own, few)
        status, _ = send(vault, "DELETE", "/tenants/self", end)
        assert status == 204, status
    sys.exit(failed)


main()
