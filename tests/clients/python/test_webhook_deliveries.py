"""A receiver verifies deliveries of the real program with the secret of its webhook."""

import json
import threading
import time
import urllib.request
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import standardwebhooks.webhooks
from standardwebhooks import Webhook, WebhookVerificationError

from webhook_alterations import alter_body, alter_id, alter_time


def send(vault, kind, method, path, body=None):
    headers = {"BT-API-KEY": vault.keys[kind], "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(vault.url + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as response:
        text = response.read()
    return json.loads(text) if text else None


class Receiver:
    """A server on this machine and a webhook to it."""

    def __init__(self, vault, events):
        self.vault = vault
        self.deliveries = deliveries = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                headers = {name.lower(): value for name, value in self.headers.items()}
                deliveries.append({"headers": headers, "body": body})
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{self.server.server_port}/webhooks"
        body = {"name": "Orders", "url": url, "events": events}
        self.webhook = send(vault, "management", "POST", "/webhooks", body)
        self.secret = self.webhook["secret"]
        self.path = f"/webhooks/{self.webhook['id']}"

    def wait(self, text):
        """The first delivery with this text in its body."""
        for _ in range(300):
            for delivery in self.deliveries:
                if text in delivery["body"]:
                    return {"headers": dict(delivery["headers"]), "body": delivery["body"]}
            time.sleep(0.05)
        raise AssertionError("there is no delivery")

    def deliver_token(self):
        """Creates a token and returns its delivery."""
        body = {"type": "token", "data": "secret value", "metadata": {"city": "Zürich"}}
        return self.wait(send(self.vault, "private", "POST", "/tokens", body)["id"])

    def close(self):
        send(self.vault, "management", "DELETE", self.path)
        self.server.shutdown()


@pytest.fixture
def receiver(vault):
    receiver = Receiver(vault, ["token.created"])
    yield receiver
    receiver.close()


def verify(secret, delivery):
    return Webhook(secret).verify(delivery["body"], delivery["headers"])


def test_delivery_of_a_new_token_is_accepted(vault, receiver):
    delivery = receiver.deliver_token()
    event = verify(receiver.secret, delivery)["event"]
    assert event["type"] == "token.created"
    assert event["id"] == delivery["headers"]["webhook-id"]
    assert event["tenant_id"] == vault.tenant_id
    assert event["data"]["token"]["metadata"] == {"city": "Zürich"}
    assert "secret value" not in delivery["body"]


def remove_signature(delivery):
    del delivery["headers"]["webhook-signature"]


@pytest.mark.parametrize("alter", [alter_body, alter_id, alter_time, remove_signature])
def test_altered_delivery_is_rejected(receiver, alter):
    delivery = receiver.deliver_token()
    alter(delivery)
    with pytest.raises(WebhookVerificationError):
        verify(receiver.secret, delivery)


def test_old_delivery_is_rejected(receiver, monkeypatch):
    delivery = receiver.deliver_token()

    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz or timezone.utc) + timedelta(minutes=10)

    monkeypatch.setattr(standardwebhooks.webhooks, "datetime", Later)
    with pytest.raises(WebhookVerificationError):
        verify(receiver.secret, delivery)


def test_secret_of_another_webhook_is_rejected(vault, receiver):
    other = Receiver(vault, ["token.deleted"])
    try:
        with pytest.raises(WebhookVerificationError):
            verify(other.secret, receiver.deliver_token())
    finally:
        other.close()


def test_both_secrets_are_accepted_during_a_rotation(vault, receiver):
    rotated = send(vault, "management", "POST", f"{receiver.path}/secret")
    delivery = receiver.deliver_token()
    assert verify(rotated["secret"], delivery) == verify(receiver.secret, delivery)
    send(vault, "management", "POST", f"{receiver.path}/secret")
    with pytest.raises(WebhookVerificationError):
        verify(receiver.secret, receiver.deliver_token())


def test_test_event_is_delivered_and_replayed(vault, receiver):
    event_id = send(vault, "management", "POST", f"{receiver.path}/test")["event_id"]
    event = verify(receiver.secret, receiver.wait(event_id))["event"]
    assert event["type"] == "webhook.test"
    for _ in range(300):
        delivery = send(vault, "management", "GET", f"{receiver.path}/deliveries")["data"][0]
        if delivery["status"] == "delivered":
            break
        time.sleep(0.05)
    assert (delivery["status"], delivery["last_status_code"]) == ("delivered", 204)
    body = {"from": event["timestamp"]}
    replayed = send(vault, "management", "POST", f"{receiver.path}/replay", body)
    assert replayed == {"replayed": 1}
    for _ in range(300):
        if len(receiver.deliveries) == 2:
            break
        time.sleep(0.05)
    again = receiver.deliveries[1]
    assert verify(receiver.secret, again)["event"] == event
