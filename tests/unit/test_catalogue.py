from portico.catalogue import Listing, merge


def listing(backend, *addresses, templates=()):
    resources = [{"uri": uri, "name": uri} for uri in addresses]
    return Listing(
        backend,
        f"{backend}_",
        resources=resources,
        templates=[{"uriTemplate": text, "name": text} for text in templates],
    )


def test_an_address_in_no_listing_belongs_to_the_only_backend_with_its_scheme():
    """A tool may link to what no listing has."""
    catalogue = merge(
        [listing("a", "memo://one", "file:///a"), listing("b", "file:///b", templates=["db://{table}/rows"])]
    )
    assert catalogue.owner("memo://two") == "a"
    assert catalogue.owner("DB://people") == "b"
    assert catalogue.owner("file:///b") == "b"
    assert catalogue.owner("file:///c") is None
    assert catalogue.owner("other://x") is None
