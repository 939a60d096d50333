"""The Python code of docs/webhooks.md verifies deliveries that the program signed."""

import json
import re
import subprocess
import time
from pathlib import Path

import pytest
from standardwebhooks import WebhookVerificationError

from webhook_alterations import alter_body, alter_id, alter_time

ROOT = Path(__file__).resolve().parents[3]
SIGN_DELIVERY = ROOT / "target/debug/examples/sign_delivery"


def sign(age=0, *options):
    """A delivery that was signed this many seconds ago."""
    command = [SIGN_DELIVERY, str(int(time.time()) - age), *options]
    return json.loads(subprocess.check_output(command, text=True))


@pytest.fixture(scope="module")
def verify():
    page = (ROOT / "docs/webhooks.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    names = {}
    exec(blocks[0], names)
    return lambda delivery: names["verify_delivery"](
        delivery["secret"], delivery["headers"], delivery["body"]
    )


def test_signed_delivery_is_accepted(verify):
    delivery = sign()
    assert verify(delivery) == json.loads(delivery["body"])
    assert verify(delivery)["event"]["id"] == delivery["headers"]["webhook-id"]


def test_delivery_during_a_rotation_is_accepted_with_the_previous_secret(verify):
    delivery = sign(0, "--rotated")
    assert len(delivery["headers"]["webhook-signature"].split(" ")) == 2
    assert verify(delivery)


def take_secret_of_another_webhook(delivery):
    delivery["secret"] = sign()["secret"]


def remove_signature(delivery):
    del delivery["headers"]["webhook-signature"]


@pytest.mark.parametrize(
    "alter",
    [alter_body, alter_id, alter_time, take_secret_of_another_webhook, remove_signature],
)
def test_altered_delivery_is_rejected(verify, alter):
    delivery = sign()
    alter(delivery)
    with pytest.raises(WebhookVerificationError):
        verify(delivery)


def test_old_delivery_is_rejected(verify):
    with pytest.raises(WebhookVerificationError):
        verify(sign(600))
