# Samples of the tag Connections. One section for each operation: see CONTRIBUTING.md.

# operation: list_connection_formulas
# The client library has no method for this operation.
import json
import os
import urllib.request

request = urllib.request.Request(
    os.environ["SCRIP_URL"] + "/orchestration/connection_formulas",
    headers={"BT-API-KEY": os.environ["SCRIP_KEY"]},
)
with urllib.request.urlopen(request) as response:
    for formula in json.load(response):
        print(formula["id"], formula["display_name"])

# operation: list_connection_formulas_2
# The client library has no method for this operation.
import json
import os
import urllib.request

request = urllib.request.Request(
    os.environ["SCRIP_URL"] + "/orchestration/connection_formulas",
    headers={"BT-API-KEY": os.environ["SCRIP_KEY"]},
    method="POST",
)
with urllib.request.urlopen(request) as response:
    for formula in json.load(response):
        print(formula["id"], formula["display_name"])

# operation: list_connection_formulas_3
# The client library has no method for this operation.
import json
import os
import urllib.request

request = urllib.request.Request(
    os.environ["SCRIP_URL"] + "/orchestration/connection/formulas",
    headers={"BT-API-KEY": os.environ["SCRIP_KEY"]},
)
with urllib.request.urlopen(request) as response:
    for formula in json.load(response):
        print(formula["id"], formula["display_name"])

# operation: list_connection_formulas_4
# The client library has no method for this operation.
import json
import os
import urllib.request

request = urllib.request.Request(
    os.environ["SCRIP_URL"] + "/orchestration/connection/formulas",
    headers={"BT-API-KEY": os.environ["SCRIP_KEY"]},
    method="POST",
)
with urllib.request.urlopen(request) as response:
    for formula in json.load(response):
        print(formula["id"], formula["display_name"])
