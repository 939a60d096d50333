# Samples of the tag Webhooks. One section for each operation: see CONTRIBUTING.md.

# operation: list_webhooks
# The client library reads the first page: 20 webhooks.
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

for webhook in client.webhooks.list().data:
    print(webhook.id, webhook.name)

# operation: create_webhook
# Store the secret of the response: no other response contains it.
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

webhook = client.webhooks.create(
    name="Orders",
    url="https://shop.example/webhooks/scrip",
    events=["token.created", "token.deleted"],
    notify_email="ops@shop.example",
)
print(webhook.id, webhook.name, webhook.secret)

# operation: list_webhook_event_types
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

print(client.webhooks.events.list())

# operation: get_webhook
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

webhook = client.webhooks.get(os.environ["WEBHOOK_ID"])
print(webhook.id, webhook.name, webhook.url)

# operation: update_webhook
# Replaces all attributes. The status stays.
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

webhook = client.webhooks.update(
    os.environ["WEBHOOK_ID"],
    name="Orders and refunds",
    url="https://shop.example/webhooks/v2",
    events=["token.created"],
)
print(webhook.id, webhook.name, webhook.url)

# operation: delete_webhook
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

client.webhooks.delete(os.environ["WEBHOOK_ID"])
print("deleted", os.environ["WEBHOOK_ID"])

# operation: rotate_webhook_secret
# The client library has no method for this operation. The previous secret stays valid for 24 hours.
import json
import os
import urllib.request

url = f"{os.environ['SCRIP_URL']}/webhooks/{os.environ['WEBHOOK_ID']}/secret"
headers = {"BT-API-KEY": os.environ["SCRIP_MANAGEMENT_KEY"]}
request = urllib.request.Request(url, method="POST", headers=headers)
with urllib.request.urlopen(request) as response:
    webhook = json.load(response)
print(webhook["id"], webhook["secret"])

# operation: list_webhook_deliveries
# The client library has no method for this operation.
import json
import os
import urllib.request

url = f"{os.environ['SCRIP_URL']}/webhooks/{os.environ['WEBHOOK_ID']}/deliveries?size=100"
request = urllib.request.Request(url, headers={"BT-API-KEY": os.environ["SCRIP_MANAGEMENT_KEY"]})
with urllib.request.urlopen(request) as response:
    page = json.load(response)
for delivery in page["data"]:
    print(delivery["event_id"], delivery["event_type"], delivery["status"])

# operation: test_webhook
# The client library has no method for this operation.
import json
import os
import urllib.request

url = f"{os.environ['SCRIP_URL']}/webhooks/{os.environ['WEBHOOK_ID']}/test"
headers = {"BT-API-KEY": os.environ["SCRIP_MANAGEMENT_KEY"]}
request = urllib.request.Request(url, method="POST", headers=headers)
with urllib.request.urlopen(request) as response:
    delivery = json.load(response)
print(delivery["event_id"], delivery["event_type"], delivery["status"])

# operation: replay_webhook_deliveries
# The client library has no method for this operation. Repeats all events since this time, with the same ids.
import json
import os
import urllib.request

url = f"{os.environ['SCRIP_URL']}/webhooks/{os.environ['WEBHOOK_ID']}/replay"
headers = {"BT-API-KEY": os.environ["SCRIP_MANAGEMENT_KEY"], "Content-Type": "application/json"}
body = json.dumps({"from": "2026-11-01T00:00:00+00:00"}).encode()
request = urllib.request.Request(url, body, headers, method="POST")
with urllib.request.urlopen(request) as response:
    print("replayed", json.load(response)["replayed"])

# operation: get_webhook_key
# The client library has no method for this operation.
import os
import urllib.request

with urllib.request.urlopen(os.environ["SCRIP_URL"] + "/.well-known/webhooks.v1.key") as response:
    print(response.read().decode())
