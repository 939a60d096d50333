"""Card details by BIN through the official Python client."""

import pytest
from basis_theory.core.api_error import ApiError


def test_card_details_have_the_networks_of_a_co_badged_bin(vault):
    for kind in ("public", "private", "management"):
        details = vault.client(kind).enrichments.card_details(bin="415058")
        assert (details.brand, details.funding, details.issuer.country) == ("visa", "credit", "FR")
        assert [(it.bin_min, it.bin_max) for it in details.bin_range] == [("41505800", "41505899")]
        assert [it.brand for it in details.additional] == ["cartes-bancaires"]


def test_unknown_bin_is_404_and_malformed_one_400(public):
    for bin, status in (("999999", 404), ("4150", 400)):
        with pytest.raises(ApiError) as error:
            public.enrichments.card_details(bin=bin)
        assert error.value.status_code == status
