"""The folders that come with the package are found."""

from __future__ import annotations

import pytest

from mcpl_core.cli.resources import resource_path


@pytest.mark.parametrize(("name", "file"), [("vectors", "uris.json"), ("examples", "echo_server.py")])
def test_a_folder_of_the_package(name: str, file: str) -> None:
    assert (resource_path(name) / file).is_file()


def test_a_folder_that_nobody_has() -> None:
    with pytest.raises(FileNotFoundError):
        resource_path("no such folder")
