# Samples of the tag API keys. One section for each operation: see CONTRIBUTING.md.

# operation: regenerate_application_key
# Removed: the response is always 410. Create a second key and delete the old one.
# The client library has no method for this operation.
import json
import os
import urllib.error
import urllib.request

request = urllib.request.Request(
    f"{os.environ['SCRIP_URL']}/applications/{os.environ['APPLICATION_ID']}/regenerate",
    headers={"BT-API-KEY": os.environ["SCRIP_KEY"]},
    method="POST",
)
try:
    urllib.request.urlopen(request)
except urllib.error.HTTPError as error:
    if error.code != 410:
        raise
    print(error.code, json.load(error)["detail"])

# operation: list_api_keys
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

for key in client.application_keys.list(os.environ["APPLICATION_ID"]):
    print(key.id, key.created_at)

# operation: create_api_key
# The response is the only one that shows the key.
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

key = client.application_keys.create(os.environ["APPLICATION_ID"])
print(key.id, key.key)

# operation: get_api_key
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

key = client.application_keys.get(os.environ["APPLICATION_ID"], os.environ["API_KEY_ID"])
print(key.id, key.created_at)

# operation: delete_api_key
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

client.application_keys.delete(os.environ["APPLICATION_ID"], os.environ["API_KEY_ID"])
print("deleted", os.environ["API_KEY_ID"])
