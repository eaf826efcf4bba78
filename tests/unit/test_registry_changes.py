"""The registry: a change is seen, once, and as a change of what it changes."""

import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from portico.registry import (
    Backend,
    InvalidConfig,
    OAuth,
    Reference,
    Registry,
    Watch,
    changes,
    load,
    parse,
)
from tests.unit.declared import FULL, ONE, SAMPLE, backend


def settle(*files: Path) -> None:
    """Files last written long ago: a young one is read again each time."""
    for file in files:
        os.utime(file, ns=(0, file.stat().st_mtime_ns - 10_000_000_000))


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "portico.yaml"
    file.write_text(ONE)
    return file


def test_the_first_poll_reads_and_the_next_sees_no_change(config):
    """G1.37."""
    watch = Watch(config, version="7")
    assert watch.poll() == load(config, version="7")
    assert [watch.poll() for _ in range(3)] == [None, None, None]


def test_a_settled_file_is_not_read_again(config, monkeypatch):
    watch = Watch(config)
    settle(config)
    watch.poll()
    watch.poll()
    monkeypatch.setattr("portico.registry.watch.load", lambda *_, **__: pytest.fail("read"))
    assert watch.poll() is None


def test_a_change_is_seen_once(config):
    """G1.32, G1.37 (the part that is pure)."""
    watch = Watch(config)
    old = watch.poll()
    config.write_text(ONE[:-1] + ", second: {url: http://h/}}")
    new = watch.poll()
    assert [found.name for found in changes(old, new).added] == ["second"]
    assert watch.poll() is None


def test_a_change_of_the_same_size_at_the_same_time_is_seen(config):
    watch = Watch(config)
    watch.poll()
    watch.poll()
    before = config.stat()
    config.write_text(ONE.replace("9001", "9002"))
    os.utime(config, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert watch.poll().backends[0].url.endswith(":9002/mcp")


def test_a_file_put_in_the_place_of_another_is_seen(config):
    watch = Watch(config)
    settle(config)
    watch.poll()
    watch.poll()
    new = config.with_name("new.yaml")
    new.write_text(ONE.replace("9001", "9002"))
    os.utime(new, ns=(0, config.stat().st_mtime_ns))
    new.replace(config)
    assert watch.poll().backends[0].url.endswith(":9002/mcp")


def test_what_changes_nothing_is_no_change(config):
    watch = Watch(config)
    watch.poll()
    config.touch()
    assert watch.poll() is None
    config.write_text("# a comment\n" + ONE)
    assert watch.poll() is None


def test_a_broken_file_is_reported_once_and_its_repair_is_a_registry(config):
    """G1.34: the old configuration stays in force, which is the caller's to keep."""
    watch = Watch(config)
    good = watch.poll()
    config.write_text("backends: {")
    assert isinstance(watch.poll(), InvalidConfig)
    assert watch.poll() is None
    config.unlink()
    assert "found nothing" in str(watch.poll())
    assert watch.poll() is None
    config.write_text(ONE)
    assert watch.poll() == good


def test_a_file_that_goes_right_after_it_was_read_is_missed(config):
    watch = Watch(config)
    watch.poll()
    config.unlink()
    assert isinstance(watch.poll(), InvalidConfig)


def test_a_file_that_is_not_there_yet_is_waited_for(tmp_path):
    watch = Watch(tmp_path / "portico.yaml")
    assert isinstance(watch.poll(), InvalidConfig)
    (tmp_path / "portico.yaml").write_text(ONE)
    assert isinstance(watch.poll(), Registry)


def test_included_files_are_watched_too_even_the_missing_ones(config):
    """G1.32."""
    more = config.with_name("more.yaml")
    watch = Watch(config)
    watch.poll()
    config.write_text("include: [more.yaml]\n" + ONE)
    settle(config)
    assert isinstance(watch.poll(), InvalidConfig)
    more.write_text(SAMPLE)
    settle(more)
    assert len(watch.poll().backends) == 3
    assert watch.poll() is None
    more.write_text("servers: []")
    assert len(watch.poll().backends) == 1


CHANGED = {
    "hostname_given": "other.internal",
    "prefix": "other_",
    "url": "http://other/",
    "hostname": "other",
    "credential": Reference("env", "OTHER"),
    "ca_cert": Reference("env", "OTHER"),
    "enabled": False,
    "user_specific_list": True,
    "hint": "other",
    "category": ("other",),
    "tags": ("other",),
    "credential_use": frozenset({"call"}),
    "call_auth": "passthrough",
    "oauth": OAuth(client_id="other"),
    "forward_headers": (),
    "token_url": "http://other/",
}


@pytest.mark.parametrize("field", CHANGED)
def test_a_change_of_any_field_is_a_change_of_that_backend_only(field):
    """G1.37: the others are kept."""
    old = parse(FULL)
    first, *others = old.backends
    altered = replace(first, **{field: CHANGED[field] if field != "enabled" else not first.enabled})
    if field == "user_specific_list":
        altered = replace(first, user_specific_list=not first.user_specific_list)
    found = changes(old, replace(old, backends=(altered, *others)))
    assert found.changed == (altered,)
    assert found.kept == tuple(others)
    assert found.added == found.removed == ()
    assert found


def test_every_field_of_a_backend_is_among_those_a_change_of_is_seen():
    assert {field.name for field in fields(Backend)} == {*CHANGED, "name", "kind"}


def test_a_change_of_name_is_one_backend_gone_and_another_come():
    """G1.37."""
    old = parse(ONE)
    new = replace(old, backends=(backend(name="other"),))
    found = changes(old, new)
    assert (found.added, found.removed) == (new.backends, old.backends)
    assert found.changed == found.kept == ()


def test_order_and_whatever_is_not_a_backend_change_no_backend():
    """G1.37."""
    old = parse(FULL)
    found = changes(old, replace(old, backends=old.backends[::-1], store="memory"))
    assert not found
    assert len(found.kept) == 3


def test_reading_a_registry_imports_little():
    """A cold start is import time: no models, no network, no metadata unless asked."""
    code = "import sys, portico.registry as r; r.parse('{}', version='1'); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"pydantic", "importlib.metadata", "asyncio", "difflib", "socket", "ssl"}.isdisjoint(loaded)
    inside = {name for name in loaded if name.startswith("portico.")}
    assert {name for name in inside if not name.startswith("portico.registry")} == {"portico.redaction"}
