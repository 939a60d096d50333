# Samples of the tag Sessions. One section for each operation: see CONTRIBUTING.md.

# operation: create_access_session
# With the key of a public application. Send the nonce to your backend.
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_PUBLIC_KEY"], base_url=os.environ["SCRIP_URL"])

session = client.sessions.create()
print(session.session_key, session.nonce, session.expires_at)

# operation: authorize_access_session
# With the key of a private application.
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_KEY"], base_url=os.environ["SCRIP_URL"])

client.sessions.authorize(nonce=os.environ["NONCE"], permissions=["token:create"])
print("authorized")
