"""Broken samples as negative controls. The runner fails unless it detects each of them."""

from dataclasses import dataclass


@dataclass
class Control:
    name: str
    label: str
    operation: str
    source: str
    finding: str


CONTROLS = [
    Control(
        "the command fails",
        "curl",
        "get_token",
        'curl -sS --fail-with-body "$SCRIP_URL/tokens/unknown" -H "BT-API-KEY: $SCRIP_KEY"',
        "ended with 22",
    ),
    Control(
        "the status is not checked",
        "curl",
        "delete_token",
        'curl -sS -X DELETE "$SCRIP_URL/tokens/unknown" -H "BT-API-KEY: $SCRIP_KEY"\n'
        'echo "deleted $TOKEN_ID"',
        "status 404",
    ),
    Control(
        "the output is discarded",
        "curl",
        "get_token",
        'curl -sS "$SCRIP_URL/tokens/$TOKEN_ID" -H "BT-API-KEY: $SCRIP_KEY" -o token.json',
        "does not print TOKEN_ID",
    ),
    Control(
        "no request is sent",
        "curl",
        "get_token",
        'echo "$TOKEN_ID 4242424242424242"',
        "sends no request",
    ),
    Control(
        "an error is caught",
        "Python",
        "get_token",
        "import os, urllib.request\n"
        "try:\n"
        "    urllib.request.urlopen(os.environ['SCRIP_URL'] + '/tokens/' + os.environ['TOKEN_ID'])\n"
        "except urllib.error.HTTPError:\n"
        "    print(os.environ['TOKEN_ID'], 4242424242424242)",
        "status 401",
    ),
    Control(
        "a value of another response is printed",
        "Python",
        "create_application",
        "print('9b0e1c52-0000-4000-8000-000000000000 Checkout page key_test')\n"
        "import json, os, urllib.request\n"
        "urllib.request.urlopen(urllib.request.Request(\n"
        "    os.environ['SCRIP_URL'] + '/applications',\n"
        "    headers={'BT-API-KEY': os.environ['SCRIP_MANAGEMENT_KEY'], 'Content-Type': 'application/json'},\n"
        "    data=json.dumps({'name': 'x', 'type': 'public', 'permissions': ['token:create']}).encode(),\n"
        "))",
        "does not print response.id",
    ),
    Control(
        "another operation is called",
        "Node.js",
        "get_token",
        "const { SCRIP_URL, TOKEN_ID } = process.env;\n"
        "await fetch(`${SCRIP_URL}/healthz`);\n"
        "console.log(TOKEN_ID, '4242424242424242');",
        "calls healthz",
    ),
    Control(
        "an error is written to standard error only",
        "Node.js",
        "healthz",
        "const response = await fetch(`${process.env.SCRIP_URL}/healthz`);\n"
        "console.log(await response.json());\n"
        "console.error('something is wrong');",
        "standard error",
    ),
]
