#!/usr/bin/env python3
"""Copy all tokens of one tenant, or the tokens with the given ids, to a tenant of another vault, over HTTP.

    copy-tokens.py [--replace] [--fingerprints FILE] [ID ...]

Set OLD_URL, OLD_KEY, NEW_URL and NEW_KEY. Both keys are keys of private applications with this access rule:
container "/", transform "reveal", permissions token:read (old vault), token:create and token:read (new vault; also
token:delete for --replace).

A token that the new vault already has is compared, so you can run the script again at any time. With --replace, a
token that differs is deleted in the new vault and created again. With --fingerprints, id, old and new fingerprint of
each token are appended to a CSV file.
Ids, data, containers, metadata, masks, search indexes, fingerprint expressions and expiry stay the same. Creation
time, creator and fingerprint are new. CVCs are not copied. The script writes no data to a disk or to its output.
It ends if a vault cannot be reached for one minute, or is busy (status 429 or 503) for ten minutes.
Exit code 0: every token of the old vault is in the new vault, with the same data.
"""

import argparse
import csv
import http.client
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


# The longest time for one request, with its repetitions, while no connection succeeds or the vault is busy.
AWAY_SECONDS_MAX = 60
BUSY_SECONDS_MAX = 600


def check_variables():
    """Name all variables that are missing, before anything is sent."""
    names = ("OLD_URL", "OLD_KEY", "NEW_URL", "NEW_KEY")
    missing = [name for name in names if not os.environ.get(name, "").strip()]
    if missing:
        sys.exit("set and export " + ", ".join(missing))
    for name in ("OLD_URL", "NEW_URL"):
        parts = urllib.parse.urlsplit(os.environ[name].strip())
        if parts.scheme not in ("http", "https") or not parts.netloc:
            sys.exit(f"{name} must be an address such as https://vault.example")
        if parts.path.strip("/") or parts.query or parts.fragment:
            sys.exit(f"{name} must end after the host and the port: {parts.scheme}://{parts.netloc}")
    for name in ("OLD_KEY", "NEW_KEY"):
        # Imported keys may have no environment and no type, such as key_ and letters.
        if not re.fullmatch(r"key_\w+", os.environ[name].strip(), re.ASCII):
            sys.exit(f"{name} does not have the form of an API key: key_, then only letters, digits and _; "
                     "check that it is complete and on one line")


def parse(text):
    return json.loads(text, parse_float=lambda number: MARK + number)


def parse_object(vault, url, text):
    try:
        answer = parse(text or b"{}")
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        sys.exit(f"{vault}_URL ({url}) does not answer with a JSON object: it must be the address of the API")
    return answer


def render(value):
    return re.sub(f'"{MARK}([^"]*)"', r"\1", json.dumps(value)).encode()


def request(vault, method, path, body=None):
    """Return status and parsed response. Wait and repeat while the vault is busy or away, for a limited time."""
    url, key = os.environ[f"{vault}_URL"].strip().rstrip("/"), os.environ[f"{vault}_KEY"].strip()
    headers = {"BT-API-KEY": key, "Content-Type": "application/json"}
    content = None if body is None else render(body)
    started, last_problem = time.monotonic(), None
    while True:
        call = urllib.request.Request(url + path, content, headers, method=method)
        try:
            try:
                with urllib.request.urlopen(call, timeout=30) as response:
                    status, pause, text = response.status, None, response.read()
            except urllib.error.HTTPError as error:
                status, pause, text = error.code, error.headers.get("Retry-After"), error.read()
            if status not in (429, 503):
                return status, parse_object(vault, url, text)
            problem, limit = f"{vault}_URL ({url}) answers with status {status}", BUSY_SECONDS_MAX
            seconds = float(pause) if (pause or "").isdecimal() else 1.0
        except (OSError, http.client.HTTPException) as error:
            problem, limit = f"cannot connect to {vault}_URL ({url}): {getattr(error, 'reason', error)}", AWAY_SECONDS_MAX
            seconds = 1.0
        except ValueError:
            sys.exit(f"{vault}_URL ({url}) is not a valid address")
        if time.monotonic() - started + seconds > limit:
            sys.exit(f"{problem}; ended after {limit} seconds. Run the program again, it copies only missing tokens")
        if problem != last_problem:
            print(f"{problem}; waiting", file=sys.stderr, flush=True)
            last_problem = problem
        time.sleep(seconds)


def copied_part(token):
    part = {name: token[name] for name in COPIED if name in token}
    if isinstance(part.get("data"), dict) and part["type"] in ("card", "network_token"):
        part["data"].pop("cvc", None)
    return part


def token_path(id):
    return "/tokens/" + urllib.parse.quote(id, safe="")


def application_of(vault, permissions):
    """The application of the key, which must be private and have the permissions."""
    name = f"{vault}_KEY"
    status, application = request(vault, "GET", "/applications/key")
    if status != 200:
        sys.exit(f"{vault}_URL answers to {name} with status {status}: {application.get('detail') or 'no reason'}")
    if application.get("type") != "private":
        sys.exit(f"{name} is the key of a {application.get('type')} application; use the key of a private one")
    lists = [application, *(application.get("rules") or [])]
    granted = {permission for it in lists for permission in it.get("permissions") or []}
    missing = [it for it in permissions if it not in granted]
    if missing:
        sys.exit(f"{name} needs the permission {', '.join(missing)}")
    return application


def check_keys(replaces):
    """Another old key would copy masks as data, or only some of the tokens, without a message."""
    application = application_of("OLD", ["token:read"])
    rules = application.get("rules") or []
    if application.get("permissions") or any(rule["transform"] != "reveal" for rule in rules):
        sys.exit("OLD_KEY must have rules with the transform reveal only")
    if not any(rule.get("container") == "/" for rule in rules):
        sys.exit("OLD_KEY must have a rule for the container /, which covers all tokens")
    application_of("NEW", ["token:create", "token:read"] + (["token:delete"] if replaces else []))


def old_tokens(ids):
    """Yield pages of tokens of the old vault. A token that cannot be read is an id and a reason."""
    if ids:
        answers = ((id, *request("OLD", "GET", token_path(id))) for id in ids)
        yield [token if status == 200 else (id, f"status {status} in the old vault") for id, status, token in answers]
        return
    start = ""
    while start is not None:
        status, page = request("OLD", "GET", "/v2/tokens?size=100" + (start and f"&start={start}"))
        if status != 200:
            sys.exit(f"listing the old vault failed: status {status}: {page.get('detail')}")
        yield page["data"]
        start = page["pagination"]["next"]


def copy(token, replace):
    """Copy one token. Return "copied", "present", "replaced" or the reason of a failure, and the new token."""
    wanted = copied_part(token)
    if "data" not in wanted:
        return "the old key may not reveal this token", None
    # Reads first: a create that fails with 409 takes longer.
    status, answer = request("NEW", "GET", token_path(token["id"]))
    result = "present"
    different = [name for name in COPIED if status == 200 and wanted.get(name) != copied_part(answer).get(name)]
    if different and replace:
        status, answer = request("NEW", "DELETE", token_path(token["id"]))
    if status in (204, 404):
        result = "replaced" if status == 204 else "copied"
        status, answer = request("NEW", "POST", "/tokens", wanted | {"deduplicate_token": False})
    if status not in (200, 201):
        return f"status {status}: {answer.get('detail')} {sorted(answer.get('errors', {}))}", None
    different = [name for name in COPIED if wanted.get(name) != copied_part(answer).get(name)]
    return (f"differs in {different}", None) if different else (result, answer)


def main():
    parser = argparse.ArgumentParser(description="Copy tokens to another vault.")
    parser.add_argument("--replace", action="store_true", help="replace tokens that differ in the new vault")
    parser.add_argument("--fingerprints", metavar="FILE", help="append id, old and new fingerprint to a CSV file")
    parser.add_argument("ids", metavar="ID", nargs="*", help="tokens to copy; without ids, all of them")
    options = parser.parse_args()
    check_variables()
    check_keys(options.replace)
    counts = {"copied": 0, "present": 0, "replaced": 0, "failed": 0}
    file = open(options.fingerprints, "a", newline="") if options.fingerprints else None
    for page in old_tokens(options.ids):
        for token in page:
            if isinstance(token, dict):
                id, (result, created) = token["id"], copy(token, options.replace)
            else:
                (id, result), created = token, None
            if result not in counts:
                print(f"{id}: {result}", file=sys.stderr)
                result = "failed"
            elif file:
                csv.writer(file).writerow([id, token.get("fingerprint"), created.get("fingerprint")])
            counts[result] += 1
        if file:
            file.flush()
        print(" ".join(f"{name} {count}" for name, count in counts.items()), flush=True)
    sys.exit(1 if counts["failed"] else 0)


main()
