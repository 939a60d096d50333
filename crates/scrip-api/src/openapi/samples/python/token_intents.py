# Samples of the tag Token intents. One section for each operation: see CONTRIBUTING.md.

# operation: create_token_intent
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_KEY"], base_url=os.environ["SCRIP_URL"])

intent = client.token_intents.create(
    type="card",
    data={
        "number": "4242424242424242",
        "expiration_month": 12,
        "expiration_year": 2031,
        "cvc": "123",
    },
)
print(intent.id, intent.card.last4, intent.expires_at)

# operation: get_token_intent
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_KEY"], base_url=os.environ["SCRIP_URL"])

intent = client.token_intents.get(os.environ["TOKEN_INTENT_ID"])
print(intent.id, intent.card.last4, intent.expires_at)

# operation: delete_token_intent
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_KEY"], base_url=os.environ["SCRIP_URL"])

client.token_intents.delete(os.environ["TOKEN_INTENT_ID"])
print("deleted", os.environ["TOKEN_INTENT_ID"])
