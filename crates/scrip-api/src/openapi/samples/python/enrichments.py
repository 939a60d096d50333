# Samples of the tag Enrichments. One section for each operation: see CONTRIBUTING.md.

# operation: get_card_details
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_KEY"], base_url=os.environ["SCRIP_URL"])

details = client.enrichments.card_details(bin="415058")
print(details.brand, details.funding, details.issuer.country)
for network in details.additional:
    print(network.brand)
