# Samples of the tag Client encryption keys. One section for each operation: see CONTRIBUTING.md.

# operation: list_client_keys
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

for key in client.keys.list():
    print(key.key_id, key.expires_at)

# operation: create_client_key
# Publish the public key of the response in your pages and apps. Without expires_at, the key
# lives for one year.
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

key = client.keys.create()
print(key.key_id, key.expires_at)
print(key.public_key_pem)

# operation: get_client_key
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

key = client.keys.get(os.environ["CLIENT_KEY_ID"])
print(key.key_id, key.expires_at)

# operation: delete_client_key
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

client.keys.delete(os.environ["CLIENT_KEY_ID"])
print("deleted", os.environ["CLIENT_KEY_ID"])

# operation: get_client_public_key
# The client library has no call for it.
import json
import os
from urllib.request import Request, urlopen

url = f"{os.environ['SCRIP_URL']}/keys/{os.environ['CLIENT_KEY_ID']}/public-key"
with urlopen(Request(url, headers={"BT-API-KEY": os.environ["SCRIP_KEY"]})) as response:
    print(json.load(response)["public_key_pem"])
