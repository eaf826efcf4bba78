"""The same request gets the same answer on every edge: authz/vectors says which."""

import asyncio
import json

import pytest

from tests.vectors import core, edges, processes
from tests.vectors.answers import check, path_of
from tests.vectors.backends import backends
from tests.vectors.cases import CONFIGS, THEMES, TOKENS, vectors
from tests.vectors.sign import VECTORS, jwks, token


@pytest.mark.parametrize("theme", THEMES)
def test_the_pure_core_gives_the_vectors_answers(theme):
    """G1.67, G1.74, G1.75, G1.81, G1.83, G1.85"""

    async def all_of_them():
        for vector in vectors(theme):
            check(vector, await core.answer(vector, core.guard(vector.config)))

    asyncio.run(all_of_them())


def test_the_tokens_are_what_their_recipes_give():
    assert {name: one["text"] for name, one in TOKENS["tokens"].items()} == {
        name: token(recipe) for name, recipe in TOKENS["tokens"].items()
    }
    assert json.loads((VECTORS / "jwks.json").read_text()) == jwks()


def test_every_file_is_a_theme_and_no_two_vectors_share_a_name():
    others = {"configs", "backends", "jwks", "credentials"}
    assert {path.stem for path in VECTORS.glob("*.json")} == {*THEMES, *others}
    names = [str(vector) for vector in vectors()]
    assert len(names) == len(set(names)) >= 120


@pytest.fixture(scope="module")
def base():
    with backends() as found:
        yield found


def of(config):
    return [vector for vector in vectors() if vector.config == config]


@pytest.mark.parametrize("config", CONFIGS)
def test_the_local_server_gives_the_vectors_answers(config, base):
    """G1.56, G1.61, G1.68, G1.76, G1.81, G1.83, G1.84"""

    async def all_of_them():
        async with edges.portico(config, base) as gateway:
            for vector in of(config):
                check(vector, await edges.by_serve(vector, gateway, lines))

    with edges.noted() as lines:
        asyncio.run(all_of_them())


@pytest.mark.parametrize("config", CONFIGS)
def test_the_service_for_envoy_decides_all_that_it_can_and_the_gateway_the_rest(config, base):
    """G1.62"""

    async def all_of_them():
        service = edges.service_of(config)
        async with edges.portico(config, base) as gateway:
            for vector in of(config):
                found = await edges.by_service(vector, service, gateway, lines)
                check(vector, found)
                if vector.expect["decision"] == "refuse":
                    assert found.by == ("gateway" if vector.needs else "service"), str(vector)

    with edges.noted() as lines:
        asyncio.run(all_of_them())


@pytest.mark.parametrize("config", CONFIGS)
def test_the_lambda_authorizer_and_the_functions_behind_it_give_the_vectors_answers(config, base):
    """G1.71"""
    without = set()

    async def all_of_them():
        authorizer = edges.authorizer_of(config)
        async with edges.portico(config, base, behind_authorizer=True) as gateway:
            for vector in of(config):
                found = await edges.by_lambda(vector, authorizer, gateway, lines)
                if found is None:
                    without.add(path_of(vector))
                elif found.status == 401:
                    assert (found.status, vector.expect["status"]) == (401, 401), str(vector)
                    assert found.noted["reason"] == vector.expect["reason"], str(vector)
                else:
                    check(vector, found, remapped=True)
        authorizer.close()

    with edges.noted() as lines:
        asyncio.run(all_of_them())
    assert not without & {"/mcp", "/mcp/v/dev", "/status"}


@pytest.mark.parametrize("config", CONFIGS)
def test_portico_serve_gives_the_vectors_answers(config, base):
    """G1.60, G1.68, G1.75, G1.84, C26"""
    with processes.serving(config, base) as gateway:
        for vector in of(config):
            check(vector, processes.over_http(vector, gateway.base))
