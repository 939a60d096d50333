# Samples of the tag Tokens. One section for each operation: see CONTRIBUTING.md.

# operation: list_tokens_v1
# Deprecated: use client.tokens.list_v2. The client library has no method for this operation.
import json
import os
import urllib.request

request = urllib.request.Request(
    os.environ["SCRIP_URL"] + "/tokens?metadata.customer=7&page=1&size=20",
    headers={"BT-API-KEY": os.environ["SCRIP_KEY"]},
)
with urllib.request.urlopen(request) as response:
    for token in json.load(response)["data"]:
        print(token["id"], token["type"], token["metadata"])

# operation: create_token
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_KEY"], base_url=os.environ["SCRIP_URL"])

token = client.tokens.create(
    type="card",
    data={
        "number": "4242424242424242",
        "expiration_month": 12,
        "expiration_year": 2031,
        "cvc": "123",
    },
    metadata={"customer": "7"},
)
print(token.id, token.card.brand, token.card.last4)

# operation: get_token
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_KEY"], base_url=os.environ["SCRIP_URL"])

token = client.tokens.get(os.environ["TOKEN_ID"])
print(token.id, token.data)

# operation: update_token
# A merge patch: None removes an attribute.
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_KEY"], base_url=os.environ["SCRIP_URL"])

token = client.tokens.update(
    os.environ["TOKEN_ID"],
    data={"expiration_year": 2032},
    metadata={"customer": None},
)
print(token.id, token.data)

# operation: delete_token
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_KEY"], base_url=os.environ["SCRIP_URL"])

client.tokens.delete(os.environ["TOKEN_ID"])
print("deleted", os.environ["TOKEN_ID"])

# operation: list_tokens
# The iterator fetches the next page when it needs one.
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_KEY"], base_url=os.environ["SCRIP_URL"])

for token in client.tokens.list_v2(metadata={"customer": "7"}, size=20):
    print(token.id, token.type, token.metadata)

# operation: search_tokens
# The iterator fetches the next page when it needs one.
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_KEY"], base_url=os.environ["SCRIP_URL"])

for token in client.tokens.search_v2(query="metadata.customer:7", size=20):
    print(token.id, token.type, token.metadata)

# operation: search_tokens_v1
# Deprecated: use client.tokens.search_v2. The client library has no method for this operation.
import json
import os
import urllib.request

request = urllib.request.Request(
    os.environ["SCRIP_URL"] + "/tokens/search",
    headers={"BT-API-KEY": os.environ["SCRIP_KEY"], "Content-Type": "application/json"},
    data=json.dumps({"query": "metadata.customer:7", "page": 1}).encode(),
)
with urllib.request.urlopen(request) as response:
    for token in json.load(response)["data"]:
        print(token["id"], token["type"], token["metadata"])

# operation: tokenize
# Each plain value and each object with a type becomes a token.
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_KEY"], base_url=os.environ["SCRIP_URL"])

tokens = client.tokens.tokenize(
    request={
        "name": "Ada Lovelace",
        "card": {"type": "card", "data": {"number": "4242424242424242"}},
    }
)
print(tokens["name"], tokens["card"]["id"], tokens["card"]["type"])

# operation: detokenize
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_KEY"], base_url=os.environ["SCRIP_URL"])

token_id = os.environ["TOKEN_ID"]
values = client.tokens.detokenize(
    request={
        "number": "{{ %s | json: '$.number' }}" % token_id,
        "last4": "{{ %s | json: '$.number' | last4 }}" % token_id,
    }
)
print(values)
