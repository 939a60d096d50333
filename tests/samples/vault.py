"""A vault of the real program, with a simulator of directory servers behind a recording relay."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

PAYMENT = {
    "authentication_category": "payment",
    "authentication_type": "payment-transaction",
    "purchase_info": {
        "amount": "8000",
        "currency": "826",
        "exponent": "2",
        "date": "20261109141010",
        "transaction_type": "purchase",
    },
    "merchant_info": {
        "mid": "9876543210001",
        "acquirer_bin": "000000999",
        "name": "A shop",
        "category_code": "7922",
        "country_code": "826",
    },
    "requestor_info": {"id": "1", "name": "A shop", "url": "https://shop.example"},
    "cardholder_info": {"name": "Ada Lovelace", "email": "ada@mail.example"},
}
BROWSER = {
    "browser_color_depth": "24",
    "browser_javascript_enabled": True,
    "browser_java_enabled": False,
    "browser_language": "en-US",
    "browser_screen_height": "600",
    "browser_screen_width": "800",
    "browser_tz": "0",
    "browser_user_agent": "Browser/1.0",
}
SUCCESSFUL_CARD = "4242424242424242"
CHALLENGED_CARD = "4200000000000004"


class Vault:
    def __init__(self, announced, directory):
        self.url = announced["url"]
        self.keys = announced["keys"]
        # The relay in front of the simulator: only the message to the directory server contains the
        # results URL.
        self.directory = directory

    def send(self, method, path, kind=None, body=None):
        """Returns the JSON of a successful response. Any other status is an error."""
        # A 3-D Secure session stores the Accept header of the browser.
        headers = {"Content-Type": "application/json", "Accept": "*/*"}
        if kind is not None:
            headers["BT-API-KEY"] = self.keys[kind]
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                text = response.read()
        except urllib.error.HTTPError as error:
            error.add_note(error.read().decode())
            raise
        return json.loads(text) if text else None

    def create_token(self, number=SUCCESSFUL_CARD, **attributes):
        data = {"number": number, "expiration_month": 12, "expiration_year": 2031}
        body = {"type": "card", "data": data, **attributes}
        return self.send("POST", "/tokens", "private", body)["id"]

    def create_application(self):
        body = {"name": "Sample", "type": "private", "permissions": ["token:read"]}
        return self.send("POST", "/applications", "management", body)

    def create_proxy(self):
        body = {"name": "Charges", "destination_url": "https://psp.example/v1"}
        return self.send("POST", "/proxies", "management", body)["id"]

    def create_local_proxy(self):
        """The key of a proxy to the destination of the suite."""
        body = {"name": "Local charges", "destination_url": self.destination}
        return self.send("POST", "/proxies", "management", body)["key"]

    def create_client_key(self):
        return self.send("POST", "/keys", "management")["key_id"]

    def create_webhook(self):
        body = {"name": "Orders", "url": "https://shop.example/webhooks", "events": ["token.created"]}
        return self.send("POST", "/webhooks", "management", body)["id"]

    def create_session(self, number, kind="private", **attributes):
        body = {"token_id": self.create_token(number), **attributes}
        return self.send("POST", "/3ds/sessions", kind, body)["id"]

    def wait_for_card_ranges(self):
        """Waits for the card ranges, which the vault fetches in the background after its start."""
        for _ in range(200):
            try:
                return self.create_session(SUCCESSFUL_CARD, type="merchant")
            except urllib.error.HTTPError as error:
                if error.code != 424:
                    raise
                time.sleep(0.05)
        raise AssertionError("the vault has no card ranges")

    def create_challenged_session(self):
        """A session with a started challenge, and the ids that its result must contain."""
        session = self.create_session(CHALLENGED_CARD, device="browser", device_info=BROWSER)
        outcome = self.send("POST", f"/3ds/sessions/{session}/authenticate", "private", PAYMENT)
        assert outcome["authentication_status"] == "challenge", outcome
        return {
            "SESSION_ID": session,
            "ACS_TRANSACTION_ID": outcome["acs_transaction_id"],
            "DS_TRANSACTION_ID": outcome["ds_transaction_id"],
            "RESULT_SECRET": self.result_secret(session),
        }

    def result_secret(self, session):
        for exchange in self.directory.exchanges:
            message = json.loads(exchange.request)
            if message["messageType"] == "AReq" and message["threeDSServerTransID"] == session:
                return message["threeDSServerURL"].rsplit("/", 1)[1]
        raise AssertionError(f"no authentication request for session {session}")

    def finish_challenge(self, challenged):
        """The result message of the directory server after a successful challenge."""
        message = {
            "messageType": "RReq",
            "messageVersion": "2.2.0",
            "messageCategory": "01",
            "threeDSServerTransID": challenged["SESSION_ID"],
            "acsTransID": challenged["ACS_TRANSACTION_ID"],
            "dsTransID": challenged["DS_TRANSACTION_ID"],
            "transStatus": "Y",
            "authenticationValue": "AAECAwQFBgcICQoLDA0ODxAREhM=",
            "eci": "05",
            "interactionCounter": "01",
        }
        path = "/3ds/sessions/{SESSION_ID}/results/{RESULT_SECRET}".format(**challenged)
        received = self.send("POST", path, body=message)
        assert received["messageType"] == "RRes", received


@contextmanager
def running(command, environment):
    """Starts a command and reads its ready message, a line of JSON."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        status = process.wait(timeout=30)
    # The program `contract-check` ends with 1 if a response is not in the OpenAPI document.
    if status != 0:
        raise SystemExit(f"{command[0]} ended with {status}: see standard error")


def find_program():
    return os.environ.get("SCRIP_CONTRACT_CHECK_PROGRAM", os.environ["SCRIP"])


def start_simulator():
    return running([find_program(), "simulator", "--listen", "127.0.0.1:0", "--json"], dict(os.environ))


@contextmanager
def start_vault(folder, directory):
    command = [os.environ["SCRIP"], "dev", "--data-dir", str(folder)]
    command += ["--listen", "127.0.0.1:0", "--json", "--rate-limits", "off"]
    settings = {"SCRIP_THREEDS_SIMULATOR_URL": directory.url, "SCRIP_LOG_FILTER": "error"}
    with running(command, {**os.environ, **settings}) as announced:
        # Each case creates webhooks of its own, while others run.
        quota = ["tenant", "quota", "set", announced["tenant_id"], "webhook_limit=100"]
        command = [find_program(), *quota, "--data-dir", str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        vault = Vault(announced, directory)
        vault.wait_for_card_ranges()
        yield vault
