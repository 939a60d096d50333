"""Executes every sample of the OpenAPI document against the real program.

    run.py                    all samples, as the program serves them
    run.py create_token ...   only samples of these operations
    run.py --sources          samples of the source files, without building the program anew
    run.py --verbose          also prints what each sample prints

`SCRIP` names the program, as for the suites of the official clients, which also install what the samples
need: this runs with their Python, and finds the packages of Node in tests/clients/node.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from cases import CASES
from controls import CONTROLS
from destination import Destination
from relay import Relay
from vault import start_simulator, start_vault

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "crates/scrip-api/src/openapi"
NODE_PACKAGES = ROOT / "tests/clients/node/node_modules"
METHODS = ("get", "post", "put", "patch", "delete")
DEADLINE_SECONDS = 30
# The variable with the key of each kind, as `scrip dev` prints them.
KEY_VARIABLES = {"private": "SCRIP_KEY", "public": "SCRIP_PUBLIC_KEY", "management": "SCRIP_MANAGEMENT_KEY"}


@dataclass
class Language:
    label: str
    folder: str
    file: str
    command: list


LANGUAGES = [
    Language("curl", "curl", "sample.sh", ["sh"]),
    Language("Python", "python", "sample.py", [sys.executable]),
    Language("Node.js", "node", "sample.mjs", ["node"]),
]


@dataclass
class Operation:
    id: str
    method: str
    path: str
    # The kind of key that the samples of the operation use.
    key: str | None

    def matches(self, method, path):
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(self.path))
        return method == self.method and re.fullmatch(pattern, path) is not None


def read_operations(document):
    operations = {}
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                id, needs = item[method]["operationId"], item[method].get("x-scrip-needs")
                operations[id] = Operation(id, method.upper(), path, needs and key_kind(needs))
    return operations


def key_kind(needs):
    if "application_types" in needs:
        # The private key has more rights than the public one.
        return needs["application_types"][-1]
    return "private" if needs["key"] == "any" else needs["key"]


def operation_called(operations, exchange):
    path = urllib.parse.urlsplit(exchange.path).path
    found = [it for it in operations.values() if it.matches(exchange.method, path)]
    # Routes without parameters first: `/applications/key` is not the id of an application.
    found.sort(key=lambda it: it.path.count("{"))
    return found[0].id if found else f"{exchange.method} {path}"


def served_samples(document):
    """The samples of each language, by operation: (label, operation) to source."""
    samples = {}
    for item in document["paths"].values():
        for operation in (item[it] for it in METHODS if it in item):
            for sample in operation.get("x-codeSamples", []):
                samples[sample["label"], operation["operationId"]] = sample["source"]
    return samples


def source_samples():
    samples = {}
    for language in LANGUAGES:
        for file in sorted((SOURCES / "samples" / language.folder).iterdir()):
            sections = re.split(r"^(?:#|//) operation: (\w+)\n", file.read_text(), flags=re.M)
            for id, source in zip(sections[1::2], sections[2::2], strict=True):
                samples[language.label, id] = source.strip() + "\n"
    return samples


class Runner:
    def __init__(self, operations, folder, verbose):
        self.operations = operations
        self.folder = folder
        self.verbose = verbose

    def run(self, vault, language, id, source):
        """The problem of a sample, or None."""
        operation, case = self.operations[id], CASES[id]
        try:
            facts = case.prepare(vault)
        except urllib.error.HTTPError as error:
            return f"cannot be prepared: {error.url}: {error} {error.__notes__}"
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        (folder / language.file).write_text(source)
        with Relay(vault.url) as relay:
            environment = {"PATH": os.environ["PATH"], "SCRIP_URL": relay.url, **facts}
            if operation.key is not None:
                # No other key: a sample with the wrong variable fails.
                environment[KEY_VARIABLES[operation.key]] = vault.keys[operation.key]
            command = [*language.command, language.file]
            options = {"cwd": folder, "env": environment, "capture_output": True, "text": True}
            try:
                ended = subprocess.run(command, timeout=DEADLINE_SECONDS, **options)
            except subprocess.TimeoutExpired:
                return f"did not end within {DEADLINE_SECONDS} seconds"
        if self.verbose:
            print(f"-- {language.label} {id}\n{ended.stdout}")
        return self.find(id, case, facts, relay.exchanges, ended)

    def find(self, id, case, facts, exchanges, ended):
        output = f"\n{ended.stdout}{ended.stderr}"
        if ended.returncode != 0:
            return f"ended with {ended.returncode}{output}"
        if ended.stderr:
            return f"wrote to standard error{output}"
        if not exchanges:
            return f"sends no request{output}"
        for exchange in exchanges:
            called = operation_called(self.operations, exchange)
            if called != id:
                return f"calls {called}{output}"
            succeeded = 200 <= exchange.status < 300
            if exchange.status != case.status if case.status else not succeeded:
                return f"got status {exchange.status}{output}"
        for wanted in case.printed:
            if not re.search(pattern(wanted, facts, exchanges[-1]), ended.stdout):
                return f"does not print {wanted}{output}"
        return None


def pattern(wanted, facts, exchange):
    if wanted in facts:
        return re.escape(facts[wanted])
    if wanted.startswith("response."):
        value = json.loads(exchange.response)
        for name in wanted.split(".")[1:]:
            value = value[name]
        return re.escape(str(value))
    return wanted


def run_all(runner, vaults, samples, ids):
    """Each language has its own vault. The last sample deletes its tenant."""

    def run(task):
        language, id = task
        source = samples.get((language.label, id))
        finding = runner.run(vaults[language.label], language, id, source) if source else "is missing"
        return language, id, finding

    tasks = [(language, id) for id in ids for language in LANGUAGES]
    results = []
    with ThreadPoolExecutor(max_workers=2 * (os.cpu_count() or 1)) as pool:
        for is_last in (False, True):
            results += pool.map(run, [it for it in tasks if CASES[it[1]].is_last == is_last])
    return [f"{language.label} {id}: {finding}" for language, id, finding in results if finding]


def run_controls(runner, vaults):
    def run(control):
        language = next(it for it in LANGUAGES if it.label == control.label)
        found = runner.run(vaults[control.label], language, control.operation, control.source)
        if found is None or control.finding not in found.splitlines()[0]:
            return f"control, {control.name}: found {found!r} instead of {control.finding!r}"
        return None

    with ThreadPoolExecutor(max_workers=2 * (os.cpu_count() or 1)) as pool:
        return [it for it in pool.map(run, CONTROLS) if it]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operations", nargs="*", metavar="OPERATION")
    parser.add_argument("--sources", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    started = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scrip-samples-")))
        (folder / "node_modules").symlink_to(NODE_PACKAGES)
        simulator = stack.enter_context(start_simulator())
        directory = stack.enter_context(Relay(simulator["url"]))
        vaults = {
            it.label: stack.enter_context(start_vault(folder / f"vault-{it.folder}", directory))
            for it in LANGUAGES
        }
        destination = stack.enter_context(Destination())
        for vault in vaults.values():
            vault.destination = destination.url
        document = vaults["curl"].send("GET", "/openapi.json")
        operations = read_operations(document)
        assert CASES.keys() == operations.keys(), CASES.keys() ^ operations.keys()
        ids = arguments.operations or list(operations)
        runner = Runner(operations, folder, arguments.verbose)
        samples = source_samples() if arguments.sources else served_samples(document)
        # Controls run first, because the last sample deletes the tenant.
        findings = run_controls(runner, vaults) + run_all(runner, vaults, samples, ids)
    for finding in findings:
        print(finding, file=sys.stderr)
    seconds = time.monotonic() - started
    count = len(ids) * len(LANGUAGES)
    print(f"{count} samples, {len(CONTROLS)} controls, {len(findings)} findings, {seconds:.0f} s")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
