# Samples of the tag Service. One section for each operation: see CONTRIBUTING.md.

# operation: healthz
# The client library has no method for this operation.
import json
import os
import urllib.request

with urllib.request.urlopen(os.environ["SCRIP_URL"] + "/healthz") as response:
    print(json.load(response))

# operation: readyz
# The client library has no method for this operation.
import json
import os
import urllib.request

with urllib.request.urlopen(os.environ["SCRIP_URL"] + "/readyz") as response:
    print(json.load(response))

# operation: ping
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key="", base_url=os.environ["SCRIP_URL"])

client.webhooks.ping()
print("reachable")

# operation: get_openapi
# The client library has no method for this operation.
import json
import os
import urllib.request

with urllib.request.urlopen(os.environ["SCRIP_URL"] + "/openapi.json") as response:
    document = json.load(response)
print(document["info"]["title"], document["info"]["version"])
for path in document["paths"]:
    print(path)

# operation: get_root
# The client library has no method for this operation.
import http.client
import os
from urllib.parse import urlsplit

server = urlsplit(os.environ["SCRIP_URL"])
https = server.scheme == "https"
connect = http.client.HTTPSConnection if https else http.client.HTTPConnection
connection = connect(server.netloc)
connection.request("GET", "/")
response = connection.getresponse()
print(response.status, response.headers["Location"])

# operation: get_docs
# The client library has no method for this operation.
import os
import urllib.request
from pathlib import Path

with urllib.request.urlopen(os.environ["SCRIP_URL"] + "/docs") as response:
    size = Path("docs.html").write_bytes(response.read())
    print(f"docs.html: {size} bytes of {response.headers['Content-Type']}")

# operation: get_docs_style
# The client library has no method for this operation.
import os
import urllib.request
from pathlib import Path

with urllib.request.urlopen(os.environ["SCRIP_URL"] + "/docs/style.css") as response:
    size = Path("style.css").write_bytes(response.read())
    print(f"style.css: {size} bytes of {response.headers['Content-Type']}")
