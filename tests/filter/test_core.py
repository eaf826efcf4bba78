"""The core of the filter by itself: its own tests in Zig, and whatever bytes one can think of."""

import pytest

from tests.filter.built import HERE, SOURCES, make, native, wasm, zig
from tests.filter.fuzz import CORPUS, KINDS, corpus, fuzz, thrown

HOST = "host.zig"


def test_the_core_passes_its_own_tests(tmp_path):
    done = zig(
        "test", str(HERE / "core_test.zig"), "--cache-dir", str(tmp_path), "--global-cache-dir", str(tmp_path)
    )
    assert done.returncode == 0, done.stderr


def test_whatever_is_thrown_at_the_core_it_keeps_its_checks():
    """For a few seconds; `make fuzz ARGS="--seconds 600"` takes longer."""
    assert fuzz(10, seed=6) is None


@pytest.mark.parametrize("kind", KINDS)
def test_whenever_memory_ends_it_is_an_error_and_nothing_else(kind):
    library = str(native())
    for data in corpus(kind):
        plain = thrown(library, kind, data)
        ways = [thrown(library, kind, data, number) for number in range(60)]
        assert set(ways) <= {plain, ways[0]}, data
        assert ways[-1] == plain


def test_everything_in_the_corpus_is_thrown_at_something():
    assert {path.name.partition("-")[0] for path in CORPUS.iterdir()} == set(KINDS)


def test_the_core_knows_no_host():
    for file in (SOURCES / "core").glob("*.zig"):
        assert HOST not in file.read_text(), file
        assert 'extern "env"' not in file.read_text(), file


def test_the_same_sources_give_the_same_bytes_and_few_of_them(tmp_path):
    again = make(tmp_path).read_bytes()
    assert again == wasm().read_bytes()
    assert len(again) <= 300_000
