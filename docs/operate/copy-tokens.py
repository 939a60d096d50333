#!/usr/bin/env python3
"""Copy all tokens of one tenant to a tenant of another vault, over HTTP.

Set OLD_URL, OLD_KEY, NEW_URL and NEW_KEY. Both keys are keys of private applications with this access rule:
container "/", transform "reveal", permissions token:read (old vault), token:create and token:read (new vault).

A token that the new vault already has is compared, not replaced, so you can run the script again at any time.
Ids, data, containers, metadata, masks, search indexes, fingerprint expressions and expiry stay the same. Creation
time, creator and fingerprint are new. CVCs are not copied. The script writes no data to a disk or to its output.
Exit code 0: every token of the old vault is in the new vault, with the same data.
"""

import json
import os
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

COPIED = ("id", "type", "data", "containers", "metadata", "mask", "search_indexes", "fingerprint_expression",
          "expires_at")
MARK = uuid.uuid4().hex  # marks a number with a decimal point, so that 1.50 does not become 1.5


def parse(text):
    return json.loads(text, parse_float=lambda number: MARK + number)


def render(value):
    return re.sub(f'"{MARK}([^"]*)"', r"\1", json.dumps(value)).encode()


def request(vault, method, path, body=None):
    """Return status and parsed response. Wait and repeat while the vault is busy or away."""
    url, key = os.environ[f"{vault}_URL"].rstrip("/"), os.environ[f"{vault}_KEY"]
    headers = {"BT-API-KEY": key, "Content-Type": "application/json"}
    content = None if body is None else render(body)
    last_problem = None
    while True:
        call = urllib.request.Request(url + path, content, headers, method=method)
        try:
            with urllib.request.urlopen(call, timeout=60) as response:
                return response.status, parse(response.read())
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503):
                return error.code, parse(error.read() or b"{}")
            problem, seconds = f"status {error.code}", float(error.headers.get("Retry-After") or 1)
        except (urllib.error.URLError, OSError) as error:
            problem, seconds = str(error), 1.0
        if problem != last_problem:
            print(f"{vault}: {problem}; waiting", file=sys.stderr)
            last_problem = problem
        time.sleep(seconds)


def copied_part(token):
    part = {name: token[name] for name in COPIED if name in token}
    if isinstance(part.get("data"), dict) and part["type"] in ("card", "network_token"):
        part["data"].pop("cvc", None)
    return part


def copy(token):
    """Copy one token. Return "copied", "present" or the reason of a failure."""
    wanted = copied_part(token)
    if "data" not in wanted:
        return "the old key may not reveal this token"
    status, answer = request("NEW", "POST", "/tokens", wanted | {"deduplicate_token": False})
    result = "copied"
    if status == 409:
        status, answer = request("NEW", "GET", "/tokens/" + urllib.parse.quote(token["id"], safe=""))
        result = "present"
    if status not in (200, 201):
        return f"status {status}: {answer.get('detail')} {sorted(answer.get('errors', {}))}"
    found = copied_part(answer)
    different = [name for name in COPIED if wanted.get(name) != found.get(name)]
    return f"differs in {different}" if different else result


def main():
    counts, start = {"copied": 0, "present": 0, "failed": 0}, ""
    while start is not None:
        status, page = request("OLD", "GET", "/v2/tokens?size=100" + (start and f"&start={start}"))
        if status != 200:
            sys.exit(f"listing the old vault failed: status {status}: {page.get('detail')}")
        for token in page["data"]:
            result = copy(token)
            if result not in counts:
                print(f"{token['id']}: {result}", file=sys.stderr)
                result = "failed"
            counts[result] += 1
        start = page["pagination"]["next"]
        print(" ".join(f"{name} {count}" for name, count in counts.items()), flush=True)
    sys.exit(1 if counts["failed"] else 0)


main()
