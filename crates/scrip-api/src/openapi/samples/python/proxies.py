# Samples of the tag Proxies. One section for each operation: see CONTRIBUTING.md.

# operation: list_proxies
# `*` stands for any characters of the name. The iterator fetches the next page when it needs one.
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

for proxy in client.proxies.list(name="charge*", size=100):
    print(proxy.id, proxy.name)

# operation: create_proxy
# The key in the response selects the proxy: send it as BT-PROXY-KEY.
import os

from basis_theory import BasisTheory, ProxyTransform

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

proxy = client.proxies.create(
    name="Charges",
    destination_url="https://psp.example/v1",
    configuration={"secret": "sk_test_1"},
    response_transforms=[
        ProxyTransform(
            type="mask",
            matcher="regex",
            expression='"number":"(\\d+)"',
            replacement="*",
        )
    ],
)
print(proxy.id, proxy.name, proxy.key)

# operation: get_proxy
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

proxy = client.proxies.get(os.environ["PROXY_ID"])
print(proxy.id, proxy.name, proxy.destination_url)

# operation: update_proxy
# Replaces all attributes. Absent attributes get their defaults.
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

proxy = client.proxies.update(
    os.environ["PROXY_ID"],
    name="Charges and refunds",
    destination_url="https://psp.example/v2",
)
print(proxy.id, proxy.name, proxy.destination_url)

# operation: patch_proxy
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

client.proxies.patch(os.environ["PROXY_ID"], configuration={"secret": "sk_test_2"})
print("changed", os.environ["PROXY_ID"])

# operation: delete_proxy
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

client.proxies.delete(os.environ["PROXY_ID"])
print("deleted", os.environ["PROXY_ID"])

# operation: set_proxy_client_certificate
# The client library has no method for this operation.
import json
import os
import urllib.request
from pathlib import Path

body = {
    "certificate_pem": Path(os.environ["CERTIFICATE_FILE"]).read_text(),
    "private_key_pem": Path(os.environ["PRIVATE_KEY_FILE"]).read_text(),
}
request = urllib.request.Request(
    f"{os.environ['SCRIP_URL']}/proxies/{os.environ['PROXY_ID']}/client-certificate",
    data=json.dumps(body).encode(),
    headers={"BT-API-KEY": os.environ["SCRIP_MANAGEMENT_KEY"], "Content-Type": "application/json"},
    method="PUT",
)
with urllib.request.urlopen(request) as response:
    certificate = json.load(response)
print(certificate["subject"], certificate["sha256"], certificate["not_after"])

# operation: delete_proxy_client_certificate
# The client library has no method for this operation.
import os
import urllib.request

request = urllib.request.Request(
    f"{os.environ['SCRIP_URL']}/proxies/{os.environ['PROXY_ID']}/client-certificate",
    headers={"BT-API-KEY": os.environ["SCRIP_MANAGEMENT_KEY"]},
    method="DELETE",
)
urllib.request.urlopen(request).close()
print("deleted the certificate of", os.environ["PROXY_ID"])

# operation: invoke_proxy_get
# Asks the destination. Expressions in header values work for every method.
import json
import os
import urllib.request

request = urllib.request.Request(
    f"{os.environ['SCRIP_URL']}/proxy",
    headers={"BT-API-KEY": os.environ["SCRIP_KEY"], "BT-PROXY-KEY": os.environ["PROXY_KEY"]},
    method="GET",
)
with urllib.request.urlopen(request) as response:
    print(json.load(response))

# operation: invoke_proxy_post
# The vault replaces the expression: the destination gets the number, and this program never has it.
import json
import os
import urllib.request

number = "{{ %s | json: '$.number' }}" % os.environ["TOKEN_ID"]
request = urllib.request.Request(
    f"{os.environ['SCRIP_URL']}/proxy",
    data=json.dumps({"amount": 1500, "number": number}).encode(),
    headers={
        "BT-API-KEY": os.environ["SCRIP_KEY"],
        "BT-PROXY-KEY": os.environ["PROXY_KEY"],
        "Content-Type": "application/json",
    },
    method="POST",
)
with urllib.request.urlopen(request) as response:
    print(json.load(response))

# operation: invoke_proxy_put
# Replaces an object of the destination.
import json
import os
import urllib.request

number = "{{ %s | json: '$.number' }}" % os.environ["TOKEN_ID"]
request = urllib.request.Request(
    f"{os.environ['SCRIP_URL']}/proxy",
    data=json.dumps({"amount": 1500, "number": number}).encode(),
    headers={
        "BT-API-KEY": os.environ["SCRIP_KEY"],
        "BT-PROXY-KEY": os.environ["PROXY_KEY"],
        "Content-Type": "application/json",
    },
    method="PUT",
)
with urllib.request.urlopen(request) as response:
    print(json.load(response))

# operation: invoke_proxy_patch
# Changes an object of the destination.
import json
import os
import urllib.request

number = "{{ %s | json: '$.number' }}" % os.environ["TOKEN_ID"]
request = urllib.request.Request(
    f"{os.environ['SCRIP_URL']}/proxy",
    data=json.dumps({"amount": 1500, "number": number}).encode(),
    headers={
        "BT-API-KEY": os.environ["SCRIP_KEY"],
        "BT-PROXY-KEY": os.environ["PROXY_KEY"],
        "Content-Type": "application/json",
    },
    method="PATCH",
)
with urllib.request.urlopen(request) as response:
    print(json.load(response))

# operation: invoke_proxy_delete
# Deletes an object of the destination.
import json
import os
import urllib.request

request = urllib.request.Request(
    f"{os.environ['SCRIP_URL']}/proxy",
    headers={"BT-API-KEY": os.environ["SCRIP_KEY"], "BT-PROXY-KEY": os.environ["PROXY_KEY"]},
    method="DELETE",
)
with urllib.request.urlopen(request) as response:
    print(json.load(response))
