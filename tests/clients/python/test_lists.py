"""Lists and searches through the official Python client and its own iterators."""

import pytest
from basis_theory.core.api_error import ApiError
from basis_theory.errors import BadRequestError, ForbiddenError

COUNT = 1000


@pytest.fixture(scope="module")
def listed(vault):
    """A thousand tokens in separate containers."""
    private = vault.client("private")
    for at in range(COUNT):
        private.tokens.create(
            id=f"listed-{at:04}",
            type="token",
            data=f"value-{at:04}",
            containers=[f"/listed/{at % 7}/"],
            metadata={"seventh": str(at % 7), "Kind": "Listed"},
            search_indexes=["{{ data }}"],
        )
    return private


def test_iterator_returns_all_tokens_of_all_pages(listed):
    found = [token.id for token in listed.tokens.list_v2(container="/listed/", size=100)]
    assert len(found) == COUNT
    assert sorted(found) == [f"listed-{at:04}" for at in range(COUNT)]
    containers = [token.containers[0] for token in listed.tokens.list_v2(container="/listed/", size=99)]
    assert containers == sorted(containers, reverse=True)


def test_list_filters_work(listed):
    sixth = list(listed.tokens.list_v2(container="/listed/6/", size=50))
    assert len(sixth) == COUNT // 7
    by_metadata = list(listed.tokens.list_v2(metadata={"seventh": "6"}, size=100))
    assert [token.id for token in by_metadata] == [token.id for token in sixth]
    one = listed.tokens.get("listed-0007")
    same = list(listed.tokens.list_v2(fingerprint=one.fingerprint))
    assert [token.id for token in same] == ["listed-0007"]
    assert same[0].data == one.data
    # The client has no error class for a rejected list.
    for wrong in [{"type": "token", "metadata": {"seventh": "6"}}, {"start": "nonsense"}]:
        with pytest.raises(ApiError) as rejected:
            listed.tokens.list_v2(**wrong)
        assert rejected.value.status_code == 400


def test_search_finds_tokens(vault, listed):
    found = list(listed.tokens.search_v2(query='data:"value-0042"'))
    assert [token.id for token in found] == ["listed-0042"]
    all_of_them = listed.tokens.search_v2(query="metadata.Kind:Listed", size=100)
    assert len({token.id for token in all_of_them}) == COUNT
    some = listed.tokens.search_v2(query='metadata.Kind:Listed AND container:"/listed/3/"', size=10)
    assert len(list(some)) == COUNT // 7 + 1
    with pytest.raises(BadRequestError):
        listed.tokens.search_v2(query="data:a OR data:b")
    with pytest.raises(ForbiddenError):
        vault.client("public").tokens.search_v2(query="data:a")
